"""Declare columns: numbers, categories, vectors and random Fourier features of one row's values."""

import dataclasses
import math
import random
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, Literal, Self

import numpy as np

from linmed import validation
from linmed.features.rows import key, number, vector
from linmed.registry import described
from linmed.validation import LARGEST, BadType, BadValue, Floats

Fetch = Callable[[str], Any]
"""From the name of a field to its value in one row (None where it has none), or to its values in a table."""

MOST_NUMBERS = 100_000
"""Of a column, and of an arm: V would take 80 GB for as many."""


@dataclass(frozen=True)
class Column(ABC):
    """One entry of `Features(context=…, item=…)`. Immutable; `fit` gives another one.

    A class of your own is a frozen dataclass with these methods; being defined is enough to be known to JSON.

    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from linmed.features import Column, Features
    >>> @dataclass(frozen=True)
    ... class Length(Column):  # of a text
    ...     labels = ("letters",)
    ...
    ...     def encode_row(self, fetch, where):
    ...         return [float(len(fetch(self.name) or ""))]
    ...
    ...     def encode_table(self, fetch, where, rows):
    ...         return np.array([[float(len(text or ""))] for text in fetch(self.name)])
    >>> Features(item=[Length("title")]).encode_items([{"title": "Emma"}, {"title": None}]).tolist()
    [[4.0], [0.0]]

    >>> column = Length("title")
    >>> column.fields, column.labels, column.width, column.unknown, column.unsettled
    (('title',), ('letters',), 1, None, {})
    >>> Column.from_dict(column.to_dict()) == column.fit(None, "items").settle({})
    True
    """

    name: str

    def __post_init__(self) -> None:
        if not validation.text("name", self.name):
            raise validation.BadValue("name", "name must not be empty: it is the field of a row that is read")

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a row that this reads."""
        return (self.name,)

    @property
    def unknown(self) -> str | None:
        """What must still be learned before a row can be encoded, in words; None if nothing."""
        return None

    @property
    def unsettled(self) -> Mapping[str, int]:
        """Fields whose numbers an agent must see before this can be encoded, and how many of them."""
        return {}

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """A name for each number that this makes."""

    @property
    def width(self) -> int:
        """How many numbers this makes."""
        return len(self.labels)

    def fit(self, fetch: Fetch, where: str) -> Self:
        """Learn from a table what the column lacks."""
        return self

    def settle(self, seen: Mapping[str, Sequence[float]]) -> Self:
        """Learn what the column lacks from the numbers that an agent saw, if there are enough."""
        return self

    @abstractmethod
    def encode_row(self, fetch: Fetch, where: str) -> Sequence[float]:
        """Encode one row as `width` numbers."""

    @abstractmethod
    def encode_table(self, fetch: Fetch, where: str, rows: int) -> Floats:
        """Encode a table (rows, width), with the same bits as row by row."""

    def to_dict(self) -> dict[str, Any]:
        """Give the column as JSON-ready values."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}
        return {"column": type(self).__name__, **{name: _json(value) for name, value in own.items()}}

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> "Column":
        """Make the column that `to_dict` described."""
        if not isinstance(config, Mapping):
            raise validation.BadType(
                "column", f"column must be a dictionary from Column.to_dict, got {config!r}"
            )
        kind, parameters = described(Column, "column", config)
        made: Column = kind(**parameters)
        return made


def _json(value: Any) -> Any:
    if isinstance(value, Column):
        return value.to_dict()
    return [_json(each) for each in value] if isinstance(value, tuple) else value


MOST_VALUES = 10_000
"""More categories than these are refused by `fit`: use `hashed`."""


