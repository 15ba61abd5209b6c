"""Tables of results: readable when printed, and Arrow for whoever has pyarrow."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from linmed.extras import Later
from linmed.report.figures import Estimate, axes, height_of, intervals, series, styled
from linmed.report.html import table
from linmed.validation import BadValue

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
else:
    pa = Later("pyarrow", "an Arrow table", "log")

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
    >>> table.column_names, table.to_pylist()[1]
    (['policy', 'regret', 'trials'], {'policy': 'OFUL', 'regret': 4.5, 'trials': 10})
    """

    __slots__ = ("_content",)

    def __init__(self, content: "pa.Table | Mapping[str, Any] | Iterable[Mapping[str, Any]]") -> None:
        self._content: Any = (
            content  # an Arrow table, or lists by the names of columns until one is asked for
        )
        if isinstance(content, Mapping):
            plain = all(isinstance(values, list) for values in content.values())
            self._content = _plain(content) if plain else pa.table(dict(content))
        elif not hasattr(content, "column_names"):
            rows = list(content)
            names = list(rows[0]) if rows else []
            self._content = _plain({name: [row.get(name) for row in rows] for name in names})

    @property
    def _arrow(self) -> "pa.Table":
        if isinstance(self._content, dict):
            self._content = pa.table(self._content)
        return self._content

    def to_arrow(self) -> "pa.Table":
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
        if name == "_content":  # asked for before it is there, as when unpickled
            raise AttributeError(name)
        return getattr(self._arrow, name)

    @property
    def column_names(self) -> list[str]:
        """What the columns are called."""
        return list(self._content if isinstance(self._content, dict) else self._content.column_names)

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows."""
        if not isinstance(self._content, dict):
            rows: list[dict[str, Any]] = self._content.to_pylist()
            return rows
        names = self.column_names
        return [dict(zip(names, row, strict=True)) for row in zip(*self._content.values(), strict=True)]

    def __getitem__(self, key: Any) -> Any:
        return self._arrow[key]

    def __len__(self) -> int:
        if isinstance(self._content, dict):
            return len(next(iter(self._content.values()), ()))
        return int(self._content.num_rows)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Table) and isinstance(self._content, dict) and isinstance(other._content, dict):
            return repr(self._content) == repr(other._content)  # in which NaN is NaN
        inside = other._arrow if isinstance(other, Table) else other
        return isinstance(inside, pa.Table) and bool(self._arrow.equals(inside))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (self._content,)

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

    def _shown(self) -> tuple[dict[str, list[Any]], int]:
        """The columns of the first and the last rows, and how many are between them."""
        hidden = max(len(self) - ROWS, 0)
        half = ROWS // 2 if hidden else len(self)
        last = len(self) - half if hidden else len(self)
        if isinstance(self._content, dict):
            return {name: values[:half] + values[last:] for name, values in self._content.items()}, hidden
        ends = [self._content.slice(0, half).to_pydict(), self._content.slice(last).to_pydict()]
        return {name: ends[0][name] + ends[1][name] for name in ends[0]}, hidden

    def _repr_html_(self) -> str:
        columns, hidden = self._shown()
        words = [i for i, values in enumerate(columns.values()) if not _numeric(values)]
        rows: list[Sequence[str]] = list(zip(*map(_cells, columns.values()), strict=True))
        if hidden:
            rows.insert(ROWS // 2, [f"… {hidden:,} more rows …"])
        return table(list(columns), rows, words)

    def __repr__(self) -> str:
        shown, hidden = self._shown()
        names, columns = list(shown), []
        for name, values in shown.items():
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


def _plain(columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Columns with Python's own numbers."""
    return {
        name: [value.item() if isinstance(value, np.generic) else value for value in values]
        for name, values in columns.items()
    }


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
