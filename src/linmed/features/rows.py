"""Read rows and tables of any library by the names of their fields.

Missing are None, NaN, and what numpy, pandas and Arrow have for it. Nothing else is guessed: text is no
number, and a date is neither.
"""

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from linmed.validation import LARGEST, BadType, BadValue, Floats

_NOTHING = ("NAType", "NaTType")  # pandas' own, which need not be installed
_WORDS = {True: "True", False: "False"}


def as_python(value: Any) -> Any:
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
    value = as_python(value)
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
    """Name a category; None if it is missing. 1, 1.0 and "1" are one category: tables disagree."""
    if type(value) is str:
        return value
    value = as_python(value)
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
        value = as_python(value)
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


KINDS = "a pandas, polars or pyarrow table, a list of dictionaries, a dictionary of columns, or an array"


class Table:
    """A table's columns by name: numpy arrays where they are numbers without gaps, lists otherwise."""

    of_dictionaries = False

    def __init__(self, rows: int, names: Sequence[str], read: Callable[[str], Any], where: str) -> None:
        self.rows, self.names, self._read, self.where = rows, tuple(names), read, where

    def __call__(self, name: str) -> Any:
        """One column. What no dictionary has is missing in all of them; what a table lacks is an error."""
        if name in self.names or self.of_dictionaries:
            return self._read(name)
        raise self.lacks(name)

    def lacks(self, name: str) -> BadValue:
        """Make the error for a column that is not there."""
        have = ", ".join(map(repr, self.names)) or "none"
        return BadValue(self.where, f"{self.where} has no column {name!r}; it has {have}")


def table(where: str, given: Any, sizes: Mapping[str, int] | None = None) -> Table:
    """`given`, to be read column by column. A matrix has the columns that `sizes` names, in order."""
    if isinstance(given, Mapping):
        return _of_columns(where, given)
    if hasattr(given, "iloc") and hasattr(given, "columns"):  # pandas
        named = {str(name): name for name in given.columns}
        if len(named) < len(given.columns):
            raise BadValue(where, f"{where} has two columns of one name: {list(map(str, given.columns))}")
        return Table(len(given), tuple(named), lambda name: _pandas(given[named[name]]), where)
    if isinstance(given, np.ndarray):
        return _of_array(where, given, sizes)
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "to_pylist"):  # polars, pyarrow and others
        import pyarrow as pa

        try:
            found = given if isinstance(given, pa.Table) else pa.table(given)
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise BadType(where, f"{where} cannot be read as a table: {error}") from None
        return Table(found.num_rows, found.column_names, lambda name: _arrow(found.column(name)), where)
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise BadType(where, f"{where} must be {KINDS}, got {type(given).__name__}")
    return _of_rows(where, list(given), sizes)


def _of_columns(where: str, given: Mapping[str, Any]) -> Table:
    for name, values in given.items():
        if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
            text = f"{where}[{name!r}] must be a column of values, got {values!r}; write [row] for one row"
            raise BadType(where, text)
    lengths = {len(values) for values in given.values()}
    if len(lengths) > 1:
        raise BadValue(where, f"{where} must have columns of one length, got {sorted(lengths)}")
    return Table(max(lengths, default=0), list(given), lambda name: _listed(given[name]), where)


def _of_array(where: str, given: Any, sizes: Mapping[str, int] | None) -> Table:
    if given.dtype.names is not None:
        if given.ndim != 1:
            raise BadValue(where, f"{where} must have one axis of records, got shape {given.shape}")
        return Table(len(given), given.dtype.names, lambda name: _listed(given[name]), where)
    if given.dtype.kind not in "biuf":
        if given.ndim == 1:
            return _of_rows(where, given.tolist(), sizes)
        raise BadType(where, f"{where} must be {KINDS}, got an array of {given.dtype}")
    if sizes is None:
        raise BadType(where, f"{where} is a matrix, which names no columns; give {KINDS.split(', or')[0]}")
    width = sum(sizes.values())
    if given.ndim != 2 or given.shape[1] != width:
        text = (
            f"{where} must have {width} columns ({', '.join(sizes)} in this order), got shape {given.shape}"
        )
        raise BadValue(where, text)
    places, start = {}, 0
    for name, size in sizes.items():
        places[name] = start, size
        start += size

    def read(name: str) -> Any:
        at, size = places[name]
        return given[:, at] if size == 1 else given[:, at : at + size]

    return Table(len(given), tuple(sizes), read, where)


def _of_rows(where: str, given: list[Any], sizes: Mapping[str, int] | None) -> Table:
    if given and sizes is not None and not hasattr(given[0], "keys") and not hasattr(given[0], "_asdict"):
        try:
            matrix = np.asarray(given)
        except ValueError:
            matrix = np.empty(0, dtype=object)
        if matrix.dtype.kind in "biuf":
            return _of_array(where, matrix, sizes)
    rows = [row(f"{where}[{i}]", each) for i, each in enumerate(given)]
    names = dict.fromkeys(name for each in rows for name in each)
    made = Table(len(rows), tuple(names), lambda name: [each.get(name) for each in rows], where)
    made.of_dictionaries = True
    return made


def row(where: str, given: Any, sizes: Mapping[str, int] | None = None) -> Mapping[str, Any]:
    """`given` as a dictionary: one, a row of pandas, a named tuple, a record, or a table of one row."""
    if isinstance(given, Mapping):
        return given
    if hasattr(given, "_asdict"):
        return dict(given._asdict())
    if hasattr(given, "iloc") and hasattr(given, "index") and not hasattr(given, "columns"):  # pandas.Series
        return {str(name): value for name, value in given.items()}
    if isinstance(given, np.void) and given.dtype.names is not None:
        return {name: given[name] for name in given.dtype.names}
    if isinstance(given, (np.ndarray, list, tuple)) and sizes is not None and not hasattr(given, "names"):
        found = np.asarray(given)
        if found.ndim == 1 and found.dtype.kind in "biuf":
            whole = _of_array(where, found[None], sizes)
            return {name: whole(name)[0] for name in whole.names}
    if hasattr(given, "columns") or hasattr(given, "__arrow_c_stream__"):
        one = table(where, given)
        if one.rows != 1:
            raise BadValue(where, f"{where} must be one row, got a table of {one.rows}")
        return {name: one(name)[0] for name in one.names}
    raise BadType(where, f"{where} must be a dictionary or a row of a table, got {given!r}")


def _pandas(column: Any) -> Any:
    if column.dtype.kind in "biuf" and isinstance(column.dtype, np.dtype):
        return column.to_numpy()
    return column.tolist()


def _arrow(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    def are_numbers(values: Any) -> bool:
        kind = values.type
        return bool(values.null_count == 0) and (pa.types.is_integer(kind) or pa.types.is_floating(kind))

    kind = column.type
    if are_numbers(column):
        return column.to_numpy()
    nested = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if nested and column.null_count == 0 and len(pc.unique(pc.list_value_length(column))) == 1:
        flat = pc.list_flatten(column)
        if are_numbers(flat):
            return flat.to_numpy().reshape(len(column), -1)
    return column.to_pylist()


def _listed(values: Any) -> Any:
    if hasattr(values, "iloc"):
        return _pandas(values)
    if isinstance(values, np.ma.MaskedArray):
        return values.tolist()
    if isinstance(values, np.ndarray):
        return values if values.dtype.kind in "biuf" else list(values)
    if hasattr(values, "to_pylist"):
        return values.to_pylist()
    return values.to_list() if hasattr(values, "to_list") else list(values)
