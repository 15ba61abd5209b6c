"""Rules of the authors' public code, where it does otherwise than the paper: pieces for `opening.Opening`."""

import math
from typing import NamedTuple

import numpy as np

from linmed.kernels.centred import centred_counts
from linmed.kernels.gauss import lower_tail
from linmed.kernels.igw import SpannerRule, spanner_rate
from linmed.kernels.med import MedRule
from linmed.kernels.sampling import settle, settle_on


class EvenByNormalRule(NamedTuple):
    """Every arm with probability 1/K, drawn by the first of a decision's standard normals.

    It only draws: a rule that takes normals has its probabilities computed elsewhere.
    """

    def workspace(self, K, d):
        """Nothing is written on the way."""
        return ()

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """⌊Φ(z)K⌋; see `rounds.decide`."""
        K = arms.shape[1]
        return min(int(lower_tail(noise[t, r, 0]) * K), K - 1)


class ArmZeroRule(NamedTuple):
    """1 on arm 0."""

    def workspace(self, K, d):
        """The probabilities of K arms."""
        return (np.empty(K),)

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        return settle_on(0, scratch[0], 0.0, noise[t, r, 0], t, r, log_p)


class CentredDesignRule(NamedTuple):
    """The centred design of the arms."""

    def workspace(self, K, d):
        """Scales, counts and probabilities of K arms."""
        return np.ones(K), np.empty(K), np.empty(K)

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        scale, count, out = scratch
        total = centred_counts(arms, p, scale, count)
        for i in range(out.shape[0]):
            out[i] = count[i] / total
        return settle(out, 0.0, noise[t, r, 0], t, r, log_p)


class CentredMedRule(MedRule):
    """As `MedRule` with version 0, but with the centred design.

    `optimal` must be set: a design that need not be uniform for few arms has to be made in every round.
    """

    __slots__ = ()

    def counts(self, belief, s, arms, p, blocks, n, scratch):
        """Writes the design as counts; returns their sum."""
        return centred_counts(arms, p, scratch.root, scratch.design)


class LaggingSpannerRule(SpannerRule):
    """As `SpannerRule`, but with the centred design; and without a horizon γ is that of the next round, while
    the arms of the design are still shrunk by the η of this one."""

    __slots__ = ()

    def exploration(self, belief, s, K, d):
        """γ for t + 1 in round t."""
        if self.gamma > 0.0:
            return self.gamma
        return spanner_rate(self, self.horizon if self.horizon > 0.0 else belief.count[s] + 2.0, d)

    def spanner_design(self, belief, s, arms, p, gap, scratch, q):
        """Writes the design of the arms a/√(1 + η gap_a), gap given in units of 1/η, to q (K,)."""
        K, d = gap.shape[0], arms.shape[2]
        lag = 1.0
        if self.gamma == 0.0 and self.horizon == 0.0:
            now = belief.count[s] + 1.0
            lag = spanner_rate(self, now, d) / spanner_rate(self, now + 1.0, d)
        for i in range(K):
            scratch[i] = 1.0 / math.sqrt(1.0 + lag * gap[i])
        total = centred_counts(arms, p, scratch, q)
        for i in range(K):
            q[i] /= total
