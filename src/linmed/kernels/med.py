"""LinMED's rule (Algorithm 1), from θ̂, V⁻¹ and β to a distribution over arms."""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats
from linmed.kernels.compile import apart, inlined, kernel
from linmed.kernels.design import approx_design_of_many, uniform_over_members
from linmed.kernels.linear import (
    FEW,
    argmax,
    fill_differences,
    matvec,
    squared_length,
    subtract,
    tile_inner,
    tile_lengths,
    tile_products,
    tile_width,
    tiles_of_all,
)
from linmed.kernels.optimal import optimal_design
from linmed.kernels.sampling import invert_cdf

EXPLORE = 1.0 + 1e-9  # B_t: leverages above 1; ‖a‖² = 1 must not count because of its last bit
EQUAL = 1.0 + 1e-12  # leverages within this factor are equal
LOWEST = -1e300  # log f is never −inf: every arm keeps a finite log-probability
TINY = 1e-250  # squared distances below this have lost digits to underflow
VANISHED = 1.0  # marks such a weight: no log f is positive
OPTIMAL_TOL = 1e-6


class MedScratch(NamedTuple):
    """What a decision writes on its way, and what holds for all decisions over K arms."""

    log_f: Floats  # (K,)
    q: Floats  # (K,)
    weight: Floats  # (K,)
    alpha_opt: float  # 0 where the design is uniform
    spread: float  # what every arm gets of q


class MedRule(NamedTuple):
    """p_t ∝ q_t f_t with q_t = α_opt·(design) + α_emp·1{â} + (1 − α_opt − α_emp)/K."""

    alpha_emp: float
    alpha_opt: float
    version: int
    optimal: bool
    explore: bool

    def workspace(self, K, d):
        """Scratch for sets of K arms in d dimensions."""
        alpha_opt = self.alpha_opt
        if K <= 2 * d and self.version == 0 and not self.optimal:
            alpha_opt = 0.0  # ApproxDesign is uniform
        spread = (1.0 - self.alpha_emp - alpha_opt) / K
        if spread < 1e-12:  # α_emp + α_opt = 1
            spread = 0.0
        return MedScratch(np.empty(K), np.empty(K), np.empty(K), alpha_opt, spread)

    def decide(self, belief, s, beta, arms, p, noise, t, r, scratch, log_p):
        """The arm that replica s draws from the p-th set by noise[t, r]; writes log_p[t, r] if there is one.

        While some leverage exceeds 1 (the event B_t), the arm of the largest gets as much mass again as all
        arms together.  arms (R or 1,K,d), noise (T,R,1), log_p (T,R,K).
        """
        theta, inverse = belief.theta, belief.inverse
        log_f, q, weight, alpha_opt = scratch.log_f, scratch.q, scratch.weight, scratch.alpha_opt
        if arms.shape[1] * arms.shape[2] <= FEW:
            best, widest, intact = log_weights_few(arms, p, theta, inverse, s, beta, log_f)
            if not intact:
                repair(arms, p, theta, inverse, s, beta, best, log_f)
            if alpha_opt > 0.0:
                design_of_few(arms, p, log_f, self.version, self.optimal, weight, q)
        else:
            best, widest = weights_and_design(
                arms, p, theta, inverse, s, beta,
                alpha_opt > 0.0, self.version, self.optimal, log_f, weight, q,
            )  # fmt: skip
        total = unnormalised(best, scratch.spread, self.alpha_emp, alpha_opt, self.version, log_f, q, weight)
        if q[best] == 0.0:
            total = renormalise(log_f, q, weight)
        if not self.explore:
            widest = -1
        if widest >= 0:
            weight[widest] += total
            total += total
        if log_p.shape[0] > 0:
            logarithms(log_f, q, weight, total, widest, t, r, log_p)
        return invert_cdf(weight, noise[t, r, 0] * total)


@kernel
def log_weight(gap, distance2, beta):
    """log f_t(a) = −Δ̂² / (β ‖â − a‖²) with 0/0 = 0, never −inf; VANISHED where ‖â − a‖² is too small."""
    if not gap > 0.0 or beta == math.inf:  # the best arm and its equals; or nothing is known yet
        return 0.0
    if not distance2 > TINY:
        return VANISHED
    value = -(gap / distance2) * (gap / beta)
    return value if value > LOWEST else LOWEST


