"""Tables of other libraries as a log's table: the log's column names, and its types."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed.log.schema import SCHEMA, lists, ragged


def canonical(table: Any, columns: Mapping[str, Any]) -> pa.Table:
    """`table` with the log's column names and types; `columns` maps the log's names to the table's."""
    source = _arrow(table)
    if source.num_rows == 0:
        raise ValueError("the table is empty: it holds no decisions")
    unknown = [name for name in columns if name not in SCHEMA.names]
    if unknown:
        raise ValueError(f"columns maps {unknown[0]!r}, which is none of {', '.join(SCHEMA.names)}")
    used: set[str] = set()
    fields: dict[str, Any] = {}
    for field in SCHEMA:
        where = columns.get(field.name, field.name if field.name in source.column_names else None)
        if where is None:
            continue
        if field.name == "arm_count" and isinstance(where, (int, np.integer)) and not isinstance(where, bool):
            fields["arm_count"] = pa.array(np.full(source.num_rows, int(where)))
            continue
        names = [where] if isinstance(where, str) else list(where)
        for name in names:
            if name not in source.column_names:
                raise ValueError(
                    f"columns maps {field.name!r} to {name!r}, but the table has {source.column_names}"
                )
        used.update(names)
        fields[field.name] = _typed(source, names, field, single=isinstance(where, str))
    if "arm_count" not in fields:
        for name in ("probabilities", "arms"):
            if name in fields and fields[name].null_count == 0:
                fields["arm_count"] = pc.list_value_length(fields[name]).cast(pa.int64())
                break
    for name in source.column_names:
        if name not in used and name not in fields:
            fields[name] = source[name]
    return pa.table(fields)


def _arrow(table: Any) -> pa.Table:
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, Mapping):
        arrays = {str(name): _array(str(name), values) for name, values in table.items()}
        if len({len(array) for array in arrays.values()}) > 1:
            lengths = ", ".join(f"{name} has {len(array)}" for name, array in arrays.items())
            raise ValueError(f"the table's columns must have as many rows as each other: {lengths}")
        return pa.table(arrays)
    if hasattr(table, "iloc") and hasattr(table, "columns"):  # pandas
        return pa.table({str(name): _array(str(name), table[name]) for name in table.columns})
    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table)
    raise TypeError(
        f"table must be a pyarrow, pandas or polars table or a dictionary of arrays, got {type(table)!r}"
    )


def _array(name: str, values: Any) -> Any:
    """A numpy array of any number of axes, matrices one for each row, or anything pyarrow takes."""
    try:
        if isinstance(values, np.ndarray) and values.ndim > 1:
            plain = values.dtype.kind in "iuf" and not isinstance(values, np.ma.MaskedArray)
            return lists(values) if plain else pa.array(values.tolist())
        if _matrices(values):
            return ragged([None if m is None else np.asarray(m, dtype=np.float64) for m in values], True)
        return values if isinstance(values, pa.ChunkedArray) else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} cannot be read: {error}") from None


def _matrices(values: Any) -> bool:
    """Whether every row holds a matrix, or nothing, and some row does."""
    if not isinstance(values, Sequence) and getattr(getattr(values, "dtype", None), "kind", "") != "O":
        return False
    return {getattr(m, "ndim", -1) for m in values if m is not None} == {2}


def _typed(source: pa.Table, names: list[str], field: pa.Field, single: bool) -> Any:
    if not single:  # several number columns make one list column
        return lists(np.stack([source[name].to_numpy() for name in names], axis=1))
    column = source[names[0]]
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"column {names[0]!r} cannot be read as {field.name} ({field.type}): {error}"
        ) from None
