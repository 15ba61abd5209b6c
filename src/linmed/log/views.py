"""Select parts of a log: filters, each decision once; find duplicates.

All are read in batches and compose.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from linmed import validation
from linmed.log.schema import TIME, microseconds
from linmed.log.source import BATCH, Malformed, Source, View
from linmed.validation import Ints


@dataclass(frozen=True)
class Where(View):
    """The rows that pass a test."""

    test: Callable[[pa.RecordBatch], Any]
    needs: tuple[str, ...]
    """Columns that the test looks at."""

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Read what is asked for and what the test needs."""
        wanted = list(dict.fromkeys([*columns, *self.needs]))
        for batch in self.source.read(wanted, rows, malformed):
            passed = _mask(self.test(batch.select(list(self.needs))), batch.num_rows)
            kept = batch.select(list(columns)).filter(passed)
            if kept.num_rows:
                yield kept

    def pieces(self) -> list[tuple[str, Source]]:
        """Give those of the source, each through the test."""
        return [(label, dataclasses.replace(self, source=piece)) for label, piece in self.source.pieces()]


def _mask(answer: Any, rows: int) -> pa.Array:
    """Read what a test answered as Arrow's booleans; no answer for a row (null) leaves it out."""
    mask = answer if isinstance(answer, (pa.Array, pa.ChunkedArray)) else pa.array(np.asarray(answer))
    if isinstance(mask, pa.ChunkedArray):
        mask = mask.combine_chunks()
    if not pa.types.is_boolean(mask.type) or len(mask) != rows:
        raise validation.BadValue(
            "test",
            f"test must answer a batch of {rows} rows with {rows} booleans, got {len(mask)} of {mask.type}",
        )
    return mask


