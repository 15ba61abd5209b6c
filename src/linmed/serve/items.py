"""The versions of a catalogue in the database: a change writes only the items that differ.

An item is a row with the first version that has it and the first that has it no more. Rows are never deleted:
decisions refer to them, and rewards that come late find there what was played.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from linmed.serve.catalogue import Catalogue
from linmed.serve.database import items
from linmed.serve.numbers import blob, parts, vector


def catalogue_at(connection: Connection, bandit: int, version: int) -> Catalogue:
    """Version `version` of a bandit's catalogue."""
    there = (items.c.since <= version) & (items.c.until.is_(None) | (items.c.until > version))
    rows = connection.execute(
        sa.select(*items.c["number", "id", "features"])
        .where((items.c.bandit == bandit) & there)
        .order_by(items.c.place)
    ).all()
    return Catalogue(
        tuple(row.id for row in rows),
        vector(b"".join(row.features for row in rows)).reshape(len(rows), -1),
        version,
        tuple(row.number for row in rows),
    )


def present_catalogue(connection: Connection, row: Row[Any]) -> Catalogue | None:
    """The catalogue of the bandit of this row of `bandits`, if it has one."""
    return None if row.catalogue is None else catalogue_at(connection, row.id, row.catalogue)


def write_catalogue(connection: Connection, bandit: int, old: Catalogue | None, new: Catalogue) -> int:
    """Make `new` the version after `old`; returns its number, which is `old`'s where nothing differs."""
    if old is None:
        _add(connection, bandit, new, 1, {name: i for i, name in enumerate(new.ids)})
        return 1
    if new.same_items(old):
        return old.version
    version = old.version + 1
    kept = [name for name in new.ids if name in old.place]
    place = dict(_places(connection, old))
    if [name for name in old.ids if name in new.place] == kept == list(new.ids[: len(kept)]):
        # The old ones stand as they stood, with new ones behind: only what differs is written.
        last = max(place.values())
        place |= {name: last + i for i, name in enumerate(new.ids[len(kept) :], 1)}
        same = {
            name
            for name in kept
            if np.array_equal(old.features[old.place[name]], new.features[new.place[name]])
        }
    else:
        place, same = {name: i for i, name in enumerate(new.ids)}, set()
    gone = [number for name, number in zip(old.ids, old.numbers, strict=True) if name not in same]
    for part in parts(gone):
        connection.execute(sa.update(items).where(items.c.number.in_(part)).values(until=version))
    _add(connection, bandit, new, version, {name: place[name] for name in new.ids if name not in same})
    return version


def _places(connection: Connection, catalogue: Catalogue) -> Iterator[tuple[str, int]]:
    for part in parts(catalogue.numbers):
        query = sa.select(items.c.id, items.c.place).where(items.c.number.in_(part))
        yield from ((row.id, row.place) for row in connection.execute(query))


def _add(
    connection: Connection, bandit: int, catalogue: Catalogue, since: int, place: dict[str, int]
) -> None:
    """The items named in `place`."""
    rows = [
        {
            "bandit": bandit,
            "id": name,
            "place": there,
            "features": blob(catalogue.features[catalogue.place[name]]),
            "since": since,
        }
        for name, there in place.items()
    ]
    if rows:
        connection.execute(sa.insert(items), rows)
