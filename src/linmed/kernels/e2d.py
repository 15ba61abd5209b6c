"""E2D for linear rewards, by a penalised D-optimal design of the arms with a constant put in front.

The program is min_p G(p), G(p) = max_a ⟨θ̂, a − ā⟩ + ‖a − ā‖²/(4γ) in V(p)⁻¹, with ā and V(p) the means of
a and a aᵀ under p. Let ã = (1, a), w_a = ‖ã‖² in Ṽ(p)⁻¹, r the rank of the ã, c_a = 4γ gap_a. If p maximises
log det Ṽ(p) − Σ p_a c_a, then w_a − c_a ≤ r − Σ p c for every arm, and since ‖a − ā‖² in V(p)⁻¹ is at most
w_a − 1, G(p) ≤ (r − 1)/(4γ) ≤ d/(4γ). An excess ε in the first inequality adds ε/(4γ) to the second.
For affinely independent arms w_a = 1/p_a and p_a = 1/(λ + c_a): inverse gap weighting.
"""

import math

import numpy as np

from linmed.kernels.compile import kernel
from linmed.kernels.igw import gaps_to_best, normaliser
from linmed.kernels.linear import matvec

NEGLIGIBLE = 1e-10
REFRESH = 50  # exchanges between fresh inverses
ROUNDING = 1e-13
MOST_STEPS = 100_000


@kernel
def lifted_coordinates(A, Q):
    """Orthonormal columns with the span of (1, A)'s, largest first; returns the rank.  A (K,d), Q (K,d+1)."""
    K, d = A.shape
    largest = 0.0
    for i in range(K):
        for k in range(d):
            largest = max(largest, abs(A[i, k]))
    for i in range(K):
        Q[i, 0] = 1.0
        for k in range(d):
            Q[i, k + 1] = A[i, k] / largest if largest > 0.0 else 0.0
    first = 0.0
    for rank in range(d + 1):
        best, norm2 = rank, 0.0
        for k in range(rank, d + 1):
            total = 0.0
            for i in range(K):
                total += Q[i, k] * Q[i, k]
            if total > norm2:
                best, norm2 = k, total
        first = max(first, norm2)
        if not norm2 > NEGLIGIBLE * NEGLIGIBLE * first:
            return rank
        for i in range(K):
            Q[i, rank], Q[i, best] = Q[i, best], Q[i, rank]
        for k in range(rank):  # once more, against the rounding of the first pass
            share = 0.0
            for i in range(K):
                share += Q[i, k] * Q[i, rank]
            for i in range(K):
                Q[i, rank] -= share * Q[i, k]
        norm = 0.0
        for i in range(K):
            norm += Q[i, rank] * Q[i, rank]
        norm = math.sqrt(norm)
        for i in range(K):
            Q[i, rank] /= norm
        for k in range(rank + 1, d + 1):
            share = 0.0
            for i in range(K):
                share += Q[i, rank] * Q[i, k]
            for i in range(K):
                Q[i, k] -= share * Q[i, rank]
    return d + 1


@kernel
def invert(Q, rank, p, M):
    """M = (Σ p_i q_i q_iᵀ)⁻¹ in the first `rank` coordinates, by Gauss–Jordan.  Q (K,·), p (K,), M (·,·)."""
    K = Q.shape[0]
    for j in range(rank):
        for k in range(rank):
            M[j, k] = 0.0
    for i in range(K):
        if p[i] > 0.0:
            for j in range(rank):
                share = p[i] * Q[i, j]
                for k in range(rank):
                    M[j, k] += share * Q[i, k]
    for k in range(rank):
        pivot = M[k, k]
        M[k, k] = 1.0
        for j in range(rank):
            M[k, j] /= pivot
        for i in range(rank):
            if i != k:
                share = M[i, k]
                M[i, k] = 0.0
                for j in range(rank):
                    M[i, j] -= share * M[k, j]


@kernel
def form(Q, rank, M, i, j):
    """q_iᵀ M q_j."""
    total = 0.0
    for k in range(rank):
        inner = 0.0
        for l in range(rank):
            inner += M[k, l] * Q[j, l]
        total += Q[i, k] * inner
    return total


@kernel
def excess(w, c, p, rank):
    """max_a (w_a − c_a) − (rank − Σ p c), with the arm of the maximum and the lowest arm in use."""
    high, low = 0, -1
    cost = 0.0
    for i in range(w.shape[0]):
        cost += p[i] * c[i]
        if w[i] - c[i] > w[high] - c[high]:
            high = i
        if p[i] > 0.0 and (low < 0 or w[i] - c[i] < w[low] - c[low]):
            low = i
    return w[high] - c[high] - (rank - cost), high, low


