"""Optimism that forgets at a rate one has to choose: D-LinUCB fades the past, SW-LinUCB looks at a window."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Properties, State, parameter
from linmed.policies.compiled import CompiledPolicy, Floor
from linmed.policies.posterior import Capabilities, Grounds, Posterior
from linmed.validation import Floats, Ints


class Faded(NamedTuple):
    """V = λI + Σγ^{t−s} a aᵀ, b = Σγ^{t−s} a y, Ṽ = λI + Σγ^{2(t−s)} a aᵀ after t rewards."""

    theta: Floats  # (R,d) θ̂ = V⁻¹b
    count: Ints  # type: ignore[assignment]  # (R,) rewards absorbed
    inverse: Floats  # (R,d,d) V⁻¹ṼV⁻¹, the covariance of θ̂ over σ²: what widths are measured in
    gram: Floats  # (R,d,d) V
    gram_squared: Floats  # (R,d,d) Ṽ
    moment: Floats  # (R,d) b
    told: Floats  # (R,2) γ and λ


class Windowed(NamedTuple):
    """V = λI + Σ a aᵀ and b = Σ a y over the last w rewards, in every replica."""

    theta: Floats  # (R,d) θ̂ = V⁻¹b
    count: Ints  # type: ignore[assignment]  # (R,) rewards absorbed, those forgotten among them
    inverse: Floats  # (R,d,d) V⁻¹
    gram: Floats  # (R,d,d) V
    moment: Floats  # (R,d) b
    lam: Floats  # (R,) λ
    vectors: Floats  # (R,w,d) the arms of the last w rewards; the next one goes to count mod w
    rewards: Floats  # (R,w)


class FadedState(Faded, State):
    """Sums in which every reward fades."""

    __slots__ = ()


class WindowedState(Windowed, State):
    """Sums over the last rewards, and these themselves."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class RecentUCB(Floor, CompiledPolicy):
    """Play argmax_a ⟨θ̂, a⟩ + √β ‖a‖ with sums of recent rewards; ties go to the lowest index."""

    sigma: float = parameter(1.0, validation.positive)
    """σ: the noise is taken to be σ-sub-Gaussian (a standard deviation, never σ²)."""
    norm_bound: float = parameter(1.0, validation.positive)
    """S: guessed bound on ‖θ*‖."""
    ridge: float | None = parameter(None, validation.positive)
    """λ; None means σ²/S²."""
    delta: float | None = parameter(None, validation.failure_rate)
    """δ of the confidence radius; None means 1/(t+1) after t rewards."""
    arm_bound: float = parameter(1.0, validation.positive)
    """L: no arm is longer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.positive("ridge (sigma² / norm_bound²)", self.lam)

    @property
    def lam(self) -> float:
        """λ."""
        return (self.sigma / self.norm_bound) ** 2 if self.ridge is None else self.ridge

    @property
    def rule(self) -> Any:
        """The arm of the largest upper confidence bound."""
        return core.OfulRule(self.floor)

    @property
    def _told(self) -> tuple[float, float, float, float, float]:
        """σ, log(1/δ) or −1, λ, S, L: as the sets take them."""
        level = -1.0 if self.delta is None else -math.log(self.delta)
        return self.sigma, level, self.lam, self.norm_bound, self.arm_bound

    @cached_property
    @abstractmethod
    def confidence_set(self) -> Any:
        """The published radius."""

    def radius(self, state: Any) -> Floats:
        """Compute √β, one per replica (R,)."""
        out = np.empty(len(state.count))
        core.radii(self.bind(state), self.confidence_set, out)
        return out

    @property
    def capabilities(self) -> Capabilities:
        """Intervals."""
        return super().capabilities._replace(interval=True)

    def posterior(self, state: Any) -> Posterior:
        """Give ⟨θ̂, a⟩ ± √β‖a‖, by which it is optimistic."""
        theta, inverse, radius = state.theta[0], state.inverse[0], float(self.radius(state)[0])
        count = int(state.count[0])
        return Posterior(theta=theta, inverse=inverse, radius=radius, count=count, grounds=Grounds())


@dataclass(frozen=True, kw_only=True)
class DLinUCB(RecentUCB):
    """Ridge regression in which a reward counts half as much after `half_life` others: γ = 2^(−1/half_life).

    V = λI + Σγ^{t−s} a aᵀ, Ṽ = λI + Σγ^{2(t−s)} a aᵀ; the width of an arm is its length in V⁻¹ṼV⁻¹, and
    √β = √λ S + σ √(2 log(1/δ) + d log(1 + L²(1 − γ^{2t})/(λd(1 − γ²)))), as published.

    >>> round(DLinUCB(half_life=100).gamma, 6)
    0.993092

    `half_life` is its own parameter. `sigma` is σ, `norm_bound` S, `ridge` λ and `delta` δ, as of
    `RidgePolicy`; `arm_bound` is L, the length of the longest arm, `floor` a share ε for all arms alike, and
    `label` a name.

    >>> from linmed import Agent
    >>> agent = Agent(DLinUCB(half_life=20, sigma=0.1), dim=1)
    >>> agent.observe([[1.0]] * 100, [0.5] * 50 + [-0.5] * 50)
    >>> agent.theta.round(1)
    array([-0.3])
    """

    half_life: float = parameter(200.0, validation.positive)
    """Rewards after which one counts half; log 2 / log(1/γ) for a γ from the literature."""

    properties: ClassVar[Properties] = Properties(
        "Russac, Vernade & Cappé 2019",
        minimax="d^⅞ B^¼ n^¾, moving optimum",
        instance="—",
        computable="degenerate: 1 on one arm",
        all_arms="no (yes with floor > 0)",
        randomised=False,
    )

    @property
    def gamma(self) -> float:
        """γ: what a reward's weight is multiplied by with every other that comes."""
        return float(0.5 ** (1.0 / self.half_life))

    @property
    def belief(self) -> Callable[..., Any]:
        """Sums that fade."""
        made: Callable[..., Any] = core.Faded
        return made

    @cached_property
    def confidence_set(self) -> Any:
        """Theirs."""
        return core.FadedSet(*self._told, -math.log(2.0) / self.half_life)

    def start(self, replicas: int, dim: int) -> FadedState:
        """Begin with V = Ṽ = λI in every replica."""
        ridge = np.broadcast_to(self.lam * np.eye(dim), (replicas, dim, dim))
        told = np.empty((replicas, 2))
        told[:] = self.gamma, self.lam
        return FadedState(
            theta=np.zeros((replicas, dim)),
            count=np.zeros(replicas, dtype=np.int64),
            inverse=ridge / self.lam**2,
            gram=ridge.copy(),
            gram_squared=ridge.copy(),
            moment=np.zeros((replicas, dim)),
            told=told,
        )


