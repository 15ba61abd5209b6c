"""Checks of user input, and the one boundary through which arrays reach the core.

Every message names the argument, what it was and what would be right; every exception carries the argument's
name as `field`, so that a service can say which part of a request was wrong without reading the sentence.
"""

import math
import numbers
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FLOAT64 = np.dtype(np.float64)
LARGEST = 1e100
"""Largest magnitude accepted for a feature or a reward: its square is still far from overflow."""


class _Named(Exception):
    """An error that carries the name of the argument it is about."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field, str(self))


class BadValue(_Named, ValueError):
    """An argument of the right kind with a wrong value; `field` is its name."""


class BadType(_Named, TypeError):
    """An argument of the wrong kind; `field` is its name."""


def real(name: str, value: Any) -> float:
    """Return `value` as a finite float."""
    if type(value) is float and math.isfinite(value):  # the common case, without asking abstract classes
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise BadType(name, f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BadValue(name, f"{name} must be finite, got {value!r}")
    return number


def reward(name: str, value: Any) -> float:
    """Return `value` as a finite float of at most LARGEST in size; a click (bool) or a 0-d array will do."""
    if type(value) is float and -LARGEST <= value <= LARGEST:  # the common case
        return value
    if isinstance(value, np.ma.MaskedArray):
        value = value[()] if value.ndim == 0 else value
    elif isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if value is np.ma.masked:
        raise BadValue(name, f"{name} is masked: a reward must be a number; leave it out until it is known")
    number = float(value) if isinstance(value, (bool, np.bool_)) else real(name, value)
    if abs(number) > LARGEST:
        raise BadValue(name, f"{name} must be at most {LARGEST:g} in size, got {value!r}")
    return number


def named_numbers(name: str, value: Any) -> dict[str, float]:
    """Return `value` as numbers by name, each as `reward` takes it."""
    if not isinstance(value, Mapping):
        raise BadType(name, f'{name} must be numbers by name, as in {{"margin": 2.1}}, got {value!r}')
    for key in value:
        if not isinstance(key, str) or not key or not key.isprintable():
            raise BadType(name, f"{name} must have names for its numbers, got {key!r}")
    return {key: reward(f"{name}[{key!r}]", number) for key, number in value.items()}


def positive(name: str, value: Any) -> float:
    """Return `value` as a float > 0 whose square neither overflows nor vanishes."""
    number = real(name, value)
    if not 1 / LARGEST <= number <= LARGEST:
        raise BadValue(
            name, f"{name} must be positive (between {1 / LARGEST:g} and {LARGEST:g}), got {value!r}"
        )
    return number


UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(name: str, value: str) -> float:
    """Read the seconds of "90s", "15m", "6h" or "2d", more than none."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*([smhd])", value.strip())
    length = float(match[1]) * UNITS[match[2]] if match else 0.0
    if not 1e-6 <= length <= 1e12:
        raise BadValue(name, f"{name} must be a time like 90s, 15m, 6h or 2d, got {value!r}")
    return length


def between(name: str, value: Any, low: float, high: float) -> float:
    """Return `value` as a float in [low, high]."""
    number = real(name, value)
    if not low <= number <= high:
        raise BadValue(name, f"{name} must lie in [{low:g}, {high:g}], got {value!r}")
    return number


def strictly_between(name: str, value: Any, low: float, high: float) -> float:
    """Return `value` as a float in (low, high)."""
    number = real(name, value)
    if not low < number < high:
        raise BadValue(name, f"{name} must lie strictly between {low:g} and {high:g}, got {value!r}")
    return number


def failure_rate(name: str, value: Any) -> float:
    """Return `value` as a float in (0, 1]."""
    number = real(name, value)
    if not 0.0 < number <= 1.0:
        raise BadValue(name, f"{name} must lie in (0, 1], got {value!r}")
    return number


def interval(name: str, value: Any) -> tuple[float, float]:
    """Return `value` as two floats, the first below the second."""
    try:
        low, high = value
    except (TypeError, ValueError):
        raise BadType(name, f"{name} must be two numbers (low, high), got {value!r}") from None
    low, high = reward(name, low), reward(name, high)
    if not low < high:
        raise BadValue(name, f"{name} must be (low, high) with low < high, got {value!r}")
    return low, high


