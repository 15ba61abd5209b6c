from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from bayesianbandits import (
    Arm,
    ArmFeaturizer,
    LipschitzContextualAgent,
    NormalRegressor,
    ThompsonSampling,
    UpperConfidenceBound,
)

from peers.common import Entry, Play, Problem, serve


class OwnFeatures(ArmFeaturizer[int]):
    """An arm's features are its row of a matrix; the context has none."""

    def __init__(self, arms: np.ndarray) -> None:
        self.arms = arms

    def transform(self, X: Any, *, action_tokens: Sequence[int]) -> np.ndarray:
        if len(action_tokens) == len(self.arms):
            return self.arms
        return self.arms[list(action_tokens)]


def linear(rule: Any, given: Problem) -> Play:
    agent = LipschitzContextualAgent(
        arms=[Arm(i, learner=None) for i in range(len(given.arms))],
        policy=rule(),
        arm_featurizer=OwnFeatures(given.arms),
        learner=NormalRegressor(alpha=1.0, beta=1.0),
        random_seed=1,
    )
    nothing = np.zeros((1, 1))

    def play(t: int) -> None:
        (arm,) = agent.pull(nothing)
        agent.select_for_update(arm).update(nothing, np.array([given.reward(t, arm)]))

    return play


if __name__ == "__main__":
    rules = {"LinTS": ThompsonSampling, "LinUCB": UpperConfidenceBound}
    entries = {name: Entry(partial(linear, rule), "no", "shared") for name, rule in rules.items()}
    serve("bayesianbandits", version("bayesianbandits"), entries)
