"""E2D for linear rewards, by a penalised D-optimal design of the arms with a constant put in front.

The program is min_p G(p), G(p) = max_a ⟨θ̂, a − ā⟩ + ‖a − ā‖²/(4γ) in V(p)⁻¹, with ā and V(p) the means of
a and a aᵀ under p. Let ã = (1, a), w_a = ‖ã‖² in Ṽ(p)⁻¹, r the rank of the ã, c_a = 4γ gap_a. If p maximises
log det Ṽ(p) − Σ p_a c_a, then w_a − c_a ≤ r − Σ p c for every arm, and since ‖a − ā‖² in V(p)⁻¹ is at most
w_a − 1, G(p) ≤ (r − 1)/(4γ) ≤ d/(4γ). An excess ε in the first inequality adds ε/(4γ) to the second.
For affinely independent arms w_a = 1/p_a and p_a = 1/(λ + c_a): inverse gap weighting.

At the optimum w_a ≤ r + c_a, and p_a is about 1/c_a: Ṽ(p) is as ill-conditioned as γ is large. The arms
ã_a/√(d + 1 + c_a) with weights p_a (d + 1 + c_a) have the same Ṽ(p), and coordinates in which all is about 1.
What remains is the rounding of w and c themselves, which the certificate counts in.
"""

import math

import numpy as np

from linmed.kernels.compile import kernel
from linmed.kernels.design import span_coordinates, subtract_outer, weighted_inverse
from linmed.kernels.igw import normaliser
from linmed.kernels.linear import argmax, matvec, row_product, squared_length

REFRESH = 50  # exchanges between fresh inverses
ROUNDING = 1.8e-15  # of w and c for each coordinate: eight units in the last place
MOST_STEPS = 100_000


@kernel
def lift(A, theta, gamma, lifted, c):
    """Rows (1, a − a*) with a* the arm of the best mean, in a unit of their own, and c_a = 4γ gap_a.

    The design depends on neither origin nor unit of the arms; seen from a*, arms and gaps keep the digits in
    which they differ. Returns what c may have lost. A (K,d), theta (d,), lifted (K,d+1), c (K,).
    """
    K, d = A.shape
    matvec(A, theta, c)
    best = argmax(c)
    largest, size = 0.0, 0.0
    for i in range(K):
        lifted[i, 0] = 1.0
        gap, total = 0.0, 0.0
        for k in range(d):
            difference = A[best, k] - A[i, k]
            lifted[i, k + 1] = difference
            gap += difference * theta[k]
            total += abs(difference * theta[k])
            largest = max(largest, abs(difference))
        c[i] = 4.0 * gamma * max(gap, 0.0)
        size = max(size, total)
    for i in range(K):
        for k in range(d):
            lifted[i, k + 1] = lifted[i, k + 1] / largest if largest > 0.0 else 0.0
    return ROUNDING * d * 4.0 * gamma * size


@kernel
def excess(w, c, p, rank):
    """max_a (w_a − c_a) − (rank − Σ p c), rounded up; the arm of the maximum and the lowest arm in use."""
    high, low = 0, -1
    cost, most = 0.0, -math.inf
    for i in range(w.shape[0]):
        cost += p[i] * c[i]
        upper = w[i] - c[i] + ROUNDING * rank * (w[i] + c[i])
        if upper > most:
            most = upper
        if w[i] - c[i] > w[high] - c[high]:
            high = i
        if p[i] > 0.0 and (low < 0 or w[i] - c[i] < w[low] - c[low]):
            low = i
    return most - (rank - cost), high, low


@kernel
def add_outer(B, g, M, arm, amount, u, along, w):
    """Sherman–Morrison for V + amount·ã ãᵀ, with w_i = ‖ã_i‖² in V⁻¹ brought up to date.

    u (r,) and along (K,) are scratch.
    """
    matvec(M, B[arm], u)
    matvec(B, u, along)
    shrink = amount * g[arm] / (1.0 + amount * w[arm])
    for i in range(B.shape[0]):
        w[i] -= shrink * g[i] * along[i] * along[i]
    subtract_outer(M, u, shrink)


