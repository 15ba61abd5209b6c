"""Inverse gap weighting: probabilities that fall like one over the estimated gap (SquareCB, SpannerIGW)."""

import math

import numpy as np

from linmed.kernels.compile import kernel
from linmed.kernels.design import approx_design
from linmed.kernels.linear import matvec
from linmed.kernels.optimal import optimal_design
from linmed.kernels.optimism import means_and_leverages

OPTIMAL_TOL = 1e-6


@kernel
def normaliser(q, gap):
    """The λ > 0 with Σ q_i / (λ + gap_i) = 1, where some q_i > 0 has gap 0.  q, gap (K,), non-negative.

    Newton's method on 1/h, h(λ) = Σ q_i / (λ + gap_i): 1/h is increasing and concave, so the iterates
    climb to the root from the start at Σ_{gap 0} q_i, where h ≥ 1.
    """
    K = q.shape[0]
    lam = 0.0
    for i in range(K):
        if gap[i] == 0.0:
            lam += q[i]
    for _ in range(100):
        h = 0.0
        slope = 0.0
        for i in range(K):
            term = q[i] / (lam + gap[i])
            h += term
            slope += term / (lam + gap[i])
        step = h * (h - 1.0) / slope
        if not step > 1e-15 * lam:
            break
        lam += step
    return lam


@kernel
def gaps_to_best(mean, gap):
    """gap_a = max_b mean_b − mean_a; returns the best arm, the lowest index among equals.  mean, gap (K,)."""
    best = 0
    for i in range(1, mean.shape[0]):
        if mean[i] > mean[best]:
            best = i
    for i in range(mean.shape[0]):
        gap[i] = mean[best] - mean[i]
    return best


@kernel
def predictions(arms, r, theta, inverse, vaw, scratch, mean):
    """⟨θ̂, a⟩, divided by 1 + ‖a‖² in V⁻¹ for the Vovk–Azoury–Warmuth forecaster.  mean, scratch (K,)."""
    if vaw:
        s = means_and_leverages(arms, r, theta, inverse, mean, scratch)
        for i in range(mean.shape[0]):
            mean[i] /= 1.0 + scratch[i]
        return s
    s = r if theta.shape[0] > 1 else 0
    matvec(arms[r if arms.shape[0] > 1 else 0], theta[s], mean)
    return s


@kernel
def square_cb(arms, theta, inverse, gamma, vaw, normalised, out):
    """SquareCB's probabilities.  arms (R,K,d) or (1,K,d), gamma (R or 1,), out (R,K).

    p(a) = 1/(K + γ gap_a), the rest on the best arm; or, normalised, p(a) = 1/(λ + 2γ gap_a).
    """
    R, K = out.shape
    mean, gap, ones = np.empty(K), np.empty(K), np.ones(K)
    for r in range(R):
        s = predictions(arms, r, theta, inverse, vaw, gap, mean)
        best = gaps_to_best(mean, gap)
        if normalised:
            for i in range(K):
                gap[i] *= 2.0 * gamma[s]
            lam = normaliser(ones, gap)
            for i in range(K):
                out[r, i] = 1.0 / (lam + gap[i])
        else:
            rest = 1.0
            for i in range(K):
                if i != best:
                    out[r, i] = 1.0 / (K + gamma[s] * gap[i])
                    rest -= out[r, i]
            out[r, best] = rest


@kernel
def spanner_igw(arms, theta, eta, optimal, out):
    """SpannerIGW's probabilities.  arms (R,K,d) or (1,K,d), theta (R or 1,d), eta alike, out (R,K).

    A design of the arms a/√(1 + η gap_a) shares q with the best arm; p(a) = q(a) / (λ + η gap_a).
    """
    R, K = out.shape
    mean, gap, q, log_scale = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    shared = arms.shape[0] == 1
    A = arms[0]
    for r in range(R):
        s = r if theta.shape[0] > 1 else 0
        if not shared:
            A = arms[r]
        matvec(A, theta[s], mean)
        best = gaps_to_best(mean, gap)
        for i in range(K):
            gap[i] *= eta[s]
            log_scale[i] = -0.5 * math.log1p(gap[i])
        if optimal:
            optimal_design(A, log_scale, OPTIMAL_TOL, q)
        else:
            approx_design(A, log_scale, q)
        for i in range(K):
            q[i] *= 0.5
        q[best] += 0.5
        lam = normaliser(q, gap)
        for i in range(K):
            out[r, i] = q[i] / (lam + gap[i])
