"""Extreme inner products over very many arms: looked for in single precision, settled in double.

A pass over arms that fit no cache takes as long as memory needs to deliver them, and single precision
needs half. Its error is bounded, so a double-precision look at the few arms within the bound of the
extremes finds the same arms as a pass over all in double precision would.
"""

import math

import numpy as np

from linmed.kernels.compile import apart, kernel, reordered
from linmed.kernels.linear import extreme_row_products, squared_norm

ROUNDING = 2.0**-23  # twice the unit roundoff of single precision
UNDERFLOW = 1e-30  # far above what products of numbers up to 1 lose by underflow


@kernel
def single_precision(A, rows, scale):
    """The set (A, rows, scale) as float32 (m,d), in units of its largest entry."""
    apart()
    m, d = rows.shape[0], A.shape[1]
    largest = 0.0
    for i in range(m):
        entry = 0.0
        for k in range(d):
            entry = max(entry, abs(A[rows[i], k]))
        largest = max(largest, entry * scale[i])
    single = np.empty((m, d), np.float32)
    for i in range(m):
        a, factor = rows[i], scale[i] / largest
        for k in range(d):
            single[i, k] = np.float32(A[a, k] * factor)
    return single


@kernel
def error_bound(d):
    """How far an inner product of single precision may be off, for entries up to 1 and a unit vector."""
    return (d + 4) * ROUNDING * math.sqrt(d) + UNDERFLOW


@reordered
def look(single, x, score):
    """score = single · x; returns the largest and the smallest.  single (m,d), x (d,), score (m,)."""
    highest, lowest = np.float32(-np.inf), np.float32(np.inf)
    for i in range(single.shape[0]):
        total = np.float32(0.0)
        for k in range(x.shape[0]):
            total += single[i, k] * x[k]
        score[i] = total
        highest, lowest = max(highest, total), min(lowest, total)
    return float(highest), float(lowest)


@kernel
def screened_extremes(A, rows, scale, single, x, score):
    """What `linear.extreme_row_products` gives: two members of the set and their ⟨v, x⟩.

    single as `single_precision` gave it; score (m,) float32 is scratch.
    """
    apart()
    d = x.shape[0]
    norm = math.sqrt(squared_norm(x))
    direction = np.empty(d, np.float32)
    for k in range(d):
        direction[k] = np.float32(x[k] / norm)
    highest, lowest = look(single, direction, score)
    slack = 2.0 * error_bound(d)
    near = np.nonzero((score >= highest - slack) | (score <= lowest + slack))[0]
    top, bottom, highest, lowest = extreme_row_products(A, rows[near], scale[near], x)
    return near[top], near[bottom], highest, lowest
