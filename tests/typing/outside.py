"""Our types as users see them: from outside the project, in an environment where linmed is installed.

    python tests/typing/outside.py mypy pyright

Checks `uses.py` and every file of examples/, strictly, in a folder of their own.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = [Path(__file__).with_name("uses.py"), *sorted((ROOT / "examples").glob("*.py"))]


def installed(folder: Path) -> Path:
    """The Python of an environment with linmed as a wheel would install it, and all else from this one."""
    venv.create(folder, symlinks=sys.platform != "win32")
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip())
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "linmed", packages / "linmed", ignore=compiled)
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def check(tool: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """What mypy or pyright says of the files, copied to `folder`."""
    python = installed(folder / "environment")
    user = folder / "user"
    user.mkdir()
    for file in FILES:
        shutil.copy(file, user)
    if tool == "mypy":
        options = ["--strict", f"--python-executable={python}", f"--cache-dir={folder / 'cache'}"]
        # pyarrow has no types of its own; that is not ours to judge.
        (user / "mypy.ini").write_text("[mypy]\n[mypy-pyarrow.*]\nignore_missing_imports = True\n")
    else:
        options = [f"--pythonpath={python}"]
    words = [sys.executable, "-m", tool, *options, "."]
    ours = {"PYTHONPATH", "MYPYPATH", "VIRTUAL_ENV"}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.run(words, cwd=user, env=environment, capture_output=True, text=True)


def main(tools: list[str]) -> int:
    """Each of them; not 0 where one has found something."""
    worst = 0
    for tool in tools:
        with tempfile.TemporaryDirectory(prefix="linmed-typing-") as folder:
            done = check(tool, Path(folder))
        print(f"{tool}, from outside: {(done.stdout + done.stderr).strip()}")
        worst = max(worst, done.returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
