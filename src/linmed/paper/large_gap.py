"""Play Figure 3: one gap of 1, where regret of order √n is a waste."""

import math
from collections.abc import Iterator, Sequence

from linmed.environments import LargeGap as Problem
from linmed.paper import drawing
from linmed.paper.experiment import Asked, Experiment, Findings, Key, Setting, Size
from linmed.paper.roster import (
    ARM_ZERO,
    DESIGN,
    EVEN_START,
    LINMED,
    LINMED_START,
    NO_HALF_STEP,
    RIVALS,
    SCALES,
    SPANNER_RATES,
    SPANNER_START,
    SPANNERS,
    TUNED,
)

LONG_RUN: Key = ("long",)
"""LinMED alone, a hundred times as long: whether regret grows like log² n shows only then."""
FAR = ("SpannerIGW", "SpannerIGW-AT", "LinTS-Freq")
"""Left out of the paper's second panel."""


class LargeGap(Experiment):
    """Figure 3."""

    name = "large-gap"
    title = "Large gap"
    place = "Figure 3"
    about = (
        "Arms e₁ and e₂, θ* = e₁, σ = σ* = 1: one gap of 1, where regret of order √n is a "
        "waste. Ties go to the arm listed first, the best one."
    )
    paper, quick, decisive = Size(10_000, 10), Size(10_000, 20, 3), Size(10_000, 1_000, 12)
    differences = (
        SCALES,
        ARM_ZERO,
        "EXP2 is told no horizon, draws the first arm from its design, and adds the identity matrix to Q, "
        "which makes every estimate of θ* at most half as long.",
        NO_HALF_STEP,
        EVEN_START,
        LINMED_START,
        SPANNER_START,
        SPANNER_RATES,
        DESIGN,
    )

    def settings(self, asked: Asked) -> list[Setting]:
        """Return all policies; those told the horizon at others too; and LinMED much longer.

        The longer runs are the decisive scale's alone.
        """
        problem, last = Problem(sigma=1.0), asked.horizon

        def of(key: Key, names: Sequence[str], n: int, most: int | None = None) -> Setting:
            again = asked._replace(horizon=n)
            return Setting.of(key, problem, names, 1.0, again, key == ("all",), most=most)

        shorter = sorted({max(last // 10, 1), max(round(last / math.sqrt(10.0)), 1)} - {last})
        found = [of(("all",), (*RIVALS, *SPANNERS, "EXP2", *LINMED), last)]
        found += [of(("horizon", n), TUNED, n) for n in shorter]
        if asked.scale == "decisive":
            found += [of(("horizon", n), TUNED, n, most=30) for n in (10 * last, 100 * last)]
            found.append(of(LONG_RUN, LINMED, 100 * last, most=60))
        return found

    def drawings(self, found: Findings) -> Iterator[drawing.Drawing]:
        """Draw all policies, the closest ones beside them; on logarithmic axes; and the bounds."""
        setting, without = found.setting("all"), f"without {', '.join(FAR)}"
        figure, (left, right) = drawing.new(9.0, 4.2, 1, 2)
        drawing.panel(left, found, setting)
        drawing.panel(right, found, setting, [name for name in found.names("all") if name not in FAR])
        left.set_title("(a) all policies")
        left.set_ylabel("cumulative regret")
        right.set_title(f"(b) {without}")
        drawing.legend(figure, left)
        caption = f"{self.title}: all policies, and {without}. {drawing.READING}"
        yield drawing.Drawing(self.name, caption, figure)
        figure, ax = drawing.new(6.6, 4.2)
        drawing.panel(ax, found, setting, logarithmic=True)
        ax.set_ylabel("cumulative regret")
        drawing.legend(figure, ax, 4)
        caption = f"{self.title} on logarithmic axes: √n is a straight line of slope ½. {drawing.READING}"
        yield drawing.Drawing(f"{self.name}-log", caption, figure)

    def heading(self, key: Key, found: Findings) -> str:
        """Name the only setting."""
        return f"n = {found.horizon:,}"
