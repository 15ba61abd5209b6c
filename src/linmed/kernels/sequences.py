"""Confidence sequences for a mean, one observation at a time: the sums that bounds are made from.

Lower bounds only: upper bounds are lower bounds of the reflected rewards.
"""

import math

import numpy as np

from linmed.kernels import simd
from linmed.kernels.compile import inlined, kernel

LARGEST_GAIN = 1e29  # one round's gain is cut here, which only makes the bound more cautious
RENORM = 1e250  # logarithms are taken before a product of factors could leave the range of a float64
LANES = simd.LANES
BLOCK = 4096  # rounds looked at together
CUT = 0.9  # of its stake, the most that a bet may lose in a round where a model is cut

# Fields of the state of the Bernstein and mixture sequences.
COUNT = 0  # t
SUM = 1  # Σ x
SPREAD = 2  # Σ (x_i − x̄_i)², for the bets
WEIGHT = 3  # Σ λ_i
CENTRE = 4  # Σ λ_i x_i
PENALTY = 5  # Σ ψ(λ_i)(x_i − x̂_{i−1})²
SQUARES = 6  # Σ (x_i − x̂_{i−1})²
FIELDS = 7


@kernel
def betting(gains, bets, x, shift):
    """gains[j] += Σ_t log(1 + γ_j (x_t − s_t)).  gains, bets γ (32,) falling; x ≥ 0, shift s ≥ 0 (n,).

    A bet that could lose CUT/2 of its stake or more ends with nothing, for good: its gain is −∞.
    """
    size = x.shape[0]
    farthest = 0.0
    for t in range(size):
        farthest = max(farthest, shift[t])
    first = _alive(gains, bets, farthest)
    if first == bets.shape[0]:
        return
    moved = np.empty(BLOCK)
    factor = np.ones(bets.shape[0])
    one = simd.splat(1.0)
    g0, g1 = simd.load(bets, 0), simd.load(bets, 8)
    g2, g3 = simd.load(bets, 16), simd.load(bets, 24)
    f0, f1, f2, f3 = one, one, one, one
    largest = 1.0  # no factor is larger, nor smaller than its inverse
    for begin in range(0, size, BLOCK):
        end = min(begin + BLOCK, size)
        count = 0
        for t in range(begin, end):
            y = min(x[t] - shift[t], LARGEST_GAIN)
            moved[count] = y
            count += y != 0.0  # without a branch: which of two sides a reward moves is anybody's guess
        for t in range(count):
            y = moved[t]
            v = simd.splat(y)
            f0 = simd.multiply(f0, simd.add(simd.multiply(g0, v), one))
            f1 = simd.multiply(f1, simd.add(simd.multiply(g1, v), one))
            f2 = simd.multiply(f2, simd.add(simd.multiply(g2, v), one))
            f3 = simd.multiply(f3, simd.add(simd.multiply(g3, v), one))
            largest *= max(1.0 + bets[first] * y, 2.0)
            if largest > RENORM:
                _keep(factor, f0, f1, f2, f3)
                _bank(gains, factor, first)
                f0, f1, f2, f3 = one, one, one, one
                largest = 1.0
    _keep(factor, f0, f1, f2, f3)
    _bank(gains, factor, first)


@kernel
def cut_betting(gains, bets, x, shift, mass, guard, probability, offsets, chosen):
    """The same with a reward model q: y = x − s + Σ_a m(a) − m(a_t)/p_t,  m(a) = min(π(a) q(a), k c(a)).

    k = CUT/γ − s cuts the model where its weight is large: m(a_t)/p_t ≤ k, so no bet loses more than CUT of
    its stake. c(a) > 0 is at most the logged probability of a; Σ_a m(a) is the mean of m(a_t)/p_t, so the
    model changes the variance of y and not its mean. x, shift s, probability p, chosen (n,); offsets (n+1,);
    mass π q, guard c (ΣK,).
    """
    size = bets.shape[0]
    farthest = 0.0
    for t in range(x.shape[0]):
        farthest = max(farthest, shift[t])
    first = _alive(gains, bets, farthest)
    if first == size:
        return
    factor = np.ones(size)
    limits = CUT / bets
    nothing, one, most = simd.splat(0.0), simd.splat(1.0), simd.splat(LARGEST_GAIN)
    largest = 1.0  # no factor is larger, nor smaller than its inverse
    for t in range(x.shape[0]):
        begin, end = offsets[t], offsets[t + 1]
        expected = 0.0
        ratio = 0.0  # the largest π q / c
        for i in range(begin, end):
            expected += mass[i]
            if mass[i] > ratio * guard[i]:
                ratio = mass[i] / guard[i] if guard[i] > 0.0 else math.inf
        base, inverse = x[t] - shift[t], 1.0 / probability[t]
        own = chosen[t]
        uncut = 0
        while uncut < size and limits[uncut] - shift[t] < ratio:
            uncut += LANES
        highest = 0.0
        for j in range(0, uncut, LANES):  # bets for which an arm, or more, is cut, and their neighbours
            k = simd.subtract(simd.load(limits, j), simd.splat(shift[t]))
            kept = nothing
            for i in range(begin, end):
                kept = simd.add(kept, _smaller(simd.splat(mass[i]), simd.multiply(k, simd.splat(guard[i]))))
            played = _smaller(simd.splat(mass[own]), simd.multiply(k, simd.splat(guard[own])))
            y = simd.add(simd.splat(base), kept)
            y = _smaller(simd.subtract(y, simd.multiply(played, simd.splat(inverse))), most)
            highest = max(highest, simd.largest_lane(y))
            gain = simd.add(simd.multiply(simd.load(bets, j), y), one)
            simd.store(factor, j, simd.multiply(simd.load(factor, j), gain))
        common = min(base + expected - mass[own] * inverse, LARGEST_GAIN)
        highest = max(highest, common)
        for j in range(uncut, size, LANES):
            gain = simd.add(simd.multiply(simd.load(bets, j), simd.splat(common)), one)
            simd.store(factor, j, simd.multiply(simd.load(factor, j), gain))
        largest *= max(1.0 + bets[first] * highest, 1.0 / (1.0 - CUT))
        if largest > RENORM:
            _bank(gains, factor, first)
            largest = 1.0
    _bank(gains, factor, first)


