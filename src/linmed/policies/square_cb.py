"""SquareCB: inverse gap weighting over all arms (Foster and Rakhlin 2020)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Properties
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.ridge import RidgePolicy, RidgeState
from linmed.validation import Floats


@dataclass(frozen=True)
class SquareCB(RidgePolicy, CompiledPolicy):
    """p(a) = 1/(K + γ gap(a)) for every arm but the best, which has the rest.

    The gaps are between predictions of an online regression oracle: ridge, f(a) = ⟨θ̂, a⟩, or
    Vovk–Azoury–Warmuth, f(a) = ⟨θ̂, a⟩/(1 + ‖a‖²_{V⁻¹}). γ = √(K n / (Reg_Sq + log(2/δ))): with a horizon n,
    Reg_Sq = σ² d log(1 + n/(d λ)); without one n is the current round t = rewards absorbed + 1 and
    Reg_Sq = λS² + (σ² + S²) log(det V/det V₀), what the regression has cost so far. δ = None means 1/(n + 1).

    Its own parameters are `oracle`, `gamma`, `horizon` and `form`; the others are those of `RidgePolicy`.

    >>> from linmed import Agent, SquareCB
    >>> agent, arms = Agent(SquareCB(gamma=10.0), dim=2), [[1.0, 0.0], [0.0, 1.0]]
    >>> agent.observe(arms * 9, [0.9, 0.1] * 9)
    >>> agent.probabilities(arms).round(3)  # 1/(2 + 10 · 0.72) for the worse one
    array([0.891, 0.109])
    """

    oracle: Literal["ridge", "vaw"] = "ridge"
    """Which predictions."""
    gamma: float | None = None
    """γ; None computes it as above."""
    horizon: int | None = None
    """n; None is the anytime version."""
    form: Literal["rest", "normalised"] = "rest"
    """"rest": as above; "normalised": p(a) = 1/(λ' + 2γ gap(a)), λ' in [1, K] making the sum 1."""

    properties: ClassVar[Properties] = Properties(
        reference="Foster & Rakhlin 2020",
        minimax="√(K d n)",
        instance="unknown",
        computable="closed form",
        all_arms="yes",
        randomised=True,
        paper_computable="yes",
        paper_all_arms="no",
    )

    @property
    def scale_free(self) -> bool:
        """No: γ multiplies gaps in the units of the rewards."""
        return False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("oracle", validation.option("oracle", self.oracle, ("ridge", "vaw")))
        if self.gamma is not None:
            self._set("gamma", validation.positive("gamma", self.gamma))
        else:
            self._require_numbers("gamma")
        if self.horizon is not None:
            self._set("horizon", validation.whole("horizon", self.horizon))
        self._set("form", validation.option("form", self.form, ("rest", "normalised")))

    @property
    def rule(self) -> Any:
        """Inverse gap weights."""
        sigma, norm = self.numbers
        return core.SquareRule(
            vaw=self.oracle == "vaw",
            normalised=self.form == "normalised",
            gamma=self.gamma or 0.0,
            horizon=float(self.horizon or 0),
            log_rate=-1.0 if self.delta is None else math.log(2.0 / self.delta),
            lam=self.lam,
            bias=self.lam * norm**2,
            variance=sigma**2,
            unit=sigma**2 + norm**2,
        )

    def exploration(self, state: RidgeState, arms: int) -> Floats:
        """γ in every replica (R,) when there are so many arms.

        >>> from linmed import SquareCB
        >>> policy = SquareCB(horizon=1000)
        >>> policy.exploration(policy.start(replicas=1, dim=2), arms=10).round(2)
        array([22.34])
        """
        out = np.empty(len(state.count))
        core.exploration(self.bind(state), self.rule, arms, out)
        return out
