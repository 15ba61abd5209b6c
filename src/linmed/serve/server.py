"""Run one server: its parts and their life, and what it does for a request.

The event loop's thread reads requests, draws decisions and folds rewards (`Memory.fold`): short work on the
bandits in memory, which no other thread touches. The engine's alone writes (`Engine.submit`).
Whatever else takes time has threads or processes for its kind, so that nothing waits behind what a caller can
ask for at will: dear decisions (`drawing`), short readings of the log (`readers`), long ones (`reporters`),
bandits that are loaded (`loaders`), and what must always go on, tokens and readiness (`keeper`).
"""

import asyncio
import contextlib
import functools
import json
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from linmed.serve import store
from linmed.serve.bandit import Bandit
from linmed.serve.bandits import Bandits
from linmed.serve.database import Database, cause
from linmed.serve.decisions import Identifiers, digest, row, view
from linmed.serve.engine import Call, Counts, Decide, Engine, Given, Reward
from linmed.serve.errors import INPUT, Refused, refusing
from linmed.serve.memory import Memory
from linmed.serve.metrics import Metrics
from linmed.serve.middleware import Tokens
from linmed.serve.processes import Reporters
from linmed.serve.scheduling import Pool, Scheduler, Shared, in_turns
from linmed.serve.schemas import DecideRequest
from linmed.serve.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("linmed.serve")

PATIENCE = 5.0
"""Seconds that a request waits for a bandit that is not loaded yet; clients give up after 10."""
RENEWED = 5
"""The page's trends are made anew at most once in so many times as they took."""
REMEMBERED = 64
"""Trends, of different bandits or differently asked for."""
LAST = 0.3
"""Share of the time to stop in which the rest is written, after the requests have had theirs."""
WAITING = 256
"""Readings, or loads, that may wait for a thread."""


