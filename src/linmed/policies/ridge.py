"""Policies that believe in a ridge estimate of θ*: what they may be told, and how sure they are."""

import math
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.core import core
from linmed.policies.base import LedState, State, parameter
from linmed.policies.compiled import EstimatePolicy, Floor
from linmed.policies.posterior import Capabilities, Posterior, RidgeSums
from linmed.validation import Floats, Ints

UNTOLD = 0.01
"""λ where σ or S is unknown. It has the unit of ‖a‖², and arms are of size about one."""
LEARNED = (0.01, 0.1, 1.0, 10.0, 100.0)
"""The λ among which `ridge="learned"` chooses: from hardly any prior to that of a hundred rewards, in units
of the first features' ‖a‖²."""
UNSEEN = 2.0**-60
"""Of λ, as long as that unit is not known: then every arm has a leverage above 1, whatever its unit."""
PAPER = 0
_KINDS = {"paper": PAPER, "mixture": 1, "empirical": 2}
_TAILS = {"gaussian": 3, "strict": 4}
_LEARNED = 5
"""Which set of core/confidence.hpp."""
UNBOUNDED = -1.0
"""Stands for S where no bound on ‖θ*‖ was given."""


class Ridge(NamedTuple):
    """The arrays of a ridge estimate, in the order in which the core takes them."""

    theta: Floats  # (R,d) θ̂
    count: Ints  # type: ignore[assignment]  # (R,) rewards absorbed
    gram: Floats  # (R,d,d) V, lower triangle
    gram_low: Floats  # (R,d,d) what V has lost to rounding, lower triangle
    inverse: Floats  # (R,d,d) V⁻¹
    moment: Floats  # (R,d) b
    moment_low: Floats  # (R,d) what b has lost to rounding
    logdet: Floats  # (R,) log(det V / det V₀)
    rss: Floats  # (R,) min over θ of Σ(y − ⟨a,θ⟩)² + λ‖θ‖², which is Σ e²/(1 + h) …
    leveraged: Floats  # (R,) … and Σ e² h/(1 + h), with h = ‖a‖² in V⁻¹ and e = y − ⟨a,θ̂⟩ before each reward


def start_ridge(replicas: int, dim: int, lam: float) -> Ridge:
    """Begin with V = λI in every replica."""
    identity = np.broadcast_to(np.eye(dim), (replicas, dim, dim))
    return Ridge(
        theta=np.zeros((replicas, dim)),
        count=np.zeros(replicas, dtype=np.int64),
        gram=lam * identity,
        gram_low=np.zeros((replicas, dim, dim)),
        inverse=identity / lam,
        moment=np.zeros((replicas, dim)),
        moment_low=np.zeros((replicas, dim)),
        logdet=np.zeros(replicas),
        rss=np.zeros(replicas),
        leveraged=np.zeros(replicas),
    )


def and_more(names: str) -> Any:
    """Make a named tuple of the arrays of a ridge estimate, and these behind them, as the core takes them."""
    return namedtuple("and_more", (*Ridge._fields, *names.split()))


class RidgeState(Ridge, State):
    """Ridge regression in every replica: V = λI + Σ a aᵀ, b = Σ a y, θ̂ = V⁻¹ b.

    >>> from linmed import LinMED
    >>> state = LinMED(sigma=1.0, norm_bound=2.0).start(replicas=1, dim=2)
    >>> state.gram[0]
    array([[0.25, 0.  ],
           [0.  , 0.25]])
    """

    __slots__ = ()


RIDGE = len(RidgeState._fields)
"""A state may keep more arrays behind those of the ridge estimate."""


class ExpertState(LedState, and_more("told surprise leader")):  # type: ignore[misc]
    """Ridge estimates with different λ in every replica: all arrays but `leader` (R,) are (R, E, …).

    `told` (R,E,3) is λ, σ or 0, and the rewards' scale: minus λ is in units of ‖a‖² not known yet, minus the
    scale stands for one that is not. `surprise` (R,E) is −log of the density of the rewards so far, up to
    what all have in common, and `leader` the expert that decides, the first among equals.
    """

    __slots__ = ()


