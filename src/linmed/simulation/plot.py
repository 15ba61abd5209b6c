"""A picture of regret against rounds."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from linmed.simulation.results import Results

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Okabe and Ito's palette, which people who do not see all colours can tell apart."""
DASHES = ("-", "--", "-.", ":")


def plot(results: "Results", path: str | Path | None = None) -> Figure:
    """Mean regret and 95 % intervals of every policy; the legend stands beside the curves.

    Made without pyplot: no window, no global state, safe in threads.
    """
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for index, name in enumerate(results.names):
        colour, dash = COLOURS[index % len(COLOURS)], DASHES[index // len(COLOURS) % len(DASHES)]
        mean, error = results.mean(name), results.standard_error(name)
        axes.plot(results.checkpoints, mean, color=colour, linestyle=dash, label=name, linewidth=1.6)
        if np.isfinite(error).all():
            low, high = mean - 1.96 * error, mean + 1.96 * error
            axes.fill_between(results.checkpoints, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.set_xlabel("round")
    axes.set_ylabel("cumulative regret")
    axes.set_title(results.environment.name, fontsize="medium", wrap=True)
    axes.set_xlim(0, results.horizon)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
