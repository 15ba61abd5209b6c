"""Small symmetric matrices, their rows padded with zeros to whole vectors, and the lines (rows) beside them.

A matrix (d,d) stands `at` its place in an array, its rows `stride` apart, a multiple of the lanes.
"""

from linmed.kernels.compile import fma, inlined
from linmed.kernels.simd import (
    LANES,
    load,
    multiply,
    multiply_add,
    number,
    put,
    splat,
    spread,
    store,
    sum_lanes,
)


@inlined
def clear(M, at, numbers):
    """Zeros in so many places."""
    for k in range(at, at + numbers, LANES):
        store(M, k, splat(0.0))


@inlined
def dot(x, at, y, there, stride):
    """⟨x, y⟩ of two lines."""
    total = splat(0.0)
    for k in range(0, stride, LANES):
        total = multiply_add(load(x, at + k), load(y, there + k), total)
    return sum_lanes(total)


@inlined
def times_line(M, at, d, stride, x, there, out, to):
    """out = M x, a line."""
    for k in range(0, stride, LANES):
        total = splat(0.0)
        for j in range(d):
            total = multiply_add(spread(x, there + j), load(M, at + j * stride + k), total)
        store(out, to + k, total)


@inlined
def add_outer(M, at, d, stride, x, there, factor):
    """M += factor · x xᵀ."""
    for j in range(d):
        share = multiply(splat(factor), spread(x, there + j))
        row = at + j * stride
        for k in range(0, stride, LANES):
            store(M, row + k, multiply_add(share, load(x, there + k), load(M, row + k)))


@inlined
def invert(M, at, d, stride, smallest_pivot, diagonal, column):
    """M ← M⁻¹ from its lower triangle; False if a pivot falls below its share of the diagonal.

    The symmetric sweep (Gauss–Jordan on one triangle): after the k-th, the first k+1 rows and columns hold
    minus the inverse of the leading block. M is part of a flat array; `diagonal` and `column` are places of
    two lines in it.
    """
    for k in range(d):
        M[diagonal + k] = M[at + k * stride + k]
    for k in range(d):
        row = at + k * stride
        pivot = M[row + k]
        if not pivot > smallest_pivot * M[diagonal + k]:
            return False
        for i in range(k):
            M[column + i] = M[row + i]
        for i in range(k, d):
            M[column + i] = M[at + i * stride + k]
        inverse = 1.0 / pivot
        for i in range(d):
            other = at + i * stride
            share = splat(-(M[column + i] * inverse))
            for c in range(0, i + 1, LANES):
                store(M, other + c, multiply_add(share, load(M, column + c), load(M, other + c)))
        for i in range(k):
            M[row + i] = M[column + i] * inverse
        for i in range(k + 1, d):
            M[at + i * stride + k] = M[column + i] * inverse
        M[row + k] = -inverse
    for i in range(d):
        for j in range(i + 1):
            value = -M[at + i * stride + j]
            M[at + i * stride + j] = value
            M[at + j * stride + i] = value
    return True


@inlined
def combine_rows(x, at, M, there, d, out, to):
    """out = Σ_k x_k · (row k of M) for rows of just d numbers; all three stand at their places."""
    whole = d - d % LANES
    for j in range(0, whole, LANES):
        total = splat(0.0)
        for k in range(d):
            total = multiply_add(spread(x, at + k), load(M, there + k * d + j), total)
        store(out, to + j, total)
    for j in range(whole, d):
        rest = 0.0
        for k in range(d):
            rest = fma(number(x, at + k), number(M, there + k * d + j), rest)
        put(out, to + j, rest)