@dataclass(frozen=True)
class Number(Column):
    """A number: (value − centre) / width. Booleans are 0 and 1. A missing value is 0: the centre.

    `scale` is (centre, width), None for the number as it is, or "learned": mean and standard deviation, by
    `fit` from a table, or by an agent from the first `settle_after` values of its contexts. Until an agent
    has seen these the column is 0, as if missing, and afterwards its scale never changes: V adds up what
    features meant when they were made, so they must not mean one thing today and another tomorrow.

    >>> from linmed.features import Features, Number
    >>> columns = [Number("price", scale=(10, 5)), Number("stock", scale=None)]
    >>> Features(item=columns).encode_items([{"price": 20, "stock": 7}, {"stock": True}]).tolist()
    [[2.0, 7.0], [0.0, 1.0]]

    >>> columns[0].scaled(20, "item")
    2.0
    """

    scale: Literal["learned"] | tuple[float, float] | None = "learned"
    settle_after: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.whole("settle_after", self.settle_after, at_least=2)
        if self.scale is None or (isinstance(self.scale, str) and self.scale == "learned"):
            return
        try:
            centre, width = self.scale
        except (TypeError, ValueError):
            text = f"scale must be 'learned', None or (centre, width), got {self.scale!r}"
            raise BadType("scale", text) from None
        object.__setattr__(
            self, "scale", (validation.real("scale", centre), validation.positive("scale", width))
        )

    @property
    def unknown(self) -> str | None:
        """The scale, until it is learned."""
        return f"the scale of {self.name!r}" if self.scale == "learned" else None

    @property
    def unsettled(self) -> Mapping[str, int]:
        """The values that an agent must see."""
        return {self.name: self.settle_after} if self.scale == "learned" else {}

    @property
    def labels(self) -> tuple[str, ...]:
        """The column's own name."""
        return (self.name,)

    @cached_property
    def line(self) -> tuple[float, float] | None:
        """Centre and width; None until they are known."""
        if self.scale is None:
            return 0.0, 1.0
        return None if isinstance(self.scale, str) else self.scale

    def fit(self, fetch: Fetch, where: str) -> Self:
        """Learn mean and standard deviation of a table's values, unless the scale is known."""
        if self.scale != "learned":
            return self
        values = numbers(f"{where}[{self.name!r}]", fetch(self.name))
        return self._with_scale_of(values[~np.isnan(values)].tolist(), where)

    def settle(self, seen: Mapping[str, Sequence[float]]) -> Self:
        """Learn them from the first values that an agent has seen."""
        values = seen.get(self.name, ())
        if self.scale != "learned" or len(values) < self.settle_after:
            return self
        return self._with_scale_of(values[: self.settle_after], "context")

    def _with_scale_of(self, values: Sequence[float], where: str) -> Self:
        if not values:
            raise BadValue(where, f"{where}[{self.name!r}] has no value to learn a scale from; give scale=")
        # Sums without rounding: the same in any order of the rows and on every processor.
        mean = math.fsum(values) / len(values)
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
        # What does not vary has no width of its own; by rounding alone it may seem to vary a little.
        return replace(self, scale=(mean, spread if spread > 1e-12 * abs(mean) and spread > 1e-99 else 1.0))

    def encode_row(self, fetch: Fetch, where: str) -> Sequence[float]:
        """Encode one number."""
        return (self.scaled(fetch(self.name), where),)

    def scaled(self, value: Any, where: str) -> float:
        """Scale one value."""
        name = f"{where}[{self.name!r}]"
        found = number(name, value)
        if found != found or self.line is None:
            return 0.0
        centre, width = self.line
        result = (found - centre) / width
        if not -LARGEST <= result <= LARGEST:
            raise BadValue(name, f"{name} is {value!r}, too far from the column's scale {self.scale}")
        return result

    def encode_table(self, fetch: Fetch, where: str, rows: int) -> Floats:
        """Their numbers."""
        name = f"{where}[{self.name!r}]"
        values = numbers(name, fetch(self.name))
        if self.line is None:
            return np.zeros((rows, 1))
        centre, width = self.line
        result: Floats = (values - centre) / width
        result[np.isnan(values)] = 0.0
        if not (np.abs(result) <= LARGEST).all():
            raise BadValue(name, f"{name} has values too far from the column's scale {self.scale}")
        return result[:, None]


