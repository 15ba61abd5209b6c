"""EXP2: exponential weights over estimated totals, mixed with a design, and the unbiased estimate Q⁻¹a y.

Everything but the scores ⟨Θ, a⟩ happens in coordinates u of the arms in their own span, where
Q = Σ P(a) u uᵀ is positive definite whenever the design spans.
"""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels.blocks import block_room, held, pack, padded
from linmed.kernels.compile import by_class, deferred, inlined, kernel
from linmed.kernels.exchange import desk_room
from linmed.kernels.optimal import optimal_design
from linmed.kernels.optimism import means, per_arm
from linmed.kernels.sampling import invert_cdf
from linmed.kernels.span import span_coordinates, weighted_inverse

DESIGN_TOL = 1e-9


@by_class
def rates(rule, t, rank, K):
    """η and γ after t rewards, for K arms of this rank."""


class Totals(NamedTuple):
    """The sum of the estimates Q⁻¹a·y in every replica; theta is their mean."""

    theta: Floats  # (R,d)
    count: Ints  # type: ignore[assignment]  # (R,)
    total: Floats  # (R,d) Θ
    arm_set: Ints  # (R,) fingerprint of the arms, 0 before the first decision

    def absorb(self, r, features, i, reward, u):
        """Θ += Q⁻¹a·y for row i of features (m,d), which holds Q⁻¹a."""
        self.count[r] += 1
        for k in range(u.shape[0]):
            self.total[r, k] += features[i, k] * reward
            self.theta[r, k] = self.total[r, k] / self.count[r]
        return False

    def refresh(self, r):
        """Sums have nothing to be refreshed."""


class Exp2Scratch(NamedTuple):
    """What a decision writes of every arm, (K,) each."""

    score: Floats
    p: Floats


class Exp2Rule(NamedTuple):
    """P(a) = γ π(a) + (1 − γ) exp(score_a), and Q⁻¹a of the arm played; n = R sets of arms, or 1."""

    horizon: float  # 0 stands for the current round and one more
    eta: float  # 0 stands for the formula
    gamma: float  # 0 stands for r η
    design: Floats  # (n,K) G-optimal
    coordinates: Floats  # (n,K,d) of the arms in their span, as many as its rank
    rank: Ints  # (n,)
    lift: Floats  # (n,d,d) from coordinates back to vectors

    def rates(self, t, rank, K):
        """η = √(log K / (3 r n)), at most 1/(2r), and γ = r η, at most 1/2."""
        n = self.horizon if self.horizon > 0.0 else t + 2.0
        eta = self.eta if self.eta > 0.0 else min(math.sqrt(math.log(K) / (3.0 * rank * n)), 0.5 / rank)
        return eta, self.gamma if self.gamma > 0.0 else min(rank * eta, 0.5)

    def workspace(self, K, d):
        """Scratch for sets of K arms."""
        return Exp2Scratch(per_arm(K), np.empty(K))

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`; log P(a) is finite also where exp(score) underflows and π has no weight."""
        score = scratch.score
        gamma = mixture(self, belief, s, arms, p, blocks, n, score, scratch.p)
        if log_p.shape[0] > 0:
            for i in range(score.shape[0]):
                if self.design[p, i] > 0.0:
                    log_p[t, r, i] = math.log(scratch.p[i])
                else:
                    log_p[t, r, i] = math.log1p(-gamma) + score[i]
        return invert_cdf(scratch.p, noise[t, r, 0])

    def lesson(self, arms, p, arm, scratch, a):
        """Q⁻¹a with the probabilities of the decision."""
        estimator(scratch.p, arm, self.coordinates, self.rank, self.lift, p, a, 0)


@kernel
def fingerprint(arms, out):
    """A number other than 0 for each set of arms (FNV-1a over the bits).  arms (n,K,d) uint64, out (n,)."""
    n, K, d = arms.shape
    for s in range(n):
        state = np.uint64(0xCBF29CE484222325)
        for i in range(K):
            for k in range(d):
                state = (state ^ arms[s, i, k]) * np.uint64(0x100000001B3)
                state = state ^ (state >> np.uint64(32))
        state = (state ^ np.uint64(K)) | np.uint64(1)
        out[s] = np.int64(state)


@kernel
def geometries(arms, design, coordinates, rank, lift):
    """What depends on the arms alone, for each set: the G-optimal design and coordinates of the span.

    arms, coordinates (n,K,d), design (n,K), rank (n,), lift (n,d,d); see `design.span_coordinates`.
    """
    K, d = arms.shape[1], arms.shape[2]
    zeros, pivots = np.zeros(K), np.empty(d, np.int64)
    for s in range(arms.shape[0]):
        rank[s] = span_coordinates(arms[s], zeros, coordinates[s], pivots, lift[s])
        optimal_design(arms[s], zeros, DESIGN_TOL, design[s])


@inlined
def mixture(rule, belief, s, arms, p, blocks, n, score, out):
    """score_a = η⟨Θ, a⟩ − log Σ exp(η⟨Θ, ·⟩), the log of the exponential weights, and P(a) of set p in
    replica s; returns γ.  score, out (K,)."""
    K = score.shape[0]
    eta, gamma = rates(rule, belief.count[s], rule.rank[p], K)
    means(arms, p, blocks, n, belief.total, s, score)
    highest = -math.inf
    for i in range(K):
        score[i] *= eta
        highest = max(highest, score[i])
    mass = 0.0
    for i in range(K):
        mass += math.exp(score[i] - highest)
    log_mass = math.log(mass)
    for i in range(K):  # first the highest: beside a large one log_mass would be lost to rounding
        score[i] = (score[i] - highest) - log_mass
        out[i] = gamma * rule.design[p, i] + (1.0 - gamma) * math.exp(score[i])
    return gamma


@deferred("void(f8[::1], intp, f8[:,:,::1], i8[::1], f8[:,:,::1], intp, f8[:,::1], intp)")
def estimator(P, arm, coordinates, rank, lift, p, out, row):
    """out[row] = Q⁻¹a of an arm of set p, so that Q⁻¹a·y is an unbiased estimate of θ* on the span.

    P (K,); coordinates (n,K,d) of the arms, of which rank[p] count; lift (n,d,d); out (·,d).
    """
    n = rank[p]
    M, stride, desk = n * padded(n), padded(n), np.empty(desk_room(n))
    weighted_inverse(coordinates, p, n, np.ones(P.shape[0]), P, 0.0, desk)
    for k in range(lift.shape[1]):
        total = 0.0
        for i in range(n):
            x = 0.0
            for j in range(n):
                x += desk[M + i * stride + j] * coordinates[p, arm, j]
            total += lift[p, k, i] * x
        out[row, k] = total


@kernel
def estimators(state, rule, arms, played, out):
    """Q⁻¹a of the arms just played.  arms (n,K,d), n = R or 1; played (R,), out (R,d)."""
    belief, rule_ = Totals(*state), Exp2Rule(*rule)
    K, d = arms.shape[1], arms.shape[2]
    score, P, blocks = per_arm(K), np.empty(K), np.empty((1, block_room(K, d) if held(K, d) else 0))
    for r in range(played.shape[0]):
        p = r if arms.shape[0] > 1 else 0
        s = r if belief.count.shape[0] > 1 else 0
        if held(K, d):
            pack(arms, p, d, blocks, 0)
        mixture(rule_, belief, s, arms, p, blocks, 0, score, P)
        estimator(P, played[r], rule_.coordinates, rule_.rank, rule_.lift, p, out, r)
