"""Which items of a catalogue have the largest inner product with a query: exactly, or by a graph.

An index answers the same query in the same way as long as its `version` is the same. A decision is defined
with whatever it answers, and logs the version.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.core import core
from linmed.features.catalogue import Items
from linmed.validation import Floats, Ints

BLOCK = 1 << 22
"""Numbers of a block that is looked at together: 16 MiB of single precision."""
LONGEST = 1e30
"""Largest norm of an item stored in single precision: sums of products cannot overflow."""


class Index(Protocol):
    """Items by inner product. Places are rows of the catalogue's matrix.

    >>> class Sorting:
    ...     @property
    ...     def version(self):
    ...         return f"sorting-{self.items.version}"
    ...
    ...     def follow(self, items):
    ...         self.items = items
    ...
    ...     def top(self, queries, k):
    ...         live = np.flatnonzero(self.items.live)
    ...         best = live[np.argsort(-queries @ self.items.matrix[live].T)[:, :k]]
    ...         return np.pad(best, ((0, 0), (0, k - best.shape[1])), constant_values=-1)
    >>> from linmed import Agent, CatalogueMED
    >>> from linmed.features import Catalogue
    >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
    >>> Agent(CatalogueMED(), catalogue=teas, index=Sorting(), seed=7).decide().item
    'oolong'
    """

    @property
    def version(self) -> str:
        """Tells apart what may answer differently."""

    def follow(self, items: Items) -> None:
        """Answer for the catalogue as it is now. Rows are never used again, so it says itself what is new.

        It belongs to the catalogue that it followed first: `same_origin`.
        """

    def top(self, queries: Floats, k: int) -> Ints:
        """Find the places of the k best for each query (B, de), in order: (B, k), −1 if there are no more."""


class Scan:
    """Exact: all items are looked at, in blocks of single precision; what may be among the best is settled
    in double. The answer depends on the catalogue alone; on ties the lowest place is the better one.

    A matrix of float64 is held once more in single precision. One of float32 or float16, mapped from a file
    or not, is read where it stands.

    >>> import numpy as np
    >>> from linmed.features import Catalogue, Scan
    >>> scan = Scan()
    >>> scan.follow(Catalogue(["a", "b", "c"], [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]).snapshot())
    >>> scan.top(np.array([[0.0, 1.0]]), k=2), scan.version
    (array([[1, 2]]), 'scan-0')
    """

    def __init__(self) -> None:
        self._items: Items | None = None
        self._unit = 1.0  # a power of two
        self._copy = np.empty((0, 0), dtype=np.float32)  # of a matrix of float64, in these units
        self._rows = 0  # that have been read
        self._reach = 0.0  # their largest norm, in these units

    @property
    def version(self) -> str:
        """That of the catalogue: nothing else matters."""
        return "scan" if self._items is None else f"scan-{self._items.version}"

    def follow(self, items: Items) -> None:
        """Answer for the catalogue as it is now; of its rows the new ones are read."""
        if items is self._items:
            return
        before, matrix = self._items, items.matrix
        same_origin(before, items)
        if before is None or len(before.matrix) > len(matrix):
            self._rows, self._reach, self._unit = 0, 0.0, 1.0
        if matrix.dtype == np.float64:
            self._copy_from(matrix)
        for first in range(self._rows, len(matrix), self._step(matrix)):
            rows = self._block(matrix, first, self._step(matrix))[1]
            self._reach = max(self._reach, core.longest_row(rows))
        if self._reach > LONGEST:
            raise validation.BadValue(
                "matrix",
                f"items in single precision must have norms of at most {LONGEST:g}, got {self._reach:g}; "
                "give them as float64",
            )
        self._items, self._rows = items, len(matrix)

    def top(self, queries: Floats, k: int) -> Ints:
        """Find the places of the k best for each query (B, de), in order: (B, k), −1 if there are no more."""
        if self._items is None:
            raise ValueError("an index must follow a catalogue before it is asked")
        matrix, live = self._items.matrix, self._items.live
        given = checked_queries(queries, matrix.shape[1])
        asks = given.any(axis=1)
        if not asks.all():  # to zero all items are alike, and none could be left out of the pass below
            found = np.full((len(given), k), -1, dtype=np.int64)
            first_ones = first_live(live, k)
            found[:, : len(first_ones)] = first_ones
            if asks.any():
                found[asks] = self.top(given[asks], k)
            return found
        units = in_powers_of_two(given)
        norms = np.sqrt((units * units).sum(axis=1))
        exact, single = units / self._unit, units.astype(np.float32)
        places = np.full((len(units), k), -1, dtype=np.int64)
        values = np.full((len(units), k), -np.inf)
        step = self._step(matrix, len(units))
        room = np.empty(len(units) * step, dtype=np.float32)
        for first in range(0, len(matrix), step):
            rows, block = self._block(matrix, first, step)
            scores = room[: len(units) * len(rows)].reshape(len(units), len(rows))
            np.matmul(single, block.T, out=scores)
            there = live[first : first + step]
            core.scan_block(scores, rows, there, first, exact, 1.001 * self._reach * norms, places, values)
        return places

    def __copy__(self) -> "Scan":
        twin = Scan()
        twin.__dict__.update(self.__dict__)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        """Nothing: it is copied and pickled with a catalogue, which has its own memory afterwards."""
        return Scan, ()

    @staticmethod
    def _step(matrix: NDArray[Any], queries: int = 1) -> int:
        """Count the rows of a block."""
        return max(1024, BLOCK // max(queries, int(matrix.shape[1])))

    def _block(self, matrix: NDArray[Any], first: int, step: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Some rows in a precision that the core reads, and in single precision."""
        rows = np.ascontiguousarray(matrix[first : first + step])
        if rows.dtype == np.float64:
            return rows, self._copy[first : first + len(rows)]
        single = rows.astype(np.float32, copy=False)
        return single, single

    def _copy_from(self, matrix: NDArray[Any]) -> None:
        """Have the new rows in single precision, and all of them where they do not fit into the units."""
        step = self._step(matrix)
        starts = range(self._rows, len(matrix), step)
        largest = max((float(np.abs(matrix[i : i + step]).max()) for i in starts), default=0.0)
        if self._rows == 0 or largest > self._unit:
            self._unit = max(self._unit if self._rows else 0.0, float(np.ldexp(1.0, np.frexp(largest)[1])))
            self._rows, self._reach = 0, 0.0
        if len(self._copy) < len(matrix) or self._copy.shape[1] != matrix.shape[1]:
            room = len(matrix) + (len(matrix) // 4 if self._rows else 0)
            grown = np.empty((room, matrix.shape[1]), dtype=np.float32)
            if self._rows:
                grown[: self._rows] = self._copy[: self._rows]
            self._copy = grown
        for i in range(self._rows, len(matrix), step):
            rows = matrix[i : i + step]
            self._copy[i : i + len(rows)] = rows / self._unit


def same_origin(before: Items | None, items: Items) -> None:
    """Refuse items of another catalogue: an index takes rows that it has read for known."""
    if before is not None and before.origin is not items.origin:
        raise validation.BadValue(
            "index", "index follows another catalogue; each needs one of its own, which its agents may share"
        )


def first_live(live: NDArray[np.bool_], k: int) -> Ints:
    """Find the lowest k live places, or all of them."""
    found: Ints = np.flatnonzero(live[: 2 * k])[:k]
    return found if len(found) == k else np.flatnonzero(live)[:k]


def in_powers_of_two(queries: Floats) -> Floats:
    """Scale directions (B, de) so that their largest entries lie between ½ and 1; only exponents change."""
    exponents = np.frexp(np.abs(queries).max(axis=1))[1]
    scaled: Floats = np.ldexp(queries, -exponents[:, None])
    return scaled


def checked_queries(queries: Floats, dim: int) -> Floats:
    """`queries` (B, de), checked."""
    array = validation.floats("queries", queries)
    if array.ndim != 2 or array.shape[1] != dim:
        raise validation.BadValue("queries", f"queries must have shape (B, {dim}), got {array.shape}")
    return array
