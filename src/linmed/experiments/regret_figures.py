"""Figures of regret, in the paper's arrangement: means and 95 % intervals over trials."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from linmed.experiments.bounds import overlay
from linmed.experiments.drawing import Drawing, interval, legend
from linmed.experiments.experiment import Findings, Key, Setting, labelled
from linmed.experiments.lineup import LINMED
from linmed.experiments.palette import BOUND, DASHED, DASHES, DOTS, INK, POLICY
from linmed.experiments.statistics import mean

DECADES = 10.0
"""Final regrets further apart than this factor are drawn on logarithmic axes."""


def grids(found: Findings) -> Iterator[Drawing]:
    """One figure for every first coordinate (where there are two), a panel for every last one."""
    drawn = [setting for setting in found.settings if setting.drawn]
    groups: dict[tuple[str | float, ...], list[Setting]] = {}
    for setting in drawn:
        groups.setdefault(setting.key[:-1], []).append(setting)
    for number, (group, settings) in enumerate(groups.items(), start=1):
        heading = labelled(found.experiment.figure, group[0]) if group else ""
        titles = [labelled(found.experiment.panel, setting.key[-1]) for setting in settings]
        figure = _panels(found, settings, titles, heading)
        name = found.experiment.name + (f"-{number}" if group else "")
        caption = f"{found.experiment.title}{', ' + heading if heading else ''}: {', '.join(titles)}."
        yield Drawing(name, caption, figure)


def _panels(found: Findings, settings: Sequence[Setting], titles: Sequence[str], heading: str) -> Figure:
    figure = Figure(figsize=(3.5 * len(settings), 3.75), layout="constrained")
    axes = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    logarithmic = _spans_decades(found, settings)
    for ax, setting, title in zip(axes, settings, titles, strict=True):
        _curves(ax, found, setting, found.names(*setting.key), logarithmic)
        ax.set_title(title)
        ax.set_xlabel("round")
        _scale(ax, found, [setting], logarithmic)
    _limits(axes, found, settings, logarithmic)
    axes[0].set_ylabel("cumulative regret")
    if heading:
        figure.suptitle(heading, fontsize=11, fontweight="bold")
    legend(figure, axes[0])
    return figure


def _curves(ax: Any, found: Findings, setting: Setting, names: Sequence[str], logarithmic: bool) -> None:
    results = found.results[setting.key]
    for name in names:
        line = POLICY[name]
        centre, error = results.mean(name), results.standard_error(name)
        wide = 2.1 if name in LINMED else 1.5
        ax.plot(
            results.checkpoints, centre, color=line.light, linestyle=line.dash, linewidth=wide, label=name
        )
        if np.isfinite(error).all():
            low, high = interval(centre, error, logarithmic)
            ax.fill_between(results.checkpoints, low, high, color=line.light, alpha=0.16, linewidth=0)


def _spans_decades(found: Findings, settings: Sequence[Setting]) -> bool:
    finals = [found.final(name, *s.key).mean() for s in settings for name in found.names(*s.key)]
    return bool(max(finals) > DECADES * max(min(finals), 1e-9))


def _scale(ax: Any, found: Findings, settings: Sequence[Setting], logarithmic: bool) -> None:
    horizon = max(setting.horizon for setting in settings)
    if logarithmic:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(_first(horizon), horizon)
        ax.xaxis.set_major_locator(LogLocator(numticks=6))
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        ax.set_xlim(0, horizon)
        ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))


def _first(horizon: int) -> int:
    """Where logarithmic axes begin."""
    return max(min(10, horizon), horizon // 10_000)


def _limits(
    axes: Sequence[Any],
    found: Findings,
    settings: Sequence[Setting],
    logarithmic: bool,
    without: Sequence[str] = (),
) -> None:
    """Room for every curve and its interval."""
    low, high = math.inf, 0.0
    for setting in settings:
        results = found.results[setting.key]
        seen = results.checkpoints >= _first(setting.horizon)
        for name in results.names:
            if name not in without:
                centre = results.mean(name)[seen]
                error = np.nan_to_num(results.standard_error(name)[seen])
                high = max(high, float(interval(centre, error, logarithmic)[1].max()))
                low = min(low, float(centre[centre > 0].min(initial=math.inf)))
    for ax in axes:
        if logarithmic:
            ax.set_ylim(low / 1.3 if math.isfinite(low) else None, high * 1.3)
        else:
            ax.set_ylim(0, high * 1.05 or 1.0)


def closer(found: Findings, key: Key, away: Sequence[str]) -> Drawing:
    """One setting twice: all policies, and without those far away."""
    setting, names = found.setting(*key), found.names(*key)
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    logarithmic = _spans_decades(found, [setting])
    _curves(left, found, setting, names, logarithmic)
    _scale(left, found, [setting], logarithmic)
    _limits([left], found, [setting], logarithmic)
    left.set_title("all policies")
    left.set_ylabel("cumulative regret")
    _curves(right, found, setting, [name for name in names if name not in away], False)
    _scale(right, found, [setting], False)
    _limits([right], found, [setting], False, away)
    right.set_title("the closest ones, on linear axes")
    for ax in (left, right):
        ax.set_xlabel("round")
    legend(figure, left)
    title = f"{found.experiment.title}: all policies on the left, the closest ones on the right."
    return Drawing(found.experiment.name, title, figure)


def finals(found: Findings, values: Sequence[int], axis: str, caption: str) -> Drawing:
    """Final regret against what tells the settings apart."""
    figure = Figure(figsize=(6.6, 4.2), layout="constrained")
    ax = figure.add_subplot()
    for name in found.names(values[0]):
        line = POLICY[name]
        estimates = [mean(found.final(name, value)) for value in values]
        centre = np.array([e.value for e in estimates])
        low, high = interval(centre, np.array([e.error for e in estimates]), logarithmic=True)
        ax.errorbar(
            values, centre, yerr=[centre - low, high - centre], color=line.light, linestyle=line.dash,
            marker=line.marker, markersize=5, capsize=3, linewidth=1.8, label=name,
        )  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(values, [str(value) for value in values])
    ax.set_xlabel(axis)
    ax.set_ylabel(f"regret after {found.horizon:,} rounds")
    legend(figure, ax, 4)
    return Drawing(found.experiment.name, caption, figure)


def theory(found: Findings) -> Drawing:
    """Measured regret, the bounds and the fitted growth on the same rounds."""
    curves = overlay(found)
    figure = Figure(figsize=(6.6, 4.4), layout="constrained")
    ax = figure.add_subplot()
    line = POLICY["LinMED-90"]
    rounds, p = curves.rounds, curves.exponent
    own, other = line.light, POLICY["LinTS-Freq"].light
    low, high = interval(curves.measured, curves.error, logarithmic=True)

    def draw(x: Any, y: Any, label: str, colour: str, width: float, **style: Any) -> None:
        ax.plot(x, y, color=colour, linewidth=width, label=label, **style)

    draw(rounds, curves.trivial, "largest gap × rounds", INK.light, 1.2, linestyle=DOTS)
    draw(rounds, curves.lemma, "regret lemma, best L", BOUND.light, 4.5, alpha=0.35)
    draw(rounds, curves.instance, "instance-dependent theorem", BOUND.light, 1.5, linestyle=DASHED)
    draw(rounds, curves.measured, "LinMED-90, δ = 1/(t+1), measured", own, 2.1)
    ax.fill_between(rounds, low, high, color=own, alpha=0.18, linewidth=0)
    fit = f"fit of the last decade: $t^{{{p.value:.2f}}}$"
    draw(curves.late, curves.fitted, fit, other, 1.8, linestyle=DASHES)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(_first(found.horizon), found.horizon)
    seen = curves.rounds >= _first(found.horizon)
    positive = curves.measured[seen & (curves.measured > 0)]
    ax.set_ylim(float(positive.min(initial=1.0)) / 2, float(curves.instance[seen].max()) * 3)
    ax.set_xlabel("round")
    ax.set_ylabel("cumulative regret")
    legend(figure, ax, 2)
    return Drawing(
        f"{found.experiment.name}-theory",
        f"{found.experiment.title}: measured regret, the paper's bounds and the fitted growth.",
        figure,
        curves.text,
    )
