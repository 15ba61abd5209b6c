"""OFUL: optimism in the face of uncertainty (Abbasi-Yadkori, Pál and Szepesvári 2011), and LinUCB."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from linmed import validation
from linmed.core import core
from linmed.policies.base import Properties
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.rule import Floored


@dataclass(frozen=True)
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
        reference="Abbasi-Yadkori, Pál & Szepesvári 2011",
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


@dataclass(frozen=True)
class LinUCB(OFUL):
    """OFUL by the name most libraries give it, with their fixed width: argmax_a ⟨θ̂, a⟩ + α ‖a‖_{V⁻¹}.

    >>> LinUCB(alpha=0.5).name, LinUCB().name
    ('LinUCB (alpha=0.5)', 'LinUCB')

    `alpha` is its own parameter; the others are those of `OFUL` and `RidgePolicy`.

    >>> policy = LinUCB(alpha=0.5)
    >>> policy.radius(policy.start(replicas=1, dim=2))
    array([0.5])
    """

    alpha: float | None = None
    """α; None means OFUL's √β, which grows as its guarantee needs."""

    properties: ClassVar[Properties] = OFUL.properties._replace(
        reference="Li, Chu, Langford & Schapire 2010", paper_computable="—", paper_all_arms="—"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha is not None:
            self._set("alpha", validation.positive("alpha", self.alpha))

    @cached_property
    def confidence_set(self) -> Any:
        """OFUL's, or β = α²."""
        return super().confidence_set if self.alpha is None else core.FixedSet(self.alpha**2)

    @property
    def scale_free(self) -> bool:
        """Unless α is a number, in the units of the rewards."""
        return self.alpha is None
