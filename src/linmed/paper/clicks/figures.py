"""The figures: regret by problem, wrong norms, clicks of the longer worlds, and calibration."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from linmed.paper.clicks.measures import ClickFindings
from linmed.paper.clicks.problems import (
    EPSILON,
    FAMILY,
    GREEDY,
    GRID,
    IDS,
    LEARNED,
    LINEAR,
    LOW,
    OPTIMISM,
    OWN,
    PROBLEMS,
    RATES,
    SQUARECB,
    THOMPSON,
    UNKNOWN,
    WRONG,
    told,
)
from linmed.paper.clicks.watching import EDGES, LEAST
from linmed.paper.drawing import Drawing, interval, legend
from linmed.paper.experiment import Findings, Key
from linmed.paper.statistics import Normal, mean
from linmed.report.figures import INK, POLICY, Line

LINES: dict[str, Line] = {
    OWN: POLICY["LinTS-Freq"],
    OPTIMISM: POLICY["OFUL"],
    THOMPSON: POLICY["LinTS-Bayes"],
    LINEAR: POLICY["LinMED-90"],
    UNKNOWN: POLICY["LinMED-50"],
    LEARNED: POLICY["LinMED-99"],
    GREEDY: POLICY["EXP2"],
    EPSILON: POLICY["LinMEDNOPT"],
    **dict.fromkeys(GRID, POLICY["LinIMED-3"]),
    **dict.fromkeys(SQUARECB, POLICY["LinIMED-1"]),
}


def drawings(found: Findings) -> Iterator[Drawing]:
    """All of them."""
    assert isinstance(found, ClickFindings)
    yield regret(found)
    yield norms(found)
    if found.has(IDS):
        yield earned(found)
    yield calibration(found)


def regret(found: ClickFindings) -> Drawing:
    """Final regret of every policy, a panel for every problem."""
    figure = Figure(figsize=(10.5, 5.6), layout="constrained")
    axes = figure.subplots(2, len(RATES), sharey=True)
    for ax, problem in zip(axes.flat, PROBLEMS, strict=True):
        names = found.names(problem)
        _dots(ax, names, [mean(found.final(name, problem)) for name in names], logarithmic=True)
        ax.set_title(problem)
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(10.0, (1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
    for ax in axes[-1]:
        ax.set_xlabel("regret in clicks")
    horizon = found.setting(next(iter(PROBLEMS))).horizon
    return Drawing(
        f"{found.experiment.name}-regret",
        f"Regret in clicks after {horizon:,} rounds, with 95 % intervals. Titles: the mean click rate of the "
        "arms and the best arm's.",
        figure,
    )


def norms(found: ClickFindings) -> Drawing:
    """Regret by the norm that was told, beside LinMED's, which is told σ alone."""
    figure = Figure(figsize=(8.4, 3.7), layout="constrained")
    axes = figure.subplots(1, len(LOW))
    factors = sorted(WRONG.values())
    words = sorted(WRONG, key=lambda word: WRONG[word])
    for ax, problem in zip(axes, LOW, strict=True):
        for rule in FAMILY:
            estimates = [mean(found.final(told(rule, word), problem, "norm")) for word in words]
            centre = np.array([estimate.value for estimate in estimates])
            ends = [_ends(estimate) for estimate in estimates]
            margins = np.array([[c - low, high - c] for c, (low, high) in zip(centre, ends, strict=True)]).T
            line = LINES[rule]
            ax.errorbar(
                factors, centre, yerr=margins, color=line.light, linestyle=line.dash, marker=line.marker,
                markersize=5, capsize=3, linewidth=1.6, label=rule,
            )  # fmt: skip
        linear = mean(found.final(LINEAR, problem)).value
        ax.axhline(
            linear, color=LINES[LINEAR].light, linestyle=LINES[LINEAR].dash, linewidth=1.6, label=LINEAR
        )
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(FixedLocator(factors))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xticks(factors, words)
        ax.set_ylim(bottom=0.0)
        ax.set_title(problem)
        ax.set_xlabel("norm of θ* that was told")
    axes[0].set_ylabel("regret in clicks")
    legend(figure, axes[0], 4)
    return Drawing(
        f"{found.experiment.name}-norms",
        "Regret where the norm of θ* is told a third, exactly and three times; 95 % intervals.",
        figure,
    )


