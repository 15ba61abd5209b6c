"""Rules that look at no arm."""

import math
from typing import NamedTuple


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
