"""Uniform exploration."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from linmed.checks import Floats, Ints
from linmed.policies.base import Properties, RidgePolicy, RidgeState, decisions


@dataclass(frozen=True)
class Uniform(RidgePolicy):
    """Play every arm with probability 1/K. θ̂ is kept up to date, so the estimate can be read off."""

    properties: ClassVar[Properties] = Properties(
        reference="folklore",
        minimax="n",
        instance="n",
        computable="closed form",
        all_arms="yes",
        randomised=True,
    )

    def log_probabilities(self, state: RidgeState, arms: Floats) -> Floats:
        """log(1/K)."""
        return np.full((decisions(state, arms), arms.shape[1]), -np.log(arms.shape[1]))

    def choose(self, state: RidgeState, arms: Floats, noise: Floats) -> Ints:
        """⌊uK⌋."""
        arm: Ints = np.minimum((noise[:, 0] * arms.shape[1]).astype(np.int64), arms.shape[1] - 1)
        return arm
