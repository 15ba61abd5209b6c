"""The paper's experiments as tables of values: problems, policies, horizons and trials."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from linmed.environments import (
    Delayed,
    EndOfOptimism,
    Environment,
    LargeGap,
    MovieLens,
    RepeatedArms,
    UnitBall,
)
from linmed.experiments.lineup import LINMED, Variant, policies
from linmed.policies import LinMED, Policy

Scale = Literal["quick", "paper"]
Key = tuple[str | float, ...]

MATCHED, OVER, UNDER = "σ² = σ*²", "σ² = 2σ*²", "σ² = 0.1σ*²"
FACTOR: dict[Variant, dict[str, float]] = {
    "text": {MATCHED: 1.0, OVER: math.sqrt(2.0), UNDER: math.sqrt(0.1)},
    "as-run": {MATCHED: 1.0, OVER: 2.0, UNDER: 0.1},
}
"""σ / σ*: the public code multiplies the standard deviation where the text multiplies the variance."""

OPTIMISM_SIGMA: dict[Variant, dict[str, float]] = {
    "text": {MATCHED: 0.1, OVER: 0.1, UNDER: math.sqrt(10.0)},
    "as-run": {MATCHED: 0.1, OVER: 0.1, UNDER: 10.0},
}
"""σ* of end-of-optimism: the text has σ*² = 10 for the under-specified case, the code σ* = 10."""

ARM_COUNT_SIGMA: dict[Variant, tuple[float, float]] = {
    "text": (math.sqrt(3.0), math.sqrt(3.0)),
    "as-run": (3.0, 1.0),
}
"""(σ, σ*) of arm-count."""

EPSILONS = (0.005, 0.01, 0.02)
ARM_COUNTS = (4, 8, 16, 32, 64)
DELAYS = (0, 10, 20)
DIMENSIONS = (2, 20, 50)
BALL_ARMS = (10, 100, 500)

RIVALS = ("OFUL", "LinTS-Freq", "LinTS-Bayes", "LinIMED-1", "LinIMED-3")
BALL = (*RIVALS, "SpannerIGW", "SpannerIGW-AT", *LINMED)
TUNED = ("SpannerIGW", "EXP2")
"""Told the horizon: how their regret grows with it shows only between horizons."""


@dataclass(frozen=True)
class Setting:
    """One problem with the policies that meet it: a panel of a figure."""

    key: Key
    """Coordinates in the experiment; (figure, panel) where the experiment is drawn as a grid."""
    environment: Environment
    policies: tuple[Policy, ...]
    horizon: int
    sigma: float
    """σ given to the policies."""
    drawn: bool = True
    """Whether it is a panel of the experiment's own figure."""


