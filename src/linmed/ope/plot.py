"""Pictures: the estimate and its confidence sequence as the log grows."""

import os
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from linmed.drawing import axes, saved, shortened, styled
from linmed.ope.bars import Scale, has_interval
from linmed.palette import INK, series
from linmed.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = 3.8

Traces = Mapping[str, pa.Table | Table]
"""Name → n, estimate, lower, upper at growing n, as `sequence` tells them."""


class Window(NamedTuple):
    """The part of the picture that is worth looking at."""

    first: int
    last: int
    scale: Scale


def window(traces: Traces, truth: float | None = None) -> Window:
    """Rewards around the bounds at the end, and n from where the first bound comes into sight.

    A sequence begins with the whole range of the rewards and ends with a small part of it: drawn in full, the
    part that matters would be a thin line.
    """
    courses = [table.to_pylist() for table in traces.values()]
    rows = list(chain.from_iterable(courses))
    known = [row for row in rows if has_interval(row)]
    last = [[row for row in course if has_interval(row)][-1:] for course in courses]
    ends = [row[end] for row in chain.from_iterable(last) for end in ("lower", "upper")]
    ends += [] if truth is None else [truth]
    if known:
        low, high = min(ends), max(ends)
        room = (high - low) / 2
        lowest, highest = min(row["lower"] for row in known), max(row["upper"] for row in known)
        ends = [max(low - room, min(lowest, low)), min(high + room, max(highest, high))]
    scale = Scale.over(ends or [row["estimate"] for row in rows])
    inside = [row["n"] for row in known if row["lower"] > scale.low or row["upper"] < scale.high]
    longest = max([1, *(row["n"] for row in rows)])
    return Window(max(min([*inside, longest // 10]), 1), longest, scale)


def plot_sequences(
    sequences: Traces,
    path: str | os.PathLike[str] | None = None,
    title: str = "",
    truth: float | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw tables as `sequence` makes them, by name; to a file (PNG, PDF or SVG by its ending) if told so.

    Returns the axes.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from linmed.ope import DecisionLog, sequence
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> courses = {target: sequence(DecisionLog.from_table(played), target) for target in ("arm:0", "arm:1")}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     axes = plot_sequences(courses, f"{folder}/courses.png", title="Two pages")
    ...     Path(folder, "courses.png").stat().st_size > 1000
    True
    """
    if not sequences:
        raise ValueError("sequences is empty: nothing to draw")
    from matplotlib.ticker import LogLocator, NullFormatter

    with styled():
        ax = axes(ax, HEIGHT, shown=path is None)
        band = 0.18 if len(sequences) == 1 else 0.07
        for i, (name, table) in enumerate(sequences.items()):
            n, (colour, dash) = table["n"].to_numpy(), series(i)
            low, high = table["lower"].to_numpy(), table["upper"].to_numpy()
            ax.plot(n, table["estimate"].to_numpy(), color=colour, linestyle=dash, label=shortened(name, 40))
            # Where bands overlap their colours merge; their edges do not.
            ax.fill_between(n, low, high, color=colour, alpha=band, linewidth=0)
            for edge in (low, high):
                ax.plot(n, edge, color=colour, linestyle=dash, linewidth=0.9, alpha=0.85)
        if truth is not None:
            ax.axhline(truth, color=INK.light, linewidth=1, linestyle="--", label="truth")
        shown = window(sequences, truth)
        ax.set(xscale="log", xlabel="decisions", ylabel="reward per decision", title=title)
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_ylim(shown.scale.low, shown.scale.high)
        if shown.first < shown.last:
            ax.set_xlim(shown.first, shown.last)
        ax.legend()
        if path is not None:
            saved(ax, path)
    return ax
