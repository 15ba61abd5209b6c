"""Make executors: processes of this machine that end with it, or a Dask cluster."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any


def default_workers() -> int:
    """Count the processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes(workers: int | None = None) -> ProcessPoolExecutor:
    """Make an executor of fresh processes, for many small problems where threads get in each other's way.

    They leave Ctrl-C to the main process, and end when that does. Call it from a program whose main part is
    guarded by `if __name__ == "__main__":`.

    >>> with processes(workers=2) as pool:  # for simulate(..., executor=pool); nothing is started before
    ...     isinstance(pool, ProcessPoolExecutor)
    True
    """
    return _Processes(workers or default_workers(), multiprocessing.get_context("spawn"), initializer=_begin)


@contextlib.contextmanager
def workers_of(workers: int, cluster: str | None = None) -> Iterator[Executor | None]:
    """Give an executor on the cluster at this address, or of so many processes; None stands for this process.

    When the caller is interrupted the processes end at once.
    """
    if cluster is not None:
        with on_cluster(cluster) as executor:
            yield executor
        return
    if workers == 1:
        yield None
        return
    before = set(multiprocessing.active_children())
    pool = processes(workers)
    try:
        yield pool
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def on_cluster(address: str) -> Iterator[Executor]:
    """Connect to the Dask scheduler at this address."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("--cluster needs the package distributed: pip install 'linmed[cluster]'") from None
    try:
        client = Client(address, timeout=10)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no scheduler answers at {address!r} ({error}); start one with `dask scheduler`"
        ) from None
    with client, client.get_executor() as executor:  # type: ignore[no-untyped-call]
        yield executor


class _Processes(ProcessPoolExecutor):
    """Processes that know nothing of Ctrl-C from their birth, before a line of ours has run in them."""

    def submit(self, *work: Any, **named: Any) -> Future[Any]:
        """As always; processes that are started for it inherit that the signal waits."""
        with _ctrl_c_waits():
            return super().submit(*work, **named)


@contextlib.contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Until this ends; then it comes."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """In every worker: leave Ctrl-C to the main process, and end when that does, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
