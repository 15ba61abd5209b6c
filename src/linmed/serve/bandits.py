"""Make, change and show bandits: what is wanted is tried, written by the engine, and then served."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from linmed.control_group import control_group
from linmed.deadlines import Waiting
from linmed.features import Number
from linmed.policies import Policy
from linmed.serve import store
from linmed.serve.bandit import Bandit, Options, as_policy
from linmed.serve.database import Database
from linmed.serve.encoding import Joining, as_catalogue, as_features
from linmed.serve.engine import Call, Engine
from linmed.serve.errors import INPUT, Refused, field_of, place, refusing
from linmed.serve.items import (
    MOST_AT_ONCE,
    Catalogue,
    Version,
    page,
    present_catalogue,
    put_items,
    remove_item,
    remove_items,
    replace_catalogue,
)
from linmed.serve.memory import Memory
from linmed.serve.scheduling import Pool
from linmed.serve.schemas import LISTED, BanditChange, CatalogueBody, NewBandit
from linmed.serve.settings import LARGEST
from linmed.validation import BadValue

T = TypeVar("T")


class Bandits:
    """Make and change bandits; `find` gives one that is served."""

    def __init__(
        self,
        database: Database,
        engine: Engine,
        memory: Memory,
        threads: Pool,
        find: Callable[[str], Awaitable[Bandit]],
    ):
        self.database, self.engine = database, engine
        self.memory, self.threads, self.find = memory, threads, find

    async def create(self, new: NewBandit) -> tuple[bool, dict[str, Any]]:
        """Make a bandit; return whether it is new, and how it is. The same request again changes nothing."""
        with refusing():
            policy = as_policy(new.policy)
            check_range(new.reward_range)
            joining = joining_of(new)
            check_models(policy, joining)
            catalogue = await self.threads.run(catalogue_of, new.catalogue, joining)
            check_options(new, policy, joining.dim, catalogue)
            settings = settings_of(new, joining)
            await self._try(joining.dim, policy, catalogue, Options.of(settings))

        def write(connection: Connection) -> tuple[bool, dict[str, Any]]:
            row = store.find_bandit(connection, new.name)
            if row is None:
                store.add_bandit(connection, new.name, joining.dim, json.dumps(settings), policy, catalogue)
                return True, bandit_view(connection, new.name)
            there, old = bandit_view(connection, new.name), present_catalogue(connection, row)
            here = {**there, "dim": joining.dim, "policy": policy.to_dict(), "archived": False, **settings}
            other = differences(there, here)
            same = old is catalogue if old is None or catalogue is None else catalogue.same_items(old)
            if other or not same:
                other += [] if same else ["catalogue has other items, or other features, there than here"]
                message = f"name: a bandit {new.name!r} exists with other settings: {'; '.join(other)}"
                raise Refused("conflict", message, "name")
            return False, there

        created, view = await self._writing(write)
        await self.find(new.name)
        return created, view

    async def change(self, name: str, change: BanditChange) -> dict[str, Any]:
        """Change a bandit; answers when this server serves it so."""
        bandit = await self.find(name)
        with refusing():
            policy = None if change.policy is None else as_policy(change.policy)
            check_range(change.reward_range)
            if bandit.options.wait is not None:
                reward_range = change.reward_range or bandit.reward_range
                check_missing(bandit.options.wait, policy or bandit.policy, reward_range)
            catalogue = await self.threads.run(catalogue_of, change.catalogue, bandit.joining)
            await self._try(
                bandit.dim, policy or bandit.policy, catalogue or bandit.catalogue, bandit.options
            )

        def write(connection: Connection) -> tuple[int, dict[str, Any]]:
            row = store.the_bandit(connection, name)
            values: dict[str, Any] = {}
            if change.reward_range is not None:
                settings = {**json.loads(row.settings), "reward_range": change.reward_range}
                values["settings"] = json.dumps(settings)
            if change.archived is not None:
                values["archived"] = change.archived
            if policy is not None and policy.to_dict() != json.loads(row.config):
                values |= new_version(connection, row, policy)
            if catalogue is not None:
                written = replace_catalogue(connection, row, catalogue)
                values |= new_catalogue(connection, row, written, already="version" in values)
            store.change_bandit(connection, row.id, **values)
            return store.the_bandit(connection, name).revision, bandit_view(connection, name)

        revision, view = await self._writing(write)
        await self.memory.load(name, revision)
        return view

    async def change_items(self, name: str, given: CatalogueBody) -> dict[str, int]:
        """Add or change items; answers when this server offers them."""
        bandit = await self.find(name)
        try:
            with refusing():
                changed = await self.threads.run(catalogue_of, given, bandit.joining)
        except Refused as refused:  # here the whole request is what elsewhere is its field `catalogue`
            field = (refused.field or "").removeprefix("catalogue").removeprefix(".") or "ids"
            text = refused.message.removeprefix("catalogue: ").removeprefix("catalogue.")
            raise Refused("invalid", text if text.startswith(field) else f"{field}: {text}", field) from None
        assert changed is not None
        ids, features = changed.ids, changed.features
        return await self._change_items(bandit, lambda there, row: put_items(there, row, ids, features))

    async def remove_item(self, name: str, item: str) -> dict[str, int]:
        """Remove an item; answers when this server offers it no more."""
        bandit = await self.find(name)
        return await self._change_items(bandit, lambda there, row: remove_item(there, row, item))

    async def remove_items(self, name: str, ids: Sequence[str]) -> dict[str, int]:
        """Remove items; answers when this server offers them no more."""
        bandit = await self.find(name)
        return await self._change_items(bandit, lambda there, row: remove_items(there, row, ids))

    async def _change_items(
        self, bandit: Bandit, write_items: Callable[[Connection, Row[Any]], Version]
    ) -> dict[str, int]:
        def write(connection: Connection) -> tuple[int, Version]:
            row = store.the_bandit(connection, bandit.name)
            written = write_items(connection, row)
            values = new_catalogue(connection, row, written)
            if values:
                store.change_bandit(connection, row.id, **values)
            return row.revision + bool(values), written

        revision, written = await self._writing(write)
        await self.memory.load(bandit.name, revision)
        return {"catalogue_version": written.catalogue, "items": written.item_count}

    async def _try(self, *given: Any) -> None:
        """Refuse what could not serve; other bandits are served meanwhile."""
        await self.threads.run(try_bandit, *given)

    async def _writing(self, write: Callable[[Connection], T]) -> T:
        """Run write(connection) in a transaction of the engine."""

        def run() -> T:
            with self.database.writer.begin() as connection:
                self.database.lock(connection)  # versions are counted: one change after the other
                return write(connection)

        call = Call(run)
        self.engine.submit(call)
        try:
            written: T = await asyncio.wrap_future(call.answer)
        except sa.exc.IntegrityError:  # another server did the same at the same moment
            raise Refused("conflict", "another change of this bandit came first: try again") from None
        return written


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Say in what two descriptions of a bandit differ, a sentence for each setting; policies by parameter."""
    found = []
    for name, value in here.items():
        old, shorter = there[name], name in ("features", "shadow")
        if name == "policy" and old["policy"] == value["policy"]:
            both = [{f"policy.{key}": one.get(key) for key in {**old, **value}} for one in (old, value)]
            found += differences(*both)
        elif old != value:
            old, value = (old["policy"], value["policy"]) if name == "policy" else (old, value)
            said = f"{name} is {old} there and {value} here"
            found.append(f"{name}: others there than here" if shorter else said)
    return found


