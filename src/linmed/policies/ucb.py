"""Decide by confidence bounds: OFUL and LinUCB, RandUCB, LinIMED, and Pinpoint, which finds the best arm."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Properties, parameter
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.ridge import Floored
from linmed.validation import Floats


@dataclass(frozen=True, kw_only=True)
class OFUL(Floored, CompiledPolicy):
    """Play argmax_a ⟨θ̂, a⟩ + √β ‖a‖_{V⁻¹}. Ties go to the lowest index.

    √β = σ √(log(det V/det V₀) + 2 log(1/δ)) + √λ S. The rule is deterministic: without a `floor` its logs
    say nothing about arms it did not play.

    `floor` is a share ε for all arms alike; the other parameters are those of `RidgePolicy`.

    >>> from linmed import Agent, OFUL
    >>> agent, arms = Agent(OFUL(sigma=0.3, floor=0.1), dim=2), [[1.0, 0.0], [0.0, 1.0]]
    >>> agent.observe(arms * 5, [0.9, 0.1] * 5)
    >>> agent.probabilities(arms)
    array([0.95, 0.05])
    """

    properties: ClassVar[Properties] = Properties(
        "Abbasi-Yadkori, Pál & Szepesvári 2011",
        minimax="d √n",
        instance="d² log³(n) / Δ",
        computable="degenerate: 1 on one arm",
        all_arms="no (yes with floor > 0)",
        randomised=False,
        paper_computable="N/A",
        paper_all_arms="no",
    )

    @property
    def rule(self) -> Any:
        """The arm of the largest upper confidence bound."""
        return core.OfulRule(self.floor)


@dataclass(frozen=True, kw_only=True)
class LinUCB(OFUL):
    """OFUL by the name most libraries give it, with their fixed width: argmax_a ⟨θ̂, a⟩ + α ‖a‖_{V⁻¹}.

    >>> LinUCB(alpha=0.5).name, LinUCB().name
    ('LinUCB (alpha=0.5)', 'LinUCB')

    `alpha` is its own parameter; the others are those of `OFUL` and `RidgePolicy`.

    >>> policy = LinUCB(alpha=0.5)
    >>> policy.radius(policy.start(replicas=1, dim=2))
    array([0.5])
    """

    alpha: float | None = parameter(None, validation.positive)
    """α; None means OFUL's √β, which grows as its guarantee needs."""

    properties: ClassVar[Properties] = OFUL.properties._replace(
        reference="Li, Chu, Langford & Schapire 2010", paper_computable="—", paper_all_arms="—"
    )

    @cached_property
    def confidence_set(self) -> Any:
        """OFUL's, or β = α²."""
        return super().confidence_set if self.alpha is None else core.FixedSet(self.alpha**2)

    @property
    def scale_free(self) -> bool:
        """Unless α is a number, in the units of the rewards."""
        return self.alpha is None


