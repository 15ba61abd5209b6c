"""A picture of regret against rounds."""

import os
from typing import TYPE_CHECKING

import numpy as np

from linmed.drawing import axes, saved, shortened, styled
from linmed.palette import series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from linmed.simulation.results import Results

HEIGHT, WIDTH = 4.5, 8.0


def plot(
    results: "Results", path: "str | os.PathLike[str] | None" = None, ax: "Axes | None" = None
) -> "Axes":
    """Mean regret and 95 % intervals of every policy; the legend stands beside the curves."""
    with styled():
        ax = axes(ax, HEIGHT, WIDTH, shown=path is None)
        for index, name in enumerate(results.names):
            colour, dash = series(index)
            mean, error = results.mean(name), results.standard_error(name)
            ax.plot(
                results.checkpoints, mean, color=colour, linestyle=dash, linewidth=1.6,
                label=shortened(name, 40),
            )  # fmt: skip
            if np.isfinite(error).all():
                low, high = mean - 1.96 * error, mean + 1.96 * error
                ax.fill_between(results.checkpoints, low, high, color=colour, alpha=0.18, linewidth=0)
        ax.set_xlabel("round")
        ax.set_ylabel("cumulative regret")
        ax.set_title(results.environment.name, fontsize="medium", wrap=True)
        ax.set_xlim(0, results.horizon)
        ax.set_ylim(bottom=0)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
        if path is not None:
            saved(ax, path)
    return ax
