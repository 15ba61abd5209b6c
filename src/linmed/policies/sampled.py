"""Thompson sampling, whatever the posterior: the arm that a draw likes best, and how probable that was."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Choice, Noise, entries
from linmed.policies.gaussian_argmax import log_best_arm_probabilities
from linmed.policies.rule import Floor
from linmed.validation import Floats


@dataclass(frozen=True)
class Sampled(Floor):
    """Draw θ̃ ~ N(θ̂, s² V⁻¹) and play argmax_a ⟨θ̃, a⟩; a compiled rule draws, and the law is computed here.

    The probability that is logged is the marginal one, before the draw.
    """

    propensity: Literal["exact", "none"] | int = field(default="exact", kw_only=True)
    """What `decide` logs: the exact probability; nothing (NaN); or, for a number M, the estimate
    (X + 1)/(M + 1) where X of M fresh draws play the same arm."""

    noise: ClassVar[Noise] = "normal"
    law_in_core: ClassVar[bool] = False

    if TYPE_CHECKING:  # what the belief that a subclass adds has

        @property
        def lam(self) -> float:
            """λ: V ≥ λI."""

        def estimate(self, state: Any) -> Any:
            """θ̂ and V of the replicas, a `Normal`."""

        def spread(self, state: Any) -> Floats:
            """s in every replica (R,)."""

    @property
    def pivot(self) -> float:
        """What no pivot of V falls below: λ."""
        return self.lam

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.propensity, str):
            self._set("propensity", validation.option("propensity", self.propensity, ("exact", "none")))
        else:
            self._set("propensity", validation.whole("propensity", self.propensity))

    @property
    def tells_probability(self) -> bool:
        """Unless propensity="none"."""
        return self.propensity != "none"

    def noise_size(self, dim: int) -> int:
        """d normals, and one more that becomes a uniform where there is a floor."""
        return dim + 1 if self.floor > 0.0 else dim

    def log_probabilities(self, state: Any, arms: Floats) -> Floats:
        """The marginal log-probability of every arm.  arms (R,K,d) or (1,K,d) → (R,K)."""
        return self._law(state, arms)[0]

    def propensity_error(self, state: Any, arms: Floats) -> Floats:
        """Standard error of the probabilities: 0 for two arms, 1e-9 by the angular integral.  → (R,K)."""
        return self._law(state, arms)[1]

    def _smallest(self, model: Any) -> float:
        """What no pivot of the model's V falls below."""
        return self.pivot

    def _law(self, state: Any, arms: Floats) -> tuple[Floats, Floats]:
        arms, model = validation.for_kernels(arms), self.estimate(state)
        log_p, error = log_best_arm_probabilities(model, arms, self._smallest(model), self.spread(state))
        if self.floor == 0.0:
            return log_p, error
        with np.errstate(divide="ignore"):
            log_p = np.logaddexp(np.log1p(-self.floor) + log_p, np.log(self.floor / arms.shape[1]))
        return log_p, (1.0 - self.floor) * error

    def decide(self, state: Any, arms: Floats, noise: Floats) -> Choice:
        """Draw θ̃, play its best arm and say how probable that was beforehand."""
        arm = self.choose(state, arms, noise)
        features = self.features(state, arms, arm)
        if self.propensity == "none":
            return Choice(arm, np.full(len(arm), np.nan), None, features)
        if self.propensity == "exact":
            log_p, error = self._law(state, arms)
            if self.floor == 0.0:  # with a floor every arm has a share that is known
                core.report_played(log_p, error, arm)
            return Choice(arm, entries(log_p, arm), log_p, features, entries(error, arm))
        model, repeats = self.estimate(state), np.empty(len(arm), dtype=np.int64)
        core.count_repeats(
            model.theta, model.gram, self._smallest(model), self.spread(state), validation.for_kernels(arms),
            self.floor, np.ascontiguousarray(noise).view(np.uint64), arm, self.propensity, repeats,
        )  # fmt: skip
        p = (repeats + 1.0) / (self.propensity + 1.0)
        return Choice(arm, np.log(p), None, features, np.sqrt(p * (1.0 - p) / self.propensity))
