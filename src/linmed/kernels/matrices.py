"""Small symmetric matrices, their rows padded with zeros to whole vectors, and the lines (rows) beside them.

A matrix (d,d) stands `at` its place in an array, its rows `stride` apart, a multiple of the lanes.
"""

from linmed.kernels.compile import inlined
from linmed.kernels.simd import LANES, load, multiply, multiply_add, splat, spread, store, sum_lanes


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
def invert(M, at, d, stride, smallest_pivot, diagonal, line):
    """M ← M⁻¹ by Gauss–Jordan; False if a pivot falls below its share of the diagonal.

    M a flat array; diagonal, line: places of two lines in it, overwritten.
    """
    for k in range(d):
        M[diagonal + k] = M[at + k * stride + k]
    for k in range(d):
        row = at + k * stride
        pivot = M[row + k]
        if not pivot > smallest_pivot * M[diagonal + k]:
            return False
        inverse = splat(1.0 / pivot)
        for c in range(0, stride, LANES):
            store(M, line + c, multiply(inverse, load(M, row + c)))
        M[line + k] = 1.0 / pivot
        for i in range(d):
            other = at + i * stride
            share = splat(-M[other + k])
            M[other + k] = 0.0
            for c in range(0, stride, LANES):
                store(M, other + c, multiply_add(share, load(M, line + c), load(M, other + c)))
        for c in range(0, stride, LANES):
            store(M, row + c, load(M, line + c))
    return True
