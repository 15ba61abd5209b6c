"""Pictures: the estimate and its confidence sequence as the log grows."""

import os
from collections.abc import Mapping

import pyarrow as pa
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


def plot_sequences(
    sequences: Mapping[str, pa.Table],
    path: str | os.PathLike[str],
    title: str = "",
    truth: float | None = None,
) -> None:
    """Draw tables as `sequence` makes them, by name, to a file (PNG, PDF or SVG by its ending)."""
    if not sequences:
        raise ValueError("sequences is empty: nothing to draw")
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for i, (name, table) in enumerate(sequences.items()):
        n = table["n"].to_numpy()
        axes.plot(n, table["estimate"].to_numpy(), color=f"C{i}", label=name)
        axes.fill_between(
            n, table["lower"].to_numpy(), table["upper"].to_numpy(), color=f"C{i}", alpha=0.2, lw=0
        )
    if truth is not None:
        axes.axhline(truth, color="black", lw=1, ls="--", label="truth")
    axes.set(xscale="log", xlabel="decisions", ylabel="reward per decision", title=title)
    axes.legend()
    figure.savefig(path, dpi=150)