@dataclass(frozen=True)
class Category(Column):
    """One number for each category, of which one is 1 and the others 0.

    `values` names them; None has `fit` learn them from a table. 1, 1.0 and "1" are one category. What is not
    among them, and what is missing, is all zeros: neither better nor worse than the rest of the features
    say. `other=True` adds one number for all that is not among them (not for what is missing).

    `hashed=n` needs no list: a category's number is its CRC-32 modulo n, on every machine and in every
    release, and two categories may share one.

    >>> from linmed.features import Category, Features
    >>> colour = Category("colour", ["red", "blue"], other=True)
    >>> items = [{"colour": "blue"}, {"colour": "mauve"}, {"colour": None}]
    >>> Features(item=[colour]).encode_items(items).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]

    >>> colour.place("mauve"), Category("colour", hashed=16).place("mauve") < 16
    (2, True)
    """

    values: Sequence[str | float] | None = None
    hashed: int | None = None
    other: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.flag("other", self.other)
        if self.hashed is not None:
            validation.whole("hashed", self.hashed, at_most=MOST_NUMBERS)
            if self.values is not None or self.other:
                raise BadValue("hashed", "hashed must be None where values or other are given: it needs none")
        if self.values is None:
            return
        if isinstance(self.values, str) or not hasattr(self.values, "__iter__"):
            raise BadType("values", f"values must be a list of categories, got {self.values!r}")
        names = [key("values", value) for value in self.values]
        if not names or None in names:
            raise BadValue("values", f"values must be categories, none of them missing, got {self.values!r}")
        if len(set(names)) < len(names):
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            raise BadValue("values", f"values has {twice!r} twice; 1, 1.0 and '1' are one category")
        object.__setattr__(self, "values", tuple(names))

    @property
    def unknown(self) -> str | None:
        """The categories, until they are learned."""
        wanting = self.values is None and self.hashed is None
        return f"the categories of {self.name!r}" if wanting else None

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The column's name with each category."""
        if self.hashed is not None:
            return tuple(f"{self.name}#{i}" for i in range(self.hashed))
        if self.values is None:
            raise BadValue("features", f"{self.unknown} are not known: give values= or hashed=, or fit first")
        return *(f"{self.name}={value}" for value in self.values), *([f"{self.name}=…"] if self.other else [])

    @cached_property
    def table(self) -> dict[str, int]:
        """Where each category stands."""
        return {str(value): i for i, value in enumerate(self.values or ())}

    def fit(self, fetch: Fetch, where: str) -> Self:
        """Learn the categories of a table, in alphabetical order, unless they are known."""
        if self.unknown is None:
            return self
        name = f"{where}[{self.name!r}]"
        found = {value for value in _keys(name, fetch(self.name)) if value is not None}
        if not found:
            raise BadValue(where, f"{name} has no value to learn categories from; give values= or hashed=")
        if len(found) > MOST_VALUES:
            text = f"{name} has {len(found)} categories, more than {MOST_VALUES}: use hashed="
            raise BadValue(where, text)
        return replace(self, values=tuple(sorted(found)))

    def place(self, name: str | None) -> int:
        """Look up the place of a category's 1; −1 for none."""
        if name is None:
            return -1
        if self.hashed is not None:
            return zlib.crc32(name.encode("utf-8", "surrogatepass")) % self.hashed
        return self.table.get(name, len(self.table) if self.other else -1)

    def encode_row(self, fetch: Fetch, where: str) -> Sequence[float]:
        """Zeros and at most one 1."""
        row = [0.0] * self.width
        place = self.place(key(f"{where}[{self.name!r}]", fetch(self.name)))
        if place >= 0:
            row[place] = 1.0
        return row

    def encode_table(self, fetch: Fetch, where: str, rows: int) -> Floats:
        """Zeros and at most one 1 in every row."""
        names = _keys(f"{where}[{self.name!r}]", fetch(self.name))
        known = {name: self.place(name) for name in set(names)}
        places = np.fromiter((known[name] for name in names), dtype=np.int64, count=rows)
        result = np.zeros((rows, self.width))
        there = np.flatnonzero(places >= 0)
        result[there, places[there]] = 1.0
        return result


