"""Figures of regret in the paper's arrangement and on its axes: rounds and regret are linear."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from linmed.paper.drawing import Drawing, interval, legend
from linmed.paper.experiment import Findings, Key, Setting, labelled
from linmed.paper.panels import READING, READING_DOTS, ends, panel
from linmed.paper.statistics import mean
from linmed.report.figures import POLICY


def grids(
    found: Findings, order: Sequence[int] = (), dots: bool = False, logarithmic: bool = False
) -> Iterator[Drawing]:
    """One figure for every first coordinate (where there are two), a panel for every last one.

    order: the figures by their numbers, which are part of their names, in another order. dots: final regrets
    below the curves, which tell apart what runs in a bundle.
    """
    groups: dict[tuple[str | float, ...], list[Setting]] = {}
    for setting in found.settings:
        if setting.drawn:
            groups.setdefault(setting.key[:-1], []).append(setting)
    numbered = list(enumerate(groups.items(), start=1))
    for number, (group, settings) in [numbered[place - 1] for place in order] or numbered:
        heading = labelled(found.experiment.figure, group[0]) if group else ""
        titles = [labelled(found.experiment.panel, setting.key[-1]) for setting in settings]
        name = found.experiment.name + (f"-{number}" if group else "") + ("-log" if logarithmic else "")
        words = [found.experiment.title, *([heading] if heading else [])]
        words += ["on logarithmic axes"] if logarithmic else []
        caption = f"{', '.join(words)}: {', '.join(titles)}. {READING_DOTS if dots else READING}"
        yield Drawing(name, caption, _panels(found, settings, titles, heading, dots, logarithmic))


def _panels(
    found: Findings, settings: Sequence[Setting], titles: Sequence[str], heading: str, dots: bool,
    logarithmic: bool,
) -> Figure:  # fmt: skip
    height = 3.75 + (0.4 + 0.21 * len(settings[0].policies) if dots else 0.0)
    figure = Figure(figsize=(3.5 * len(settings), height))
    figure.set_layout_engine("constrained", wspace=0.07)  # room for the last tick's label
    ratios = [2.6, height - 3.75] if dots else [1.0]
    axes = figure.subplots(len(ratios), len(settings), squeeze=False, height_ratios=ratios)
    for column, (setting, title) in enumerate(zip(settings, titles, strict=True)):
        panel(axes[0][column], found, setting, logarithmic=logarithmic, bands=not dots)
        axes[0][column].set_title(title)
        if dots:
            ends(axes[1][column], found, setting, labelled=column == 0)
    axes[0][0].set_ylabel("cumulative regret")
    if heading:
        figure.suptitle(heading, fontsize=11, fontweight="bold")
    legend(figure, axes[0][0])
    return figure


def closer(found: Findings, key: Key, away: Sequence[str]) -> Drawing:
    """One setting twice: all policies, and without those far away."""
    setting, names = found.setting(*key), found.names(*key)
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    panel(left, found, setting)
    panel(right, found, setting, [name for name in names if name not in away])
    left.set_title("(a) all policies")
    left.set_ylabel("cumulative regret")
    right.set_title(f"(b) without {', '.join(away)}")
    legend(figure, left)
    caption = f"{found.experiment.title}: all policies, and without {', '.join(away)}. {READING}"
    return Drawing(found.experiment.name, caption, figure)


def logarithmic(found: Findings, key: Key) -> Drawing:
    """One setting on logarithmic axes, where regret of order √n is a straight line of slope 1/2."""
    figure = Figure(figsize=(6.6, 4.2), layout="constrained")
    ax = figure.add_subplot()
    panel(ax, found, found.setting(*key), logarithmic=True)
    ax.set_ylabel("cumulative regret")
    legend(figure, ax, 4)
    caption = f"{found.experiment.title} on logarithmic axes: √n is a straight line of slope ½. {READING}"
    return Drawing(f"{found.experiment.name}-log", caption, figure)


def finals(found: Findings, values: Sequence[int], axis: str, caption: str) -> Drawing:
    """Final regret against what tells the settings apart."""
    figure = Figure(figsize=(6.6, 4.2), layout="constrained")
    ax = figure.add_subplot()
    against(ax, found, {value: (value,) for value in values})
    ax.set_xscale("log", base=2)
    ax.set_xticks(values, [str(value) for value in values])
    ax.set_xlabel(axis)
    ax.set_ylabel(f"regret after {found.horizon:,} rounds")
    legend(figure, ax, 4)
    return Drawing(found.experiment.name, caption, figure)


def against(ax: Any, found: Findings, cells: dict[int, Key]) -> None:
    """Mean final regrets with 95 % intervals, on a logarithmic axis, by what tells the settings apart."""
    for name in found.names(*next(iter(cells.values()))):
        line = POLICY[name]
        estimates = [mean(found.final(name, *key)) for key in cells.values()]
        centre, error = (np.array([getattr(e, part) for e in estimates]) for part in ("value", "error"))
        low, high = interval(centre, error, True, estimates[0].trials)
        ax.errorbar(
            list(cells), centre, yerr=[centre - low, high - centre], color=line.light, linestyle=line.dash,
            marker=line.marker, markersize=5, capsize=3, linewidth=1.8, label=name,
        )  # fmt: skip
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.10g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
