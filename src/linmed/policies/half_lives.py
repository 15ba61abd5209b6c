"""Half-lives as people give them: numbers of rewards, or durations on a clock."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from linmed import validation

HalfLife = float | str
"""A number of rewards, ∞ among them, or a duration such as "7d"."""


def memory(half_life: HalfLife) -> tuple[float, float]:
    """γ for every reward, and the half-life in seconds; 0 where it is none."""
    if isinstance(half_life, str):
        return 1.0, validation.seconds("half_lives", half_life)
    return 2.0 ** (-1.0 / half_life), 0.0


def half_lives(given: Any) -> tuple[HalfLife, ...]:
    """Check half-lives and sort them, the longest first."""
    if isinstance(given, (str, int, float)):
        given = (given,)
    if (not isinstance(given, Sequence) and not isinstance(given, np.ndarray)) or len(given) == 0:
        raise validation.BadType("half_lives", f"half_lives must be a list such as [1000, 50], got {given!r}")
    kept = [_half_life(one) for one in given]
    finite = {type(one) for one in kept if one != math.inf}
    if len(finite) > 1:
        raise validation.BadValue(
            "half_lives",
            "half_lives must all be numbers of rewards or all be durations (beside math.inf), got "
            + ", ".join(map(repr, given)),
        )
    sizes = [memory(one)[1] or one for one in kept]
    if len(set(sizes)) < len(sizes):
        raise validation.BadValue("half_lives", f"half_lives must differ, got {', '.join(map(repr, given))}")
    return tuple(one for _, one in sorted(zip(sizes, kept, strict=True), key=lambda pair: -float(pair[0])))


def _half_life(value: Any) -> HalfLife:
    if (isinstance(value, str) and value.strip() == "inf") or value == math.inf:
        return math.inf
    if isinstance(value, str):
        validation.seconds("half_lives", value)
        return value.strip()
    number = validation.positive("half_lives", value)
    if number < 1.0:
        raise validation.BadValue("half_lives", f"half_lives must be at least one reward, got {value!r}")
    return number


def written(half_life: HalfLife) -> str:
    """For people: "∞", "200" or "7d"."""
    return half_life if isinstance(half_life, str) else "∞" if half_life == math.inf else f"{half_life:g}"
