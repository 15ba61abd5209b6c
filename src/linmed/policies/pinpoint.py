"""Pinpoint: find the best arm with as few rewards as possible (randomised LinGapE)."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from linmed.core import core
from linmed.policies.base import Properties
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.rule import Floored


@dataclass(frozen=True)
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
    floor: float = field(default=0.1, kw_only=True)
    """ε: share of the mass that is spread evenly over the arms, so that the log can be evaluated."""

    properties: ClassVar[Properties] = Properties(
        reference="Xu, Honda & Sugiyama 2018, randomised",
        minimax="n",
        instance="n",
        computable="closed form",
        all_arms="yes",
        randomised=True,
    )

    @property
    def rule(self) -> Any:
        """The most telling arm, and a share ε for all."""
        return core.PinpointRule(self.floor)
