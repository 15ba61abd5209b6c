"""Pictures: the estimate and its confidence sequence as the log grows."""

import os
from typing import TYPE_CHECKING

from linmed.report.estimates_page import Traces, window
from linmed.report.figures import INK, axes, saved, series, shortened, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = 3.8


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
