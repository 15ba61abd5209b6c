"""Tables of results: Arrow inside, readable when printed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from linmed.checks import BadValue
from linmed.drawing import Estimate, axes, height_of, intervals, styled
from linmed.notebooks import table
from linmed.palette import series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The estimates of a table of `linmed.ope`, a line for each row with its interval. Returns the axes.

        The columns `lower` and `upper` are the interval; those before `estimate` that are not the same in
        every row are its name. Rows of one name in the first column have one colour.

        >>> from matplotlib.figure import Figure
        >>> interval = {"lower": [0.5, 0.4], "upper": [0.7, 0.6]}
        >>> table = Table({"target": ["new", "old"], "estimate": [0.6, 0.5], **interval})
        >>> [label.get_text() for label in table.plot(Figure().subplots()).get_yticklabels()]
        ['new', 'old']
        """
        names = self.column_names
        if not {"estimate", "lower", "upper"} <= set(names) or not len(self):
            raise BadValue(
                "table",
                "table must have rows and the columns estimate, lower and upper, as those of "
                f"linmed.ope.evaluate have, got {len(self)} rows of {', '.join(names)}",
            )
        rows = self.to_pylist()
        before = names[: names.index("estimate")]
        told = before[:1] + [name for name in before[1:] if len({str(row[name]) for row in rows}) > 1]
        groups = list(dict.fromkeys(row[name] for row in rows for name in before[:1]))
        each = [
            Estimate(
                ", ".join(str(row[name]) for name in told), row["estimate"], row["lower"], row["upper"],
                series(groups.index(row[before[0]]) if before else 0)[0],
            )
            for row in rows
        ]  # fmt: skip
        low, high = (f([x for one in each for x in one[2:4]], default=0.0) for f in (min, max))
        with styled():
            ax = axes(ax, height_of(len(rows)))
            intervals(ax, each, zero=low < 0.0 < high)
            ax.set_xlabel("reward per decision, with its interval")
        return ax

    def _shown(self) -> tuple[pa.Table, int]:
        """The first and the last rows, and how many are between them."""
        hidden = max(len(self) - ROWS, 0)
        if not hidden:
            return self._arrow, 0
        ends = [self._arrow.slice(0, ROWS // 2), self._arrow.slice(len(self) - ROWS // 2)]
        return pa.concat_tables(ends), hidden

    def _repr_html_(self) -> str:
        shown, hidden = self._shown()
        columns = {name: shown[name].to_pylist() for name in shown.column_names}
        words = [i for i, values in enumerate(columns.values()) if not _numeric(values)]
        rows: list[Sequence[str]] = list(zip(*map(_cells, columns.values()), strict=True))
        if hidden:
            rows.insert(ROWS // 2, [f"… {hidden:,} more rows …"])
        return table(list(columns), rows, words)

    def __repr__(self) -> str:
        shown, hidden = self._shown()
        names, columns = shown.column_names, []
        for name in names:
            values = shown[name].to_pylist()
            right = _numeric(values)
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


def _numeric(values: list[Any]) -> bool:
    return all(value is None or isinstance(value, int | float) for value in values)


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
