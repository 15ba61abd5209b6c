"""Rules that look at no arm."""

import math
from typing import NamedTuple

import numpy as np

from linmed.kernels.sampling import settle_on


class UniformRule(NamedTuple):
    """Every arm with probability 1/K."""

    def workspace(self, K, d):
        """Nothing is written on the way."""
        return ()

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """⌊uK⌋; see `rounds.decide`."""
        K = arms.shape[1]
        if log_p.shape[0] > 0:
            for i in range(K):
                log_p[t, r, i] = -math.log(K)
        return min(int(noise[t, r, 0] * K), K - 1)


class ArmZeroRule(NamedTuple):
    """1/K before any reward, then 1 on arm 0."""

    def workspace(self, K, d):
        """The probabilities of K arms."""
        return (np.empty(K),)

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        evenly = 1.0 if belief.count[s] == 0 else 0.0
        return settle_on(0, scratch[0], evenly, noise[t, r, 0], t, r, log_p)
