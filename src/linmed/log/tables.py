"""Tables of other libraries as a log's table: the log's column names, and its types."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from linmed.log.mapped import MappedTable
from linmed.log.mapping import Columns, plan
from linmed.log.schema import lists, ragged
from linmed.log.source import BATCH, Malformed, check_needed, shortened


def canonical(table: Any, columns: Columns) -> pa.Table:
    """`table` with the log's column names and types; `columns` maps the log's names to the table's."""
    source = _arrow(table)
    if source.num_rows == 0:
        raise ValueError("the table is empty: it holds no decisions")
    gaps = frozenset(name for name in source.column_names if source.column(name).null_count)
    made = MappedTable(plan(columns, source.schema, "the table", gaps), "the table", source)
    check_needed(made.columns, made.own, "table")
    return pa.Table.from_batches(made.read(made.columns, BATCH, Malformed()))


def _arrow(table: Any) -> pa.Table:
    if isinstance(table, pa.Table):
        return table.cast(pa.schema([field.with_type(_plain(field.type)) for field in table.schema]))
    if isinstance(table, Mapping):
        arrays = {str(name): _array(str(name), values) for name, values in table.items()}
        if len({len(array) for array in arrays.values()}) > 1:
            lengths = ", ".join(f"{name} has {len(array)}" for name, array in arrays.items())
            raise ValueError(f"the table's columns must have as many rows as each other: {lengths}")
        return pa.table(arrays)
    if hasattr(table, "iloc") and hasattr(table, "columns"):  # pandas
        return pa.table({str(name): _array(str(name), table[name]) for name in table.columns})
    if hasattr(table, "__arrow_c_stream__"):
        return _arrow(pa.table(table))
    raise TypeError(
        f"table must be a pyarrow, pandas or polars table or a dictionary of arrays, got {type(table)!r}"
    )


def _plain(kind: pa.DataType) -> pa.DataType:
    """`kind`, but text for views of text: polars has them, and few functions of pyarrow do."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _plain(kind.value_type), kind.ordered)
    return kind


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
        raise ValueError(f"column {name!r} cannot be read: {shortened(str(error))}") from None


def _matrices(values: Any) -> bool:
    """Whether every row holds a matrix, or nothing, and some row does."""
    if not isinstance(values, Sequence) and getattr(getattr(values, "dtype", None), "kind", "") != "O":
        return False
    return {getattr(m, "ndim", -1) for m in values if m is not None} == {2}
