"""Inverse gap weighting: SquareCB over all arms (Foster and Rakhlin 2020), SpannerIGW over a design."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Properties, parameter
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.ridge import Floored, RidgePolicy, RidgeState
from linmed.validation import Floats


@dataclass(frozen=True, kw_only=True)
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

    oracle: Literal["ridge", "vaw"] = parameter("ridge", validation.option, ("ridge", "vaw"))
    """Which predictions."""
    gamma: float | None = parameter(None, validation.positive)
    """γ; None computes it as above."""
    horizon: int | None = parameter(None, validation.whole)
    """n; None is the anytime version."""
    form: Literal["rest", "normalised"] = parameter("rest", validation.option, ("rest", "normalised"))
    """"rest": as above; "normalised": p(a) = 1/(λ' + 2γ gap(a)), λ' in [1, K] making the sum 1."""

    properties: ClassVar[Properties] = Properties(
        "Foster & Rakhlin 2020", minimax="√(K d n)", paper_computable="yes", paper_all_arms="no"
    )

    @property
    def scale_free(self) -> bool:
        """No: γ multiplies gaps in the units of the rewards."""
        return False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma is None:
            self._require_numbers("gamma")

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
        """Compute γ in every replica (R,) when there are so many arms.

        >>> from linmed import SquareCB
        >>> policy = SquareCB(horizon=1000)
        >>> policy.exploration(policy.start(replicas=1, dim=2), arms=10).round(2)
        array([22.34])
        """
        out = np.empty(len(state.count))
        core.exploration(self.bind(state), self.rule, arms, out)
        return out


@dataclass(frozen=True, kw_only=True)
class SpannerIGW(Floored, CompiledPolicy):
    """p(a) = q(a)/(λ + η gap(a)), q half on the best arm, half on a design of the arms a/√(1 + η gap(a)).

    η = γ/(C_opt d) and γ = √(C_opt d n / (Reg_Sq(n) + 32 log(2/δ))); λ in [1/2, 1] makes the sum 1.
    n is the horizon, or the current round t = rewards absorbed + 1 in the anytime version. δ = None means
    1/(n + 1). γ times a gap should have no unit, so Reg_Sq should grow with σ²; the paper's experiments
    use d log n whatever σ is, and so does the default here. The paper's proof of Theorem 4 has another η:
    that of C_opt = 1, δ = 1/4 (docs/paper.md).

    Its own parameters are `horizon`, `C_opt`, `gamma`, `regression_regret` and `design`; `floor` is a share ε
    for all arms alike, and the others are those of `RidgePolicy`.

    >>> from linmed import Agent, SpannerIGW
    >>> agent, arms = Agent(SpannerIGW(gamma=100.0), dim=2), [[1.0, 0.0], [0.0, 1.0]]
    >>> agent.observe(arms * 5, [0.9, 0.1] * 5)
    >>> agent.probabilities(arms).round(3)
    array([0.973, 0.027])
    """

    horizon: int | None = parameter(None, validation.whole)
    """n; None is the anytime version."""
    C_opt: float = parameter(4.0, validation.positive)
    """The design's largest leverage is at most C_opt·d."""
    gamma: float | None = parameter(None, validation.positive)
    """γ; None computes it as above."""
    regression_regret: float | None = parameter(None, validation.positive)
    """Reg_Sq(n); None means d log n."""
    design: Literal["approx", "optimal"] = parameter("approx", validation.option, ("approx", "optimal"))
    """ApproxDesign, or the G-optimal design (for which C_opt = 1 is right)."""

    properties: ClassVar[Properties] = Properties(
        "Zhu, Foster, Langford & Mineiro 2022",
        minimax="d √n",
        instance="at least Δ √n",
        all_arms="design and best arm (all with floor > 0)",
        paper_computable="yes",
        paper_all_arms="no*",
    )

    @property
    def scale_free(self) -> bool:
        """No: γ multiplies gaps in the units of the rewards."""
        return False

    @property
    def rule(self) -> Any:
        """q(a) / (λ + η gap(a))."""
        return core.SpannerRule(**self._numbers)

    @property
    def _numbers(self) -> dict[str, Any]:
        """What the rule is made of."""
        return {
            "C_opt": self.C_opt,
            "gamma": self.gamma or 0.0,
            "horizon": float(self.horizon or 0),
            "log_rate": -1.0 if self.delta is None else math.log(2.0 / self.delta),
            "regression_regret": self.regression_regret or 0.0,
            "optimal": self.design == "optimal",
            "floor": self.floor,
        }

    def exploration(self, state: RidgeState) -> Floats:
        """Compute γ in every replica (R,).

        >>> from linmed import SpannerIGW
        >>> policy = SpannerIGW(horizon=1000)
        >>> policy.exploration(policy.start(replicas=1, dim=2)).round(2)
        array([5.58])
        """
        out = np.empty(len(state.count))
        core.exploration(self.bind(state), self.rule, 0, out)
        return out

    def derived_name(self) -> str:
        """Say SpannerIGW, or SpannerIGW-AT for the anytime version."""
        return ("SpannerIGW-AT" if self.horizon is None else "SpannerIGW") + self.describe("horizon")
