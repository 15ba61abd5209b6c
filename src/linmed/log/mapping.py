"""Make a log's columns of a table's that has other names and types.

A plan has a part for each column of the log; a part makes an array of a batch of the file. Every part reads
row by row: a column can be read if and only if each of its rows can, so the row that cannot is named.
"""

import dataclasses
import itertools
import math
import numbers
import re
from abc import ABC, abstractmethod
from collections.abc import Container, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import validation
from linmed.log.parquet import ParquetSource
from linmed.log.schema import BY_TYPE, FIRST, LAST, SCHEMA, TIME, lists
from linmed.log.source import BATCH, Malformed, Source, TableSource, brief, quoted
from linmed.validation import Floats, Ints

NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"
ZONE = r":[0-9]{2}.*(Z|[-+][0-9]{2}(:?[0-9]{2})?)\s*$"


def expected(kind: pa.DataType) -> str:
    """Say what a value of a column must be, in words."""
    if kind == TIME:
        return "a time (ISO 8601, or seconds since 1970, in the years 1 to 9999)"
    if pa.types.is_list(kind):
        return "a list of lists of numbers" if pa.types.is_list(kind.value_type) else "a list of numbers"
    if pa.types.is_boolean(kind):
        return "true or false"
    if pa.types.is_integer(kind):
        return "a whole number"
    return "a number" if pa.types.is_floating(kind) else f"a value of type {kind}"


def is_named(kind: pa.DataType) -> bool:
    """Whether values of this kind are names, not numbers."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return not (number or pa.types.is_null(kind))


def read_as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Read `column` as `kind`; raises ValueError or one of pyarrow's errors where some value is none."""
    if column.type == kind:
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column), kind)
    if pa.types.is_dictionary(column.type):
        return read_as(column.dictionary_decode(), kind)
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if kind == TIME:
        return _from_text(column) if text else _time(column)
    if pa.types.is_boolean(kind):
        return _truth(column.cast(pa.string()) if text else column)
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    boolean = text and numeric and _first(column).lower() in ("true", "false")
    try:
        return column.cast(pa.bool_()).cast(kind) if boolean else column.cast(kind)
    except pa.ArrowInvalid:
        if not (text and numeric):
            raise
    return _number(pc.utf8_trim_whitespace(column)).cast(kind)


def _first(text: pa.Array) -> str:
    """The first text there is. What it looks like is tried first: a cast that fails is slow."""
    present = text.slice(0, 1) if text.slice(0, 1).null_count == 0 else text.drop_null()
    return present[0].as_py() if len(present) else ""


def _truth(column: pa.Array) -> pa.Array:
    """true and false, or 1 and 0, as text or numbers: any other number is neither."""
    number = read_as(column, pa.float64())
    if pc.all(pc.or_(pc.equal(number, 0.0), pc.equal(number, 1.0))).as_py() is False:
        raise ValueError("neither true nor false")
    return number.cast(pa.bool_())


def _number(text: pa.Array) -> pa.Array:
    """Text as float64; true and false are 1 and 0."""
    small = pc.utf8_lower(text)
    digits = pc.if_else(pc.equal(small, "true"), "1", pc.if_else(pc.equal(small, "false"), "0", text))
    return digits.cast(pa.float64())


