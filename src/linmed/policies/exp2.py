"""EXP2 with Kiefer–Wolfowitz exploration (Bubeck, Cesa-Bianchi and Kakade 2012), in terms of rewards."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import checks
from linmed.checks import Floats, Ints
from linmed.kernels import exp2 as kernels
from linmed.kernels.sampling import draw
from linmed.policies.base import Policy, Properties, State, decisions

RANK_TOLERANCE = 1e-10


class Geometry(NamedTuple):
    """What depends on the arm sets alone; n = R sets, or 1 where all replicas share one."""

    key: Ints  # (n,) fingerprints of the sets
    design: Floats  # (n,K) G-optimal
    coordinates: Floats  # (n,K,m) orthonormal coordinates of the arms in their span
    rank: Ints  # (n,)
    lift: Floats  # (n,d,m) from coordinates back to vectors


@dataclass(slots=True)
class Exp2State(State):
    """The sum of the estimates Q⁻¹a·y; theta is their mean. The arm set is remembered by a fingerprint."""

    theta: Floats  # (R,d)
    count: Ints  # (R,)
    total: Floats  # (R,d) Θ
    arm_set: Ints  # (R,) 0 before the first decision
    geometry: Geometry | None = field(default=None, repr=False, compare=False)
    """Made from the arms when needed; no part of what is saved."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, not copied."""
        return {"theta": self.theta, "count": self.count, "total": self.total, "arm_set": self.arm_set}


