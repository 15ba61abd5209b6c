"""E2D for linear rewards, by a penalised D-optimal design of the arms with a constant put in front.

The program is min_p G(p), G(p) = max_a ⟨θ̂, a − ā⟩ + ‖a − ā‖²/(4γ) in V(p)⁻¹, with ā and V(p) the means of
a and a aᵀ under p. Let ã = (1, a), w_a = ‖ã‖² in Ṽ(p)⁻¹, r the rank of the ã, c_a = 4γ gap_a. If p maximises
log det Ṽ(p) − Σ p_a c_a, then w_a − c_a ≤ r − Σ p c for every arm, and since ‖a − ā‖² in V(p)⁻¹ is at most
w_a − 1, G(p) ≤ (r − 1)/(4γ) ≤ d/(4γ). An excess ε in the first inequality adds ε/(4γ) to the second.
For affinely independent arms w_a = 1/p_a and p_a = 1/(λ + c_a): inverse gap weighting.

At the optimum w_a ≤ r + c_a, and p_a is about 1/c_a: Ṽ(p) is as ill-conditioned as γ is large. The arms
ã_a/√(d + 1 + c_a) with weights p_a (d + 1 + c_a) have the same Ṽ(p), and coordinates in which all is about 1.
What remains is the rounding of w and c themselves, which the certificate counts in.

The optimum keeps some hundred of a thousand arms. Newton steps on the simplex find which (the second-order
model is maximised by `kernels/simplex.py`), and from there each doubles the digits; mass moved from arm to
arm takes thousands of steps for as many. The start depends on the arms alone, so p is a function of θ̂, γ
and the arms.
"""

import math

import numpy as np

from linmed.kernels.blocks import Held, block_room, pack, padded, squared_lengths
from linmed.kernels.compile import deferred, inlined, kernel
from linmed.kernels.exchange import desk_room
from linmed.kernels.igw import normaliser
from linmed.kernels.linear import argmax
from linmed.kernels.simd import LANES, load, multiply, multiply_add, splat, store
from linmed.kernels.simplex import climb_face, exchange, factor
from linmed.kernels.span import span_coordinates, weighted_inverse

ROUNDING = 1.8e-15  # of w and c for each coordinate: eight units in the last place
FIRST_STEPS = 10  # majorise–minimise
MOST_STEPS = 200  # Newton; five or six are usual
MOST_HALVINGS = 30
MOST_EXCHANGES = 3000  # in one model …
HANDOVER = 0.03  # … or until its excess is this share of the objective's: the rest is for equations to solve
CLOSE = 1e-11  # Newton's estimate of twice what is still to be gained, from where no step need be shortened
SMALLEST, LARGEST = 64, 2048  # arms in a model, if there are as many; between them rank (rank + 1)


@deferred("f8(f8[:,::1], f8[::1], f8, f8[:,::1], f8[::1])")
def lift(A, theta, gamma, lifted, c):
    """Rows (1, a − a*) with a* the arm of the best mean, in a unit of their own, and c_a = 4γ gap_a.

    The design depends on neither origin nor unit of the arms; seen from a*, arms and gaps keep the digits in
    which they differ. Returns what c may have lost. A (K,d), theta (d,), lifted (K,d+1), c (K,).
    """
    K, d = A.shape
    for i in range(K):
        c[i] = 0.0
        for k in range(d):
            c[i] += A[i, k] * theta[k]
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


@deferred("Tuple((f8, intp, intp, f8))(f8[::1], f8[::1], f8[::1], intp)")
def excess(w, c, p, rank):
    """max_a (w_a − c_a) − κ, rounded up; the arm of the maximum, the lowest arm in use, κ = rank − Σ p c."""
    high, low = 0, -1
    cost, most = 0.0, -math.inf
    for i in range(p.shape[0]):
        cost += p[i] * c[i]
        upper = w[i] - c[i] + ROUNDING * rank * (w[i] + c[i])
        if upper > most:
            most = upper
        if w[i] - c[i] > w[high] - c[high]:
            high = i
        if p[i] > 0.0 and (low < 0 or w[i] - c[i] < w[low] - c[low]):
            low = i
    return most - (rank - cost), high, low, rank - cost


