"""Linear Thompson sampling (Agrawal and Goyal 2013; Abeille and Lazaric 2017; Russo and Van Roy 2014)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from linmed import checks
from linmed.checks import Floats
from linmed.kernels import thompson
from linmed.policies.base import Choice, Noise, Properties, entries
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.gaussian_argmax import log_best_arm_probabilities, with_played
from linmed.policies.ridge import RidgeState
from linmed.policies.rule import Floored

SHORT = {
    "frequentist": "LinTS-Freq",
    "bayes": "LinTS-Bayes",
    "agrawal-goyal": "LinTS-AG",
    "squared-radius": "LinTS-Squared",
}


@dataclass(frozen=True)
class LinTS(Floored, CompiledPolicy):
    """Draw θ̃ ~ N(θ̂, s² V⁻¹) and play argmax_a ⟨θ̃, a⟩. Ties go to the lowest index.

    The scale s is √β, OFUL's radius ("frequentist"); σ, which with λ = σ²/S² is the posterior of the
    prior N(0, S² I) ("bayes"); σ√(9 d log(t/δ)), or with a horizon σ√(24 d log(n) log(1/δ))
    ("agrawal-goyal"); β, the square of OFUL's radius ("squared-radius", as in the paper's experiments);
    or a number. In "agrawal-goyal" t is the number of rewards absorbed, at least 1. In "bayes" and
    "agrawal-goyal" an estimate stands for σ where it is unknown.

    The probability that is logged is the marginal one, before the draw. It is computed for two arms by
    the normal CDF, for arms in a plane by an integral over the angle (1e-9), and otherwise by the chance that
    each arm has on a ray of its own through the points of a Sobol set; `propensity_error` tells the standard
    error. `choose` computes none. An arm that is played has at least its error or 3e-5, whichever is less.

    >>> LinTS().name, LinTS(scale="bayes", sigma=0.1).name, LinTS(scale=2.0).name
    ('LinTS-Freq', 'LinTS-Bayes (sigma=0.1)', 'LinTS (scale=2.0)')
    """

    scale: Literal["frequentist", "bayes", "agrawal-goyal", "squared-radius"] | float = "frequentist"
    """s: the name of a rule, or a number."""
    propensity: Literal["exact", "none"] | int = "exact"
    """What `decide` logs: the exact probability; nothing (NaN); or, for a number M, the estimate
    (X + 1)/(M + 1) where X of M fresh draws play the same arm."""
    horizon: int | None = None
    """n of "agrawal-goyal" when it is known beforehand."""

    properties: ClassVar[Properties] = Properties(
        reference="Agrawal & Goyal 2014; Abeille & Lazaric 2017",
        minimax="d √(d n)",
        instance="unknown",
        computable="normal CDF (K = 2), angular integral (plane), ray integration otherwise",
        all_arms="corners of the hull (all with floor > 0)",
        randomised=True,
        paper_computable="no",
        paper_all_arms="no",
    )
    noise: ClassVar[Noise] = "normal"

    @property
    def tells_probability(self) -> bool:
        """Unless propensity="none"."""
        return self.propensity != "none"

    @property
    def scale_free(self) -> bool:
        """Where the scale s has the unit of a reward."""
        return self.scale in ("frequentist", "bayes", "agrawal-goyal")

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.scale, str):
            self._set("scale", checks.option("scale", self.scale, tuple(SHORT)))
        else:
            self._set("scale", checks.positive("scale", self.scale))
        if isinstance(self.propensity, str):
            self._set("propensity", checks.option("propensity", self.propensity, ("exact", "none")))
        else:
            self._set("propensity", checks.whole("propensity", self.propensity))
        if self.horizon is not None:
            self._set("horizon", checks.whole("horizon", self.horizon, at_least=3))

    def noise_size(self, dim: int) -> int:
        """d normals, and one more that becomes a uniform where there is a floor."""
        return dim + 1 if self.floor > 0.0 else dim

    @property
    def rule(self) -> thompson.ThompsonRule:
        """Draw θ̃ and play its best arm; no probability is computed."""
        kinds = {
            "frequentist": thompson.FREQUENTIST,
            "squared-radius": thompson.SQUARED_RADIUS,
            "agrawal-goyal": thompson.AGRAWAL_GOYAL,
        }
        return thompson.ThompsonRule(
            kind=kinds.get(str(self.scale), thompson.NUMBER),
            size=self._size,
            horizon=float(self.horizon or 0),
            log_inverse_delta=-1.0 if self.delta is None else -math.log(self.delta),
            lam=self.lam,
            floor=self.floor,
        )

    @property
    def _size(self) -> float:
        if not isinstance(self.scale, str):
            return self.scale
        return -self.reward_scale if isinstance(self.sigma, str) else self.sigma

    def spread(self, state: RidgeState) -> Floats:
        """s in every replica (R,)."""
        _, confidence, rule = self._parts
        out = np.empty(len(state.count))
        thompson.spreads(type(self.confidence_set))(self.estimate(state).parts(), confidence, rule, out)
        return out

    def log_probabilities(self, state: RidgeState, arms: Floats) -> Floats:
        """The marginal log-probability of every arm.  arms (R,K,d) or (1,K,d) → (R,K)."""
        return self._law(state, arms)[0]

    def propensity_error(self, state: RidgeState, arms: Floats) -> Floats:
        """Standard error of the probabilities: 0 for two arms, 1e-9 by the angular integral.  → (R,K)."""
        return self._law(state, arms)[1]

    def _law(self, state: RidgeState, arms: Floats) -> tuple[Floats, Floats]:
        log_p, error = log_best_arm_probabilities(self.estimate(state), arms, self.lam, self.spread(state))
        if self.floor > 0.0:
            with np.errstate(divide="ignore"):
                log_p = np.logaddexp(np.log1p(-self.floor) + log_p, np.log(self.floor / arms.shape[1]))
        return log_p, (1.0 - self.floor) * error

    def decide(self, state: RidgeState, arms: Floats, noise: Floats) -> Choice:
        """Draw θ̃, play its best arm and say how probable that was beforehand."""
        arm = self.choose(state, arms, noise)
        features = self.features(state, arms, arm)
        if self.propensity == "none":
            return Choice(arm, np.full(len(arm), np.nan), None, features)
        if self.propensity == "exact":
            log_p, error = self._law(state, arms)
            if self.floor == 0.0:  # with a floor every arm has a share that is known
                with_played(log_p, error, arm)
            return Choice(arm, entries(log_p, arm), log_p, features, entries(error, arm))
        repeats = np.empty(len(arm), dtype=np.int64)
        bits = np.ascontiguousarray(noise).view(np.uint64)
        model = self.estimate(state)
        thompson.count_repeats(
            arms, model.theta, model.gram, self.lam, self.spread(state), self.floor,
            bits, arm, self.propensity, repeats,
        )  # fmt: skip
        p = (repeats + 1.0) / (self.propensity + 1.0)
        return Choice(arm, np.log(p), None, features, np.sqrt(p * (1.0 - p) / self.propensity))

    def derived_name(self) -> str:
        """LinTS-Freq and the like."""
        if isinstance(self.scale, str):
            return SHORT[self.scale] + self.describe("scale")
        return "LinTS" + self.describe()
