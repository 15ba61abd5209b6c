"""Very many arms, read where they stand: their blocks are filled one at a time, products are taken by rows.

Extreme inner products are looked for in single precision and settled in double. A pass over arms that fit no
cache takes as long as memory needs to deliver them, and single precision needs half. Its error is bounded, so
a double-precision look at the few arms within the bound of the extremes finds the same arms as a pass over
all in double precision would.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed.checks import Floats
from linmed.kernels.blocks import pack_block
from linmed.kernels.compile import kernel, reordered

ROUNDING = 2.0**-23  # twice the unit roundoff of single precision
UNDERFLOW = 1e-30  # far above what products of numbers up to 1 lose by underflow


class Streamed(NamedTuple):
    """The K arms of set p in d dimensions; `blocks` has room for one block."""

    arms: Floats  # (·,K,d)
    p: int
    blocks: Floats  # (1, 8(d+1))
    single: NDArray[np.float32]  # (K,d) the vectors, see `single_precision`
    score: NDArray[np.float32]  # (K,) scratch
    K: int
    d: int

    def block(self, first):
        """Fill the block of the arms from `first` on."""
        pack_block(self.arms, self.p, self.d, first, self.blocks, 0, 0)
        return 0

    def extreme_products(self, scale, x, at):
        """The vectors of the largest and the smallest ⟨v, x⟩, the lowest on ties, and these two values."""
        return screened_extremes(self.arms, self.p, scale, self.single, self.score, x, at)

    def lower_lengths(self, scale, u, at, shrink, lengths):
        """lengths_i −= shrink ⟨v_i, u⟩², not below 0; returns the arm of the largest, the lowest on ties."""
        worst, highest = 0, -math.inf
        for i in range(self.K):
            product = scale[i] * row_product(self.arms, self.p, i, u, at)
            lengths[i] = max(lengths[i] - product * product * shrink, 0.0)
            if lengths[i] > highest:
                worst, highest = i, lengths[i]
        return worst


@reordered
def row_product(arms, p, i, x, at):
    """⟨a_i, x⟩ for arm i of set p; x (d,) stands at `at` of a flat array."""
    total = 0.0
    for k in range(arms.shape[2]):
        total += arms[p, i, k] * x[at + k]
    return total


@kernel
def best_row(arms, p, x, at):
    """The arm of the largest ⟨a, x⟩ in set p, the lowest on ties; x (d,) stands at `at` of a flat array."""
    best, highest = 0, -math.inf
    for i in range(arms.shape[1]):
        value = row_product(arms, p, i, x, at)
        if value > highest:
            best, highest = i, value
    return best


@kernel
def single_precision(arms, p, scale):
    """The vectors of set p as float32 (K,d), in units of their largest entry."""
    K, d = arms.shape[1], arms.shape[2]
    largest = 0.0
    for i in range(K):
        entry = 0.0
        for k in range(d):
            entry = max(entry, abs(arms[p, i, k]))
        largest = max(largest, entry * scale[i])
    single = np.empty((K, d), np.float32)
    for i in range(K):
        factor = scale[i] / largest
        for k in range(d):
            single[i, k] = np.float32(arms[p, i, k] * factor)
    return single


@kernel
def error_bound(d):
    """How far an inner product of single precision may be off, for entries up to 1 and a unit vector."""
    return (d + 4) * ROUNDING * math.sqrt(d) + UNDERFLOW


@reordered
def look(single, scale, x, score):
    """score = single · x; returns the largest and the smallest of those that take part.

    single (K,d), scale (≥ K,), x (d,), score (K,).
    """
    highest, lowest = np.float32(-np.inf), np.float32(np.inf)
    for i in range(single.shape[0]):
        total = np.float32(0.0)
        for k in range(x.shape[0]):
            total += single[i, k] * x[k]
        score[i] = total
        if scale[i] > 0.0:
            highest, lowest = max(highest, total), min(lowest, total)
    return float(highest), float(lowest)


@kernel
def screened_extremes(arms, p, scale, single, score, x, at):
    """The vectors of the largest and the smallest ⟨v, x⟩, the lowest on ties, and these two values."""
    K, d = single.shape
    norm2 = 0.0
    for k in range(d):
        norm2 += x[at + k] * x[at + k]
    norm = math.sqrt(norm2)
    direction = np.empty(d, np.float32)
    for k in range(d):
        direction[k] = np.float32(x[at + k] / norm)
    most, least = look(single, scale, direction, score)
    slack = 2.0 * error_bound(d)
    top, bottom, highest, lowest = 0, 0, -math.inf, math.inf
    for i in range(K):
        if scale[i] > 0.0 and (score[i] >= most - slack or score[i] <= least + slack):
            product = scale[i] * row_product(arms, p, i, x, at)
            if product > highest:
                top, highest = i, product
            if product < lowest:
                bottom, lowest = i, product
    return top, bottom, highest, lowest