def _time(column: pa.Array) -> pa.Array:
    """Moments of any unit and zone (none is UTC), days, or numbers of seconds since 1970."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz), safe=False).cast(TIME)
    if pa.types.is_date(kind) or pa.types.is_null(kind):
        return column.cast(pa.timestamp("us")).cast(TIME)
    seconds = column.cast(pa.float64())
    possible = pc.and_(pc.greater_equal(seconds, FIRST / 1e6), pc.less_equal(seconds, LAST / 1e6))
    if pc.all(possible).as_py() is False:
        raise ValueError("seconds since 1970 must lie in the years 1 to 9999 (are these milliseconds?)")
    whole = pa.types.is_integer(kind)
    moments = pc.multiply(column.cast(pa.int64()), 10**6) if whole else pc.round(pc.multiply(seconds, 1e6))
    return moments.cast(pa.int64()).cast(TIME)


def _from_text(text: pa.Array) -> pa.Array:
    """ISO 8601 with a zone or without (UTC), or seconds since 1970; each row for itself."""
    first = _first(text)
    zone = "UTC" if re.search(ZONE, first) else None
    kind = pa.float64() if re.search(NUMBER, first) else pa.timestamp("us", zone)
    try:
        return _time(text.cast(kind))
    except ValueError:
        text = pc.utf8_trim_whitespace(text)
    number = pc.match_substring_regex(text, NUMBER)
    zoned = pc.match_substring_regex(text, ZONE)
    nothing = pa.scalar(None, text.type)
    seconds = _time(pc.if_else(number, text, nothing).cast(pa.float64()))
    with_zone = _parsed(pc.if_else(pc.and_(zoned, pc.invert(number)), text, nothing), "UTC")
    without = _parsed(pc.if_else(pc.or_(zoned, number), nothing, text), None)
    return pc.coalesce(seconds, with_zone, without)


def _parsed(text: pa.Array, zone: str | None) -> pa.Array:
    """Up to nine digits of a second, of which six are kept."""
    try:
        return text.cast(pa.timestamp("us", zone)).cast(TIME)
    except pa.ArrowInvalid:
        return _time(text.cast(pa.timestamp("ns", zone)))


CONSTANT = ("arm_count", "probability")
"""Columns that may be one number for the whole log."""
MOST_ARMS = 2**53
"""As many as a number of either type can count."""
SEVERAL = ("features", "probabilities")
"""Columns that may be joined of several."""
Columns = Mapping[str, Any]
"""Log name → column, several of them, or a number."""


@dataclass(frozen=True)
class Part(ABC):
    """One column of the log, made of the columns `reads`, row by row."""

    reads: tuple[str, ...]
    lenient: ClassVar[bool] = False
    """Whether a value that cannot be read may be null instead, where lines are skipped."""

    @abstractmethod
    def _make(self, batch: pa.RecordBatch) -> pa.Array:
        """Make the column; raises ValueError or one of pyarrow's errors where a row cannot be read."""

    def reason(self, row: pa.RecordBatch) -> str:
        """Say why a single row cannot be read."""
        found = brief(row.column(self.reads[0])[0].as_py())
        return f"column {self.reads[0]!r} cannot be read: it has {found}"


@dataclass(frozen=True)
class Value(Part):
    """One column, as another type."""

    name: str
    kind: pa.DataType

    def _make(self, batch: pa.RecordBatch) -> pa.Array:
        return read_as(batch.column(self.reads[0]), self.kind)

    def reason(self, row: pa.RecordBatch) -> str:
        """Say the value, and what it should be."""
        (column,) = self.reads
        found = row.column(column)[0].as_py()
        return (
            f"column {column!r} cannot be read as {self.name} ({self.kind}): it has {brief(found)}, "
            f"{expected(self.kind)} is expected"
        )


@dataclass(frozen=True)
class Extra(Value):
    """A column that is none of the log's own."""

    lenient: ClassVar[bool] = True


@dataclass(frozen=True)
class Joined(Part):
    """Several columns of numbers as one of lists."""

    name: str

    def _make(self, batch: pa.RecordBatch) -> pa.Array:
        return matrix(np.stack([self.numbers(batch, name) for name in self.reads], axis=1))

    @staticmethod
    def numbers(batch: pa.RecordBatch, name: str) -> Floats:
        """Read a column as an array."""
        array: Floats = read_as(batch.column(name), pa.float64()).to_numpy(zero_copy_only=False)
        return array

    def reason(self, row: pa.RecordBatch) -> str:
        """Say the first value that is no number."""
        for name in self.reads:
            one = Value((name,), self.name, pa.float64())
            if next(unreadable(one, row), None) is not None:
                return one.reason(row)
        return f"{self.name} cannot be made of {', '.join(self.reads)}"


