"""Linear Thompson sampling: the draw θ̃ ~ N(θ̂, s² V⁻¹), and the pieces its probabilities are made of."""

import math

import numpy as np

from linmed.kernels.compile import kernel
from linmed.kernels.gauss import log_cdf, lower_tail


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

    arms (R,K,d) or (1,K,d), theta (R,d), gram (R,d,d), scale (R,), out (R,);
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
        factor(gram, r, lam, L)
        perturb(theta, r, L, scale[r], z, draw)
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
        factor(gram, r, lam, L)
        gap = 0.0
        norm2 = 0.0
        for j in range(d):  # the ratio does not depend on the length of a₀ − a₁
            difference = (arms[set_, 0, j] - arms[set_, 1, j]) / longest
            gap += theta[r, j] * difference
            for k in range(j):
                difference -= L[j, k] * x[k]
            x[j] = difference / L[j, j]
            norm2 += x[j] * x[j]
        ratio = gap / (scale[r] * math.sqrt(norm2))
        out[r, 0], out[r, 1] = log_cdf(ratio), log_cdf(-ratio)


@kernel
def whiten(arms, theta, gram, lam, scale, B, m):
    """Coordinates in which θ̃ is N(m, I): ⟨θ̃, a_i⟩ = ⟨b_i, z⟩.  B (R,K,d) = s L⁻¹a, m (R,d) = Lᵀθ̂/s."""
    K, d = arms.shape[1], arms.shape[2]
    L = np.empty((d, d))
    for r in range(B.shape[0]):
        set_ = r if arms.shape[0] > 1 else 0
        factor(gram, r, lam, L)
        for j in range(d):
            total = 0.0
            for k in range(j, d):
                total += L[k, j] * theta[r, k]
            m[r, j] = total / scale[r]
        for i in range(K):
            for j in range(d):
                total = scale[r] * arms[set_, i, j]
                for k in range(j):
                    total -= L[j, k] * B[r, i, k]
                B[r, i, j] = total / L[j, j]


@kernel
def first_of_equals(arms, out):
    """out (R,K): the lowest index of an arm identical to arm i.  arms (R,K,d) or (1,K,d)."""
    K, d = arms.shape[1], arms.shape[2]
    for r in range(out.shape[0]):
        if r > 0 and arms.shape[0] == 1:
            for i in range(K):
                out[r, i] = out[0, i]
            continue
        for i in range(K):
            out[r, i] = i
            for j in range(i):
                k = 0
                while k < d and arms[r, i, k] == arms[r, j, k]:
                    k += 1
                if k == d:
                    out[r, i] = j
                    break


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
        factor(gram, r, lam, L)
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
            perturb(theta, r, L, scale[r], z, draw)
            hits += played[r] == best_arm(arms, r, draw)
        out[r] = hits
