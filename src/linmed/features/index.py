"""Which items of a catalogue have the largest inner product with a query: exactly, or by a graph.

An index answers the same query in the same way as long as its `version` is the same. A decision is defined
with whatever it answers, and logs the version.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from linmed import checks
from linmed.checks import Bools, Floats, Ints
from linmed.kernels.scan import doubt, longest, settle

BLOCK = 1 << 22
"""Numbers of a block that is looked at together: 16 MiB of single precision."""
LONGEST = 1e30
"""Largest norm of an item stored in single precision: sums of products cannot overflow."""


class Items(Protocol):
    """What an index and a decision need of a catalogue. A removed row is never used again."""

    @property
    def matrix(self) -> NDArray[Any]:
        """The encoded items (N, de): float64, or float32 or float16, in memory or mapped from a file."""

    @property
    def live(self) -> Bools:
        """Which rows have not been removed (N,)."""

    @property
    def count(self) -> int:
        """How many those are."""

    @property
    def version(self) -> int:
        """Grows with every change."""


class Index(Protocol):
    """Items by inner product. Places are rows of the catalogue's matrix."""

    @property
    def version(self) -> str:
        """Tells apart what may answer differently."""

    def top(self, queries: Floats, k: int) -> Ints:
        """The places of the k best for each query (B, de), best first: (B, k), −1 where there are no more."""

    def add(self, places: Ints, vectors: NDArray[Any]) -> None:
        """Rows (m, de) that are new, or have changed."""

    def remove(self, places: Ints) -> None:
        """Rows that are not to be found any more."""


class Scan:
    """Exact: all items are looked at, in blocks of single precision; what may be among the best is settled
    in double. The answer depends on the catalogue alone; on ties the lowest place is the better one.

    A matrix of float64 is held once more in single precision. One of float32 or float16, mapped from a file
    or not, is read where it stands. Of a catalogue's changes the index is told all, and then reads those rows
    alone, or none, and then reads everything again.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self._copy: NDArray[np.float32] | None = None  # in units of `_unit`, a power of two
        self._unit = 1.0
        self._reach = 0.0  # the largest norm, in these units
        self._seen = -1
        self._read_all()

    @property
    def version(self) -> str:
        """That of the catalogue: nothing else matters."""
        return f"scan-{self._items.version}"

    def top(self, queries: Floats, k: int) -> Ints:
        """The places of the k best for each query (B, de), best first: (B, k), −1 where there are no more."""
        if self._seen != self._items.version:
            self._read_all()
        matrix, live = self._items.matrix, self._items.live
        units = in_powers_of_two(checked_queries(queries, matrix.shape[1]))
        norms = np.sqrt((units * units).sum(axis=1))
        slack = np.array([doubt(matrix.shape[1], 1.001 * self._reach * norm) for norm in norms.tolist()])
        exact, single = units / self._unit, units.astype(np.float32)
        places = np.full((len(units), k), -1, dtype=np.int64)
        values = np.full((len(units), k), -np.inf)
        step = max(1024, BLOCK // max(len(units), matrix.shape[1]))
        room = np.empty(len(units) * step, dtype=np.float32)
        for first in range(0, len(matrix), step):
            rows = _known(np.asarray(matrix[first : first + step]))
            block = rows if self._copy is None else self._copy[first : first + len(rows)]
            scores = room[: len(units) * len(rows)].reshape(len(units), len(rows))
            np.matmul(single, block.T, out=scores)
            settle(scores, rows, live[first : first + step], first, exact, slack, places, values)
        return places

    def add(self, places: Ints, vectors: NDArray[Any]) -> None:
        """Rows (m, de) that are new, or have changed."""
        matrix = self._items.matrix
        if self._copy is None:
            self._reach = max(self._reach, _longest(np.asarray(vectors)))
            self._check_reach()
        elif np.abs(vectors).max(initial=0.0) > self._unit:
            return self._read_all()
        else:
            if len(self._copy) < len(matrix):
                grown = np.zeros((len(matrix) + len(matrix) // 4, matrix.shape[1]), dtype=np.float32)
                grown[: len(self._copy)] = self._copy
                self._copy = grown
            self._copy[places] = vectors / self._unit
            self._reach = max(self._reach, _longest(np.asarray(vectors) / self._unit))
        self._seen = self._items.version

    def remove(self, places: Ints) -> None:
        """Rows that are not to be found any more: the catalogue says which are live."""
        self._seen = self._items.version

    def _read_all(self) -> None:
        """The copy, if there is to be one, and the largest norm."""
        matrix, step = self._items.matrix, max(1024, BLOCK // self._items.matrix.shape[1])
        self._seen, self._reach, self._unit, self._copy = self._items.version, 0.0, 1.0, None
        starts = range(0, len(matrix), step)
        if matrix.dtype == np.float64:
            largest = max((float(np.abs(matrix[i : i + step]).max()) for i in starts), default=0.0)
            self._unit = float(np.ldexp(1.0, np.frexp(largest)[1]))
            self._copy = np.empty(matrix.shape, dtype=np.float32)
            for i in starts:
                np.divide(matrix[i : i + step], self._unit, out=self._copy[i : i + step], casting="same_kind")
        read = matrix if self._copy is None else self._copy
        self._reach = max((_longest(np.asarray(read[i : i + step])) for i in starts), default=0.0) * 1.001
        self._check_reach()

    def _check_reach(self) -> None:
        if self._reach > LONGEST:
            raise checks.BadValue(
                "matrix",
                f"items in single precision must have norms of at most {LONGEST:g}, got {self._reach:g}; "
                "give them as float64",
            )


def _longest(rows: NDArray[Any]) -> float:
    """The largest norm of a row."""
    return float(longest(np.ascontiguousarray(_known(rows))))


def _known(rows: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in a precision that kernels know."""
    return rows.astype(np.float32) if rows.dtype == np.float16 else rows


def in_powers_of_two(queries: Floats) -> Floats:
    """The same directions (B, de), their largest entries between ½ and 1: nothing but exponents changes."""
    exponents = np.frexp(np.abs(queries).max(axis=1))[1]
    scaled: Floats = np.ldexp(queries, -exponents[:, None])
    return scaled


def checked_queries(queries: Floats, dim: int) -> Floats:
    """`queries` (B, de), checked."""
    array = checks.floats("queries", queries)
    if array.ndim != 2 or array.shape[1] != dim:
        raise checks.BadValue("queries", f"queries must have shape (B, {dim}), got {array.shape}")
    return array
