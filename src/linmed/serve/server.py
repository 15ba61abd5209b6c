"""One server: its parts and their life, and what it does for a request.

Four kinds of threads. The event loop's reads requests, draws decisions (`draw`) and folds rewards
(`Memory.fold`): short work on the bandits in memory, which no other thread touches. The engine's alone
writes (`Engine.submit`). The compiler's makes policies ready before a bandit is served (`Compiler.ready`).
Whatever else reads the log does so in a thread of its own (`reading`).
"""

import asyncio
import contextlib
import functools
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from linmed.checks import BadValue
from linmed.policies import Policy
from linmed.serve import store
from linmed.serve.bandit import Bandit, Catalogue, Map, as_catalogue, as_policy
from linmed.serve.bodies import BanditChange, CatalogueBody, DecideRequest, NewBandit
from linmed.serve.compiling import Compiler
from linmed.serve.database import Database
from linmed.serve.decisions import Drawer, view
from linmed.serve.engine import Call, Decide, Engine, Reward
from linmed.serve.errors import INPUT, Refused, field_of, refusing
from linmed.serve.memory import Memory
from linmed.serve.metrics import Metrics
from linmed.serve.reports import Reports
from linmed.serve.settings import LARGEST, Settings
from linmed.serve.tokens import Tokens

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("linmed.serve")

PATIENCE = 5.0
"""Seconds that a request waits for a bandit that is not loaded yet; clients give up after 10."""


