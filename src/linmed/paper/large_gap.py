"""One gap of 1, where regret of order √n is a waste."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from linmed.environments import LargeGap as Problem
from linmed.paper.common import RIVALS
from linmed.paper.differences import (
    ARM_ZERO,
    DESIGN,
    EVEN_START,
    LINMED_START,
    NO_HALF_STEP,
    SCALES,
    SPANNER_RATES,
    SPANNER_START,
)
from linmed.paper.experiment import Experiment, Findings, Key, Scale, Setting, Size
from linmed.paper.lineup import LINMED, TUNED, Variant

if TYPE_CHECKING:
    from linmed.paper.drawing import Drawing

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

    def settings(self, variant: Variant, horizon: int, movielens: Path | None = None) -> list[Setting]:
        """All policies; those told the horizon at shorter ones too; and LinMED as the theorems have it."""
        problem = Problem(sigma=1.0)
        names = (*RIVALS, "SpannerIGW", "SpannerIGW-AT", "EXP2", *LINMED)
        shorter = sorted({max(horizon // 10, 1), max(round(horizon / math.sqrt(10.0)), 1)} - {horizon})
        return [
            Setting.of(("all",), problem, names, 1.0, horizon, variant),
            *(Setting.of(("horizon", n), problem, TUNED, 1.0, n, variant, False) for n in shorter),
            Setting.theory(problem, 1.0, horizon),
        ]

    def further(
        self, scale: Scale, variant: Variant, horizon: int, movielens: Path | None = None
    ) -> list[Setting]:
        """Horizons a hundred times as long, for the exponents."""
        if scale != "decisive":
            return []
        problem = Problem(sigma=1.0)
        return [
            *(
                Setting.of(("horizon", n), problem, TUNED, 1.0, n, variant, False, most=30)
                for n in (10 * horizon, 100 * horizon)
            ),
            Setting.of(LONG_RUN, problem, LINMED, 1.0, 100 * horizon, variant, False, most=60),
        ]

    def drawings(self, found: Findings) -> "Iterator[Drawing]":
        """All policies, the closest ones beside them; on logarithmic axes; and the bounds."""
        from linmed.paper import regret_figures, theory_figure

        yield regret_figures.closer(found, ("all",), away=FAR)
        yield regret_figures.logarithmic(found, ("all",))
        yield theory_figure.theory(found)

    def heading(self, key: Key, found: Findings) -> str:
        """There is one setting only."""
        return f"n = {found.horizon:,}"
