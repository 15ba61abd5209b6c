"""Run work beside the event loop: a pool of threads for each kind, so that none waits behind another's."""

import asyncio
import functools
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

import numpy as np
from pydantic_core import to_json

from linmed.serve.errors import Refused

P = ParamSpec("P")
T = TypeVar("T")

SWITCH = 0.0005
"""Seconds after which a thread at work gives way to the event loop; Python's own 5 ms make requests wait."""


class Pool:
    """Run one kind of work in so many threads, with a bounded queue before them.

    Work that is called off while it waits is never begun; what has begun is finished. While any pool is at
    work, threads give way to each other sooner: the interval is one for the whole process.
    """

    _all = threading.Lock()
    _working, _usual = 0, 0.0

    def __init__(self, what: str, threads: int, most_waiting: int):
        self.what, self.most = what, threads + most_waiting
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"linmed-{what}")
        self._lock = threading.Lock()
        self._under_way = 0

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run function(…) in one of the threads."""
        if self._under_way >= self.most:
            text = f"{self._under_way} requests that need {self.what} are waiting already: try again"
            raise Refused("overloaded", text, retry_after=1)
        with self._lock:
            self._under_way += 1

        def work() -> T:
            self._at_work(1)
            try:
                return function(*args, **kwargs)
            finally:
                self._at_work(-1)

        begun = self._executor.submit(work)
        begun.add_done_callback(self._ended)
        return await asyncio.wrap_future(begun)

    def _ended(self, _: "Future[Any]") -> None:
        with self._lock:
            self._under_way -= 1

    @staticmethod
    def _at_work(change: int) -> None:
        with Pool._all:
            if Pool._working == 0:
                Pool._usual = sys.getswitchinterval()
                sys.setswitchinterval(SWITCH)
            Pool._working += change
            if Pool._working == 0:
                sys.setswitchinterval(Pool._usual)

    def stop(self, seconds: float) -> None:
        """Begin nothing more, and wait so long for what has begun: a kernel at work cannot be interrupted."""
        ending = threading.Thread(
            target=self._executor.shutdown, kwargs={"cancel_futures": True}, daemon=True
        )
        ending.start()
        ending.join(max(seconds, 0.0))


S = TypeVar("S")

TURN = 0.0005
"""Seconds after which other requests have theirs."""


async def in_turns(function: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """Return [function(item) for item in items], with other requests served in between."""
    found: list[T] = []
    began = time.perf_counter()
    for item in items:
        found.append(function(item))
        if time.perf_counter() - began > TURN:
            await asyncio.sleep(0)
            began = time.perf_counter()
    return found


async def encoded(content: Any) -> bytes:
    """Write `content` as JSON, however large; what is not finite becomes null, as in `middleware.Json`."""
    return b"".join(await in_turns(bytes, _pieces(content)))


def _pieces(content: Any) -> Iterator[bytes]:
    """Write JSON in pieces, down to rows of numbers, which come whole."""
    if isinstance(content, np.ndarray):
        content = content.tolist() if content.ndim < 2 else list(content)
    if isinstance(content, dict) and content:
        before = b"{"
        for key, value in content.items():
            yield before + to_json(key) + b":"
            yield from _pieces(value)
            before = b","
        yield b"}"
    elif isinstance(content, list) and content and isinstance(content[0], (dict, list, np.ndarray)):
        before = b"["
        for value in content:
            yield before
            yield from _pieces(value)
            before = b","
        yield b"]"
    else:
        yield to_json(content, inf_nan_mode="null")


class Left(Exception):
    """Say that nobody waits for the answer any more."""


async def unless_left(receive: Callable[[], Awaitable[MutableMapping[str, Any]]], work: Awaitable[T]) -> T:
    """Return what `work` gives; when the caller leaves first, it is cancelled. `receive` is ASGI's."""

    async def left() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    task, watch = asyncio.ensure_future(work), asyncio.ensure_future(left())
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Left
        return task.result()
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.wait({task, watch})


class Shared:
    """Share work among all who ask for it while it is under way, until the last of them has left."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Task[Any]] = {}
        self._waiting: dict[asyncio.Task[Any], int] = {}

    async def get(self, key: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what make() gives, or the one of this key that is under way."""
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(make())
            task.add_done_callback(functools.partial(self._ended, key))
        self._waiting[task] = self._waiting.get(task, 0) + 1
        try:
            found: T = await asyncio.shield(task)
            return found
        finally:
            self._waiting[task] -= 1
            if not self._waiting[task]:
                del self._waiting[task]
                self._ended(key, task)
                task.cancel()

    def _ended(self, key: str, task: "asyncio.Task[Any]") -> None:
        if self._under_way.get(key) is task:
            del self._under_way[key]
