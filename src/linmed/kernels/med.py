"""LinMED's rule (Algorithm 1), from θ̂ and V⁻¹ to a distribution over arms."""

import math

import numpy as np

from linmed.kernels.compile import inlined, kernel
from linmed.kernels.design import approx_design_of_many, optimal_design, uniform_over_members
from linmed.kernels.linear import (
    FEW,
    TILE,
    argmax,
    fill_differences,
    matvec,
    squared_length,
    subtract,
    tile_inner,
    tile_lengths,
    tiles_of,
)
from linmed.kernels.ridge import radius
from linmed.kernels.sampling import invert_cdf

EXPLORE = 1.0 + 1e-9  # B_t: leverages above 1; ‖a‖² = 1 must not count because of its last bit
TIE = 1.0 + 1e-12  # leverages within this factor are equal
LOWEST = -1e300  # log f is never −inf: every arm keeps a finite log-probability
TINY = 1e-250  # squared distances below this have lost digits to underflow
UNDERFLOW = 1.0  # marks such a weight: no log f is positive
OPTIMAL_TOL = 1e-6


@kernel
def log_weight(gap, distance2, beta):
    """log f_t(a) = −Δ̂² / (β ‖â − a‖²) with 0/0 = 0, never −inf; UNDERFLOW where ‖â − a‖² is too small."""
    if not gap > 0.0:  # the best arm and its equals
        return 0.0
    if not distance2 > TINY:
        return UNDERFLOW
    value = -(gap / distance2) * (gap / beta)
    return value if value > LOWEST else LOWEST


@kernel
def repair(A, theta, M, beta, best, log_f):
    """Replace the marks UNDERFLOW: the ratio does not depend on the length of â − a, so take it longer."""
    K, d = A.shape
    for i in range(K):
        if log_f[i] == UNDERFLOW:
            longest = 0.0
            for k in range(d):
                longest = max(longest, abs(A[best, k] - A[i, k]))
            diff = ((A[best] - A[i]) / longest).reshape((1, d))
            gap = 0.0
            for k in range(d):
                gap += theta[k] * diff[0, k]
            log_f[i] = min(log_weight(gap, squared_length(diff, 0, M), beta), 0.0)


@inlined
def log_weights_few(arms, p, theta, inverse, r, beta, log_f):
    """`log_weights` of replica r and arm set p by plain loops, which win while there are few numbers."""
    K, d = arms.shape[1], arms.shape[2]
    best = 0
    for i in range(K):
        total = 0.0
        for k in range(d):
            total += arms[p, i, k] * theta[r, k]
        log_f[i] = total
        if total > log_f[best]:
            best = i
    widest, highest = -1, EXPLORE  # from the threshold on: below it nothing needs to be found
    intact = True
    for i in range(K):
        leverage, distance2, gap = 0.0, 0.0, 0.0
        for j in range(d):
            diff = arms[p, best, j] - arms[p, i, j]
            gap += theta[r, j] * diff
            inner, inner_diff = 0.0, 0.0
            for k in range(j):
                inner += inverse[r, j, k] * arms[p, i, k]
                inner_diff += inverse[r, j, k] * (arms[p, best, k] - arms[p, i, k])
            leverage += arms[p, i, j] * (2.0 * inner + inverse[r, j, j] * arms[p, i, j])
            distance2 += diff * (2.0 * inner_diff + inverse[r, j, j] * diff)
        if leverage > highest * TIE:
            widest, highest = i, leverage
        log_f[i] = log_weight(gap, distance2, beta)
        intact = intact and log_f[i] != UNDERFLOW
    return best, widest, intact


