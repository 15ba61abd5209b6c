"""What one panel of regret holds: means with their bands, medians, stuck trials, and its axes.

Regret is heavy-tailed: a mean may be made by one trial of twenty. So the median is drawn beside a mean that
is far above it, and a band only where the trials can tell regret from none at all.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from linmed.paper.drawing import THIN, interval
from linmed.paper.experiment import Findings, Setting
from linmed.paper.lineup import LINMED
from linmed.paper.statistics import mean
from linmed.report.figures import INK, POLICY
from linmed.validation import Floats

HEAVY = 0.75
"""Medians below this share of the mean are drawn."""
LINES = "Lines: mean; thin: median, where it is below three quarters of the mean"
READING = f"{LINES}; bands: 95 % (Student's t), where they do not reach down to zero."
READING_DOTS = f"{LINES}. Below: final means with 95 % intervals (Student's t), ticks at the medians."
MILLIONS = 500_000
"""Rounds from this horizon on are counted in millions."""


def first_round(horizon: int) -> int:
    """Where logarithmic axes begin."""
    return max(min(10, horizon), horizon // 10_000)


def panel(
    ax: Any, found: Findings, setting: Setting, names: Sequence[str] | None = None, *,
    logarithmic: bool = False, bands: bool = True,
) -> None:  # fmt: skip
    """The curves of these policies, all by default, on axes that fit them."""
    shown = found.names(*setting.key) if names is None else list(names)
    for name in shown:
        _curve(ax, found, setting, name, logarithmic, bands)
    _rounds(ax, setting.horizon, logarithmic)
    _regrets(ax, found, setting, shown, logarithmic)
    _stuck(ax, found, setting, shown, logarithmic)


def _curve(ax: Any, found: Findings, setting: Setting, name: str, logarithmic: bool, bands: bool) -> None:
    rounds, curves, line = found.rounds(*setting.key), found.curves(name, *setting.key), POLICY[name]
    centre = curves.mean(axis=0)
    width = 2.1 if name in LINMED else 1.5
    ax.plot(rounds, centre, color=line.light, linestyle=line.dash, linewidth=width, label=name)
    median = np.median(curves, axis=0)
    if median[-1] < HEAVY * centre[-1]:
        ax.plot(rounds, median, color=line.light, linestyle=line.dash, linewidth=THIN)
    error = _errors(curves)
    low, high = interval(centre, error, logarithmic, len(curves))
    if bands and np.isfinite(error).all() and interval(centre[-1:], error[-1:], False, len(curves))[0][0] > 0:
        ax.fill_between(rounds, np.maximum(low, 0.0), high, color=line.light, alpha=0.14, linewidth=0)


def _errors(curves: Floats) -> Floats:
    """Standard errors of the mean (checkpoints,); NaN with fewer than two trials."""
    if len(curves) < 2:
        return np.full(curves.shape[1], np.nan)
    errors: Floats = curves.std(axis=0, ddof=1) / math.sqrt(len(curves))
    return errors


def _rounds(ax: Any, horizon: int, logarithmic: bool) -> None:
    ax.set_xlabel("round")
    if logarithmic:
        ax.set_xscale("log")
        ax.set_xlim(first_round(horizon), horizon)
        ax.xaxis.set_major_locator(LogLocator(numticks=6))
        return
    ax.set_xlim(0, horizon)
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    if horizon >= MILLIONS:
        ax.set_xlabel("round (millions)")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1e6:g}"))
    else:
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))


def _regrets(ax: Any, found: Findings, setting: Setting, names: Sequence[str], logarithmic: bool) -> None:
    """Room for every mean; bands that are much wider are cut off."""
    seen = found.rounds(*setting.key) >= first_round(setting.horizon)
    means = np.array([found.curves(name, *setting.key).mean(axis=0)[seen] for name in names])
    high = float(means.max(initial=0.0))
    if logarithmic:
        ax.set_yscale("log")
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set_ylim(float(means[means > 0].min(initial=high or 1.0)) / 1.3, 1.6 * high or 2.0)
    else:
        ax.set_ylim(0, 1.08 * high or 1.0)
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.10g}"))


def _stuck(ax: Any, found: Findings, setting: Setting, names: Sequence[str], logarithmic: bool) -> None:
    """Of rounds fewer than the paper's nothing is said: until then everyone explores."""
    if setting.gap is None or found.shortened:
        return
    shares = {name: float(found.stuck(name, *setting.key).mean()) for name in names}
    said = [f"{name} {100 * share:.3g} %" for name, share in shares.items() if share > 0]
    if said:
        at, side, foot = (0.97, "right", 0.03) if logarithmic else (0.03, "left", 0.97)
        ax.text(
            at, foot, "\n".join(["stuck trials:", *said]), transform=ax.transAxes, fontsize=7.5,
            color=INK.light, ha=side, va="bottom" if logarithmic else "top", linespacing=1.25,
        )  # fmt: skip


def ends(ax: Any, found: Findings, setting: Setting, labelled: bool) -> None:
    """Final regrets as dots with 95 % intervals and ticks at the medians, a line per policy, first on top."""
    names = found.names(*setting.key)
    for place, name in enumerate(names):
        line, final = POLICY[name], found.final(name, *setting.key)
        estimate = mean(final)
        low, high = (min(max(end, 0.0), 1e300) for end in estimate.interval())
        if len(final) > 1:
            ax.plot([low, high], [place, place], color=line.light, linewidth=1.6, solid_capstyle="butt")
        ax.plot([estimate.value], [place], color=line.light, marker=line.marker, markersize=5.5)
        ax.plot([float(np.median(final))], [place], color=line.light, marker="|", markersize=9)
    highest = max(float(found.final(name, *setting.key).mean()) for name in names)
    ax.set_xlim(0, 1.25 * highest or 1.0)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_yticks(range(len(names)), names if labelled else [""] * len(names))
    ax.grid(axis="y", visible=False)
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10], prune="upper"))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    ax.set_xlabel(f"regret after {setting.horizon:,} rounds")
