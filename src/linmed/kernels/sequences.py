"""Lower confidence sequences for the mean of x_t ≥ −k_t with mean in [0, 1], one observation at a time.

Lower bounds only: upper bounds are lower bounds of the reflected rewards.
"""

import math

import numpy as np

from linmed.kernels.compile import kernel

LARGEST_FACTOR = 1e30  # one round's gain is cut here, which only makes the bound more cautious
RENORM = 8  # rounds between logarithms: products of so many factors stay within a float64

# Fields of the state of the Bernstein and mixture sequences.
COUNT = 0  # t
SUM = 1  # Σ x
SPREAD = 2  # Σ (x_i − x̄_i)², for the bets
WEIGHT = 3  # Σ λ_i / (1 + k_i)
CENTRE = 4  # Σ λ_i ξ_i
PENALTY = 5  # Σ ψ(λ_i)(ξ_i − ξ̂_{i−1})²
SQUARES = 6  # Σ (x_i − x̂_{i−1})²
FIELDS = 7


@kernel
def betting(gains, bets, x, floor):
    """gains[j] += Σ_t log(1 + γ_j (x_t + k)).  gains, bets γ (J,); x (n,); floor k one number."""
    size = bets.shape[0]
    factor = np.ones(size)
    for t in range(x.shape[0]):
        y = x[t] + floor
        for j in range(size):
            factor[j] *= min(1.0 + bets[j] * y, LARGEST_FACTOR)
        if t % RENORM == RENORM - 1:
            for j in range(size):
                gains[j] += math.log(factor[j])
                factor[j] = 1.0
    for j in range(size):
        gains[j] += math.log(factor[j])


@kernel
def log_wealth(gains, bets, log_prior, counts, floors, mean):
    """log Σ_j prior_j Π_t (1 + γ_j (x_t + k_t)) / (1 + γ_j (m + k_t)), and its derivative in m.

    counts, floors (L,): how often k was what.
    """
    largest = -math.inf
    terms = np.empty(bets.shape[0])
    slopes = np.zeros(bets.shape[0])
    for j in range(bets.shape[0]):
        value = log_prior[j] + gains[j]
        for i in range(counts.shape[0]):
            value -= counts[i] * math.log1p(bets[j] * (mean + floors[i]))
            slopes[j] -= counts[i] * bets[j] / (1.0 + bets[j] * (mean + floors[i]))
        terms[j] = value
        largest = max(largest, value)
    total = 0.0
    slope = 0.0
    for j in range(bets.shape[0]):
        share = math.exp(terms[j] - largest)
        total += share
        slope += share * slopes[j]
    return largest + math.log(total), slope / total


@kernel
def betting_lower(gains, bets, log_prior, counts, floors, log_level):
    """The smallest mean in [0, 1] with wealth below 1/α.

    The log-wealth is convex and decreasing in the mean, so Newton's steps from 0 approach from the left:
    stopping early only makes the bound more cautious.
    """
    mean = 0.0
    for _ in range(100):
        value, slope = log_wealth(gains, bets, log_prior, counts, floors, mean)
        if value < log_level or slope >= 0.0:
            break
        step = (value - log_level) / -slope
        mean += step
        if mean >= 1.0:
            return 1.0
        if step < 1e-13:
            break
    return mean


@kernel
def bernstein(state, x, floor, log_level, largest_rate):
    """Sums of the empirical-Bernstein sequence with predictable plug-in bets.

    λ_t = √(2 log(1/α) / (σ̂²_{t−1} t log(1 + t))) knows only the past. ξ = x/(1 + k) and ξ̂_{t−1}, a
    running mean cut to [0, 1/(1 + k)], differ by at least −1.  state (FIELDS,); x (n,); floor k.
    """
    scale = 1.0 + floor
    for j in range(x.shape[0]):
        t = state[COUNT] + 1.0
        variance = (0.25 + state[SPREAD]) / t
        rate = math.sqrt(2.0 * log_level / (variance * t * math.log(1.0 + t)))
        rate = min(rate * scale, largest_rate)
        guess = min(max((0.5 + state[SUM]) / t, 0.0), 1.0) / scale
        scaled = x[j] / scale
        state[WEIGHT] += rate / scale
        state[CENTRE] += rate * scaled
        state[PENALTY] += (-math.log1p(-rate) - rate) * (scaled - guess) ** 2
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


@kernel
def largest_wealth(bets, prior, x, floor, mean):
    """The largest betting wealth against `mean` at any time: if it is ≥ 1/α the sequence left the mean out.

    bets γ, prior (J,); x, floor k_t (n,).
    """
    size = bets.shape[0]
    wealth = prior.copy()
    stake = np.empty(size)
    largest = 0.0
    for t in range(x.shape[0]):
        if t == 0 or floor[t] != floor[t - 1]:
            for j in range(size):
                stake[j] = 1.0 / (1.0 + bets[j] * (mean + floor[t]))
        y = x[t] + floor[t]
        total = 0.0
        for j in range(size):
            # Kept below overflow; what has sunk to zero had no hope of coming back.
            wealth[j] = min(wealth[j] * min(1.0 + bets[j] * y, LARGEST_FACTOR) * stake[j], 1e250)
            total += wealth[j]
        largest = max(largest, total)
    return largest
