"""Wheels for Linux, macOS and Windows, built here: `make wheels`, or `make wheels ARGS=linux-x86_64`.

Zig compiles for every machine. There are two wheels for each: one for Python 3.11, one for 3.12 and all later
versions (the stable ABI). Python's headers are needed for both: $LINMED_HEADERS is a folder with the unpacked
sources of CPython 3.11 and 3.13 (Python-3.11.2 and Python-3.13.5, say). Without it the wheels for 3.11 are
built, if that is the interpreter, with its own. Then they are checked as far as this machine can.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import NamedTuple

import build_backend

DIST = build_backend.ROOT / "dist"


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
SOURCES = {"3.11": "Python-3.11*/Include", "3.12": "Python-3.13*/Include"}


def headers(python: str) -> Path | None:
    """The folder with Python.h for the wheels of this version, if there is one."""
    folder = os.environ.get("LINMED_HEADERS")
    if folder:
        return next(iter(sorted(Path(folder).resolve().glob(SOURCES[python]))), None)
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return Path(sysconfig.get_path("include")) if python == own else None


def build(target: Target, python: str, levels: str | None = None) -> Path:
    """One wheel, in dist/."""
    settings = {
        **build_backend.zig_settings(target.zig),
        "cmake.define.LINMED_PYTHON": python,
        "cmake.define.LINMED_HEADERS": str(headers(python)),
        "cmake.define.LINMED_LEVELS": levels or target.levels,
        "build-dir": f"build/{target.zig}-{python}",
        "install.strip": "false",  # no symbols are linked in; this machine's strip may not know the format
        "wheel.tags": [f"{PYTHONS[python]}-{platform}" for platform in target.platforms],
    }
    DIST.mkdir(exist_ok=True)
    return DIST / build_backend.build_wheel(str(DIST), settings)


def check(wheels: list[Path]) -> None:
    """The metadata, the stable ABI where it is promised, and which Linux systems those for Linux run on."""
    _run("twine", "check", "--strict", *wheels)
    if stable := [wheel for wheel in wheels if "abi3" in wheel.name]:
        _run("abi3audit", "--strict", "--summary", *stable)
    for wheel in wheels:
        if "manylinux" in wheel.name:
            _run("auditwheel", "show", wheel)


def _run(program: str, *words: object) -> None:
    found = shutil.which(program, path=str(Path(sys.executable).parent))
    if found is None:
        print(f"{program} is not installed: the wheels are not checked by it")
        return
    subprocess.run([found, *map(str, words)], check=True)


def main() -> None:
    """Build and check the wheels that are asked for, or all."""
    names = sys.argv[1:] or list(TARGETS)
    made = []
    for name in names:
        for python in PYTHONS:
            if headers(python) is None:
                print(f"no headers for Python {python} (see $LINMED_HEADERS): no such wheel for {name}")
                continue
            began = time.perf_counter()
            made.append(wheel := build(TARGETS[name], python))
            size, took = wheel.stat().st_size / 1e6, time.perf_counter() - began
            print(f"{wheel.name}: {size:.1f} MB in {took:.0f} s", flush=True)
    check(made)


if __name__ == "__main__":
    main()