@kernel
def refresh(B, rows, ones, g, p, weight, M, w):
    """M = (Σ p g b bᵀ)⁻¹ and w_i = g_i b_iᵀ M b_i afresh; False if the arms in use do not span."""
    for i in range(w.shape[0]):
        weight[i] = p[i] * g[i]
    spans = weighted_inverse(B, rows, ones, weight, 0.0, M)
    for i in range(w.shape[0]):
        w[i] = g[i] * squared_length(B, i, M)
    return spans


@kernel
def penalised_design(B, g, c, tol, p):
    """Maximise log det Σ p ã ãᵀ − Σ p c over the simplex until the excess is at most tol; returns the excess.

    One majorise–minimise step from p_a ∝ 1/g_a, p_a ∝ p_a w_a/(κ + c_a), which is the answer for affinely
    independent arms; then mass moves from the worst arm in use to the best one, as much as is best
    (Böhning 1986). B (K,r) coordinates of ã_a/√g_a, g, c, p (K,).
    """
    K, rank = B.shape
    rows, ones, weight, w = np.arange(K), np.ones(K), np.empty(K), np.empty(K)
    M, u, along = np.empty((rank, rank)), np.empty(rank), np.empty(K)
    refresh(B, rows, ones, ones, ones, weight, M, w)
    kappa = normaliser(w, c)
    for i in range(K):
        p[i] = w[i] / (kappa + c[i])
    for step in range(MOST_STEPS):
        fresh = step % REFRESH == 0
        if fresh:
            refresh(B, rows, ones, g, p, weight, M, w)
        over, high, low = excess(w, c, p, rank)
        if over <= tol and not fresh:  # confirm with fresh numbers
            refresh(B, rows, ones, g, p, weight, M, w)
            over, high, low = excess(w, c, p, rank)
        if over <= tol:
            break
        # d/dδ of log(1 + (w_h − w_l)δ − (w_h w_l − s²)δ²) − (c_h − c_l)δ vanishes at the best δ
        matvec(M, B[low], u)
        cross = row_product(B, high, u)
        rise = w[high] - w[low]
        bend = max(w[high] * w[low] - g[high] * g[low] * cross * cross, 0.0)
        price = c[high] - c[low]
        gain = rise - price
        if gain <= ROUNDING * rank * (w[high] + c[high] + w[low] + c[low]):
            break  # float64 sees no better p
        slope = 2.0 * bend + price * rise
        root = slope + math.sqrt(max(slope * slope - 4.0 * price * bend * gain, 0.0))
        amount = p[low]
        if root > 0.0:
            amount = min(2.0 * gain / root, p[low])
        p[high] += amount
        p[low] = p[low] - amount if amount < p[low] else 0.0
        add_outer(B, g, M, high, amount, u, along, w)
        add_outer(B, g, M, low, -amount, u, along, w)
    total = 0.0
    for i in range(K):
        total += p[i]
    for i in range(K):
        p[i] /= total
    return excess(w, c, p, rank)[0] if refresh(B, rows, ones, g, p, weight, M, w) else math.inf


@kernel
def probabilities(arms, theta, gamma, tol, out, bound):
    """p in every replica, with 4γ G(p) ≤ bound.

    arms (R,K,d), theta (R,d), gamma (R,), each with a 1 for R where all share it; out (R,K), bound (R,).
    """
    R, K = out.shape
    d = arms.shape[2]
    lifted, everything, pivots = np.empty((K, d + 1)), np.empty((K, d + 1)), np.empty(d + 1, np.int64)
    c, g, log_scale = np.empty(K), np.empty(K), np.empty(K)
    for r in range(R):
        s = r if theta.shape[0] > 1 else 0
        lost = lift(arms[r if arms.shape[0] > 1 else 0], theta[s], gamma[s], lifted, c)
        for i in range(K):
            g[i] = d + 1.0 + c[i]
            log_scale[i] = -0.5 * math.log(g[i])
        rank = span_coordinates(lifted, log_scale, everything, pivots, np.empty((0, 0)))
        over = penalised_design(np.ascontiguousarray(everything[:, :rank]), g, c, tol * d, out[r])
        bound[r] = rank - 1 + max(over, 0.0) + 2.0 * lost
