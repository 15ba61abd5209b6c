"""Covering arrays: few rows in which every two values that can occur together do so."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import TypeVar

Row = TypeVar("Row")


def cover(
    rows: Iterable[Row], factors: Callable[[Row], Mapping[str, Hashable]], strength: int = 2
) -> list[Row]:
    """Choose rows that contain every pair of values of two factors that occurs in any row.

    `factors` names the values of a row, `strength` how many of them are to meet. Greedy: the row with most
    missing pairs comes next, the earlier one of two that are equally good; so the choice is always the same.

    >>> cover([("x", 1), ("y", 1), ("x", 1)], lambda row: {"letter": row[0], "number": row[1]})
    [('x', 1), ('y', 1)]
    """
    rows = list(rows)
    values = [sorted(factors(row).items(), key=lambda item: item[0]) for row in rows]
    pairs = [set(combinations(one, strength)) for one in values]
    missing = set().union(*pairs)
    left, chosen = list(range(len(rows))), []
    while missing:
        gains = [len(pairs[i] & missing) for i in left]
        best = left[gains.index(max(gains))]
        chosen.append(best)
        missing -= pairs[best]
        left = [i for i, gain in zip(left, gains, strict=True) if gain > 0 and i != best]
    return [rows[i] for i in sorted(chosen)]


def covering(
    factors: Mapping[str, Sequence[Hashable]],
    allowed: Callable[[dict[str, Hashable]], bool] = lambda row: True,
) -> list[dict[str, Hashable]]:
    """Choose rows of one value per factor that contain every pair of values an allowed row can have.

    >>> len(covering({"a": range(3), "b": range(3), "c": range(3)}))
    10
    """
    every = (dict(zip(factors, values, strict=True)) for values in product(*factors.values()))
    return cover(filter(allowed, every), lambda row: row)
