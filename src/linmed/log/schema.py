"""What a row of the decision log holds, and numpy arrays as the list columns of such rows."""

import math
import time as clock
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from linmed import validation
from linmed.validation import Floats

TIME = pa.timestamp("us", tz="UTC")
NUMBERS = pa.map_(pa.string(), pa.float64())
"""Numbers by name."""

_COLUMNS = (
    ("decision_id", pa.string(), "The decision's identifier, by which its reward finds it."),
    ("time", TIME, "When it was taken."),
    ("policy", pa.string(), "The name of the policy that took it."),
    ("version", pa.int64(), "How many rewards the policy had absorbed: it varies in an adaptive log."),
    ("arm", pa.int64(), "The arm that was played, 0 … arm_count − 1."),
    ("arm_id", pa.string(), "Its id, where arms have one: a catalogue's items, arms that are names."),
    ("arm_count", pa.int64(), "K: among how many arms it was chosen."),
    ("features", pa.list_(pa.float64()), "The features of the arm that was played (d,)."),
    ("probability", pa.float64(), "Of that arm, by any route but the fallback; null on fallback rows."),
    ("log_probability", pa.float64(), "Its logarithm, which stays exact where it is tiny."),
    ("fallback", pa.bool_(), "Whether a catalogue's best item was played for one not accepted. Optional."),
    ("best", pa.int64(), "Place of a catalogue's best item, which a fallback plays. Optional."),
    ("catalogue_version", pa.int64(), "Of the catalogue that was decided among. Optional."),
    ("context", pa.list_(pa.float64()), "Encoded, as a map made arms of it (dx,). Optional."),
    ("probabilities", pa.list_(pa.float64()), "Of every arm (K,). Optional."),
    ("arms", pa.list_(pa.list_(pa.float64())), "Every arm's features (K, d). Optional."),
    ("value", pa.float64(), "What a unit of its reward is worth, where arms have values or costs. Optional."),
    ("cost", pa.float64(), "What playing it was expected to cost. Optional."),
    ("values", pa.list_(pa.float64()), "Of every arm (K,). Optional."),
    ("costs", pa.list_(pa.float64()), "Of every arm (K,). Optional."),
    ("control", pa.bool_(), "Whether the control group's law drew it, where there is one. Optional."),
    ("control_share", pa.float64(), "How probable it was that it would. Optional."),
    ("shadow", NUMBERS, "How probable the arm was to each policy that decides nothing. Optional."),
    ("reward", pa.float64(), "What came back; null until it arrives."),
    ("reward_time", TIME, "When it arrived, or the deadline by which none had."),
    ("missing", pa.bool_(), "Whether none had come by the deadline, so that one was assumed. Optional."),
    ("outcomes", NUMBERS, "Other numbers that came back, by name. Optional."),
)
SCHEMA = pa.schema([(name, kind) for name, kind, _ in _COLUMNS])
MEANING = {name: meaning for name, _, meaning in _COLUMNS}
"""What each column of SCHEMA holds, for readers of the manual."""
OF_CATALOGUE = ("best", "catalogue_version", "context")
"""Columns that tell, with the state, the law of a decision among a catalogue."""
OF_WORTH = ("value", "cost", "values", "costs")
"""Columns that say what a reward is worth: the utility of an arm is value · reward − cost."""
BY_TYPE = (*OF_CATALOGUE, *OF_WORTH, "control", "control_share", "shadow", "missing", "outcomes")
"""In somebody else's file a column of such a name may be anything: it is one of these only where it has their
type."""
REWARDS = pa.schema(
    [
        ("decision_id", pa.string()),
        ("part", pa.string()),
        ("row", pa.int64()),
        *((name, kind) for name, kind, _ in _COLUMNS[-4:]),
    ]
)
FEATURES = "linmed.features"
"""Key of a file's metadata under which JSON says how features were made of contexts and items."""
MOST_NUMBERS = 2**31 - 1
"""How many numbers one array of lists can hold: its offsets have 32 bits."""

SUM_ERROR = 1e-3
"""How far from one a decision's probabilities may sum: rounding to four digits, or an integral that has an
error of its own, leaves no more. A reader divides them by their sum; beyond it they are refused."""
ENTRY_ERROR = 1e-6
"""How far `probability` may be from the played arm's entry of `probabilities`, or SUM_ERROR of itself."""
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999 in microseconds since 1970: those that a datetime can hold."""


def ragged(arrays: Sequence[Floats | None], nested: bool) -> pa.Array:
    """Write arrays (m,), or (m, d) if `nested`, as one list column without a Python object per number.

    >>> ragged([np.array([1.0, 2.0]), None, np.array([3.0])], nested=False).to_pylist()
    [[1.0, 2.0], None, [3.0]]
    """
    present = [array for array in arrays if array is not None]
    flat = pa.array(np.concatenate([array.ravel() for array in present]) if present else np.empty(0))
    if nested:
        widths = np.concatenate([np.full(a.shape[0], a.shape[1]) for a in present] or [np.empty(0, np.int64)])
        flat = pa.ListArray.from_arrays(_offsets(widths), flat)
    absent = pa.array([array is None for array in arrays])
    lengths = [0 if array is None else len(array) for array in arrays]
    return pa.ListArray.from_arrays(_offsets(lengths), flat, mask=absent)


def lists(array: NDArray[Any]) -> pa.ChunkedArray:
    """(n, m) → n lists of m, (n, K, d) → n lists of K lists of d: in as many chunks as their offsets need."""
    step = max(1, MOST_NUMBERS // max(1, math.prod(array.shape[1:])))
    chunks = []
    for start in range(0, max(1, len(array)), step):
        part = array[start : start + step]
        inner = pa.array(np.ascontiguousarray(part, dtype=np.float64).ravel())
        for axis in range(array.ndim - 1, 0, -1):
            lengths = np.full(math.prod(part.shape[:axis]), part.shape[axis])
            inner = pa.ListArray.from_arrays(_offsets(lengths), inner)
        chunks.append(inner)
    return pa.chunked_array(chunks)


def _offsets(lengths: ArrayLike) -> pa.Array:
    """Tell where each list begins, and where the last one ends."""
    ends = np.cumsum(np.append(0, lengths), dtype=np.int64)
    if ends[-1] > MOST_NUMBERS:
        raise ValueError(f"one column of lists holds at most {MOST_NUMBERS} numbers, got {ends[-1]}")
    return pa.array(ends.astype(np.int32))


def microseconds(time: datetime | float | None) -> int:
    """Seconds since 1970 or a datetime with a zone (none means UTC), as whole microseconds; None is now."""
    if time is None:
        return clock.time_ns() // 1000
    moment = (
        pa.scalar(time, TIME).value if isinstance(time, datetime) else validation.real("time", time) * 1e6
    )
    if moment is None or not FIRST <= moment <= LAST:
        raise validation.BadValue(
            "time",
            f"time must be in the years 1 to 9999 (in seconds since 1970, or a datetime), got {time!r}",
        )
    return round(moment)
