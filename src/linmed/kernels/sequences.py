"""Confidence sequences for the mean of x_t ≥ −k_t with mean in [0, 1], one observation at a time.

Lower bounds only: upper bounds are lower bounds of the reflected rewards.
"""

import math

import numpy as np

from linmed.kernels.compile import kernel

# Fields of a sequence's state.
COUNT = 0  # t
SUM = 1  # Σ x
VARIANCE = 2  # Σ (x_i − x̄_i)², for the bets
FIRST = 3  # betting: index of the smallest candidate never rejected
WEIGHT = 4  # Bernstein: Σ λ_i / (1 + k_i)
CENTRE = 5  # Bernstein: Σ λ_i ξ_i
PENALTY = 6  # Bernstein: Σ ψ(λ_i)(ξ_i − ξ̂_{i−1})²
BEST = 7  # largest lower bound so far
SQUARES = 8  # mixture: Σ (x_i − x̂_{i−1})²
FIELDS = 9

LARGEST_FACTOR = 1e30  # one round's gain is cut here, which only makes the bound more cautious
RENORM = 8  # rounds between logarithms: products of so many factors stay within a float64


@kernel
def bet(state, log_level):  # type: ignore[no-untyped-def]
    """λ̃_t = √(2 log(1/α) / (σ̂²_{t−1} t log(1+t))), which knows only the past."""
    t = state[COUNT] + 1.0
    variance = (0.25 + state[VARIANCE]) / t
    return math.sqrt(2.0 * log_level / (variance * t * math.log(1.0 + t)))


@kernel
def observe(state, x):  # type: ignore[no-untyped-def]
    """Update the running mean and variance the bets are made of."""
    state[COUNT] += 1.0
    state[SUM] += x
    mean = (0.5 + state[SUM]) / (1.0 + state[COUNT])
    state[VARIANCE] += (x - mean) ** 2


@kernel
def betting(state, grid, capital, factor, x, floor, log_level, share, lower):  # type: ignore[no-untyped-def]
    """The betting sequence: capital K_t(m) = Π (1 + λ_i(m)(x_i − m)), λ_i(m) = min(λ̃_i, c/(m + k_i)).

    Each factor is positive and decreasing in m (at the cap it is 1 − c + c(x + k)/(m + k)), so the
    candidates with K_t(m) < 1/α are an interval [L_t, 1]; the bound reported is the last rejected
    candidate of the grid, at most one step below L_t, and never decreases.

    state (FIELDS,); grid, capital (logarithms), factor (G,); x, floor (k_t), lower (n,).
    """
    points = grid.shape[0]
    first = int(state[FIRST])
    since = 0
    for i in range(points):
        factor[i] = 1.0
    for j in range(x.shape[0]):
        free, k, value = bet(state, log_level), floor[j], x[j]
        # The bet is capped on the candidates from `cut` upwards only; the grid ascends.
        cut = min(max(np.searchsorted(grid, share / free - k), first), points)
        for i in range(first, cut):
            factor[i] *= min(1.0 + free * (value - grid[i]), LARGEST_FACTOR)
        for i in range(cut, points):
            factor[i] *= min(1.0 - share + share * (value + k) / (grid[i] + k), LARGEST_FACTOR)
        since += 1
        if since == RENORM:
            since = 0
            for i in range(first, points):
                capital[i] += math.log(factor[i])
                factor[i] = 1.0
        while first < points and capital[first] + math.log(factor[first]) >= log_level:
            first += 1
        observe(state, value)
        lower[j] = grid[first - 1] if first > 0 else 0.0
    for i in range(first, points):
        capital[i] += math.log(factor[i])
    state[FIRST] = first
    state[BEST] = grid[first - 1] if first > 0 else 0.0


@kernel
def bernstein(state, x, floor, log_level, share, lower):  # type: ignore[no-untyped-def]
    """The empirical-Bernstein sequence with predictable plug-in bets.

    ξ = x/(1 + k) and ξ̂_{t−1}, a running mean cut to [0, 1/(1 + k_t)], differ by at least −1, so
    exp(λ(ξ − ν/(1 + k)) − ψ(λ)(ξ − ξ̂)²) with ψ(λ) = −log(1 − λ) − λ has mean at most one, and
    L_t = (Σ λ ξ − log(1/α) − Σ ψ(λ)(ξ − ξ̂)²) / Σ λ/(1 + k).
    """
    for j in range(x.shape[0]):
        scale = 1.0 + floor[j]
        rate = min(bet(state, log_level) * scale, share)
        mean = (0.5 + state[SUM]) / (1.0 + state[COUNT])
        guess = min(max(mean, 0.0), 1.0) / scale
        scaled = x[j] / scale
        state[WEIGHT] += rate / scale
        state[CENTRE] += rate * scaled
        state[PENALTY] += (-math.log1p(-rate) - rate) * (scaled - guess) ** 2
        observe(state, x[j])
        bound = (state[CENTRE] - log_level - state[PENALTY]) / state[WEIGHT]
        state[BEST] = max(state[BEST], min(bound, 1.0))
        lower[j] = state[BEST]


@kernel
def mixture(state, x, total, squares):  # type: ignore[no-untyped-def]
    """Sums for the gamma-exponential mixture: Σ x and Σ (x_i − x̂_{i−1})², x̂ the running mean cut at 1."""
    for j in range(x.shape[0]):
        guess = min((0.5 + state[SUM]) / (1.0 + state[COUNT]), 1.0)
        state[COUNT] += 1.0
        state[SUM] += x[j]
        state[SQUARES] += (x[j] - guess) ** 2
        total[j] = state[SUM]
        squares[j] = state[SQUARES]
