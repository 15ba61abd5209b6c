"""RandUCB: randomised optimism (Vaswani, Mehrabian, Durand and Kveton 2020)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Properties
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.rule import Floored
from linmed.validation import Floats


@dataclass(frozen=True)
class RandUCB(Floored, CompiledPolicy):
    """Play argmax_a ⟨θ̂, a⟩ + Z ‖a‖_{V⁻¹} with a random Z on M equally spaced points between L and U = √β.

    Z is a discretised half-Gaussian: P(Z = α_m) ∝ exp(−α_m²/(2s²)) for m < M, together 1 − ε, and
    P(Z = U) = ε. Coupled, one Z serves all arms; uncoupled, each arm has its own. The probability of an
    arm is a sum over the grid. Ties go to the lowest index. With M = 1, Z = U always and this is OFUL.

    Its own parameters are `coupled`, `points`, `low`, `spread` and `top`; `floor` is a share ε for all arms
    alike, and the others are those of `RidgePolicy`.

    >>> from linmed import Agent, RandUCB
    >>> agent, arms = Agent(RandUCB(sigma=0.3), dim=2), [[1.0, 0.0], [0.0, 1.0]]
    >>> agent.observe([[1.0, 0.0]] * 5, [0.4] * 5)
    >>> agent.probabilities(arms).round(3)
    array([0.753, 0.247])
    """

    coupled: bool = True
    """One Z for all arms?"""
    points: int = 20
    """M."""
    low: float = 0.0
    """L/U: 0 is optimistic, −1 symmetric."""
    spread: float = 0.125
    """s/U."""
    top: float = 1e-7
    """ε = P(Z = U)."""

    properties: ClassVar[Properties] = Properties(
        reference="Vaswani, Mehrabian, Durand & Kveton 2020",
        minimax="d √n",
        instance="unknown",
        computable="sum over the grid",
        all_arms="no (yes with floor > 0)",
        randomised=True,
        paper_computable="no",
        paper_all_arms="no",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("coupled", validation.flag("coupled", self.coupled))
        self._set("points", validation.whole("points", self.points))
        self._set("low", validation.between("low", self.low, -1.0, 1.0))
        if self.points > 1 and self.low == 1.0:
            raise ValueError(f"low must be below 1 when there are {self.points} points, got {self.low!r}")
        self._set("spread", validation.positive("spread", self.spread))
        self._set("top", validation.between("top", self.top, 0.0, 1.0))

    def law(self) -> tuple[Floats, Floats]:
        """The values of Z/U, increasing, and their probabilities, (M,) each.

        >>> from linmed import RandUCB
        >>> values, probabilities = RandUCB(points=3, spread=1.0, top=0.5).law()
        >>> values, probabilities.round(3)
        (array([0. , 0.5, 1. ]), array([0.266, 0.234, 0.5  ]))
        """
        return half_gaussian(self.points, self.low, self.spread, self.top)

    @property
    def rule(self) -> Any:
        """The sum over the grid."""
        return core.RandomisedRule(*self.law(), self.coupled, self.floor)


@lru_cache(maxsize=64)
def half_gaussian(points: int, low: float, spread: float, top: float) -> tuple[Floats, Floats]:
    """Equally spaced points from `low` to 1 with probabilities ∝ exp(−x²/(2 spread²)), but `top` at 1."""
    if points == 1:
        return np.ones(1), np.ones(1)
    grid = np.linspace(low, 1.0, points)
    log_weight = -0.5 * (grid[:-1] / spread) ** 2
    weights = np.exp(log_weight - log_weight.max())
    return grid, np.append((1.0 - top) * weights / weights.sum(), top)
