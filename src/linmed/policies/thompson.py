"""Linear Thompson sampling (Agrawal and Goyal 2013; Abeille and Lazaric 2017; Russo and Van Roy 2014).

Which arm is best under θ̃ ~ N(θ̂, s² V⁻¹)? The best method that fits is taken: two arms by the normal CDF
(exact, also in the tails), arms whose differences span at most a plane by the angular integral, and the
others by the chance that each has on its own ray through the points of a Sobol set; very many arms by
lines that all share. An arm that duplicates an earlier one or lies inside the hull of the others has
probability 0; so has, in more than two dimensions, one that beats the leader with less than Φ(−9) =
1e-19, and among very many one too rare for any line to meet.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Choice, Noise, Properties, entries, parameter
from linmed.policies.compiled import CompiledPolicy, Floor
from linmed.policies.posterior import Capabilities
from linmed.policies.ridge import Floored, RidgeState
from linmed.policies.worth import plain_if_worthless
from linmed.validation import Floats, Ints

ENOUGH = 1e-4  # an error that asks for no more points
WORK = 100_000  # points are doubled up to so many times the arms …
MOST_POINTS = 8192  # … and to this number
MOST_ARMS = 2048  # beyond, lines that all arms share: the rays take the square of their number
POINTS = 2048  # lines in each of eight parts of the Sobol set


class Normal(Protocol):
    """A normal law of θ in every replica."""

    @property
    def theta(self) -> Floats:
        """Its means (R,d)."""

    @property
    def gram(self) -> Floats:
        """V, its precisions times s² (R,d,d)."""


class Seen(NamedTuple):
    """A normal law of θ in every replica, and what arms are by it: the best one has the largest ⟨θ̃, a⟩."""

    theta: Floats
    gram: Floats
    arms: Floats
    """(R,K,d) or (1,K,d)."""
    lam: float
    """What no pivot of V falls below."""
    offsets: Floats | None = None
    """(R,K) what arms are worth beside ⟨θ̃, a⟩, where they have values and costs."""


def log_best_arm_probabilities(
    state: Normal, arms: Floats, lam: float, scale: Floats, offsets: Floats | None = None
) -> tuple[Floats, Floats]:
    """Compute log P(arm is best) and the probability's standard error.  → (R,K) twice.

    arms (R,K,d) or (1,K,d), all arrays in the form of `validation.for_kernels`; a state of one replica, with
    its scale, serves R sets.
    """
    law = np.empty((2, max(len(state.theta), len(arms)), arms.shape[1]))
    core.best_arm_probabilities(
        state.theta, state.gram, lam, scale, arms, law, ENOUGH, WORK, MOST_POINTS, MOST_ARMS, POINTS, offsets
    )
    return law[0], law[1]


@dataclass(frozen=True, kw_only=True)
class Sampled(Floor):
    """Draw θ̃ ~ N(θ̂, s² V⁻¹) and play argmax_a ⟨θ̃, a⟩; a compiled rule draws, and the law is computed here.

    The probability that is logged is the marginal one, before the draw.
    """

    propensity: Literal["exact", "none"] | int = "exact"
    """What `decide` logs: the exact probability; nothing (NaN); or, for a number M, the estimate
    (X + 1)/(M + 1) where X of M fresh draws play the same arm."""

    noise: ClassVar[Noise] = "normal"
    integrates: ClassVar[bool] = True
    law_in_core: ClassVar[bool] = False
    compiled_rounds: ClassVar[bool] = True
    takes_worth: ClassVar[bool] = True

    if TYPE_CHECKING:  # what the belief that a subclass adds has

        @property
        def lam(self) -> float:
            """λ: V ≥ λI."""

        @property
        def learns_ridge(self) -> bool:
            """Whether λ is learned."""

        def estimate(self, state: Any) -> Any:
            """θ̂ and V of the replicas, a `Normal`."""

        def spread(self, state: Any) -> Floats:
            """s in every replica (R,)."""

        def bind(self, state: Any) -> Any:
            """The core's belief."""

        def _joint_gram(self, state: Any) -> Floats | None:
            """V of an intercept and θ."""

        def _draw_in_core(self, state: Any, arms: Floats, noise: Floats) -> Ints:
            """Draw one arm per replica."""

    @property
    def pivot(self) -> float:
        """What no pivot of V falls below: λ; 0 where that is learned, in a unit that nobody told."""
        return 0.0 if self.learns_ridge else self.lam

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.propensity, str):
            self._set("propensity", validation.option("propensity", self.propensity, ("exact", "none")))
        else:
            self._set("propensity", validation.whole("propensity", self.propensity))

    @property
    def capabilities(self) -> Capabilities:
        """Probabilities unless propensity="none"."""
        return super().capabilities._replace(probability=self.propensity != "none")

    def noise_size(self, dim: int) -> int:
        """Count d normals, and one more that becomes a uniform where there is a floor."""
        return dim + 1 if self.floor > 0.0 else dim

    def log_probabilities(self, state: Any, arms: Floats) -> Floats:
        """Compute the marginal log-probability of every arm.  arms (R,K,d) or (1,K,d) → (R,K)."""
        return self._law(state, arms)[0]

    def propensity_error(self, state: Any, arms: Floats) -> Floats:
        """Give the probabilities' standard error: 0 for two arms, 1e-9 by the angular integral.  → (R,K)."""
        return self._law(state, arms)[1]

    def _law(self, state: Any, arms: Floats) -> tuple[Floats, Floats]:
        seen = self._seen(state, arms)
        log_p, error = log_best_arm_probabilities(seen, seen.arms, seen.lam, self.spread(state), seen.offsets)
        if self.floor == 0.0:
            return log_p, error
        with np.errstate(divide="ignore"):
            log_p = np.logaddexp(np.log1p(-self.floor) + log_p, np.log(self.floor / arms.shape[1]))
        return log_p, (1.0 - self.floor) * error

    def _seen(self, state: Any, arms: Floats) -> Seen:
        """The law of θ̃, and arms by it.

        Where arms have values and costs, by the g of core/utility.hpp and û; an intercept then has a
        coordinate of its own, for g differ in it.
        """
        arms, model = validation.for_kernels(plain_if_worthless(arms, state.dim)), self.estimate(state)
        if arms.shape[2] == state.dim:
            return Seen(model.theta, model.gram, arms, self.pivot)
        shape = max(len(state.count), len(arms)), arms.shape[1]
        offsets, scales, own = np.empty(shape), np.empty(shape), np.empty((*shape, state.dim))
        core.utilities(self.bind(state), arms, offsets, scales, own)
        own *= scales[:, :, None]
        gram = self._joint_gram(state)
        if gram is None:
            return Seen(np.zeros_like(model.theta), model.gram, own, self.pivot, offsets)
        own = np.concatenate([scales[:, :, None], own], axis=2)
        return Seen(np.zeros(gram.shape[:2]), validation.for_kernels(gram), own, 0.0, offsets)

    def choose(self, state: Any, arms: Floats, noise: Floats) -> Ints:
        """Draw θ̃ and play its best arm, without computing how probable that was."""
        arms = plain_if_worthless(arms, state.dim)
        if arms.shape[2] == state.dim:
            return self._draw_in_core(state, arms, noise)
        seen, arm = self._seen(state, arms), np.empty(len(noise), dtype=np.int64)
        d, dim = state.dim, seen.arms.shape[2]
        if dim > d:  # one more normal, for the intercept
            more = np.empty((len(noise), dim - d))
            core.more_normals(np.ascontiguousarray(noise).view(np.uint64), more)
            noise = np.concatenate([more, noise], axis=1)
        scale, noise = self.spread(state), validation.for_kernels(noise)
        core.draw_worth(
            seen.theta, seen.gram, seen.lam, scale, seen.arms, seen.offsets, self.floor, noise, arm
        )
        return arm

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
        seen, repeats = self._seen(state, arms), np.empty(len(arm), dtype=np.int64)
        core.count_repeats(
            seen.theta, seen.gram, seen.lam, self.spread(state), seen.arms, self.floor,
            np.ascontiguousarray(noise).view(np.uint64), arm, self.propensity, repeats, seen.offsets,
        )  # fmt: skip
        p = (repeats + 1.0) / (self.propensity + 1.0)
        return Choice(arm, np.log(p), None, features, np.sqrt(p * (1.0 - p) / self.propensity))


