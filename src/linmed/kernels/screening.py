"""Extreme inner products over very many arms: looked for in single precision, settled in double.

A pass over arms that fit no cache takes as long as memory needs to deliver them, and single precision
needs half. Its error is bounded, so a double-precision look at the few arms within the bound of the
extremes finds the same arms as a pass over all in double precision would.
"""

import math

import numpy as np

from linmed.kernels.compile import kernel, reordered

ROUNDING = 2.0**-23  # twice the unit roundoff of single precision
UNDERFLOW = 1e-30  # far above what products of numbers up to 1 lose by underflow


@kernel
def single_precision(A, rows, scale):
    """The set (A, rows, scale) as float32 (m,d) in units of its largest entry, and an error bound.

    The bound holds for the inner product of any of its vectors with any unit vector.
    """
    m, d = rows.shape[0], A.shape[1]
    largest = 0.0
    for i in range(m):
        a = rows[i]
        entry = 0.0
        for k in range(d):
            entry = max(entry, abs(A[a, k]))
        largest = max(largest, entry * scale[i])
    single = np.empty((m, d), np.float32)
    longest2 = 0.0
    for i in range(m):
        a, factor = rows[i], scale[i] / largest
        for k in range(d):
            single[i, k] = np.float32(A[a, k] * factor)
        longest2 = max(longest2, squared_norm(single, i))
    return single, (d + 4) * ROUNDING * math.sqrt(longest2) + UNDERFLOW


@reordered
def squared_norm(single, i):
    """‖row i‖²."""
    total = np.float32(0.0)
    for k in range(single.shape[1]):
        total += single[i, k] * single[i, k]
    return float(total)


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


@reordered
def screened_extremes(A, rows, scale, single, bound, x, score):
    """What `linear.extreme_row_products` gives: two members of the set and their ⟨v, x⟩.

    single, bound as `single_precision` gave them; score (m,) float32 is scratch.
    """
    d = x.shape[0]
    norm = 0.0
    for k in range(d):
        norm += x[k] * x[k]
    norm = math.sqrt(norm)
    direction = np.empty(d, np.float32)
    for k in range(d):
        direction[k] = np.float32(x[k] / norm)
    seen_highest, seen_lowest = look(single, direction, score)
    high_enough, low_enough = seen_highest - 2.0 * bound, seen_lowest + 2.0 * bound
    top, bottom, highest, lowest = 0, 0, -np.inf, np.inf
    for i in range(rows.shape[0]):
        if score[i] >= high_enough or score[i] <= low_enough:
            a = rows[i]
            total = 0.0
            for k in range(d):
                total += A[a, k] * x[k]
            total *= scale[i]
            if total > highest:
                top, highest = i, total
            if total < lowest:
                bottom, lowest = i, total
    return top, bottom, highest, lowest
