"""A figure for the page and for files, and how all of them look."""

import io
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from scipy.stats import t as student

from linmed.paper.experiment import Findings
from linmed.paper.lineup import Variant
from linmed.paper.statistics import LEVEL
from linmed.report.figures import INK, STYLE, THEMED, variable
from linmed.validation import Floats

NARROW = 7.0
"""Figures up to this width, in inches, are fitted into the width of a phone; wider ones are scrolled."""
MARGIN = 0.08
"""Inches around panels: letters are a little wider in one file than in the other."""
THIN = 0.7
"""Width of a median's line, which the legend explains."""


@dataclass(frozen=True)
class Drawing:
    """A figure with its file name and what it shows."""

    name: str
    caption: str
    figure: Figure
    text: str = ""
    """A paragraph to go with it."""

    def png(self) -> bytes:
        """On white paper, 150 dots an inch."""
        sink = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self._settle()
            self.figure.savefig(sink, format="png", dpi=150, facecolor="white", metadata={"Software": None})
        return sink.getvalue()

    @cached_property
    def svg(self) -> str:
        """A file of its own."""
        sink = io.StringIO()
        with matplotlib.rc_context(STYLE):
            self._settle()
            self.figure.savefig(
                sink, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
            )
        return sink.getvalue()

    def _settle(self) -> None:
        """Lay out once for both files, which takes longer than drawing."""
        engine = self.figure.get_layout_engine()
        if isinstance(engine, ConstrainedLayoutEngine):
            engine.set(w_pad=MARGIN, h_pad=MARGIN)
            self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")

    def inline(self) -> str:
        """The SVG for a page: colours follow the page's paper, names are unique within it."""
        svg = self.svg
        svg = svg[svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        svg = re.sub(r'\bid="', f'id="{self.name}-', svg)
        svg = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)
        svg = svg.replace('href="#', f'href="#{self.name}-').replace("url(#", f"url(#{self.name}-")
        for line in THEMED:
            svg = svg.replace(line.light, f"var({variable(line)})")
        width = self.figure.get_size_inches()[0]
        least, most = round((68 if width > NARROW else 52) * width), round(110 * width)
        svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
        label = self.caption.replace('"', "&quot;").replace("<", "&lt;")
        return re.sub(
            r'(<svg[^>]*?) width="[^"]*"',
            rf'\1 role="img" aria-label="{label}" style="min-width:{least}px;max-width:{most}px"',
            svg,
            count=1,
        )


def figure_name(name: str, variant: Variant) -> str:
    """The file, without its ending: a report may have an experiment as the text has it and as run."""
    return name if variant == "text" else f"{name}-{variant}"


def drawings(found: Findings) -> list[Drawing]:
    """All figures of one experiment."""
    with matplotlib.rc_context(STYLE):
        drawn = list(found.experiment.drawings(found))
    return [replace(drawing, name=figure_name(drawing.name, found.variant)) for drawing in drawn]


def interval(centre: Floats, error: Floats, logarithmic: bool, trials: int) -> tuple[Floats, Floats]:
    """95 % to either side by Student's t of so many trials.

    On logarithmic axes the interval is one of the logarithm, so that regret stays positive.
    """
    margin = float(student.isf(LEVEL / 2, max(trials - 1, 1))) * np.nan_to_num(error)
    if not logarithmic:
        return centre - margin, centre + margin
    exponent = np.divide(margin, centre, out=np.zeros_like(centre), where=centre > 0)
    factor = np.exp(np.minimum(exponent, 50.0))
    return centre / factor, centre * factor


def legend(figure: Figure, ax: Any, columns: int | None = None) -> None:
    """Below the panels, where it covers nothing."""
    handles, labels = ax.get_legend_handles_labels()
    if any(line.get_linewidth() == THIN for panel in figure.axes for line in panel.lines):
        handles.append(Line2D([], [], color=INK.light, linewidth=THIN))
        labels.append("thin: median")
    fits = columns or max(2, int(figure.get_size_inches()[0] // 1.7))
    figure.legend(handles, labels, loc="outside lower center", ncols=min(fits, len(labels)), handlelength=3.2)
