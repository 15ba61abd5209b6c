"""The items of a catalogue, in memory and in the database: a change costs what it changes, not what there is.

In memory rows are appended and never change. A row says since which version it is there and until which, so
that every version from the first that was read on can be seen at any time, while the next ones are put behind
it by another thread. In the database an item is such a row of the table `items`. Rows are never deleted:
decisions refer to them, and rewards that come late find there what was played.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection, Row

from linmed.features.catalogue import ItemRows, Items
from linmed.serve.database import blob, items, parts, vector
from linmed.serve.errors import Refused
from linmed.validation import BadValue, Floats, Ints

MOST_ITEMS = 1_000_000
MOST_AT_ONCE = 100_000
"""Items of a catalogue that are gone through for one request: to replace it as a whole, or to judge all."""
ROOM = 1024
"""Rows for which there is room at least. When more than these and most of all are gone, they are given up."""


class Rows(NamedTuple):
    """Rows to be put on a shelf, in any order."""

    ids: Sequence[str]
    features: Floats  # (n, f)
    places: Ints
    """By which items are ordered."""
    numbers: Ints
    """In the database: what a decision refers to."""
    gone: Sequence[str] = ()
    """Items whose rows are there no more: removed, or changed and among `ids` too."""


class Shelf(ItemRows):
    """All rows that were read, of whatever version."""

    def __init__(self, width: int, room: int = 0):
        room += room // 8 + ROOM  # what nobody has written to takes no memory
        super().__init__([], np.empty((room, width)))
        self.largest = 0.0
        """In size, of all that was ever there."""
        self.places, self.numbers = (np.empty(room, dtype=np.int64) for _ in range(2))
        self.until = np.empty(room, dtype=np.int32)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Also the places and numbers of rows."""
        return {**super().columns(), "places": self.places, "numbers": self.numbers}

    def read(self, rows: Rows, version: int) -> None:
        """Rows that are there since `version`, and some that are not any more."""
        assert self.newest is not None
        self.largest = max(self.largest, float(np.abs(rows.features).max(initial=0.0)))
        gone = [self.newest[name] for name in rows.gone]
        self.put(rows.ids, gone, version, matrix=rows.features, places=rows.places, numbers=rows.numbers)

    def now(self) -> "Catalogue":
        """The version that was read last; from a shelf of its own where most rows are gone."""
        found = Catalogue(self)
        return found.again() if self.used - self.count > max(ROOM, self.count) else found


