"""Where the work is done: here, in processes of this machine, or on a cluster; and who hears when it is."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any


class Watched(Executor):
    """Tells `finished` the arguments of every call that is done; without `inner` it runs them here."""

    def __init__(self, inner: Executor | None, finished: Callable[..., None]) -> None:
        self._inner = inner
        self._finished = finished
        self._max_workers = 1 if inner is None else getattr(inner, "_max_workers", None)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As `Executor.submit`."""
        if self._inner is not None:
            future = self._inner.submit(fn, *args, **kwargs)
            future.add_done_callback(lambda done: None if done.cancelled() else self._finished(*args))
            return future
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        self._finished(*args)
        return future


@contextlib.contextmanager
def workers_of(workers: int, cluster: str | None) -> Iterator[Executor | None]:
    """An executor on the cluster at this address, or of so many processes; None stands for this thread.

    Processes rather than threads: the paper's problems are small, and threads would wait for the
    interpreter lock. When the caller is interrupted the processes end at once.
    """
    if cluster is not None:
        yield from _on_cluster(cluster)
    elif workers == 1:
        yield None
    else:
        before = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin)
        try:
            yield pool
        except BaseException:
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


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
