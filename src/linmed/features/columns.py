"""Numbers, categories and vectors as columns."""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from linmed import validation
from linmed.features.column import MOST_NUMBERS, Column, Fetch
from linmed.features.values import key, number, vector
from linmed.validation import LARGEST, BadType, BadValue, Floats

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
        """With mean and standard deviation of a table's values, unless its scale is known."""
        if self.scale != "learned":
            return self
        values = numbers(f"{where}[{self.name!r}]", fetch(self.name))
        return self._with_scale_of(values[~np.isnan(values)].tolist(), where)

    def settle(self, seen: Mapping[str, Sequence[float]]) -> Self:
        """With those of the first values that an agent has seen."""
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
        """One number."""
        return (self.scaled(fetch(self.name), where),)

    def scaled(self, value: Any, where: str) -> float:
        """One value, scaled."""
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
        """With the categories of a table, in alphabetical order, unless they are known."""
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
        """Where the 1 of a category stands; −1 for nowhere."""
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
        """The numbers."""
        found = vector(f"{where}[{self.name!r}]", fetch(self.name), self.size)
        return [0.0] * self.size if found is None else found.tolist()

    def encode_table(self, fetch: Fetch, where: str, rows: int) -> Floats:
        """The numbers of every row."""
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
    """The names of a table's categories, None where they are missing."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [value if type(value) is str else key(f"{name}[{i}]", value) for i, value in enumerate(listed)]
