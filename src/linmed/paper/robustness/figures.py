"""The figures: a map of what wrong guesses cost, and regret by noise level."""

from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from linmed.paper.drawing import Drawing, interval, legend
from linmed.paper.experiment import Findings
from linmed.paper.robustness.problems import (
    EXACT,
    GUESSES,
    LEVELS,
    MANY_ARMS,
    MIXTURE,
    ONE,
    ORACLE,
    PAPERS_GAP,
    RULES,
    named,
    sets,
)
from linmed.paper.statistics import mean
from linmed.report.figures import INK, POLICY

FARTHEST = 20.0
"""Factors beyond are coloured like this one."""
BETTER, SAME, WORSE = "#5aa7e0", "#f5f5f2", "#e0762f"
CELL_INK = "#1c1c1e"
"""On cells of any colour, on light and on dark paper."""
LINES = {
    ORACLE: POLICY["OFUL"],
    MIXTURE: POLICY["LinMEDNOPT"],
    ONE: POLICY["LinTS-Freq"],
    "σ unknown": POLICY["LinMED-50"],
    "σ, S unknown": POLICY["LinMED-99"],
    "ridge learned": POLICY["SpannerIGW"],
}


def factors(found: Findings, problem: str, name: str) -> Drawing:
    """Regret over that of the same rule told the truth, with the paper's set: a row for every rule."""
    columns = [
        (guess, chosen) for guess in GUESSES for chosen in sets(guess) if (guess, chosen) != (EXACT, "paper")
    ]
    table = np.array([[_factor(found, problem, rule, *column) for column in columns] for rule in RULES])
    figure = Figure(figsize=(12.0, 4.9), layout="constrained")
    ax = figure.add_subplot()
    colours = LinearSegmentedColormap.from_list("cost", [BETTER, SAME, WORSE])
    clipped = np.clip(np.nan_to_num(table, nan=1.0), 1.0 / FARTHEST, FARTHEST)
    ax.pcolormesh(
        clipped, cmap=colours, norm=LogNorm(1.0 / FARTHEST, FARTHEST), edgecolor="white", linewidth=1.2
    )
    for row, values in enumerate(table):
        for column, value in enumerate(values):
            ax.text(
                column + 0.5, row + 0.5, _words(value), ha="center", va="center", fontsize=8, color=CELL_INK
            )
    ax.set_yticks(np.arange(len(RULES)) + 0.5, RULES)
    ax.set_xticks(np.arange(len(columns)) + 0.5, [chosen for _, chosen in columns], rotation=35, ha="right")
    ax.invert_yaxis()
    ax.grid(visible=False)
    ax.tick_params(length=0)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    _groups(ax, [guess for guess, _ in columns])
    horizon = found.setting(problem, EXACT).horizon
    return Drawing(
        name,
        f"{problem}, n = {horizon:,}: final regret over that of the same rule told σ and S exactly, with the "
        "paper's set. Columns: what was guessed wrongly, and the confidence set.",
        figure,
    )


def _factor(found: Findings, problem: str, rule: str, guess: str, chosen: str) -> float:
    own = float(found.final(named(rule, chosen), problem, guess).mean())
    truth = float(found.final(named(rule, "paper"), problem, EXACT).mean())
    return own / truth if truth > 0.0 else np.nan


def _words(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _groups(ax: Any, guesses: list[str]) -> None:
    """A heading over the columns of every guess, and a gap between them."""
    for guess in GUESSES:
        own = [place for place, other in enumerate(guesses) if other == guess]
        ax.text(
            (own[0] + own[-1] + 1) / 2, -0.25, f"told {guess}" if guess != EXACT else "no wrong guess",
            ha="center", va="bottom", fontsize=9.5, fontweight="bold",
        )  # fmt: skip
        if own[0]:
            ax.axvline(own[0], color=INK.light, linewidth=1.6)


def levels(found: Findings) -> Drawing:
    """LinMED-90's final regret by σ*, with 95 % intervals: a panel for every problem."""
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, problem in zip(axes, (PAPERS_GAP, MANY_ARMS), strict=True):
        for told, line in LINES.items():
            estimates = [mean(found.final(told, problem, level)) for level in LEVELS]
            centre, error = (np.array([getattr(e, part) for e in estimates]) for part in ("value", "error"))
            low, high = interval(centre, error, True, estimates[0].trials)
            ax.errorbar(
                LEVELS, centre, yerr=[centre - low, high - centre], color=line.light, linestyle=line.dash,
                marker=line.marker, markersize=5, capsize=3, linewidth=1.6, label=told,
            )  # fmt: skip
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.xaxis.set_major_locator(FixedLocator(LEVELS))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set_title(f"{problem}, n = {found.setting(problem, LEVELS[0]).horizon:,}")
        ax.set_xlabel("σ*")
    axes[0].set_ylabel("regret of LinMED-90")
    legend(figure, axes[0], 3)
    return Drawing(
        f"{found.experiment.name}-levels",
        "LinMED-90's final regret by the true noise level, told σ (with the paper's set and the mixture), "
        "told σ = 1, and told less; 95 % intervals.",
        figure,
    )