@kernel
def add_outer(Q, rank, M, arm, amount, u, w):
    """Sherman–Morrison for V + amount·q qᵀ, with w_i = ‖q_i‖² in V⁻¹ brought up to date.  u (·,) scratch."""
    for j in range(rank):
        total = 0.0
        for k in range(rank):
            total += M[j, k] * Q[arm, k]
        u[j] = total
    shrink = amount / (1.0 + amount * w[arm])
    for i in range(Q.shape[0]):
        along = 0.0
        for k in range(rank):
            along += Q[i, k] * u[k]
        w[i] -= shrink * along * along
    for j in range(rank):
        for k in range(rank):
            M[j, k] -= shrink * u[j] * u[k]


@kernel
def penalised_design(Q, rank, c, tol, p, M, u, w):
    """Maximise log det Σ p q qᵀ − Σ p c over the simplex until the excess is at most tol; returns the excess.

    One majorise–minimise step, p_a ∝ p_a w_a/(κ + c_a), which is the answer for affinely independent arms;
    then mass moves from the worst arm in use to the best one, as much as is best (Böhning 1986).
    Q (K,·), c, p, w (K,), M (·,·), u (·,).
    """
    K = Q.shape[0]
    for i in range(K):  # orthonormal coordinates: the uniform p has V = I/K
        total = 0.0
        for k in range(rank):
            total += Q[i, k] * Q[i, k]
        w[i] = total
    kappa = normaliser(w, c)
    for i in range(K):
        p[i] = w[i] / (kappa + c[i])
    over = math.inf
    for step in range(MOST_STEPS):
        if step % REFRESH == 0:
            invert(Q, rank, p, M)
            for i in range(K):
                w[i] = form(Q, rank, M, i, i)
        over, high, low = excess(w, c, p, rank)
        if over <= tol:
            if step % REFRESH == 0:
                break
            invert(Q, rank, p, M)  # confirm with fresh numbers
            for i in range(K):
                w[i] = form(Q, rank, M, i, i)
            over, high, low = excess(w, c, p, rank)
            if over <= tol:
                break
        # d/dδ of log(1 + (w_h − w_l)δ − (w_h w_l − s²)δ²) − (c_h − c_l)δ vanishes at the best δ
        cross = form(Q, rank, M, high, low)
        rise = w[high] - w[low]
        bend = max(w[high] * w[low] - cross * cross, 0.0)
        price = c[high] - c[low]
        gain = rise - price
        if gain <= ROUNDING * (w[high] + c[high] + w[low] + c[low]):
            break  # float64 sees no better p
        slope = 2.0 * bend + price * rise
        root = slope + math.sqrt(max(slope * slope - 4.0 * price * bend * gain, 0.0))
        amount = p[low]
        if root > 0.0:
            amount = min(2.0 * gain / root, p[low])
        p[high] += amount
        p[low] = p[low] - amount if amount < p[low] else 0.0
        add_outer(Q, rank, M, high, amount, u, w)
        add_outer(Q, rank, M, low, -amount, u, w)
    total = 0.0
    for i in range(K):
        total += p[i]
    for i in range(K):
        p[i] /= total
    return over


@kernel
def probabilities(arms, theta, gamma, tol, out, bound):
    """p in every replica, with 4γ G(p) ≤ bound.

    arms (R,K,d) or (1,K,d), theta (R,d), gamma, bound (R,), out (R,K).
    """
    R, K = out.shape
    d = arms.shape[2]
    Q, M, u = np.empty((K, d + 1)), np.empty((d + 1, d + 1)), np.empty(d + 1)
    mean, c, w, p = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    shared = arms.shape[0] == 1
    A = arms[0]
    rank = 0
    for r in range(R):
        s = r if theta.shape[0] > 1 else 0
        if not shared:
            A = arms[r]
        if r == 0 or not shared:
            rank = lifted_coordinates(A, Q)
        matvec(A, theta[s], mean)
        gaps_to_best(mean, c)
        for i in range(K):
            c[i] *= 4.0 * gamma[s]
        over = penalised_design(Q, rank, c, tol * d, p, M, u, w)
        bound[r] = rank - 1 + max(over, 0.0)
        for i in range(K):
            out[r, i] = p[i]
