"""The figure of Theorems 3 and 4: regret at many horizons beside what it cannot be below."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from linmed.paper.drawing import Drawing, interval, legend
from linmed.paper.experiment import Findings
from linmed.report.figures import BOUND, DOTS, POLICY

if TYPE_CHECKING:
    from linmed.paper.lower_bounds import Comparison


def lower_bounds(found: Findings, compared: "Comparison") -> Drawing:
    """Points for what was measured, curves for the bounds; above them everything is allowed."""
    figure = Figure(figsize=(6.6, 5.0), layout="constrained")
    ax = figure.add_subplot()
    n = compared.horizons
    for name, estimates in compared.measured.items():
        line = POLICY[name]
        centre = np.array([estimate.value for estimate in estimates])
        error = np.array([estimate.error for estimate in estimates])
        low, high = interval(centre, error, True, estimates[0].trials)
        told = name in compared.bounds
        ax.errorbar(
            n, centre, yerr=[centre - low, high - centre], color=line.light, marker=line.marker,
            linestyle="none" if told else line.dash, markersize=6, capsize=3, linewidth=1.4,
            label=f"{name}, told n" if told else name,
        )  # fmt: skip
        if told:
            ax.plot(
                n, compared.bounds[name], color=line.light, linewidth=2.2, alpha=0.6,
                label=f"{name}: loses at least this",
            )  # fmt: skip
    ax.plot(
        n, compared.theorem, color=BOUND.light, linestyle=DOTS, linewidth=1.8,
        label="EXP2: Theorem 3, exploration only",
    )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_title("arms e₁ and e₂, θ* = e₁, a gap of 1, no noise (σ = 1 is told)")
    ax.set_xlabel("rounds n")
    ax.set_ylabel("regret after n rounds")
    legend(figure, ax, 2)
    return Drawing(
        found.experiment.name,
        "Lower bounds (arms e₁ and e₂, θ* = e₁, no noise): regret of the policies after n rounds, and what "
        "EXP2 and SpannerIGW lose at least.",
        figure,
        compared.text,
    )
