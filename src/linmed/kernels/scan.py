"""The best items of a block by inner product: looked for in single precision, settled in double.

Scores of single precision may come from any BLAS. An item is left out only where its score is further below
the k-th best than single precision can be wrong, so the items found are those of a pass in double precision,
on every processor.
"""

import math

import numpy as np

from linmed.kernels.compile import inlined, kernel

ROUNDING = 2.0**-23  # twice the unit roundoff of single precision
UNDERFLOW = 1e-30  # far above what products lose by underflow
STRETCH = 64  # scores looked at before one of them is


@kernel
def doubt(d, reach):
    """How far a score may be off, where ‖a‖‖x‖ is at most `reach`.

    One rounding of each factor and any order of the d products and sums: (d + 2)u‖a‖‖x‖, more than doubled.
    """
    return (d + 4) * ROUNDING * reach + UNDERFLOW


@kernel
def settle(scores, rows, live, first, queries, slack, places, values):
    """Enter the items of a block into the best of each query, the lower place on ties.

    scores (B,n) of single precision; rows (n,d) of any precision; live (n,); the items stand at `first` + 0,
    1, …; queries (B,d), slack (B,). places, values (B,k) hold the best so far, −1 and −inf where none is.
    """
    B, n = scores.shape
    last = places.shape[1] - 1
    for b in range(B):
        for start in range(0, n, STRETCH):
            end = min(start + STRETCH, n)
            bar = at_most(values[b, last] - slack[b])
            near = 0
            for i in range(start, end):
                near += not scores[b, i] < bar
            if near == 0:
                continue
            for i in range(start, end):
                if scores[b, i] < bar or not live[i]:
                    continue
                value = 0.0
                for j in range(rows.shape[1]):
                    value += float(rows[i, j]) * queries[b, j]
                if value <= values[b, last]:
                    continue
                at = last
                while at > 0 and value > values[b, at - 1]:
                    values[b, at], places[b, at] = values[b, at - 1], places[b, at - 1]
                    at -= 1
                values[b, at], places[b, at] = value, first + i


@inlined
def at_most(x):
    """A number of single precision no larger than x, and hardly smaller."""
    return np.float32(x - abs(x) * ROUNDING) if x > -math.inf else np.float32(-np.inf)


@kernel
def longest(rows):
    """The largest norm of a row (n,d), in double precision."""
    largest = 0.0
    for i in range(rows.shape[0]):
        length2 = 0.0
        for j in range(rows.shape[1]):
            length2 += float(rows[i, j]) * float(rows[i, j])
        largest = max(largest, length2)
    return math.sqrt(largest)
