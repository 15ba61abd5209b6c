"""Items by id, which come, change and go while agents decide."""

import json
import numbers
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.features.columns import Category, Vector
from linmed.features.features import Features, guessed
from linmed.features.history import History
from linmed.features.rows import Table, table
from linmed.files import write_atomically
from linmed.validation import LARGEST, BadType, BadValue, Bools

FORMAT = 1
"""Version of the directory that `Catalogue.save` writes."""
Id = str | int
Matrix = NDArray[np.floating]
_BLOCK = 1 << 16  # rows that are looked at at once


@dataclass(frozen=True, slots=True)
class Items:
    """A catalogue at one moment. What it holds never changes.

    >>> from linmed.features import Catalogue
    >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
    >>> items = teas.snapshot()
    >>> teas.remove("mint")
    >>> items.count, items.version, teas.count, teas.version
    (2, 0, 1, 1)
    """

    ids: Sequence[Id]
    """Of each row; there may be more of them by now than rows here."""
    matrix: Matrix  # (N, de)
    live: Bools  # (N,)
    count: int
    version: int
    origin: object
    """Whose rows these are: two moments of one origin agree in all rows that both have."""


class Catalogue:
    """Items by id, with their features as numbers: `matrix` (N, de), of which `live` (N,) says who is there.

    >>> from linmed.features import Catalogue
    >>> shoes = [{"item_id": "s-17", "price": 40.0}, {"item_id": "s-18", "price": 90.0}]
    >>> catalogue = Catalogue.from_table(shoes)
    >>> catalogue.add({"item_id": "s-19", "price": 65.0})
    >>> catalogue.remove("s-17")
    >>> [id for id, live in zip(catalogue.ids, catalogue.live) if live], catalogue.count, catalogue.version
    (['s-18', 's-19'], 2, 2)

    Rows are never overwritten and never used again: a removed item's row stays, marked as gone, and a changed
    item moves to a new row. So whoever holds a `snapshot` can go on reading it while others change the
    catalogue. `version` grows by one with every change. Ids are text or whole numbers; 17 and "17" are one.

    `matrix` may have less than double precision, and may be a memory map; it is copied into memory when the
    first item is added.

    `ids` are one for each row of `matrix`, `features` is the map whose item columns these numbers are (a
    `Vector` unless given) and `id` the field that holds an item's id in rows and tables.

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
        counted = isinstance(ids, range) and ids == range(len(ids))
        self._names: Sequence[Id] = ids if counted else [_id("ids", name) for name in ids]  # type: ignore[assignment]
        if len(self._names) != len(own):
            raise BadValue("ids", f"ids must be one for each row: {len(self._names)} ids, {len(own)} rows")
        self._rows: dict[str, int] | None = None if isinstance(self._names, range) else {}
        for row, name in enumerate(self._names if self._rows is not None else ()):
            if self._rows.setdefault(str(name), row) != row:  # type: ignore[union-attr]
                raise BadValue("ids", f"ids has {name!r} twice (17 and '17' are one id)")
        self._buffer: Matrix = own
        self._lock = threading.RLock()
        self._origin = object()
        self._items = Items(self._names, own, np.ones(len(own), dtype=bool), len(own), 0, self._origin)
        self._history = History(self._items.live, 0)

    @classmethod
    def from_table(cls, items: Any, id: str = "item_id", features: Features | None = None) -> "Catalogue":
        """One item for each row of a table; the field `id` has their ids, `features` makes the rest numbers.

        What `features` lacks of its item columns (categories, scales) is learned from the table. Without
        `features` every other field is one: numbers are scaled, texts are categories, lists are vectors, and
        a text that is another in nearly every row is left out, with a warning. Where there is no other, the
        id is a category.

        >>> from linmed.features import Catalogue, Category, Features
        >>> teas = [{"sku": 1, "kind": "green", "note": "x"}, {"sku": 2, "kind": "black", "note": "y"}]
        >>> catalogue = Catalogue.from_table(teas, id="sku", features=Features(item=[Category("kind")]))
        >>> catalogue.ids, catalogue.features.names
        ((1, 2), ('kind=black', 'kind=green', '1'))
        """
        items = list(items) if hasattr(items, "__next__") else items
        found = table("items", items)
        names = _names(found, validation.text("id", id))
        if features is None:
            features = Features(item=guessed(found, without=id) or (Category(id),), interactions="shrunk")
        fitted = features.fit(items=items)
        return cls(names, fitted.encode_items(items), fitted, id=id)

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
        """(N, de).

        >>> from linmed.features import Catalogue
        >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
        >>> teas.matrix  # (price − 3) / 1
        array([[ 1.],
               [-1.]])
        """
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
        """All of it at this moment, for as long as it is needed.

        >>> from linmed.features import Catalogue
        >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4.0}])
        >>> items = teas.snapshot()
        >>> teas.add({"item_id": "mint", "price": 2.0})
        >>> len(items.matrix), len(teas.matrix)
        (1, 2)
        """
        return self._items

    @property
    def since(self) -> int:
        """The first version that is remembered: 0, but for a catalogue saved before versions were."""
        return self._history.since

    def at(self, version: int) -> Items:
        """All of it as it was in an earlier version.

        >>> from linmed.features import Catalogue
        >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
        >>> teas.remove("mint")
        >>> teas.since, teas.version, teas.at(0).count, teas.at(1).count
        (0, 1, 2, 1)
        """
        with self._lock:
            items = self._items
            if not self.since <= validation.whole("version", version, at_least=0) <= items.version:
                text = f"version must lie in {self.since}..{items.version}, got {version!r}"
                raise BadValue("version", text)
            if version == items.version:
                return items
            live = self._history.live(version)
        return Items(items.ids, items.matrix[: len(live)], live, int(live.sum()), version, self._origin)

    def __len__(self) -> int:
        return self.count

    def __contains__(self, id: object) -> bool:
        try:
            self.place(id)
        except (BadValue, BadType):
            return False
        return True

    def place(self, id: Any) -> int:
        """The row of an item that is there.

        >>> from linmed.features import Catalogue
        >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
        >>> teas.place("mint"), "mint" in teas, "milk" in teas
        (1, True, False)
        """
        name = _id("id", id)
        with self._lock:
            row = self._row(name)
            if row is None or not self._items.live[row]:
                why = "is not in the catalogue" if row is None else "was removed from the catalogue"
                raise BadValue("id", f"id {name!r} {why}")
            return row

    def add(self, items: Any) -> None:
        """One new item (a row with its id) or several (a table)."""
        names, encoded = self._read(items)
        with self._lock:
            for name in names:
                row = self._row(name)
                if row is not None and self._items.live[row]:
                    raise BadValue("items", f"item {name!r} is already in the catalogue; use change")
            self._append(names, encoded, [])

    def change(self, items: Any) -> None:
        """New features for one item that is there (a row with its id) or for several (a table).

        All of them: what an item was made of is not kept. Write None for what is missing.

        >>> from linmed.features import Catalogue
        >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
        >>> teas.change({"item_id": "mint", "price": 3.0})
        >>> teas.place("mint"), teas.live
        (2, array([ True, False,  True]))
        """
        names, encoded = self._read(items, whole=True)
        with self._lock:
            self._append(names, encoded, [self.place(name) for name in names])

    def remove(self, ids: Any) -> None:
        """Take one item out, or several. Rewards of decisions in which they were played still count."""
        single = isinstance(ids, (str, numbers.Integral))
        if not single and not hasattr(ids, "__iter__"):
            raise BadType("ids", f"ids must be an id or a list of ids, got {ids!r}")
        with self._lock:
            gone = [self.place(name) for name in ([ids] if single else list(ids))]
            self._commit(self._items.matrix, self._items.live.copy(), gone)

    def _read(self, items: Any, whole: bool = False) -> tuple[list[Id], Matrix]:
        """Ids and numbers of one row or of a table."""
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
            encoded = encoded.astype(self._buffer.dtype)
        _check_entries("items", encoded)
        return names, encoded

    def _row(self, name: Id) -> int | None:
        if self._rows is not None:
            return self._rows.get(str(name))
        text = str(name)
        row = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
        return row if 0 <= row < len(self._names) and str(row) == text else None

    def _append(self, names: list[Id], encoded: Matrix, gone: list[int]) -> None:
        live = self._items.live
        used, more = len(live), len(names)
        if more == 0:
            return
        if self._rows is None:
            self._names = list(self._names)
            self._rows = {str(name): row for row, name in enumerate(self._names)}
        assert isinstance(self._names, list)
        if used + more > len(self._buffer):
            room = np.empty((max(2 * used, used + more, 16), encoded.shape[1]), dtype=self._buffer.dtype)
            room[:used] = self._items.matrix
            self._buffer = room
        self._buffer[used : used + more] = encoded
        self._names.extend(names)
        self._rows.update((str(name), used + i) for i, name in enumerate(names))
        self._commit(self._buffer[: used + more], np.append(live, np.ones(more, dtype=bool)), gone)

    def _commit(self, matrix: Matrix, live: Bools, gone: list[int]) -> None:
        live[gone] = False
        live.flags.writeable = False
        version = self._items.version + 1
        self._items = Items(self._names, matrix, live, int(live.sum()), version, self._origin)
        self._history.add(version, len(live), gone)

    def arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything as JSON and arrays: what `from_arrays` takes.

        >>> from linmed.features import Catalogue
        >>> meta, arrays = Catalogue(["a", "b"], [[0.1], [0.4]]).arrays()
        >>> meta["ids"], sorted(arrays), Catalogue.from_arrays(meta, arrays)
        (['a', 'b'], ['live', 'matrix'], Catalogue(2 items, 1 features, version 0))
        """
        with self._lock:
            items, counted = self._items, isinstance(self._names, range)
            names = len(items.live) if counted else list(items.ids[: len(items.live)])
            history = self._history.to_dict()
        meta = {
            "format": FORMAT,
            "id": self.id,
            "version": items.version,
            "features": self._features.to_dict(),
            "ids": names,
            "history": history,
        }
        return meta, {"matrix": items.matrix, "live": items.live}

    @classmethod
    def from_arrays(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "Catalogue":
        """The catalogue that `arrays` described."""
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
        if not isinstance(rows, range):
            made._names, made._rows = rows, {str(name): row for row, name in enumerate(rows)}
            if sum(live[row] for row in made._rows.values()) != live.sum():
                raise BadValue("ids", "ids has a live item twice")
        live.flags.writeable = False
        version = validation.whole("version", meta["version"], at_least=0)
        made._items = Items(made._names, made._buffer, live, int(live.sum()), version, made._origin)
        made._history = History.from_dict(meta.get("history"), live, version)
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a directory that `open` reads, no pickle. A crash leaves the earlier content or this one.

        >>> import tempfile
        >>> from linmed.features import Catalogue
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Catalogue(["a", "b"], [[0.1], [0.4]]).save(folder)
        ...     print(Catalogue.open(folder, mapped=False))
        Catalogue(2 items, 1 features, version 0)
        """
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
        """The catalogue that `save` wrote. `mapped` leaves the matrix on the disk until it is read."""
        folder = Path(path)
        if not (folder / "catalogue.json").exists():
            raise FileNotFoundError(f"there is no catalogue at {folder}")
        try:
            meta = json.loads((folder / "catalogue.json").read_bytes())
            files = {name: folder / meta["files"][name] for name in ("matrix", "live")}
            mode: Literal["r"] | None = "r" if validation.flag("mapped", mapped) else None
            matrix = np.load(files["matrix"], mmap_mode=mode, allow_pickle=False)
            live = np.load(files["live"], allow_pickle=False)
            return cls.from_arrays(meta, {"matrix": matrix, "live": live})
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


def _names(items: Table, id: str) -> Any:
    if id not in items.names:
        raise items.lacks(id)
    return items(id)
