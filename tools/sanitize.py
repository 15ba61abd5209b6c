"""Tests of the core in a build that stops at undefined behaviour and at memory that is not its own.

    python tools/sanitize.py                     # tests/core and tests/reference
    python tools/sanitize.py tests/policies      # others

The build, by GCC with -fsanitize=address,undefined, is in build/sanitize; the first takes some minutes.
"""

import os
import subprocess
import sys
from pathlib import Path

from levels import build

ROOT = Path(__file__).resolve().parents[1]


def main(tests: list[str]) -> int:
    """Builds, then runs pytest with that build."""
    directory = ROOT / "build" / "sanitize"
    build(directory, {"LINMED_SANITIZE": "address,undefined"}, os.cpu_count() or 1)
    core = next(directory.glob("_core*.so"))
    compiler = os.environ.get("CXX", "c++")
    # The interpreter was built without: the sanitizer must be there before it starts, and C++ for exceptions.
    libraries = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libstdc++.so")
    ]
    environment = {
        **os.environ,
        "LINMED_CORE": str(core),
        "LD_PRELOAD": " ".join(libraries),
        # Python leaves much to the end of the process.
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",  # so that NumPy's small arrays are watched too
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-o", "addopts="]
    return subprocess.run(
        [*command, *(tests or ["tests/core", "tests/reference"])], cwd=ROOT, env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
