"""Tables of results: Arrow inside, readable when printed."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

__all__ = ["Table"]

ROWS = 40
"""Rows shown at most: the first and the last half."""
WIDTH = 110
"""Characters in a line at most; columns that do not fit are named below."""


class Table:
    """A table that prints itself. `table["estimate"]` is a column; whatever else Arrow's tables can, it can.

    >>> table = Table({"policy": ["LinMED", "OFUL"], "regret": [12.3456789, 4.5], "trials": [10, 10]})
    >>> table
    policy  regret  trials
    LinMED  12.346      10
    OFUL     4.500      10
    >>> table["trials"].to_pylist()
    [10, 10]
    """

    __slots__ = ("_arrow",)

    def __init__(self, content: "pa.Table | Mapping[str, Any] | Iterable[Mapping[str, Any]]") -> None:
        if isinstance(content, pa.Table):
            self._arrow = content
        elif isinstance(content, Mapping):
            self._arrow = pa.table(dict(content))
        else:
            self._arrow = pa.Table.from_pylist(list(content))

    def to_arrow(self) -> pa.Table:
        """The Arrow table inside.

        >>> Table({"n": [1, 2]}).to_arrow().num_rows
        2
        """
        return self._arrow

    def to_pandas(self) -> Any:
        """A pandas data frame.

        >>> Table({"n": [1, 2]}).to_pandas()["n"].sum().item()
        3
        """
        return self._arrow.to_pandas()

    def __getattr__(self, name: str) -> Any:
        if name == "_arrow":  # asked for before it is there, as when unpickled
            raise AttributeError(name)
        return getattr(self._arrow, name)

    def __getitem__(self, key: Any) -> Any:
        return self._arrow[key]

    def __len__(self) -> int:
        return int(self._arrow.num_rows)

    def __eq__(self, other: object) -> bool:
        inside = other._arrow if isinstance(other, Table) else other
        return isinstance(inside, pa.Table) and bool(self._arrow.equals(inside))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (self._arrow,)

    def __repr__(self) -> str:
        shown, hidden = self._arrow, max(len(self) - ROWS, 0)
        if hidden:
            shown = pa.concat_tables([shown.slice(0, ROWS // 2), shown.slice(len(self) - ROWS // 2)])
        names, columns = shown.column_names, []
        for name in names:
            values = shown[name].to_pylist()
            right = all(value is None or isinstance(value, int | float) for value in values)
            cells = [name, *_cells(values)]
            width = max(map(len, cells))
            columns.append([cell.rjust(width) if right else cell.ljust(width) for cell in cells])
        fitting, used = 0, 0
        while fitting < len(columns) and (fitting == 0 or used + 2 + len(columns[fitting][0]) <= WIDTH):
            used += len(columns[fitting][0]) + 2
            fitting += 1
        lines = ["  ".join(row).rstrip() for row in zip(*columns[:fitting], strict=True)]
        if hidden:
            lines.insert(1 + ROWS // 2, f"… {hidden:,} more rows …")
        if fitting < len(columns):
            lines.append(f"… and {len(columns) - fitting} more columns: {', '.join(names[fitting:])}")
        return "\n".join(lines) or "(an empty table)"


def _cells(values: list[Any]) -> list[str]:
    """Values as text; the floats of a column with as many decimals as show five digits of the largest."""
    sizes = [abs(value) for value in values if isinstance(value, float) and math.isfinite(value) and value]
    plain = not sizes or (max(sizes) < 1e9 and max(sizes) >= 1e-3)
    decimals = min(max(4 - math.floor(math.log10(max(sizes, default=1.0))), 0), 6)
    return [_cell(value, f".{decimals}f" if plain else ".4g") for value in values]


def _cell(value: Any, number: str) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return format(value, number)
    if isinstance(value, list) and len(value) > 4:
        return f"[{', '.join(_cell(item, '.4g') for item in value[:3])}, … {len(value)} in all]"
    return str(value)
