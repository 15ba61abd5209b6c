"""Arms in blocks of eight, features before arms, and the passes over them that rules and designs are made of.

A block holds d + 1 vectors: the k-th feature of eight arms for k < d, and then 1 for every arm that is not
the zero vector, 0 for one that is and for the places past the last arm, which repeat arm 0. A vector runs
over arms, so each arm's sums keep an order of their own: equal arms get equal values wherever they stand.

`blocks` (·, size) holds the blocks of several sets, one a row. What is given or written for every arm (scale,
lengths) is padded to whole blocks. The *vectors* of a set are its arms times `scale`; 0 leaves an arm out.
Numbers within an array (a row of a matrix, say) are found `at` their place from its beginning: taking a view
costs more than a small case does.
"""

import math
from typing import NamedTuple

from linmed.checks import Floats
from linmed.kernels.compile import by_class, inlined
from linmed.kernels.lanes import first_of_largest, first_of_smallest, larger
from linmed.kernels.simd import (
    LANES,
    add,
    load,
    multiply,
    multiply_add,
    put,
    splat,
    spread,
    steps,
    store,
    where_greater,
)

KEEP = 1 << 18  # sets of up to this many numbers, 2 MiB, are held in blocks


@inlined
def padded(n):
    """n rounded up to whole vectors."""
    return (n + LANES - 1) // LANES * LANES


@inlined
def block_room(K, d):
    """How many numbers the blocks of K arms take."""
    return padded(K) * (d + 1)


@inlined
def held(K, d):
    """Whether so many arms are held in blocks; more should not be held twice."""
    return K * d <= KEEP


@inlined
def pack_block(arms, p, d, first, blocks, n, base):
    """The features in the block of the arms from `first` on of the p-th set, to blocks[n, base:].

    arms (·,K,≥ d), of which the first d features count.
    """
    K = arms.shape[1]
    start = n * blocks.shape[1] + base
    for i in range(LANES):
        a = first + i if first + i < K else 0
        for k in range(d):
            put(blocks, start + k * LANES + i, arms[p, a, k])


@inlined
def pack(arms, p, d, blocks, n):
    """All blocks of the p-th set to blocks[n], with what tells arms from zero vectors.  arms (·,K,≥ d)."""
    K = arms.shape[1]
    here = steps()
    for first in range(0, K, LANES):
        base = first * (d + 1)
        pack_block(arms, p, d, first, blocks, n, base)
        start = n * blocks.shape[1] + base
        largest = splat(0.0)
        for k in range(d):
            x = load(blocks, start + k * LANES)
            largest = larger(larger(x, multiply(x, splat(-1.0))), largest)
        present = where_greater(largest, splat(0.0), splat(1.0), splat(0.0))
        present = where_greater(splat(float(K)), here, present, splat(0.0))
        store(blocks, start + d * LANES, present)
        here = add(here, splat(float(LANES)))


@inlined
def inner(blocks, start, d, x, at):
    """⟨a, x⟩ for the eight arms of the block at `start`; x (d,) stands at `at`."""
    even, odd = splat(0.0), splat(0.0)
    for k in range(0, d - 1, 2):
        even = multiply_add(load(blocks, start + k * LANES), spread(x, at + k), even)
        odd = multiply_add(load(blocks, start + (k + 1) * LANES), spread(x, at + k + 1), odd)
    if d % 2:
        even = multiply_add(load(blocks, start + (d - 1) * LANES), spread(x, at + d - 1), even)
    return add(even, odd)


@inlined
def squared_length(blocks, start, d, M, at, stride):
    """aᵀ M a for the eight arms of the block at `start`; M (d,d) symmetric, its rows `stride` apart.

    Σ_j a_j (2 Σ_{k<j} M_jk a_k + M_jj a_j), four rows j at a time, after the first few.
    """
    few = d % 4
    two = splat(2.0)
    total = splat(0.0)
    if few > 0:  # without loops: where d is small, they are all there is
        x0 = load(blocks, start)
        total = multiply(x0, multiply(spread(M, at), x0))
        if few > 1:
            x1, row = load(blocks, start + LANES), at + stride
            s1 = multiply(spread(M, row), x0)
            total = multiply_add(x1, multiply_add(two, s1, multiply(spread(M, row + 1), x1)), total)
            if few > 2:
                x2, row = load(blocks, start + 2 * LANES), at + 2 * stride
                s2 = multiply_add(spread(M, row + 1), x1, multiply(spread(M, row), x0))
                total = multiply_add(x2, multiply_add(two, s2, multiply(spread(M, row + 2), x2)), total)
    for j in range(few, d, 4):
        r0 = at + j * stride
        r1, r2, r3 = r0 + stride, r0 + 2 * stride, r0 + 3 * stride
        s0, s1, s2, s3 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for k in range(j):
            x = load(blocks, start + k * LANES)
            s0 = multiply_add(spread(M, r0 + k), x, s0)
            s1 = multiply_add(spread(M, r1 + k), x, s1)
            s2 = multiply_add(spread(M, r2 + k), x, s2)
            s3 = multiply_add(spread(M, r3 + k), x, s3)
        x0, x1 = load(blocks, start + j * LANES), load(blocks, start + (j + 1) * LANES)
        x2, x3 = load(blocks, start + (j + 2) * LANES), load(blocks, start + (j + 3) * LANES)
        s1 = multiply_add(spread(M, r1 + j), x0, s1)
        s2 = multiply_add(spread(M, r2 + j + 1), x1, multiply_add(spread(M, r2 + j), x0, s2))
        s3 = multiply_add(spread(M, r3 + j + 1), x1, multiply_add(spread(M, r3 + j), x0, s3))
        s3 = multiply_add(spread(M, r3 + j + 2), x2, s3)
        total = multiply_add(x0, multiply_add(two, s0, multiply(spread(M, r0 + j), x0)), total)
        total = multiply_add(x1, multiply_add(two, s1, multiply(spread(M, r1 + j + 1), x1)), total)
        total = multiply_add(x2, multiply_add(two, s2, multiply(spread(M, r2 + j + 2), x2)), total)
        total = multiply_add(x3, multiply_add(two, s3, multiply(spread(M, r3 + j + 3), x3)), total)
    return larger(total, splat(0.0))


