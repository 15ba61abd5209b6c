"""Only the bad arm tells the other two apart, and optimism stops playing it."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from linmed.environments import EndOfOptimism as Problem
from linmed.paper.common import FACTOR, RIVALS, UNDER
from linmed.paper.differences import (
    ARM_ZERO,
    DESIGN,
    EVEN_START,
    LINMED_START,
    NO_HALF_STEP,
    SCALES,
    SIGMA,
)
from linmed.paper.experiment import Experiment, Findings, Key, Scale, Setting, Size
from linmed.paper.lineup import DELTA, LINMED, Variant
from linmed.policies import LinTS

if TYPE_CHECKING:
    from linmed.paper.drawing import Drawing

EPSILONS = (0.005, 0.01, 0.02)
UNDER_STAR: dict[Variant, float] = {"text": math.sqrt(10.0), "as-run": 10.0}
"""σ* of the under-specified case: σ*² = 10 in the text, σ* = 10 in the code."""
SCALE_ONE = "scale 1"
"""LinTS-Bayes as the public code has it, in settings of its own."""
LONG: Key = ("long", 0.005)
"""Ten times as long, where LinIMED-1 is said to deteriorate."""


class EndOfOptimism(Experiment):
    """Figure 4 and its appendix, with the main text's σ* = 0.1."""

    name = "end-of-optimism"
    title = "End of optimism"
    place = "Figure 4, Appendix"
    about = (
        "Arms (1, 0), (0, 1), (1 − ε, 2ε), θ* = (1, 0): only the bad arm (0, 1) tells the other two "
        "apart. σ* = 0.1 as in the main text (the appendix has σ*² = 0.1: end-of-optimism-appendix), and √10 "
        "where σ is under-specified. Ties go to the arm listed first, the best one."
    )
    star: ClassVar[float] = 0.1
    """σ* where σ is not under-specified."""
    paper, quick, decisive = Size(1_000_000, 20), Size(1_000_000, 4), Size(1_000_000, 10, 12)
    figure = "ε"
    differences = (
        SCALES,
        ARM_ZERO,
        SIGMA,
        "σ* = 10 where σ is under-specified.",
        NO_HALF_STEP,
        EVEN_START,
        LINMED_START,
        DESIGN,
    )

    def settings(self, variant: Variant, horizon: int, movielens: Path | None = None) -> list[Setting]:
        """Every ε with every noise level; and LinMED as the theorems have it."""
        grid = []
        for eps in EPSILONS:
            for noise, factor in FACTOR[variant].items():
                star = UNDER_STAR[variant] if noise == UNDER else self.star
                problem, names = Problem(eps=eps, sigma=star), (*RIVALS, *LINMED)
                grid.append(
                    Setting.of((eps, noise), problem, names, factor * star, horizon, variant, gap=eps)
                )
        scaled = [
            Setting((SCALE_ONE, *s.key), s.environment, (_scale_one(s.sigma),), horizon, s.sigma, drawn=False)
            for s in grid
            if variant == "text" and s.key[1] != UNDER
        ]
        return [*grid, *scaled, Setting.theory(Problem(eps=0.01, sigma=self.star), self.star, horizon)]

    def further(
        self, scale: Scale, variant: Variant, horizon: int, movielens: Path | None = None
    ) -> list[Setting]:
        """Does LinIMED-1 turn up later?"""
        if scale != "decisive":
            return []
        problem = Problem(eps=0.005, sigma=self.star)
        names = ("LinIMED-1", "LinMED-99")
        return [Setting.of(LONG, problem, names, self.star, 10 * horizon, variant, False, most=5)]

    def drawings(self, found: Findings) -> "Iterator[Drawing]":
        """Figure 4 and why it is so; the appendix's panels, linear and logarithmic; and the bounds."""
        from linmed.paper import optimism_figures, regret_figures, theory_figure

        yield optimism_figures.square(found)
        yield optimism_figures.pulls(found)
        yield from regret_figures.grids(found)
        yield from regret_figures.grids(found, logarithmic=True)
        yield theory_figure.theory(found)


class EndOfOptimismAppendix(EndOfOptimism):
    """The same with the appendix's σ*² = 0.1, which contradicts the main text."""

    name = "end-of-optimism-appendix"
    title = "End of optimism, σ*² = 0.1"
    about = (
        "End of optimism with σ*² = 0.1, as the appendix has it, where the main text has σ* = 0.1. The "
        "under-specified case has σ*² = 10 in both, and its trials are the same."
    )
    quick = Size(100_000, 4)
    star = math.sqrt(0.1)


def _scale_one(sigma: float) -> LinTS:
    return LinTS(sigma=sigma, delta=DELTA, scale=1.0, label="LinTS-Bayes")
