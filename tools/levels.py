"""Builds the core for other processors and with other compilers, for `make identity`.

    python tools/levels.py build/levels

Under the directory there is a folder for each compiler: the machine's own, and zig's (clang) where the
package ziglang is installed. They hold modules for x86-64-v2, -v3 and -v4, as far as this processor can run
them; the installed core is that of the machine's compiler for the highest. The first time takes some minutes.
"""

import argparse
import importlib.util
import os
import platform
import subprocess
import sys
from pathlib import Path

from build_backend import compiler, zig_settings, zig_target

CORE = Path(__file__).resolve().parents[1] / "core"


def build(directory: Path, definitions: dict[str, str], jobs: int) -> None:
    """Configures the core in the directory and compiles it there."""
    nanobind = subprocess.run(
        [sys.executable, "-m", "nanobind", "--cmake_dir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    given = {"Python_EXECUTABLE": sys.executable, "nanobind_ROOT": nanobind, **definitions}
    settings = [f"-D{name}={value}" for name, value in given.items()]
    # A cmake that pip installed is beside this Python.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path}
    for command in (
        ["cmake", "-G", "Ninja", "-S", str(CORE), "-B", str(directory), *settings],
        ["cmake", "--build", str(directory), "--parallel", str(jobs)],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def compilers() -> dict[str, dict[str, str]]:
    """What cmake must be told for each compiler of this machine."""
    found: dict[str, dict[str, str]] = {"own": {}} if compiler() else {}
    if importlib.util.find_spec("ziglang") is not None:
        zig = zig_settings(zig_target())
        defined = "cmake.define."
        found["zig"] = {key.removeprefix(defined): zig[key] for key in zig if key.startswith(defined)}
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Builds the core for other processors, with other compilers."
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    for name, definitions in compilers().items():
        levels = {}
        if platform.machine() in ("x86_64", "AMD64"):
            from linmed._level import level

            highest = level if name == "own" else level + 1  # what is installed need not be built again
            levels["LINMED_LEVELS"] = ";".join(map(str, range(2, highest))) or "2"
        print(f"building the core with the compiler {name} ...", flush=True)
        build(arguments.directory / name, {**levels, **definitions}, arguments.jobs)


if __name__ == "__main__":
    main()
