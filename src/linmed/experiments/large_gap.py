"""One gap of 1, where regret of order √n is a waste."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from linmed.checks import Floats
from linmed.environments import LargeGap as Problem
from linmed.experiments.claims import CLOSE, Between, Claim, Part, final, last_decade, of
from linmed.experiments.common import RIVALS, among_best
from linmed.experiments.differences import ARM_ZERO, FIRST_ROUND, NO_HALF_STEP, SCALES
from linmed.experiments.experiment import Experiment, Findings, Key, Setting, Size
from linmed.experiments.lineup import LINMED, TUNED, Variant
from linmed.experiments.statistics import Estimate, growth, ratio

if TYPE_CHECKING:
    from linmed.experiments.drawing import Drawing

ROOT = (0.35, 0.65)
"""Exponents that count as "like √n"."""
WORSE = ("SpannerIGW", "SpannerIGW-AT", "LinTS-Freq", "EXP2", "LinIMED-1")
"""Than LinMED, says the paper."""


class LargeGap(Experiment):
    """Figure 3."""

    name = "large-gap"
    title = "Large gap"
    place = "Figure 3"
    about = (
        "Arms e₁ and e₂, θ* = e₁, σ = σ* = 1: one gap of 1, where regret of order √n is a "
        "waste. Ties go to the arm listed first, the best one."
    )
    paper, quick = Size(10_000, 10), Size(10_000, 10)
    differences = (SCALES, ARM_ZERO, "EXP2 is told no horizon.", NO_HALF_STEP)
    missing = (FIRST_ROUND, "EXP2's identity matrix added to Q")

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

    def claims(self, found: Findings) -> Iterator[Claim]:
        """LinMED is below those of order √n, close to the others, and grows more slowly."""
        for name in LINMED:
            yield Claim(
                f"{name} has lower regret than {', '.join(WORSE[:-1])} and {WORSE[-1]}",
                _against(name, WORSE, 1.0),
            )
        for name in LINMED:
            yield Claim(
                f"{name} is close to OFUL and LinTS-Bayes (at most {CLOSE:g} times their regret)",
                _against(name, ("OFUL", "LinTS-Bayes"), CLOSE),
            )
        keys = [setting.key for setting in found.settings if setting.key[0] == "horizon"]
        if keys:
            for name in TUNED:
                yield from _between_horizons(name, keys, found.horizon)
        yield Claim(
            "SpannerIGW-AT's regret grows like √t (exponent of the last decade between "
            f"{ROOT[0]} and {ROOT[1]})",
            [Part("exponent {}", last_decade("SpannerIGW-AT", "all"), Between(*ROOT))],
        )
        yield Claim(
            "LinMED's regret grows clearly slower than √t (exponent of the last decade below 0.5)",
            [Part(f"{name} {{}}", last_decade(name, "all"), Between(high=0.5)) for name in LINMED],
        )
        yield among_best(found, "", [("×{}", ("all",))])

    def drawings(self, found: Findings) -> "Iterator[Drawing]":
        """All policies, the closest ones beside them; and the bounds."""
        from linmed.experiments import regret_figures

        yield regret_figures.closer(found, ("all",), away=(*WORSE, "LinIMED-3"))
        yield regret_figures.theory(found)

    def heading(self, key: Key, found: Findings) -> str:
        """There is one setting only."""
        return f"n = {found.horizon:,}"


def _against(name: str, rivals: tuple[str, ...], limit: float) -> list[Part]:
    return [
        Part(f"{{}} × {rival}'s", of(ratio, final(name, "all"), final(rival, "all")), Between(high=limit))
        for rival in rivals
    ]


def _between_horizons(name: str, keys: list[Key], horizon: int) -> Iterator[Claim]:
    sizes = [*(float(key[1]) for key in keys), float(horizon)]

    def over_horizons(*samples: Floats) -> Estimate:
        return growth(sizes, *samples)

    exponent = of(over_horizons, *(final(name, *key) for key in (*keys, ("all",))))
    yield Claim(
        f"{name}'s regret grows like √n (exponent between {ROOT[0]} and {ROOT[1]}, over "
        f"runs of {sizes[0]:,.0f} to {sizes[-1]:,.0f} rounds)",
        [
            Part("exponent {}", exponent, Between(*ROOT)),
            Part("within the longest run {}", last_decade(name, "all")),
        ],
    )
    yield Claim(
        f"{name}'s regret grows at least like √n, as its lower bound says (exponent above 0.45, "
        "over the same runs)",
        [Part("exponent {}", exponent, Between(low=0.45))],
    )