class Catalogue(Items):
    """One version of the items. Rows that are not `live` are no part of it."""

    matrix: Floats

    def __init__(self, shelf: Shelf):
        super().__init__(shelf)
        self.used, self.largest = shelf.used, shelf.largest
        """No number is larger in size."""
        self._shelf, self._places, self._numbers = shelf, shelf.places, shelf.numbers

    @classmethod
    def of(
        cls, ids: Sequence[str], features: Floats, version: int = 0, numbers: Ints | None = None
    ) -> "Catalogue":
        """These items in this order."""
        shelf, places = Shelf(features.shape[1], len(ids)), np.arange(len(ids))
        shelf.read(Rows(ids, features, places, places if numbers is None else numbers), version)
        return cls(shelf)

    def again(self) -> "Catalogue":
        """The same version from a shelf of its own, which has no room for what is gone."""
        rows = np.flatnonzero(self.live)
        shelf, ids = Shelf(self.width, len(rows)), [self.ids[row] for row in rows.tolist()]
        shelf.read(Rows(ids, self.matrix[rows], self._places[rows], self._numbers[rows]), self.version)
        return Catalogue(shelf)

    def put(self, rows: Rows, version: int) -> "Catalogue":
        """The version after this one, which must be the newest that was read."""
        self._shelf.read(rows, version)
        return self._shelf.now()

    def latest(self) -> "Catalogue":
        """The newest version that was read."""
        return self._shelf.now()

    @property
    def newest(self) -> int:
        """The version up to which rows were read."""
        return self._shelf.version

    def snapshot(self) -> Items:
        """Itself: as a catalogue that stays as it is, `linmed.catalogue_sampler` follows it."""
        return self

    def precedes(self, later: "Catalogue") -> bool:
        """Whether `later` has the same rows, and perhaps more."""
        return self._shelf is later._shelf and self.used <= later.used

    @property
    def width(self) -> int:
        """Features of an item."""
        return int(self.matrix.shape[1])

    @cached_property
    def order(self) -> Ints:
        """The rows of the items in the order in which they are offered, (count,)."""
        rows = np.flatnonzero(self.live)
        places = self._places[rows]
        return rows if (places[1:] > places[:-1]).all() else rows[np.argsort(places, kind="stable")]

    @cached_property
    def features(self) -> Floats:
        """Of the items in their order, (count, f)."""
        order = self.order
        whole = self.count == self.used and (order == np.arange(self.used)).all()
        return self.matrix if whole else self.matrix[order]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The ids in the same order."""
        return tuple(self.ids[row] for row in self.order)

    @cached_property
    def ranks(self) -> Ints:
        """As which item, in their order, that of each row is offered, (used,); −1 where there is none."""
        found = np.full(self.used, -1)
        found[self.order] = np.arange(self.count)
        return found

    def id(self, row: int) -> str:
        """The item of a row."""
        name: str = self.ids[row]
        return name

    def number(self, row: int) -> int:
        """Of this row in the database."""
        return int(self._numbers[row])

    def row(self, name: str) -> int:
        """Where the item called `name` is, or -1."""
        row = self._shelf.row(name)
        while row is not None and row >= self.used:  # of a later version
            row = self._shelf.before.get(row)
        return row if row is not None and self._until[row] > self.version else -1

    def __contains__(self, name: str) -> bool:
        return self.row(name) >= 0

    def place(self, row: int) -> int:
        """By which the item of a row is ordered: it keeps it as long as it is there."""
        return int(self._places[row])

    def places(self, wanted: Sequence[str]) -> NDArray[np.uint32]:
        """As which items, in their order, those called `wanted` are offered."""
        if not wanted:
            raise BadValue("arm_ids", "arm_ids is empty: at least one arm is needed")
        rows = [self.row(name) for name in wanted]
        if min(rows) < 0:
            i = rows.index(-1)
            raise BadValue(f"arm_ids[{i}]", f"arm_ids[{i}]: {wanted[i]!r} is not in the catalogue")
        if len(set(rows)) < len(rows):
            i = next(i for i, row in enumerate(rows) if row in rows[:i])
            raise BadValue(f"arm_ids[{i}]", f"arm_ids[{i}]: {wanted[i]!r} is there already")
        return self.ranks[rows].astype(np.uint32)

    def same_items(self, other: "Catalogue") -> bool:
        """Whether `other` has the same items in the same order."""
        return self.names == other.names and np.array_equal(self.features, other.features)


# In the database

READ = 10_000
"""Items that are read at once."""


def catalogue_at(connection: Connection, bandit: int, version: int, count: int = 0) -> Catalogue:
    """Version `version` of a bandit's catalogue, which has about `count` items."""
    query = sa.select(*items.c["number", "id", "place", "features"]).where(_there(bandit, version))
    shelf: Shelf | None = None
    for rows in _pieces(connection, query.order_by(items.c.place)):
        found = _rows(rows)
        if shelf is None:
            shelf = Shelf(found.features.shape[1], count)
        shelf.read(found, version)
    assert shelf is not None, "no version is without items"
    return shelf.now()


def present_catalogue(
    connection: Connection, row: Row[Any], known: Catalogue | None = None
) -> Catalogue | None:
    """The catalogue of the bandit of this row of `bandits`, if it has one.

    Of one that is `known` in an earlier version, only what has changed since is read.
    """
    if row.catalogue is None:
        return None
    if known is None:
        return catalogue_at(connection, row.id, row.catalogue, row.item_count)
    if known.newest >= row.catalogue:
        return known if known.newest == known.version else known.latest()
    own, first, last = items.c.bandit == row.id, known.newest, row.catalogue
    later = items.c.until.is_(None) | (items.c.until > last)
    came = sa.select(*items.c["number", "id", "place", "features"]).where(
        own & (items.c.since > first) & (items.c.since <= last) & later
    )
    went = sa.select(items.c.id).where(
        own & (items.c.since <= first) & (items.c.until > first) & (items.c.until <= last)
    )
    rows = connection.execute(came.order_by(items.c.place)).all()
    gone = connection.execute(went).scalars().all()
    if not rows:
        nothing = np.empty(0, dtype=np.int64)
        return known.put(Rows((), np.empty((0, known.width)), nothing, nothing, gone), last)
    found = _rows(rows)._replace(gone=gone)
    if found.features.shape[1] != known.width:  # another catalogue has taken its place
        return catalogue_at(connection, row.id, last, row.item_count)
    return known.put(found, last)


