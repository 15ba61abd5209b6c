"""Where work is done: cheap decisions in the event loop, dear ones and other work in threads beside it.

There is a pool of threads for each kind of work, so that none waits behind another's. A decision among K arms
takes from 20 µs to a tenth of a second, by the policy and by K·d. A short request is drawn at once, from the
bandit's own state. A long one would keep everybody waiting: it is drawn in slices from a copy of the state,
which all its decisions share, while requests are served and rewards folded. A slice of cheap decisions is
drawn in the loop, because it is mostly Python, and dear decisions in threads, where kernels do without the
interpreter's lock. Slices of different requests take turns.
"""

import asyncio
import functools
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

import numpy as np
from pydantic_core import to_json

from linmed.serve.bandit import TOGETHER, Bandit
from linmed.serve.errors import Refused
from linmed.serve.schemas import DecideRequest

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


# Decisions

FIXED = 20e-6
"""Seconds of a decision that its arms do not account for."""
DEAR = 250e-6
"""Seconds: a decision that takes longer is worth a thread's attention."""
TIMED = 16
"""One in so many of the decisions that are drawn at once is timed: the clock of a thread is not cheap."""
SURPRISE = 8.0
LEAST = 1e-9
"""Seconds for each number of the arms that the quickest policy takes."""
SLICE = 1e-3
"""Seconds of drawing before it is another request's turn."""
ROOM = 4
"""Long requests that are drawn or wait for their commit hold so many times `max_work` numbers together."""
SLICES = 1024
"""Slices that wait for a thread."""

Draw = Callable[[Bandit, Sequence[DecideRequest], Sequence[str]], list[dict[str, Any]]]


class Scheduler:
    """Draws with `draw` what requests ask for, and says how much that may be."""

    def __init__(self, draw: Draw, max_work: int):
        self.draw, self.max_work = draw, max_work
        self.held = 0
        """Numbers of the long requests under way."""
        self._untimed = -1
        self.threads = Pool("drawing", max(1, (os.cpu_count() or 2) - 1), SLICES)

    def work(self, bandit: Bandit, requests: Sequence[DecideRequest]) -> int:
        """How many numbers the arms of these requests have, Σ K·d; refused if that is too much for one."""
        total = bandit.work(requests)
        if total > self.max_work:
            field, advice = "arms", "offer fewer arms"
            if len(requests) > 1:
                field, advice = (
                    "decisions",
                    f"send at most {self.max_work * len(requests) // total} in a batch",
                )
            text = (
                f"{field}: the request asks for {total:,} numbers (arms × dim, summed over its decisions), "
                f"and {self.max_work:,} are allowed: {advice}"
            )
            raise Refused("invalid", text, field)
        return total

    def short(self, bandit: Bandit, requests: Sequence[DecideRequest], work: int) -> bool:
        """Whether they are drawn in a moment."""
        return len(requests) * FIXED + work * bandit.pace <= DEAR

    def at_once(self, bandit: Bandit, request: DecideRequest) -> dict[str, Any] | None:
        """The row of one decision that takes but a moment, measured now and then; else None."""
        numbers = bandit.numbers(request.arms, request.arm_ids)
        if numbers > self.max_work or FIXED + numbers * bandit.pace > DEAR:
            return None
        self._untimed = (self._untimed + 1) % TIMED
        one = [request]
        return (self.draw(bandit, one, ("",)) if self._untimed else self.now(bandit, one, ""))[0]

    def now(self, bandit: Bandit, requests: Sequence[DecideRequest], where: str) -> list[dict[str, Any]]:
        """Rows for the log, from the bandit's own state."""
        rows, seconds = self._drawn(bandit, requests, where, range(len(requests)))
        self._pace(bandit, requests, seconds)
        return rows

    async def beside(
        self,
        bandit: Bandit,
        requests: Sequence[DecideRequest],
        where: str,
        numbers: Sequence[int] | None = None,
    ) -> list[dict[str, Any]]:
        """The same in slices, all from the state of this moment. Cancelled, the rest is not drawn.

        `numbers` are the places of these requests in the caller's batch, where they are not all of it.
        """
        numbers = range(len(requests)) if numbers is None else numbers
        before = bandit.state.copy() if bandit.policy.remembers else None
        apart, rows = bandit.apart(), list[dict[str, Any]]()
        for first, some, dear in self._slices(bandit, requests):
            places = numbers[first : first + len(some)]
            if dear:
                drawn, seconds = await self.threads.run(self._drawn, apart, some, where, places)
            else:
                drawn, seconds = self._drawn(apart, some, where, places)
                await asyncio.sleep(0)
            self._pace(bandit, some, seconds)
            rows += drawn
        if before is not None:
            bandit.take_notes(before, apart.state)
        return rows

    def hold(self, work: int) -> None:
        """Make room for a long request, or refuse it; until `release`."""
        if self.held + work > max(ROOM * self.max_work, work):
            text = "too many decisions among many arms are under way already: try again"
            raise Refused("overloaded", text, retry_after=1)
        self.held += work

    def release(self, work: int) -> None:
        """It has been answered."""
        self.held -= work

    def stop(self, seconds: float) -> None:
        """End the threads, or leave them after so long."""
        self.threads.stop(seconds)

    def _slices(
        self, bandit: Bandit, requests: Sequence[DecideRequest]
    ) -> Iterator[tuple[int, list[DecideRequest], bool]]:
        """(number of the first, requests, whether one of them is dear): about `SLICE` seconds each.

        Decisions by route share a pass over the items: `TOGETHER` of them are a slice, however long it takes.
        """
        first, some, seconds, dear, joint = 0, list[DecideRequest](), 0.0, False, True
        for i, request in enumerate(requests):
            one = FIXED + bandit.numbers(request.arms, request.arm_ids) * bandit.pace
            by_route = bandit.by_route(request.arms, request.arm_ids)
            joins = joint and by_route and len(some) < TOGETHER
            if some and not joins and seconds + one > SLICE:
                yield first, some, dear
                first, some, seconds, dear, joint = i, [], 0.0, False, True
            some.append(request)
            seconds, dear, joint = seconds + one, dear or one > DEAR, joint and by_route
        yield first, some, dear

    def _drawn(
        self, bandit: Bandit, requests: Sequence[DecideRequest], where: str, numbers: Sequence[int]
    ) -> tuple[list[dict[str, Any]], float]:
        """Rows, and the processor's time that they took in this thread."""
        started = time.thread_time()
        rows = self.draw(bandit, requests, [where.format(i) for i in numbers])
        return rows, time.thread_time() - started

    def _pace(self, bandit: Bandit, requests: Sequence[DecideRequest], seconds: float) -> None:
        """Learn from what was measured: most of the last value, some of this.

        One measurement may be far off, of a moment at which the machine did something else. It counts for no
        more than `SURPRISE` times what was expected, and the next decision is timed as well.
        """
        measured = max(LEAST, (seconds - len(requests) * FIXED) / max(1, bandit.work(requests)))
        if measured > SURPRISE * bandit.pace:
            measured, self._untimed = SURPRISE * bandit.pace, -1
        bandit.pace += 0.3 * (measured - bandit.pace)
