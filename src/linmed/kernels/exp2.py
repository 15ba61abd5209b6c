"""EXP2: exponential weights over estimated totals, mixed with a design, and the unbiased estimate Q⁻¹a y.

Everything but the scores ⟨Θ, a⟩ happens in coordinates u of the arms in their own span, where
Q = Σ P(a) u uᵀ is positive definite whenever the design spans.
"""

import math

import numpy as np

from linmed.kernels.compile import kernel
from linmed.kernels.design import span_coordinates, weighted_inverse
from linmed.kernels.optimal import optimal_design

DESIGN_TOL = 1e-9


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


@kernel
def scores(arms, total, r, eta, score):
    """score_a = η⟨Θ, a⟩ − log Σ exp(η⟨Θ, ·⟩), the log of the exponential weights.  score (K,)."""
    K, d = arms.shape[1], arms.shape[2]
    set_ = r if arms.shape[0] > 1 else 0
    s = r if total.shape[0] > 1 else 0
    highest = -math.inf
    for i in range(K):
        inner = 0.0
        for k in range(d):
            inner += arms[set_, i, k] * total[s, k]
        score[i] = eta * inner
        highest = max(highest, score[i])
    mass = 0.0
    for i in range(K):
        mass += math.exp(score[i] - highest)
    log_mass = math.log(mass)
    for i in range(K):  # first the highest: beside a large one log_mass would be lost to rounding
        score[i] = (score[i] - highest) - log_mass


@kernel
def probabilities(arms, total, design, eta, gamma, out):
    """P(a) = γ π(a) + (1 − γ) exp(score_a).  arms (n,K,d), design (n,K), n = R or 1; total (R,d);
    eta, gamma (R,); out (R,K)."""
    R, K = out.shape
    score = np.empty(K)
    for r in range(R):
        set_ = r if arms.shape[0] > 1 else 0
        scores(arms, total, r, eta[r], score)
        for i in range(K):
            out[r, i] = gamma[r] * design[set_, i] + (1.0 - gamma[r]) * math.exp(score[i])


@kernel
def log_probabilities(arms, total, design, eta, gamma, out):
    """log P(a), finite also where exp(score) underflows and the design has no weight."""
    R, K = out.shape
    score = np.empty(K)
    for r in range(R):
        set_ = r if arms.shape[0] > 1 else 0
        scores(arms, total, r, eta[r], score)
        for i in range(K):
            chosen = gamma[r] * design[set_, i]
            if chosen > 0.0:
                out[r, i] = math.log(chosen + (1.0 - gamma[r]) * math.exp(score[i]))
            else:
                out[r, i] = math.log1p(-gamma[r]) + score[i]


@kernel
def estimators(p, arm, coordinates, rank, lift, out):
    """Q⁻¹a of the arm played, so that Q⁻¹a·y is an unbiased estimate of θ* on the span.

    p (R,K), arm (R,); coordinates (n,K,d) of the arms, of which rank[s] count; lift (n,d,d); out (R,d).
    """
    R, K = p.shape
    d = lift.shape[1]
    rows, ones = np.arange(K), np.ones(K)
    for r in range(R):
        set_ = r if coordinates.shape[0] > 1 else 0
        n = rank[set_]
        B, M = np.ascontiguousarray(coordinates[set_, :, :n]), np.empty((n, n))
        weighted_inverse(B, rows, ones, p[r], 0.0, M)
        for k in range(d):
            total = 0.0
            for i in range(n):
                x = 0.0
                for j in range(n):
                    x += M[i, j] * B[arm[r], j]
                total += lift[set_, k, i] * x
            out[r, k] = total


@kernel
def learn(total, theta, count, features, rewards, replicas):
    """Θ += Q⁻¹a·y; theta is the mean of the estimates.  features (m,d), rewards, replicas (m,)."""
    d = total.shape[1]
    for i in range(features.shape[0]):
        r = replicas[i]
        count[r] += 1
        for k in range(d):
            total[r, k] += features[i, k] * rewards[i]
            theta[r, k] = total[r, k] / count[r]
