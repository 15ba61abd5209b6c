"""The columns of one side, context or items, laid out once so that a row is encoded in microseconds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from linmed.features.column import Column
from linmed.features.columns import Category, Number, Vector
from linmed.features.products import Span
from linmed.features.tables import row, table
from linmed.features.values import key
from linmed.validation import LARGEST, BadValue, Floats


class Side:
    """What a row becomes: the numbers of each column, one column after the other."""

    def __init__(self, columns: Sequence[Column], where: str) -> None:
        self.columns, self.where = tuple(columns), where
        self.fields = frozenset(field for column in columns for field in column.fields)
        self.labels = tuple(label for column in columns for label in column.labels)
        self.width = len(self.labels)
        self._spans: dict[str, Span] = {}
        self._numbers: list[tuple[str, int, float, float, Number]] = []
        self._listed: list[tuple[str, dict[str, int]]] = []
        self._categories: list[tuple[str, int, Category]] = []
        self._rest: list[tuple[Column, int, int]] = []
        end = 0
        for column in columns:
            at, end = end, end + column.width
            self._spans[column.name] = at, end
            self._lay_out(column, at, end)
        self._zeros = [*[0.0] * self.width, 1.0]
        self._sizes = matrix_sizes(columns)

    def _lay_out(self, column: Column, at: int, end: int) -> None:
        if type(column) is Number:
            if column.line is not None:
                self._numbers.append((column.name, at, *column.line, column))
        elif type(column) is Category and column.values is not None and not column.other:
            self._listed.append((column.name, {value: at + i for value, i in column.table.items()}))
        elif type(column) is Category:
            self._categories.append((column.name, at, column))
        else:
            self._rest.append((column, at, end))

    def span(self, name: str) -> Span | None:
        """Where the numbers of a column stand; None if there is no such column."""
        return self._spans.get(name)

    def encode(self, given: Any) -> Floats:
        """One row as numbers (width,)."""
        return self.extended(given)[:-1]

    def extended(self, given: Any) -> Floats:
        """The same, and a 1 after them (width + 1,)."""
        fields: Mapping[str, Any] = given if type(given) is dict else row(self.where, given, self._sizes)
        if self.fields.isdisjoint(fields) and fields and self.fields:
            raise self._strange(fields)
        out, get = self._zeros.copy(), fields.get
        for name, at, centre, width, column in self._numbers:
            value = get(name)
            if type(value) is float or (type(value) is int and -LARGEST <= value <= LARGEST):
                scaled = (value - centre) / width
                # NaN is neither, and 0; too large a number is told so.
                out[at] = scaled if -LARGEST <= scaled <= LARGEST else column.scaled(value, self.where)
            elif value is not None:
                out[at] = column.scaled(value, self.where)
        for name, places in self._listed:
            value = get(name)
            if value is not None:
                word = value if type(value) is str else key(f"{self.where}[{name!r}]", value)
                place = places.get(word, -1)  # type: ignore[arg-type]  # None, if missing, is not there
                if place >= 0:
                    out[place] = 1.0
        for name, at, category in self._categories:
            place = category.place(key(f"{self.where}[{name!r}]", get(name)))
            if place >= 0:
                out[at + place] = 1.0
        for other, at, end in self._rest:
            out[at:end] = other.encode_row(get, self.where)
        return np.array(out, dtype=np.float64)

    def encode_all(self, given: Any) -> Floats:
        """A table as numbers (n, width): the bits of `encode`, row by row."""
        found = table(self.where, given, self._sizes)
        if found.of_dictionaries and found.names and self.fields.isdisjoint(found.names) and self.fields:
            raise self._strange(found.names)
        result = np.empty((found.rows, self.width))
        for column in self.columns:
            at, end = self._spans[column.name]
            result[:, at:end] = column.encode_table(found, self.where, found.rows)
        return result

    def _strange(self, fields: Iterable[str]) -> BadValue:
        wanted, have = ", ".join(sorted(map(repr, self.fields))), ", ".join(map(repr, fields))
        return BadValue(self.where, f"{self.where} has none of the fields {wanted}; it has {have}")


def matrix_sizes(columns: Sequence[Column]) -> dict[str, int] | None:
    """How many columns of a matrix each of these takes; None where a matrix does not hold what they need."""
    if not all(type(column) in (Number, Vector) for column in columns):
        return None
    return {column.name: column.width for column in columns}