@dataclass(frozen=True)
class Constant(Part):
    """The same number in every row."""

    number: float
    kind: pa.DataType

    def _make(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.repeat(pa.scalar(self.number).cast(self.kind), batch.num_rows)


@dataclass(frozen=True)
class Index(Part):
    """Names as indices into the sorted names."""

    names: pa.Array

    def _make(self, batch: pa.RecordBatch) -> pa.Array:
        name = read_as(batch.column(self.reads[0]), pa.string())
        return pc.index_in(name, value_set=self.names, skip_nulls=True).cast(pa.int64())


@dataclass(frozen=True)
class Length(Part):
    """How many entries a list has."""

    def _make(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.list_value_length(batch.column(self.reads[0])).cast(pa.int64())


def matrix(array: Any) -> pa.Array:
    """Make `lists` of so few numbers that one array holds them."""
    return lists(array).combine_chunks()


def unreadable(part: Part, batch: pa.RecordBatch, start: int = 0) -> Iterator[int]:
    """Find the rows that `part` cannot be made of, by halving what fails."""
    try:
        part._make(batch)
    except (ValueError, pa.ArrowException):
        if batch.num_rows == 1:
            yield start
            return
        half = batch.num_rows // 2
        yield from unreadable(part, batch.slice(0, half), start)
        yield from unreadable(part, batch.slice(half), start + half)


@dataclass(frozen=True)
class Plan:
    """Every column of the log and how it is made."""

    parts: dict[str, Part]
    named: str | None = None
    """The column whose texts are the arms, while they are not all known: `arm` is not among the parts."""
    counted: bool = True
    """Whether `arm_count` is said otherwise than by the number of names."""
    own: tuple[str, ...] = ()
    """The names of the columns that it is made of, those not used too."""

    @property
    def columns(self) -> list[str]:
        """The log's own in its order, then the others."""
        waiting = () if self.named is None else ("arm",) if self.counted else ("arm", "arm_count")
        have = {*self.parts, *waiting}
        own = [name for name in SCHEMA.names if name in have]
        return [*own, *(name for name in self.parts if name not in own)]

    def with_names(self, names: pa.Array) -> "Plan":
        """Complete it when the arms' names are known, sorted."""
        assert self.named is not None
        found: dict[str, Part] = {"arm": Index((self.named,), names)}
        if not self.counted:
            found["arm_count"] = Constant((), len(names), pa.int64())
        return dataclasses.replace(self, parts={**self.parts, **found}, named=None)


def plan(
    columns: Columns, schema: pa.Schema, whose: str, gaps: Container[str] = (), infer: bool = False
) -> Plan:
    """Plan how the log's columns are made of those in `schema`, which is that of `whose`.

    `gaps`: columns with nulls, which tell no number of arms. `infer`: whether columns that are none of the
    log's own are text, to be read as the types of `schema`.
    """
    _check(columns, schema.names, whose)
    parts: dict[str, Part] = {}
    named: str | None = None
    have = [name for name in BY_TYPE if name in schema.names and name not in columns]
    other = {name for name in have if not _alike(schema, name)}
    own = {name for name in schema.names if name not in other}
    for log in SCHEMA:
        given = columns.get(log.name, log.name if log.name in own else None)
        if given is None:
            continue
        if isinstance(given, str) and len(schema.get_all_field_indices(given)) > 1:
            raise _bad(f"{log.name!r} is made of the column {given!r}, which {whose} has twice")
        if isinstance(given, numbers.Real):
            parts[log.name] = Constant((), float(given), log.type)
        elif not isinstance(given, str):
            parts[log.name] = Joined(tuple(given), log.name)
        elif log.name in SEVERAL and not _listed(schema.field(given).type):
            parts[log.name] = Joined((given,), log.name)
        elif log.name == "arm" and is_named(schema.field(given).type):
            named = given
        else:
            parts[log.name] = Value((given,), log.name, log.type)
    used = {*itertools.chain(*(part.reads for part in parts.values())), named}
    if named is not None:
        parts.setdefault("arm_id", Value((named,), "arm_id", pa.string()))
    if "arm_count" not in parts and named is None:
        for source in (parts[name] for name in ("probabilities", "arms") if name in parts):
            if isinstance(source, Joined):
                parts["arm_count"] = Constant((), len(source.reads), pa.int64())
            elif source.reads[0] not in gaps and pa.types.is_nested(schema.field(source.reads[0]).type):
                parts["arm_count"] = Length(source.reads)
            if "arm_count" in parts:
                break
    for name in schema.names:
        if name not in used and (name in other or name not in SCHEMA.names):
            kind = schema.field(name).type
            parts[name] = Extra((name,), name, pa.string() if infer and pa.types.is_null(kind) else kind)
    return Plan(parts, named, "arm_count" in parts, tuple(schema.names))


def _alike(schema: pa.Schema, name: str) -> bool:
    """Whether a column has the type that the log's own of that name has; one that is there twice has not."""
    place = schema.get_field_index(name)
    return place >= 0 and bool(schema.field(place).type == SCHEMA.field(name).type)


def _listed(kind: pa.DataType) -> bool:
    """Whether a column is one of lists; one without any value is, so that it stays without."""
    return bool(pa.types.is_nested(kind) or pa.types.is_null(kind))


def _check(columns: Any, have: Sequence[str], whose: str) -> None:
    """Raise unless `columns` maps the log's names to columns there are, or to numbers where they may be."""
    if not isinstance(columns, Mapping):
        raise validation.BadType(
            "columns", f"columns must be a mapping like {{'reward': 'click'}}, got {brief(columns)}"
        )
    for name, given in columns.items():
        if name not in SCHEMA.names:
            raise _bad(f"columns maps {name!r}, which is none of {', '.join(SCHEMA.names)}")
        if isinstance(given, numbers.Real) and not isinstance(given, (bool, np.bool_)):
            _constant(name, given)
            continue
        several = not isinstance(given, str)
        if several and not (isinstance(given, Sequence) and given and all(isinstance(x, str) for x in given)):
            raise _bad(f"columns must map {name!r} to a column, got {brief(given)}")
        if several and name not in SEVERAL:
            raise _bad(f"columns maps {name!r} to several columns; only {' and '.join(SEVERAL)} take them")
        for column in given if several else [given]:
            if column not in have:
                raise _bad(f"columns maps {name!r} to {column!r}, but {whose} has the columns {quoted(have)}")


def _constant(name: str, number: Any) -> None:
    if name == "arm_count":
        if validation.whole("arm_count", number) > MOST_ARMS:
            raise validation.BadValue(
                "arm_count", f"arm_count must be at most {MOST_ARMS}, got {number!r:.20}"
            )
    elif name != "probability":
        raise _bad(f"columns maps {name!r} to a number; only {' and '.join(CONSTANT)} may be one")
    elif not 0.0 < validation.real("probability", number) <= 1.0:
        raise validation.BadValue("probability", f"probability must lie in (0, 1], got {number!r}")


def _bad(message: str) -> validation.BadValue:
    return validation.BadValue("columns", message)


def parse_columns(text: str) -> dict[str, Any]:
    """Parse a mapping of columns as it is written on a command line.

    Names of the log = names of the file, `+` joins several, `arm_count` and `probability` may be a number.

    >>> parse_columns("reward=click,arm=item,features=age+price,probability=1/4")
    {'reward': 'click', 'arm': 'item', 'features': ['age', 'price'], 'probability': 0.25}
    """
    found: dict[str, Any] = {}
    for entry in validation.text("columns", text).split(","):
        name, equals, given = (part.strip() for part in entry.partition("="))
        if not (name and equals and given):
            raise _bad(
                f"columns must be written like reward=click,arm=item,features=a+b, got {entry.strip()!r}"
            )
        if name in found:
            raise _bad(f"columns maps {name!r} twice")
        if name not in SCHEMA.names:
            raise _bad(f"columns maps {name!r}, which is none of {', '.join(SCHEMA.names)}")
        found[name] = _given(name, given)
    return found


def _given(name: str, text: str) -> Any:
    """A number where one may be, several columns where they may be, or one."""
    if name in CONSTANT:
        try:
            number = float(Fraction(text)) if "/" in text else float(text)
        except (ValueError, ZeroDivisionError):
            return text
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            if text.strip("+-").isalpha():  # a column may be called nan or inf
                return text
            raise validation.BadValue(name, f"{name} must be a finite number, got {text!r:.20}")
        constant = int(number) if name == "arm_count" and number.is_integer() else number
        _constant(name, constant)
        return constant
    names = [part.strip() for part in text.split("+")]
    if name in SEVERAL and len(names) > 1:
        if not all(names):
            raise _bad(f"columns maps {name!r} to {text!r}: a column's name is missing beside a '+'")
        return names
    return text


Numbered = tuple[Ints, pa.RecordBatch]
"""Rows as they are in the file, each with its number there."""


@dataclass(frozen=True)
class Mapped(Source):
    """What `plan` makes of numbered rows. Where arms are names, they are looked for once, when first read."""

    plan: Plan
    name: str
    """Where the rows are from, for messages."""

    errors = "raise"
    """"skip": rows that cannot be read are left out and counted."""
    unit = "row"

    @property
    def columns(self) -> list[str]:
        """Those of the plan."""
        return self.plan.columns

    @property
    def own(self) -> Sequence[str]:
        """Those of the file."""
        return self.plan.own

    @abstractmethod
    def numbered(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Generator[Numbered]:
        """Yield the columns of the file, in batches of at most `rows` rows."""

    @cached_property
    def ready(self) -> Plan:
        """The plan with the names of the arms."""
        plan = self.plan
        if plan.named is None:
            return plan
        found: set[str] = set()
        part = Value((plan.named,), "arm", pa.string())
        for batch in self._made(plan, {"arm": part}, BATCH, Malformed()):
            found.update(batch.column(0).unique().to_pylist())
        return plan.with_names(pa.array(sorted(name for name in found if name is not None), pa.string()))

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Batches as the log has them. Lines are skipped by all of the log's columns, also those not read."""
        plan = self.ready
        yield from self._made(plan, {name: plan.parts[name] for name in columns}, rows, malformed)

    def _made(
        self, plan: Plan, wanted: dict[str, Part], rows: int, malformed: Malformed
    ) -> Iterator[pa.RecordBatch]:
        needed = list(wanted.values())
        if self.errors == "skip":
            needed += [part for part in plan.parts.values() if not part.lenient]
        reads = list(dict.fromkeys(name for part in needed for name in part.reads))
        some = next(part.reads for part in plan.parts.values() if part.reads)  # rows are counted by a column
        with closing(self.numbered(reads or list(some), rows, malformed)) as numbered:
            for numbers, batch in numbered:
                made = _arrays(needed, batch)
                if made is None:
                    batch = self._readable(numbers, batch, needed, malformed)
                    made = _arrays(needed, batch)
                assert made is not None  # every row that is left can be read, and so can they all
                if batch.num_rows:
                    yield pa.RecordBatch.from_arrays(made[: len(wanted)], list(wanted))

    def _readable(
        self, numbers: Ints, batch: pa.RecordBatch, parts: Sequence[Part], malformed: Malformed
    ) -> pa.RecordBatch:
        """`batch` without the rows that cannot be read, which are reported."""
        wrong: dict[int, Part] = {}
        for part in parts:
            rows = unreadable(part, batch)
            if self.errors == "skip" and part.lenient:
                batch = _without(batch, part.reads[0], list(rows))
            elif self.errors == "skip":
                wrong = {**dict.fromkeys(rows, part), **wrong}
            elif (first := next(rows, None)) is not None and first < min(wrong, default=len(numbers)):
                wrong[first] = part
        for row in sorted(wrong):
            self.report(int(numbers[row]), wrong[row].reason(batch.slice(row, 1)), malformed)
        return batch.take(pa.array(np.delete(np.arange(batch.num_rows), list(wrong))))

    def report(self, number: int, reason: str, malformed: Malformed) -> None:
        """Raise what is wrong with a row, or note it."""
        if self.errors == "raise":
            raise ValueError(f"{self.name}, {self.unit} {number}: {reason}")
        malformed.add(number, reason)


def _arrays(parts: Sequence[Part], batch: pa.RecordBatch) -> list[pa.Array] | None:
    """What the parts make of `batch`, None where some row cannot be read."""
    try:
        return [part._make(batch) for part in parts]
    except (ValueError, pa.ArrowException):
        return None


def _without(batch: pa.RecordBatch, name: str, rows: list[int]) -> pa.RecordBatch:
    """`batch` with nulls in a column at `rows`."""
    mask = np.zeros(batch.num_rows, dtype=bool)
    mask[rows] = True
    place, column = batch.schema.get_field_index(name), batch.column(name)
    return batch.set_column(place, name, pc.if_else(pa.array(mask), pa.scalar(None, column.type), column))


@dataclass(frozen=True)
class MappedTable(Mapped):
    """A table in memory."""

    table: pa.Table

    def numbered(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Generator[Numbered]:
        """Yield slices of it."""
        yield from _counted(TableSource(self.table).read(columns, rows, malformed))


@dataclass(frozen=True)
class MappedParquet(Mapped):
    """A Parquet file, or a directory of them."""

    source: ParquetSource

    def numbered(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Generator[Numbered]:
        """Read file after file."""
        yield from _counted(self.source.read(columns, rows, malformed))

    def count(self) -> int:
        """Count from the files' metadata."""
        return self.source.count()

    def slice(self, start: int, stop: int | None) -> "MappedParquet":
        """Keep the same arms, however few of them are in the slice."""
        return self._of(self.source.slice(start, stop))

    def pieces(self) -> list[tuple[str, Source]]:
        """Give one for each file of a directory."""
        parts = self.source.pieces()
        return [(label, self._of(piece)) for label, piece in parts] if len(parts) > 1 else [("", self)]

    def _of(self, source: ParquetSource) -> "MappedParquet":
        return dataclasses.replace(self, plan=self.ready, source=source)


def _counted(batches: Iterator[pa.RecordBatch]) -> Generator[Numbered]:
    """Each batch with the numbers of its rows."""
    done = 0
    for batch in batches:
        yield np.arange(done, done + batch.num_rows), batch
        done += batch.num_rows


def parquet_source(path: Path, columns: Columns) -> ParquetSource | MappedParquet:
    """Open the log at `path`; a plan only where its columns are not those of a log already."""
    source = ParquetSource(path)
    schema = source.schema
    made = plan(columns, schema, str(path))
    own = all(_as_it_is(name, part, schema) for name, part in made.parts.items())
    return source if own and made.named is None else MappedParquet(made, str(path), source)


def _as_it_is(name: str, part: Part, schema: pa.Schema) -> bool:
    """Whether a part is a column of the file, under its own name and type."""
    return isinstance(part, Value) and part.reads == (name,) and schema.field(name).type == part.kind
