"""Columns for a table that nobody described."""

import warnings
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from linmed.features.column import Column
from linmed.features.columns import Category, Number, Vector
from linmed.features.tables import Table
from linmed.features.values import plain
from linmed.validation import BadValue

MOST_TEXTS = 50
"""More different texts than these are no category that anybody would have meant."""
NAMES = 20, 0.8
"""From so many rows on, a text that is another one in more than this share of them is a name."""


def guessed(table: Table, without: str) -> tuple[Column, ...]:
    """Numbers as `Number`, booleans as 0 and 1, text as `Category`, lists as `Vector`; all but one field.

    Text that is no category is left out, with a warning.
    """
    found = (_column(table, name) for name in table.names if name != without)
    return tuple(column for column in found if column is not None)


def _column(table: Table, name: str) -> Column | None:
    values = table(name)
    if isinstance(values, np.ndarray):
        if values.ndim == 2:
            return Vector(name, values.shape[1])
        return Number(name, scale=None) if values.dtype.kind == "b" else Number(name)
    found = [value for value in map(_value, values) if value is not None]
    if found and all(isinstance(value, bool) for value in found):
        return Number(name, scale=None)
    if found and all(isinstance(value, (int, float, Decimal)) for value in found):
        return Number(name)
    if found and all(isinstance(value, str) for value in found):
        different, rows = len(set(found)), len(found)
        if different > MOST_TEXTS or (rows >= NAMES[0] and different > NAMES[1] * rows):
            warnings.warn(
                f"{table.where}[{name!r}] is left out: {different} different texts in {rows} rows are no "
                f"category; if they say something of the item, Category({name!r}, hashed=16) in features= or "
                "a Vector of their embeddings has it",
                stacklevel=6,
            )
            return None
        return Category(name)
    sizes = {len(value) for value in found if isinstance(value, (Sequence, np.ndarray))}
    if len(sizes) == 1 and not any(isinstance(value, (str, bytes, int, float)) for value in found):
        return Vector(name, sizes.pop())
    raise _undecided(
        table, name, "is neither numbers nor text nor vectors of one size" if found else "is empty"
    )


def _value(value: Any) -> Any:
    return value if isinstance(value, (str, Sequence, np.ndarray)) else plain(value)


def _undecided(table: Table, name: str, why: str) -> BadValue:
    text = (
        f"{table.where}[{name!r}] {why}; say what it is: features=Features(item=[Category({name!r}, …), …])"
    )
    return BadValue("features", text)
