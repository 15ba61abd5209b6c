"""The first call on a machine: kernels are compiled once, by whoever comes first, and it is said so."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core.registry import cpu_target

from linmed.kernels import cache
from linmed.kernels.cache import KernelCache

COUNT = """
import sys
from numba.core import event
recorder = event.RecordingListener()
event.register("numba:compile", recorder)
"""
KERNELS = """
import numpy as np
from linmed.kernels import confidence, ridge, sampling
found = []
def radii(Set, *parts):
    out = np.empty(1)
    confidence.radii(Set)(tuple(ridge.start(1, 3, 1.0)), parts, out)
    found.append(out[0])
def logs():
    p = np.array([[0.5, 0.25, 0.25]])
    sampling.take_logs(p, 0.1)
    found.extend(p[0])
paper = 0, 1.0, -1.0, 1.0, 0.5, 1.0, False
jobs = [logs, lambda: radii(confidence.RidgeSet, *paper), lambda: radii(confidence.FixedSet, 0.75)]
for job in jobs[::int(sys.argv[1])]:
    job()
print(sorted(found))
print(sum(one.is_start for _, one in recorder.buffer))
"""
SLOW = """
from linmed.kernels import cold_start
cold_start.PATIENCE = 0.0
"""


def begin(code: str, cache: Path | None, *arguments: str, **options: int) -> "subprocess.Popen[str]":
    """A program that keeps kernels in `cache`, or where all do."""
    environment = os.environ if cache is None else {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env=environment, text=True, **streams)


def finish(process: "subprocess.Popen[str]") -> list[str]:
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    return out.splitlines()


def on_terminal(code: str, cache: Path) -> str:
    """What a program writes to standard error where that is a terminal."""
    import pty  # not on Windows

    ours, theirs = pty.openpty()
    process = begin(code, cache, stderr=theirs)
    os.close(theirs)
    process.communicate(timeout=300)
    assert process.returncode == 0
    try:
        return os.read(ours, 10_000).decode()
    except OSError:  # the terminal was closed with nothing written
        return ""
    finally:
        os.close(ours)


def test_processes_that_start_together_on_an_empty_cache_agree(tmp_path: Path) -> None:
    """Kernels made for several classes share a name; each process compiles them in another order."""
    together = [begin(COUNT + KERNELS, tmp_path, order) for order in ("1", "-1", "1", "-1")]
    answers = [finish(process) for process in together]
    later = finish(begin(COUNT + KERNELS, tmp_path, "1"))
    assert {answer[0] for answer in answers} == {later[0]}
    assert later[1] == "0"
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".nbc"}


def test_where_nothing_can_be_kept_kernels_still_run(tmp_path: Path) -> None:
    nowhere = "from linmed.kernels import cache\ncache._can_write = lambda folder: False\n"
    assert finish(begin(nowhere + COUNT + KERNELS, tmp_path, "1"))[0]
    assert not list(tmp_path.rglob("*.nbc"))


def _double(x: float) -> float:
    return x + x


def found(store: KernelCache, compiled: Any) -> bool:
    return store.load_overload(compiled.signatures[0], cpu_target.target_context) is not None


def test_only_a_whole_file_made_from_the_present_source_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    compiled = numba.njit(_double)
    cache.keep_on_disk(compiled)
    assert compiled(2.0) == 4.0
    store = KernelCache(_double)
    assert found(store, compiled)
    with monkeypatch.context() as changed:
        changed.setattr(cache, "_sources", lambda: b"other")
        assert not found(store, compiled)
        store.give_up()
    (file,) = tmp_path.rglob("*.nbc")
    content = file.read_bytes()
    for damage in (b"", b"not a kernel", content[:-1]):
        file.write_bytes(damage)
        assert not found(store, compiled)
        store.give_up()
    file.write_bytes(content)
    assert found(store, compiled)


def test_a_folder_that_can_only_be_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    compiled = numba.njit(_double)
    cache.keep_on_disk(compiled)
    compiled(2.0)
    monkeypatch.setattr(cache, "_can_write", lambda folder: False)
    store = KernelCache(_double)
    assert found(store, compiled)
    assert store.cache_path is None


@pytest.mark.unix
def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path, monkeypatch, caplog) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(shared))
    compiled = numba.njit(_double)
    cache.keep_on_disk(compiled)
    compiled(2.0)
    [own] = shared.iterdir()
    for place, mode, says in (
        (shared, 0o777, f"every user can write to {shared}"),
        (own, 0o1777, f"every user can write to {own}"),
        (shared, 0o1777, ""),  # as /tmp
        (shared, 0o755, ""),
    ):
        place.chmod(mode)
        cache._trusted.cache_clear()
        store = KernelCache(_double)
        caplog.clear()
        assert found(store, compiled) == (not says)  # else it is looked for beside the source, and not there
        assert (str(own) == store.cache_path) == (not says)
        assert says in caplog.text if says else caplog.text == "", caplog.text
        store.give_up()
        place.chmod(0o755)
    if os.getuid() == 0:
        os.chown(own, 12345, -1)
        assert cache._others(own) == f"{own} belongs to another user (number 12345)"
        os.chown(own, 0, 12345)
        own.chmod(0o775)
        assert cache._others(own) == f"the group number 12345 can write to {own}"


@pytest.mark.unix
def test_a_long_compilation_is_announced_on_a_terminal_while_it_lasts(tmp_path: Path) -> None:
    call = "from linmed.kernels.sampling import take_logs\nimport numpy as np, sys\n"
    call += "take_logs(np.full((1, 2), 0.5), 0.0)\nprint('compiled', file=sys.stderr)"
    said = on_terminal(SLOW + call, tmp_path).splitlines()
    assert said == ["linmed: compiling for this machine, once: sampling.take_logs …", "compiled"]
    assert on_terminal(SLOW + call, tmp_path).splitlines() == ["compiled"]  # from the cache


@pytest.mark.unix
def test_waiting_for_another_process_is_announced_too(tmp_path: Path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(cache, "PATIENCE", 0.0)
    caplog.set_level("INFO", "linmed")
    lock = tmp_path / "kernel.lock"
    with ExitStack() as theirs:
        theirs.enter_context(cache._turn(lock, _double))
        ours = ThreadPoolExecutor(1).submit(lambda: cache._turn(lock, _double).__enter__())
        while not caplog.messages:
            assert not ours.done()
            time.sleep(0.01)
    ours.result(timeout=60)
    assert caplog.messages == ["waiting for another process that compiles tests.test_cold_start._double"]


def test_elsewhere_it_is_a_record_of_the_log(tmp_path: Path) -> None:
    call = "import logging, numpy as np\nlogging.basicConfig(level='INFO')\n"
    call += "from linmed.kernels.sampling import take_logs\ntake_logs(np.full((1, 2), 0.5), 0.0)"
    _, err = begin(SLOW + call, tmp_path).communicate(timeout=300)
    assert err == "INFO:linmed:compiling for this machine, once: sampling.take_logs\n"


@pytest.mark.unix
def test_functions_of_the_users_own_are_compiled_in_silence(tmp_path: Path) -> None:
    own = "import numba\ncold_start.announce_compilations()\nprint(numba.njit(lambda x: x + 1)(1))"
    assert on_terminal(SLOW + own, tmp_path) == ""


def test_a_first_decision_needs_no_linear_algebra_of_scipy() -> None:
    call = "import sys, numpy as np\nfrom linmed import Agent, Uniform\n"
    call += "Agent(Uniform(), dim=2).decide(np.eye(2))\nprint('scipy.linalg' in sys.modules)"
    assert finish(begin(call, None)) == ["False"]


DECIDE = """
import numpy as np
from linmed import Agent, LinMED
agent = Agent(LinMED(), dim=3, seed=1)
arms = np.random.default_rng(0).normal(size=(20, 3))
"""
INTERRUPTED = (
    """
