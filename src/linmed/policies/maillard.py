"""Maillard sampling, the K-armed rule that LinMED extends (the paper's section 3)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from linmed import checks
from linmed.checks import Floats, Ints
from linmed.policies.base import Policy, Properties, State


@dataclass(slots=True)
class PullState(State):
    """Pulls and reward sums of each arm; theta holds the means (0 where there is no pull yet)."""

    theta: Floats  # (R, d)
    count: Ints  # (R,)
    pulls: Floats  # (R, d)
    totals: Floats  # (R, d)

    def arrays(self) -> dict[str, Floats | Ints]:
        """The arrays by name, not copied."""
        return {"theta": self.theta, "count": self.count, "pulls": self.pulls, "totals": self.totals}


@dataclass(frozen=True)
class MaillardSampling(Policy):
    """p_t(a) ∝ exp(−N_a Δ̂_a² / (2σ²)) for independent arms, given as one-hot rows.

    Arm i is the row with a single 1 at position i, so `dim` is the number of arms there are; a round may
    offer any of them. While an offered arm has no reward yet, the unrewarded ones share the mass equally.
    """

    sigma: float = 1.0
    """σ: the noise is taken to be σ-sub-Gaussian."""

    properties: ClassVar[Properties] = Properties(
        reference="Maillard 2013; Bian & Jun 2022",
        minimax="√(K n log K)",
        instance="K log(n) / Δ",
        computable="closed form",
        all_arms="once each has a reward",
        randomised=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("sigma", checks.positive("sigma", self.sigma))

    def start(self, replicas: int, dim: int) -> PullState:
        """No pulls."""
        return PullState(
            theta=np.zeros((replicas, dim)),
            count=np.zeros(replicas, dtype=np.int64),
            pulls=np.zeros((replicas, dim)),
            totals=np.zeros((replicas, dim)),
        )

    def log_probabilities(self, state: PullState, arms: Floats) -> Floats:
        """log p_t(a).  arms one-hot, (R,K,d) or (1,K,d) → (R,K)."""
        index = one_hot_indices("arms", arms)
        rows = np.arange(state.theta.shape[0])[:, None]
        pulls = state.pulls[rows, index]
        means = state.theta[rows, index]
        fresh = pulls == 0
        gaps = means.max(axis=1, keepdims=True) - means
        log_f = -0.5 * pulls * (gaps / self.sigma) ** 2
        waiting = fresh.any(axis=1, keepdims=True)
        log_f = np.where(waiting, np.where(fresh, 0.0, -np.inf), log_f)
        result: Floats = log_f - np.log(np.exp(log_f).sum(axis=1, keepdims=True))
        return result

    def learn(self, state: PullState, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Count the pull and its reward."""
        index = one_hot_indices("features", features)
        np.add.at(state.pulls, (replicas, index), 1.0)
        np.add.at(state.totals, (replicas, index), rewards)
        np.add.at(state.count, replicas, 1)
        state.theta[replicas, index] = state.totals[replicas, index] / state.pulls[replicas, index]


def one_hot_indices(name: str, rows: Floats) -> Ints:
    """The position of the 1 in every row of (..., d); anything but one-hot rows is an error."""
    index: Ints = rows.argmax(axis=-1)
    if not (((rows == 0) | (rows == 1)).all() and (rows.sum(axis=-1) == 1).all()):
        raise ValueError(
            f"{name} must be one-hot rows (a single 1, the rest 0); MaillardSampling knows no features"
        )
    return index
