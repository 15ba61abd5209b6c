"""EXP2 with Kiefer–Wolfowitz exploration (Bubeck, Cesa-Bianchi and Kakade 2012), in terms of rewards."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Properties, State, parameter
from linmed.policies.compiled import CompiledPolicy
from linmed.validation import Floats, Ints


class Geometry(NamedTuple):
    """What depends on the arm sets alone; n = R sets, or 1 where all replicas share one."""

    key: Ints  # (n,) fingerprints of the sets
    design: Floats  # (n,K) G-optimal
    coordinates: Floats  # (n,K,d) of the arms in their span, as many as its rank
    rank: Ints  # (n,)
    lift: Floats  # (n,d,d) from coordinates back to vectors

    def remember(self, arm_set: Ints) -> None:
        """Write the fingerprints of these sets to the replicas, which know them from here on."""
        arm_set[:] = self.key[: len(arm_set)]


NOWHERE = Geometry(
    np.empty(0, np.int64), np.empty((0, 0)), np.empty((0, 0, 0)), np.empty(0, np.int64), np.empty((0, 0, 0))
)
"""Before there are arms."""


class Totals(NamedTuple):
    """The arrays in the order in which the core takes them."""

    theta: Floats  # (R,d) the mean of the estimates
    count: Ints  # type: ignore[assignment]  # (R,)
    total: Floats  # (R,d) Θ
    arm_set: Ints  # (R,) fingerprint of the arms, 0 before the first decision


class Exp2State(Totals, State):
    """The sum of the estimates Q⁻¹a·y; theta is their mean. The arm set is remembered by a fingerprint."""

    geometry: Geometry | None = None
    """Made from the arms when needed; no part of what is saved."""

    def limits(self) -> dict[str, tuple[float, float]]:
        """Give the limits of every state; a fingerprint is any number."""
        return {name: limit for name, limit in super().limits().items() if name != "arm_set"}

    def copy(self) -> Self:
        """Make an independent copy; the geometry, which takes long to make, is never changed."""
        other = super().copy()
        other.geometry = self.geometry
        return other


@dataclass(frozen=True, kw_only=True)
class EXP2(CompiledPolicy):
    """P(a) = γ π(a) + (1 − γ) exp(η⟨Θ, a⟩)/Σ exp(η⟨Θ, ·⟩) with π the G-optimal design.

    Θ = Σ Q⁻¹a·y is the sum of unbiased estimates, Q = Σ P(a) a aᵀ. η = √(log K / (3 r n)) and γ = r η, where
    r is the rank of the arms (d when they span) and n the horizon; without one n is t + 1 in round t. η is
    at most 1/(2r), so that every arm keeps a positive probability.

    Works for one fixed set of arms; another set is an error. Q⁻¹a belongs to the moment of the decision
    and is kept with it, so rewards may come late; rewards of arms that EXP2 did not choose mean nothing to
    it. The regret bound is for rewards in [−1, 1].

    Its parameters are `horizon`, `eta` and `gamma`, and the `label` of every `Policy`.

    >>> from linmed import Agent, EXP2
    >>> agent, arms = Agent(EXP2(horizon=100), dim=2, seed=1), [[1.0, 0.0], [0.0, 1.0]]
    >>> for _ in range(20):
    ...     decision = agent.decide(arms)
    ...     agent.learn(decision, reward=[0.9, 0.1][decision.arm])
    >>> bool(agent.probabilities(arms)[0] > 0.5)
    True
    """

    horizon: int | None = parameter(None, validation.whole)
    """n; None is the anytime version."""
    eta: float | None = parameter(None, validation.positive)
    """η; None computes it as above."""
    gamma: float | None = parameter(None, validation.strictly_between, 0.0, 1.0)
    """γ; None means r η."""

    properties: ClassVar[Properties] = Properties(
        "Bubeck, Cesa-Bianchi & Kakade 2012",
        minimax="√(d n log K)",
        instance="at least Δ √n",
        paper_computable="yes",
        paper_all_arms="yes",
    )
    learns_from_arms: ClassVar[bool] = False
    compiled_rounds: ClassVar[bool] = True
    takes_worth: ClassVar[bool] = False
    without_worth: ClassVar[str] = (
        "it weighs arms by sums of estimated rewards, in which a cost that is known has no place"
    )

    @property
    def belief(self) -> Callable[..., Any]:
        """Θ and the arms it is about."""
        made: Callable[..., Any] = core.Totals
        return made

    @property
    def scale_free(self) -> bool:
        """No: η multiplies rewards."""
        return False

    def start(self, replicas: int, dim: int) -> Exp2State:
        """Begin with Θ = 0, and no arm set yet."""
        return Exp2State(
            theta=np.zeros((replicas, dim)),
            count=np.zeros(replicas, dtype=np.int64),
            total=np.zeros((replicas, dim)),
            arm_set=np.zeros(replicas, dtype=np.int64),
        )

    @property
    def rule(self) -> Any:
        """Exponential weights and a design, of arms yet to be given."""
        return self._rule(NOWHERE)

    def rates(self, state: Exp2State, arms: int, rank: int) -> tuple[Floats, Floats]:
        """Compute η and γ of every replica, (R,) each, for so many arms of this rank.

        >>> from linmed import EXP2
        >>> policy = EXP2(horizon=1000)
        >>> eta, gamma = policy.rates(policy.start(replicas=1, dim=2), arms=10, rank=2)
        >>> eta.round(4), gamma.round(4)
        (array([0.0196]), array([0.0392]))
        """
        rule = self.rule
        pairs = [core.exp2_rates(rule, float(count), rank, arms) for count in state.count]
        eta, gamma = np.array(pairs).T
        return eta, gamma

    def features(self, state: Exp2State, arms: Floats, arm: Ints) -> Floats:
        """Compute Q⁻¹a of the arms just played; the arm set is remembered from here on.  arm (R,) → (R,d)."""
        arms = validation.for_kernels(arms)
        geometry = self._geometry(state, arms)
        out = np.empty((len(arm), arms.shape[2]))
        core.estimators(self.bind(state), self._rule(geometry), arms, arm, out)
        geometry.remember(state.arm_set)
        return out

    def observe(self, state: Exp2State, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Refuse: the estimate Q⁻¹a·y is unbiased only if EXP2 drew the arm itself."""
        raise ValueError(
            "EXP2 cannot observe rewards from elsewhere: its estimate is unbiased only for arms it drew "
            "itself; use learn with one of its own decisions, or a ridge policy for a warm start"
        )

    def derived_name(self) -> str:
        """Say EXP2, or EXP2-AT for the anytime version."""
        return ("EXP2-AT" if self.horizon is None else "EXP2") + self.describe("horizon")

    def _rounds(self, state: Exp2State, arms: Floats, rewards: Floats, *others: Any) -> None:
        arms, rewards, errors, noise = map(validation.for_kernels, (arms, rewards, *others[:2]))
        if len(arms) > 1:
            keys = [fingerprints(offered) for offered in arms]
            require_same(bool((np.array(keys) == keys[0]).all()))
        geometry = self._geometry(state, arms[0])
        belief, rule = self.bind(state), self._rule(geometry)
        core.play(belief, self.confidence_set, rule, arms[:1], rewards, errors, noise, *others[2:])
        if len(rewards):
            geometry.remember(state.arm_set)

    def _rule(self, geometry: Geometry) -> Any:
        return core.Exp2Rule(float(self.horizon or 0), self.eta or 0.0, self.gamma or 0.0, *geometry[1:])

    def _geometry(self, state: Exp2State, arms: Floats) -> Geometry:
        """Return the geometry of the arms, which the state keeps; refuse other arms than those it knows."""
        key = fingerprints(arms)
        known = state.arm_set if len(state.arm_set) > 1 or state.arm_set[0] else key[:1]
        require_same(not ((known != 0) & (known != key)).any())
        if state.geometry is None or not np.array_equal(state.geometry.key, key):
            state.geometry = geometry_of(arms, key)
        return state.geometry


def fingerprints(arms: Floats) -> Ints:
    """Compute a fingerprint of each set.  arms (n,K,d) → (n,)."""
    key = np.empty(len(arms), dtype=np.int64)
    core.fingerprint(arms + 0.0, key)  # + 0.0: −0 is 0
    return key


def require_same(same: bool) -> None:
    """Raise unless the arms are those of the rounds before."""
    if not same:
        raise ValueError(
            "arms differ from those of the first decision: EXP2 needs the same arms, in the same order, "
            "in every round"
        )


def geometry_of(arms: Floats, key: Ints) -> Geometry:
    """Compute designs, coordinates in the span and the way back, for each set.  arms (n,K,d)."""
    n, K, d = arms.shape
    if not arms.any(axis=(1, 2)).all():
        raise ValueError("arms are all zero: EXP2 needs at least one arm with a direction")
    made = Geometry(key, np.empty((n, K)), np.empty((n, K, d)), np.empty(n, np.int64), np.empty((n, d, d)))
    core.geometries(arms, *made[1:])
    return made
