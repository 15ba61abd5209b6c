"""Sums over a batch in one pass or two: what would be a dozen passes of array arithmetic."""

import math

from linmed.kernels import simd
from linmed.kernels.compile import kernel

LANES = simd.LANES


@kernel
def moments(x):
    """(mean, Σ (x − mean)²) of x (n,), n > 0, summed in eight lanes."""
    size = x.shape[0]
    whole = size - size % LANES
    total = simd.splat(0.0)
    for t in range(0, whole, LANES):
        total = simd.add(total, simd.load(x, t))
    mean = simd.sum_lanes(total)
    for t in range(whole, size):
        mean += x[t]
    mean /= size
    centre = simd.splat(mean)
    squares = simd.splat(0.0)
    for t in range(0, whole, LANES):
        gap = simd.subtract(simd.load(x, t), centre)
        squares = simd.add(squares, simd.multiply(gap, gap))
    scatter = simd.sum_lanes(squares)
    for t in range(whole, size):
        scatter += (x[t] - mean) ** 2
    return mean, scatter


@kernel
def extremes(weight, reward):
    """The largest weight; of rewards with a weight how many, the lowest and the highest, how many of each.

    weight ≥ 0, reward (n,). Without any weight the lowest is ∞ and the highest −∞.
    """
    size = weight.shape[0]
    whole = size - size % LANES
    nothing, one = simd.splat(0.0), simd.splat(1.0)
    below, above = simd.splat(math.inf), simd.splat(-math.inf)
    top, lowest, highest, counted = nothing, below, above, nothing
    for t in range(0, whole, LANES):
        w, r = simd.load(weight, t), simd.load(reward, t)
        top = simd.where_greater(w, top, w, top)
        counted = simd.add(counted, simd.where_greater(w, nothing, one, nothing))
        small = simd.where_greater(w, nothing, r, below)
        large = simd.where_greater(w, nothing, r, above)
        lowest = simd.where_greater(lowest, small, small, lowest)
        highest = simd.where_greater(large, highest, large, highest)
    largest, count = simd.largest_lane(top), simd.sum_lanes(counted)
    low, high = simd.smallest_lane(lowest), simd.largest_lane(highest)
    for t in range(whole, size):
        largest = max(largest, weight[t])
        if weight[t] > 0.0:
            count += 1.0
            low, high = min(low, reward[t]), max(high, reward[t])
    bottom, ceiling = simd.splat(low), simd.splat(high)
    lows, highs = nothing, nothing
    for t in range(0, whole, LANES):
        w, r = simd.load(weight, t), simd.load(reward, t)
        lows = simd.add(
            lows, simd.where_greater(w, nothing, simd.where_greater(r, bottom, nothing, one), nothing)
        )
        highs = simd.add(
            highs, simd.where_greater(w, nothing, simd.where_greater(ceiling, r, nothing, one), nothing)
        )
    at_low, at_high = simd.sum_lanes(lows), simd.sum_lanes(highs)
    for t in range(whole, size):
        if weight[t] > 0.0:
            at_low += reward[t] <= low
            at_high += reward[t] >= high
    return largest, count, low, at_low, high, at_high


@kernel
def ends(x):
    """(smallest, largest) of x (n,), n > 0; NaN twice where one of them is."""
    size = x.shape[0]
    whole = size - size % LANES
    first = simd.splat(x[0])
    low, high, total = first, first, simd.splat(0.0)
    for t in range(0, whole, LANES):
        v = simd.load(x, t)
        low = simd.where_greater(low, v, v, low)
        high = simd.where_greater(v, high, v, high)
        total = simd.add(total, simd.subtract(v, v))  # NaN where v is, or where it is infinite
    smallest, largest, odd = simd.smallest_lane(low), simd.largest_lane(high), simd.sum_lanes(total)
    for t in range(whole, size):
        smallest, largest = min(smallest, x[t]), max(largest, x[t])
        odd += x[t] - x[t]
    if odd == 0.0:
        return smallest, largest
    return math.nan, math.nan