LED = ExpertState._fields.index("leader")
"""Arrays before it are of experts."""


def one_expert(rows: Sequence[NDArray[Any]], told: Floats) -> ExpertState:
    """A state of one expert in every replica, from a ridge estimate (R, …) and what it was told (R,3)."""
    one = [np.ascontiguousarray(np.expand_dims(row, 1)) for row in (*rows, told)]
    surprise, leader = np.zeros((len(told), 1)), np.zeros(len(told), dtype=np.int64)
    made: ExpertState = ExpertState._make([*one, surprise, leader])
    return made


class _Centred(State):
    """From contrasts, of which there is one fewer than rewards: `seen` (R,) is the number of rewards.

    `middle` (R,d) is ā and `level` (R,) is ȳ, common to all experts.
    """

    __slots__ = ()
    seen: Ints

    @property
    def count(self) -> Ints:  # type: ignore[override]
        """Rewards absorbed (R,)."""
        return self.seen


class CentredState(_Centred, and_more("middle level seen")):  # type: ignore[misc]
    """Ridge regression with an intercept in every replica."""

    __slots__ = ()


class CentredExpertState(_Centred, LedState, and_more("told surprise leader middle level seen")):  # type: ignore[misc]
    """The same with different λ."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class RidgePolicy(EstimatePolicy):
    """A policy that believes in a ridge estimate of θ*, is as sure as its confidence set, and has a rule.

    The rule is what subclasses add. A method `squared_radius(state)`, which returns β of every replica (R,),
    takes the place of the set.

    What it is told: `sigma` is σ, the size of the noise, `norm_bound` is S, a bound on ‖θ*‖, `ridge` is λ and
    `delta` the δ of the radius; `confidence` says which set, and of a noise of unknown size `tails` and
    `reward_scale` say a little; `intercept` whether rewards have a level of their own. `label` is its name in
    legends.

    >>> from linmed.policies import LinMED, RidgePolicy
    >>> policy = LinMED(sigma=0.5, norm_bound=2.0)
    >>> isinstance(policy, RidgePolicy), policy.lam, policy.priors, policy.numbers, policy.proved
    (True, 0.0625, (0.0625,), (0.5, 2.0), True)
    >>> policy.learns_ridge
    False
    >>> state = policy.start(replicas=1, dim=3)
    >>> policy.radius(state)
    array([0.5])

    >>> type(policy.belief(*state.parts())).__name__, type(policy.bind_leaders(state)).__name__  # of the core
    ('Belief', 'Belief')
    """

    sigma: float | Literal["unknown"] = parameter(1.0, validation.positive, word="unknown")
    """σ: the noise is taken to be σ-sub-Gaussian (a standard deviation, never σ²)."""
    norm_bound: float | Literal["unknown"] = parameter(1.0, validation.positive, word="unknown")
    """S: guessed bound on ‖θ*‖."""
    ridge: float | Literal["learned"] | None = parameter(None, validation.positive, word="learned")
    """λ; None means σ²/S², or 0.01 where one of them is unknown. "learned": the likeliest of five decides."""
    delta: float | None = parameter(None, validation.failure_rate)
    """δ of the confidence radius; None means 1/(t+1) after t rewards."""
    confidence: Literal["paper", "mixture", "empirical"] = parameter("paper", validation.option, (*_KINDS,))
    """Which set: the paper's; a smaller one under the same assumptions; or one for which σ is only an upper
    bound. Where σ is unknown or λ learned there is one set, and this is left alone."""
    tails: Literal["gaussian", "strict"] = parameter("gaussian", validation.option, (*_TAILS,))
    """The noise of unknown σ: Gaussian; or "strict", any of one size that is strictly sub-Gaussian, which is
    sub-Gaussian with its own variance as the proxy (uniform, ±1, sums of these; no coin but the fair one).
    The set for that is wider."""
    reward_scale: float = parameter(1.0, validation.positive)
    """Where σ is unknown: what rewards are about as large as, to three orders of magnitude. With a learned
    ridge the first reward tells, and this counts no longer."""
    intercept: bool = parameter(False, validation.flag)
    """Whether rewards are c + ⟨a,θ*⟩ with a c of any size that is learned apart: then no number added to all
    rewards changes a decision."""

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.positive("ridge (sigma² / norm_bound²)", self.lam)
        self._refuse_what_says_nothing()
        if self.own_set and self.ridge == "learned":
            raise validation.BadValue(
                "ridge", "ridge must be a number, or None, with a squared_radius of your own"
            )
        if self.intercept:
            self._refuse_intercept()

    def _refuse_intercept(self) -> None:
        """Raise where a rule or a set has no intercept; rules that look at arms elsewhere say so too."""
        if self.confidence == "empirical" or self.tails == "strict":
            name = "confidence" if self.confidence == "empirical" else "tails"
            raise validation.BadValue(
                name,
                f"{name}={getattr(self, name)!r} has no proof with intercept=True: leave one of them out, or "
                "add a constant column to the features instead of the intercept",
            )

    def _refuse_what_says_nothing(self) -> None:
        if (self.sigma == "unknown" or self.ridge == "learned") and self.confidence != "paper":
            raise validation.BadValue(
                "confidence",
                f"confidence={self.confidence!r} needs numbers for sigma and ridge; where one is unknown or "
                "learned, leave it out",
            )
        if self.tails != "gaussian" and (self.sigma != "unknown" or self.ridge == "learned"):
            raise validation.BadValue(
                "tails",
                "tails='strict' needs sigma='unknown' and a ridge that is not learned; else leave it out",
            )
        if self.reward_scale != 1.0 and self.sigma != "unknown":
            raise validation.BadValue(
                "reward_scale", "reward_scale goes with sigma='unknown': sigma says how large rewards are"
            )
        if self.ridge == "learned" and self.norm_bound not in (1.0, "unknown"):
            raise validation.BadValue(
                "norm_bound",
                "norm_bound follows from the ridge where that is learned: leave it out, "
                f"got {self.norm_bound!r}",
            )

    def _require_numbers(self, instead: str) -> None:
        """For a rule that computes something from σ, S and λ."""
        for name in ("sigma", "norm_bound", "ridge"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise validation.BadValue(
                    name,
                    f"{name} must be a number for {type(self).__name__}, which computes {instead} from it, "
                    f"got {value!r}; or give {instead}",
                )

    @property
    def learns_ridge(self) -> bool:
        """Whether several λ stand beside each other."""
        return self.ridge == "learned"

    @property
    def numbers(self) -> tuple[float, float]:
        """σ and S; 0 where one is unknown."""
        sigma, norm = self.sigma, self.norm_bound
        return 0.0 if isinstance(sigma, str) else sigma, 0.0 if isinstance(norm, str) else norm

    @property
    def lam(self) -> float:
        """λ; of several the smallest."""
        if isinstance(self.ridge, str):
            return min(LEARNED)
        if self.ridge is not None:
            return self.ridge
        if isinstance(self.sigma, str) or isinstance(self.norm_bound, str):
            return UNTOLD
        return (self.sigma / self.norm_bound) ** 2

    @property
    def priors(self) -> tuple[float, ...]:
        """λ of every estimate as it starts, `UNSEEN` of it where its unit is not known yet."""
        return tuple(lam * UNSEEN for lam in LEARNED) if self.ridge == "learned" else (self.lam,)

    @cached_property
    def confidence_set(self) -> Any:
        """How sure the policy is: a confidence set of the core."""
        sigma = self.numbers[0]
        norm = UNBOUNDED if isinstance(self.norm_bound, str) else self.norm_bound
        kind = _KINDS[self.confidence]
        if self.ridge == "learned":
            kind = _LEARNED
        elif self.sigma == "unknown":
            kind = _TAILS[self.tails]
        elif norm == UNBOUNDED and kind == _KINDS["paper"]:  # whose root would have S in it
            kind = _KINDS["mixture"]
        log_inverse_delta = -1.0 if self.delta is None else -math.log(self.delta)
        return core.RidgeSet(
            kind, sigma, log_inverse_delta, self.lam, norm, self.reward_scale, self.intercept
        )

    @property
    def proved(self) -> bool:
        """Whether the set has its guarantee: a prior that is learned from the same rewards has none."""
        return self.ridge != "learned"

    @property
    def belief(self) -> Callable[..., Any]:
        """Makes the core's belief from the arrays of a state."""
        if self.intercept:
            made = core.CentredExperts if self.ridge == "learned" else core.CentredRidge
        else:
            made = core.RidgeExperts if self.ridge == "learned" else core.Ridge
        return made  # type: ignore[no-any-return]

    def start(self, replicas: int, dim: int) -> Any:
        """Begin with V = λI in every replica."""
        centred = np.zeros((replicas, dim)), np.zeros(replicas), np.zeros(replicas, dtype=np.int64)
        if self.ridge != "learned":
            own = start_ridge(replicas, dim, self.lam)
            return CentredState(*own, *centred) if self.intercept else RidgeState(*own)
        experts = [start_ridge(replicas, dim, lam) for lam in self.priors]
        stacked = [np.ascontiguousarray(np.stack(arrays, axis=1)) for arrays in zip(*experts, strict=True)]
        told, sigma = np.empty((replicas, len(LEARNED), 3)), self.numbers[0]
        scale = self.reward_scale if sigma > 0.0 else -self.reward_scale
        told[:] = [(-lam, sigma, scale) for lam in LEARNED]
        surprise, leader = np.zeros((replicas, len(LEARNED))), np.zeros(replicas, dtype=np.int64)
        led = *stacked, told, surprise, leader
        return CentredExpertState._make([*led, *centred]) if self.intercept else ExpertState._make(led)

    def estimate(self, state: Any) -> RidgeState:
        """Give the ridge estimate that decides: the state's own, or a copy of its leading experts'."""
        return RidgeState(*self.leaders(state)[:RIDGE])

    def _joint_gram(self, state: Any) -> Floats | None:
        """Give V of an intercept and θ (R,1 + d,1 + d), lower triangle; None without an intercept."""
        if not self.intercept:
            return None
        R, d = state.middle.shape
        gram = np.zeros((R, d + 1, d + 1))
        gram[:, 0, 0] = np.maximum(state.seen, 1)
        gram[:, 1:, 1:] = self.estimate(state).gram
        return gram

    def leaders(self, state: Any) -> tuple[NDArray[Any], ...]:
        """Copy the arrays of the estimates that decide, one in every replica.

        >>> from linmed import LinMED
        >>> policy = LinMED(ridge="learned")
        >>> len(policy.leaders(policy.start(replicas=3, dim=2)))
        13
        """
        if not isinstance(state, LedState):
            return tuple(state[:RIDGE])
        return *(state.leading(name) for name in ExpertState._fields[:LED]), np.zeros_like(state.leader)

    def bind_leaders(self, state: Any) -> Any:
        """Make the core's belief that consists of the estimates that decide."""
        parts = self.leaders(state)
        return core.Ridge(*parts) if len(parts) == RIDGE else core.RidgeExperts(*parts)

    def noise_level(self, state: Any) -> Floats:
        """Give σ, or an estimate of it (R,) where it is unknown."""
        if not isinstance(self.sigma, str):
            return np.full(len(state.count), self.sigma)
        model, out = self.estimate(state), np.empty(len(state.count))
        scale = np.full(len(out), self.reward_scale)
        if isinstance(state, LedState):
            scale = np.abs(state.leading("told")[:, 2])
        core.likely_variances(model.count.astype(np.float64), model.rss, scale, out)
        return np.sqrt(out)

    @property
    def capabilities(self) -> Capabilities:
        """As of every policy with an estimate, and rewards may refute what is assumed."""
        return super().capabilities._replace(refutable=True)

    def _grounds(self) -> tuple[list[str], str | None]:
        sigma, norm = self.sigma, self.norm_bound
        assumes = ["rewards are linear in the features" + (" but for a constant" if self.intercept else "")]
        if self.intercept and (isinstance(sigma, str) or self.delta is None):
            known = "" if isinstance(sigma, str) else f" with sigma={sigma:g}"
            assumes.append(f"their noise is Gaussian{known}")
            assumes.append(
                "arms were chosen without regard to the level of rewards, as this policy chooses them"
            )
        elif not isinstance(sigma, str):
            assumes.append(f"their noise is sub-Gaussian with sigma={sigma:g}")
        elif self.tails == "gaussian":
            assumes.append("their noise is Gaussian")
        else:
            assumes.append(
                "their noise is strictly sub-Gaussian of one size, as Gaussian, uniform and ±1 are"
            )
        if not isinstance(norm, str) and self.ridge != "learned":
            assumes.append(f"the length of theta is at most norm_bound={norm:g}")
        doubt = "the ridge is learned from the same rewards (empirical Bayes), which no proof covers"
        return assumes, None if self.proved else doubt

    def posterior(self, state: Any) -> Posterior:
        """Give ⟨θ̂, a⟩ ± √β‖a‖ in V⁻¹; with an intercept ȳ + ⟨θ̂, a − ā⟩ ± √β √(‖a − ā‖² + 1/n)."""
        model, n = self.estimate(state), float(state.count[0])
        theta, inverse, radius = model.theta[0], model.inverse[0], float(self.radius(state)[0])
        grounds = self.grounds(max(n - 1.0, 0.0) if self.intercept else n)  # contrasts
        level, centre, corner = 0.0, None, 0.0
        if self.intercept:
            level, centre, corner = float(state.level[0]), state.middle[0], 1.0 / n if n else math.inf
            if grounds.doubt is None and (self.delta is None or self.sigma == "unknown"):
                grounds = grounds._replace(
                    doubt_of_means="the intercept's share of an interval is approximate"
                )
        sigma, norm = self.numbers
        lam, of_set = self.lam, self.set_name == "RidgeSet"
        if isinstance(state, LedState):
            lam, norm = float(state.leading("told")[0, 0]), 0.0
        sums = RidgeSums(
            model.gram[0], model.moment[0], float(model.rss[0]), lam, sigma, norm,
            (lambda delta: float(_smallest_set(self, delta).radius(state)[0])) if of_set else None,
        )  # fmt: skip
        return Posterior(
            theta=theta, inverse=inverse, radius=radius, count=int(n), grounds=grounds,
            intercept=self.intercept, noise=float(self.noise_level(state)[0]), level=level, centre=centre,
            corner=corner, sums=sums,
        )  # fmt: skip

    def radius(self, state: Any) -> Floats:
        """Compute √β, one per replica (R,); infinite as long as nothing is known."""
        out = np.empty(len(state.count))
        if self.own_set:
            return np.sqrt(self.squared_radius(state))
        core.radii(self.bind_leaders(state), self.confidence_set, out)
        if isinstance(state, LedState):
            out[state.leading("told")[:, 0] < 0.0] = np.inf  # in what unit λ is, nobody knows yet
        return out


@lru_cache(maxsize=64)
def _smallest_set(policy: RidgePolicy, delta: float) -> RidgePolicy:
    """Make the set with another δ, and in place of the paper's the smaller "mixture"."""
    paper = policy.confidence == "paper" and not isinstance(policy.sigma, str)
    return replace(policy, delta=delta, confidence="mixture" if paper else policy.confidence)


@dataclass(frozen=True, kw_only=True)
class Floored(Floor, RidgePolicy):
    """Such a policy that believes in a ridge estimate."""