@inlined
def _smaller(x, y):
    """The smaller one in every lane."""
    return simd.where_greater(x, y, y, x)


@inlined
def _alive(gains, bets, shift):
    """End the bets that a shift could cost too much; the first that still has something to stake."""
    first = 0
    while first < gains.shape[0] and (gains[first] == -math.inf or bets[first] * shift >= 0.5 * CUT):
        gains[first] = -math.inf
        first += 1
    return first


@inlined
def _keep(factor, f0, f1, f2, f3):
    """Four vectors of eight as an array (32,)."""
    simd.store(factor, 0, f0)
    simd.store(factor, 8, f1)
    simd.store(factor, 16, f2)
    simd.store(factor, 24, f3)


@inlined
def _bank(gains, factor, first):
    """Turn the factors of the bets that are alive into gains, and begin anew."""
    for j in range(first, gains.shape[0]):
        gains[j] += math.log(factor[j])
    for j in range(gains.shape[0]):
        factor[j] = 1.0


@kernel
def log_wealth(gains, bets, log_prior, count, mean):
    """log Σ_j prior_j Π_t (1 + γ_j y_t) / (1 + γ_j m), and its derivative in m.  gains, log_prior (J,)."""
    largest = -math.inf
    for j in range(bets.shape[0]):
        if gains[j] > -math.inf:
            largest = max(largest, log_prior[j] + gains[j] - count * math.log1p(bets[j] * mean))
    if largest == -math.inf:
        return largest, 0.0
    total = 0.0
    slope = 0.0
    for j in range(bets.shape[0]):
        if gains[j] > -math.inf:
            value = log_prior[j] + gains[j] - count * math.log1p(bets[j] * mean)
            share = math.exp(value - largest)
            total += share
            slope -= share * count * bets[j] / (1.0 + bets[j] * mean)
    return largest + math.log(total), slope / total


@kernel
def betting_lower(gains, bets, log_prior, count, log_level, lowest):
    """The smallest mean from `lowest` on with wealth below 1/α; above 1 it is not looked for exactly.

    The log-wealth is convex and decreasing in the mean, so Newton's steps from the left approach from the
    left: stopping early only makes the bound more cautious.
    """
    mean = lowest
    for _ in range(200):
        value, slope = log_wealth(gains, bets, log_prior, count, mean)
        if value < log_level or slope >= 0.0:
            break
        step = (value - log_level) / -slope
        mean += step
        if mean > 1.0 or step < 1e-13:
            break
    return mean


@kernel
def bernstein(state, x, log_level, largest_rate):
    """Sums of the empirical-Bernstein sequence with predictable plug-in bets.

    λ_t = √(2 log(1/α) / (σ̂²_{t−1} t log(1 + t))) knows only the past, and so does x̂_{t−1}, a running mean cut
    to [0, 1].  state (FIELDS,); x ≥ 0 (n,).
    """
    for j in range(x.shape[0]):
        t = state[COUNT] + 1.0
        variance = (0.25 + state[SPREAD]) / t
        rate = math.sqrt(2.0 * log_level / (variance * t * math.log(1.0 + t)))
        rate = min(rate, largest_rate)
        guess = min((0.5 + state[SUM]) / t, 1.0)
        state[WEIGHT] += rate
        state[CENTRE] += rate * x[j]
        state[PENALTY] += (-math.log1p(-rate) - rate) * (x[j] - guess) ** 2
        state[COUNT] = t
        state[SUM] += x[j]
        state[SPREAD] += (x[j] - (0.5 + state[SUM]) / (1.0 + t)) ** 2


@kernel
def mixture(state, x):
    """Sums of the gamma-exponential mixture: Σ x and Σ (x_i − x̂_{i−1})², x̂ the running mean cut at 1."""
    for j in range(x.shape[0]):
        guess = min((0.5 + state[SUM]) / (1.0 + state[COUNT]), 1.0)
        state[COUNT] += 1.0
        state[SUM] += x[j]
        state[SQUARES] += (x[j] - guess) ** 2