class Server:
    """Serve decisions over one log, in one process."""

    def __init__(self, settings: Settings, database: Database):
        self.settings, self.database = settings, database
        self.metrics = Metrics()
        self.tokens = Tokens(database)
        url = database.url.render_as_string(hide_password=False)
        self.reporters = Reporters(url, settings.reporters, settings.max_reports)
        self.readers = Pool("readings", 2, WAITING)  # mostly Python: more would only compete with the loop
        self.loaders = Pool("loads", 2, WAITING)
        self.keeper = Pool("keeping", 2, WAITING)
        self.identifiers = Identifiers()
        self.scheduler = Scheduler(self.draw, settings.max_work)
        self.engine = Engine(database, staleness=settings.staleness, max_waiting=settings.max_waiting)
        self.memory = Memory(database, settings.snapshot_every, self._write_later, self.loaders)
        self.bandits = Bandits(database, self.engine, self.memory, self.loaders, self.bandit)
        self.engine.committed = self._committed
        self.engine.fold = self.memory.fold
        self.engine.changed = self.memory.changed
        self.ready = False
        self._loading = False
        self._gathered: list[Decide | Reward] = []
        self._looking, self._asking = Shared(), Shared()  # at a page; whether the server is ready
        self._trends: dict[str, tuple[float, Any]] = {}  # what was asked → (when it may be renewed, answer)
        self._loads: dict[str, asyncio.Task[Bandit]] = {}
        self._probe: asyncio.Future[None] | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve, each bandit as soon as it is loaded, and at the end finish what was accepted."""
        self._loop = asyncio.get_running_loop()
        self.engine.deliver = self._loop.call_soon_threadsafe
        self.tokens.refresh()
        self.engine.start()
        try:
            with self.database.reader.begin() as connection:
                names = [row.name for row in store.list_bandits(connection)]
            beside = [
                asyncio.create_task(self._load_all(names)),
                asyncio.create_task(self._refresh_tokens()),
            ]
            yield
            self.ready = False
            for task in beside:
                task.cancel()
        finally:
            deadline = time.monotonic() + LAST * self.settings.stop_seconds
            if await self.keeper.run(self.engine.stop, LAST * self.settings.stop_seconds):
                await self.keeper.run(self.memory.save, deadline)
            await self.reporters.stop()
            for part in (self.scheduler, self.readers, self.loaders):
                await self.keeper.run(part.stop, deadline - time.monotonic())
            with contextlib.suppress(sqlite3.Error):
                await self.keeper.run(self.database.checkpoint, "TRUNCATE")
            self.keeper.stop(deadline - time.monotonic())
            self.database.close()
            logger.info("stopped")

    async def _load_all(self, names: list[str]) -> None:
        """Load every bandit from the log; each is served as soon as it is there."""
        self._loading = True
        for name in names:
            await self._load_first(name)
        self._loading, self.ready = False, True
        logger.info(
            "ready",
            extra={"database": self.database.shown, "bandits": len(names), "broken": [*self.memory.broken]},
        )

    async def _load_first(self, name: str) -> None:
        """Load a bandit, or leave it broken; while the database is in trouble, wait for it."""
        while True:
            try:
                await self.memory.load(name)
            except Refused:
                return  # which the log has said
            except sa.exc.SQLAlchemyError as error:
                logger.warning("cannot read the bandits", extra={"error": cause(error)})
                await asyncio.sleep(self.settings.staleness)
            else:
                return

    def _committed(self, decisions: Counts, rewards: Counts, seconds: float) -> None:
        known = self.memory.by_number

        def named(counts: Counts) -> dict[str, int]:
            return {known[number].name if number in known else "": count for number, count in counts.items()}

        self.metrics.committed(named(decisions), named(rewards), seconds)

    def _write_later(self, write: Callable[[], None]) -> bool:
        """Say whether the engine takes it; at the end, when it does not, `Memory.save` writes."""
        try:
            self.engine.submit(Call(write))
        except Refused:
            return False
        return True

    async def _refresh_tokens(self) -> None:
        while True:
            await asyncio.sleep(self.settings.staleness)
            self.metrics.waiting.set(self.engine.waiting)
            try:
                await self.keeper.run(self.tokens.refresh)
            except sa.exc.SQLAlchemyError:
                logger.warning("cannot read the tokens; those known stay in force")

    async def reading(
        self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run query(connection, …), a short one, in a reading transaction beside the event loop."""
        return await self.readers.run(self._read, lambda connection: query(connection, *args, **kwargs))

    def _read(self, query: Callable[[Connection], T]) -> T:
        with self.database.reader.begin() as connection:
            return query(connection)

    async def trend(self, name: str, request: dict[str, Any]) -> Any:
        """Return the trend of the page, at most a little old; made once for all who look at it."""
        asked = json.dumps([name, request])
        due, known = self._trends.get(asked, (0.0, None))
        if time.monotonic() < due:
            return known
        return await self._looking.get(asked, lambda: self._make_trend(asked, name, request))

    async def _make_trend(self, asked: str, name: str, request: dict[str, Any]) -> Any:
        found, seconds = await self.reporters.ask("trend", name=name, request=request)
        while len(self._trends) >= REMEMBERED:
            del self._trends[next(iter(self._trends))]
        self._trends[asked] = (time.monotonic() + max(2.0, RENEWED * seconds), found)
        return found

    async def status(self) -> str:
        """Say `ready` where bandits are loaded, the engine runs and can write, or `not ready`.

        `loading` while all is well but for bandits that are still being loaded.
        """
        try:
            await self._asking.get("", self._database_answers)  # once, however many ask
        except sa.exc.SQLAlchemyError:
            return "not ready"
        if not self.database.room or not await self._writes():
            return "not ready"
        if not self.engine.alive or (self.memory.broken and not self.memory.by_name):
            return "not ready"
        return "ready" if self.ready else "loading" if self._loading else "not ready"

    async def _database_answers(self) -> None:
        await self.keeper.run(self._read, lambda connection: connection.execute(sa.select(1)).scalar_one())

    async def _writes(self) -> bool:
        """Say whether decisions can be written: where the last write failed, by another, one at a time."""
        if not self.engine.writes:
            if self._probe is None or self._probe.done():
                call = Call(self.database.probe)
                self.engine.submit(call)
                self._probe = asyncio.wrap_future(call.answer)
                self._probe.add_done_callback(lambda probe: probe.cancelled() or probe.exception())
            await asyncio.wait({self._probe}, timeout=PATIENCE)
        return self.engine.writes

    # Bandits

    async def bandit(self, name: str) -> Bandit:
        """Return the bandit called `name`, loaded if another server made it or this one has just begun."""
        known = self.memory.by_name.get(name)
        if known is not None:
            return known
        load = self._loads.get(name)
        if load is None:
            load = self._loads[name] = asyncio.create_task(self.memory.load(name))
            load.add_done_callback(functools.partial(self._loaded, name))
        done, _ = await asyncio.wait({load}, timeout=PATIENCE)
        if not done:
            text = f"bandit {name!r} is being loaded from the log: try again"
            raise Refused("unavailable", text, retry_after=2)
        return load.result()

    def _loaded(self, name: str, load: "asyncio.Task[Bandit]") -> None:
        del self._loads[name]
        if not load.cancelled():
            load.exception()  # those who waited have it, and there may be none left

    # Decisions and rewards

    def draw(
        self, bandit: Bandit, requests: Sequence[DecideRequest], where: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Draw decisions that are yet to be written, in any thread where the bandit's state is at rest.

        Request i came at `where[i]`. Those that are decided by route are drawn together.
        """
        if bandit.archived:
            raise Refused("conflict", f"bandit {bandit.name!r} is archived: it takes no more decisions")
        offers, rows = [], []
        for request, place in zip(requests, where, strict=True):
            with refusing(place):
                given = request.arms, request.arm_ids, request.context
                offer = bandit.offer(*given, self.settings.max_arms)
                offers.append(bandit.priced(offer, request.values, request.costs))
        drawn = bandit.decide(offers)
        for request, place, offer in zip(requests, where, offers, strict=True):
            with refusing(place):
                named = self.identifiers.next(), request.key, asked(request)
                rows.append(row(bandit, offer, next(drawn), *named))
        return rows

    async def decide(self, name: str, requests: list[DecideRequest], where: str = "") -> list[dict[str, Any]]:
        """Take and commit decisions, all with the same state; request i came at `where.format(i)`."""
        bandit = await self.bandit(name)
        try:
            if self.scheduler.short(bandit, requests, self.scheduler.work(bandit, requests)):
                rows, held = self.scheduler.now(bandit, requests, where), 0
            else:
                rows, held = await self._drawn(bandit, requests, where)
        except Refused as refused:
            rows, held = await self._decided(bandit, requests, where, refused)
        job = Decide(rows, self._loop.create_future(), where)
        if not held:
            return await in_turns(view, await self._submit(job))
        return await in_turns(view, await asyncio.shield(asyncio.create_task(self._held(job, held))))

    async def _drawn(
        self,
        bandit: Bandit,
        requests: list[DecideRequest],
        where: str,
        numbers: list[int] | None = None,
    ) -> tuple[list[dict[str, Any]], int]:
        """Draw rows of decisions that may take long, and say how much room they hold from now on."""
        work = self.scheduler.work(bandit, requests)
        self.scheduler.hold(work)
        try:
            return await self.scheduler.beside(bandit, requests, where, numbers), work
        except BaseException:
            self.scheduler.release(work)
            raise

    async def _held(self, job: Decide, work: int) -> list[Any]:
        """Hold the room of a long request until it is written, even if its caller has left."""
        try:
            return await self._submit(job)
        finally:
            self.scheduler.release(work)

    async def _decided(
        self, bandit: Bandit, requests: list[DecideRequest], where: str, refused: Refused
    ) -> tuple[list[dict[str, Any]], int]:
        """Find what the log has under the keys of requests that can be granted no more, or refuse.

        The bandit may have been archived, have lost an item or grown too large since a decision was committed
        whose answer was lost: whoever asks again for it must get it, also in one batch with new decisions.
        """
        keys = [request.key for request in requests if request.key is not None]
        if refused.kind not in ("invalid", "conflict") or not keys:
            raise refused
        known = await self.reading(store.decisions_by_key, {bandit.id: keys})
        left = [i for i, one in enumerate(requests) if one.key is None or (bandit.id, one.key) not in known]
        if len(left) == len(requests):
            raise refused
        held, drawn = 0, list[dict[str, Any]]()
        if left:
            drawn, held = await self._drawn(bandit, [requests[i] for i in left], where, left)
        fresh = dict(zip(left, drawn, strict=True))
        try:
            return [
                fresh[i] if i in fresh else {**known[bandit.id, str(one.key)], "digest": asked(one)}
                for i, one in enumerate(requests)
            ], held
        except INPUT:
            self.scheduler.release(held)
            raise refused from None

    async def reward(self, name: str, rewards: list[Given], where: str = "") -> list[dict[str, Any]]:
        """Take and commit rewards; number i came at `where.format(i)`."""
        bandit = await self.bandit(name)
        for i, (_, value, _) in enumerate(rewards):
            with refusing(where.format(i)):
                bandit.check_reward(value)
        return await self._submit(Reward(bandit.id, rewards, self._loop.create_future(), where))

    async def _submit(self, job: Decide | Reward) -> list[Any]:
        self.hand_in(job)
        answers: list[Any] = await job.answer
        return answers

    def hand_in(self, job: Decide | Reward) -> None:
        """Hand a job to the engine, which answers `job.answer` in this thread; or refuse."""
        self.engine.accept(job)
        if not self._gathered:  # those that are handled in the same turn of the loop go together
            self._loop.call_soon(self._pass_on)
        self._gathered.append(job)

    def _pass_on(self) -> None:
        jobs, self._gathered = self._gathered, []
        try:
            self.engine.submit(*jobs)
        except Refused as refused:
            for job in jobs:
                job.answer.set_exception(refused)


def asked(request: DecideRequest) -> bytes | None:
    """Tell a request from another with the same key."""
    if request.key is None:
        return None
    return digest(request.arms, request.arm_ids, request.context, request.values, request.costs)
