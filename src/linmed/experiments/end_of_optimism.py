"""Only the bad arm tells the other two apart, and optimism stops playing it."""

import math
from collections.abc import Iterator
from pathlib import Path

from linmed.checks import Floats
from linmed.environments import EndOfOptimism as Problem
from linmed.experiments.claims import CLOSE, Between, Claim, Measure, Part, at, final, last_decade, of
from linmed.experiments.common import FACTOR, MATCHED, OVER, RIVALS, UNDER, among_best
from linmed.experiments.differences import ARM_ZERO, FIRST_ROUND, NO_HALF_STEP, SCALES, SIGMA
from linmed.experiments.experiment import Experiment, Findings, Key, Setting, Size
from linmed.experiments.lineup import LINMED, Variant
from linmed.experiments.statistics import Estimate, jackknife, ratio

EPSILONS = (0.005, 0.01, 0.02)
SIGMA_STAR: dict[Variant, dict[str, float]] = {
    "text": {MATCHED: 0.1, OVER: 0.1, UNDER: math.sqrt(10.0)},
    "as-run": {MATCHED: 0.1, OVER: 0.1, UNDER: 10.0},
}
"""The text has σ*² = 10 for the under-specified case, the code σ* = 10."""
LINEAR = 0.8
"""Exponents above this count as "nearly linear"."""


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
    paper, quick = Size(1_000_000, 20), Size(20_000, 20)
    figure = "ε"
    differences = (SCALES, ARM_ZERO, SIGMA, "σ* = 10 where σ is under-specified.", NO_HALF_STEP)
    missing = (FIRST_ROUND,)

    def settings(self, variant: Variant, horizon: int, movielens: Path | None = None) -> list[Setting]:
        """Every ε with every noise level; and LinMED as the theorems have it."""
        grid = []
        for eps in EPSILONS:
            for noise, factor in FACTOR[variant].items():
                star = SIGMA_STAR[variant][noise]
                problem, names = Problem(eps=eps, sigma=star), (*RIVALS, *LINMED)
                grid.append(Setting.of((eps, noise), problem, names, factor * star, horizon, variant))
        return [*grid, Setting.theory(Problem(eps=0.01, sigma=0.1), 0.1, horizon)]

    def claims(self, found: Findings) -> Iterator[Claim]:
        """LinMED stays well below LinTS-Freq; optimists start well and deteriorate."""
        for noise in (MATCHED, OVER):
            yield Claim(
                f"{noise}: LinMED-99 ends well below LinTS-Freq (less than 1/{CLOSE:g} of its regret)",
                _ratios("LinMED-99", "LinTS-Freq", noise, Between(high=1 / CLOSE)),
            )
        for name in ("OFUL", "LinIMED-1"):
            yield from _deteriorates(name, found.horizon)
        for name in ("OFUL", "LinTS-Bayes"):
            yield Claim(
                f"{UNDER}: {name} becomes nearly linear (exponent of the last decade above {LINEAR})",
                [
                    Part(f"ε={eps}: {{}}", last_decade(name, eps, UNDER), Between(low=LINEAR))
                    for eps in EPSILONS
                ],
            )
        for other in ("LinMED-90", "LinMED-50"):
            yield Claim(
                f"{UNDER}: LinMED-99 suffers more than {other}",
                _ratios("LinMED-99", other, UNDER, Between(low=1.0)),
            )
        for noise in (MATCHED, OVER, UNDER):
            yield among_best(found, f", {noise}", [(f"ε={eps}: ×{{}}", (eps, noise)) for eps in EPSILONS])


def _ratios(name: str, other: str, noise: str, rule: Between) -> list[Part]:
    return [
        Part(f"ε={eps}: ×{{}}", of(ratio, final(name, eps, noise), final(other, eps, noise)), rule)
        for eps in EPSILONS
    ]


def _deteriorates(name: str, horizon: int) -> Iterator[Claim]:
    """Compared with LinMED-99 at the same moment."""
    early = horizon / 100
    cells: list[Key] = [(eps, noise) for noise in (MATCHED, OVER) for eps in EPSILONS]
    grows = Between(low=1.0)

    def change(key: Key, round_: float, since: Key, before: float) -> Measure:
        pairs = ((key, round_), (since, before))
        samples = [at(t, policy, *cell) for cell, t in pairs for policy in (name, "LinMED-99")]
        return of(_ratio_of_ratios, *samples)

    yield Claim(
        f"{name} starts well (below LinMED-99 after {early:,.0f} rounds)",
        [
            Part(
                f"ε={key[0]}, {key[1]}: ×{{}}",
                of(ratio, at(early, name, *key), at(early, "LinMED-99", *key)),
                Between(high=1.0),
            )
            for key in cells
        ],
    )
    yield Claim(
        f"{name} deteriorates (its regret relative to LinMED-99's grows from round {early:,.0f} on)",
        [Part(f"ε={key[0]}, {key[1]}: ×{{}}", change(key, horizon, key, early), grows) for key in cells],
    )
    yield Claim(
        f"{name} is worst at small ε (final regret relative to LinMED-99's, ε = 0.005 over ε = 0.02)",
        [
            Part(f"{noise}: ×{{}}", change((0.005, noise), horizon, (0.02, noise), horizon), grows)
            for noise in (MATCHED, OVER)
        ],
    )
    yield Claim(
        f"{name} is worse with σ² over-specified (final regret relative to LinMED-99's, {OVER} "
        f"over {MATCHED})",
        [
            Part(f"ε={eps}: ×{{}}", change((eps, OVER), horizon, (eps, MATCHED), horizon), grows)
            for eps in EPSILONS
        ],
    )


def _ratio_of_ratios(a: Floats, b: Floats, c: Floats, d: Floats) -> Estimate:
    """(mean a / mean b) / (mean c / mean d)."""
    return jackknife(lambda w, x, y, z: (w.mean() / x.mean()) / (y.mean() / z.mean()), a, b, c, d)
