"""Callers who leave: what they asked for is called off, and what several ask for goes on for the last one."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

T = TypeVar("T")


class Left(Exception):
    """Nobody waits for the answer any more."""


async def unless_left(receive: Callable[[], Awaitable[MutableMapping[str, Any]]], work: Awaitable[T]) -> T:
    """What `work` gives; when the caller leaves first, it is cancelled. `receive` is ASGI's."""

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
    """Work that everyone shares who asks for it while it is under way, until the last of them has left."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Task[Any]] = {}
        self._waiting: dict[asyncio.Task[Any], int] = {}

    async def get(self, key: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What make() gives, or the one of this key that is under way."""
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