@deferred("b1(f8[:,:,::1], f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1])")
def refresh(B, blocks, ones, g, p, weight, desk, w):
    """Σ p = 1, M = (Σ p g b bᵀ)⁻¹ on the desk and w_i = g_i b_iᵀ M b_i afresh; False if too few are in use.

    B (1,K,r), whose blocks are in `blocks`; g, p, weight (K,); ones, w padded to whole blocks.
    """
    K, rank = B.shape[1], B.shape[2]
    total = 0.0
    for i in range(K):
        total += p[i]
    for i in range(K):
        p[i] /= total
        weight[i] = p[i] * g[i]
    spans = weighted_inverse(B, 0, rank, ones, weight, 0.0, desk)
    stride = padded(rank)
    squared_lengths(Held(blocks, 0, K, rank), ones, desk, rank * stride, stride, w)
    for i in range(K):
        w[i] *= g[i]
    return spans


@deferred("void(f8[::1], f8, intp, b1[::1])")
def mark_largest(x, sign, number, marked):
    """Mark the `number` largest of the first sign·x, those of lower index among equals.  marked (m,)."""
    m = marked.shape[0]
    low, high = math.inf, -math.inf
    for i in range(m):
        low, high = min(low, sign * x[i]), max(high, sign * x[i])
    for _ in range(60):  # at most `number` are above `high`, at least as many are not below `low`
        middle = low + 0.5 * (high - low)
        above = 0
        for i in range(m):
            above += sign * x[i] > middle
        if above > number:
            low = middle
        else:
            high = middle
    for i in range(m):
        if sign * x[i] > high:
            marked[i] = True
            number -= 1
    for i in range(m):
        if number > 0 and low <= sign * x[i] <= high:
            marked[i] = True
            number -= 1