def bandit_view(connection: Connection, name: str) -> dict[str, Any]:
    """A bandit as the API shows it."""
    row = store.the_bandit(connection, name)
    return {
        "name": row.name,
        "dim": row.dim,
        "policy": json.loads(row.config),
        "policy_name": row.policy_name,
        "policy_version": row.version,
        "catalogue": listed(connection, row),
        "catalogue_version": row.catalogue,
        "items": row.item_count or 0,
        "features": None,
        **json.loads(row.settings),
        "archived": row.archived,
        "created": row.created,
    }


def listed(connection: Connection, row: Row[Any], most: int = LISTED) -> dict[str, Any] | None:
    """The catalogue of the bandit of this row, if it has one of at most so many items."""
    if row.catalogue is None or row.item_count > most:
        return None
    found = page(connection, row.id, row.catalogue, most)
    return {"ids": found.ids, "features": found.features}


def new_version(connection: Connection, row: Row[Any], policy: Policy) -> dict[str, Any]:
    """Write the next version of a bandit's policy; what changes in its row."""
    if store.origin(connection, row.id) is not None:
        text = (
            f"policy: bandit {row.name!r} was imported from an agent's file; the rewards that the agent had "
            "learned from are not in the log, so no other policy could learn from them"
        )
        raise Refused("conflict", text, "policy")
    for values in store.reward_values(connection, row.id):
        try:
            policy.check_rewards(values)
        except BadValue as error:
            text = f"policy: {policy.name} cannot learn from the rewards that the log has ({error})"
            raise Refused("conflict", text, "policy") from None
    store.add_policy(connection, row.id, row.version + 1, policy)
    return {"version": row.version + 1}


