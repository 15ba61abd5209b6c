"""The figures, in the paper's arrangement: mean regret and 95 % intervals over trials."""

import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from linmed.checks import Floats
from linmed.experiments.bounds import overlays
from linmed.experiments.catalogue import ARM_COUNTS, Setting
from linmed.experiments.findings import Findings
from linmed.experiments.lineup import LINMED
from linmed.experiments.offline import (
    LINMED_EXACT,
    LINTS_EXACT,
    ORACLE,
    SAMPLES,
    floor_column,
    plus_one_column,
)
from linmed.experiments.palette import BOUND, FAINT, INK, POLICY, THEMED, variable
from linmed.experiments.statistics import mean

DECADES = 10.0
"""Final regrets further apart than this factor are drawn on logarithmic axes."""

STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "text.color": INK.light,
    "axes.labelcolor": INK.light,
    "axes.edgecolor": INK.light,
    "xtick.color": INK.light,
    "ytick.color": INK.light,
    "grid.color": FAINT.light,
    "axes.grid": True,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "linmed",
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Drawing:
    """A figure with its file name and what it shows."""

    name: str
    caption: str
    figure: Figure

    def png(self) -> bytes:
        """On white paper, 150 dots an inch."""
        sink = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.figure.savefig(sink, format="png", dpi=150, facecolor="white", metadata={"Software": None})
        return sink.getvalue()

    @cached_property
    def svg(self) -> str:
        """A file of its own."""
        sink = io.StringIO()
        with matplotlib.rc_context(STYLE):
            self.figure.savefig(
                sink, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
            )
        return sink.getvalue()

    def inline(self) -> str:
        """The SVG for a page: colours follow the page's paper, names are unique within it."""
        svg = self.svg
        svg = svg[svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        svg = re.sub(r'\bid="', f'id="{self.name}-', svg)
        svg = svg.replace('href="#', f'href="#{self.name}-').replace("url(#", f"url(#{self.name}-")
        for line in THEMED:
            svg = svg.replace(line.light, f"var({variable(line)})")
        width = self.figure.get_size_inches()[0]
        least, most = round(68 * width), round(110 * width)
        svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
        label = self.caption.replace('"', "&quot;").replace("<", "&lt;")
        return re.sub(
            r'(<svg[^>]*?) width="[^"]*"',
            rf'\1 role="img" aria-label="{label}" style="min-width:{least}px;max-width:{most}px"',
            svg,
            count=1,
        )


def drawings(found: Findings) -> list[Drawing]:
    """All figures of one experiment."""
    with matplotlib.rc_context(STYLE):
        return list(_drawings(found))


def _drawings(found: Findings) -> Iterator[Drawing]:
    name = found.experiment.name
    if name == "offline-evaluation":
        yield _histograms(found)
        yield _propensities(found)
    elif name == "arm-count":
        yield _arm_count(found)
    elif name == "large-gap":
        yield _large_gap(found)
    else:
        yield from _grids(found)
    if any(setting.key == ("theory",) for setting in found.settings):
        yield _theory(found)


def _grids(found: Findings) -> Iterator[Drawing]:
    """One figure for every first coordinate (where there are two), a panel for every last one."""
    drawn = [setting for setting in found.settings if setting.drawn]
    groups: dict[tuple[str | float, ...], list[Setting]] = {}
    for setting in drawn:
        groups.setdefault(setting.key[:-1], []).append(setting)
    for number, (group, settings) in enumerate(groups.items(), start=1):
        symbol = found.experiment.figure
        heading = f"{symbol} = {group[0]}" if group and symbol else str(group[0]) if group else ""
        titles = [_panel(found, setting) for setting in settings]
        figure = _panels(found, settings, titles, heading)
        name = found.experiment.name + (f"-{number}" if group else "")
        caption = f"{found.experiment.title}{', ' + heading if heading else ''}: {', '.join(titles)}."
        yield Drawing(name, caption, figure)


def _panel(found: Findings, setting: Setting) -> str:
    symbol, value = found.experiment.panel, setting.key[-1]
    if symbol == "D":
        return f"delay {value}"
    return f"{symbol} = {value}" if symbol else str(value)


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
    _legend(figure, axes[0])
    return figure


def interval(centre: Floats, error: Floats, logarithmic: bool) -> tuple[Floats, Floats]:
    """95 % to either side; on logarithmic axes of the logarithm, so that regret stays positive."""
    margin = 1.96 * np.nan_to_num(error)
    if not logarithmic:
        return centre - margin, centre + margin
    factor = np.exp(np.divide(margin, centre, out=np.zeros_like(centre), where=centre > 0))
    return centre / factor, centre * factor


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


def _legend(figure: Figure, ax: Any, columns: int | None = None) -> None:
    """Below the panels, where it covers nothing."""
    handles, labels = ax.get_legend_handles_labels()
    fits = columns or max(2, int(figure.get_size_inches()[0] // 1.7))
    figure.legend(handles, labels, loc="outside lower center", ncols=min(fits, len(labels)), handlelength=3.2)


def _large_gap(found: Findings) -> Drawing:
    setting = found.setting("all")
    names = found.names("all")
    away = ("SpannerIGW", "SpannerIGW-AT", "LinTS-Freq", "EXP2", "LinIMED-1", "LinIMED-3")
    closer = [name for name in names if name not in away]
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    logarithmic = _spans_decades(found, [setting])
    _curves(left, found, setting, names, logarithmic)
    _scale(left, found, [setting], logarithmic)
    _limits([left], found, [setting], logarithmic)
    left.set_title("all policies")
    left.set_ylabel("cumulative regret")
    _curves(right, found, setting, closer, False)
    _scale(right, found, [setting], False)
    _limits([right], found, [setting], False, away)
    right.set_title("the closest ones, on linear axes")
    for ax in (left, right):
        ax.set_xlabel("round")
    _legend(figure, left)
    return Drawing(
        found.experiment.name, "Large gap: all policies on the left, the closest ones on the right.", figure
    )


def _arm_count(found: Findings) -> Drawing:
    figure = Figure(figsize=(6.6, 4.2), layout="constrained")
    ax = figure.add_subplot()
    for name in found.names(ARM_COUNTS[0]):
        line = POLICY[name]
        finals = [mean(found.final(name, K)) for K in ARM_COUNTS]
        centre = np.array([f.value for f in finals])
        low, high = interval(centre, np.array([f.error for f in finals]), logarithmic=True)
        ax.errorbar(
            ARM_COUNTS,
            centre,
            yerr=[centre - low, high - centre],
            color=line.light,
            linestyle=line.dash,
            marker=line.marker,
            markersize=5,
            capsize=3,
            linewidth=1.8,
            label=name,
        )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(ARM_COUNTS, [str(K) for K in ARM_COUNTS])
    ax.set_xlabel("number of arms K")
    ax.set_ylabel(f"regret after {found.horizon:,} rounds")
    _legend(figure, ax, 4)
    return Drawing(
        found.experiment.name, "Regret against the number of arms, K − 1 of which are copies.", figure
    )


def _histograms(found: Findings) -> Drawing:
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    axes = figure.subplots(1, len(SAMPLES), sharey=True)
    every = np.concatenate([found.scores[c] for c in (LINMED_EXACT, *map(floor_column, SAMPLES))])
    low, high = np.quantile(every, [0.001, 0.999])
    edges = np.linspace(max(math.floor(10 * low) / 10, 0.0), min(math.ceil(10 * high) / 10, 2.0), 61)
    own, other = POLICY["LinMED-50"], POLICY["LinTS-Freq"]
    for ax, M in zip(axes, SAMPLES, strict=True):
        for scores, line, label in (
            (found.scores[LINMED_EXACT], own, "LinMED-50, exact probability"),
            (found.scores[floor_column(M)], other, "LinTS-Freq, M Monte-Carlo samples, floor 0.5/M"),
        ):
            weights = np.full(len(scores), 1.0 / len(scores))
            ax.hist(scores, edges, weights=weights, color=line.light, alpha=0.45, label=label)
            ax.hist(scores, edges, weights=weights, color=line.light, histtype="step", linewidth=1.2)
            ax.axvline(float(scores.mean()), color=line.light, linestyle=line.dash, linewidth=1.6)
        ax.axvline(ORACLE, color=INK.light, linestyle=(0, (2, 2)), linewidth=1.2, label="true value 0.8")
        beyond = float((found.scores[floor_column(M)] > edges[-1]).mean())
        ax.set_title(
            f"M = {M:,}" + (f"  ({100 * beyond:.1f} % beyond {edges[-1]:g})" if beyond >= 0.001 else "")
        )
        ax.set_xlabel("IPW score of the uniform policy")
        ax.set_xlim(edges[0], edges[-1])
    axes[0].set_ylabel("share of trials")
    _legend(figure, axes[0], 3)
    return Drawing(found.experiment.name, "IPW scores of the uniform policy; lines mark the means.", figure)


def _propensities(found: Findings) -> Drawing:
    """The same log, three ways to find the propensity."""
    figure = Figure(figsize=(6.4, 3.9), layout="constrained")
    ax = figure.add_subplot()
    other = POLICY["LinTS-Freq"]
    x = np.log10(SAMPLES)
    kinds = (
        ("LinTS-Freq, floor 0.5/M", [floor_column(M) for M in SAMPLES], other, "-", "o", -0.03),
        (
            "LinTS-Freq, (X+1)/(M+1)",
            [plus_one_column(M) for M in SAMPLES],
            POLICY["LinTS-Bayes"],
            "--",
            "s",
            0.03,
        ),
        ("LinTS-Freq, exact", [LINTS_EXACT] * len(SAMPLES), POLICY["LinIMED-1"], "-", "D", 0.0),
        ("LinMED-50, exact", [LINMED_EXACT] * len(SAMPLES), POLICY["LinMED-50"], "-", "^", 0.06),
    )
    for label, columns, line, dash, marker, shift in kinds:
        estimates = [mean(found.scores[column]) for column in columns]
        ax.errorbar(
            x + shift,
            [e.value for e in estimates],
            yerr=[1.96 * np.nan_to_num(e.error) for e in estimates],
            color=line.light,
            linestyle=dash,
            marker=marker,
            markersize=5,
            capsize=3,
            label=label,
        )
    ax.axhline(ORACLE, color=INK.light, linestyle=(0, (2, 2)), linewidth=1.2, label="true value 0.8")
    ax.set_xticks(x, [f"{M:,}" for M in SAMPLES])
    ax.set_xlabel("Monte-Carlo samples M")
    ax.set_ylabel("mean IPW score")
    _legend(figure, ax, 2)
    return Drawing(
        f"{found.experiment.name}-propensities",
        "Mean IPW score by how the propensity was found, with 95 % intervals.",
        figure,
    )


def _theory(found: Findings) -> Drawing:
    overlay = overlays(found)
    figure = Figure(figsize=(6.6, 4.4), layout="constrained")
    ax = figure.add_subplot()
    line = POLICY["LinMED-90"]
    ax.plot(
        overlay.rounds,
        overlay.trivial,
        color=INK.light,
        linestyle=(0, (1.2, 1.2)),
        linewidth=1.2,
        label="largest gap × rounds",
    )
    ax.plot(
        overlay.rounds,
        overlay.lemma,
        color=BOUND.light,
        linewidth=4.5,
        alpha=0.35,
        label="regret lemma, best L",
    )
    ax.plot(
        overlay.rounds,
        overlay.instance,
        color=BOUND.light,
        linestyle=(0, (6, 1.5)),
        linewidth=1.5,
        label="instance-dependent theorem",
    )
    low, high = interval(overlay.measured, overlay.error, logarithmic=True)
    ax.plot(
        overlay.rounds,
        overlay.measured,
        color=line.light,
        linewidth=2.1,
        label="LinMED-90, δ = 1/(t+1), measured",
    )
    ax.fill_between(overlay.rounds, low, high, color=line.light, alpha=0.18, linewidth=0)
    p = overlay.exponent
    ax.plot(
        overlay.late,
        overlay.fitted,
        color=POLICY["LinTS-Freq"].light,
        linestyle=(0, (3, 1.5)),
        linewidth=1.8,
        label=f"fit of the last decade: $t^{{{p.value:.2f}}}$",
    )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(_first(found.horizon), found.horizon)
    seen = overlay.rounds >= _first(found.horizon)
    positive = overlay.measured[seen & (overlay.measured > 0)]
    ax.set_ylim(float(positive.min(initial=1.0)) / 2, float(overlay.instance[seen].max()) * 3)
    ax.set_xlabel("round")
    ax.set_ylabel("cumulative regret")
    _legend(figure, ax, 2)
    return Drawing(
        f"{found.experiment.name}-theory",
        f"{overlay.title}: measured regret, the paper's bounds and the fitted growth.",
        figure,
    )
