"""Play the unit ball: arms and θ* uniform on the sphere; what the dimension and the number of arms do."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from linmed.environments import UnitBall
from linmed.paper import drawing
from linmed.paper.experiment import Asked, Experiment, Findings, Setting, Size
from linmed.paper.roster import (
    ARM_ZERO,
    DESIGN,
    EVEN_START,
    FACTOR,
    LINMED,
    LINMED_START,
    NO_HALF_STEP,
    RIVALS,
    SCALES,
    SIGMA,
    SPANNER_RATES,
    SPANNER_START,
    SPANNERS,
)

BALL = (*RIVALS, *SPANNERS, *LINMED)
MATCHED_UNDER_OVER = (1, 3, 2)
"""The order of the paper's figures; they are numbered in the order of the noise levels."""


class _Ball(Experiment):
    """One of the two: a grid of noise levels and sizes."""

    place = "Appendix"
    paper, quick, decisive = Size(5_000, 50), Size(5_000, 10), Size(5_000, 60, 12)
    differences = (
        SCALES,
        ARM_ZERO,
        SIGMA,
        NO_HALF_STEP,
        EVEN_START,
        LINMED_START,
        SPANNER_START,
        SPANNER_RATES,
        DESIGN,
    )
    values: ClassVar[tuple[int, ...]]
    """Of d or K."""

    @abstractmethod
    def problem(self, value: int) -> UnitBall:
        """Make the environment of this d or K."""

    def settings(self, asked: Asked) -> list[Setting]:
        """Return every noise level with every size."""
        return [
            Setting.of((noise, value), self.problem(value), BALL, factor, asked)
            for noise, factor in FACTOR[asked.variant].items()
            for value in self.values
        ]

    def drawings(self, found: Findings) -> Iterator[drawing.Drawing]:
        """Draw one for every noise level, in the paper's order."""
        return drawing.grids(found, MATCHED_UNDER_OVER, dots=True)


class UnitBallDimension(_Ball):
    """K = 10, d grows."""

    name = "unit-ball-dimension"
    title = "Unit ball: dimension"
    about = "K = 10 arms and θ* uniform on the unit sphere of R^d, σ* = 1."
    panel = "d"
    values = (2, 20, 50)

    def problem(self, value: int) -> UnitBall:
        """Make one with d = value."""
        return UnitBall(arms=10, dim=value, sigma=1.0)


class UnitBallArms(_Ball):
    """d = 2, K grows."""

    name = "unit-ball-arms"
    title = "Unit ball: number of arms"
    about = "K arms and θ* uniform on the unit circle, σ* = 1."
    panel = "K"
    values = (10, 100, 500)

    def problem(self, value: int) -> UnitBall:
        """Make one with K = value."""
        return UnitBall(arms=value, dim=2, sigma=1.0)