@dataclass(frozen=True)
class AnyOf:
    """Whether a column has one of some values; None stands for null."""

    column: str
    values: tuple[Any, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """One boolean a row."""
        column = batch.column(self.column)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        try:
            return pc.is_in(column, value_set=pa.array(self.values).cast(column.type))
        except (pa.ArrowException, TypeError, ValueError):
            shown = ", ".join(map(repr, self.values[:3]))
            raise validation.BadValue(
                self.column,
                f"{self.column} holds {column.type}, of which {shown} is none: give values of that kind, or "
                "a function of a batch",
            ) from None


@dataclass(frozen=True)
class AllOf:
    """Whether a row passes every test."""

    tests: tuple[AnyOf, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """One boolean a row."""
        first, *others = (test(batch) for test in self.tests)
        for other in others:
            first = pc.and_(first, other)
        return first


@dataclass(frozen=True)
class Within:
    """Whether a decision's time lies in [start, end), in microseconds; a decision without a time does not."""

    start: int | None
    end: int | None

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """One boolean a row."""
        time = batch.column("time").cast(TIME).cast(pa.int64())
        passed = time.is_valid()
        if self.start is not None:
            passed = pc.and_(passed, pc.greater_equal(time, self.start))
        if self.end is not None:
            passed = pc.and_(passed, pc.less(time, self.end))
        return passed


def where(source: Source, test: Any, columns: Sequence[str] | None, values: Mapping[str, Any]) -> Where:
    """Select the rows that pass `test`, a function of a batch, or have `values`."""
    have = source.columns
    if test is None and not values:
        raise validation.BadValue("test", "test must be given: a function of a batch, or values of columns")
    if test is not None and (values or not callable(test)):
        advice = "for both, filter twice" if values else "or values of columns"
        raise validation.BadType("test", f"test must be a function of a batch, {advice}, got {test!r}")
    if columns is not None and test is None:
        raise validation.BadValue("columns", "columns are those that a function needs; values name their own")
    needs = have if test is not None and columns is None else list(columns or values)
    for name in needs:
        if name not in have:
            raise validation.BadValue(
                str(name), f"{name!r} is no column of the log, which has {', '.join(have)}"
            )
    tests = tuple(AnyOf(name, _several(value)) for name, value in values.items())
    return Where(source, test or AllOf(tests), tuple(needs))


def _several(value: Any) -> tuple[Any, ...]:
    """A value as one of a set."""
    several = isinstance(value, (list, tuple, set, frozenset, range, np.ndarray, pa.Array, pa.ChunkedArray))
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        value = value.to_pylist()
    return tuple(value) if several else (value,)


def moment(name: str, time: datetime | float | str) -> int:
    """Read a time as a datetime, seconds since 1970 or ISO 8601 text, in microseconds."""
    if time is None:
        raise validation.BadType(name, f"{name} must be a time, got None")
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            raise validation.BadValue(
                name, f"{name} must be a time like 2024-05-01T12:00:00+00:00, got {time!r}"
            ) from None
    try:
        return microseconds(time)
    except (validation.BadValue, validation.BadType) as error:
        raise type(error)(name, str(error).replace("time must", f"{name} must", 1)) from None


@dataclass(frozen=True)
class Distinct(View):
    """The first row of every `decision_id`; rows without one all stay. Keeps the identifiers in memory."""

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Remember every identifier that was read."""
        seen: set[str] = set()
        wanted = list(dict.fromkeys([*columns, "decision_id"]))
        for batch in self.source.read(wanted, rows, malformed):
            fresh = np.ones(batch.num_rows, dtype=bool)
            for row, identifier in enumerate(batch.column("decision_id").to_pylist()):
                if identifier is not None:
                    fresh[row] = identifier not in seen
                    seen.add(identifier)
            kept = batch.select(list(columns)).filter(pa.array(fresh))
            if kept.num_rows:
                yield kept

    def vouches(self) -> bool:
        """Be sure, by what it is."""
        return True


KEPT = 1 << 20
"""Identifiers in memory at most, apart from as many that wait to be compared."""
TEXT = pa.large_string()
GOLDEN = 0x9E37_79B9_7F4A_7C15

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Repeated:
    """What is known of decisions that occur more than once.

    >>> from linmed.ope import DecisionLog
    >>> played = {"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0], "decision_id": ["x", "x"]}
    >>> found = DecisionLog.from_table(played).duplicates()
    >>> found.count, found.row, found.first, found.decision_id
    (1, 1, 0, 'x')
    """

    count: int
    """Rows whose identifier an earlier row has."""
    row: int
    """The first of them."""
    first: int
    """The row that has its identifier first."""
    decision_id: str
    compared: float = 1.0
    """The share of identifiers that was compared; below one, `count` is that of this share alone."""

    def __str__(self) -> str:
        share = "" if self.compared == 1.0 else f" among {self.compared:.2g} of the identifiers"
        rows = f"1 row{share} repeats" if self.count == 1 else f"{self.count} rows{share} repeat"
        return (
            f"row {self.row} has the decision_id {self.decision_id!r} of row {self.first} again "
            f"({rows} an earlier one)"
        )


class Duplicates:
    """Finds identifiers that occur twice, fed column by column.

    Exact for the first million rows (2²⁰). Where more identifiers have been seen than that, those whose hash
    begins with a zero bit stay, then with two, and so on: memory is bounded, and of every identifier that
    stayed all occurrences were seen. What is found depends on the rows alone, not on how they are batched.

    >>> search = Duplicates()
    >>> search.add(pa.array(["x", "y"]))
    >>> search.add(pa.array(["z", "x"]))
    >>> print(search.found())
    row 3 has the decision_id 'x' of row 0 again (1 row repeats an earlier one)
    """

    def __init__(self) -> None:
        self._waiting: list[pa.Array] = []
        self._waiting_rows = 0
        self._done = 0  # rows compared
        self._zeros = 0  # leading bits of a hash that must be zero
        self._kept = pa.array([], TEXT)
        self._rows: Ints = np.empty(0, np.int64)  # where each of them stood first
        self._again: Ints = np.empty(0, np.int64)  # and how often it came again
        self._first: tuple[int, int, str] | None = None  # row, the row before it, identifier

    def add(self, identifiers: pa.Array) -> None:
        """Take the next rows' identifiers; null is none."""
        while len(identifiers):
            part = identifiers.slice(0, KEPT - self._waiting_rows)
            identifiers = identifiers.slice(len(part))
            self._waiting.append(part)
            self._waiting_rows += len(part)
            if self._waiting_rows == KEPT:
                self._compare()

    def found(self) -> Repeated | None:
        """Tell the duplicates so far."""
        self._compare()
        if self._first is None:
            return None
        row, before, identifier = self._first
        return Repeated(max(1, int(self._again.sum())), row, before, identifier, 0.5**self._zeros)

    def _compare(self) -> None:
        rows: Ints = np.arange(self._done, self._done + self._waiting_rows)
        new = pa.concat_arrays([pa.array([], TEXT), *(one.cast(TEXT) for one in self._waiting)])
        self._done += self._waiting_rows
        self._waiting, self._waiting_rows = [], 0
        present = new.is_valid().to_numpy(zero_copy_only=False)
        new, rows = new.filter(pa.array(present)), rows[present]
        if self._zeros:
            stays = self._stays(new)
            new, rows = new.filter(pa.array(stays)), rows[stays]
        every = pa.concat_arrays([self._kept, new])
        rows = np.concatenate([self._rows, rows])
        # Codes are numbered by first appearance: an identifier is new where its code exceeds all before it.
        code: Ints = every.dictionary_encode().indices.to_numpy().astype(np.int64)
        fresh = code > np.maximum.accumulate(np.append(-1, code))[:-1]
        again = np.flatnonzero(~fresh)
        if again.size and self._first is None:
            place = int(again[0])
            before = int(np.argmax(code == code[place]))
            self._first = int(rows[place]), int(rows[before]), every[place].as_py()
        self._kept, self._rows = every.filter(pa.array(fresh)), rows[fresh]
        self._again = np.append(self._again, np.zeros(len(self._kept) - self._again.size, np.int64))
        self._again += np.bincount(code[again], minlength=self._again.size)
        while len(self._kept) > KEPT:
            self._zeros += 1
            stays = self._stays(self._kept)
            self._kept = self._kept.filter(pa.array(stays))
            self._rows, self._again = self._rows[stays], self._again[stays]

    def _stays(self, identifiers: pa.Array) -> NDArray[np.bool_]:
        """Which identifiers are of the share that is compared."""
        stays: NDArray[np.bool_] = hashes(identifiers) >> np.uint64(64 - self._zeros) == 0
        return stays


def hashes(identifiers: pa.Array) -> Words:
    """64 bits of every entry of a TEXT column without nulls, alike in every process: Σᵢ mᵢ·wordᵢ, mixed."""
    first = identifiers.offset
    _, places, content = identifiers.buffers()
    offsets = np.frombuffer(places, np.int64, len(identifiers) + 1, 8 * first)
    letters = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    lengths = np.diff(offsets)
    found: Words = np.empty(len(identifiers), np.uint64)
    for length in np.unique(lengths).tolist():
        same = np.flatnonzero(lengths == length)
        padded = np.zeros((same.size, 8 * (length // 8 + 1)), np.uint8)
        padded[:, :length] = letters[offsets[same][:, None] + np.arange(length)]
        words = padded.view("<u8")
        multipliers = _mixed(np.arange(1, words.shape[1] + 1, dtype=np.uint64) * np.uint64(GOLDEN))
        total = (words * (multipliers | np.uint64(1))).sum(axis=1, dtype=np.uint64)
        found[same] = _mixed(total + np.uint64((length + 1) * GOLDEN % 2**64))
    return found


def _mixed(bits: Words) -> Words:
    """The finaliser of SplitMix64: every bit of the answer depends on every bit given."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return bits ^ (bits >> np.uint64(31))


def repeats(source: Source) -> Repeated | None:
    """Find the decisions that stand in `source` twice, None if there are none or it has no identifiers."""
    if "decision_id" not in source.columns or source.vouches():
        return None
    search = Duplicates()
    for batch in source.read(["decision_id"], BATCH, Malformed()):
        search.add(batch.column("decision_id"))
    return search.found()