@dataclass(frozen=True)
class Vector(Column):
    """`size` numbers as they come: an embedding. A missing one is all zeros, a missing entry an error.

    >>> from linmed.features import Features, Vector
    >>> Features(item=[Vector("embedding", 2)]).encode_items([{"embedding": [0.1, 0.9]}, {}]).tolist()
    [[0.1, 0.9], [0.0, 0.0]]
    """

    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.whole("size", self.size, at_most=MOST_NUMBERS)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The column's name with each place."""
        return tuple(f"{self.name}[{i}]" for i in range(self.size))

    def encode_row(self, fetch: Fetch, where: str) -> Sequence[float]:
        """Encode one vector."""
        found = vector(f"{where}[{self.name!r}]", fetch(self.name), self.size)
        return [0.0] * self.size if found is None else found.tolist()

    def encode_table(self, fetch: Fetch, where: str, rows: int) -> Floats:
        """Encode the vectors of every row."""
        name, values = f"{where}[{self.name!r}]", fetch(self.name)
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
            if values.shape != (rows, self.size):
                raise BadValue(name, f"{name} must have shape ({rows}, {self.size}), got {values.shape}")
            return validation.floats(name, values)
        result = np.zeros((rows, self.size))
        for i, value in enumerate(values):
            found = vector(f"{name}[{i}]", value, self.size)
            if found is not None:
                result[i] = found
        return result


def numbers(name: str, values: Any) -> Floats:
    """A table's values as floats, NaN where they are missing."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and values.ndim == 1:
        found: Floats = values.astype(np.float64)
        bad = ~(np.abs(found) <= LARGEST) & ~np.isnan(found)
        if bad.any():
            number(f"{name}[{int(np.argmax(bad))}]", found[np.argmax(bad)])
        return found
    return np.array([number(f"{name}[{i}]", value) for i, value in enumerate(values)], dtype=np.float64)


def _keys(name: str, values: Any) -> list[str | None]:
    """Read the names of a table's categories, None where they are missing."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [value if type(value) is str else key(f"{name}[{i}]", value) for i, value in enumerate(listed)]


# cos 2πu = Σ_k (−1)ᵏ (2πu)²ᵏ / (2k)!, of which |u| ≤ ¼ needs eleven terms for the last bit.
_TERMS = [(-1) ** k * (2 * math.pi) ** (2 * k) / math.factorial(2 * k) for k in range(11)]


def cosine(turns: Floats) -> Floats:
    """cos 2πu within 1e-15 by products and sums: a library's cosine has other bits on other processors."""
    part = np.abs(turns - np.rint(turns))  # a half turn at most
    far = part > 0.25
    square = np.where(far, 0.5 - part, part) ** 2
    total = np.full_like(square, _TERMS[-1])
    for term in reversed(_TERMS[:-1]):
        total = total * square + term
    result: Floats = np.where(far, -total, total)
    return result


