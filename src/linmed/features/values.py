"""One value of a row as a number or as the name of a category, whatever library it came from.

Missing are None, NaN, and what numpy, pandas and Arrow have for it. Nothing else is guessed: text is no
number, and a date is neither.
"""

import math
import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from linmed.validation import LARGEST, BadType, BadValue, Floats

_NOTHING = ("NAType", "NaTType")  # pandas' own, which need not be installed
_WORDS = {True: "True", False: "False"}


def plain(value: Any) -> Any:
    """`value` as Python has it; None where it is missing."""
    if value is None or value is np.ma.masked:
        return None
    if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0:
        value = value.item()
    elif hasattr(value, "as_py"):
        value = value.as_py()
    if isinstance(value, Decimal):  # of which one NaN cannot be compared
        return None if value.is_nan() else value
    return (
        None if type(value).__name__ in _NOTHING or (isinstance(value, float) and value != value) else value
    )


def number(name: str, value: Any) -> float:
    """`value` as a float of reasonable size; NaN where it is missing. A boolean is 0 or 1."""
    value = plain(value)
    if value is None:
        return math.nan
    if not isinstance(value, (numbers.Real, Decimal, np.floating)):
        raise BadType(name, f"{name} must be a number, got {_short(value)}")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not -LARGEST <= found <= LARGEST:
        raise BadValue(name, f"{name} must be finite and at most {LARGEST:g} in size, got {_short(value)}")
    return found


def key(name: str, value: Any) -> str | None:
    """The name of a category; None where it is missing. 1, 1.0 and "1" are one category: tables disagree."""
    if type(value) is str:
        return value
    value = plain(value)
    if value is None:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, (numbers.Real, Decimal)):
        if isinstance(value, float) and not value.is_integer():
            return repr(value)
        try:
            return str(value) if value != (whole := math.trunc(value)) else str(whole)
        except OverflowError:
            return str(value)  # an infinity
        except ValueError:  # Python writes no number of more than 4300 digits
            raise BadValue(name, f"{name} is a number of too many digits for a category") from None
    raise BadType(name, f"{name} must be text or a number, got {_short(value)}")


def vector(name: str, value: Any, size: int) -> Floats | None:
    """`value` as `size` numbers; None where it is missing."""
    if value is np.ma.masked or not isinstance(value, (np.ndarray, Sequence)):
        value = plain(value)
        if value is None:
            return None
    if isinstance(value, np.ma.MaskedArray) and np.any(value.mask):
        raise BadValue(name, f"{name} has masked entries: it must be {size} numbers")
    try:
        found = np.asarray(value)
    except ValueError:
        found = np.empty(0, dtype=object)
    if found.dtype.kind not in "biuf" or found.shape != (size,):
        raise BadType(name, f"{name} must be {size} numbers, got {_short(value)}")
    result: Floats = found.astype(np.float64)
    if not (np.abs(result) <= LARGEST).all():
        raise BadValue(name, f"{name} must be finite and at most {LARGEST:g} in size, got {_short(value)}")
    return result


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:
        text = "a number of too many digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