def earned(found: ClickFindings) -> Drawing:
    """Expected clicks of the longer worlds as shares of what the best arms would earn."""
    keys = [s.key for s in found.settings if len(s.key) == 1 and s.key[0] not in PROBLEMS]
    shown = [(key, _shown(found, key)) for key in keys]
    heights = [0.28 * len(names) for _, names in shown]
    figure = Figure(figsize=(7.0, 1.0 + 0.55 * len(keys) + sum(heights)), layout="constrained")
    axes = np.atleast_1d(figure.subplots(len(keys), 1, gridspec_kw={"height_ratios": heights}))
    for ax, (key, names) in zip(axes, shown, strict=True):
        shares = []
        for name in names:
            clicks = found.clicks(name, *key)
            shares.append(mean(100.0 * clicks / found.best[key][: len(clicks)]))
        _dots(ax, names, shares)
        ax.set_title(f"{key[0]}, {found.setting(*key).horizon:,} rounds")
    axes[-1].set_xlabel("% of the clicks that the best arms would earn")
    return Drawing(
        f"{found.experiment.name}-news",
        "Expected clicks in % of what the best arm of every round would earn, with 95 % intervals over "
        "trials. Of the guesses of σ and S those that went through the preview.",
        figure,
    )


def calibration(found: ClickFindings) -> Drawing:
    """How often arms were played over how often was said, by stated probability."""
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    ax = figure.add_subplot()
    for place, (name, counted) in enumerate(found.watched.items()):
        expected, played, variance = (
            counted[part].sum(axis=0) for part in ("expected", "played", "variance")
        )
        there = variance >= LEAST
        line = LINES[name]
        ends = np.array([EDGES[0] / 3.0, *EDGES, 1.0])
        centres = np.sqrt(ends[:-1] * ends[1:])[there] * 1.05 ** (place - len(found.watched) / 2)
        ax.errorbar(
            centres, (played / np.where(there, expected, 1.0))[there],
            yerr=(2.0 * np.sqrt(variance) / np.where(there, expected, 1.0))[there],
            color=line.light, linestyle="none", marker=line.marker, markersize=5, capsize=2, linewidth=1.3,
            label=name,
        )  # fmt: skip
    ax.axhline(1.0, color=INK.light, linewidth=1.0)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(EDGES[:-2]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("stated probability")
    ax.set_ylabel("plays over stated")
    legend(figure, ax, 2)
    return Drawing(
        f"{found.experiment.name}-calibration",
        f"{LOW[0]}: how often arms were played over the sum of their stated probabilities, by bins of those, "
        "with two standard deviations of what chance does. All arms of all decisions are counted.",
        figure,
    )


def _shown(found: ClickFindings, key: Key) -> list[str]:
    """All but those that were given up after the preview."""
    names = found.names(*key)
    many = [name for name in names if name in GRID or name in SQUARECB]
    most = max((found.played((key, name)) for name in many), default=0)
    return [name for name in names if name not in many or found.played((key, name)) == most]


def _dots(ax: Any, names: Sequence[str], estimates: Sequence[Normal], logarithmic: bool = False) -> None:
    """A row for every policy, the first on top."""
    for row, (name, estimate) in enumerate(zip(names, estimates, strict=True)):
        low, high = _ends(estimate, logarithmic)
        line = LINES[name]
        ax.errorbar(
            estimate.value, row, xerr=[[estimate.value - low], [high - estimate.value]], color=line.light,
            marker=line.marker, markersize=6, capsize=3, linewidth=1.6,
        )  # fmt: skip
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")


def _ends(estimate: Normal, logarithmic: bool = False) -> tuple[float, float]:
    low, high = interval(np.array(estimate.value), np.array(estimate.error), logarithmic, estimate.trials)
    return float(low), float(high)
