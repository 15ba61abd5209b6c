"""Break linmed on purpose, one fault at a time, and name the test that notices; not collected by pytest.

    python tests/mutations.py              # all faults, two at a time
    python tests/mutations.py ridge- med   # those whose name contains one of these words
    python tests/mutations.py --list       # what they are; nothing is run

A fault (mutations.txt) is a text that stands exactly once in a file, and another one for its place. It is
put into a copy of the tree, and the few test files that should catch it run there until one fails, which must
pass without the fault. All faults of the core are compiled into one build (build/faults, kept for the next
time), each behind a switch, which the product has not; processes that have imported it and the tests fork.
"""

import argparse
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "build" / "faults"
MOST_SECONDS = 1800
"""A test that has not ended by then has been caught in a loop."""


@dataclass(frozen=True)
class Fault:
    """A mistake that somebody could make, and the tests (below tests/) that should see it."""

    name: str
    file: str
    tests: tuple[str, ...]
    old: str = ""
    new: str = ""

    @property
    def compiled(self) -> bool:
        """Whether it is one of the core, where `old` is an expression or a statement."""
        return self.file.startswith("core/")

    @property
    def switch(self) -> int:
        """The number that turns it on in the core; 0 for a fault in Python."""
        return zlib.crc32(self.name.encode()) % 2**31 if self.compiled else 0


class NotApplicable(Exception):
    """The text of a fault does not stand exactly once in its file."""


