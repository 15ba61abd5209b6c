"""Make and change bandits: what is wanted is tried, written by the engine, and then served."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from linmed.policies import Policy
from linmed.serve import store
from linmed.serve.bandit import Bandit, as_policy
from linmed.serve.concurrency import Pool
from linmed.serve.database import Database
from linmed.serve.engine import Call, Engine
from linmed.serve.errors import Refused, refusing
from linmed.serve.item_table import Catalogue
from linmed.serve.items import Version, put_items, remove_item, remove_items, replace_catalogue
from linmed.serve.memory import Memory
from linmed.serve.schemas import BanditChange, CatalogueBody, NewBandit
from linmed.serve.updates import (
    bandit_view,
    catalogue_of,
    check_models,
    check_range,
    joining_of,
    listed,
    new_catalogue,
    new_version,
    settings_of,
    try_bandit,
)

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
            await self._try(joining.dim, policy, catalogue)
        settings = settings_of(new, joining)

        def write(connection: Connection) -> tuple[bool, dict[str, Any]]:
            row = store.find_bandit(connection, new.name)
            if row is None:
                store.add_bandit(connection, new.name, joining.dim, json.dumps(settings), policy, catalogue)
                return True, bandit_view(connection, new.name)
            there = bandit_view(connection, new.name)
            if row.catalogue is not None and there["catalogue"] is None:
                same = catalogue is not None and catalogue.count == row.item_count
                there["catalogue"] = (
                    listed(connection, row, row.item_count) if same else {"items": row.item_count}
                )
            here = {
                "dim": joining.dim,
                "features": None,
                "policy": policy.to_dict(),
                "catalogue": catalogue and {"ids": catalogue.names, "features": catalogue.features.tolist()},
                **settings,
            }
            other = differences(there, here)
            if row.archived:
                other.insert(0, "it is archived there")
            if other:
                message = f"name: a bandit {new.name!r} exists with other settings: {'; '.join(other)}"
                raise Refused("conflict", message, "name")
            return False, bandit_view(connection, new.name)

        created, view = await self._writing(write)
        await self.find(new.name)
        return created, view

    async def change(self, name: str, change: BanditChange) -> dict[str, Any]:
        """Change a bandit; answers when this server serves it so."""
        bandit = await self.find(name)
        with refusing():
            policy = None if change.policy is None else as_policy(change.policy)
            check_range(change.reward_range)
            catalogue = await self.threads.run(catalogue_of, change.catalogue, bandit.joining)
            await self._try(bandit.dim, policy or bandit.policy, catalogue or bandit.catalogue)

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

    async def _try(self, dim: int, policy: Policy, catalogue: Catalogue | None) -> None:
        """Refuse what could not serve; other bandits are served meanwhile."""
        await self.threads.run(try_bandit, dim, policy, catalogue)

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


# In what two descriptions of a bandit differ

SHOWN = 5
"""Items of a kind that are named; more are counted."""

Description = Mapping[str, Any]


def differences(there: Description, here: Description) -> list[str]:
    """Name each difference in a sentence; none if both describe the same bandit."""
    found = [_values("dim", there["dim"], here["dim"])]
    found += _policies(there["policy"], here["policy"])
    same = there.get("features") == here.get("features")
    found.append("" if same else "features are others there than here")
    found += [_values(name, there[name], here[name]) for name in ("map", "reward_range", "log_arms")]
    found.append(_catalogues(there["catalogue"], here["catalogue"]))
    return [one for one in found if one]


def _values(name: str, there: Any, here: Any) -> str:
    return "" if there == here else f"{name} is {_shown(there)} there and {_shown(here)} here"


def _shown(value: Any) -> str:
    return "not given" if value is None else str(value)


def _policies(there: Description, here: Description) -> list[str]:
    if there["policy"] != here["policy"]:
        return [_values("policy", there["policy"], here["policy"])]
    names = dict.fromkeys([*there, *here])
    return [_values(f"policy.{name}", there.get(name), here.get(name)) for name in names]


def _catalogues(there: Description | None, here: Description | None) -> str:
    if there is None or here is None:
        return "" if there is here else f"catalogue is given only {'here' if there is None else 'there'}"
    if "items" in there:
        return _values("number of items", there["items"], len(here["ids"]))
    old, new = (dict(zip(one["ids"], one["features"], strict=True)) for one in (there, here))
    said = [
        _items([name for name in old if name not in new], "missing"),
        _items([name for name in new if name not in old], "new"),
    ]
    items = f"catalogue has other items ({', '.join(filter(None, said))})" if any(said) else ""
    other = _items([name for name in new if name in old and list(old[name]) != list(new[name])], "")
    features = f"catalogue has other features of {other}" if other else ""
    order = "" if items or list(old) == list(new) else "catalogue has its items in another order"
    return "; ".join(filter(None, [items, features, order]))


def _items(names: Sequence[str], state: str) -> str:
    """Say `a and b are missing`, or the names alone where there is no state; empty for none."""
    if not names:
        return ""
    named, rest = list(names[:SHOWN]), len(names) - SHOWN
    if rest > 0:
        named.append(f"{rest} more")
    listed = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    return f"{listed} {'is' if len(named) == 1 else 'are'} {state}" if state else listed