@kernel
def log_weights(A, tiles, theta, M, beta, log_f):
    """log f_t(a) of eq. (f_tm1); returns the empirically best arm, the arm of largest leverage ‖a‖² in
    M = V⁻¹ if that exceeds 1 (else −1), and whether no weight is marked UNDERFLOW.

    A (K,d), tiles of all its arms or none, theta (d,), M (d,d), beta = β_{t−1}(δ_{t−1}), log_f (K,).
    """
    K, d = A.shape
    width = tiles.shape[2]
    kept = tiles.shape[0] > 0
    if kept:
        for t in range(tiles.shape[0]):
            tile_inner(tiles[t], theta, log_f[t * width : min(t * width + width, K)])
    else:
        matvec(A, theta, log_f)
        width = min(TILE, K)
    best = argmax(log_f)
    center, toward = A[best].copy(), np.empty(d)
    matvec(M, center, toward)
    center_leverage = 0.0
    for k in range(d):
        center_leverage += center[k] * toward[k]
    diff, image = np.empty((d, width)), np.empty((d, width))
    gaps, inner, distances2 = np.empty(width), np.empty(width), np.empty(width)
    widest, highest = -1, EXPLORE  # from the threshold on: below it nothing needs to be found
    intact = True
    for start in range(0, K, width):
        n = min(width, K - start)
        if kept:
            subtract(tiles[start // width], center, diff)
        else:
            fill_differences(A, start, center, diff)
        tile_inner(diff, theta, gaps[:n])
        tile_inner(diff, toward, inner[:n])
        tile_lengths(diff, M, image, distances2[:n])
        for i in range(n):
            leverage = center_leverage + 2.0 * inner[i] + distances2[i]  # ‖a‖² with a = â + (a − â)
            if leverage > highest * TIE:
                widest, highest = start + i, leverage
            value = log_weight(-gaps[i], distances2[i], beta)
            intact = intact and value != UNDERFLOW
            log_f[start + i] = value
    return best, widest, intact


@kernel
def augmented_design(A, tiles, log_f, version, optimal, scale, q):
    """ApproxDesignAugmented (Algorithm 2): version 0 rescales the arms by √f, version 1 drops f < 1/e.

    Writes the scales (K,) too. tiles are those of all arms, or empty.
    """
    K, d = A.shape
    log_scale = np.empty(K)
    members = K
    for i in range(K):
        if version == 0:
            log_scale[i] = 0.5 * log_f[i]
            scale[i] = math.exp(log_scale[i]) if log_f[i] < 0.0 else 1.0
        elif log_f[i] >= -1.0:
            log_scale[i], scale[i] = 0.0, 1.0
        else:
            log_scale[i], scale[i] = -math.inf, 0.0
            members -= 1
    if optimal:
        optimal_design(A, log_scale, OPTIMAL_TOL, q)
    elif members <= 2 * d:
        uniform_over_members(log_scale, q)
    else:
        approx_design_of_many(A, log_scale, scale, tiles, q)


@inlined
def distribution(arms, theta, inverse, r, beta, mixture, log_f, q, weight):
    """p_t(a) ∝ q_t(a) f_t(a) for replica r; returns the arm of the half-step (−1 without one) and Σ weight.

    Writes log f_t (up to a constant), q_t, and the unnormalised p_t: weight = q f, of which the arm of
    largest leverage gets as much again as all together while some leverage exceeds 1 (the event B_t).
    mixture = (α_emp, α_opt, version, optimal, explore); log_f, q, weight (K,).
    """
    alpha_emp, alpha_opt, version, optimal, explore = mixture
    K, d = arms.shape[1], arms.shape[2]
    p = r if arms.shape[0] > 1 else 0
    uniform = (alpha_opt == 0.0) or (K <= 2 * d and version == 0 and not optimal)  # what ApproxDesign gives
    if K * d <= FEW:
        best, widest, intact = log_weights_few(arms, p, theta, inverse, r, beta, log_f)
        if not intact:
            repair(arms[p], theta[r], inverse[r], beta, best, log_f)
        if not uniform:
            augmented_design(arms[p], np.empty((0, d, 1)), log_f, version, optimal, weight, q)
    else:
        A = arms[p]
        tiles = tiles_of(A, np.arange(K), np.ones(K))
        best, widest, intact = log_weights(A, tiles, theta[r], inverse[r], beta, log_f)
        if not intact:
            repair(A, theta[r], inverse[r], beta, best, log_f)
        if not uniform:
            augmented_design(A, tiles, log_f, version, optimal, weight, q)
    spread = (1.0 - alpha_emp - (0.0 if uniform else alpha_opt)) / K
    if spread < 1e-12:  # α_emp + α_opt = 1
        spread = 0.0
    total = 0.0
    for i in range(K):
        share = spread
        if not uniform:
            share += alpha_opt * q[i]
        if i == best:
            share += alpha_emp
        q[i] = share
        if uniform or version == 1:
            weight[i] = share * math.exp(log_f[i])
        else:
            weight[i] *= share * weight[i]  # f = (√f)²
        total += weight[i]
    if q[best] == 0.0:
        total = renormalise(log_f, q, weight)
    if explore and widest >= 0:
        weight[widest] += total
        return widest, total + total
    return -1, total


@kernel
def renormalise(log_f, q, weight):
    """Where q is 0 at the arm with f = 1, shift log f so that the sum of q f cannot vanish; returns it."""
    largest = -math.inf
    for i in range(q.shape[0]):
        if q[i] > 0.0:
            largest = max(largest, log_f[i])
    total = 0.0
    for i in range(q.shape[0]):
        log_f[i] -= largest
        weight[i] = q[i] * math.exp(log_f[i]) if q[i] > 0.0 else 0.0
        total += weight[i]
    return total


@inlined
def write_logarithms(log_f, q, weight, extra, total, r, out):
    """out[r] = log p_t from what `distribution` found."""
    log_total = math.log(total)
    for i in range(q.shape[0]):
        if i == extra:
            out[r, i] = math.log(weight[i]) - log_total
        elif q[i] > 0.0:
            out[r, i] = math.log(q[i]) + log_f[i] - log_total
        else:
            out[r, i] = -math.inf


@kernel
def log_probabilities(
    arms, theta, inverse, logdet, count, sigma, log_inverse_delta, bias,
    alpha_emp, alpha_opt, version, optimal, explore, out,
):  # fmt: skip
    """log p_t(a) in every replica.

    arms (R,K,d) or (1,K,d), theta (R,d), inverse (R,d,d), logdet, count (R,), out (R,K).
    """
    R, K = out.shape
    mixture = alpha_emp, alpha_opt, version, optimal, explore
    log_f, q, weight = np.empty(K), np.empty(K), np.empty(K)
    for r in range(R):
        beta = radius(logdet[r], count[r], sigma, log_inverse_delta, bias) ** 2
        extra, total = distribution(arms, theta, inverse, r, beta, mixture, log_f, q, weight)
        write_logarithms(log_f, q, weight, extra, total, r, out)


@kernel
def choose(
    arms, theta, inverse, logdet, count, sigma, log_inverse_delta, bias,
    alpha_emp, alpha_opt, version, optimal, explore, uniforms, out,
):  # fmt: skip
    """One arm per replica from the same distribution, without its logarithms.  uniforms (R,), out (R,)."""
    K = arms.shape[1]
    mixture = alpha_emp, alpha_opt, version, optimal, explore
    log_f, q, weight = np.empty(K), np.empty(K), np.empty(K)
    for r in range(out.shape[0]):
        beta = radius(logdet[r], count[r], sigma, log_inverse_delta, bias) ** 2
        _, total = distribution(arms, theta, inverse, r, beta, mixture, log_f, q, weight)
        out[r] = invert_cdf(weight, uniforms[r] * total)


@kernel
def decide(
    arms, theta, inverse, logdet, count, sigma, log_inverse_delta, bias,
    alpha_emp, alpha_opt, version, optimal, explore, uniforms, out, arm, features,
):  # fmt: skip
    """Both: log p_t in out (R,K), and a draw from it in arm (R,), whose features (R,d) are copied."""
    R, K = out.shape
    mixture = alpha_emp, alpha_opt, version, optimal, explore
    log_f, q, weight = np.empty(K), np.empty(K), np.empty(K)
    for r in range(R):
        beta = radius(logdet[r], count[r], sigma, log_inverse_delta, bias) ** 2
        extra, total = distribution(arms, theta, inverse, r, beta, mixture, log_f, q, weight)
        write_logarithms(log_f, q, weight, extra, total, r, out)
        arm[r] = invert_cdf(weight, uniforms[r] * total)
        p = r if arms.shape[0] > 1 else 0
        for k in range(arms.shape[2]):
            features[r, k] = arms[p, arm[r], k]
