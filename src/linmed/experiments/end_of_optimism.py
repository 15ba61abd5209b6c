"""Only the bad arm tells the other two apart, and optimism stops playing it."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from linmed.environments import EndOfOptimism as Problem
from linmed.experiments.common import FACTOR, MATCHED, OVER, RIVALS, UNDER
from linmed.experiments.differences import (
    ARM_ZERO,
    DESIGN,
    EVEN_START,
    LINMED_START,
    NO_HALF_STEP,
    SCALES,
    SIGMA,
)
from linmed.experiments.experiment import Experiment, Findings, Key, Scale, Setting, Size
from linmed.experiments.lineup import DELTA, LINMED, Variant
from linmed.policies import LinTS

if TYPE_CHECKING:
    from linmed.experiments.drawing import Drawing

EPSILONS = (0.005, 0.01, 0.02)
SIGMA_STAR: dict[Variant, dict[str, float]] = {
    "text": {MATCHED: 0.1, OVER: 0.1, UNDER: math.sqrt(10.0)},
    "as-run": {MATCHED: 0.1, OVER: 0.1, UNDER: 10.0},
}
"""The text has σ*² = 10 for the under-specified case, the code σ* = 10."""
SCALE_ONE = "scale 1"
"""LinTS-Bayes as the public code has it, in settings of its own."""
LONG: Key = ("long", 0.005)
"""Ten times as long, where LinIMED-1 is said to deteriorate."""


class EndOfOptimism(Experiment):
    """Figure 4 and its appendix."""

    name = "end-of-optimism"
    title = "End of optimism"
    place = "Figure 4, Appendix"
    about = (
        "Arms (1, 0), (0, 1), (1 − ε, 2ε), θ* = (1, 0): only the bad arm (0, 1) tells the other two "
        "apart. σ* = 0.1, and √10 where σ is under-specified. Ties go to the arm listed first, the "
        "best one."
    )
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
                star = SIGMA_STAR[variant][noise]
                problem, names = Problem(eps=eps, sigma=star), (*RIVALS, *LINMED)
                grid.append(
                    Setting.of((eps, noise), problem, names, factor * star, horizon, variant, gap=eps)
                )
        scaled = [
            Setting((SCALE_ONE, *s.key), s.environment, (_scale_one(s.sigma),), horizon, s.sigma, drawn=False)
            for s in grid
            if variant == "text" and s.key[1] != UNDER
        ]
        return [*grid, *scaled, Setting.theory(Problem(eps=0.01, sigma=0.1), 0.1, horizon)]

    def further(
        self, scale: Scale, variant: Variant, horizon: int, movielens: Path | None = None
    ) -> list[Setting]:
        """Does LinIMED-1 turn up later?"""
        if scale != "decisive":
            return []
        problem = Problem(eps=0.005, sigma=0.1)
        names = ("LinIMED-1", "LinMED-99")
        return [Setting.of(LONG, problem, names, 0.1, 10 * horizon, variant, False, most=5)]

    def drawings(self, found: Findings) -> "Iterator[Drawing]":
        """Figure 4 and why it is so; the appendix's panels, linear and logarithmic; and the bounds."""
        from linmed.experiments import optimism_figures, regret_figures, theory_figure

        yield optimism_figures.square(found)
        yield optimism_figures.pulls(found)
        yield from regret_figures.grids(found)
        yield from regret_figures.grids(found, logarithmic=True)
        yield theory_figure.theory(found)


def _scale_one(sigma: float) -> LinTS:
    return LinTS(sigma=sigma, delta=DELTA, scale=1.0, label="LinTS-Bayes")
