"""Maillard sampling, the K-armed rule that LinMED extends (the paper's section 3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.core import core
from linmed.policies.base import MOST, Properties, State
from linmed.policies.compiled import CompiledPolicy
from linmed.validation import Floats, Ints


class Pulls(NamedTuple):
    """The arrays in the order in which the core takes them."""

    theta: Floats  # (R,d) means
    count: Ints  # type: ignore[assignment]  # (R,) rewards absorbed
    pulls: Floats  # (R,d)
    totals: Floats  # (R,d)


class PullState(Pulls, State):
    """Pulls and reward sums of each arm; theta holds the means (0 where there is no pull yet)."""

    __slots__ = ()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, not copied."""
        return self._asdict()

    def limits(self) -> dict[str, tuple[float, float]]:
        """As of every state; pulls are counts."""
        return {**super().limits(), "pulls": (0, MOST)}


@dataclass(frozen=True)
class MaillardSampling(CompiledPolicy):
    """p_t(a) ∝ exp(−N_a Δ̂_a² / (2σ²)) for independent arms, given as one-hot rows.

    Arm i is the row with a single 1 at position i, so `dim` is the number of arms there are; a round may
    offer any of them. While an offered arm has no reward yet, the unrewarded ones share the mass equally.

    `sigma` is its parameter, and the `label` of every `Policy`.

    >>> from linmed import Agent, MaillardSampling
    >>> agent, arms = Agent(MaillardSampling(sigma=0.5), dim=2), [[1.0, 0.0], [0.0, 1.0]]
    >>> agent.observe(arms * 2, [0.9, 0.4] * 2)
    >>> agent.probabilities(arms).round(3)
    array([0.731, 0.269])
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

    @property
    def belief(self) -> Callable[..., Any]:
        """Pulls and totals of every arm."""
        made: Callable[..., Any] = core.Pulls
        return made

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("sigma", validation.positive("sigma", self.sigma))

    def start(self, replicas: int, dim: int) -> PullState:
        """No pulls."""
        return PullState(
            theta=np.zeros((replicas, dim)),
            count=np.zeros(replicas, dtype=np.int64),
            pulls=np.zeros((replicas, dim)),
            totals=np.zeros((replicas, dim)),
        )

    def like(self, arms: Floats) -> Floats:
        """One-hot rows, as many as there are dimensions for."""
        return np.eye(len(arms), arms.shape[1])[: arms.shape[1]]

    @property
    def rule(self) -> Any:
        """The weights of the arms."""
        return core.MaillardRule(self.sigma)

    def live(self, state: PullState) -> None:
        """None: an agent's arms are looked at before each decision and reward, too."""
        return None

    def learn(self, state: PullState, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Count the pull and its reward."""
        check_one_hot("features", features)
        super().learn(state, features, rewards, replicas)

    def _rounds(self, state: PullState, arms: Floats, *others: Any) -> None:
        check_one_hot("arms", arms)
        super()._rounds(state, arms, *others)


def check_one_hot(name: str, rows: Floats) -> None:
    """Anything but one-hot rows (..., d) is an error."""
    if not (((rows == 0) | (rows == 1)).all() and (rows.sum(axis=-1) == 1).all()):
        raise ValueError(
            f"{name} must be one-hot rows (a single 1, the rest 0); MaillardSampling knows no features"
        )
