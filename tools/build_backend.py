"""Builds linmed: scikit-build-core, with a C++ compiler from PyPI where the machine has none.

Without a compiler the build takes zig, from the package ziglang, and says so; `CXX=zig` asks for it. In an
editable install the compiled modules stand beside the Python files, in src/linmed. A build that fails ends in
one sentence that says what is missing.

`python tools/build_backend.py` prints the packages that a build here needs, for builds without isolation.
"""

import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

TOOLS = ["scikit-build-core>=1.1", "nanobind>=3.1", "cmake>=3.26", "ninja>=1.11"]
ROOT = Path(__file__).resolve().parents[1]
MODULE = re.compile(r"_(core|level)\b.*\.(so|pyd)$|_core_v\d\b.*\.(so|pyd)$")
Settings = dict[str, Any] | None


def compiler() -> str | None:
    """The C++ compiler of this machine; None where zig's has to do."""
    asked = os.environ.get("CXX", "").strip()
    if asked:
        return None if asked == "zig" else asked
    if sys.platform == "win32":  # Microsoft's cannot compile the core
        return None
    if sys.platform == "darwin" and subprocess.run(["xcode-select", "-p"], capture_output=True).returncode:
        return None  # /usr/bin/c++ is there, but only to ask for Apple's tools to be installed
    return next((found for name in ("c++", "g++", "clang++") if (found := shutil.which(name))), None)


def zig_target() -> str:
    """This machine, as zig calls it."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    if sys.platform == "darwin":
        return f"{machine}-macos.11.0"
    if sys.platform == "win32":
        return f"{machine}-windows-gnu"
    return f"{machine}-linux-gnu.2.17" if platform.libc_ver()[0] == "glibc" else f"{machine}-linux-musl"


def zig_settings(target: str) -> dict[str, str]:
    """What makes cmake take zig's compiler, for a machine that may be another one."""
    import ziglang

    program = Path(ziglang.__file__).parent / ("zig.exe" if sys.platform == "win32" else "zig")
    return {
        "cmake.define.CMAKE_TOOLCHAIN_FILE": (ROOT / "core" / "zig.cmake").as_posix(),
        "cmake.define.ZIG": program.as_posix(),
        "cmake.define.ZIG_TARGET": target,
        "cmake.args": "-GNinja",
        "build-dir": f"build/zig-{target}",
    }


def build_wheel(directory: str, settings: Settings = None, metadata: str | None = None) -> str:
    """PEP 517."""
    asked = dict(settings or {})
    if compiler() is None and "cmake.define.ZIG" not in asked:
        print("linmed: there is no C++ compiler here, so zig's is taken, from the package ziglang")
        os.environ.pop("CXX", None)
        with explained():
            asked = zig_settings(zig_target()) | asked
    return _scikit("build_wheel", directory, asked, metadata)


def build_editable(directory: str, settings: Settings = None, metadata: str | None = None) -> str:
    """PEP 660: the modules are put beside the Python files, and what is installed is the path to them."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(Path(folder, build_wheel(folder, settings))) as wheel:
            for old in filter(lambda file: MODULE.match(file.name), (ROOT / "src" / "linmed").iterdir()):
                old.unlink()  # not written over: a process may have it open
            wheel.extractall(ROOT / "src", [name for name in wheel.namelist() if MODULE.match(name[7:])])
        info = Path(folder, prepare_metadata_for_build_editable(folder, settings))
        files = {
            f"{info.name}/{file.relative_to(info).as_posix()}": file.read_bytes()
            for file in sorted(info.rglob("*"))
            if file.is_file()
        }
    files["linmed.pth"] = f"{ROOT / 'src'}\n".encode()
    name = f"{info.stem}-py3-none-any.whl"
    record = f"{info.name}/RECORD,,\n"
    with zipfile.ZipFile(Path(directory, name), "w") as wheel:
        for path, content in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            record += f"{path},sha256={digest},{len(content)}\n"
            wheel.writestr(path, content)
        wheel.writestr(f"{info.name}/RECORD", record)
    return name


def build_sdist(directory: str, settings: Settings = None) -> str:
    """PEP 517."""
    return _scikit("build_sdist", directory, settings)


def prepare_metadata_for_build_wheel(directory: str, settings: Settings = None) -> str:
    """PEP 517."""
    return _scikit("prepare_metadata_for_build_wheel", directory, settings)


def prepare_metadata_for_build_editable(directory: str, settings: Settings = None) -> str:
    """PEP 660."""
    asked = {**(settings or {}), "wheel.cmake": "false", "wheel.py-api": "py3"}
    return _scikit("prepare_metadata_for_build_editable", directory, asked)


def get_requires_for_build_wheel(settings: Settings = None) -> list[str]:
    """PEP 517."""
    return [*_scikit("get_requires_for_build_wheel", settings), *_zig()]


def get_requires_for_build_editable(settings: Settings = None) -> list[str]:
    """PEP 660."""
    return get_requires_for_build_wheel(settings)


def get_requires_for_build_sdist(settings: Settings = None) -> list[str]:
    """PEP 517."""
    return _scikit("get_requires_for_build_sdist", settings)


def _scikit(hook: str, *arguments: object) -> Any:
    """Call scikit-build-core."""
    with explained():
        return getattr(import_module("scikit_build_core.build"), hook)(*arguments)


def _zig() -> list[str]:
    """The package of zig's compiler, where it is needed."""
    return [] if compiler() else ["ziglang>=0.13"]