def find(fault: Fault) -> Fault:
    """Look up the one file that has the fault's text once: the one that it names, or one beside it."""
    counts = {}
    for path in (
        ROOT / fault.file,
        *sorted((ROOT / fault.file.split("/")[0]).rglob(f"*{Path(fault.file).suffix}")),
    ):
        if path.is_file():
            counts[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8").count(fault.old)
            if counts.get(fault.file) == 1:
                return fault
    places = [file for file, count in counts.items() if count]
    if len(places) == 1 and counts[places[0]] == 1:
        return replace(fault, file=places[0])
    found = {file: counts[file] for file in places} or "nowhere"
    raise NotApplicable(f"{fault.name}: fault no longer applies, {fault.old!r} stands {found}")


def read_faults() -> list[Fault]:
    """Read mutations.txt: a line with name, file and tests, then lines that begin with - or +."""
    found: list[Fault] = []
    for line in (ROOT / "tests" / "mutations.txt").read_text(encoding="utf-8").splitlines():
        if line[:1] in ("-", "+"):
            side = "old" if line[0] == "-" else "new"
            before = getattr(found[-1], side)
            found[-1] = replace(found[-1], **{side: f"{before}\n{line[2:]}" if before else line[2:]})
        elif line and not line.startswith("#"):
            name, file, *tests = line.split()
            found.append(Fault(name, file, tuple(tests)))
    return found


def switched(fault: Fault) -> str:
    """Write both versions of a piece of C++, the fault behind its switch."""
    if fault.old.endswith(";"):
        return f"if (linmed::fault == {fault.switch}) {{ {fault.new} }} else {{ {fault.old} }}"
    return f"(linmed::fault == {fault.switch} ? ({fault.new}) : ({fault.old}))"


SWITCH = """
namespace linmed { extern int fault; int fault = 0; }
extern "C" __attribute__((visibility("default"))) void linmed_fault(int number) { linmed::fault = number; }
"""


def build_core(faults: Sequence[Fault]) -> Path:
    """Build the core with a switch for each of its faults; returns the module."""
    source, build = BUILT / "core", BUILT / "build"
    source.mkdir(parents=True, exist_ok=True)
    for path in (ROOT / "core").iterdir():
        text = path.read_text(encoding="utf-8")
        here = [fault for fault in faults if fault.file == f"core/{path.name}"]
        for fault in here:
            text = text.replace(fault.old, switched(fault))
        if here:
            first = text.index("\n", text.index("#pragma once")) + 1 if "#pragma once" in text else 0
            text = f"{text[:first]}namespace linmed {{ extern int fault; }}\n{text[first:]}"
        if path.name == "module.cpp":
            text += SWITCH
        target = source / path.name
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")  # what is as before need not be compiled again
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    for command in (
        ["cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DPython_EXECUTABLE={sys.executable}"],
        ["cmake", "--build", build],
    ):
        done = subprocess.run(
            command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{done.stdout}\n{done.stderr}")
    return next(build.glob("_core*.so"))


def copy_tree(directory: Path) -> None:
    """Copy what git has of the working tree, and the built modules."""
    shown = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(shown, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    built = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("src/linmed/_*.so")]
    for name in {*names, *built} - {""}:
        if (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, directory / name)
    # An editable install would be found before the copy: every Python started here takes its finder away.
    (directory / "sitecustomize.py").write_text(
        "import sys\n"
        'sys.meta_path[:] = [one for one in sys.meta_path if "ScikitBuild" not in type(one).__name__]\n',
        encoding="utf-8",
    )


HEAVY = (
    *("numpy", "scipy.optimize", "scipy.special", "scipy.stats", "pandas", "pyarrow.compute", "pyarrow.csv"),
    *("pyarrow.parquet", "pytest", "matplotlib.figure", "httpx", "pydantic", "sqlalchemy", "uvicorn"),
)
"""What tests import of others, imported once: each run is a fork of a process that has it."""
forks = get_context("forkserver")


def enter(tree: Path, output: Path) -> None:
    """Move this process into a copy of the tree, and what it prints into a file."""
    with open(output, "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ["PYTHONPATH"] = f"{tree}{os.pathsep}{tree / 'src'}"
    os.chdir(tree)
    sys.meta_path[:] = [one for one in sys.meta_path if "ScikitBuild" not in type(one).__name__]
    # Without this script's folder, whose `typing` processes of tests would take for the library's.
    sys.path[:] = [str(tree), str(tree / "src"), *(one for one in sys.path if Path(one) != ROOT / "tests")]


OPTIONS = (
    "-n",
    "0",
    "-q",
    "-rfE",
    "--tb=no",
    "-p",
    "no:cacheprovider",
    "-W",
    "ignore:Module already imported",
)


def run_pytest(tree: Path, arguments: Sequence[str]) -> None:
    """Run pytest in this process, in a copy of the tree, and end it."""
    signal.alarm(MOST_SECONDS)
    enter(tree, tree / "output.txt")
    import pytest

    code = pytest.main([*OPTIONS, *arguments])
    sys.stdout.flush()
    os._exit(code)


def with_core(tree: Path, core: Path, tests: Sequence[str], line: Connection) -> None:
    """Import the core that has faults, and tests; then, for each fault that is sent, run some in a fork."""
    enter(tree, tree / "warm.txt")
    os.environ["LINMED_CORE"] = str(core)
    import pytest

    pytest.main([*OPTIONS, "--collect-only", *tests])
    for switch, arguments in iter(line.recv, None):
        process = os.fork()
        if process == 0:
            ctypes.CDLL(str(core)).linmed_fault(switch)
            run_pytest(tree, arguments)
        line.send(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))


class Copy:
    """A copy of the tree, and a process for the faults of the core."""

    def __init__(self, directory: Path, core: Path | None, faults: Sequence[Fault]):
        self.directory = directory
        copy_tree(directory)
        if core is not None:
            self.line, other = Pipe()
            files = dict.fromkeys(f"tests/{test}" for one in faults if one.compiled for test in one.tests)
            forks.Process(target=with_core, args=(directory, core, list(files), other), daemon=True).start()

    def failures(self, tests: Sequence[str], switch: int = 0, *options: str) -> list[str]:
        """Run tests; returns the names of those that fail, or what came in their place."""
        arguments = [*options, *(f"tests/{test}" for test in tests)]
        if switch:
            self.line.send((switch, arguments))
            code = self.line.recv()
        else:
            process = forks.Process(target=run_pytest, args=(self.directory, arguments))
            process.start()
            process.join()
            code = process.exitcode
        said = (self.directory / "output.txt").read_text(encoding="utf-8")
        found = re.findall(r"^(?:FAILED|ERROR) tests/(.+?)(?: - .*)?$", said, flags=re.M)
        if code == -signal.SIGALRM:
            return [f"no end in {MOST_SECONDS} s"]
        return found or ([f"pytest ended with {code}: {said.strip()[-200:]}"] if code else [])


@contextmanager
def applied(fault: Fault, tree: Path) -> Iterator[None]:
    """Have the fault in a copy, unless it is in the core's build, and take it out again."""
    path = tree / fault.file
    text = path.read_text(encoding="utf-8")
    if fault.compiled:
        yield
        return
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def main() -> int:
    """Run the faults that were asked for and print which test caught each."""
    parser = argparse.ArgumentParser(description="Breaks linmed on purpose and says which test notices.")
    parser.add_argument("words", nargs="*", help="only faults whose name contains one of these")
    parser.add_argument("--list", action="store_true", help="print the faults and run nothing")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-build", action="store_true", help="take the core as it was built last time")
    parser.add_argument(
        "--whole", action="store_true", help="all tests where those of a fault do not catch it"
    )
    asked = parser.parse_args()
    known, gone = [], []
    for fault in read_faults():
        try:
            known.append(find(fault))
        except NotApplicable as error:
            gone.append(str(error))
    faults = [fault for fault in known if not asked.words or any(word in fault.name for word in asked.words)]
    if gone:
        print(*gone, sep="\n", file=sys.stderr)
        return 2
    if asked.list:
        for fault in faults:
            print(f"{fault.name:<28} {fault.file:<40} {fault.old}  →  {fault.new}")
        return 0

    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    forks.set_forkserver_preload(list(HEAVY))
    with tempfile.TemporaryDirectory(prefix="linmed-faults-") as scratch:
        core = None
        if any(fault.compiled for fault in faults):
            print("building the core with its faults ...", flush=True)
            core = next((BUILT / "build").glob("_core*.so")) if asked.no_build else build_core(known)
        copies: SimpleQueue[Copy] = SimpleQueue()
        for job in range(asked.jobs):
            copies.put(Copy(Path(scratch, f"tree{job}"), core, faults))

        def run(fault: Fault) -> str | None:
            copy, began = copies.get(), time.perf_counter()
            try:
                with applied(fault, copy.directory):
                    caught = copy.failures(fault.tests, fault.switch, "-x")
                    if not caught and asked.whole:
                        caught = copy.failures([""], fault.switch, "-x")
            finally:
                copies.put(copy)
            shown = caught[0] if caught else "NOT CAUGHT"
            print(f"{fault.name:<28} {time.perf_counter() - began:5.0f} s  {shown}", flush=True)
            return caught[0] if caught else None

        with ThreadPoolExecutor(asked.jobs) as pool:
            found = list(pool.map(run, faults))
        named = (one for one in found if one is not None and not one.startswith(("no end", "pytest ended")))
        caught = sorted(set(named))
        wrong = copies.get().failures(caught) if caught else []
    for one in wrong:
        print(f"fails without any fault, too: {one}")
    count = sum(one is not None and one not in wrong for one in found)
    print(f"{count} of {len(faults)} caught")
    return 0 if count == len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
