"""The parts of one server and their life: database, engine, bandits in memory, tokens, reports."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import sqlalchemy as sa

from linmed import checks
from linmed.policies import Policy
from linmed.serve import store
from linmed.serve.bandit import Bandit, Catalogue, Map, as_catalogue
from linmed.serve.database import Database
from linmed.serve.drawing import Drawer, view
from linmed.serve.engine import Call, Decide, Engine, Refused, Reward
from linmed.serve.loading import warm_up
from linmed.serve.models import Arms as GivenArms
from linmed.serve.models import BanditChange, DecideRequest, NewBandit
from linmed.serve.operation import Metrics
from linmed.serve.registry import Registry
from linmed.serve.reports import Reports
from linmed.serve.settings import LARGEST, Settings
from linmed.serve.tokens import Tokens

logger = logging.getLogger("linmed.serve")


class Server:
    """One process over a log."""

    def __init__(self, settings: Settings, database: Database):
        self.settings, self.database = settings, database
        self.metrics = Metrics()
        self.tokens = Tokens(database)
        self.reports = Reports(database)
        self.drawer = Drawer()
        self.engine = Engine(database, staleness=settings.staleness, max_waiting=settings.max_waiting)
        self.registry = Registry(database, settings.snapshot_every, self._write_later)
        self.engine.committed = self.metrics.committed
        self.engine.fold = self.registry.fold
        self.engine.changed = self.registry.changed
        self.metrics.waiting.set_function(lambda: self.engine.waiting)
        self.ready = False
        self._gathered: list[Decide | Reward] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Load every bandit, serve, and at the end finish what was accepted."""
        self._loop = asyncio.get_running_loop()
        self.engine.deliver = self._loop.call_soon_threadsafe
        self.tokens.refresh()
        self.engine.start()
        try:
            with self.database.reader.begin() as connection:
                names = [row.name for row in store.list_bandits(connection)]
            for name in names:
                await self.registry.load(name)
            refreshing = asyncio.create_task(self._refresh_tokens())
            self.ready = True
            logger.info("ready", extra={"database": self.database.shown, "bandits": len(names)})
            yield
            self.ready = False
            refreshing.cancel()
        finally:
            await asyncio.to_thread(self.engine.stop)
            await asyncio.to_thread(self.registry.save)
            self.database.close()
            logger.info("stopped")

    def _write_later(self, write: Callable[[], None]) -> bool:
        """Whether the engine takes it; at the end, when it does not, `registry.save` writes."""
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

    def check_database(self) -> bool:
        """Whether it answers."""
        try:
            with self.database.reader.begin() as connection:
                connection.execute(sa.select(1))
        except sa.exc.DBAPIError:
            return False
        return True

    # Bandits

    async def bandit(self, name: str) -> Bandit:
        """The bandit called `name`, loaded if another server made it."""
        found = self.registry.by_name.get(name) or await self.registry.load(name)
        if found is None:
            raise Refused(404, f"there is no bandit {name!r}")
        return found

    async def create(self, new: NewBandit) -> tuple[bool, Any]:
        """Make a bandit; whether it is new, and its row. The same request again changes nothing."""
        policy = as_policy(new.policy)
        settings = {
            "catalogue": None if new.catalogue is None else new.catalogue.model_dump(),
            "map": new.map,
            "reward_range": as_range(new.reward_range),
            "log_arms": new.log_arms,
        }
        try_bandit(new.dim, policy, as_catalogue_of(new.catalogue, new.map, new.dim))
        text = json.dumps(settings)

        def write() -> tuple[bool, Any]:
            with self.database.writer.begin() as connection:
                row = store.find_bandit(connection, new.name)
                if row is None:
                    store.add_bandit(connection, new.name, new.dim, text, policy)
                    return True, store.find_bandit(connection, new.name)
            same = (row.dim, row.settings, json.loads(row.config)) == (new.dim, text, policy.to_dict())
            if not same or row.archived:
                raise Refused(409, f"name: a bandit {new.name!r} exists with other settings")
            return False, row

        created, row = await self._call(write)
        await self.bandit(new.name)
        return created, row

    async def change(self, name: str, change: BanditChange) -> Any:
        """Change a bandit; answers when this server serves it so."""
        bandit = await self.bandit(name)
        policy = None if change.policy is None else as_policy(change.policy)
        catalogue = as_catalogue_of(change.catalogue, bandit.map, bandit.dim) or bandit.catalogue
        try_bandit(bandit.dim, policy or bandit.policy, catalogue)
        reward_range = as_range(change.reward_range)

        def write() -> Any:
            with self.database.writer.begin() as connection:
                row = store.find_bandit(connection, name)
                assert row is not None
                values: dict[str, Any] = {}
                settings = json.loads(row.settings)
                if change.catalogue is not None:
                    settings["catalogue"] = change.catalogue.model_dump()
                if reward_range is not None:
                    settings["reward_range"] = reward_range
                if change.archived is not None:
                    values["archived"] = change.archived
                other = policy is not None and policy.to_dict() != json.loads(row.config)
                if other or (bandit.keeps and change.catalogue is not None):
                    values["version"] = row.version + 1
                    store.add_policy(connection, row.id, row.version + 1, policy or bandit.policy)
                store.change_bandit(connection, row.id, settings=json.dumps(settings), **values)
                return store.find_bandit(connection, name)

        row = await self._call(write)
        await self.registry.load(name, row.revision)
        return row

    async def _call(self, function: Any) -> Any:
        call = Call(function)
        self.engine.submit(call)
        try:
            return await asyncio.wrap_future(call.answer)
        except sa.exc.IntegrityError:  # another server did the same at the same moment
            raise Refused(409, "another change of this bandit came first: try again") from None
        except sa.exc.DBAPIError:
            raise Refused(503, "the database does not answer", 1) from None

    # Decisions and rewards

    def draw(self, bandit: Bandit, request: DecideRequest, where: str = "") -> dict[str, Any]:
        """A decision that is yet to be written."""
        if bandit.archived:
            raise Refused(409, f"bandit {bandit.name!r} is archived: it takes no more decisions")
        try:
            arms = bandit.arms(request.arms, request.arm_ids, request.context, self.settings.max_arms)
            return self.drawer.draw(bandit, arms, request.key)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise Refused(422, f"{where}{error}") from None

    async def decide(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Write drawn decisions; what is in the log afterwards."""
        return [view(row) for row in await self._submit(Decide(rows, self._loop.create_future()))]

    async def reward(self, bandit: Bandit, pairs: list[tuple[str, float]]) -> list[dict[str, Any]]:
        """Committed rewards."""
        for i, (_, value) in enumerate(pairs):
            where = f"rewards[{i}]." if len(pairs) > 1 else ""
            if abs(value) > LARGEST:
                raise Refused(422, f"{where}reward is {value:g}; at most {LARGEST:g} in size is accepted")
            try:
                bandit.check_reward(value)
            except ValueError as error:
                raise Refused(422, f"{where}{error}") from None
        return await self._submit(Reward(bandit.id, pairs, self._loop.create_future()))

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


def as_policy(config: dict[str, Any]) -> Policy:
    """The policy of a request."""
    try:
        policy = Policy.from_dict(config)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Refused(422, f"policy: {error}") from None
    if "\0" in policy.name or len(policy.name) > 500:
        raise Refused(422, "policy: label must be a name of at most 500 characters")
    return policy


def try_bandit(dim: int, policy: Policy, catalogue: Catalogue | None) -> None:
    """Refuse what could not serve: one decision and one reward are tried on a state of no consequence."""
    try:
        warm_up(Bandit(0, "", dim, policy, 1, 1, False, True, "plain", None, catalogue))
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Refused(422, f"policy: {str(error).removeprefix('policy: ')}") from None


def as_catalogue_of(given: GivenArms | None, map: Map, dim: int) -> Catalogue | None:
    """The catalogue of a request, checked."""
    if given is None:
        return None
    if len(given.ids) != len(given.features):
        raise Refused(422, f"catalogue: {len(given.ids)} ids for {len(given.features)} rows of features")
    try:
        return as_catalogue(given.ids, given.features, map, dim)
    except (ValueError, TypeError) as error:
        raise Refused(422, f"catalogue: {str(error).removeprefix('catalogue: ')}") from None


def as_range(reward_range: list[float] | None) -> list[float] | None:
    """Lowest < highest."""
    if reward_range is not None:
        low, high = (checks.real("reward_range", float(value)) for value in reward_range)
        if not -LARGEST <= low < high <= LARGEST:
            raise Refused(
                422, f"reward_range must be [lowest, highest] within ±{LARGEST:g}, got {reward_range}"
            )
    return reward_range