@dataclass(frozen=True)
class Size:
    """Horizon and trials of one scale."""

    horizon: int
    trials: int


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper."""

    name: str
    title: str
    place: str
    """Where the paper has it."""
    about: str
    sizes: dict[Scale, Size]
    settings: Callable[["Experiment", Variant, int, Path | None], list[Setting]]
    panel: str = ""
    """What tells the panels of a figure apart, as in "ε = 0.01"."""
    figure: str = ""
    """What tells its figures apart."""
    differences: tuple[str, ...] = field(default=())
    """What the public code does differently from the text here."""
    missing: tuple[str, ...] = field(default=())
    """Differences that "as-run" does not take over."""


def _setting(key: Key, environment: Environment, names: tuple[str, ...], sigma: float, horizon: int,
             variant: Variant, drawn: bool = True) -> Setting:  # fmt: skip
    return Setting(key, environment, tuple(policies(names, sigma, horizon, variant)), horizon, sigma, drawn)


def _theory(key: Key, environment: Environment, sigma: float, horizon: int) -> Setting:
    """LinMED-90 with δ_t = 1/(t+1), which the theorems are about."""
    return Setting(key, environment, (LinMED(sigma=sigma, label="LinMED-90"),), horizon, sigma, drawn=False)


def _none(experiment: Experiment, variant: Variant, horizon: int, movielens: Path | None) -> list[Setting]:
    return []  # offline-evaluation has logs, not regret: linmed.experiments.offline


def _arm_count(
    experiment: Experiment, variant: Variant, horizon: int, movielens: Path | None
) -> list[Setting]:
    sigma, sigma_star = ARM_COUNT_SIGMA[variant]
    names = ("LinMEDNOPT", *LINMED)
    return [
        _setting((K,), RepeatedArms(arms=K, sigma=sigma_star), names, sigma, horizon, variant)
        for K in ARM_COUNTS
    ]


def _large_gap(
    experiment: Experiment, variant: Variant, horizon: int, movielens: Path | None
) -> list[Setting]:
    names = (*RIVALS, "SpannerIGW", "SpannerIGW-AT", "EXP2", *LINMED)
    shorter = sorted({max(horizon // 10, 1), max(round(horizon / math.sqrt(10.0)), 1)} - {horizon})
    return [
        _setting(("all",), LargeGap(sigma=1.0), names, 1.0, horizon, variant),
        *(_setting(("horizon", n), LargeGap(sigma=1.0), TUNED, 1.0, n, variant, False) for n in shorter),
        _theory(("theory",), LargeGap(sigma=1.0), 1.0, horizon),
    ]


def _end_of_optimism(
    experiment: Experiment, variant: Variant, horizon: int, movielens: Path | None
) -> list[Setting]:
    names = (*RIVALS, *LINMED)
    grid = []
    for eps in EPSILONS:
        for noise, factor in FACTOR[variant].items():
            sigma_star = OPTIMISM_SIGMA[variant][noise]
            environment = EndOfOptimism(eps=eps, sigma=sigma_star)
            grid.append(_setting((eps, noise), environment, names, factor * sigma_star, horizon, variant))
    return [*grid, _theory(("theory",), EndOfOptimism(eps=0.01, sigma=0.1), 0.1, horizon)]


def _delayed(experiment: Experiment, variant: Variant, horizon: int, movielens: Path | None) -> list[Setting]:
    mode = "constant" if variant == "text" else "batch"
    films = MovieLens(path=movielens, arms=10, sigma=1.0)
    names = ("OFUL", "LinTS-Bayes", *LINMED)
    return [
        _setting((D,), Delayed(films, rounds=D, mode=mode) if D else films, names, 1.0, horizon, variant)
        for D in DELAYS
    ]


def _dimension(
    experiment: Experiment, variant: Variant, horizon: int, movielens: Path | None
) -> list[Setting]:
    return [
        _setting((noise, d), UnitBall(arms=10, dim=d, sigma=1.0), BALL, factor, horizon, variant)
        for noise, factor in FACTOR[variant].items()
        for d in DIMENSIONS
    ]


def _ball_arms(
    experiment: Experiment, variant: Variant, horizon: int, movielens: Path | None
) -> list[Setting]:
    return [
        _setting((noise, K), UnitBall(arms=K, dim=2, sigma=1.0), BALL, factor, horizon, variant)
        for noise, factor in FACTOR[variant].items()
        for K in BALL_ARMS
    ]


_NO_HALF_STEP = "LinMED's half-step on B_t is switched off."
_SCALES = "LinTS-Freq draws with the squared radius β instead of √β, LinTS-Bayes with scale 1 instead of σ."
_ARM_ZERO = "LinIMED-3's index function returns nothing, so arm 0 is played after the first round."
_SIGMA = "“σ² = 2σ*²” is σ = 2σ*, “σ² = 0.1σ*²” is σ = 0.1σ*."
_FIRST_ROUND = "the first round's rule of each policy (uniform, or LinMED without α_emp)"
_DESIGN = "the design's centred coordinates and off-by-one list"

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "offline-evaluation", "Offline evaluation", "Figure 1, Appendix, Table 2",
            "Two arms (1, 0) and (0.6, 0.8), θ* = (1, 0). The uniform policy earns 0.8 a round; how well "
            "does inverse-probability weighting recover that from the log of LinMED-50 or LinTS-Freq?",
            {"paper": Size(1_000, 5_000), "quick": Size(1_000, 1_000)},
            _none,
            differences=(
                "σ = σ* = 0.1 as a standard deviation, where the text has σ² = 0.1.",
                "LinTS-Freq draws with the squared radius β.",
                "Probabilities estimated as 0 are replaced by 0.5/M.",
                "LinMED-50 has (α_emp, α_opt) = (0.5, 0.5), no half-step, and the arms in reverse order.",
            ),
            missing=("the dropping of |IPW| > 2 from the histograms",),
        ),
        Experiment(
            "arm-count", "Number of arms", "Figure 2",
            "The best arm (1, 0) = θ* and K − 1 copies of (0, 1). Copies carry no information; does regret "
            "grow with them? Ties go to the arm listed first, the best one.",
            {"paper": Size(20_000, 10), "quick": Size(5_000, 10)},
            _arm_count,
            panel="K",
            differences=("σ = 3 with σ* = 1, where the text has σ² = σ*² = 3.", _NO_HALF_STEP),
            missing=(_FIRST_ROUND, _DESIGN),
        ),
        Experiment(
            "large-gap", "Large gap", "Figure 3",
            "Arms e₁ and e₂, θ* = e₁, σ = σ* = 1: one gap of 1, where regret of order √n is a "
            "waste. Ties go to the arm listed first, the best one.",
            {"paper": Size(10_000, 10), "quick": Size(10_000, 10)},
            _large_gap,
            differences=(_SCALES, _ARM_ZERO, "EXP2 is told no horizon.", _NO_HALF_STEP),
            missing=(_FIRST_ROUND, "EXP2's identity matrix added to Q"),
        ),
        Experiment(
            "end-of-optimism", "End of optimism", "Figure 4, Appendix",
            "Arms (1, 0), (0, 1), (1 − ε, 2ε), θ* = (1, 0): only the bad arm (0, 1) tells the other two "
            "apart. σ* = 0.1, and √10 where σ is under-specified. Ties go to the arm listed first, the "
            "best one.",
            {"paper": Size(1_000_000, 20), "quick": Size(20_000, 20)},
            _end_of_optimism,
            panel="", figure="ε",
            differences=(_SCALES, _ARM_ZERO, _SIGMA, "σ* = 10 where σ is under-specified.", _NO_HALF_STEP),
            missing=(_FIRST_ROUND,),
        ),
        Experiment(
            "delayed-rewards", "Delayed rewards", "Appendix",
            "Ten films, a random user every round, arm = film ⊗ user (d = 4), a random unit θ*, σ = σ* = 1. "
            "Rewards arrive D rounds late.",
            {"paper": Size(5_000, 100), "quick": Size(5_000, 30)},
            _delayed,
            panel="D",
            differences=("Rewards arrive together every D rounds.", _NO_HALF_STEP),
            missing=(_FIRST_ROUND, "arms divided by the smallest norm", "10 users instead of all"),
        ),
        Experiment(
            "unit-ball-dimension", "Unit ball: dimension", "Appendix",
            "K = 10 arms and θ* uniform on the unit sphere of R^d, σ* = 1.",
            {"paper": Size(5_000, 50), "quick": Size(1_000, 20)},
            _dimension,
            panel="d",
            differences=(_SCALES, _ARM_ZERO, _SIGMA, _NO_HALF_STEP),
            missing=(_FIRST_ROUND, _DESIGN),
        ),
        Experiment(
            "unit-ball-arms", "Unit ball: number of arms", "Appendix",
            "K arms and θ* uniform on the unit circle, σ* = 1.",
            {"paper": Size(5_000, 50), "quick": Size(1_000, 20)},
            _ball_arms,
            panel="K",
            differences=(_SCALES, _ARM_ZERO, _SIGMA, _NO_HALF_STEP),
            missing=(_FIRST_ROUND, _DESIGN),
        ),
    )
}  # fmt: skip
"""In the order of the report."""
