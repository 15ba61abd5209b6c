"""A policy and its state as a live user meets them: one decision or one reward at a time."""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from linmed.checks import Floats
from linmed.policies.base import Drawn, Policy, State

_NO_REWARDS = np.empty((0, 0, 0))
_ONE_REPLICA = np.zeros(1, dtype=np.int64)


class Live:
    """A state of one replica, and the kernels bound to it where its policy has them: see `Policy.decider`.

    All arrays must have passed `checks.for_kernels`, and only one thread may call at a time.
    """

    def __init__(self, policy: Policy, state: State) -> None:
        self.policy, self.state = policy, state
        self._played = np.empty((1, 1), dtype=np.int64)
        self._reward = np.empty(1)

    def decide(self, arms: Floats, noise: Floats) -> tuple[Drawn, Floats | None]:
        """Choose among arms (K,d) with noise (1,noise_size); what `learn` needs (d,) if it is not the arm."""
        rounds = self._decider
        if rounds is None:
            choice = self.policy.decide(self.state, arms[None], noise)
            return next(choice.rows()), None if self.policy.learns_from_arms else choice.features[0]
        law = np.empty((1, 1, len(arms)))
        rounds(arms[None, None], _NO_REWARDS, noise[None], self._played, law)
        arm = self._played.item()
        return (arm, law.item(arm), law[0, 0], 0.0), None

    def learn(self, features: Floats, reward: float) -> None:
        """Absorb the reward of one decision.  features (d,)."""
        self._reward[0] = reward
        learn = self._learner
        if learn is None:
            self.policy.learn(self.state, features[None], self._reward, _ONE_REPLICA)
        else:
            learn(features[None], self._reward, _ONE_REPLICA)

    # Bound when they are first needed: that is when a kernel is compiled.
    @cached_property
    def _decider(self) -> Callable[..., None] | None:
        return self.policy.decider(self.state)

    @cached_property
    def _learner(self) -> Callable[..., None] | None:
        return self.policy.learner(self.state)
