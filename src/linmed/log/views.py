"""Parts of a log: slices, filters, random halves, each decision once. All are read in batches and compose."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import streams, validation
from linmed.log.schema import TIME, microseconds
from linmed.log.source import Counted, Malformed, Sliceable, Source, divided, vouched

SPLIT = 0x73_706C_6974  # "split" in ASCII: the key of the stream that deals out rows


@dataclass(frozen=True)
class View(ABC):
    """Some of the rows of another source."""

    source: Source

    @property
    def columns(self) -> list[str]:
        """Those of the source."""
        return self.source.columns

    @abstractmethod
    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Batches of at most `rows` rows."""

    def vouches(self) -> bool:
        """What does not repeat among all rows does not among some."""
        return vouched(self.source)


@dataclass(frozen=True)
class Slice(View):
    """Rows `start` to `stop` of a source that must be read from its beginning."""

    start: int
    stop: int | None

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Reads no further than `stop`."""
        if self.stop is not None:
            if self.stop <= self.start:
                return
            rows = min(rows, self.stop)
        done = 0
        for batch in self.source.read(columns, rows, malformed):
            first = max(self.start - done, 0)
            last = batch.num_rows if self.stop is None else min(self.stop - done, batch.num_rows)
            if first < last:
                yield batch.slice(first, last - first)
            done += batch.num_rows
            if self.stop is not None and done >= self.stop:
                return

    def slice(self, start: int, stop: int | None) -> "Slice":
        """A slice of a slice is one slice."""
        ends = [end for end in (self.stop, None if stop is None else self.start + stop) if end is not None]
        return Slice(self.source, self.start + start, min(ends, default=None))


def sliced(source: Source, start: int, stop: int | None) -> Source:
    """Rows `start` to `stop` of `source`, as it can give them best."""
    return source.slice(start, stop) if isinstance(source, Sliceable) else Slice(source, start, stop)


@dataclass(frozen=True)
class Where(View):
    """The rows that pass a test."""

    test: Callable[[pa.RecordBatch], Any]
    needs: tuple[str, ...]
    """Columns that the test looks at."""

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Reads what is asked for and what the test needs."""
        wanted = list(dict.fromkeys([*columns, *self.needs]))
        for batch in self.source.read(wanted, rows, malformed):
            passed = _mask(self.test(batch.select(list(self.needs))), batch.num_rows)
            kept = batch.select(list(columns)).filter(passed)
            if kept.num_rows:
                yield kept

    def pieces(self) -> list[tuple[str, Source]]:
        """Those of the source, each through the test."""
        return [(label, dataclasses.replace(self, source=piece)) for label, piece in divided(self.source)]


def _mask(answer: Any, rows: int) -> pa.Array:
    """What a test answered as Arrow's booleans; no answer for a row (null) leaves it out."""
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
    """The rows that pass `test`, a function of a batch or {column: value}, and have `values`."""
    have = source.columns
    if isinstance(test, Mapping):
        test, values = None, {**test, **values}
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
    """A time as a datetime, seconds since 1970 or ISO 8601 text, in microseconds."""
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
class Dealt(View):
    """One side of a random split: a row's uniform number is drawn by (seed, row) alone."""

    seed: int
    fraction: float
    first: bool
    """Whether this is the side of the numbers below `fraction`."""
    start: int = 0
    """The number of the source's first row."""

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """The rows of this side."""
        bits = streams.bits(self.seed, "data", SPLIT)
        bits.advance(self.start)  # one draw a row: the n-th is the n-th row's, however rows are batched
        uniform = np.random.Generator(bits)
        for batch in self.source.read(columns, rows, malformed):
            below = uniform.random(batch.num_rows) < self.fraction
            kept = batch.filter(pa.array(below == self.first))
            if kept.num_rows:
                yield kept

    def pieces(self) -> list[tuple[str, Source]]:
        """Those of the source, if they know their lengths."""
        found: list[tuple[str, Source]] = []
        start = self.start
        for label, piece in divided(self.source):
            if not isinstance(piece, Counted):
                return [("", self)]
            found.append((label, dataclasses.replace(self, source=piece, start=start)))
            start += piece.count()
        return found


@dataclass(frozen=True)
class Distinct(View):
    """The first row of every `decision_id`; rows without one all stay. Keeps the identifiers in memory."""

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Remembers every identifier that was read."""
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
        """By what it is."""
        return True
