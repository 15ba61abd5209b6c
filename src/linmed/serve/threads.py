"""Threads beside the event loop: a pool for each kind of work, so that none waits behind another's."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from linmed.serve.errors import Refused

P = ParamSpec("P")
T = TypeVar("T")

SWITCH = 0.0005
"""Seconds after which a thread at work gives way to the event loop; Python's own 5 ms make requests wait."""


class GivingWay:
    """Python's switching interval, one for the whole process: short while any thread is at work here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working, self._usual = 0, 0.0

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Around the work."""
        with self._lock:
            if self._working == 0:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(SWITCH)
            self._working += 1
        try:
            yield
        finally:
            with self._lock:
                self._working -= 1
                if self._working == 0:
                    sys.setswitchinterval(self._usual)


giving_way = GivingWay()


def end(executor: ThreadPoolExecutor, seconds: float) -> None:
    """Begin nothing more, and wait so long for what has begun: a kernel at work cannot be interrupted."""
    ending = threading.Thread(target=executor.shutdown, kwargs={"cancel_futures": True}, daemon=True)
    ending.start()
    ending.join(max(seconds, 0.0))


class Pool:
    """So many threads for one kind of work, and a bounded queue before them.

    Work that is called off while it waits is never begun; what has begun is finished.
    """

    def __init__(self, what: str, threads: int, most_waiting: int):
        self.what, self.most = what, threads + most_waiting
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"linmed-{what}")
        self._lock = threading.Lock()
        self._under_way = 0

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """function(…) in one of the threads."""
        if self._under_way >= self.most:
            text = f"{self._under_way} requests that need {self.what} are waiting already: try again"
            raise Refused("overloaded", text, retry_after=1)
        with self._lock:
            self._under_way += 1

        def work() -> T:
            with giving_way():
                return function(*args, **kwargs)

        begun = self._executor.submit(work)
        begun.add_done_callback(self._ended)
        return await asyncio.wrap_future(begun)

    def _ended(self, _: "Future[Any]") -> None:
        with self._lock:
            self._under_way -= 1

    def stop(self, seconds: float) -> None:
        """Begin nothing more, and wait so long for what has begun."""
        end(self._executor, seconds)
