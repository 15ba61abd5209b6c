"""Checks of user input. Every message names the argument, what it was and what would be right."""

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGEST = 1e100
"""Largest magnitude accepted for a feature or a reward: its square is still far from overflow."""


def real(name: str, value: Any) -> float:
    """`value` as a finite float."""
    if type(value) is float and math.isfinite(value):  # the common case, without asking abstract classes
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return number


def size_limited(name: str, value: Any) -> float:
    """`value` as a finite float of at most LARGEST in size; a 0-d array will do."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    number = real(name, value)
    if abs(number) > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST:g} in size, got {value!r}")
    return number


def positive(name: str, value: Any) -> float:
    """`value` as a float > 0 whose square neither overflows nor vanishes."""
    number = real(name, value)
    if not 1 / LARGEST <= number <= LARGEST:
        raise ValueError(f"{name} must be positive (between {1 / LARGEST:g} and {LARGEST:g}), got {value!r}")
    return number


def between(name: str, value: Any, low: float, high: float) -> float:
    """`value` as a float in [low, high]."""
    number = real(name, value)
    if not low <= number <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}], got {value!r}")
    return number


def failure_rate(name: str, value: Any) -> float:
    """`value` as a float in (0, 1]."""
    number = real(name, value)
    if not 0.0 < number <= 1.0:
        raise ValueError(f"{name} must lie in (0, 1], got {value!r}")
    return number


def whole(name: str, value: Any, at_least: int = 1) -> int:
    """`value` as an int ≥ `at_least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value!r}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """`value` as a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def option(name: str, value: Any, allowed: Sequence[Any]) -> Any:
    """`value` if it is one of `allowed`."""
    for candidate in allowed:
        if type(value) is type(candidate) and value == candidate:
            return candidate
    raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def floats(name: str, value: ArrayLike) -> Floats:
    """`value` as a C-contiguous float64 array of finite numbers of reasonable size."""
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        array = value
    else:
        try:
            raw = np.asarray(value)
        except ValueError as error:
            raise ValueError(
                f"{name} must be rectangular: every row needs the same length ({error})"
            ) from None
        if raw.dtype.kind not in "biuf":
            raise TypeError(f"{name} must hold real numbers, got dtype {raw.dtype}")
        array = raw.astype(np.float64)
    # One pass without a temporary: NaN and infinities survive the minimum and maximum.
    if array.size and not (array.min() >= -LARGEST and array.max() <= LARGEST):
        where = np.unravel_index(int(np.argmax(~(np.abs(array) <= LARGEST))), array.shape)
        place = f"{name}[{', '.join(str(int(i)) for i in where)}]" if where else name
        raise ValueError(
            f"{place} is {array[where]}; every entry must be finite and at most {LARGEST:g} in size"
        )
    return array if array.flags.c_contiguous else array.copy()


def arm_matrix(arms: ArrayLike, dim: int | None = None) -> Floats:
    """`arms` as a (K, d) array with at least one arm; d must equal `dim` where it is given."""
    array = floats("arms", arms)
    if array.ndim != 2:
        raise ValueError(f"arms must have shape (number of arms, dim), got shape {array.shape}")
    if array.shape[0] == 0:
        raise ValueError("arms is empty: at least one arm is needed")
    if array.shape[1] == 0:
        raise ValueError(f"arms must have at least one feature per arm, got shape {array.shape}")
    if dim is not None and array.shape[1] != dim:
        raise ValueError(f"arms has shape {array.shape} but dim={dim} features per arm are expected")
    return array
