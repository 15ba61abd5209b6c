"""Draw the figures of a report: how all of them look, and panels of regret on the paper's axes.

Regret is heavy-tailed: a mean may be made by one trial of twenty. So the median is drawn beside a mean that
is far above it, and a band only where the trials can tell regret from none at all.
"""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import stdtrit

from linmed.extras import Later
from linmed.paper.experiment import Findings, Key, Setting, labelled
from linmed.paper.roster import LINMED, Variant
from linmed.paper.statistics import LEVEL, Estimate, Normal, mean
from linmed.report.figures import INK, POLICY, STYLE, THEMED, Line, embedded, variable
from linmed.validation import Floats

matplotlib: Any = Later("matplotlib", "a figure", "plot")
figures: Any = Later("matplotlib.figure", "a figure", "plot")
layout_engine: Any = Later("matplotlib.layout_engine", "a figure", "plot")
lines: Any = Later("matplotlib.lines", "a figure", "plot")
ticker: Any = Later("matplotlib.ticker", "a figure", "plot")

NARROW = 7.0
"""Figures up to this width, in inches, are fitted into the width of a phone; wider ones are scrolled."""
MARGIN = 0.08
"""Inches around panels: letters are a little wider in one file than in the other."""
THIN = 0.7
"""Width of a median's line, which the legend explains."""
HEAVY = 0.75
"""Medians below this share of the mean are drawn."""
SAID = "Lines: mean; thin: median, where it is below three quarters of the mean"
READING = f"{SAID}; bands: 95 % (Student's t), where they do not reach down to zero."
READING_DOTS = f"{SAID}. Below: final means with 95 % intervals (Student's t), ticks at the medians."
MILLIONS = 500_000
"""Rounds from this horizon on are counted in millions."""


@dataclass(frozen=True)
class Drawing:
    """A figure with its file name and what it shows."""

    name: str
    caption: str
    figure: Any

    def png(self) -> bytes:
        """Write it on white paper, 150 dots an inch."""
        sink = io.BytesIO()
        self._save(sink, format="png", dpi=150, facecolor="white", metadata={"Software": None})
        return sink.getvalue()

    @cached_property
    def svg(self) -> str:
        """A file of its own."""
        sink = io.StringIO()
        self._save(sink, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        return sink.getvalue()

    def _save(self, sink: Any, **how: Any) -> None:
        """Lay it out once for both files, which takes longer than drawing, and write it."""
        with matplotlib.rc_context(STYLE):
            engine = self.figure.get_layout_engine()
            if isinstance(engine, layout_engine.ConstrainedLayoutEngine):
                engine.set(w_pad=MARGIN, h_pad=MARGIN)
                self.figure.draw_without_rendering()
                self.figure.set_layout_engine("none")
            self.figure.savefig(sink, **how)

    def inline(self) -> str:
        """Make the SVG for a page: colours follow the page's paper, names are unique within it."""
        svg = str(embedded(self.svg, self.name, self.caption))
        for line in THEMED:
            svg = svg.replace(line.light, f"var({variable(line)})")
        width = self.figure.get_size_inches()[0]
        least, most = round((68 if width > NARROW else 52) * width), round(110 * width)
        return svg.replace("<svg", f'<svg style="min-width:{least}px;max-width:{most}px"', 1)


def figure_name(name: str, variant: Variant) -> str:
    """Name the file, without its ending: a report may have an experiment as the text has it and as run."""
    return name if variant == "text" else f"{name}-{variant}"


def drawings(found: Findings) -> list[Drawing]:
    """Draw all figures of one experiment."""
    with matplotlib.rc_context(STYLE):
        drawn = list(found.experiment.drawings(found))
    return [replace(drawing, name=figure_name(drawing.name, found.variant)) for drawing in drawn]


# ---- parts of any figure


def new(width: float, height: float, rows: int = 1, columns: int = 1, **panels: Any) -> tuple[Any, Any]:
    """Make a figure of this size in inches and its panels: one, or an array of them."""
    figure = figures.Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **panels)


