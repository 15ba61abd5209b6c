"""Choose where the work is done: here, in processes of this machine, or on a cluster."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any


@contextlib.contextmanager
def workers_of(workers: int, cluster: str | None) -> Iterator[Executor | None]:
    """Give an executor on the cluster at this address, or of so many processes; None stands for this process.

    Processes rather than threads: the paper's problems are small, and threads would wait for the
    interpreter lock. When the caller is interrupted the processes end at once.
    """
    if cluster is not None:
        yield from _on_cluster(cluster)
    elif workers == 1:
        yield None
    else:
        before = set(multiprocessing.active_children())
        pool = _Processes(workers, multiprocessing.get_context("spawn"), initializer=_begin)
        try:
            yield pool
        except BaseException:
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


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


def _on_cluster(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("--cluster needs dask: pip install 'linmed[cluster]'") from None
    try:
        client = Client(address, timeout=10)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no scheduler answers at {address!r} ({error}); start one with `dask scheduler`"
        ) from None
    with client:
        yield client.get_executor()  # type: ignore[no-untyped-call]
