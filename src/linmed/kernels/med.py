"""LinMED's rule (Algorithm 1), from θ̂ and V⁻¹ to a distribution over arms."""

import math

import numpy as np

from linmed.kernels.compile import kernel
from linmed.kernels.design import approx_design, optimal_design
from linmed.kernels.linear import argmax, inner_products, matvec, squared_lengths, squared_norm, tiles_of
from linmed.kernels.sampling import invert_cdf

LEVERAGE_ROUNDING = 1e-9  # ‖a‖² = 1 must not count as > 1 because of its last bit
TIE = 1e-12  # leverages this close, relatively, are equal
LOWEST = -1e300  # log f is never −inf: every arm keeps a finite log-probability
TINY = 1e-250  # squared distances below this have lost digits to underflow
FEW = 64  # numbers in the arm matrix up to which plain loops win (benchmarks/kernels.py)
OPTIMAL_TOL = 1e-6


@kernel
def log_weight(gap, distance2, beta):  # type: ignore[no-untyped-def]
    """log f_t(a) = −Δ̂² / (β ‖â − a‖²), with 0/0 = 0 and never −inf."""
    if gap > 0.0:
        return max(-(gap / distance2) * (gap / beta), LOWEST)
    return 0.0


@kernel
def log_weight_of_near_duplicate(A, i, best, theta, M, beta):  # type: ignore[no-untyped-def]
    """The same where ‖â − a‖² underflows: the ratio does not depend on the length of â − a."""
    longest = 0.0
    for k in range(A.shape[1]):
        longest = max(longest, abs(A[best, k] - A[i, k]))
    if longest == 0.0:
        return 0.0
    diff = ((A[best] - A[i]) / longest).reshape((1, -1))
    gap = 0.0
    for k in range(A.shape[1]):
        gap += theta[k] * diff[0, k]
    distance2 = squared_norm(diff, 0, np.zeros(A.shape[1]), M)
    return log_weight(gap, distance2, beta) if distance2 > 0.0 else 0.0


@kernel
def log_weights_few(A, theta, M, beta, log_f, leverage):  # type: ignore[no-untyped-def]
    """`log_weights` by plain loops, which win while there are few numbers."""
    K, d = A.shape
    matvec(A, theta, log_f)
    best = 0
    for i in range(1, K):
        if log_f[i] > log_f[best]:
            best = i
    for i in range(K):
        total, distance2, gap = 0.0, 0.0, 0.0
        for j in range(d):
            diff = A[best, j] - A[i, j]
            gap += theta[j] * diff
            inner, inner_diff = 0.0, 0.0
            for k in range(j):
                inner += M[j, k] * A[i, k]
                inner_diff += M[j, k] * (A[best, k] - A[i, k])
            total += A[i, j] * (2.0 * inner + M[j, j] * A[i, j])
            distance2 += diff * (2.0 * inner_diff + M[j, j] * diff)
        leverage[i] = total
        if distance2 > TINY:
            log_f[i] = log_weight(gap, distance2, beta)
        else:
            log_f[i] = log_weight_of_near_duplicate(A, i, best, theta, M, beta)
    return best


@kernel
def log_weights(A, theta, M, beta, log_f, leverage):  # type: ignore[no-untyped-def]
    """log f_t(a) of eq. (f_tm1) and the leverage ‖a‖² in M = V⁻¹; returns the empirically best arm.

    A (K,d), theta (d,), M (d,d), beta = β_{t−1}(δ_{t−1}), log_f, leverage (K,).
    """
    K, d = A.shape
    if K * d <= FEW:
        return log_weights_few(A, theta, M, beta, log_f, leverage)
    rows, ones = np.arange(K), np.ones(K)
    origin = np.zeros(d)
    tiles = tiles_of(A, rows, ones, origin)
    inner_products(A, rows, ones, origin, tiles, theta, log_f)
    best = argmax(log_f)
    center = A[best].copy()
    tiles = tiles_of(A, rows, ones, center)
    gap, inner, toward = log_f, np.empty(K), np.empty(d)
    matvec(M, center, toward)
    inner_products(A, rows, ones, center, tiles, theta, gap)
    inner_products(A, rows, ones, center, tiles, toward, inner)
    squared_lengths(A, rows, ones, center, tiles, M, leverage)
    center_leverage = 0.0
    for k in range(d):
        center_leverage += center[k] * toward[k]
    for i in range(K):
        distance2 = leverage[i]
        leverage[i] = center_leverage + 2.0 * inner[i] + distance2  # a = â + (a − â)
        if distance2 > TINY:
            log_f[i] = log_weight(-gap[i], distance2, beta)
        else:
            log_f[i] = log_weight_of_near_duplicate(A, i, best, theta, M, beta)
    return best


