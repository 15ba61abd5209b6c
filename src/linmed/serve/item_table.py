"""The items of a catalogue in memory: rows that are appended and never change, and the versions of them.

The rows are those of the table `items`. A row says since which version it is there and until which, so that
every version from the first that was read on can be seen at any time, while the next ones are put behind it
by another thread; a change costs what it changes, not what there is.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed.features.catalogue import ItemRows, Items
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
