"""Items by id, which come, change and go while agents decide."""

import json
import numbers
import os
import threading
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.features.columns import Category, Vector
from linmed.features.features import Features, guessed
from linmed.features.rows import Table, number, table
from linmed.files import write_atomically
from linmed.validation import LARGEST, BadType, BadValue, Bools, Floats

FORMAT = 1
"""Version of the directory that `Catalogue.save` writes."""
Id = str | int
Matrix = NDArray[np.floating]
NEVER = 2**31 - 1
"""The version until which a row is there that is still there."""
_BLOCK = 1 << 16  # rows that are looked at at once


class ItemRows:
    """Rows of items, which are appended and never change, and until which version each is there.

    So every version can be seen at any time, and a change costs what it changes. One thread at a time may
    `put`; any may look at a version meanwhile.
    """

    def __init__(self, names: Sequence[Id], matrix: Matrix, worth: Floats | None = None) -> None:
        self.ids, self.matrix = names, matrix
        self.worth = worth
        """The value and the cost of each (N,2), where items have any."""
        self.used = self.count = len(names)
        self.version = 0
        self.until = np.full(self.used, NEVER, dtype=np.int32)
        self.before: dict[int, int] = {}
        """The earlier row of a row's id, where it had one."""
        self.newest: dict[str, int] | None = None
        """The newest row of every id; None where ids are the rows' numbers."""
        self.grown = [(0, self.used)]
        """From which version on there were how many rows."""
        if not isinstance(names, range):
            self.newest = {str(name): row for row, name in enumerate(names)}

    def columns(self) -> dict[str, NDArray[Any]]:
        """Name the arrays that have a place for every row and grow with them."""
        worth = {} if self.worth is None else {"worth": self.worth}
        return {"matrix": self.matrix, "until": self.until, **worth}

    def put(
        self,
        names: Sequence[Id],
        gone: Iterable[int] = (),
        version: int | None = None,
        **columns: NDArray[Any],
    ) -> None:
        """Add rows, from the next version on (or this one), and take others out."""
        first, end = self.used, self.used + len(names)
        version = self.version + 1 if version is None else version
        left = np.unique(np.fromiter(gone, np.int64))
        if len(names):
            if self.newest is None:
                self.ids = list(self.ids)
                self.newest = {str(name): row for row, name in enumerate(self.ids)}
            if end > len(self.until):
                self._grow(end)
            for name, column in {**columns, "until": np.int32(NEVER)}.items():
                getattr(self, name)[first:end] = column
            for row, id in enumerate(names, first):
                earlier = self.newest.get(str(id))
                if earlier is not None:
                    self.before[row] = earlier
            self.ids.extend(names)  # type: ignore[attr-defined]
            self.grown.append((version, end))
        self.until[left] = version
        self.count += len(names) - len(left)
        self.used, self.version = end, version
        if self.newest is not None:  # last: who finds a row finds the rest
            self.newest.update((str(id), first + i) for i, id in enumerate(names))

    def _grow(self, end: int) -> None:
        """Others may be looking at the arrays: they are copied."""
        for name, old in self.columns().items():
            new = np.empty((max(2 * self.used, end, 16), *old.shape[1:]), dtype=old.dtype)
            new[: self.used] = old[: self.used]
            setattr(self, name, new)

    def row(self, name: Id) -> int | None:
        """Look up the newest row of an id."""
        if self.newest is not None:
            return self.newest.get(str(name))
        text = str(name)
        row = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
        return row if 0 <= row < self.used and str(row) == text else None

    def steps(self) -> dict[str, list[tuple[int, int]]]:
        """Write the history as JSON: how many rows there were from each version on, and which went."""
        rows = np.flatnonzero(self.until[: self.used] <= self.version)
        rows = rows[np.argsort(self.until[rows], kind="stable")]
        gone = zip(self.until[rows].tolist(), rows.tolist(), strict=True)
        return {"grown": list(self.grown), "gone": list(gone)}

    def retrace(self, saved: Mapping[str, Any] | None, live: Bools, version: int) -> None:
        """Go on at a version in which these rows are live; `saved` by `steps`, None if nobody did."""
        nothing = {"grown": [(version, len(live))], "gone": [(version, row) for row in np.flatnonzero(~live)]}
        grown, gone = (_steps((saved or nothing)[name], version) for name in ("grown", "gone"))
        rows, left = [row for _, row in grown], sorted(row for _, row in gone)
        if rows != sorted(rows) or rows[-1:] != [len(live)] or left != np.flatnonzero(~live).tolist():
            raise BadValue("history", f"history must lead to the {int(live.sum())} items that are there")
        self.grown, self.version, self.count = grown, version, int(live.sum())
        self.until[left] = [step for step, _ in sorted(gone, key=itemgetter(1))]