def new_catalogue(
    connection: Connection, row: Row[Any], version: Version, already: bool = False
) -> dict[str, Any]:
    """What changes in a bandit's row with a version of its catalogue that has been written.

    A policy that works for one set of arms begins anew with another: its next version, unless there is one
    `already`.
    """
    if version.catalogue == row.catalogue:
        return {}
    policy = store.policy_of(row)
    anew = not policy.learns_from_arms and not already
    if anew and version.item_count > MOST_AT_ONCE:
        text = f"{policy.name} decides among one set of arms, of at most {MOST_AT_ONCE} items"
        raise Refused("invalid", f"ids: {text}, this would have {version.item_count}", "ids")
    return {**version._asdict(), **(new_version(connection, row, policy) if anew else {})}


def try_bandit(dim: int, policy: Policy, catalogue: Catalogue | None, options: Options) -> None:
    """Refuse what could not serve: one decision and one reward are tried on a state of no consequence."""
    try:
        Bandit(id=0, name="", dim=dim, policy=policy, catalogue=catalogue, options=options).make_ready()
    except INPUT as error:
        field = field_of(error) or "policy"
        if field.startswith(("control", "shadow")):
            raise
        field = "catalogue" if field in ("catalogue", "arms") else "policy"
        raise BadValue(field, f"policy: {str(error).removeprefix('policy: ')}") from None


def catalogue_of(given: CatalogueBody | None, joining: Joining) -> Catalogue | None:
    """The catalogue of a request, checked."""
    return None if given is None else as_catalogue(given.ids, given.features, joining)


def joining_of(new: NewBandit) -> Joining:
    """How arms are made by a request for a new bandit: by `features`, or by `map` and `dim`."""
    if new.features is None:
        if new.dim is None:
            raise BadValue("dim", "dim is missing")
        return Joining(new.dim, new.map)
    features = as_features(new.features)
    if "map" in new.model_fields_set:
        raise BadValue("map", "map: goes with dim; here features say how context and items are joined")
    if new.dim not in (None, features.dim):
        raise BadValue("dim", f"dim must be {features.dim} by these features, or be left out, got {new.dim}")
    return Joining(features.dim, None, features)


def check_models(policy: Policy, joining: Joining) -> None:
    """Refuse features whose first number could not be that of an item's model."""
    features = joining.features
    if not policy.capabilities.per_item or features is None:
        return
    first = features.item[0] if features.item else None
    all_meet = features.interactions in ("outer", "shrunk")
    if all_meet or not isinstance(first, Number) or first.scale is not None:
        wanted = "item must begin with Number('model', scale=None), and interactions must be 'plain' or pairs"
        text = f"features: {type(policy).__name__} reads the number of an item's model first: {wanted}"
        raise BadValue("features", text)


def settings_of(new: NewBandit, joining: Joining) -> dict[str, Any]:
    """What is kept of a request for a new bandit beside dimension, policy and catalogue."""
    features = joining.features
    made = {"map": joining.map} if features is None else {"map": None, "features": features.to_dict()}
    settings: dict[str, Any] = {**made, "reward_range": new.reward_range, "log_arms": new.log_arms}
    for name in ("control", "control_policy", "shadow", "wait", "missing", "early", "late"):
        settings[name] = getattr(new, name)
    return settings


def check_options(new: NewBandit, policy: Policy, dim: int, catalogue: Catalogue | None) -> None:
    """Refuse a control group, shadow policies or deadlines that cannot be; `wait` becomes seconds."""
    law = new.control_policy
    given = as_policy(law, "control_policy") if isinstance(law, dict) else law
    control_group(new.control, given, dim, None if catalogue is None else catalogue.names)
    for name, one in (new.shadow or {}).items():
        as_policy(one, place("shadow", name))
    waiting = Waiting.of(new.wait, new.missing, new.early, new.late)
    if waiting is not None:
        new.wait = waiting.wait
        check_missing(waiting, policy, new.reward_range)


def check_missing(waiting: Waiting, policy: Policy, reward_range: Sequence[float] | None) -> None:
    """Refuse a policy or a range of rewards that the reward of no reward is not one of."""
    low, high = reward_range or (-LARGEST, LARGEST)
    if not low <= waiting.missing <= high or not policy.accepts(np.array([waiting.missing])).all():
        text = (
            f"missing must be a reward within reward_range that the policy takes, it is {waiting.missing:g}"
        )
        raise BadValue("missing", text)


def check_range(reward_range: list[float] | None) -> None:
    """Lowest < highest."""
    if reward_range is not None and not -LARGEST <= reward_range[0] < reward_range[1] <= LARGEST:
        text = (
            f"reward_range must be [lowest, highest], such as [0, 1], within ±{LARGEST:g}, got {reward_range}"
        )
        raise BadValue("reward_range", text)
