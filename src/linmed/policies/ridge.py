"""Policies that believe in a ridge estimate of θ*: what they may be told, and how sure they are."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import checks
from linmed.checks import Floats, Ints
from linmed.kernels import confidence, ridge
from linmed.kernels.bound import learning
from linmed.kernels.experts import RidgeExperts
from linmed.kernels.intercept import CentredExperts, CentredRidge
from linmed.kernels.rounds import observing
from linmed.policies.base import Policy, Prediction, State, absorbable

UNTOLD = 0.01
"""λ where σ or S is unknown. It has the unit of ‖a‖², and arms are of size about one."""
LEARNED = (0.01, 0.1, 1.0, 10.0, 100.0)
"""The λ among which `ridge="learned"` chooses: from hardly any prior to that of a hundred rewards, in units
of the first features' ‖a‖²."""
UNSEEN = 2.0**-60
"""Of λ, as long as that unit is not known: then every arm has a leverage above 1, whatever its unit."""
_KINDS = {"paper": confidence.PAPER, "mixture": confidence.MIXTURE, "empirical": confidence.EMPIRICAL}
_TAILS = {"gaussian": confidence.GAUSSIAN, "strict": confidence.STRICT}


class RidgeState(ridge.Ridge, State):
    """Ridge regression in every replica: V = λI + Σ a aᵀ, b = Σ a y, θ̂ = V⁻¹ b.

    >>> from linmed import LinMED
    >>> state = LinMED(sigma=1.0, norm_bound=2.0).start(replicas=1, dim=2)
    >>> state.gram[0]
    array([[0.25, 0.  ],
           [0.  , 0.25]])
    """

    __slots__ = ()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, not copied."""
        return self._asdict()

    def limits(self) -> dict[str, tuple[float, float]]:
        """As of every state; the last two sums may be NaN, as files of the first format have none."""
        return {name: limit for name, limit in super().limits().items() if name not in SUMS}

    def parts(self) -> tuple[NDArray[Any], ...]:
        """The arrays in order."""
        return tuple(self)


SUMS = ("rss", "leveraged")
RIDGE = len(RidgeState._fields)
"""A state may keep more arrays behind those of the ridge estimate."""


class _Led(State):
    """Several estimates in every replica, (R, E, …), up to `leader`, which says which of them decides.

    `theta` and `count` are those of the expert that decides, as of any other state.
    """

    __slots__ = ()
    leader: Ints
    surprise: Floats

    @property
    def theta(self) -> Floats:  # type: ignore[override]
        """θ̂ of the leaders (R,d)."""
        theta: Floats = self.leading(0)
        return theta

    @property
    def count(self) -> Ints:  # type: ignore[override]
        """Rewards absorbed (R,): all experts have seen the same."""
        count: Ints = self[1][:, 0]  # type: ignore[index]
        return count

    def leading(self, place: int) -> Any:
        """The rows of the leaders in the array at this place (R, …)."""
        return self[place][np.arange(len(self.leader)), self.leader]  # type: ignore[index]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, not copied."""
        own: Any = self
        return dict(zip(own._fields, own, strict=True))

    def limits(self) -> dict[str, tuple[float, float]]:
        """As of every state, and `leader` is one of the experts."""
        return {**super().limits(), "leader": (0, self.surprise.shape[1] - 1)}

    def parts(self) -> tuple[NDArray[Any], ...]:
        """Experts one behind the other, as `RidgeExperts` has them."""
        own: Any = self
        return *(array.reshape(-1, *array.shape[2:]) for array in own[:LED]), *own[LED:]


LED, TOLD = RidgeExperts._fields.index("leader"), RidgeExperts._fields.index("told")


class ExpertState(_Led, RidgeExperts):  # type: ignore[misc]
    """Ridge estimates with different λ in every replica: all arrays but `leader` are (R, E, …)."""

    __slots__ = ()


class _Centred(State):
    """`count` is that of the rewards; the estimate's own is that of the contrasts."""

    __slots__ = ()
    seen: Ints

    @property
    def count(self) -> Ints:  # type: ignore[override]
        """Rewards absorbed (R,)."""
        return self.seen