@deferred("Tuple((i8[::1], intp))(f8[::1], f8[::1], f8[::1], f8, intp)")
def working_set(w, c, p, kappa, most):
    """Arms in use and arms that should be, w − c > κ; of more than `most`, the highest and the lowest.

    Returns them and how many there were.
    """
    K = p.shape[0]
    members, height = np.empty(K, np.int64), np.empty(K)
    m = 0
    for i in range(K):
        if p[i] > 0.0 or w[i] - c[i] > kappa:
            members[m], height[m] = i, w[i] - c[i]
            m += 1
    if m <= most:
        return members[:m], m
    marked = np.zeros(m, np.bool_)
    for sign in (1.0, -1.0):
        mark_largest(height, sign, most // 2, marked)
    few = 0
    for i in range(m):
        if marked[i]:
            members[few] = members[i]
            few += 1
    return members[:few], m


@deferred("void(f8[:,:,::1], f8[::1], f8[::1], i8[::1], f8[:,::1])")
def curvature(B, g, desk, members, H):
    """H_ij = (ã_iᵀ Ṽ⁻¹ ã_j)² for the members, minus the second derivative of log det.  H (n,n), zero beyond.

    With M = C Cᵀ the products are those of the vectors √g_i Cᵀ b_i, which lose no digits to cancellation
    beyond their own lengths.
    """
    m, n, rank = members.shape[0], H.shape[0], B.shape[2]
    stride = padded(rank)
    C, inverse = np.zeros((padded(rank), padded(rank))), np.empty(padded(rank))
    for k in range(rank):
        for j in range(k + 1):
            C[k, j] = desk[(rank + k) * stride + j]
    factor(C, inverse)
    arms, images = np.zeros((n // LANES, rank, LANES)), np.zeros((n, rank))
    for i in range(m):
        root = math.sqrt(g[members[i]])
        image = images[i]
        for k in range(rank):
            x, row = root * B[0, members[i], k], C[k]
            for j in range(k):
                image[j] += x * row[j]
            image[k] += x / inverse[k] if inverse[k] > 0.0 else 0.0
        for k in range(rank):
            arms[i // LANES, k, i % LANES] = image[k]
    for block in range(n // LANES):
        for i in range(0, n, 4):
            s0, s1, s2, s3 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
            for k in range(rank):
                x = load(arms, (block * rank + k) * LANES)
                s0 = multiply_add(splat(images[i, k]), x, s0)
                s1 = multiply_add(splat(images[i + 1, k]), x, s1)
                s2 = multiply_add(splat(images[i + 2, k]), x, s2)
                s3 = multiply_add(splat(images[i + 3, k]), x, s3)
            store(H, i * n + block * LANES, multiply(s0, s0))
            store(H, (i + 1) * n + block * LANES, multiply(s1, s1))
            store(H, (i + 2) * n + block * LANES, multiply(s2, s2))
            store(H, (i + 3) * n + block * LANES, multiply(s3, s3))


@inlined
def copy(x, out):
    """out = x."""
    for i in range(x.shape[0]):
        out[i] = x[i]


@inlined
def slope(w, c, change):
    """d/dt of log det Ṽ(p + t·change) − Σ (p + t·change) c at the p of w."""
    total = 0.0
    for i in range(change.shape[0]):
        total += (w[i] - c[i]) * change[i]
    return total


@deferred("void(f8[::1], f8[::1], f8[::1], f8[::1])")
def majorise_minimise(w, c, p, weight):
    """p_a ∝ p_a w_a/(κ + c_a): log det Ṽ is convex in log p, so the objective rises."""
    for i in range(p.shape[0]):
        weight[i] = p[i] * w[i]
    kappa = normaliser(weight, c)
    for i in range(p.shape[0]):
        p[i] = weight[i] / (kappa + c[i])


@kernel
def penalised_design(B, g, c, tol, p):
    """Maximise log det Σ p ã ãᵀ − Σ p c over the simplex until the excess is at most tol; returns the excess.

    Majorise–minimise steps from p_a ∝ 1/g_a, the first of which is the answer for affinely independent arms;
    then Newton steps with the simplex kept: p goes where the second-order model is largest, or halfway there
    as often as the objective has fallen again by then. B (K,r) coordinates of ã_a/√g_a, g, c, p (K,).
    """
    K, rank = B.shape
    arms, blocks = B.reshape((1, K, rank)), np.empty((1, block_room(K, rank)))
    pack(arms, 0, rank, blocks, 0)
    ones, weight, w, desk = np.ones(padded(K)), np.empty(K), np.empty(padded(K)), np.empty(desk_room(rank))
    change, start, best = np.empty(K), np.empty(K), np.empty(K)
    for i in range(K):
        p[i] = 1.0
    refresh(arms, blocks, ones, ones, p, weight, desk, w)
    spans = True
    for _ in range(FIRST_STEPS):
        majorise_minimise(w, c, p, weight)
        spans = refresh(arms, blocks, ones, g, p, weight, desk, w)
        if excess(w, c, p, rank)[0] <= tol:
            break
    copy(p, best)
    least, before, rise = math.inf, math.inf, math.inf
    most, wanted_before = min(max(SMALLEST, rank * (rank + 1)), LARGEST), K
    for _ in range(MOST_STEPS):
        over, high, low, kappa = excess(w, c, p, rank)
        if over < least and spans:
            least = over
            copy(p, best)
        members, wanted = working_set(w, c, p, kappa, most)
        if over >= before and rise < CLOSE and (most >= wanted or most == LARGEST):
            break  # so close to the optimum a Newton step improves until rounding is all there is
        if over > 0.5 * before and 4 * (wanted_before - wanted) < most:
            most = min(2 * most, LARGEST)
            members, wanted = working_set(w, c, p, kappa, most)
        before, wanted_before = over, wanted
        if over <= tol or w[high] - c[high] - w[low] + c[low] <= ROUNDING * rank * (w[high] + c[high]):
            break
        m = members.shape[0]
        n = padded(m)
        H, G, x = np.empty((n, n)), np.empty(n), np.zeros(n)
        curvature(arms, g, desk, members, H)
        for i in range(m):
            G[i], x[i] = w[members[i]] - c[members[i]] - kappa, p[members[i]]
        for i in range(m, n):
            G[i] = -1e300
        exchange(H, G, x, HANDOVER * over, MOST_EXCHANGES)
        climb_face(H, G, x)
        for i in range(K):
            change[i] = 0.0
        for i in range(m):
            change[members[i]] = x[i] - p[members[i]]
        rise = slope(w, c, change)
        copy(p, start)
        share = 1.0
        for _ in range(MOST_HALVINGS):
            for i in range(K):
                p[i] = max(start[i] + share * change[i], 0.0)
            spans = refresh(arms, blocks, ones, g, p, weight, desk, w)
            if spans and (rise < CLOSE or slope(w, c, change) >= -0.5 * rise):
                break
            share *= 0.5
    copy(best, p)
    return least


@kernel
def program(A, theta, gamma, lifted, everything, c, g):
    """The penalised design of E2D for arms A (K,d): coordinates B (K,r) of ã_a/√g_a, and what c has lost.

    lifted, everything (K,d+1) are scratch; c, g (K,) are filled.
    """
    K, d = A.shape
    lost = lift(A, theta, gamma, lifted, c)
    log_scale = np.empty(K)
    for i in range(K):
        g[i] = d + 1.0 + c[i]
        log_scale[i] = -0.5 * math.log(g[i])
    rank = span_coordinates(lifted, log_scale, everything, np.empty(d + 1, np.int64), np.empty((0, 0)))
    return np.ascontiguousarray(everything[:, :rank]), lost