@kernel
def distribution(A, theta, M, beta, alpha_emp, alpha_opt, version, optimal, explore, log_f, q, leverage):  # type: ignore[no-untyped-def]
    """p_t(a) ∝ q_t(a) f_t(a), plus the mass `bonus` on arm `extra`; returns (extra, bonus, total).

    Writes log f_t (up to a constant) and q_t. total = Σ q f + bonus, so that p_t(a) = (q_t(a) f_t(a) + bonus·1{a = extra}) / total.
    When some leverage exceeds 1 (the event B_t), bonus = Σ q f gives half of the mass to the arm of
    largest leverage; otherwise extra = −1.
    """
    K = A.shape[0]
    best = log_weights(A, theta, M, beta, log_f, leverage)
    extra = -1
    if explore:
        highest = 0.0
        for i in range(K):
            highest = max(highest, leverage[i])
        if highest > 1.0 + LEVERAGE_ROUNDING:
            extra = 0
            while leverage[extra] < highest * (1.0 - TIE):
                extra += 1
    for i in range(K):
        q[i] = 0.0
    if alpha_opt > 0.0:  # Algorithm 2: version 0 rescales by √f, version 1 eliminates f < 1/e
        log_scale = leverage
        for i in range(K):
            if version == 0:
                log_scale[i] = 0.5 * log_f[i]
            else:
                log_scale[i] = 0.0 if log_f[i] >= -1.0 else -math.inf
        if optimal:
            optimal_design(A, log_scale, OPTIMAL_TOL, q)
        else:
            approx_design(A, log_scale, q)
    spread = max(1.0 - (alpha_emp + alpha_opt), 0.0) / K
    for i in range(K):
        q[i] = alpha_opt * q[i] + spread
    q[best] += alpha_emp
    if q[best] == 0.0:  # f = 1 takes no part: shift the others so that their sum cannot vanish
        largest = -math.inf
        for i in range(K):
            if q[i] > 0.0:
                largest = max(largest, log_f[i])
        for i in range(K):
            log_f[i] = min(log_f[i] - largest, 0.0)
    total = 0.0
    for i in range(K):
        total += q[i] * math.exp(log_f[i])
    bonus = 0.0
    if extra >= 0:
        bonus = total
        total += bonus
    return extra, bonus, total


@kernel
def log_probabilities(arms, theta, inverse, betas, alpha_emp, alpha_opt, version, optimal, explore, out):  # type: ignore[no-untyped-def]
    """log p_t(a) in every replica.  arms (R,K,d) or (1,K,d), theta (R,d), inverse (R,d,d), betas (R,), out (R,K)."""
    R, K = out.shape
    log_f, q, leverage = np.empty(K), np.empty(K), np.empty(K)
    for r in range(R):
        A = arms[r % arms.shape[0]]
        extra, bonus, total = distribution(
            A, theta[r], inverse[r], betas[r], alpha_emp, alpha_opt, version, optimal, explore, log_f, q, leverage
        )
        log_total = math.log(total)
        for i in range(K):
            if i == extra:
                out[r, i] = math.log(q[i] * math.exp(log_f[i]) + bonus) - log_total
            elif q[i] > 0.0:
                out[r, i] = math.log(q[i]) + log_f[i] - log_total
            else:
                out[r, i] = -math.inf


@kernel
def choose(arms, theta, inverse, betas, alpha_emp, alpha_opt, version, optimal, explore, uniforms, out):  # type: ignore[no-untyped-def]
    """One arm per replica from the same distribution, without its logarithms.  uniforms (R,), out (R,)."""
    K = arms.shape[1]
    log_f, q, leverage = np.empty(K), np.empty(K), np.empty(K)
    for r in range(out.shape[0]):
        A = arms[r % arms.shape[0]]
        extra, bonus, _ = distribution(
            A, theta[r], inverse[r], betas[r], alpha_emp, alpha_opt, version, optimal, explore, log_f, q, leverage
        )
        for i in range(K):
            q[i] *= math.exp(log_f[i])
        if extra >= 0:
            q[extra] += bonus
        out[r] = invert_cdf(q, uniforms[r])