@dataclass(frozen=True)
class EXP2(Policy):
    """P(a) = γ π(a) + (1 − γ) exp(η⟨Θ, a⟩)/Σ exp(η⟨Θ, ·⟩) with π the G-optimal design.

    Θ = Σ Q⁻¹a·y is the sum of unbiased estimates, Q = Σ P(a) a aᵀ. η = √(log K / (3 r n)) and γ = r η, where
    r is the rank of the arms (d when they span) and n the horizon; without one n is t + 1 in round t. η is
    at most 1/(2r), so that every arm keeps a positive probability.

    Works for one fixed set of arms; another set is an error. Q⁻¹a belongs to the moment of the decision
    and is kept with it, so rewards may come late; rewards of arms that EXP2 did not choose mean nothing to
    it. The regret bound is for rewards in [−1, 1].
    """

    horizon: int | None = None
    """n; None is the anytime version."""
    eta: float | None = None
    """η; None computes it as above."""
    gamma: float | None = None
    """γ; None means r η."""

    properties: ClassVar[Properties] = Properties(
        reference="Bubeck, Cesa-Bianchi & Kakade 2012",
        minimax="√(d n log K)",
        instance="at least Δ √n",
        computable="closed form",
        all_arms="yes",
        randomised=True,
        paper_computable="yes",
        paper_all_arms="yes",
    )
    scale_free: ClassVar[bool] = False
    learns_from_arms: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon is not None:
            self._set("horizon", checks.whole("horizon", self.horizon))
        if self.eta is not None:
            self._set("eta", checks.positive("eta", self.eta))
        if self.gamma is not None:
            self._set("gamma", checks.strictly_between("gamma", self.gamma, 0.0, 1.0))

    def start(self, replicas: int, dim: int) -> Exp2State:
        """Θ = 0, and no arm set yet."""
        return Exp2State(
            theta=np.zeros((replicas, dim)),
            count=np.zeros(replicas, dtype=np.int64),
            total=np.zeros((replicas, dim)),
            arm_set=np.zeros(replicas, dtype=np.int64),
        )

    def rates(self, state: Exp2State, arms: int, rank: Ints) -> tuple[Floats, Floats]:
        """η and γ of every decision, (R,) each, for so many arms of this rank (R or 1,)."""
        r = rank + np.zeros(len(state.count))
        n = state.count + 2.0 if self.horizon is None else float(self.horizon)
        if self.eta is None:
            eta = np.minimum(np.sqrt(np.log(arms) / (3.0 * r * n)), 0.5 / r)
        else:
            eta = np.full(len(r), self.eta)
        gamma = np.minimum(r * eta, 0.5) if self.gamma is None else np.full(len(r), self.gamma)
        return eta, gamma

    def log_probabilities(self, state: Exp2State, arms: Floats) -> Floats:
        """log P(a), finite for every arm.  arms (R,K,d) or (1,K,d) → (R,K)."""
        geometry = self._geometry(state, arms)
        out = np.empty((decisions(state, arms), arms.shape[1]))
        eta, gamma = self.rates(state, arms.shape[1], geometry.rank)
        kernels.log_probabilities(arms, state.total, geometry.design, eta, gamma, out)
        return out

    def choose(self, state: Exp2State, arms: Floats, noise: Floats) -> Ints:
        """Draw without taking logarithms."""
        out = np.empty(len(noise), dtype=np.int64)
        draw(self._probabilities(state, arms, self._geometry(state, arms)), 0.0, noise, out)
        return out

    def features(self, state: Exp2State, arms: Floats, arm: Ints) -> Floats:
        """Q⁻¹a of the arms just played; the arm set is remembered from here on.  arm (R,) → (R,d)."""
        geometry = self._geometry(state, arms)
        p = self._probabilities(state, arms, geometry)
        out = np.empty((len(arm), arms.shape[2]))
        kernels.estimators(p, arm, geometry.coordinates, geometry.rank, geometry.lift, out)
        state.arm_set[:] = geometry.key[: len(state.arm_set)]
        return out

    def learn(self, state: Exp2State, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Θ += Q⁻¹a·y with the Q⁻¹a that `features` gave when the arm was played."""
        kernels.learn(state.total, state.theta, state.count, features, rewards, replicas)

    def observe(self, state: Exp2State, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Always an error: the estimate Q⁻¹a·y is unbiased only if EXP2 drew the arm itself."""
        raise ValueError(
            "EXP2 cannot observe rewards from elsewhere: its estimate is unbiased only for arms it drew "
            "itself; use learn with one of its own decisions, or a ridge policy for a warm start"
        )

    def derived_name(self) -> str:
        """EXP2, or EXP2-AT for the anytime version."""
        return ("EXP2-AT" if self.horizon is None else "EXP2") + self.describe("horizon")

    def _probabilities(self, state: Exp2State, arms: Floats, geometry: Geometry) -> Floats:
        out = np.empty((decisions(state, arms), arms.shape[1]))
        eta, gamma = self.rates(state, arms.shape[1], geometry.rank)
        kernels.probabilities(arms, state.total, geometry.design, eta, gamma, out)
        return out

    def _geometry(self, state: Exp2State, arms: Floats) -> Geometry:
        """The geometry of the arms, remembered by the state; an error if they are not those it knows."""
        key = np.empty(len(arms), dtype=np.int64)
        kernels.fingerprint((arms + 0.0).view(np.uint64), key)  # + 0.0: −0 is 0
        known = state.arm_set if len(state.arm_set) > 1 or state.arm_set[0] else key[:1]
        if ((known != 0) & (known != key)).any():
            raise ValueError(
                "arms differ from those of the first decision: EXP2 needs the same arms, in the same order, "
                "in every round"
            )
        if state.geometry is None or not np.array_equal(state.geometry.key, key):
            state.geometry = geometry_of(arms, key)
        return state.geometry


def geometry_of(arms: Floats, key: Ints) -> Geometry:
    """Designs, orthonormal coordinates and the way back, for each set.  arms (n,K,d)."""
    U, sizes, W = np.linalg.svd(arms, full_matrices=False)
    if not (sizes[:, 0] > 0.0).all():
        raise ValueError("arms are all zero: EXP2 needs at least one arm with a direction")
    spans = sizes > RANK_TOLERANCE * sizes[:, :1]
    design = np.empty(arms.shape[:2])
    kernels.designs(arms, design)
    inverse = np.where(spans, 1.0 / np.where(spans, sizes, 1.0), 0.0)
    lift = np.ascontiguousarray(W.transpose(0, 2, 1) * inverse[:, None, :])
    return Geometry(key, design, np.ascontiguousarray(U), spans.sum(axis=1), lift)