class Server:
    """One process over a log."""

    def __init__(self, settings: Settings, database: Database):
        self.settings, self.database = settings, database
        self.metrics = Metrics()
        self.tokens = Tokens(database)
        self.reports = Reports(database)
        self.drawer = Drawer()
        self.engine = Engine(database, staleness=settings.staleness, max_waiting=settings.max_waiting)
        self.compiler = Compiler()
        self.memory = Memory(database, settings.snapshot_every, self._write_later, self.compiler.ready)
        self.engine.committed = self.metrics.committed
        self.engine.fold = self.memory.fold
        self.engine.changed = self.memory.changed
        self.metrics.waiting.set_function(lambda: self.engine.waiting)
        self.ready = False
        self._loading = False
        self._gathered: list[Decide | Reward] = []
        self._loads: dict[str, asyncio.Task[Bandit]] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve, each bandit as soon as it is loaded, and at the end finish what was accepted."""
        self._loop = asyncio.get_running_loop()
        self.engine.deliver = self._loop.call_soon_threadsafe
        self.tokens.refresh()
        self.engine.start()
        try:
            with self.database.reader.begin() as connection:
                rows = store.list_bandits(connection)
            for row in rows:
                store.policy_of(row)  # a policy that nobody knows here is better found out at once
            beside = [
                asyncio.create_task(self._load_all([row.name for row in rows])),
                asyncio.create_task(self._refresh_tokens()),
            ]
            yield
            self.ready = False
            for task in beside:
                task.cancel()
        finally:
            await asyncio.to_thread(self.compiler.stop)
            await asyncio.to_thread(self.engine.stop)
            await asyncio.to_thread(self.memory.save)
            self.database.close()
            logger.info("stopped")

    async def _load_all(self, names: list[str]) -> None:
        """Bandits whose policies were compiled on this machine before take a moment."""
        self._loading = True
        try:
            for name in names:
                await self.memory.load(name)
        except Exception:
            logger.exception("a bandit cannot be loaded; start the server again")
            return
        finally:
            self._loading = False
        self.ready = True
        logger.info("ready", extra={"database": self.database.shown, "bandits": len(names)})

    def _write_later(self, write: Callable[[], None]) -> bool:
        """Whether the engine takes it; at the end, when it does not, `Memory.save` writes."""
        try:
            self.engine.submit(Call(write))
        except Refused:
            return False
        return True

    async def _refresh_tokens(self) -> None:
        while True:
            await asyncio.sleep(self.settings.staleness)
            try:
                await asyncio.to_thread(self.tokens.refresh)
            except sa.exc.DBAPIError:
                logger.warning("cannot read the tokens; those known stay in force")

    async def reading(
        self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """query(connection, …) in a reading transaction, beside the event loop."""

        def run() -> T:
            with self.database.reader.begin() as connection:
                return query(connection, *args, **kwargs)

        return await asyncio.to_thread(run)

    async def status(self) -> str:
        """`ready` where bandits are loaded, the engine runs and the database answers; else `not ready`.

        `compiling` while all is well but for bandits that are still being loaded.
        """
        try:
            await self.reading(lambda connection: connection.execute(sa.select(1)).scalar_one())
        except sa.exc.DBAPIError:
            return "not ready"
        if not self.engine.alive:
            return "not ready"
        return "ready" if self.ready else "compiling" if self._loading else "not ready"

    # Bandits

    async def bandit(self, name: str) -> Bandit:
        """The bandit called `name`, loaded if another server made it or this one has just begun."""
        known = self.memory.by_name.get(name)
        if known is not None:
            return known
        load = self._loads.get(name)
        if load is None:
            load = self._loads[name] = asyncio.create_task(self.memory.load(name))
            load.add_done_callback(functools.partial(self._loaded, name))
        done, _ = await asyncio.wait({load}, timeout=PATIENCE)
        if not done:
            text = f"the policy of bandit {name!r} is being compiled for this machine: try again"
            raise Refused("unavailable", text, retry_after=2)
        return load.result()

    def _loaded(self, name: str, load: "asyncio.Task[Bandit]") -> None:
        del self._loads[name]
        if not load.cancelled():
            load.exception()  # those who waited have it, and there may be none left

    async def create(self, new: NewBandit) -> tuple[bool, Row[Any]]:
        """Make a bandit; whether it is new, and its row. The same request again changes nothing."""
        with refusing():
            policy = as_policy(new.policy)
            check_range(new.reward_range)
            catalogue = catalogue_of(new.catalogue, new.map, new.dim)
            await self._try(new.dim, policy, catalogue)
        text = json.dumps(new.model_dump(include={"catalogue", "map", "reward_range", "log_arms"}))

        def write(connection: Connection) -> tuple[bool, Row[Any]]:
            row = store.find_bandit(connection, new.name)
            if row is None:
                store.add_bandit(connection, new.name, new.dim, text, policy)
                return True, store.the_bandit(connection, new.name)
            same = (row.dim, row.settings, json.loads(row.config)) == (new.dim, text, policy.to_dict())
            if not same or row.archived:
                message = f"name: a bandit {new.name!r} exists with other settings"
                raise Refused("conflict", message, "name")
            return False, row

        created, row = await self._writing(write)
        await self.bandit(new.name)
        return created, row

    async def change(self, name: str, change: BanditChange) -> Row[Any]:
        """Change a bandit; answers when this server serves it so."""
        bandit = await self.bandit(name)
        with refusing():
            policy = None if change.policy is None else as_policy(change.policy)
            check_range(change.reward_range)
            catalogue = catalogue_of(change.catalogue, bandit.map, bandit.dim) or bandit.catalogue
            await self._try(bandit.dim, policy or bandit.policy, catalogue)
        bandit = await self.bandit(name)  # as it is by now

        def write(connection: Connection) -> Row[Any]:
            row = store.the_bandit(connection, name)
            changed = change.model_dump(include={"catalogue", "reward_range"}, exclude_none=True)
            values: dict[str, Any] = {"settings": json.dumps({**json.loads(row.settings), **changed})}
            if change.archived is not None:
                values["archived"] = change.archived
            other = policy is not None and policy.to_dict() != json.loads(row.config)
            if other or (bandit.keeps and change.catalogue is not None):
                values["version"] = row.version + 1
                store.add_policy(connection, row.id, row.version + 1, policy or bandit.policy)
            store.change_bandit(connection, row.id, **values)
            return store.the_bandit(connection, name)

        row = await self._writing(write)
        await self.memory.load(name, row.revision)
        return row

    async def _try(self, dim: int, policy: Policy, catalogue: Catalogue | None) -> None:
        """Refuse what could not serve, once the policy is compiled; other bandits are served meanwhile."""
        await self.compiler.ready(policy)
        await asyncio.to_thread(try_bandit, dim, policy, catalogue)

    async def _writing(self, write: Callable[[Connection], T]) -> T:
        """write(connection) in a transaction of the engine's."""

        def run() -> T:
            with self.database.writer.begin() as connection:
                return write(connection)

        call = Call(run)
        self.engine.submit(call)
        try:
            written: T = await asyncio.wrap_future(call.answer)
        except sa.exc.IntegrityError:  # another server did the same at the same moment
            raise Refused("conflict", "another change of this bandit came first: try again") from None
        except sa.exc.DBAPIError:
            raise Refused("unavailable", "the database does not answer", retry_after=1) from None
        return written

    # Decisions and rewards

    def draw(self, bandit: Bandit, request: DecideRequest, where: str = "") -> dict[str, Any]:
        """A decision that is yet to be written. In the event loop: as dear as the policy is."""
        if bandit.archived:
            raise Refused("conflict", f"bandit {bandit.name!r} is archived: it takes no more decisions")
        with refusing(where):
            offer = bandit.offer(request.arms, request.arm_ids, request.context, self.settings.max_arms)
            return self.drawer.draw(bandit, offer, request.key)

    async def decide(self, name: str, requests: list[DecideRequest], where: str = "") -> list[dict[str, Any]]:
        """Committed decisions, all taken with the same state; request i came at `where.format(i)`."""
        bandit = await self.bandit(name)
        rows = [self.draw(bandit, request, where.format(i)) for i, request in enumerate(requests)]
        return [view(row) for row in await self._submit(Decide(rows, self._loop.create_future(), where))]

    async def reward(
        self, name: str, pairs: list[tuple[str, float]], where: str = ""
    ) -> list[dict[str, Any]]:
        """Committed rewards; pair i came at `where.format(i)`."""
        bandit = await self.bandit(name)
        for i, (_, value) in enumerate(pairs):
            with refusing(where.format(i)):
                bandit.check_reward(value)
        return await self._submit(Reward(bandit.id, pairs, self._loop.create_future(), where))

    async def _submit(self, job: Decide | Reward) -> list[Any]:
        try:
            self.engine.accept(job)
        except Refused:
            self.metrics.refused.labels("load").inc()
            raise
        if not self._gathered:  # those that are handled in the same turn of the loop go together
            self._loop.call_soon(self._pass_on)
        self._gathered.append(job)
        answers: list[Any] = await job.answer
        return answers

    def _pass_on(self) -> None:
        jobs, self._gathered = self._gathered, []
        try:
            self.engine.submit(*jobs)
        except Refused as refused:
            for job in jobs:
                job.answer.set_exception(refused)


def try_bandit(dim: int, policy: Policy, catalogue: Catalogue | None) -> None:
    """Refuse what could not serve: one decision and one reward are tried on a state of no consequence."""
    try:
        Bandit(id=0, name="", dim=dim, policy=policy, catalogue=catalogue).warm_up()
    except INPUT as error:
        field = "catalogue" if field_of(error) in ("catalogue", "arms") else "policy"
        raise BadValue(field, f"policy: {str(error).removeprefix('policy: ')}") from None


def catalogue_of(given: CatalogueBody | None, map: Map, dim: int) -> Catalogue | None:
    """The catalogue of a request, checked."""
    return None if given is None else as_catalogue(given.ids, given.features, map, dim)


def check_range(reward_range: list[float] | None) -> None:
    """Lowest < highest."""
    if reward_range is not None and not -LARGEST <= reward_range[0] < reward_range[1] <= LARGEST:
        text = f"reward_range must be [lowest, highest] within ±{LARGEST:g}, got {reward_range}"
        raise BadValue("reward_range", text)