class Items:
    """A catalogue at one moment. What it holds never changes.

    >>> from linmed.features import Catalogue
    >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
    >>> items = teas.snapshot()
    >>> teas.remove("mint")
    >>> items.count, items.version, items.live, teas.count, teas.version
    (2, 0, array([ True,  True]), 1, 1)
    """

    def __init__(self, rows: ItemRows, version: int | None = None) -> None:
        """An earlier `version`, or the present one."""
        self.version = rows.version if version is None else version
        self.origin = rows
        """Whose rows these are: two moments of one origin agree in all rows that both have."""
        used, self._until = rows.used, rows.until
        if version is not None:
            used = rows.grown[bisect_right(rows.grown, version, key=itemgetter(0)) - 1][1]
        self.ids: Sequence[Any] = rows.ids
        """Of each row; there may be more of them by now than rows here."""
        self.matrix: Matrix = rows.matrix[:used]  # (N, de)
        self.worth = None if rows.worth is None else rows.worth[:used]  # (N, 2)
        self.count = rows.count if version is None else int(self.live.sum())

    @cached_property
    def live(self) -> Bools:
        """Which rows are there, (N,)."""
        live = self._until[: len(self.matrix)] > self.version
        live.flags.writeable = False
        return live


class Catalogue:
    """Items by id, with their features as numbers: `matrix` (N, de), of which those in `live` (N,) are there.

    >>> from linmed.features import Catalogue
    >>> shoes = [{"item_id": "s-17", "price": 40.0}, {"item_id": "s-18", "price": 90.0}]
    >>> catalogue = Catalogue.from_table(shoes)
    >>> catalogue.add({"item_id": "s-19", "price": 65.0})
    >>> catalogue.remove("s-17")
    >>> [id for id, live in zip(catalogue.ids, catalogue.live) if live], catalogue.count, catalogue.version
    (['s-18', 's-19'], 2, 2)
    >>> items = catalogue.snapshot()
    >>> catalogue.change({"item_id": "s-18", "price": 65.0})
    >>> catalogue.place("s-18"), catalogue.matrix.tolist(), len(items.matrix)
    (3, [[-1.0], [1.0], [0.0], [0.0]], 3)
    >>> catalogue.since, catalogue.at(0).count, Catalogue.from_arrays(*catalogue.arrays())
    (0, 2, Catalogue(2 items, 1 features, version 3))

    Rows are never overwritten or used again: a removed item's row stays, marked as gone, and a changed item
    moves to a new row. So a `snapshot` can be read while others change the catalogue. `version` grows by one
    with every change. Ids are text or whole numbers; 17 and "17" are one.

    `matrix` may have less than double precision, and may be a memory map; it is copied into memory when the
    first item is added.

    `ids` has one for each row of `matrix`, `features` is the map whose item columns these numbers are (by
    default a `Vector`), and `id` the field that holds an item's id in rows and tables.

    >>> Catalogue(["a", "b"], [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    Catalogue(2 items, 3 features, version 0)
    """

    def __init__(
        self, ids: Iterable[Id], matrix: Any, features: Features | None = None, *, id: str = "id"
    ) -> None:
        own = np.asanyarray(matrix)
        if own.ndim != 2 or own.dtype.kind not in "biuf":
            raise BadValue("matrix", f"matrix must be numbers of shape (items, features), got {own.shape}")
        if own.dtype not in (np.float16, np.float32, np.float64):
            own = own.astype(np.float64)
        elif (
            own.flags.writeable
        ):  # what others may write to is copied; a map of a file may be too large for that
            own = own.copy()
        if features is None:
            features = Features(item=[Vector("features", own.shape[1])])
        elif not isinstance(features, Features):
            raise BadType("features", f"features must be Features, got {features!r}")
        if own.shape[1] != features.item_width:
            text = f"matrix must have the {features.item_width} columns of features.item, got {own.shape}"
            raise BadValue("matrix", text)
        _check_entries("matrix", own)
        self._features, self.id = features, validation.text("id", id)
        self.value: str | None = None
        """The field that says what a unit of an item's reward is worth: see `from_table`."""
        self.cost: str | None = None
        """The field that says what playing an item costs."""
        counted = isinstance(ids, range) and ids == range(len(ids))
        names: Sequence[Id] = ids if counted else [_id("ids", name) for name in ids]  # type: ignore[assignment]
        if len(names) != len(own):
            raise BadValue("ids", f"ids must be one for each row: {len(names)} ids, {len(own)} rows")
        self._lock = threading.RLock()
        self._rows = ItemRows(names, own)
        if self._rows.newest is not None and len(self._rows.newest) < len(names):
            twice = next(name for row, name in enumerate(names) if self._rows.row(name) != row)
            raise BadValue("ids", f"ids has {twice!r} twice (17 and '17' are one id)")
        self._items = Items(self._rows)

    @classmethod
    def from_table(
        cls,
        items: Any,
        id: str = "item_id",
        features: Features | None = None,
        *,
        value: str | None = None,
        cost: str | None = None,
    ) -> "Catalogue":
        """Make an item of each row of a table; `id` names the field of ids, `features` encodes the rest.

        What `features` lacks of its item columns (categories, scales) is learned from the table. Without
        `features` every other field is one: numbers are scaled, texts are categories, lists are vectors, and
        a text that is another in nearly every row is left out, with a warning. Where there is no other, the
        id is a category.

        `value` names the field that says what a unit of an item's reward is worth, `cost` the one that says
        what playing it costs: an agent then maximises value · reward − cost. They are features only where
        `features` names them. See docs/costs.md.

        >>> models = [{"item_id": "small", "price": 0.1}, {"item_id": "large", "price": 0.9}]
        >>> Catalogue.from_table(models, cost="price").features.names
        ('item_id=large', 'item_id=small', '1')
        """
        items = list(items) if hasattr(items, "__next__") else items
        found = table("items", items)
        names = _names(found, validation.text("id", id))
        told = tuple(
            None if field is None else validation.text(name, field)
            for name, field in (("value", value), ("cost", cost))
        )
        if features is None:
            columns = guessed(found, without=(id, *told))
            features = Features(item=columns or (Category(id),), interactions="shrunk")
        fitted = features.fit(items=items)
        made = cls(names, fitted.encode_items(items), fitted, id=id)
        made.value, made.cost = told
        made._rows.worth = made._worth(found, names)
        made._items = Items(made._rows)
        return made

    @property
    def features(self) -> Features:
        """The map whose item columns made the numbers."""
        return self._features

    @property
    def ids(self) -> tuple[Id, ...]:
        """Of each row, those of removed items among them."""
        items = self._items
        return tuple(items.ids[: len(items.live)])

    @property
    def matrix(self) -> Matrix:
        """(N, de)."""
        return self._items.matrix

    @property
    def live(self) -> Bools:
        """(N,): False where an item was removed, or changed and has moved."""
        return self._items.live

    @property
    def count(self) -> int:
        """How many items are there."""
        return self._items.count

    @property
    def version(self) -> int:
        """How often it was changed."""
        return self._items.version

    def snapshot(self) -> Items:
        """Take a snapshot, which later changes leave as it is."""
        return self._items

    @property
    def since(self) -> int:
        """The first version that is remembered: 0, but for a catalogue saved before versions were."""
        return self._rows.grown[0][0]

    def at(self, version: int) -> Items:
        """Return the items as they were in an earlier version."""
        with self._lock:
            items = self._items
            if not self.since <= validation.whole("version", version, at_least=0) <= items.version:
                text = f"version must lie in {self.since}..{items.version}, got {version!r}"
                raise BadValue("version", text)
            return items if version == items.version else Items(self._rows, version)

    def __len__(self) -> int:
        return self.count

    def __contains__(self, id: object) -> bool:
        try:
            self.place(id)
        except (BadValue, BadType):
            return False
        return True

    def place(self, id: Any) -> int:
        """Look up the row of a live item."""
        name = _id("id", id)
        with self._lock:
            row = self._rows.row(name)
            if row is None or not self._items.live[row]:
                why = "is not in the catalogue" if row is None else "was removed from the catalogue"
                raise BadValue("id", f"id {name!r} {why}")
            return row

    def add(self, items: Any) -> None:
        """Add one item (a row with its id) or several (a table)."""
        names, columns = self._read(items)
        with self._lock:
            for name in names:
                row = self._rows.row(name)
                if row is not None and self._items.live[row]:
                    raise BadValue("items", f"item {name!r} is already in the catalogue; use change")
            self._put(names, [], columns)

    def change(self, items: Any) -> None:
        """Change the features of one item (a row with its id) or of several (a table).

        All of them: what an item was made of is not kept. Write None for what is missing.
        """
        names, columns = self._read(items, whole=True)
        with self._lock:
            self._put(names, [self.place(name) for name in names], columns)

    def remove(self, ids: Any) -> None:
        """Take one item out, or several. Rewards of decisions in which they were played still count."""
        single = isinstance(ids, (str, numbers.Integral))
        if not single and not hasattr(ids, "__iter__"):
            raise BadType("ids", f"ids must be an id or a list of ids, got {ids!r}")
        with self._lock:
            gone = [self.place(name) for name in ([ids] if single else list(ids))]
            self._put([], gone, {})

    def _read(self, items: Any, whole: bool = False) -> tuple[list[Id], dict[str, NDArray[Any]]]:
        """Ids of one row or of a table, and the columns of `ItemRows` that belong to them."""
        row = isinstance(items, Mapping) and (
            isinstance(items.get(self.id), str) or not hasattr(items.get(self.id), "__len__")
        )
        given = [items] if row else list(items) if hasattr(items, "__next__") else items
        found = table("items", given)
        names = [_id(f"items[{self.id!r}]", name) for name in _names(found, self.id)]
        for field in sorted(self._features.item_side.fields - set(found.names)) if whole else ():
            raise found.lacks(field)
        if len({str(name) for name in names}) < len(names):
            raise BadValue("items", f"items has an id twice: {sorted(map(str, names))}")
        encoded = self._features.encode_items(given)
        with np.errstate(over="ignore"):  # an infinity, which is told
            encoded = encoded.astype(self.matrix.dtype)
        _check_entries("items", encoded)
        worth = self._worth(found, names)
        return names, {"matrix": encoded} | ({} if worth is None else {"worth": worth})

    def _worth(self, items: Table, names: Sequence[Id]) -> Floats | None:
        """Read the value and the cost of each item (n,2); None where no field says either."""
        if self.value is None and self.cost is None:
            return None
        found = np.column_stack([np.ones(items.rows), np.zeros(items.rows)])
        for column, field in enumerate((self.value, self.cost)):
            for i, given in enumerate(() if field is None else items(field)):
                told = number(f"items[{field!r}] of item {names[i]!r}", given)
                if not (told >= 0.0 if column else told > 0.0):
                    right = "0 or more" if column else "above 0"
                    was = "it is missing" if told != told else f"got {told:g}"
                    text = f"items[{field!r}] of item {names[i]!r} must be {right}, {was}"
                    raise BadValue("items", text)
                found[i, column] = told
        return found

    def _put(self, names: list[Id], gone: list[int], columns: Mapping[str, NDArray[Any]]) -> None:
        if names or gone:
            self._rows.put(names, gone, None, **columns)
            self._items = Items(self._rows)

    def arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Give everything as JSON and arrays; `from_arrays` is its inverse."""
        with self._lock:
            items, counted = self._items, self._rows.newest is None
            names = len(items.live) if counted else list(items.ids[: len(items.live)])
            history = self._rows.steps()
        meta = {
            "format": FORMAT,
            "id": self.id,
            "version": items.version,
            "features": self._features.to_dict(),
            "ids": names,
            "history": history,
        }
        arrays = {"matrix": items.matrix, "live": items.live}
        if items.worth is None:
            return meta, arrays
        return {**meta, "worth": [self.value, self.cost]}, {**arrays, "worth": items.worth}

    @classmethod
    def from_arrays(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "Catalogue":
        """Make the catalogue that `arrays` described."""
        if meta.get("format") != FORMAT:
            text = f"the catalogue has format {meta.get('format')!r}; this release of linmed reads {FORMAT}"
            raise BadValue("format", text)
        matrix, live, names = arrays["matrix"], np.array(arrays["live"]), meta["ids"]
        if live.dtype != bool or live.shape != matrix.shape[:1]:
            raise BadValue("live", f"live must be {len(matrix)} booleans, got shape {live.shape}")
        rows = range(names) if isinstance(names, int) else [_id("ids", name) for name in names]
        if len(rows) != len(matrix):
            raise BadValue("ids", f"ids must be one for each row: {len(rows)} ids, {len(matrix)} rows")
        made = cls(range(len(matrix)), matrix, Features.from_dict(meta["features"]), id=meta["id"])
        worth = None
        if "worth" in meta:
            made.value, made.cost = meta["worth"]
            worth = validation.for_kernels(arrays["worth"])
            if worth.shape != (len(matrix), 2) or not (worth >= [np.nextafter(0.0, 1.0), 0.0]).all():
                raise BadValue("worth", f"worth must be {len(matrix)} values above 0 and costs of 0 or more")
        made._rows = ItemRows(rows, made._rows.matrix, worth)
        newest = made._rows.newest
        if newest is not None and live[list(newest.values())].sum() != live.sum():
            raise BadValue("ids", "ids has a live item twice")
        made._rows.retrace(
            meta.get("history"), live, validation.whole("version", meta["version"], at_least=0)
        )
        made._items = Items(made._rows)
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a directory that `open` reads, no pickle. A crash leaves the earlier content or this one."""
        folder = Path(path)
        if folder.exists() and not folder.is_dir():
            raise BadValue("path", f"path must be a directory, {folder} is a file")
        folder.mkdir(parents=True, exist_ok=True)
        meta, arrays = self.arrays()
        # The names of the arrays' files change with the version, and the index, which names them, comes last.
        files = {name: f"{name}-{meta['version']}.npy" for name in arrays}
        for name, array in arrays.items():
            write_atomically(folder / files[name], lambda file, array=array: np.save(file, array, False))  # type: ignore[misc]
        write_atomically(folder / "catalogue.json", json.dumps({**meta, "files": files}).encode())
        for old in folder.glob("*-*.npy"):
            if old.name not in files.values() and old.name.partition("-")[0] in files:
                old.unlink()

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, mapped: bool = True) -> "Catalogue":
        """Open the catalogue that `save` wrote. `mapped` leaves the matrix on the disk until it is read."""
        folder = Path(path)
        if not (folder / "catalogue.json").exists():
            raise FileNotFoundError(f"there is no catalogue at {folder}")
        try:
            meta = json.loads((folder / "catalogue.json").read_bytes())
            names = ("matrix", "live", *(["worth"] if "worth" in meta else []))
            files = {name: folder / meta["files"][name] for name in names}
            mode: Literal["r"] | None = "r" if validation.flag("mapped", mapped) else None
            matrix = np.load(files["matrix"], mmap_mode=mode, allow_pickle=False)
            rest = {name: np.load(files[name], allow_pickle=False) for name in names[1:]}
            return cls.from_arrays(meta, {"matrix": matrix, **rest})
        except (KeyError, TypeError, ValueError, EOFError, OSError) as error:
            raise ValueError(f"{folder} is not a catalogue of linmed, or it is damaged ({error})") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return Catalogue.from_arrays, self.arrays()

    def __repr__(self) -> str:
        items = self._items
        return f"Catalogue({items.count} items, {items.matrix.shape[1]} features, version {items.version})"


