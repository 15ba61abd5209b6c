"""Arms and θ* uniform on the unit sphere: what the dimension and the number of arms do."""

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np

from linmed.checks import Floats
from linmed.environments import UnitBall
from linmed.experiments.claims import CLOSE, Between, Claim, Part, final, of
from linmed.experiments.common import FACTOR, MATCHED, OVER, RIVALS, UNDER, imed_and_others
from linmed.experiments.differences import ARM_ZERO, DESIGN, FIRST_ROUND, NO_HALF_STEP, SCALES, SIGMA
from linmed.experiments.experiment import Experiment, Findings, Setting, Size
from linmed.experiments.lineup import LINMED, Variant
from linmed.experiments.statistics import Estimate, jackknife, ratio

LITTLE = 1.5
"""A change of regret by less than this factor is "little"."""


class _Ball(Experiment):
    """One of the two: a grid of noise levels and sizes."""

    place = "Appendix"
    paper, quick = Size(5_000, 50), Size(1_000, 20)
    differences = (SCALES, ARM_ZERO, SIGMA, NO_HALF_STEP)
    missing = (FIRST_ROUND, DESIGN)
    values: ClassVar[tuple[int, ...]]
    """Of d or K."""

    @abstractmethod
    def problem(self, value: int) -> UnitBall:
        """The environment of this d or K."""

    def settings(self, variant: Variant, horizon: int, movielens: Path | None = None) -> list[Setting]:
        """Every noise level with every size."""
        names = (*RIVALS, "SpannerIGW", "SpannerIGW-AT", *LINMED)
        return [
            Setting.of((noise, value), self.problem(value), names, factor, horizon, variant)
            for noise, factor in FACTOR[variant].items()
            for value in self.values
        ]

    def misspecified(self, found: Findings) -> Iterator[Claim]:
        """What a wrong σ does, and LinIMED-3 with the right one."""

        def change(name: str, noise: str, rule: Between, label: str = "") -> list[Part]:
            return [
                Part(
                    f"{label}{self.panel}={value}: ×{{}}",
                    of(ratio, final(name, noise, value), final(name, MATCHED, value)),
                    rule,
                )
                for value in self.values
            ]

        yield Claim(
            f"LinTS-Freq deteriorates with over-specified σ (regret with {OVER} over {MATCHED})",
            change("LinTS-Freq", OVER, Between(low=1.0)),
        )
        for name in LINMED:
            yield Claim(
                f"{name} is little affected by mis-specified σ "
                f"(regret changes by less than a factor {LITTLE:g})",
                [
                    part
                    for noise in (OVER, UNDER)
                    for part in change(name, noise, Between(1 / LITTLE, LITTLE), f"{noise}, ")
                ],
            )
        yield Claim(
            f"LinIMED-3 is notably poor (more than {CLOSE:g} times the median of the others, {MATCHED})",
            [
                Part(
                    f"{self.panel}={value}: ×{{}}",
                    of(_over_median, *imed_and_others(found, (MATCHED, value))),
                    Between(low=CLOSE),
                )
                for value in self.values
            ],
        )


class UnitBallDimension(_Ball):
    """K = 10, d grows."""

    name = "unit-ball-dimension"
    title = "Unit ball: dimension"
    about = "K = 10 arms and θ* uniform on the unit sphere of R^d, σ* = 1."
    panel = "d"
    values = (2, 20, 50)

    def problem(self, value: int) -> UnitBall:
        """d = value."""
        return UnitBall(arms=10, dim=value, sigma=1.0)

    def claims(self, found: Findings) -> Iterator[Claim]:
        """LinTS-Freq suffers from d; at d = 50 LinMED-90 is ahead of LinMED-99."""
        lowest, highest = self.values[0], self.values[-1]
        levels = (MATCHED, OVER, UNDER)
        rises = {n: (final("LinTS-Freq", n, highest), final("LinTS-Freq", n, lowest)) for n in levels}
        yield Claim(
            f"LinTS-Freq deteriorates with d (regret at d = {highest} over d = {lowest})",
            [Part(f"{n}: ×{{}}", of(ratio, *rises[n]), Between(low=1.0)) for n in levels],
        )
        yield from self.misspecified(found)
        pairs = {n: (final("LinMED-90", n, highest), final("LinMED-99", n, highest)) for n in levels}
        yield Claim(
            f"LinMED-90 beats LinMED-99 at d = {highest}",
            [Part(f"{n}: ×{{}}", of(ratio, *pairs[n]), Between(high=1.0)) for n in levels],
        )


class UnitBallArms(_Ball):
    """d = 2, K grows."""

    name = "unit-ball-arms"
    title = "Unit ball: number of arms"
    about = "K arms and θ* uniform on the unit circle, σ* = 1."
    panel = "K"
    values = (10, 100, 500)

    def problem(self, value: int) -> UnitBall:
        """K = value."""
        return UnitBall(arms=value, dim=2, sigma=1.0)

    def claims(self, found: Findings) -> Iterator[Claim]:
        """K makes no difference."""
        yield from self.misspecified(found)
        lowest, highest = self.values[0], self.values[-1]
        yield Claim(
            f"No method depends on K (regret at K = {highest} within a factor {CLOSE:g} of K = {lowest}, "
            f"{MATCHED})",
            [
                Part(
                    f"{name} ×{{}}",
                    of(ratio, final(name, MATCHED, highest), final(name, MATCHED, lowest)),
                    Between(1 / CLOSE, CLOSE),
                )
                for name in found.names(MATCHED, lowest)
            ],
        )


def _over_median(own: Floats, *others: Floats) -> Estimate:
    return jackknife(lambda x, *rest: x.mean() / float(np.median([y.mean() for y in rest])), own, *others)
