"""SpannerIGW: inverse gap weighting over a design (Zhu, Foster, Langford and Mineiro 2022)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from linmed import checks
from linmed.checks import Floats
from linmed.kernels import igw
from linmed.policies.base import Properties, RidgeState, decisions
from linmed.policies.rule import Floored, RulePolicy


@dataclass(frozen=True)
class SpannerIGW(Floored, RulePolicy):
    """p(a) = q(a)/(λ + η gap(a)), q half on the best arm, half on a design of the arms a/√(1 + η gap(a)).

    η = γ/(C_opt d) and γ = √(C_opt d n / (Reg_Sq(n) + 32 log(2/δ))); λ in [1/2, 1] makes the sum 1.
    n is the horizon, or the current round t = rewards absorbed + 1 in the anytime version. δ = None means
    1/(n + 1). γ times a gap should have no unit, so Reg_Sq should grow with σ²; the paper's experiments
    use d log n whatever σ is, and so does the default here.
    """

    horizon: int | None = None
    """n; None is the anytime version."""
    C_opt: float = 4.0
    """The design's largest leverage is at most C_opt·d."""
    gamma: float | None = None
    """γ; None computes it as above."""
    regression_regret: float | None = None
    """Reg_Sq(n); None means d log n."""
    design: Literal["approx", "optimal"] = "approx"
    """ApproxDesign, or the G-optimal design (for which C_opt = 1 is right)."""

    properties: ClassVar[Properties] = Properties(
        reference="Zhu, Foster, Langford & Mineiro 2022",
        minimax="d √n",
        instance="at least Δ √n",
        computable="closed form",
        all_arms="design and best arm (all with floor > 0)",
        randomised=True,
        paper_computable="yes",
        paper_all_arms="no*",
    )
    scale_free: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon is not None:
            self._set("horizon", checks.whole("horizon", self.horizon))
        self._set("C_opt", checks.positive("C_opt", self.C_opt))
        if self.gamma is not None:
            self._set("gamma", checks.positive("gamma", self.gamma))
        if self.regression_regret is not None:
            self._set("regression_regret", checks.positive("regression_regret", self.regression_regret))
        self._set("design", checks.option("design", self.design, ("approx", "optimal")))

    def exploration(self, state: RidgeState) -> Floats:
        """γ in every replica (R,)."""
        replicas, dim = state.theta.shape
        if self.gamma is not None:
            return np.full(replicas, self.gamma)
        n = state.count + 1.0 if self.horizon is None else np.full(replicas, float(self.horizon))
        log_rate = np.log(2.0 / self.delta) if self.delta is not None else np.log(2.0 * (n + 1.0))
        regret = dim * np.log(n) if self.regression_regret is None else self.regression_regret
        gamma: Floats = np.sqrt(self.C_opt * dim * n / (regret + 32.0 * log_rate))
        return gamma

    def probabilities(self, state: RidgeState, arms: Floats) -> Floats:
        """q(a) / (λ + η gap(a)).  arms → (R,K)."""
        out = np.empty((decisions(state, arms), arms.shape[1]))
        eta = self.exploration(state) / (self.C_opt * arms.shape[2])
        igw.spanner_igw(arms, state.theta, eta, self.design == "optimal", out)
        return out

    def derived_name(self) -> str:
        """SpannerIGW, or SpannerIGW-AT for the anytime version."""
        return ("SpannerIGW-AT" if self.horizon is None else "SpannerIGW") + self.describe("horizon")