def _id(name: str, value: Any) -> Id:
    """An id: text as it is, a whole number as an int."""
    if isinstance(value, str):
        if not value:
            raise BadValue(name, f"{name} must not be empty: an item needs an id")
        return str(value)
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        if not -(2**63) <= int(value) < 2**63:
            raise BadValue(name, f"{name} must be a whole number of at most 64 bits, or text")
        return int(value)
    raise BadType(name, f"{name} must be text or a whole number, got {value!r}")


def _check_entries(name: str, matrix: Matrix) -> None:
    for start in range(0, len(matrix), _BLOCK):
        block = matrix[start : start + _BLOCK]
        if block.size and not (float(block.min()) >= -LARGEST and float(block.max()) <= LARGEST):
            raise validation.bad_entry(name, np.asarray(block, dtype=np.float64))


def _steps(saved: Any, last: int) -> list[tuple[int, int]]:
    def whole(number: Any) -> int:
        return validation.whole("history", number, at_least=0)

    steps = [(whole(version), whole(row)) for version, row in saved]
    versions = [version for version, _ in steps]
    if versions != sorted(versions) or max(versions, default=0) > last:
        raise BadValue("history", f"history must be of versions up to {last}, in their order")
    return steps


def _names(items: Table, id: str) -> Any:
    if id not in items.names:
        raise items.lacks(id)
    return items(id)