class Held(NamedTuple):
    """K arms in d dimensions whose blocks are held in row n of `blocks`."""

    blocks: Floats
    n: int
    K: int
    d: int

    def block(self, first):
        """Where the block of the arms from `first` on begins."""
        return self.n * self.blocks.shape[1] + first * (self.d + 1)

    def best_arm(self, x, at):
        """The arm of the largest ⟨a, x⟩, the lowest among equals."""
        highest, best, here = splat(-math.inf), splat(0.0), steps()
        for first in range(0, self.K, LANES):
            value = inner(self.blocks, block(self, first), self.d, x, at)
            best = where_greater(value, highest, here, best)
            highest = larger(value, highest)
            here = add(here, splat(float(LANES)))
        return first_of_largest(highest, best)[1]

    def extreme_products(self, scale, x, at):
        """The vectors of the largest and the smallest ⟨v, x⟩, the lowest on ties, and these two values."""
        nothing, most, least, here = splat(0.0), splat(math.inf), splat(-math.inf), steps()
        highest, top, lowest, bottom = least, here, most, here
        for first in range(0, self.K, LANES):
            times = load(scale, first)
            value = multiply(times, inner(self.blocks, block(self, first), self.d, x, at))
            above = where_greater(times, nothing, value, least)
            below = where_greater(times, nothing, value, most)
            top = where_greater(above, highest, here, top)
            highest = larger(above, highest)
            bottom = where_greater(lowest, below, here, bottom)
            lowest = where_greater(lowest, below, below, lowest)
            here = add(here, splat(float(LANES)))
        high, i = first_of_largest(highest, top)
        low, j = first_of_smallest(lowest, bottom)
        return i, j, high, low

    def lower_lengths(self, scale, u, at, shrink, lengths):
        """lengths_i −= shrink ⟨v_i, u⟩², not below 0: the lengths vᵀMv after M −= shrink u uᵀ.

        Returns the arm of the largest, the lowest on ties.
        """
        highest, longest, here, nothing = splat(-math.inf), splat(0.0), steps(), splat(0.0)
        for first in range(0, self.K, LANES):
            product = multiply(load(scale, first), inner(self.blocks, block(self, first), self.d, u, at))
            length = multiply_add(multiply(product, product), splat(-shrink), load(lengths, first))
            length = larger(length, nothing)
            store(lengths, first, length)
            longest = where_greater(length, highest, here, longest)
            highest = larger(length, highest)
            here = add(here, splat(float(LANES)))
        return first_of_largest(highest, longest)[1]


@by_class
def block(view, first):
    """Where the block of the arms from `first` on begins in `view.blocks`."""


@by_class
def best_arm(view, x, at):
    """The arm of the largest ⟨a, x⟩, the lowest among equals."""


@by_class
def extreme_products(view, scale, x, at):
    """The vectors of the largest and the smallest ⟨v, x⟩, the lowest on ties, and these two values."""


@by_class
def lower_lengths(view, scale, u, at, shrink, lengths):
    """lengths_i −= shrink ⟨v_i, u⟩², not below 0; returns the arm of the largest, the lowest on ties."""


@inlined
def products(view, x, at, out):
    """out_i = ⟨a_i, x⟩."""
    for first in range(0, view.K, LANES):
        store(out, first, inner(view.blocks, block(view, first), view.d, x, at))


@inlined
def squared_lengths(view, scale, M, at, stride, out):
    """out_i = vᵀ M v for the vectors v and a symmetric M.

    Returns the arm of the largest, the lowest on ties.
    """
    highest, longest, here = splat(-math.inf), splat(0.0), steps()
    for first in range(0, view.K, LANES):
        times = load(scale, first)
        length = squared_length(view.blocks, block(view, first), view.d, M, at, stride)
        length = multiply(multiply(times, times), length)
        store(out, first, length)
        longest = where_greater(length, highest, here, longest)
        highest = larger(length, highest)
        here = add(here, splat(float(LANES)))
    return first_of_largest(highest, longest)[1]


@inlined
def leave_out_zero_arms(view, scale):
    """scale becomes 0 for zero arms, and past the last arm."""
    for first in range(0, view.K, LANES):
        present = load(view.blocks, block(view, first) + view.d * LANES)
        store(scale, first, multiply(present, load(scale, first)))