def interval(centre: Floats, error: Floats, logarithmic: bool, trials: int) -> tuple[Floats, Floats]:
    """Give 95 % to either side by Student's t of so many trials.

    On logarithmic axes the interval is one of the logarithm, so that regret stays positive.
    """
    margin = -float(stdtrit(max(trials - 1, 1), LEVEL / 2)) * np.nan_to_num(error)
    if not logarithmic:
        return centre - margin, centre + margin
    exponent = np.divide(margin, centre, out=np.zeros_like(centre), where=centre > 0)
    factor = np.exp(np.minimum(exponent, 50.0))
    return centre / factor, centre * factor


def whiskers(ax: Any, places: Any, estimates: Sequence[Normal], line: Line, *, logarithmic: bool = True,
             across: bool = False, **style: Any) -> None:  # fmt: skip
    """Draw estimates with 95 % intervals at these places, along the x axis or `across` it."""
    centre = np.array([estimate.value for estimate in estimates])
    error = np.array([estimate.error for estimate in estimates])
    low, high = interval(centre, error, logarithmic, estimates[0].trials)
    style = {"color": line.light, "linestyle": line.dash, "marker": line.marker, "markersize": 5,
             "capsize": 3, "linewidth": 1.6, **style}  # fmt: skip
    margins = [centre - low, high - centre]
    if across:
        ax.errorbar(centre, places, xerr=margins, **style)
    else:
        ax.errorbar(places, centre, yerr=margins, **style)


def numbered(axis: Any, form: str = ",.10g", scale: float = 1.0) -> None:
    """Label an axis with numbers in this form."""
    axis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x / scale:{form}}"))


def few_ticks(axis: Any, count: int = 4, **where: Any) -> None:
    """Put at most so many round numbers on a linear axis."""
    axis.set_major_locator(ticker.MaxNLocator(count, steps=[1, 2, 2.5, 5, 10], **where))


def log_ticks(axis: Any, form: str = ",.10g") -> None:
    """Put 1, 2, 5, 10, … on a logarithmic axis, as plain numbers."""
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    numbered(axis, form)
    axis.set_minor_formatter(ticker.NullFormatter())