class Page(NamedTuple):
    """A part of a catalogue."""

    ids: list[str]
    features: list[list[float]]
    next: str | None
    """After which item it goes on."""


def page(connection: Connection, bandit: int, version: int, limit: int, after: str | None = None) -> Page:
    """The first `limit` items of a version, or the first that stand behind `after`."""
    behind = -1 if after is None else _place(connection, bandit, version, after)
    # The place is always part of the question, or SQLite would sort all items to find the first of them.
    query = sa.select(items.c.id, items.c.features).where(_there(bandit, version), items.c.place > behind)
    rows = connection.execute(query.order_by(items.c.place).limit(limit + 1)).all()
    shown = rows[:limit]
    return Page(
        [row.id for row in shown],
        [vector(row.features).tolist() for row in shown],
        shown[-1].id if len(rows) > limit else None,
    )


def _place(connection: Connection, bandit: int, version: int, name: str) -> int:
    """Of an item that is in this version, or was in one before."""
    query = sa.select(items.c.since, items.c.place)
    seen = connection.execute(query.where((items.c.bandit == bandit) & (items.c.id == name))).all()
    known = [row for row in seen if row.since <= version]
    if not known:
        raise Refused("unknown", f"after: {name!r} is no item of the catalogue", "after")
    place: int = max(known).place
    return place


def _there(bandit: int, version: int) -> Any:
    until = items.c.until.is_(None) | (items.c.until > version)
    return (items.c.bandit == bandit) & (items.c.since <= version) & until


def _pieces(connection: Connection, query: Any) -> Iterator[Sequence[Row[Any]]]:
    with connection.execute(query.execution_options(yield_per=READ)) as result:
        yield from result.partitions()


def _rows(rows: Sequence[Row[Any]]) -> Rows:
    return Rows(
        [row.id for row in rows],
        vector(b"".join(row.features for row in rows)).reshape(len(rows), -1),
        np.array([row.place for row in rows], dtype=np.int64),
        np.array([row.number for row in rows], dtype=np.int64),
    )


class Version(NamedTuple):
    """What a change leads to: the catalogue's version and how many items that has."""

    catalogue: int
    item_count: int


def put_items(connection: Connection, row: Row[Any], ids: Sequence[str], features: Floats) -> Version:
    """Add items to the catalogue of the bandit of this row, or give them other features.

    Known ones keep their place, new ones come last; where nothing differs it is the same version.
    """
    version, count = (row.catalogue or 0) + 1, row.item_count or 0
    _same_width(connection, row, features.shape[1])
    present = _present(connection, row.id, ids)
    wanted = {name: blob(vector) for name, vector in zip(ids, features, strict=True)}
    new = [name for name in ids if name not in present]
    other = [name for name, there in present.items() if there.features != wanted[name]]
    if row.catalogue is not None and not new and not other:
        return Version(row.catalogue, count)
    count += len(new)
    if count > MOST_ITEMS:
        raise Refused(
            "invalid", f"a catalogue has at most {MOST_ITEMS} items, this would have {count}", "ids"
        )
    places = {name: present[name].place for name in other}
    if new:
        last = connection.execute(
            sa.select(sa.func.max(items.c.place)).where(items.c.bandit == row.id)
        ).scalar()
        places |= {name: i for i, name in enumerate(new, 0 if last is None else last + 1)}
    _end(connection, [present[name].number for name in other], version)
    _add(connection, row.id, version, places, wanted)
    return Version(version, count)


def remove_item(connection: Connection, row: Row[Any], name: str) -> Version:
    """Take an item out of the catalogue of the bandit of this row."""
    present = _present(connection, row.id, [name])
    if name not in present:
        raise Refused("unknown", f"item {name!r} is not in the catalogue", "item_id")
    if row.item_count == 1:
        text = f"item {name!r} is the last of the catalogue: archive the bandit instead"
        raise Refused("conflict", text, "item_id")
    _end(connection, [present[name].number], row.catalogue + 1)
    return Version(row.catalogue + 1, row.item_count - 1)


