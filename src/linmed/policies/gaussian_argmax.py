"""Which arm is best under θ̃ ~ N(θ̂, s² V⁻¹)? The probabilities behind linear Thompson sampling.

The best method that fits is taken: two arms by the normal CDF (exact, also in the tails), arms whose
differences span at most a plane by the angular integral, and the others by the chance that each has on its
own ray through the points of a Sobol set; very many arms by lines that all share. An arm that duplicates an
earlier one or lies inside the hull of the others has probability 0; so has, in more than two dimensions, one
that beats the leader with less than Φ(−9) = 1e-19, and among very many one too rare for any line to meet.
"""

from typing import Protocol

import numpy as np

from linmed.core import core
from linmed.validation import Floats

ENOUGH = 1e-4  # an error that asks for no more points
WORK = 100_000  # points are doubled up to so many times the arms …
MOST_POINTS = 8192  # … and to this number
FLAT, FEW = 6, 64  # up to so many dimensions and arms, an arm's points are its own
MOST_ARMS = 2048  # beyond, lines that all arms share: the rays take the square of their number
POINTS = 2048  # lines in each of eight parts of the Sobol set


class Normal(Protocol):
    """A normal law of θ in every replica."""

    @property
    def theta(self) -> Floats:
        """Its means (R,d)."""

    @property
    def gram(self) -> Floats:
        """V, its precisions times s² (R,d,d)."""


def log_best_arm_probabilities(
    state: Normal, arms: Floats, lam: float, scale: Floats
) -> tuple[Floats, Floats]:
    """log P(arm is best) and the probability's standard error.  → (R,K) twice.

    arms (R,K,d) or (1,K,d), all arrays in the form of `validation.for_kernels`; a state of one replica, with
    its scale, serves R sets.
    """
    law = np.empty((2, max(len(state.theta), len(arms)), arms.shape[1]))
    core.best_arm_probabilities(
        state.theta,
        state.gram,
        lam,
        scale,
        arms,
        law,
        ENOUGH,
        WORK,
        MOST_POINTS,
        FLAT,
        FEW,
        MOST_ARMS,
        POINTS,
    )
    return law[0], law[1]
