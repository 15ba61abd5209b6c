"""What a writer accepts in a row: anything that could not be written, or not be read again, is refused here.

An agent's own rows pass by their exact types, in a few microseconds; others go through `linmed.validation`.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from linmed import validation
from linmed.decision import probabilities_of, probability_of
from linmed.log.schema import ENTRY_ERROR, SUM_ERROR
from linmed.validation import Floats


def text(name: str, value: object) -> str:
    """`value` as text that the file can hold."""
    written = value if type(value) is str else str(value)
    if not written.isascii():
        try:
            written.encode()
        except UnicodeEncodeError as error:
            raise validation.BadValue(
                name, f"{name} must be Unicode text, got {written!r} ({error})"
            ) from None
    return written


def int64(name: str, value: int, at_least: int) -> int:
    """`value` as a whole number of 64 bits."""
    number = value if type(value) is int else validation.whole(name, value, at_least)
    if not at_least <= number < 2**63:
        raise validation.BadValue(name, f"{name} must lie in {at_least}..{2**63 - 1}, got {value!r}")
    return number


def chance(
    log_probability: float | None, log_probabilities: ArrayLike | None, fallback: bool
) -> tuple[float, float] | tuple[None, None]:
    """The logarithm of a decision's probability and itself: what was given, or nothing of a fallback."""
    if fallback:
        for name, value in (("log_probability", log_probability), ("log_probabilities", log_probabilities)):
            if value is not None:
                raise validation.BadValue(
                    name,
                    f"{name} must be None where fallback is True: a fallback's probability is not known "
                    "without a pass over all items (where it is known, the row is none of a fallback)",
                )
        return None, None
    if log_probability is None:
        raise validation.BadType(
            "log_probability", "log_probability must be given: only where fallback is True it may be None"
        )
    number = (
        log_probability
        if type(log_probability) is float
        else validation.real("log_probability", log_probability)
    )
    if not -math.inf < number <= 1e-9:
        raise validation.BadValue(
            "log_probability", f"log_probability must be finite and at most 0, got {number!r}"
        )
    number = min(number, 0.0)
    return number, probability_of(number)


def _own(name: str, value: ArrayLike, axes: int) -> Floats:
    """The writer's own copy of an array with so many axes."""
    plain = type(value) is np.ndarray and value.dtype == np.float64
    array: Floats = np.array(value if plain else validation.real_array(name, value), np.float64)
    if array.ndim != axes:
        raise validation.BadValue(name, f"{name} must have {axes} axes, got shape {array.shape}")
    return array


def finite(name: str, value: ArrayLike, axes: int) -> Floats:
    """The same of finite numbers: where the squares sum to little, each is small, and none is NaN."""
    array = _own(name, value, axes)
    return array if np.vdot(array, array) <= validation.LARGEST else validation.floats(name, array)


def law(log_probabilities: ArrayLike, arm_count: int, arm: int, probability: float) -> Floats:
    """Every arm's probability, as a reader of the log will want them."""
    name = "log_probabilities"
    every = _own(name, log_probabilities, 1)
    every = probabilities_of(np.minimum(every, 300.0))  # no overflow
    if every.size != arm_count:
        raise validation.BadValue(
            name, f"{name} must have one entry for each of the {arm_count} arms, got {every.size}"
        )
    total = float(np.add.reduce(every))
    if not abs(total - 1.0) <= SUM_ERROR:
        raise validation.BadValue(
            name, f"{name} must be those of probabilities that sum to 1, not to {total:g}"
        )
    if not abs(every[arm] - probability) <= max(ENTRY_ERROR, SUM_ERROR * probability):
        raise validation.BadValue(
            "log_probability",
            f"log_probability must be the entry of log_probabilities for arm {arm}: their probabilities are "
            f"{probability:g} and {every[arm]:g}",
        )
    return every
