"""Builds what is uploaded, and tries what this machine can run: `make release`.

    python tools/release.py                  # the source archive and all wheels, in dist/, checked and tried
    python tools/release.py linux-x86_64     # the two wheels for one kind of machine, checked

Zig compiles for every kind of machine. There are two wheels for each: one for Python 3.11, one for 3.12 and
all later versions (the stable ABI). Python's headers are those of interpreters on the PATH: python3.11, and
the first of python3.12, python3.13, python3.14. Each of these also tries the wheel for it.
"""

import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import build_backend

ROOT = build_backend.ROOT
DIST = ROOT / "dist"


class Target(NamedTuple):
    """A kind of machine."""

    zig: str
    platforms: tuple[str, ...]
    """As wheels name them."""
    levels: str = "native"
    """Of x86-64 instructions; there are none elsewhere."""


TARGETS = {
    "linux-x86_64": Target(
        "x86_64-linux-gnu.2.17", ("manylinux_2_17_x86_64", "manylinux2014_x86_64"), "2;3;4"
    ),
    "linux-aarch64": Target("aarch64-linux-gnu.2.17", ("manylinux_2_17_aarch64", "manylinux2014_aarch64")),
    "macos-x86_64": Target("x86_64-macos.11.0", ("macosx_11_0_x86_64",), "2;3"),
    "macos-arm64": Target("aarch64-macos.11.0", ("macosx_11_0_arm64",)),
    "windows-x86_64": Target("x86_64-windows-gnu", ("win_amd64",), "2;3;4"),
}
PYTHONS = {"3.11": "cp311-cp311", "3.12": "cp312-abi3"}


class Python(NamedTuple):
    """An interpreter of this machine."""

    program: str
    headers: str
    """The folder with Python.h."""


def interpreters() -> dict[int, Python]:
    """Each Python 3.x that runs here, from 3.11 on, by x."""
    ask = "import sys, sysconfig; print(sys.version_info[1], sysconfig.get_path('include'), sep='\\n')"
    named = (shutil.which(f"python3.{minor}") for minor in range(11, 15))
    found: dict[int, Python] = {}
    for program in filter(None, [sys.executable, *named]):
        done = subprocess.run([program, "-c", ask], capture_output=True, text=True, check=False)
        if done.returncode == 0:  # a version manager may have put a name there with nothing behind it
            minor, headers = done.stdout.splitlines()
            found.setdefault(int(minor), Python(program, headers))
    return found


def build(target: Target, python: str, headers: str) -> Path:
    """One wheel, in dist/."""
    settings = {
        **build_backend.zig_settings(target.zig),
        "cmake.define.LINMED_PYTHON": python,
        "cmake.define.LINMED_HEADERS": headers,
        "cmake.define.LINMED_LEVELS": target.levels,
        "build-dir": f"build/{target.zig}-{python}",
        "install.strip": "false",  # no symbols are linked in; this machine's strip may not know the format
        "wheel.tags": [f"{PYTHONS[python]}-{platform}" for platform in target.platforms],
    }
    return DIST / build_backend.build_wheel(str(DIST), settings)


def check(files: list[Path]) -> None:
    """The metadata, the contents, the stable ABI where it is promised, and which Linux systems can run it."""
    wheels = [file for file in files if file.suffix == ".whl"]
    _run("twine", "check", "--strict", *files)
    _run("check-wheel-contents", "--ignore", "W002", *wheels)  # empty __init__.py files are the same file
    if stable := [wheel for wheel in wheels if "abi3" in wheel.name]:
        _run("abi3audit", "--strict", "--summary", *stable)
    for wheel in wheels:
        if "manylinux" in wheel.name:
            _run("auditwheel", "show", wheel)


def try_out(python: str, package: Path) -> None:
    """Install it into an empty environment, where pip adds NumPy, and run the README's example there."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S)
    with tempfile.TemporaryDirectory() as folder:
        _run(python, "-m", "venv", folder)
        inside = Path(folder, "bin", "python")
        _run(inside, "-m", "pip", "install", "--quiet", "--prefer-binary", package)
        _run(inside, "-c", f"{example}\nimport sys\nprint(sys.version, 'has run the example')", cwd=folder)


def _run(program: object, *words: object, cwd: str | None = None) -> None:
    beside = shutil.which(str(program), path=str(Path(sys.executable).parent))
    subprocess.run([beside or str(program), *map(str, words)], check=True, cwd=cwd)


def main() -> None:
    """All that is uploaded, tried; or wheels alone, for the machines that are named."""
    asked = sys.argv[1:]
    pythons = interpreters()
    later = [pythons[minor] for minor in sorted(pythons) if minor > 11]
    if 11 not in pythons or not later:
        sys.exit("wheels need the headers of two Pythons: put python3.11 and python3.12 or later on the PATH")
    DIST.mkdir(exist_ok=True)
    made = []
    for name in TARGETS if asked in ([], ["all"]) else asked:
        for version, python in zip(PYTHONS, (pythons[11], later[0]), strict=True):
            began = time.perf_counter()
            made.append(wheel := build(TARGETS[name], version, python.headers))
            size, took = wheel.stat().st_size / 1e6, time.perf_counter() - began
            print(f"{wheel.name}: {size:.1f} MB in {took:.0f} s", flush=True)
    if asked:
        return check(made)
    source = DIST / build_backend.build_sdist(str(DIST))
    check([*made, source])
    here = f"manylinux_2_17_{platform.machine()}"
    for minor, python in pythons.items():
        tag = "cp311" if minor == 11 else "abi3"
        try_out(python.program, next(file for file in made if tag in file.name and here in file.name))
    try_out(pythons[11].program, source)


if __name__ == "__main__":
    main()
