"""OFUL: optimism in the face of uncertainty (Abbasi-Yadkori, Pál and Szepesvári 2011)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels import optimism
from linmed.policies.base import Properties, RidgeState, decisions
from linmed.policies.rule import DeterministicPolicy, Floored


@dataclass(frozen=True)
class OFUL(Floored, DeterministicPolicy):
    """Play argmax_a ⟨θ̂, a⟩ + √β ‖a‖_{V⁻¹}, also known as LinUCB. Ties go to the lowest index.

    √β = σ √(log(det V/det V₀) + 2 log(1/δ)) + √λ S. The rule is deterministic: without a `floor` its logs
    say nothing about arms it did not play.
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

    def best(self, state: RidgeState, arms: Floats) -> Ints:
        """The arm of the largest upper confidence bound."""
        out = np.empty(decisions(state, arms), dtype=np.int64)
        optimism.oful(arms, state.theta, state.inverse, self.radius(state), out)
        return out