@dataclass(frozen=True, kw_only=True)
class SWLinUCB(RecentUCB):
    """Ridge regression on the last `window` rewards: V = λI + Σ a aᵀ over them.

    √β = √λ S + σ √(d log((1 + window·L²/λ)/δ)), as published.

    `window` is its own parameter; the others are those of `DLinUCB`, but for its half-life.

    >>> from linmed import Agent, SWLinUCB
    >>> agent = Agent(SWLinUCB(window=20, sigma=0.1), dim=1)
    >>> agent.observe([[1.0]] * 100, [0.5] * 50 + [-0.5] * 50)
    >>> agent.theta.round(2)
    array([-0.5])
    """

    window: int = parameter(200, validation.whole)
    """w: rewards that count."""

    properties: ClassVar[Properties] = DLinUCB.properties._replace(reference="Cheung, Simchi-Levi & Zhu 2019")

    @property
    def belief(self) -> Callable[..., Any]:
        """Sums over a window."""
        made: Callable[..., Any] = core.Windowed
        return made

    @cached_property
    def confidence_set(self) -> Any:
        """Theirs."""
        return core.WindowedSet(*self._told, float(self.window))

    def start(self, replicas: int, dim: int) -> WindowedState:
        """Begin with V = λI in every replica, and an empty window."""
        identity = np.broadcast_to(np.eye(dim), (replicas, dim, dim))
        return WindowedState(
            theta=np.zeros((replicas, dim)),
            count=np.zeros(replicas, dtype=np.int64),
            inverse=identity / self.lam,
            gram=self.lam * identity,
            moment=np.zeros((replicas, dim)),
            lam=np.full(replicas, self.lam),
            vectors=np.zeros((replicas, self.window, dim)),
            rewards=np.zeros((replicas, self.window)),
        )
