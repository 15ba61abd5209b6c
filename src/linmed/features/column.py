"""What every column is: a few numbers made of one row's values, declared once and kept as JSON."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from linmed import validation
from linmed.registry import described
from linmed.validation import Floats

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
        """This column with what it lacks learned from a table."""
        return self

    def settle(self, seen: Mapping[str, Sequence[float]]) -> Self:
        """This column with what it lacks learned from the numbers that an agent saw, if enough."""
        return self

    @abstractmethod
    def encode_row(self, fetch: Fetch, where: str) -> Sequence[float]:
        """Of one row: `width` numbers."""

    @abstractmethod
    def encode_table(self, fetch: Fetch, where: str, rows: int) -> Floats:
        """Of a table: (rows, width). The same bits as row by row."""

    def to_dict(self) -> dict[str, Any]:
        """JSON."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}
        return {"column": type(self).__name__, **{name: _json(value) for name, value in own.items()}}

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> "Column":
        """The column that `to_dict` described."""
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