@contextmanager
def explained() -> Iterator[None]:
    """If what is done within fails, one sentence at the end says why."""
    lines: list[str] = []
    try:
        with _overheard(lines):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        printed = "".join(lines)
        if found := re.search(
            r"initial cache file (.*)/CMakeInit.txt\n(?=[^\0]*Configuring incomplete)", printed
        ):
            shutil.rmtree(found[1])  # or cmake would go on with a compiler that does not work
        print(f"linmed: the core was not built: {reason(printed, error)}", file=sys.stderr, flush=True)
        sys.exit(1)


def reason(printed: str, error: BaseException) -> str:
    """What is missing, by what cmake and the compiler printed."""
    if isinstance(error, ModuleNotFoundError):
        package = {"scikit_build_core": "scikit-build-core"}.get(f"{error.name}", error.name)
        return f"the package {package} is missing: pip install {package}"
    if type(error).__name__ == "CMakeNotFoundError":
        return "cmake 3.26 or later is missing: pip install cmake"
    if type(error).__name__ == "NinjaNotFoundError":
        return "ninja is missing: pip install ninja"
    if found := re.search(
        r"^  linmed: (.*?)\n(?=\n|Call Stack)", printed, re.M | re.S
    ):  # of core/CMakeLists.txt
        return " ".join(found[1].split())
    if "No space left on device" in printed:
        return "the disk is full"
    if re.search(r"\bKilled\b|out of memory|cannot allocate memory", printed, re.I):
        return "the compiler ran out of memory: it needs about 1 GB for each file that it works on"
    used = compiler() or "of the package ziglang"
    broken = r"No CMAKE_C\w*_COMPILER could be found|is not able to compile a|Could not find the compiler"
    if re.search(broken, printed):
        return f"the compiler {used} does not work: set CXX to another one" + (
            ", or CXX=zig for that of ziglang" if compiler() else ""
        )
    if found := re.search(r"^.*\berror: .*$", printed, re.M):
        return f"the compiler {used} says {found[0].strip()}"
    said = "" if isinstance(error, SystemExit) else f"{error}"
    return said or "the messages above say why"


@contextmanager
def _overheard(lines: list[str]) -> Iterator[None]:
    """All that this process and those that it starts print, printed and kept."""
    _flush()
    kept = os.dup(1), os.dup(2)
    end, start = os.pipe()

    def listen() -> None:
        with open(end, "rb") as printed:
            for line in printed:
                os.write(kept[0], line)
                lines.append(line.decode(errors="replace"))

    listener = threading.Thread(target=listen)
    listener.start()
    os.dup2(start, 1)
    os.dup2(start, 2)
    os.close(start)
    try:
        yield
    finally:
        _flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        listener.join()
        os.close(kept[0])
        os.close(kept[1])


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


if __name__ == "__main__":
    print(*TOOLS, *_zig(), sep="\n")
