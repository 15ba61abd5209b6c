"""How a log's columns are made of a table's that has other names and types."""

import dataclasses
import itertools
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import validation
from linmed.log.schema import OF_CATALOGUE, SCHEMA, lists
from linmed.log.source import brief, quoted
from linmed.log.values import expected, is_named, read_as
from linmed.validation import Floats

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
    def make(self, batch: pa.RecordBatch) -> pa.Array:
        """The column; raises ValueError or one of pyarrow's errors where a row cannot be read."""

    def reason(self, row: pa.RecordBatch) -> str:
        """Why a single row cannot be read."""
        found = brief(row.column(self.reads[0])[0].as_py())
        return f"column {self.reads[0]!r} cannot be read: it has {found}"


@dataclass(frozen=True)
class Value(Part):
    """One column, as another type."""

    name: str
    kind: pa.DataType

    def make(self, batch: pa.RecordBatch) -> pa.Array:
        """Read as that type."""
        return read_as(batch.column(self.reads[0]), self.kind)

    def reason(self, row: pa.RecordBatch) -> str:
        """The value, and what it should be."""
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
class Same(Part):
    """A column as it is."""

    def make(self, batch: pa.RecordBatch) -> pa.Array:
        """Itself."""
        return batch.column(self.reads[0])


@dataclass(frozen=True)
class Joined(Part):
    """Several columns of numbers as one of lists."""

    name: str

    def make(self, batch: pa.RecordBatch) -> pa.Array:
        """One list a row; a number that is missing is NaN."""
        return matrix(np.stack([self.numbers(batch, name) for name in self.reads], axis=1))

    @staticmethod
    def numbers(batch: pa.RecordBatch, name: str) -> Floats:
        """A column as an array."""
        array: Floats = read_as(batch.column(name), pa.float64()).to_numpy(zero_copy_only=False)
        return array

    def reason(self, row: pa.RecordBatch) -> str:
        """The first value that is no number."""
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

    def make(self, batch: pa.RecordBatch) -> pa.Array:
        """The number, as often as there are rows."""
        return pa.repeat(pa.scalar(self.number).cast(self.kind), batch.num_rows)


@dataclass(frozen=True)
class Index(Part):
    """Names as indices into the sorted names."""

    names: pa.Array

    def make(self, batch: pa.RecordBatch) -> pa.Array:
        """Null where there is no name."""
        name = read_as(batch.column(self.reads[0]), pa.string())
        return pc.index_in(name, value_set=self.names, skip_nulls=True).cast(pa.int64())


@dataclass(frozen=True)
class Length(Part):
    """How many entries a list has."""

    def make(self, batch: pa.RecordBatch) -> pa.Array:
        """Null where there is no list."""
        return pc.list_value_length(batch.column(self.reads[0])).cast(pa.int64())


def matrix(array: Any) -> pa.Array:
    """`lists` of so few numbers that one array holds them."""
    return lists(array).combine_chunks()


def unreadable(part: Part, batch: pa.RecordBatch, start: int = 0) -> Iterator[int]:
    """The rows that `part` cannot be made of, by halving what fails."""
    try:
        part.make(batch)
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
        """The same when the arms' names are known, sorted."""
        assert self.named is not None
        found: dict[str, Part] = {"arm": Index((self.named,), names)}
        if not self.counted:
            found["arm_count"] = Constant((), len(names), pa.int64())
        return dataclasses.replace(self, parts={**self.parts, **found}, named=None)


def plan(
    columns: Columns, schema: pa.Schema, whose: str, gaps: Container[str] = (), infer: bool = False
) -> Plan:
    """How the log's columns are made of those in `schema`, which is that of `whose`.

    `gaps`: columns with nulls, which tell no number of arms. `infer`: whether columns that are none of the
    log's own are text, to be read as the types of `schema`.
    """
    _check(columns, schema.names, whose)
    parts: dict[str, Part] = {}
    named: str | None = None
    have = [name for name in OF_CATALOGUE if name in schema.names and name not in columns]
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
            kind = pa.string() if pa.types.is_null(kind) else kind
            parts[name] = Extra((name,), name, kind) if infer else Same((name,))
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
    """A mapping of columns as it is written on a command line.

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
