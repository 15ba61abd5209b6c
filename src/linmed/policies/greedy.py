"""ε-greedy: the empirically best arm, and a share ε of exploration."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from linmed import checks
from linmed.checks import Floats, Ints
from linmed.kernels import optimism
from linmed.policies.base import Properties, RidgeState, decisions
from linmed.policies.rule import DeterministicPolicy


@dataclass(frozen=True)
class Greedy(DeterministicPolicy):
    """Play argmax_a ⟨θ̂, a⟩ with probability 1 − ε and a uniformly drawn arm with probability ε.

    Ties go to the lowest index, so with ε = 0 it starts with arm 0 and may never leave it.
    """

    epsilon: float = 0.0
    """ε: share of uniform exploration."""

    properties: ClassVar[Properties] = Properties(
        reference="folklore",
        minimax="n",
        instance="n",
        computable="closed form",
        all_arms="no (yes with epsilon > 0)",
        randomised=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("epsilon", checks.between("epsilon", self.epsilon, 0.0, 1.0))

    @property
    def evenly(self) -> float:
        """ε."""
        return self.epsilon

    def best(self, state: RidgeState, arms: Floats) -> Ints:
        """The empirically best arm: an upper confidence bound of radius 0."""
        out = np.empty(decisions(state, arms), dtype=np.int64)
        optimism.oful(arms, state.theta, state.inverse, np.zeros(len(state.count)), out)
        return out


@dataclass(frozen=True)
class EpsilonGreedy(Greedy):
    """`Greedy` by the name most libraries give it, with a share of exploration to begin with."""

    epsilon: float = 0.1
    """ε: share of uniform exploration."""

    properties: ClassVar[Properties] = Greedy.properties._replace(all_arms="yes")
