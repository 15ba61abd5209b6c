"""Draw figures in one style: colours, axes, estimates with intervals, shares.

matplotlib is imported when something is drawn, and not before: it takes longer than a first decision.
"""

import html
import io
import math
import os
import re
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from linmed.extras import require
from linmed.report.html import Markup
from linmed.validation import BadType

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Line(NamedTuple):
    """How a policy is drawn."""

    light: str
    dark: str
    dash: str | tuple[float, tuple[float, ...]] = "-"
    marker: str = "o"


DASHED, DASHES, DASH_DOT, DOTS = (0, (6.0, 1.5)), (0, (3.0, 1.5)), (0, (6.0, 1.5, 1.2, 1.5)), (0, (1.2, 1.2))

POLICY: dict[str, Line] = {
    "LinMED-99": Line("#0b4f8a", "#3d9be9", "-", "o"),
    "LinMED-90": Line("#1f83c9", "#7cc0f5", DASHED, "s"),
    "LinMED-50": Line("#5ab0ea", "#b7dcfb", DASH_DOT, "^"),
    "LinMEDNOPT": Line("#7a5a1e", "#d8b26a", "-", "D"),
    "OFUL": Line("#1c1c1e", "#f4f4f5", "-", "v"),
    "LinTS-Freq": Line("#d55e00", "#ff8b3d", "-", "P"),
    "LinTS-Bayes": Line("#e39a00", "#ffc44d", DASHED, "X"),
    "LinIMED-1": Line("#a3337c", "#e07abf", "-", "<"),
    "LinIMED-3": Line("#d884b9", "#f3b9dd", DASHES, ">"),
    "SpannerIGW": Line("#006d50", "#20b98c", "-", "h"),
    "SpannerIGW-AT": Line("#18a87e", "#7fe3c3", DASHED, "*"),
    "EXP2": Line("#77787b", "#a9abb0", DOTS, "d"),
}

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1c1c1e", "#8c6d31")
"""What is told apart by nothing but its place: Okabe and Ito's own hues, …"""
DASH = ("-", "--", "-.", ":")
"""… and a dash for each time they have all been used."""

INK = Line("#23272d", "#e4e7eb")
FAINT = Line("#d9dde2", "#3a4048")
BOUND = Line("#8e1b2e", "#ff8595")

THEMED: tuple[Line, ...] = (*POLICY.values(), INK, FAINT, BOUND)
"""Everything that changes with the paper."""

LEADING, POSSIBLE, RULED_OUT = "#0072b2", "#d55e00", "#8b929a"
"""What leads, what may still be better, and what is surely worse."""