import os, signal, threading, time
from numba.core import event

class Interrupt(event.Listener):
    fired = False

    def on_start(self, what):
        if what.data["dispatcher"].py_func.__name__ == "augmented_counts" and not self.fired:
            self.fired = True
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    def on_end(self, what):
        pass

event.register("numba:compile", Interrupt())
"""
    + DECIDE
    + """
try:
    agent.decide(arms)
    time.sleep(5)
except KeyboardInterrupt:
    print("interrupted")
print(round(sum(agent.probabilities(arms)), 12), len(agent.pending))
"""
)


@pytest.mark.unix
def test_an_interrupt_while_a_kernel_needs_another_is_raised_when_python_goes_on(tmp_path):
    process = begin(INTERRUPTED, tmp_path)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert out.split()[:2] == ["interrupted", "1.0"]


def test_a_file_with_a_damaged_block_is_compiled_again(tmp_path):
    code = DECIDE + "print(agent.probabilities(arms).sum().round(12), agent.decide(arms).arm)"
    first, err = begin(code, tmp_path).communicate(timeout=240)
    files = [*tmp_path.rglob("*.nbc")]
    assert files, err
    for file in files:
        content = bytearray(file.read_bytes())
        middle = len(content) // 2
        content[middle : middle + 64] = bytes(64)
        file.write_bytes(content)
    process = begin(code, tmp_path)
    again, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert again == first
