"""Linear Thompson sampling: the draw θ̃ ~ N(θ̂, s² V⁻¹), and the pieces its probabilities are made of."""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from linmed.checks import Floats
from linmed.kernels.blocks import block_room, held, pack
from linmed.kernels.compile import by_class, inlined, kernel, version_of
from linmed.kernels.confidence import LARGEST, likely_variance, reward_scale, squared_radius
from linmed.kernels.gauss import log_cdf, lower_tail
from linmed.kernels.linear import argmax, matvec
from linmed.kernels.optimism import means, per_arm
from linmed.kernels.orthant import REACH, planar
from linmed.kernels.ridge import Ridge

TINY = np.finfo(float).tiny

FREQUENTIST, SQUARED_RADIUS, NUMBER, AGRAWAL_GOYAL = range(4)


@by_class
def spread(rule, belief, s, beta):
    """The scale of replica s."""


class ThompsonScratch(NamedTuple):
    """What a draw writes on its way."""

    L: Floats  # (d,d)
    z: Floats  # (d,)
    draw: Floats  # (1,d)
    value: Floats  # (K,)


class ThompsonRule(NamedTuple):
    """argmax_a ⟨θ̃, a⟩ with θ̃ ~ N(θ̂, s² V⁻¹), or with probability `floor` an arm drawn evenly.

    The noise of a decision is d standard normals, and one more with a floor.
    """

    kind: int
    """Which scale s: √β, β, a number, or σ√(9 d log(t/δ)), with a horizon σ√(24 d log(n) log(1/δ))."""
    size: float  # the number, or σ; minus the rewards' scale where σ is unknown
    horizon: float  # 0 stands for t
    log_inverse_delta: float  # negative stands for δ = 1/(n+1)
    lam: float  # λ
    floor: float

    def spread(self, belief, s, beta):
        """The scale s of a replica; t is the number of rewards absorbed, at least 1."""
        if self.kind == FREQUENTIST:
            return math.sqrt(beta)
        if self.kind == SQUARED_RADIUS:
            return beta
        size = self.size
        if size < 0.0:
            scale = reward_scale(belief, s, -size)
            size = math.sqrt(likely_variance(float(belief.count[s]), belief.rss[s], scale))
        if self.kind == NUMBER:
            return size
        t = max(belief.count[s], 1.0)
        n = self.horizon if self.horizon > 0.0 else t
        log_inverse_delta = self.log_inverse_delta if self.log_inverse_delta >= 0.0 else math.log(n + 1.0)
        d = belief.theta.shape[1]
        if self.horizon > 0.0:
            variance = 24.0 * d * math.log(n) * log_inverse_delta
        else:
            variance = 9.0 * d * (math.log(t) + log_inverse_delta)
        return size * math.sqrt(max(variance, TINY))  # δ = 1 would leave no randomness at t = 1

    def workspace(self, K, d):
        """Scratch for sets of K arms in d dimensions."""
        return ThompsonScratch(np.empty((d, d)), np.empty(d), np.empty((1, d)), per_arm(K))

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`; the probabilities take longer than this and are computed elsewhere."""
        K, d = arms.shape[1], arms.shape[2]
        if self.floor > 0.0:
            uniform = lower_tail(noise[t, r, d])
            if uniform < self.floor:
                return min(int(uniform / self.floor * K), K - 1)
        for k in range(d):
            scratch.z[k] = noise[t, r, k]
        factor_precision(belief, s, self.lam, scratch.L)
        perturb(belief.theta, s, scratch.L, spread(self, belief, s, beta), scratch.z, scratch.draw)
        return winner(arms, p, blocks, n, scratch.draw, scratch.value)


@cache
def spreads(Set: type, Belief: type = Ridge) -> Any:
    """The kernel that writes the scale of every replica for this class of confidence sets."""
    version = version_of(Set, Belief)

    @kernel
    def spreads_of_set(state, parameters, rule, out):
        """state: a belief, then the set and the rule, as plain tuples; out (R,)."""
        version  # noqa: B018
        belief, confidence, rule_ = Belief(*state), Set(*parameters), ThompsonRule(*rule)
        for r in range(out.shape[0]):
            out[r] = spread(rule_, belief, r, min(squared_radius(confidence, belief, r), LARGEST))

    return spreads_of_set


@by_class
def factor_precision(belief, s, lam, L):
    """L Lᵀ = V of row s of the belief."""
    factor(belief.gram, s, lam, L)


@inlined
def factor(gram, r, lam, L):
    """V = L Lᵀ by Cholesky, from the lower triangle of gram[r].  gram (R,d,d), L (d,d).

    V ≥ λI, so no pivot is below λ: where rounding says otherwise, λ is right. Four rows at a time, whose sums
    do not wait for each other.
    """
    d = L.shape[0]
    for j in range(d):
        total = gram[r, j, j]
        for k in range(j):
            total -= L[j, k] * L[j, k]
        pivot = math.sqrt(max(total, lam))
        L[j, j] = pivot
        whole = d - (d - j - 1) % 4
        for i in range(j + 1, whole, 4):
            t0, t1, t2, t3 = gram[r, i, j], gram[r, i + 1, j], gram[r, i + 2, j], gram[r, i + 3, j]
            for k in range(j):
                share = L[j, k]
                t0 -= L[i, k] * share
                t1 -= L[i + 1, k] * share
                t2 -= L[i + 2, k] * share
                t3 -= L[i + 3, k] * share
            L[i, j], L[i + 1, j], L[i + 2, j], L[i + 3, j] = t0 / pivot, t1 / pivot, t2 / pivot, t3 / pivot
        for i in range(whole, d):
            total = gram[r, i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            L[i, j] = total / pivot


@inlined
def perturb(theta, r, L, scale, z, draw):
    """draw = θ̂ + s L⁻ᵀ z ~ N(θ̂, s² V⁻¹).  theta (R,d), z (d,) is overwritten, draw (1,d)."""
    d = L.shape[0]
    for k in range(d - 1, -1, -1):
        z[k] /= L[k, k]
        for j in range(k):
            z[j] -= L[k, j] * z[k]
    for j in range(d):
        draw[0, j] = theta[r, j] + scale * z[j]


@inlined
def winner(arms, p, blocks, n, direction, value):
    """argmax_a ⟨direction, a⟩ of set p, the lowest index among equals.  direction (1,d), value (K,)."""
    means(arms, p, blocks, n, direction, 0, value)
    return argmax(value)


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
def seed_from(noise_bits, r):
    """A state of the generator that depends on every bit of row r.  noise_bits (R,·) uint64."""
    seed = np.uint64(0)
    for k in range(noise_bits.shape[1]):
        seed = split_mix(seed ^ noise_bits[r, k])[1]
    return seed


@kernel
def fill_with_normals(seed, z):
    """Standard normals in z, of even length, by Box–Muller; returns the generator's next state."""
    for k in range(0, z.shape[0], 2):
        seed, bits = split_mix(seed)
        length = math.sqrt(-2.0 * math.log(open_uniform(bits)))
        seed, bits = split_mix(seed)
        angle = 2.0 * math.pi * open_uniform(bits)
        z[k] = length * math.cos(angle)
        z[k + 1] = length * math.sin(angle)
    return seed


@kernel
def more_normals(noise_bits, out):
    """As many normals as are wanted from a decision's noise.  noise_bits (R,·) uint64, out (R,n)."""
    z = np.empty(out.shape[1] + out.shape[1] % 2)
    for r in range(out.shape[0]):
        fill_with_normals(seed_from(noise_bits, r), z)
        for k in range(out.shape[1]):
            out[r, k] = z[k]


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
    L, draw, z, value = np.empty((d, d)), np.empty((1, d)), np.empty(d + d % 2), per_arm(K)
    blocks = np.empty((1, block_room(K, d) if held(K, d) else 0))
    for r in range(out.shape[0]):
        p = r if arms.shape[0] > 1 else 0
        if held(K, d):
            pack(arms, p, d, blocks, 0)
        seed = seed_from(noise_bits, r)
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
            seed = fill_with_normals(seed, z)
            perturb(theta, s, L, scale[s], z, draw)
            hits += played[r] == winner(arms, p, blocks, 0, draw, value)
        out[r] = hits
