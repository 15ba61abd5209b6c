"""Linear Thompson sampling: the draw θ̃ ~ N(θ̂, s² V⁻¹), and the pieces its probabilities are made of."""

import math

import numpy as np

from linmed.kernels.compile import kernel
from linmed.kernels.gauss import log_cdf, lower_tail
from linmed.kernels.linear import matvec
from linmed.kernels.orthant import REACH, planar


@kernel
def factor(gram, r, lam, L):
    """V = L Lᵀ by Cholesky, from the lower triangle of gram[r].  gram (R,d,d), L (d,d).

    V ≥ λI, so no pivot is below λ: where rounding says otherwise, λ is right.
    """
    d = L.shape[0]
    for j in range(d):
        for i in range(j, d):
            total = gram[r, i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i == j:
                L[j, j] = math.sqrt(max(total, lam))
            else:
                L[i, j] = total / L[j, j]


@kernel
def perturb(theta, r, L, scale, z, draw):
    """draw = θ̂ + s L⁻ᵀ z ~ N(θ̂, s² V⁻¹).  theta (R,d), z, draw (d,)."""
    d = L.shape[0]
    for j in range(d - 1, -1, -1):
        total = z[j]
        for k in range(j + 1, d):
            total -= L[k, j] * draw[k]
        draw[j] = total / L[j, j]
    for j in range(d):
        draw[j] = theta[r, j] + scale * draw[j]


@kernel
def best_arm(arms, r, direction):
    """argmax_a ⟨direction, a⟩, the lowest index among equals."""
    set_ = r if arms.shape[0] > 1 else 0
    best, highest = 0, 0.0
    for i in range(arms.shape[1]):
        inner = 0.0
        for k in range(arms.shape[2]):
            inner += arms[set_, i, k] * direction[k]
        if i == 0 or inner > highest:
            best, highest = i, inner
    return best


@kernel
def choose(arms, theta, gram, lam, scale, floor, noise, out):
    """argmax_a ⟨θ̃, a⟩ in every replica, or with probability `floor` an arm drawn evenly.

    arms (R,K,d), theta (R,d), gram (R,d,d), scale (R,), each with a 1 for R where all share it; out (R,);
    noise (R,d) standard normals, (R,d+1) with a floor.
    """
    K, d = arms.shape[1], arms.shape[2]
    L, draw, z = np.empty((d, d)), np.empty(d), np.empty(d)
    for r in range(out.shape[0]):
        if floor > 0.0:
            uniform = lower_tail(noise[r, d])
            if uniform < floor:
                out[r] = min(int(uniform / floor * K), K - 1)
                continue
        for k in range(d):
            z[k] = noise[r, k]
        s = r if theta.shape[0] > 1 else 0
        factor(gram, s, lam, L)
        perturb(theta, s, L, scale[s], z, draw)
        out[r] = best_arm(arms, r, draw)


@kernel
def two_arms(arms, theta, gram, lam, scale, out):
    """log P(arm 0), log P(arm 1) = log Φ(±⟨θ̂, a₀ − a₁⟩ / (s ‖a₀ − a₁‖)) for K = 2.  out (R,2)."""
    d = arms.shape[2]
    L, x = np.empty((d, d)), np.empty(d)
    for r in range(out.shape[0]):
        set_ = r if arms.shape[0] > 1 else 0
        longest = 0.0
        for k in range(d):
            longest = max(longest, abs(arms[set_, 0, k] - arms[set_, 1, k]))
        if longest == 0.0:  # duplicates: the lowest index
            out[r, 0], out[r, 1] = 0.0, -math.inf
            continue
        s = r if theta.shape[0] > 1 else 0
        factor(gram, s, lam, L)
        gap = 0.0
        norm2 = 0.0
        for j in range(d):  # the ratio does not depend on the length of a₀ − a₁
            difference = (arms[set_, 0, j] - arms[set_, 1, j]) / longest
            gap += theta[s, j] * difference
            for k in range(j):
                difference -= L[j, k] * x[k]
            x[j] = difference / L[j, j]
            norm2 += x[j] * x[j]
        ratio = gap / (scale[s] * math.sqrt(norm2))
        out[r, 0], out[r, 1] = log_cdf(ratio), log_cdf(-ratio)


@kernel
def split_mix(seed):
    """The next state and 64 random bits of the SplitMix64 generator.  All uint64."""
    seed = seed + np.uint64(0x9E3779B97F4A7C15)
    bits = (seed ^ (seed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return seed, bits ^ (bits >> np.uint64(31))


@kernel
def open_uniform(bits):
    """A number in (0, 1) from 64 random bits."""
    return (np.float64(bits >> np.uint64(11)) + 0.5) * (1.0 / 9007199254740992.0)


@kernel
def whiten(A, rows, theta, gram, s, lam, scale, B, mean, m):
    """Coordinates in which θ̃ is N(m, I), with the arms seen from the leader a*, the one with the best mean.

    ⟨θ̃, a_i − a*⟩ = ⟨b_i, z⟩: B (d,n) = scale L⁻¹(a − a*), mean (n,) = ⟨θ̂, a − a*⟩, m (d,) = Lᵀθ̂/scale, for
    the arms `rows` (n,) of A (K,d). What is common to all arms changes no argmax, and is taken away
    before it can round off what they differ by.
    """
    d, n = B.shape
    L = np.empty((d, d))
    factor(gram, s, lam, L)
    leader, highest = 0, -math.inf
    for i in range(n):
        value = 0.0
        for k in range(d):
            value += A[rows[i], k] * theta[s, k]
        if value > highest:
            leader, highest = rows[i], value
        mean[i] = 0.0
    for j in range(d):
        total = 0.0
        for k in range(j, d):
            total += L[k, j] * theta[s, k]
        m[j] = total / scale[s]
        row = B[j]
        for i in range(n):
            difference = A[rows[i], j] - A[leader, j]
            mean[i] += theta[s, j] * difference
            row[i] = scale[s] * difference
        for k in range(j):
            solved, share = B[k], L[j, k]
            for i in range(n):
                row[i] -= share * solved[i]
        for i in range(n):
            row[i] /= L[j, j]


@kernel
def contenders(A, rows, theta, gram, s, lam, scale):
    """The arms of `rows` that can win, in the coordinates of their differences.

    Arm i beats the leader with probability bound_i = Φ(mean_i/‖b_i‖), and is best with no more. Where that
    is less than Φ(−REACH), it is left out. Returns who is left, their coordinates (d,n), the means of their
    values (n,) and of z (d,), and their bounds (n,).
    """
    d, n = A.shape[1], rows.shape[0]
    B, mean, m, bound = np.empty((d, n)), np.empty(n), np.empty(d), np.empty(n)
    whiten(A, rows, theta, gram, s, lam, scale, B, mean, m)
    largest = np.max(np.abs(B))
    if largest > 0.0:  # a unit that keeps all squares within range
        B /= largest
        mean /= largest
    for i in range(n):
        norm2 = 0.0
        for j in range(d):
            norm2 += B[j, i] * B[j, i]
        bound[i] = lower_tail(mean[i] / math.sqrt(norm2)) if norm2 > 0.0 else 1.0
    left = np.nonzero(bound >= lower_tail(-REACH))[0]
    return rows[left], B[:, left], mean[left], m, bound[left]


@kernel
def planes(arms, theta, gram, lam, scale, out):
    """Probabilities by the angular integral where d ≤ 2.  out (R,K)."""
    R, K = out.shape
    d = arms.shape[2]
    B, m, mean, rows = np.zeros((2, K)), np.zeros(2), np.empty(K), np.arange(K)
    for r in range(R):
        A = arms[r if arms.shape[0] > 1 else 0]
        s = r if theta.shape[0] > 1 else 0
        whiten(A, rows, theta, gram, s, lam, scale, B[:d], mean, m[:d])
        planar(B, m, out[r])


@kernel
def distinct(A):
    """The arms that equal no earlier one, in order.  A (K,d) → (n,).

    Equal arms have equal inner products with any vector: only those that share one are compared.
    """
    K, d = A.shape
    weights, seed = np.empty(d), np.uint64(0)
    for k in range(d):
        seed, bits = split_mix(seed)
        weights[k] = open_uniform(bits)
    key = np.empty(K)
    matvec(A, weights, key)
    order = np.argsort(key, kind="mergesort")
    fresh = np.ones(K, np.bool_)
    start = 0
    for n in range(1, K):
        i = order[n]
        if key[i] != key[order[start]]:
            start = n
        for earlier in order[start:n]:
            if fresh[earlier] and np.all(A[i] == A[earlier]):
                fresh[i] = False
                break
    return np.nonzero(fresh)[0]


@kernel
def count_repeats(arms, theta, gram, lam, scale, floor, noise_bits, played, draws, out):
    """How often `draws` fresh decisions of the same rule would play the arm `played`.  played, out (R,).

    noise_bits (R,·) uint64: the bits of the decision's own noise, hashed to seed the fresh draws, so
    that a replica's numbers depend on its own stream alone.
    """
    K, d = arms.shape[1], arms.shape[2]
    L, draw, z = np.empty((d, d)), np.empty(d), np.empty(d + d % 2)
    for r in range(out.shape[0]):
        seed = np.uint64(0)
        for k in range(noise_bits.shape[1]):
            seed = split_mix(seed ^ noise_bits[r, k])[1]
        s = r if theta.shape[0] > 1 else 0
        factor(gram, s, lam, L)
        hits = 0
        for _ in range(draws):
            if floor > 0.0:
                seed, bits = split_mix(seed)
                uniform = open_uniform(bits)
                if uniform < floor:
                    hits += played[r] == min(int(uniform / floor * K), K - 1)
                    continue
            for k in range(0, d, 2):  # Box–Muller
                seed, bits = split_mix(seed)
                length = math.sqrt(-2.0 * math.log(open_uniform(bits)))
                seed, bits = split_mix(seed)
                angle = 2.0 * math.pi * open_uniform(bits)
                z[k] = length * math.cos(angle)
                z[k + 1] = length * math.sin(angle)
            perturb(theta, s, L, scale[s], z, draw)
            hits += played[r] == best_arm(arms, r, draw)
        out[r] = hits