@kernel
def repair(arms, p, theta, inverse, r, beta, best, log_f):
    """Replace the marks VANISHED: the ratio does not depend on the length of â − a, so take it longer."""
    apart()
    A = arms[p]
    K, d = A.shape
    for i in range(K):
        if log_f[i] == VANISHED:
            longest = 0.0
            for k in range(d):
                longest = max(longest, abs(A[best, k] - A[i, k]))
            diff = ((A[best] - A[i]) / longest).reshape((1, d))
            gap = 0.0
            for k in range(d):
                gap += theta[r, k] * diff[0, k]
            log_f[i] = min(log_weight(gap, squared_length(diff, 0, inverse[r]), beta), 0.0)


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
        if leverage > highest * EQUAL:
            widest, highest = i, leverage
        log_f[i] = log_weight(gap, distance2, beta)
        intact = intact and log_f[i] != VANISHED
    return best, widest, intact


@kernel
def log_weights(A, tiles, theta, M, beta, log_f):
    """log f_t(a) of eq. (f_tm1); returns the empirically best arm, the arm of largest leverage ‖a‖² in
    M = V⁻¹ if that exceeds 1 (else −1), and whether no weight is marked VANISHED.

    A (K,d), tiles of all its arms or none, theta (d,), M (d,d), beta = β_{t−1}(δ_{t−1}), log_f (K,).
    """
    apart()
    K, d = A.shape
    width = tiles.shape[2]
    kept = tiles.shape[0] > 0
    if kept:
        tile_products(tiles, theta, log_f)
    else:
        matvec(A, theta, log_f)
        width = tile_width(K)
    best = argmax(log_f)
    center, toward = A[best].copy(), np.empty(d)
    matvec(M, center, toward)
    center_leverage = 0.0
    for k in range(d):
        center_leverage += center[k] * toward[k]
    diff = np.empty((d, width))
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
        tile_lengths(diff, M, distances2)
        for i in range(n):
            leverage = center_leverage + 2.0 * inner[i] + distances2[i]  # ‖a‖² with a = â + (a − â)
            if leverage > highest * EQUAL:
                widest, highest = start + i, leverage
            value = log_weight(-gaps[i], distances2[i], beta)
            intact = intact and value != VANISHED
            log_f[start + i] = value
    return best, widest, intact


@kernel
def augmented_design(A, tiles, log_f, version, optimal, scale, q):
    """ApproxDesignAugmented (Algorithm 2): version 0 rescales the arms by √f, version 1 drops f < 1/e.

    Writes the scales (K,) too. tiles are those of all arms, or empty.
    """
    apart()
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


@kernel
def design_of_few(arms, p, log_f, version, optimal, scale, q):
    """`augmented_design` of set p without tiles; its view, taken here, costs the loop over rounds nothing."""
    apart()
    augmented_design(arms[p], np.empty((0, arms.shape[2], 1)), log_f, version, optimal, scale, q)


@kernel
def weights_and_design(arms, p, theta, inverse, r, beta, designed, version, optimal, log_f, scale, q):
    """log f_t and, if wanted, the design, for more than a few numbers; the arms are tiled once for both.

    Returns the empirically best arm, and the arm of largest leverage or −1 as `log_weights` does.
    """
    apart()
    A = arms[p]
    tiles = tiles_of_all(A)
    best, widest, intact = log_weights(A, tiles, theta[r], inverse[r], beta, log_f)
    if not intact:
        repair(arms, p, theta, inverse, r, beta, best, log_f)
    if designed:
        augmented_design(A, tiles, log_f, version, optimal, scale, q)
    return best, widest


@inlined
def unnormalised(best, spread, alpha_emp, alpha_opt, version, log_f, q, weight):
    """Turns the design in q into q_t and writes weight = q_t f_t; returns the sum.  log_f, q, weight (K,).

    q_t = α_opt·(design) + α_emp·1{best} + spread. Without a design (α_opt = 0) q need not be set; with one,
    and version 0, weight comes with √f.
    """
    total = 0.0
    for i in range(q.shape[0]):
        share = spread
        if alpha_opt > 0.0:
            share += alpha_opt * q[i]
        if i == best:
            share += alpha_emp
        q[i] = share
        if alpha_opt == 0.0 or version == 1:
            weight[i] = share * math.exp(log_f[i])
        else:
            weight[i] *= share * weight[i]  # f = (√f)²
        total += weight[i]
    return total


@kernel
def renormalise(log_f, q, weight):
    """Where q is 0 at the arm with f = 1, shift log f so that the sum of q f cannot vanish; returns it."""
    apart()
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
def logarithms(log_f, q, weight, total, extra, t, r, out):
    """out[t, r] = log p_t; `extra` is the arm of the half-step, −1 without one.  out (T,R,K)."""
    log_total = math.log(total)
    for i in range(q.shape[0]):
        if i == extra:
            out[t, r, i] = math.log(weight[i]) - log_total
        elif q[i] > 0.0:
            out[t, r, i] = math.log(q[i]) + log_f[i] - log_total
        else:
            out[t, r, i] = -math.inf
