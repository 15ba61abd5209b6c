"""Maillard sampling: independent arms, known by the place of the 1 in their one-hot rows."""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels.compile import inlined
from linmed.kernels.sampling import invert_cdf


class Pulls(NamedTuple):
    """Pulls and reward sums of each arm in every replica; theta holds the means, 0 without a pull."""

    theta: Floats  # (R,d)
    count: Ints  # type: ignore[assignment]  # (R,)
    pulls: Floats  # (R,d)
    totals: Floats  # (R,d)

    def absorb(self, r, features, i, reward, u):
        """Count a pull of the arm in row i of features (m,d), and its reward."""
        k = place(features, i)
        self.pulls[r, k] += 1.0
        self.totals[r, k] += reward
        self.theta[r, k] = self.totals[r, k] / self.pulls[r, k]
        self.count[r] += 1
        return False

    def refresh(self, r):
        """Sums have nothing to be refreshed."""


class MaillardScratch(NamedTuple):
    """What a decision writes of every arm, (K,) each."""

    place: Ints
    log_f: Floats
    weight: Floats


class MaillardRule(NamedTuple):
    """p(a) ∝ exp(−N_a Δ̂_a² / (2σ²)); while an offered arm has no pull, those without share the mass."""

    sigma: float

    def workspace(self, K, d):
        """Scratch for sets of K arms."""
        return MaillardScratch(np.empty(K, np.int64), np.empty(K), np.empty(K))

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        where, log_f, weight = scratch.place, scratch.log_f, scratch.weight
        K, d = arms.shape[1], arms.shape[2]
        best, fresh = -math.inf, False
        for i in range(K):
            k = i % d  # where it stands if all arms are offered, in order
            while arms[p, i, k] == 0.0:
                k = (k + 1) % d
            where[i] = k
            best = max(best, belief.theta[s, k])
            fresh = fresh or belief.pulls[s, k] == 0.0
        total = 0.0
        for i in range(K):
            k = where[i]
            if fresh:
                log_f[i] = 0.0 if belief.pulls[s, k] == 0.0 else -math.inf
            else:
                ratio = (best - belief.theta[s, k]) / self.sigma
                log_f[i] = -0.5 * belief.pulls[s, k] * (ratio * ratio)
            weight[i] = math.exp(log_f[i])
            total += weight[i]
        if log_p.shape[0] > 0:
            log_total = math.log(total)
            for i in range(K):
                log_p[t, r, i] = log_f[i] - log_total
        return invert_cdf(weight, noise[t, r, 0] * total)


@inlined
def place(rows, i):
    """Where the 1 of row i stands.  rows (m,d), one-hot."""
    k = 0
    while k < rows.shape[1] - 1 and rows[i, k] == 0.0:
        k += 1
    return k
