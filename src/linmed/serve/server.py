"""The parts of one server and their life: database, engine, bandits in memory, tokens, reports."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy as sa

from linmed import checks
from linmed.policies import Policy
from linmed.serve import store
from linmed.serve.bandit import Bandit, as_catalogue
from linmed.serve.database import Database
from linmed.serve.engine import Ask, Call, Decide, Engine, Refused, Reward
from linmed.serve.loading import load, warm_up
from linmed.serve.models import BanditChange, DecideRequest, NewBandit
from linmed.serve.operation import Metrics
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
        self.engine = Engine(
            database,
            staleness=settings.staleness,
            max_waiting=settings.max_waiting,
            snapshot_every=settings.snapshot_every,
        )
        self.engine.committed = self.metrics.committed
        self.engine.changed = self._changed
        self.metrics.waiting.set_function(lambda: self.engine.waiting)
        self.ready = False
        self._loader = ThreadPoolExecutor(1, "linmed-loader")
        self._names: dict[str, Bandit] = {}
        self._reloading: set[int] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Load every bandit, serve, and at the end finish what was accepted."""
        loop = asyncio.get_running_loop()
        self.engine.deliver = loop.call_soon_threadsafe
        self.tokens.refresh()
        self.engine.start()
        try:
            with self.database.reader.begin() as connection:
                names = [row.name for row in store.list_bandits(connection)]
            for name in names:
                await loop.run_in_executor(self._loader, self._load, name)
            refreshing = asyncio.create_task(self._refresh_tokens())
            self.ready = True
            logger.info("ready", extra={"database": self.database.shown, "bandits": len(names)})
            yield
            self.ready = False
            refreshing.cancel()
        finally:
            self._loader.shutdown()
            await asyncio.to_thread(self.engine.stop)
            self.database.close()
            logger.info("stopped")

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
        found = self._names.get(name)
        if found is None:
            found = await asyncio.get_running_loop().run_in_executor(self._loader, self._load, name)
        if found is None:
            raise Refused(404, f"there is no bandit {name!r}")
        return found

    def _load(self, name: str, at_least: int = 0) -> Bandit | None:
        """Read a bandit and let the engine adopt it (in the loader's thread)."""
        known = self._names.get(name)
        if known is not None and known.revision >= at_least > 0:
            return known
        with self.database.reader.begin() as connection:
            row = store.find_bandit(connection, name)
            if row is None:
                return None
            bandit = load(connection, row)
        call = Call(lambda: self.engine.adopt(bandit))
        self.engine.submit(call)
        call.answer.result()
        self._names[name] = bandit
        return bandit

    def _changed(self, number: int) -> None:
        """Another server changed a bandit (in the engine's thread)."""
        if number in self._reloading:
            return
        self._reloading.add(number)
        name = self.engine.bandits[number].name

        def reload() -> None:
            try:
                self._load(name)
            except Exception:
                logger.exception("cannot load bandit %s again", name)
            finally:
                self._reloading.discard(number)

        with contextlib.suppress(RuntimeError):  # shutting down
            self._loader.submit(reload)

    async def create(self, new: NewBandit) -> tuple[bool, Any]:
        """Make a bandit; whether it is new, and its row. The same request again changes nothing."""
        policy = as_policy(new.policy, new.dim)
        settings = {
            "catalogue": None if new.catalogue is None else new.catalogue.model_dump(),
            "map": new.map,
            "reward_range": as_range(new.reward_range),
            "log_arms": new.log_arms,
        }
        if new.catalogue is not None:
            check_catalogue(new.catalogue.ids, new.catalogue.features, new.map, new.dim)
        text = json.dumps(settings)
        try_bandit(new.name, new.dim, policy, new.log_arms)

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
        policy = None if change.policy is None else as_policy(change.policy, bandit.dim)
        if policy is not None:
            try_bandit(name, bandit.dim, policy, bandit.log_arms)
        if change.catalogue is not None:
            check_catalogue(change.catalogue.ids, change.catalogue.features, bandit.map, bandit.dim)
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
                if policy is not None and policy.to_dict() != json.loads(row.config):
                    values["version"] = row.version + 1
                    store.add_policy(connection, row.id, row.version + 1, policy)
                store.change_bandit(connection, row.id, settings=json.dumps(settings), **values)
                return store.find_bandit(connection, name)

        row = await self._call(write)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._loader, self._load, name, row.revision)
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

    def ask(self, bandit: Bandit, request: DecideRequest, where: str = "") -> Ask:
        """A checked request for one decision."""
        try:
            arms = bandit.arms(request.arms, request.arm_ids, request.context, self.settings.max_arms)
        except (ValueError, TypeError) as error:
            raise Refused(422, f"{where}{error}") from None
        return Ask(arms, request.key)

    async def decide(self, bandit: Bandit, asks: list[Ask]) -> list[dict[str, Any]]:
        """Committed decisions."""
        return await self._submit(Decide(bandit.id, asyncio.get_running_loop().create_future(), asks))

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
        return await self._submit(Reward(bandit.id, asyncio.get_running_loop().create_future(), pairs))

    async def _submit(self, job: Decide | Reward) -> list[dict[str, Any]]:
        try:
            self.engine.submit(job)
        except Refused as refused:
            self.metrics.refused.labels("load" if refused.status == 429 else "stopping").inc()
            raise
        answers: list[dict[str, Any]] = await job.answer
        return answers


def as_policy(config: dict[str, Any], dim: int) -> Policy:
    """The policy of a request."""
    try:
        return Policy.from_dict(config)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Refused(422, f"policy: {error}") from None


def try_bandit(name: str, dim: int, policy: Policy, log_arms: bool) -> None:
    """Refuse what could not serve: one decision and one reward are tried on a state of no consequence."""
    try:
        warm_up(Bandit(0, name, dim, policy, 1, 1, False, log_arms, "plain", None, None))
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Refused(422, f"policy: {error}") from None


def check_catalogue(ids: list[str], features: list[list[float]], map: Any, dim: int) -> None:
    """Refuse a catalogue that could not serve."""
    if len(ids) != len(features):
        raise Refused(422, f"catalogue: {len(ids)} ids for {len(features)} rows of features")
    try:
        as_catalogue(ids, features, map, dim)
    except (ValueError, TypeError) as error:
        raise Refused(422, str(error).replace("arms", "catalogue.features", 1)) from None


def as_range(reward_range: list[float] | None) -> list[float] | None:
    """Lowest < highest."""
    if reward_range is not None:
        low, high = (checks.real("reward_range", float(value)) for value in reward_range)
        if not -LARGEST <= low < high <= LARGEST:
            raise Refused(422, f"reward_range must be [lowest, highest] within ±{LARGEST:g}, got {reward_range}")
    return reward_range