def remove_items(connection: Connection, row: Row[Any], ids: Sequence[str]) -> Version:
    """Take items out of the catalogue of the bandit of this row, all or none.

    Those that were taken out before are passed over, so that a request can be repeated; where none is left
    it is the same version. An id that never was in the catalogue is a mistake.
    """
    query = sa.select(*items.c["id", "number", "until"]).where(items.c.bandit == row.id)
    seen, present = set[str](), dict[str, int]()
    for part in parts(ids):
        for one in connection.execute(query.where(items.c.id.in_(part))):
            seen.add(one.id)
            if one.until is None:
                present[one.id] = one.number
    for i, name in enumerate(ids):
        if name not in seen:
            raise Refused("invalid", f"ids[{i}]: {name!r} never was in the catalogue", f"ids[{i}]")
    if not present:
        return Version(row.catalogue, row.item_count)
    if len(present) == row.item_count:
        text = f"ids: these are all {row.item_count} items of the catalogue: archive the bandit instead"
        raise Refused("conflict", text, "ids")
    _end(connection, [*present.values()], row.catalogue + 1)
    return Version(row.catalogue + 1, row.item_count - len(present))


def replace_catalogue(connection: Connection, row: Row[Any], new: Catalogue) -> Version:
    """Make `new` the catalogue of the bandit of this row; where nothing differs it is the same version."""
    if (row.item_count or 0) > MOST_AT_ONCE:
        text = (
            f"catalogue: that of bandit {row.name!r} has {row.item_count} items, and one of more than "
            f"{MOST_AT_ONCE} is not replaced at once: change its items (PUT …/items, POST …/items/remove)"
        )
        raise Refused("conflict", text, "catalogue")
    old, count = present_catalogue(connection, row), new.count
    wanted = {name: blob(vector) for name, vector in zip(new.names, new.features, strict=True)}
    if old is None:
        _add(connection, row.id, 1, {name: i for i, name in enumerate(new.names)}, wanted)
        return Version(1, count)
    if new.same_items(old):
        return Version(old.version, count)
    version = old.version + 1
    kept = [name for name in new.names if name in old]
    stand = [name for name in old.names if name in new] == kept == list(new.names[: len(kept)])
    if stand and new.width == old.width:
        # The old ones stand as they stood, with new ones behind: only what differs is written.
        _end(connection, [old.number(old.row(name)) for name in old.names if name not in new], version)
        return put_items(connection, row, new.names, new.features)._replace(
            catalogue=version, item_count=count
        )
    _end(connection, [old.number(old.row(name)) for name in old.names], version)
    _add(connection, row.id, version, {name: i for i, name in enumerate(new.names)}, wanted)
    return Version(version, count)


def _present(connection: Connection, bandit: int, ids: Sequence[str]) -> dict[str, Row[Any]]:
    """The rows of those of the items called `ids` that are there now.

    What is there no more is left out here and not by the query: for that, SQLite would go through all items.
    """
    query = sa.select(items).where(items.c.bandit == bandit)
    found: dict[str, Row[Any]] = {}
    for part in parts(ids):
        rows = connection.execute(query.where(items.c.id.in_(part)))
        found.update({row.id: row for row in rows if row.until is None})
    return found


def _same_width(connection: Connection, row: Row[Any], given: int) -> None:
    one = sa.select(items.c.features).where((items.c.bandit == row.id) & items.c.until.is_(None)).limit(1)
    found = connection.execute(one).scalar_one_or_none()
    if found is not None and len(found) // 8 != given:
        text = f"features: the items of this catalogue have {len(found) // 8} features, got {given}"
        raise Refused("invalid", text, "features")


def _end(connection: Connection, numbers: Sequence[int], version: int) -> None:
    for part in parts(numbers):
        connection.execute(sa.update(items).where(items.c.number.in_(part)).values(until=version))


def _add(
    connection: Connection, bandit: int, since: int, places: dict[str, int], features: dict[str, bytes]
) -> None:
    """The items named in `places`."""
    rows = [
        {"bandit": bandit, "id": name, "place": place, "features": features[name], "since": since}
        for name, place in places.items()
    ]
    if rows:
        connection.execute(sa.insert(items), rows)
