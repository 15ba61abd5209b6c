"""SquareCB: inverse gap weighting over all arms (Foster and Rakhlin 2020)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from linmed import checks
from linmed.checks import Floats
from linmed.kernels import igw
from linmed.policies.base import Properties, RidgeState, decisions
from linmed.policies.rule import RulePolicy


@dataclass(frozen=True)
class SquareCB(RulePolicy):
    """p(a) = 1/(K + γ gap(a)) for every arm but the best, which has the rest.

    The gaps are between predictions of an online regression oracle: ridge, f(a) = ⟨θ̂, a⟩, or
    Vovk–Azoury–Warmuth, f(a) = ⟨θ̂, a⟩/(1 + ‖a‖²_{V⁻¹}). γ = √(K n / (Reg_Sq + log(2/δ))): with a horizon n,
    Reg_Sq = σ² d log(1 + n/(d λ)); without one n is the current round t = rewards absorbed + 1 and
    Reg_Sq = λS² + (σ² + S²) log(det V/det V₀), what the regression has cost so far. δ = None means 1/(n + 1).
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
    scale_free: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("oracle", checks.option("oracle", self.oracle, ("ridge", "vaw")))
        if self.gamma is not None:
            self._set("gamma", checks.positive("gamma", self.gamma))
        if self.horizon is not None:
            self._set("horizon", checks.whole("horizon", self.horizon))
        self._set("form", checks.option("form", self.form, ("rest", "normalised")))

    def exploration(self, state: RidgeState, arms: int) -> Floats:
        """γ in every replica (R,) when there are so many arms."""
        replicas, dim = state.theta.shape
        if self.gamma is not None:
            return np.full(replicas, self.gamma)
        if self.horizon is None:
            n = state.count + 1.0
            known = self.lam * self.norm_bound**2
            regret = known + (self.sigma**2 + self.norm_bound**2) * state.logdet
        else:
            n = np.full(replicas, float(self.horizon))
            regret = self.sigma**2 * dim * np.log1p(n / (dim * self.lam))
        log_rate = np.log(2.0 / self.delta) if self.delta is not None else np.log(2.0 * (n + 1.0))
        gamma: Floats = np.sqrt(arms * n / (regret + log_rate))
        return gamma

    def probabilities(self, state: RidgeState, arms: Floats) -> Floats:
        """Inverse gap weights.  arms → (R,K)."""
        out = np.empty((decisions(state, arms), arms.shape[1]))
        gamma = self.exploration(state, arms.shape[1])
        vaw, normalised = self.oracle == "vaw", self.form == "normalised"
        igw.square_cb(arms, state.theta, state.inverse, gamma, vaw, normalised, out)
        return out