def whole(name: str, value: Any, at_least: int = 1, at_most: int | None = None) -> int:
    """Return `value` as an int ≥ `at_least`, and ≤ `at_most` where that is given."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise BadType(name, f"{name} must be a whole number, got {value!r}")
    if value < at_least:
        raise BadValue(name, f"{name} must be at least {at_least}, got {value!r}")
    if at_most is not None and int(value) > at_most:
        raise BadValue(name, f"{name} must be at most {at_most}, got {value!r}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """Return `value` as a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise BadType(name, f"{name} must be True or False, got {value!r}")
    return bool(value)


def text(name: str, value: Any) -> str:
    """Return `value` if it is a string."""
    if not isinstance(value, str):
        raise BadType(name, f"{name} must be a string, got {value!r}")
    return value


def option(name: str, value: Any, allowed: Sequence[Any]) -> Any:
    """Return `value` if it is one of `allowed`."""
    plain = value.item() if isinstance(value, np.generic) else value
    for candidate in allowed:
        if type(plain) is type(candidate) and plain == candidate:
            return candidate
    raise BadValue(name, f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def for_kernels(array: NDArray[Any]) -> Floats:
    """Return `array` in the one form that the core takes: float64, C-contiguous, aligned, writable.

    Any other (read-only memory of Arrow or a broadcast, another layout or byte order) is copied. Nothing else
    decides this.
    """
    if type(array) is np.ndarray and array.dtype is FLOAT64 and array.flags.carray:
        return array
    return np.array(array, dtype=np.float64, order="C", subok=False)


def real_array(name: str, value: ArrayLike) -> Floats:
    """Return `value` as real numbers, infinities and NaN among them, in the form of `for_kernels`."""
    rows = value if isinstance(value, (list, tuple)) else (value,)
    masked = sum(int(np.sum(row.mask)) for row in rows if isinstance(row, np.ma.MaskedArray))
    if masked:
        raise BadValue(name, f"{name} has {masked} masked entries: every entry must be a number")
    try:
        raw = np.asarray(value)
    except ValueError as error:
        raise BadValue(
            name, f"{name} must be rectangular: every row needs the same length ({error})"
        ) from None
    if raw.dtype.kind not in "biuf":
        raise BadType(name, f"{name} must hold real numbers, got dtype {raw.dtype}")
    try:
        return for_kernels(raw)
    except (MemoryError, ValueError):  # as of a view that is far larger than what it shows
        size = f"{raw.size * 8 / (1 << 30):.3g} GiB as float64"
        raise BadValue(name, f"{name} of shape {raw.shape} takes {size}, which cannot be had") from None


def floats(name: str, value: ArrayLike) -> Floats:
    """Return `value` as an array of finite numbers of reasonable size, in the form of `for_kernels`."""
    array = real_array(name, value)
    # One pass without a temporary: NaN and infinities survive the minimum and maximum.
    if array.size and not (array.min() >= -LARGEST and array.max() <= LARGEST):
        raise bad_entry(name, array)
    return array


def bad_entry(name: str, array: Floats) -> BadValue:
    """Make the error for the first entry of `array` that is not finite or too large."""
    where = np.unravel_index(int(np.argmax(~(np.abs(array) <= LARGEST))), array.shape)
    place = f"{name}[{', '.join(str(int(i)) for i in where)}]" if where else name
    return BadValue(
        name, f"{place} is {array[where]}; every entry must be finite and at most {LARGEST:g} in size"
    )


def arm_matrix(arms: ArrayLike, dim: int | None = None) -> Floats:
    """Return `arms` as a (K, d) array with at least one arm; d must equal `dim` where it is given."""
    array = floats("arms", arms)
    if array.ndim != 2:
        raise BadValue("arms", f"arms must have shape (number of arms, dim), got shape {array.shape}")
    if array.shape[0] == 0:
        raise BadValue("arms", "arms is empty: at least one arm is needed")
    if array.shape[1] == 0:
        raise BadValue("arms", f"arms must have at least one feature per arm, got shape {array.shape}")
    if dim is not None and array.shape[1] != dim:
        raise BadValue("arms", f"arms has shape {array.shape} but dim={dim} features per arm are expected")
    return array