@dataclass(frozen=True, kw_only=True)
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

    coupled: bool = parameter(True, validation.flag)
    """One Z for all arms?"""
    points: int = parameter(20, validation.whole)
    """M."""
    low: float = parameter(0.0, validation.between, -1.0, 1.0)
    """L/U: 0 is optimistic, −1 symmetric."""
    spread: float = parameter(0.125, validation.positive)
    """s/U."""
    top: float = parameter(1e-7, validation.between, 0.0, 1.0)
    """ε = P(Z = U)."""

    properties: ClassVar[Properties] = Properties(
        "Vaswani, Mehrabian, Durand & Kveton 2020",
        minimax="d √n",
        computable="sum over the grid",
        all_arms="no (yes with floor > 0)",
        paper_computable="no",
        paper_all_arms="no",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.points > 1 and self.low == 1.0:
            raise ValueError(f"low must be below 1 when there are {self.points} points, got {self.low!r}")

    def law(self) -> tuple[Floats, Floats]:
        """Give the values of Z/U, increasing, and their probabilities, (M,) each.

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
    """Space points evenly from `low` to 1, with probabilities ∝ exp(−x²/(2 spread²)), but `top` at 1."""
    if points == 1:
        return np.ones(1), np.ones(1)
    grid = np.linspace(low, 1.0, points)
    log_weight = -0.5 * (grid[:-1] / spread) ** 2
    weights = np.exp(log_weight - log_weight.max())
    return grid, np.append((1.0 - top) * weights / weights.sum(), top)


@dataclass(frozen=True, kw_only=True)
class LinIMED(Floored, CompiledPolicy):
    """Play argmin_a I(a) with I(a) = D(a)² / (β‖a‖²_{V⁻¹}) − log(β‖a‖²_{V⁻¹}). Ties go to the lowest index.

    Version 1: D is the gap between the means. Version 2: the same, but the empirically best arm's index
    is capped at log T. Version 3: D is the gap between upper confidence bounds, and the index of the arm
    with the largest one is capped at log(C / max_a D(a)²). The zero vector has index +inf.

    Its own parameters are `version`, `C` and `horizon`; `floor` is a share ε for all arms alike, and the
    others are those of `RidgePolicy`.

    >>> from linmed import Agent, LinIMED
    >>> agent, arms = Agent(LinIMED(version=3, sigma=0.3), dim=2), [[1.0, 0.0], [0.0, 1.0]]
    >>> agent.observe(arms * 5, [0.9, 0.1] * 5)
    >>> agent.probabilities(arms)
    array([1., 0.])
    """

    version: Literal[1, 2, 3] = parameter(1, validation.option, (1, 2, 3))
    """Which of the paper's three rules."""
    C: float = parameter(30.0, validation.positive)
    """Constant of version 3."""
    horizon: int | None = parameter(None, validation.whole)
    """T of version 2; None means the current round t = rewards absorbed + 1."""

    properties: ClassVar[Properties] = Properties(
        "Bian & Tan 2024",
        minimax="d √n",
        computable="degenerate: 1 on one arm",
        all_arms="no (yes with floor > 0)",
        randomised=False,
        paper_computable="N/A",
        paper_all_arms="no",
    )

    @property
    def scale_free(self) -> bool:
        """But for version 2, whose cap log T has no unit."""
        return self.version != 2

    @property
    def rule(self) -> Any:
        """The arm of the smallest index."""
        log_horizon = -1.0 if self.horizon is None else math.log(self.horizon)
        return core.ImedRule(self.version, self.C, log_horizon, self.floor)

    def derived_name(self) -> str:
        """Say LinIMED-1 and the like."""
        return f"LinIMED-{self.version}" + self.describe("version")


@dataclass(frozen=True, kw_only=True)
class Pinpoint(Floored, CompiledPolicy):
    """For experiments: learn which arm is best, whatever is earned meanwhile; `Agent.verdict` says when.

    b = argmax over a ≠ â of √β‖â − a‖ − Δ̂(a) is the strongest rival of the empirically best arm â; y = â − b.
    The arm c = argmax_a ⟨a, V⁻¹y⟩² / (1 + ‖a‖²), norms in V⁻¹, is the one whose reward makes ‖y‖ smallest:
    p = (1 − ε) 1{a = c} + ε/K. Ties go to the lowest index.

    >>> Pinpoint().name, Pinpoint(sigma=0.3, delta=0.2).name
    ('Pinpoint', 'Pinpoint (sigma=0.3, delta=0.2)')

    `delta` and `floor` have defaults of their own; the other parameters are those of `RidgePolicy`.

    >>> from linmed import Agent
    >>> agent, arms = Agent(Pinpoint(sigma=0.3), dim=2), [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]
    >>> agent.observe(arms * 5, [0.9, 0.8, 0.1] * 5)
    >>> agent.probabilities(arms).round(3)
    array([0.033, 0.033, 0.933])
    """

    delta: float | None = 0.05
    """δ of the confidence radius, fixed as in the verdict; None means 1/(t+1) after t rewards."""
    floor: float = 0.1
    """ε: share of the mass that is spread evenly over the arms, so that the log can be evaluated."""

    properties: ClassVar[Properties] = Properties(
        "Xu, Honda & Sugiyama 2018, randomised", minimax="n", instance="n"
    )

    @property
    def rule(self) -> Any:
        """The most telling arm, and a share ε for all."""
        return core.PinpointRule(self.floor)
