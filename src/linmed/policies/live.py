"""A policy and its state as a live user meets them: decisions and rewards one at a time."""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Policy
from linmed.validation import Floats

Drawn = tuple[int, float, Floats | None, float, Floats, Floats]
"""A decision: arm, log-probability, those of all arms (K,) where known, the probability's standard error,
the arm's vector (d,), and what its reward will be learned with (d,)."""


class Live:
    """A state of one replica, and the core's agent that works on it where its policy has one.

    All arrays must be in the form of `validation.for_kernels`, and only one thread may call at a time.
    """

    def __init__(self, policy: Policy, state: Any) -> None:
        self.policy, self.state = policy, state
        live = policy.live(state) if policy.learns_from_arms else None
        self._decides = live if policy.law_in_core else None
        self._learns = live if policy.learns_in_core else None

    def decide(self, arms: Floats, noise: Floats, t: int) -> Drawn:
        """Choose one of arms (K,d), whose entries are looked at here, with noise[t].  noise (T,1,size)."""
        if self._decides is None:
            if not core.all_within(arms, validation.LARGEST):
                raise validation.bad_entry("arms", arms)
            return next(self.decide_each(arms[None], noise[t : t + 1]))
        law = np.empty(len(arms))
        arm = self._decides.decide(arms, noise, t, law)
        if arm < 0:
            raise validation.bad_entry("arms", arms)
        vector = arms[arm].copy()
        return arm, law.item(arm), law, 0.0, vector, vector

    def decide_each(self, sets: Floats, noise: Floats) -> Iterator[Drawn]:
        """Choose one arm of each of n sets, in one call.  sets (n,K,d), noise (n,1,size)."""
        choice = self.policy.decide(self.state, sets, noise[:, 0])
        laws = repeat(None) if choice.log_probabilities is None else choice.log_probabilities
        errors = repeat(0.0) if choice.error is None else choice.error.tolist()
        vectors = sets[np.arange(len(sets)), choice.arm]
        kept = vectors if self.policy.learns_from_arms else choice.features.copy()
        found = choice.arm.tolist(), choice.log_probability.tolist()
        return zip(*found, laws, errors, vectors, kept, strict=False)

    def learn(self, features: Floats, reward: float, time: float | None = None) -> None:
        """Absorb the reward of one decision, taken at `time`.  features (d,)."""
        if self._learns is not None:
            self._learns.learn(features, reward, time)
            return
        one = features[None], np.array([reward]), np.zeros(1, dtype=np.int64)
        if time is None:
            self.policy.learn(self.state, *one)
        else:
            self.policy.learn_at(self.state, *one, np.array([time]))