def rows_of(ax: Any, names: Sequence[str], room: float = 0.4) -> None:
    """Give each name a line, the first on top."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - room, -1.0 + room)


def legend(figure: Any, ax: Any, columns: int | None = None) -> None:
    """Put the legend below the panels, where it covers nothing."""
    handles, labels = ax.get_legend_handles_labels()
    if any(line.get_linewidth() == THIN for panel in figure.axes for line in panel.lines):
        handles.append(lines.Line2D([], [], color=INK.light, linewidth=THIN))
        labels.append("thin: median")
    fits = columns or max(2, int(figure.get_size_inches()[0] // 1.7))
    figure.legend(handles, labels, loc="outside lower center", ncols=min(fits, len(labels)), handlelength=3.2)


def finite_ends(estimate: Estimate) -> tuple[float, float]:
    """The ends of an interval; the value itself for an end that is infinite."""
    low, high = (end if math.isfinite(end) else estimate.value for end in estimate.interval())
    return low, high


# ---- panels of regret


def first_round(horizon: int) -> int:
    """Say where logarithmic axes begin."""
    return max(min(10, horizon), horizon // 10_000)


def panel(
    ax: Any, found: Findings, setting: Setting, names: Sequence[str] | None = None, *,
    logarithmic: bool = False, bands: bool = True,
) -> None:  # fmt: skip
    """Draw the curves of these policies, all by default, on axes that fit them."""
    shown = found.names(*setting.key) if names is None else list(names)
    for name in shown:
        _curve(ax, found, setting, name, logarithmic, bands)
    rounds_axis(ax, setting.horizon, logarithmic)
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
    if bands and len(curves) > 1:
        error = curves.std(axis=0, ddof=1) / math.sqrt(len(curves))
        low, high = interval(centre, error, logarithmic, len(curves))
        if interval(centre[-1:], error[-1:], False, len(curves))[0][0] > 0:
            ax.fill_between(rounds, np.maximum(low, 0.0), high, color=line.light, alpha=0.14, linewidth=0)


def rounds_axis(ax: Any, horizon: int, logarithmic: bool = False) -> None:
    """Make the x axis one of rounds."""
    ax.set_xlabel("round")
    if logarithmic:
        ax.set_xscale("log")
        ax.set_xlim(first_round(horizon), horizon)
        ax.xaxis.set_major_locator(ticker.LogLocator(numticks=6))
        return
    ax.set_xlim(0, horizon)
    few_ticks(ax.xaxis)
    if horizon >= MILLIONS:
        ax.set_xlabel("round (millions)")
        numbered(ax.xaxis, "g", 1e6)
    else:
        numbered(ax.xaxis, ",.0f")


def _regrets(ax: Any, found: Findings, setting: Setting, names: Sequence[str], logarithmic: bool) -> None:
    """Leave room for every mean; bands that are much wider are cut off."""
    seen = found.rounds(*setting.key) >= first_round(setting.horizon)
    means = np.array([found.curves(name, *setting.key).mean(axis=0)[seen] for name in names])
    high = float(means.max(initial=0.0))
    if logarithmic:
        ax.set_yscale("log")
        ax.yaxis.set_minor_formatter(ticker.NullFormatter())
        ax.set_ylim(float(means[means > 0].min(initial=high or 1.0)) / 1.3, 1.6 * high or 2.0)
    else:
        ax.set_ylim(0, 1.08 * high or 1.0)
        few_ticks(ax.yaxis, 5)
        numbered(ax.yaxis)


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


def _ends(ax: Any, found: Findings, setting: Setting, labels: bool) -> None:
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
    rows_of(ax, names if labels else [""] * len(names))
    ax.grid(axis="y", visible=False)
    few_ticks(ax.xaxis, prune="upper")
    numbered(ax.xaxis)
    ax.set_xlabel(f"regret after {setting.horizon:,} rounds")


# ---- whole figures of regret


def grids(
    found: Findings, order: Sequence[int] = (), dots: bool = False, logarithmic: bool = False
) -> Iterator[Drawing]:
    """Draw a figure for every first coordinate (where there are two), a panel for every last one.

    order: the figures by their numbers, which are part of their names, in another order. dots: final regrets
    below the curves, which tell apart what runs in a bundle.
    """
    groups: dict[Key, list[Setting]] = {}
    for setting in found.settings:
        if setting.drawn:
            groups.setdefault(setting.key[:-1], []).append(setting)
    counted = list(enumerate(groups.items(), start=1))
    for number, (group, settings) in [counted[place - 1] for place in order] or counted:
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
) -> Any:  # fmt: skip
    height = 3.75 + (0.4 + 0.21 * len(settings[0].policies) if dots else 0.0)
    figure = figures.Figure(figsize=(3.5 * len(settings), height))
    figure.set_layout_engine("constrained", wspace=0.07)  # room for the last tick's label
    ratios = [2.6, height - 3.75] if dots else [1.0]
    axes = figure.subplots(len(ratios), len(settings), squeeze=False, height_ratios=ratios)
    for column, (setting, title) in enumerate(zip(settings, titles, strict=True)):
        panel(axes[0][column], found, setting, logarithmic=logarithmic, bands=not dots)
        axes[0][column].set_title(title)
        if dots:
            _ends(axes[1][column], found, setting, column == 0)
    axes[0][0].set_ylabel("cumulative regret")
    if heading:
        figure.suptitle(heading, fontsize=11, fontweight="bold")
    legend(figure, axes[0][0])
    return figure


def against(ax: Any, found: Findings, cells: Mapping[int, Key]) -> None:
    """Draw mean final regrets with 95 % intervals, on a logarithmic axis, by what tells settings apart."""
    for name in found.names(*next(iter(cells.values()))):
        estimates = [mean(found.final(name, *key)) for key in cells.values()]
        whiskers(ax, list(cells), estimates, POLICY[name], linewidth=1.8, label=name)
    ax.set_yscale("log")
    log_ticks(ax.yaxis)
