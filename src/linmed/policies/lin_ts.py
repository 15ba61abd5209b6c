"""Linear Thompson sampling (Agrawal and Goyal 2013; Abeille and Lazaric 2017; Russo and Van Roy 2014)."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Properties
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.ridge import RidgeState
from linmed.policies.rule import Floored
from linmed.policies.sampled import Sampled
from linmed.validation import Floats

SHORT = {
    "frequentist": "LinTS-Freq",
    "bayes": "LinTS-Bayes",
    "agrawal-goyal": "LinTS-AG",
    "squared-radius": "LinTS-Squared",
}
NUMBER = 2
KINDS = {"frequentist": 0, "squared-radius": 1, "agrawal-goyal": 3}
"""Which scale of core/thompson.hpp; else NUMBER."""


@dataclass(frozen=True)
class LinTS(Sampled, Floored, CompiledPolicy):
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

    >>> from linmed import Agent
    >>> agent, arms = Agent(LinTS(scale="bayes", sigma=0.5), dim=2), [[1.0, 0.0], [0.0, 1.0]]
    >>> agent.observe(arms * 2, [0.9, 0.4] * 2)
    >>> agent.probabilities(arms).round(3)
    array([0.827, 0.173])

    `scale` and `horizon` are its own parameters, `propensity` is what is logged: "exact", "none", or a number
    of draws to estimate it from. `floor` is a share ε for all arms alike, and the others are those of
    `RidgePolicy`.
    """

    scale: Literal["frequentist", "bayes", "agrawal-goyal", "squared-radius"] | float = "frequentist"
    """s: the name of a rule, or a number."""
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

    @property
    def scale_free(self) -> bool:
        """Where the scale s has the unit of a reward."""
        return self.scale in ("frequentist", "bayes", "agrawal-goyal")

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.scale, str):
            self._set("scale", validation.option("scale", self.scale, tuple(SHORT)))
        else:
            self._set("scale", validation.positive("scale", self.scale))
        if self.horizon is not None:
            self._set("horizon", validation.whole("horizon", self.horizon, at_least=3))

    @property
    def rule(self) -> Any:
        """Draw θ̃ and play its best arm; no probability is computed."""
        return self._thompson

    @cached_property
    def _thompson(self) -> Any:
        return core.ThompsonRule(
            kind=KINDS.get(str(self.scale), NUMBER),
            size=self._size,
            horizon=float(self.horizon or 0),
            log_inverse_delta=-1.0 if self.delta is None else -math.log(self.delta),
            lam=self.pivot,
            floor=self.floor,
        )

    @property
    def pivot(self) -> float:
        """λ, or hardly anything where its unit is that of the features."""
        return 1e-300 if self.ridge == "learned" else self.lam

    @property
    def _size(self) -> float:
        if not isinstance(self.scale, str):
            return self.scale
        return -self.reward_scale if isinstance(self.sigma, str) else self.sigma

    def spread(self, state: RidgeState) -> Floats:
        """s in every replica (R,).

        >>> from linmed import LinTS
        >>> policy = LinTS(scale="bayes", sigma=0.5)
        >>> policy.spread(policy.start(replicas=1, dim=2))
        array([0.5])
        """
        out = np.empty(len(state.count))
        core.spreads(self.bind_leaders(state), self.confidence_set, self._thompson, out)
        return out

    def derived_name(self) -> str:
        """LinTS-Freq and the like."""
        if isinstance(self.scale, str):
            return SHORT[self.scale] + self.describe("scale")
        return "LinTS" + self.describe()