class CentredState(_Centred, CentredRidge):  # type: ignore[misc]
    """Ridge regression with an intercept in every replica; `middle` is ā, `level` is ȳ."""

    __slots__ = ()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, not copied."""
        return self._asdict()

    def parts(self) -> tuple[NDArray[Any], ...]:
        """The arrays in order."""
        return tuple(self)


class CentredExpertState(_Centred, _Led, CentredExperts):  # type: ignore[misc]
    """The same with different λ; `middle` (R,d), `level` and `seen` (R,) are common to all of them."""

    __slots__ = ()


@dataclass(frozen=True)
class RidgePolicy(Policy):
    """A policy that believes in a ridge estimate of θ*, is as sure as its confidence set, and has a rule.

    The rule is what subclasses add. The set may be exchanged by overriding `confidence_set`.

    What it is told: `sigma` is σ, the size of the noise, `norm_bound` is S, a bound on ‖θ*‖, `ridge` is λ and
    `delta` the δ of the radius; `confidence` says which set, and of a noise of unknown size `tails` and
    `reward_scale` say a little; `intercept` whether rewards have a level of their own. `label` is its name in
    legends.

    >>> from linmed.policies import LinMED, RidgePolicy
    >>> policy = LinMED(sigma=0.5, norm_bound=2.0)
    >>> isinstance(policy, RidgePolicy), policy.lam, policy.numbers, policy.proved
    (True, 0.0625, (0.5, 2.0), True)
    >>> policy.radius(policy.start(replicas=1, dim=3))
    array([0.5])

    >>> policy.belief.__name__
    'Ridge'
    """

    sigma: float | Literal["unknown"] = 1.0
    """σ: the noise is taken to be σ-sub-Gaussian (a standard deviation, never σ²)."""
    norm_bound: float | Literal["unknown"] = 1.0
    """S: guessed bound on ‖θ*‖."""
    ridge: float | Literal["learned"] | None = None
    """λ; None means σ²/S², or 0.01 where one of them is unknown. "learned": the likeliest of five decides."""
    delta: float | None = None
    """δ of the confidence radius; None means 1/(t+1) after t rewards."""
    confidence: Literal["paper", "mixture", "empirical"] = field(default="paper", kw_only=True)
    """Which set: the paper's; a smaller one under the same assumptions; or one for which σ is only an upper
    bound. Where σ is unknown or λ learned there is one set, and this is left alone."""
    tails: Literal["gaussian", "strict"] = field(default="gaussian", kw_only=True)
    """The noise of unknown σ: Gaussian; or "strict", any of one size that is strictly sub-Gaussian, which is
    sub-Gaussian with its own variance as the proxy (uniform, ±1, sums of these; no coin but the fair one).
    The set for that is wider."""
    reward_scale: float = field(default=1.0, kw_only=True)
    """Where σ is unknown: what rewards are about as large as, to three orders of magnitude. With a learned
    ridge the first reward tells, and this counts no longer."""
    intercept: bool = field(default=False, kw_only=True)
    """Whether rewards are c + ⟨a,θ*⟩ with a c of any size that is learned apart: then no number added to all
    rewards changes a decision."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, word in (("sigma", "unknown"), ("norm_bound", "unknown"), ("ridge", "learned")):
            value = getattr(self, name)
            if isinstance(value, str):
                if value != word:
                    raise checks.BadValue(name, f"{name} must be a number or {word!r}, got {value!r}")
            elif not (name == "ridge" and value is None):
                self._set(name, checks.positive(name, value))
        checks.positive("ridge (sigma² / norm_bound²)", self.lam)
        if self.delta is not None:
            self._set("delta", checks.failure_rate("delta", self.delta))
        self._set("confidence", checks.option("confidence", self.confidence, tuple(_KINDS)))
        self._set("tails", checks.option("tails", self.tails, tuple(_TAILS)))
        self._set("reward_scale", checks.positive("reward_scale", self.reward_scale))
        self._set("intercept", checks.flag("intercept", self.intercept))
        self._refuse_what_says_nothing()
        if self.intercept:
            self._refuse_intercept()

    def _refuse_intercept(self) -> None:
        """Raise where a rule or a set has no intercept; rules that look at arms elsewhere say so too."""
        if self.confidence == "empirical" or self.tails == "strict":
            name = "confidence" if self.confidence == "empirical" else "tails"
            raise checks.BadValue(
                name,
                f"{name}={getattr(self, name)!r} has no proof with intercept=True: leave one of them out, or "
                "add a constant column to the features instead of the intercept",
            )

    def _refuse_what_says_nothing(self) -> None:
        if (self.sigma == "unknown" or self.ridge == "learned") and self.confidence != "paper":
            raise checks.BadValue(
                "confidence",
                f"confidence={self.confidence!r} needs numbers for sigma and ridge; where one is unknown or "
                "learned, leave it out",
            )
        if self.tails != "gaussian" and (self.sigma != "unknown" or self.ridge == "learned"):
            raise checks.BadValue(
                "tails",
                "tails='strict' needs sigma='unknown' and a ridge that is not learned; else leave it out",
            )
        if self.reward_scale != 1.0 and self.sigma != "unknown":
            raise checks.BadValue(
                "reward_scale", "reward_scale goes with sigma='unknown': sigma says how large rewards are"
            )
        if self.ridge == "learned" and self.norm_bound not in (1.0, "unknown"):
            raise checks.BadValue(
                "norm_bound",
                "norm_bound follows from the ridge where that is learned: leave it out, "
                f"got {self.norm_bound!r}",
            )

    def _require_numbers(self, instead: str) -> None:
        """For a rule that computes something from σ, S and λ."""
        for name in ("sigma", "norm_bound", "ridge"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise checks.BadValue(
                    name,
                    f"{name} must be a number for {type(self).__name__}, which computes {instead} from it, "
                    f"got {value!r}; or give {instead}",
                )

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

    @cached_property
    def confidence_set(self) -> NamedTuple:
        """How sure the policy is: a named tuple whose method `squared_radius(belief, r)` can be compiled."""
        sigma = self.numbers[0]
        norm = confidence.UNKNOWN if isinstance(self.norm_bound, str) else self.norm_bound
        kind = _KINDS[self.confidence]
        if self.ridge == "learned":
            kind = confidence.LEARNED
        elif self.sigma == "unknown":
            kind = _TAILS[self.tails]
        elif norm == confidence.UNKNOWN and kind == confidence.PAPER:  # whose root would have S in it
            kind = confidence.MIXTURE
        log_inverse_delta = -1.0 if self.delta is None else -math.log(self.delta)
        return confidence.RidgeSet(
            kind, sigma, log_inverse_delta, self.lam, norm, self.reward_scale, self.intercept
        )

    @property
    def proved(self) -> bool:
        """Whether the set has its guarantee: a prior that is learned from the same rewards has none."""
        return self.ridge != "learned"

    @property
    def belief(self) -> type:
        """The class that kernels know the state by."""
        belief: type = self._learning
        return belief

    def start(self, replicas: int, dim: int) -> Any:
        """V = λI in every replica."""
        centred = np.zeros((replicas, dim)), np.zeros(replicas), np.zeros(replicas, dtype=np.int64)
        if self.ridge != "learned":
            own = ridge.start(replicas, dim, self.lam)
            return CentredState(*own, *centred) if self.intercept else RidgeState(*own)
        experts = [ridge.start(replicas, dim, lam * UNSEEN) for lam in LEARNED]
        stacked = [np.ascontiguousarray(np.stack(arrays, axis=1)) for arrays in zip(*experts, strict=True)]
        told, sigma = np.empty((replicas, len(LEARNED), 3)), self.numbers[0]
        scale = self.reward_scale if sigma > 0.0 else -self.reward_scale
        told[:] = [(-lam, sigma, scale) for lam in LEARNED]
        surprise, leader = np.zeros((replicas, len(LEARNED))), np.zeros(replicas, dtype=np.int64)
        led = *stacked, told, surprise, leader
        return CentredExpertState._make([*led, *centred]) if self.intercept else ExpertState._make(led)

    def estimate(self, state: Any) -> RidgeState:
        """The ridge estimate that decides: the state's own, or its leading experts', copied.

        >>> from linmed import LinMED
        >>> policy = LinMED(ridge="learned")
        >>> policy.estimate(policy.start(replicas=1, dim=2)).theta
        array([[0., 0.]])
        """
        return RidgeState(*self.leaders(state)[1][:RIDGE])

    def leaders(self, state: Any) -> tuple[type, tuple[NDArray[Any], ...]]:
        """The estimates that decide, one in every replica, as a belief and its arrays: of experts copied.

        >>> from linmed import LinMED
        >>> policy = LinMED(ridge="learned")
        >>> policy.leaders(policy.start(replicas=3, dim=2))[0].__name__
        'RidgeExperts'
        """
        if not isinstance(state, _Led):
            return ridge.Ridge, tuple(state[:RIDGE])
        return RidgeExperts, (*(state.leading(place) for place in range(LED)), np.zeros_like(state.leader))

    def noise_level(self, state: Any) -> Floats:
        """σ as it was told, or an estimate of it (R,).

        >>> import numpy as np
        >>> from linmed import LinMED
        >>> policy, rng = LinMED(sigma="unknown"), np.random.default_rng(0)
        >>> state, features = policy.start(1, 2), rng.standard_normal((500, 2))
        >>> policy.learn(state, features, 0.3 * rng.standard_normal(500), np.zeros(500, dtype=np.int64))
        >>> policy.noise_level(state).round(1)
        array([0.3])
        """
        if not isinstance(self.sigma, str):
            return np.full(len(state.count), self.sigma)
        model, out = self.estimate(state), np.empty(len(state.count))
        scale = np.full(len(out), self.reward_scale)
        if isinstance(state, _Led):
            scale = np.abs(state.leading(TOLD)[:, 2])
        confidence.likely_variances(model.count, model.rss, scale, out)
        return np.sqrt(out)

    def learn(self, state: Any, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """V += a aᵀ, b += a y."""
        observing(self._learning)(self._learned(state), *absorbable(state, features, rewards, replicas))

    def learner(self, state: Any) -> Callable[..., None] | None:
        """The kernel itself, unless a subclass learns in another way or the state may change its arrays."""
        if type(self).learn is not RidgePolicy.learn or not isinstance(state, tuple):
            return None
        return learning(observing(self._learning), self._learned(state))

    @property
    def _learning(self) -> Any:
        """The belief without what a rule may keep beside it."""
        if self.intercept:
            return CentredExperts if self.ridge == "learned" else CentredRidge
        return RidgeExperts if self.ridge == "learned" else ridge.Ridge

    def _learned(self, state: Any) -> tuple[NDArray[Any], ...]:
        parts: tuple[NDArray[Any], ...] = state.parts()[: len(self._learning._fields)]
        return parts

    def predict(self, state: Any, arms: Floats) -> Prediction:
        """⟨θ̂, a⟩ ± √β‖a‖ in V⁻¹; with an intercept ȳ + ⟨θ̂, a − ā⟩ ± √β √(‖a − ā‖² + 1/n)."""
        model, n = self.estimate(state), float(state.count[0])
        level, further = 0.0, 0.0
        if self.intercept:
            arms, level = arms - state.middle[0], float(state.level[0])
            further = 1.0 / n if n > 0.0 else math.inf
        mean = level + np.einsum("kd,d->k", arms, model.theta[0])
        leverage = further + np.einsum("kd,de,ke->k", arms, model.inverse[0], arms)
        with np.errstate(invalid="ignore"):  # nothing is said of a zero vector: its mean is 0
            half = np.nan_to_num(self.radius(state) * np.sqrt(np.maximum(leverage, 0.0)), posinf=np.inf)
        return Prediction(mean, mean - half, mean + half)

    def radius(self, state: Any) -> Floats:
        """√β, one per replica (R,); infinite as long as nothing is known."""
        out = np.empty(len(state.count))
        sure = self.confidence_set
        belief, parts = self.leaders(state)
        confidence.radii(type(sure), belief)(parts, tuple(sure), out)
        if isinstance(state, _Led):
            out[parts[TOLD][:, 0] < 0.0] = np.inf  # in what unit λ is, nobody knows yet
        return out