@dataclass(frozen=True)
class Fourier(Column):
    """√(2/count) cos(ω·v + φ) for `count` random ω and φ: their products approximate exp(−‖v − w‖² / 2ℓ²).

    `name` is a field, read as `Number(name)`; `of` lists other columns (Number or Vector) or fields instead,
    so that a surface bends over several of them together. `length_scale` ℓ is the distance over which the
    effect changes, in units of the scaled numbers (one standard deviation, where the scale is learned). The
    same `seed` gives the same numbers on every machine and in every release.

    Rahimi and Recht (2007), Random features for large-scale kernel machines.

    >>> from linmed.features import Features, Fourier
    >>> hours = Features(context=[Fourier("hour", 200, length_scale=0.5)])
    >>> bent = hours.fit(contexts={"hour": range(24)})
    >>> noon, one, night = bent.encode_contexts({"hour": [12, 13, 23]})
    >>> bool(noon @ one > noon @ night)
    True

    >>> Fourier("hour", 200).parts
    (Number(name='hour', scale='learned', settle_after=100),)
    """

    count: int
    length_scale: float = 1.0
    seed: int = 0
    of: tuple[Column, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.whole("count", self.count, at_most=MOST_NUMBERS)
        validation.whole("seed", self.seed, at_least=0)
        object.__setattr__(self, "length_scale", validation.positive("length_scale", self.length_scale))
        given: Any = (Number(self.name),) if self.of is None else self.of
        if isinstance(given, (str, Column, Mapping)) or not hasattr(given, "__iter__"):
            given = (given,)
        parts = tuple(_part(each) for each in given)
        if not parts:
            raise BadValue("of", "of is empty: Fourier features need at least one number")
        object.__setattr__(self, "of", parts)

    @property
    def parts(self) -> tuple[Column, ...]:
        """What it bends over."""
        assert self.of is not None
        return self.of

    @property
    def fields(self) -> tuple[str, ...]:
        """Those of its parts."""
        return tuple(field for part in self.parts for field in part.fields)

    @property
    def unknown(self) -> str | None:
        """What its parts lack."""
        return next((part.unknown for part in self.parts if part.unknown), None)

    @property
    def unsettled(self) -> Mapping[str, int]:
        """What its parts wait for."""
        waiting: dict[str, int] = {}
        for part in self.parts:
            for field, count in part.unsettled.items():
                waiting[field] = max(count, waiting.get(field, 0))
        return waiting

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The column's name with each wave."""
        return tuple(f"{self.name}~{i}" for i in range(self.count))

    def fit(self, fetch: Fetch, where: str) -> Self:
        """Fit the parts."""
        return replace(self, of=tuple(part.fit(fetch, where) for part in self.parts))

    def settle(self, seen: Mapping[str, Sequence[float]]) -> Self:
        """Settle the parts, if all can be."""
        parts = tuple(part.settle(seen) for part in self.parts)
        return self if any(part.unknown for part in parts) else replace(self, of=parts)

    @cached_property
    def _waves(self) -> tuple[Floats, Floats]:
        """Frequencies (inputs, count) and phases (count,), in turns."""
        inputs, draw, normal = sum(part.width for part in self.parts), random.Random(self.seed), NormalDist()
        # `random()` is promised to stay as it is; nine digits leave out what logarithms differ in.
        omega = [round(normal.inv_cdf(max(draw.random(), 1e-18)), 9) for _ in range(inputs * self.count)]
        frequencies = np.array(omega).reshape(inputs, self.count) / (2 * math.pi * self.length_scale)
        return frequencies, np.array([draw.random() for _ in range(self.count)])

    def encode_row(self, fetch: Fetch, where: str) -> Sequence[float]:
        """Compute the waves at one point; 0 while the scale of the parts is not known."""
        if self.unknown is not None:
            return [0.0] * self.count
        point = [value for part in self.parts for value in part.encode_row(fetch, where)]
        waves: list[float] = self._at(np.array([point]))[0].tolist()
        return waves

    def encode_table(self, fetch: Fetch, where: str, rows: int) -> Floats:
        """Compute the waves at each row's point."""
        if self.unknown is not None:
            return np.zeros((rows, self.count))
        return self._at(np.hstack([part.encode_table(fetch, where, rows) for part in self.parts]))

    def _at(self, points: Floats) -> Floats:
        frequencies, phases = self._waves
        turns = np.broadcast_to(phases, (len(points), self.count)).copy()
        for place, frequency in zip(points.T, frequencies, strict=True):  # one after the other: no BLAS
            turns += place[:, None] * frequency
        return math.sqrt(2 / self.count) * cosine(turns)


def _part(given: Any) -> Column:
    if isinstance(given, str):
        return Number(given)
    made = Column.from_dict(given) if isinstance(given, Mapping) else given
    if not isinstance(made, (Number, Vector)):
        raise BadType("of", f"of must list fields, Number and Vector columns, got {given!r}")
    return made