def series(place: int) -> tuple[str, str]:
    """Colour and dash of the so many-th line of a figure."""
    return SERIES[place % len(SERIES)], DASH[place // len(SERIES) % len(DASH)]


def variable(line: Line) -> str:
    """The CSS variable that holds a colour."""
    return f"--c{line.light[1:]}"


def stylesheet() -> str:
    """The variables for light paper, and for dark where the reader's system asks for it."""
    light = "".join(f"{variable(line)}:{line.light};" for line in THEMED)
    dark = "".join(f"{variable(line)}:{line.dark};" for line in THEMED)
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"


WIDTH = 6.4
"""Inches that fit the column of a notebook and of a page."""
ROW = 0.27
"""Inches of a line with a name."""
LONGEST = 26
"""Characters of a name beside a line; of a longer one the middle is left out."""
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


class Estimate(NamedTuple):
    """One line of `intervals`; NaN where there is no bound."""

    name: str
    value: float
    lower: float
    upper: float
    colour: str = LEADING


@contextmanager
def styled() -> Iterator[None]:
    """Our style, for what is drawn within."""
    require("a plot", "plot")
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def axes(ax: "Axes | None", height: float, width: float = WIDTH, shown: bool = True) -> "Axes":
    """`ax`, or those of a new figure of this size in inches, which a notebook shows by itself if `shown`.

    If not, it is not pyplot's: no window, nothing global, safe in threads.
    """
    if ax is not None or shown:
        return panels(None if ax is None else [ax], [height], width)[0]
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def panels(given: "Sequence[Axes] | None", heights: Sequence[float], width: float = WIDTH) -> "list[Axes]":
    """As many axes as there are heights, one below the other and with one x axis, unless they are given."""
    if given is not None:
        several = isinstance(given, (list, tuple)) or hasattr(given, "ravel")
        found: list[Any] = list(given) if several else [given]
        if len(found) != len(heights) or not all(hasattr(ax, "plot") for ax in found):
            wanted = "axes of matplotlib" if len(heights) == 1 else f"{len(heights)} axes of matplotlib"
            raise BadType("ax", f"ax must be {wanted}, or None, got {given!r}")
        return found
    import matplotlib.pyplot as plt

    _, made = plt.subplots(
        len(heights), 1, figsize=(width, sum(heights)), height_ratios=heights, sharex=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    return list(made[:, 0])


def saved(ax: "Axes", path: "str | os.PathLike[str]") -> None:
    """Write the whole figure to a file: PNG, PDF or SVG by its ending."""
    ax.figure.savefig(path, dpi=150)  # type: ignore[union-attr]


def inline(figure: Any, name: str, label: str) -> Markup:
    """A figure as SVG within a page, where `name` makes its names unique."""
    sink = io.StringIO()
    with styled():
        figure.savefig(sink, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return embedded(sink.getvalue(), name, label)


def embedded(svg: str, name: str, label: str) -> Markup:
    """A file of SVG as part of a page."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)
    svg = svg.replace('href="#', f'href="#{name}-').replace("url(#", f"url(#{name}-")
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    look = rf'\1 role="img" aria-label="{html.escape(label)}"'
    return Markup(re.sub(r'(<svg[^>]*?) width="[^"]*"', look, svg, count=1))


def height_of(rows: int) -> float:
    """Inches for so many lines with a name, and an axis below them."""
    return 0.95 + ROW * max(rows, 2)


def shortened(name: object, longest: int = LONGEST) -> str:
    """A name that fits beside a line, and that no mathematics of matplotlib is read into."""
    text = " ".join(str(name).split())
    if len(text) > longest:
        first = (longest - 1) // 2
        text = f"{text[:first]}…{text[len(text) - (longest - 1 - first) :]}"
    return text.replace("$", r"\$")


def labels(names: Sequence[str]) -> list[str]:
    """Names that fit, and that can be told apart if the names themselves can and have one beginning."""
    short = [shortened(name) for name in names]
    if len(set(short)) < len(set(names)):
        first, last = min(names), max(names)  # what these two begin with, all do
        same = next((i for i, letter in enumerate(first) if letter != last[i]), len(first))
        ends = [f"…{name[same:]}" for name in names]
        short = [shortened(end if len(end) <= LONGEST else f"{end[: LONGEST - 1]}…") for end in ends]
    return short


def keyed(ax: "Axes", label: str, key: str, short: str | None = None) -> str:
    """A label, and below it what colours mean; where there is no room for that, a short one."""
    return f"{label}\n{key}" if inches(ax) >= 4.0 else short or label


def inches(ax: "Axes") -> float:
    """How wide axes are, before they have been laid out."""
    return float(ax.bbox.width / ax.figure.dpi)


def name_lines(ax: "Axes", names: Sequence[object]) -> None:
    """A line for each name, the first on top."""
    ax.set_yticks(range(len(names)), labels([str(name) for name in names]))
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)


def intervals(ax: "Axes", rows: Sequence[Estimate], zero: bool = False) -> None:
    """A line for each estimate: its interval, with an arrow where that goes on beyond the axis, and a mark.

    An interval may be so wide that all others would be dots: the axis ends three usual widths from the
    outermost estimates. With `zero`, a line where nothing differs.
    """
    finite = [x for row in rows for x in row[1:4] if math.isfinite(x)] or [0.0]
    finite += [0.0] if zero else []
    low, high = min(finite), max(finite)
    marks = [row.value for row in rows if math.isfinite(row.value)] + ([0.0] if zero else [])
    widths = [row.upper - row.lower for row in rows if math.isfinite(row.upper - row.lower)]
    if marks and widths and statistics.median(widths) > 0.0:
        reach = 3.0 * statistics.median(widths)
        low, high = max(low, min(marks) - reach), min(high, max(marks) + reach)
    room = 0.06 * (high - low) or 0.1 * abs(high) or 0.5
    low, high = low - room, high + room
    if zero:
        ax.axvline(0.0, color=INK.light, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
    for place, row in enumerate(rows):
        if not (math.isnan(row.lower) or math.isnan(row.upper)):
            ends = [max(row.lower, low), min(row.upper, high)]
            ax.plot(ends, [place, place], color=row.colour, linewidth=2.0, solid_capstyle="butt")
            for end, shape, beyond in ((ends[0], 4, row.lower < low), (ends[1], 5, row.upper > high)):
                # 4 and 5 are carets whose tip is at the place, to the left and to the right.
                mark: Any = shape if beyond else "|"
                ax.plot([end], [place], color=row.colour, marker=mark, markersize=6, clip_on=False)
        if math.isfinite(row.value):
            ax.plot([row.value], [place], color=row.colour, marker="o", markersize=5)
    ax.set_xlim(low, high)
    name_lines(ax, [row.name for row in rows])


def shares(
    ax: "Axes", values: Sequence[float], colours: Sequence[str], label: str, room: float = 1.8
) -> None:
    """Shares of 1 as bars, one for each line, on an axis to 100 %; `room` for their numbers behind that."""
    ax.barh(range(len(values)), list(values), 0.62, color=list(colours))
    for place, value in enumerate(values):
        ax.annotate(
            percent(value), (max(value, 0.0), place), (3, 0), textcoords="offset points", va="center",
            fontsize="small",
        )  # fmt: skip
    ax.set_xlim(0.0, room)
    ax.set_xticks([0.0, 1.0], ["0", "100 %"])
    ax.grid(visible=False)
    ax.spines["bottom"].set_bounds(0.0, 1.0)
    ax.set_xlabel(label, loc="left")


def beside(ax: "Axes", label: str, share: float = 0.3) -> "Axes":
    """Axes with the same lines in the right part of others, whose own part gets this label.

    They stand within, not outside: so they fit wherever somebody puts `ax`.
    """
    from matplotlib.ticker import MaxNLocator

    low, high = ax.get_xlim()
    most = max(2, round(1.5 * (1.0 - share) * inches(ax)))
    ticks = MaxNLocator(min(most, 6), steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    ax.set_xlim(low, low + (high - low) / (0.97 - share))
    ax.set_xticks([tick for tick in ticks if low <= tick <= high])
    ax.spines["bottom"].set_bounds(low, high)
    ax.set_xlabel(label, loc="left")
    other = ax.inset_axes((1.0 - share, 0.0, share, 1.0), sharey=ax)
    other.patch.set_visible(False)
    other.spines[["top", "right"]].set_visible(False)
    other.tick_params(axis="y", left=False, labelleft=False)
    return other


def percent(share: float) -> str:
    """A share as people say it: 93.1 %, 5.2 %, 0.03 %, and never 100 % or 0 % of what is not."""
    if not math.isfinite(share):
        return "—"
    if share in (0.0, 1.0):
        return f"{share:.0%}".replace("%", " %")
    if share > 0.9995:
        return "> 99.9 %"
    if share < 1e-4:
        return "< 0.01 %"
    return f"{100 * share:.1f} %" if share >= 0.01 else f"{100 * share:.2f} %"