SHORT = {
    "frequentist": "LinTS-Freq",
    "bayes": "LinTS-Bayes",
    "agrawal-goyal": "LinTS-AG",
    "squared-radius": "LinTS-Squared",
}
NUMBER = 2
KINDS = {"frequentist": 0, "squared-radius": 1, "agrawal-goyal": 3}
"""Which scale of core/thompson.hpp; else NUMBER."""


@dataclass(frozen=True, kw_only=True)
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
    horizon: int | None = parameter(None, validation.whole, 3)
    """n of "agrawal-goyal" when it is known beforehand."""

    properties: ClassVar[Properties] = Properties(
        "Agrawal & Goyal 2014; Abeille & Lazaric 2017",
        minimax="d √(d n)",
        computable="normal CDF (K = 2), angular integral (plane), ray integration otherwise",
        all_arms="corners of the hull (all with floor > 0)",
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
    def _size(self) -> float:
        if not isinstance(self.scale, str):
            return self.scale
        return -self.reward_scale if isinstance(self.sigma, str) else self.sigma

    def spread(self, state: RidgeState) -> Floats:
        """Compute s in every replica (R,).

        >>> from linmed import LinTS
        >>> policy = LinTS(scale="bayes", sigma=0.5)
        >>> policy.spread(policy.start(replicas=1, dim=2))
        array([0.5])
        """
        out = np.empty(len(state.count))
        core.spreads(self.bind_leaders(state), self.confidence_set, self._thompson, out)
        return out

    def derived_name(self) -> str:
        """Say LinTS-Freq and the like."""
        if isinstance(self.scale, str):
            return SHORT[self.scale] + self.describe("scale")
        return "LinTS" + self.describe()
