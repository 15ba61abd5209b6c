"""Inner products and quadratic forms over a set of arms.

A *set* of m vectors is given by A (K,d), rows (m,), scale (m,): the i-th is scale_i · A[rows_i]. It is
worked on in one of two layouts:

- Sets of middling size, which fit a cache, are copied, transposed, into tiles of a few dozen arms:
  tile[k, i] is feature k of arm i. Loops over the arms of a tile run over neighbouring numbers, which the
  compiler turns into vector instructions without reordering any sum.
- Few arms, for which the copy would cost more than it saves, and very many, which should not be held
  twice, are read where they stand, row by row.

In both, equal arms get equal values wherever they stand, so that ties can go to the lowest index.
"""

import numpy as np

from linmed.kernels.compile import apart, kernel, reordered
from linmed.kernels.simd import LANES, load, multiply, multiply_add, splat, store

TILE = 136  # arms per tile; an odd number of cache lines, so that features do not evict each other
FEW = 128  # tiles beyond this many numbers (benchmarks/switch.py) …
KEEP = 1 << 18  # … and up to this many, 2 MiB


@kernel
def argmax(x):
    """Index of the largest entry, the lowest index on ties; blocks of eight keep the branch rare."""
    n = x.shape[0]
    best, highest = 0, x[0]
    whole = n - n % 8
    for i in range(0, whole, 8):
        m0 = x[i] if x[i] > x[i + 4] else x[i + 4]
        m1 = x[i + 1] if x[i + 1] > x[i + 5] else x[i + 5]
        m2 = x[i + 2] if x[i + 2] > x[i + 6] else x[i + 6]
        m3 = x[i + 3] if x[i + 3] > x[i + 7] else x[i + 7]
        m0 = m0 if m0 > m2 else m2
        m1 = m1 if m1 > m3 else m3
        m0 = m0 if m0 > m1 else m1
        if m0 > highest:
            for j in range(i, i + 8):
                if x[j] > highest:
                    best, highest = j, x[j]
    for i in range(whole, n):
        if x[i] > highest:
            best, highest = i, x[i]
    return best


@kernel
def extremes(x):
    """Indices of the largest and of the smallest entry, the lowest index on ties."""
    n = x.shape[0]
    top, bottom, highest, lowest = 0, 0, x[0], x[0]
    whole = n - n % 4
    for i in range(0, whole, 4):
        h0 = x[i] if x[i] > x[i + 2] else x[i + 2]
        h1 = x[i + 1] if x[i + 1] > x[i + 3] else x[i + 3]
        l0 = x[i] if x[i] < x[i + 2] else x[i + 2]
        l1 = x[i + 1] if x[i + 1] < x[i + 3] else x[i + 3]
        if h0 > highest or h1 > highest:
            for j in range(i, i + 4):
                if x[j] > highest:
                    top, highest = j, x[j]
        if l0 < lowest or l1 < lowest:
            for j in range(i, i + 4):
                if x[j] < lowest:
                    bottom, lowest = j, x[j]
    for i in range(whole, n):
        if x[i] > highest:
            top, highest = i, x[i]
        if x[i] < lowest:
            bottom, lowest = i, x[i]
    return top, bottom


@kernel
def all_within(A, bound):
    """Whether every |entry| is at most `bound`; NaN is not.  A (K,d)."""
    for i in range(A.shape[0]):
        outside = 0
        for k in range(A.shape[1]):
            outside += not abs(A[i, k]) <= bound
        if outside:
            return False
    return True


@kernel
def fill(A, rows, scale, start, tile):
    """Copy the vectors start, start+1, … of the set into the columns of a tile (d, width)."""
    d, width = tile.shape
    n = min(width, rows.shape[0] - start)
    a, s = rows[start : start + n], scale[start : start + n]
    for k in range(d):
        line = tile[k]
        for i in range(n):
            line[i] = s[i] * A[a[i], k]
        for i in range(n, width):
            line[i] = 0.0


@kernel
def worth_tiling(numbers):
    """Whether a set of so many numbers is worked on in tiles."""
    return FEW < numbers <= KEEP


@kernel
def tile_width(vectors):
    """Columns of the tiles for so many vectors: whole groups of lanes, the rest of which are zeros."""
    return min(TILE, (vectors + LANES - 1) // LANES * LANES)


@kernel
def tiles_of(A, rows, scale):
    """The set as tiles (T, d, width); none, T = 0, where it is to be read row by row."""
    apart()
    m, d = rows.shape[0], A.shape[1]
    if not worth_tiling(m * d):
        return np.empty((0, d, 1))
    width = tile_width(m)
    number = (m + width - 1) // width
    tiles = np.empty((number, d, width))
    for t in range(number):
        fill(A, rows, scale, t * width, tiles[t])
    return tiles


@kernel
def tiles_of_all(A):
    """`tiles_of` all arms as they are; for very many, nothing of their number is made in vain."""
    K, d = A.shape
    if not worth_tiling(K * d):
        return np.empty((0, d, 1))
    return tiles_of(A, np.arange(K), np.ones(K))


@kernel
def tile_inner(tile, x, out):
    """out_i = ⟨column i, x⟩.  tile (d,width), x (d,), out (n ≤ width,)."""
    d, n = tile.shape[0], out.shape[0]
    for i in range(n):
        out[i] = 0.0
    whole = d - d % 4
    for k in range(0, whole, 4):
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        t0, t1, t2, t3 = tile[k], tile[k + 1], tile[k + 2], tile[k + 3]
        for i in range(n):
            out[i] += (x0 * t0[i] + x1 * t1[i]) + (x2 * t2[i] + x3 * t3[i])
    for k in range(whole, d):
        xk, tk = x[k], tile[k]
        for i in range(n):
            out[i] += xk * tk[i]


@kernel
def tile_lengths(tile, M, out):
    """out_i = vᵀ M v for the columns v of a tile (d,width) and a symmetric M (d,d).  out (width,)."""
    apart()
    d, width = tile.shape
    whole = d - d % 4
    two = splat(2.0)
    for i in range(0, width, LANES):  # Σ_j x_j (2 Σ_{k<j} M_jk x_k + M_jj x_j), four rows j at a time
        total = splat(0.0)
        for j in range(0, whole, 4):
            s0, s1, s2, s3 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
            for k in range(j):
                x = load(tile, k * width + i)
                s0 = multiply_add(splat(M[j, k]), x, s0)
                s1 = multiply_add(splat(M[j + 1, k]), x, s1)
                s2 = multiply_add(splat(M[j + 2, k]), x, s2)
                s3 = multiply_add(splat(M[j + 3, k]), x, s3)
            x0, x1 = load(tile, j * width + i), load(tile, (j + 1) * width + i)
            x2, x3 = load(tile, (j + 2) * width + i), load(tile, (j + 3) * width + i)
            s1 = multiply_add(splat(M[j + 1, j]), x0, s1)
            s2 = multiply_add(splat(M[j + 2, j + 1]), x1, multiply_add(splat(M[j + 2, j]), x0, s2))
            s3 = multiply_add(splat(M[j + 3, j + 1]), x1, multiply_add(splat(M[j + 3, j]), x0, s3))
            s3 = multiply_add(splat(M[j + 3, j + 2]), x2, s3)
            total = multiply_add(x0, multiply_add(two, s0, multiply(splat(M[j, j]), x0)), total)
            total = multiply_add(x1, multiply_add(two, s1, multiply(splat(M[j + 1, j + 1]), x1)), total)
            total = multiply_add(x2, multiply_add(two, s2, multiply(splat(M[j + 2, j + 2]), x2)), total)
            total = multiply_add(x3, multiply_add(two, s3, multiply(splat(M[j + 3, j + 3]), x3)), total)
        for j in range(whole, d):
            s0 = splat(0.0)
            for k in range(j):
                s0 = multiply_add(splat(M[j, k]), load(tile, k * width + i), s0)
            x0 = load(tile, j * width + i)
            total = multiply_add(x0, multiply_add(two, s0, multiply(splat(M[j, j]), x0)), total)
        store(out, i, total)
    for i in range(width):
        out[i] = max(out[i], 0.0)


@kernel
def tile_products(tiles, x, out):
    """out_i = ⟨vector i of the tiles, x⟩.  tiles (T,d,width), x (d,), out (m,)."""
    m, width = out.shape[0], tiles.shape[2]
    for t in range(tiles.shape[0]):
        tile_inner(tiles[t], x, out[t * width : min(t * width + width, m)])


@reordered
def row_product(A, i, x):
    """⟨a_i, x⟩."""
    total = 0.0
    for k in range(x.shape[0]):
        total += A[i, k] * x[k]
    return total


@reordered
def squared_norm(x):
    """‖x‖²."""
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * x[k]
    return total


@kernel
def matvec(A, x, out):
    """out = A x, row by row.  A (K,d), x (d,), out (K,)."""
    for i in range(A.shape[0]):
        out[i] = row_product(A, i, x)


@kernel
def inner_products(A, rows, scale, tiles, x, out):
    """out_i = ⟨vector i of the set, x⟩.  x (d,), out (m,)."""
    if tiles.shape[0] > 0:
        tile_products(tiles, x, out)
        return
    for i in range(rows.shape[0]):
        out[i] = scale[i] * row_product(A, rows[i], x)


@kernel
def extreme_products(A, rows, scale, tiles, x, scratch):
    """Members with the largest and smallest ⟨v, x⟩, the lowest on ties, and these two values.

    x (d,); scratch (m,), or empty where there are no tiles.
    """
    if tiles.shape[0] == 0:
        return extreme_row_products(A, rows, scale, x)
    tile_products(tiles, x, scratch)
    top, bottom = extremes(scratch)
    return top, bottom, scratch[top], scratch[bottom]


@kernel
def extreme_row_products(A, rows, scale, x):
    """`extreme_products` row by row: nothing is written, which would take as long as reading an arm."""
    top, bottom, highest, lowest = 0, 0, -np.inf, np.inf
    for i in range(rows.shape[0]):
        product = scale[i] * row_product(A, rows[i], x)
        if product > highest:
            top, highest = i, product
        if product < lowest:
            bottom, lowest = i, product
    return top, bottom, highest, lowest


@kernel
def lower_lengths(A, rows, scale, tiles, u, shrink, lengths, scratch):
    """lengths_i −= shrink ⟨v_i, u⟩², not below 0; returns the member with the largest, the lowest on ties.

    The lengths vᵀMv after M −= shrink u uᵀ.  u (d,), lengths (m,); scratch (m,), or empty without tiles.
    """
    apart()
    if tiles.shape[0] > 0:
        tile_products(tiles, u, scratch)
        for i in range(scratch.shape[0]):
            lengths[i] = max(lengths[i] - scratch[i] * scratch[i] * shrink, 0.0)
        return argmax(lengths)
    worst, highest = 0, -np.inf
    for i in range(rows.shape[0]):
        product = scale[i] * row_product(A, rows[i], u)
        lengths[i] = max(lengths[i] - product * product * shrink, 0.0)
        if lengths[i] > highest:
            worst, highest = i, lengths[i]
    return worst


@kernel
def squared_lengths(A, rows, scale, tiles, M, out):
    """out_i = vᵀ M v for the vectors v of the set and a symmetric M (d,d).  out (m,)."""
    apart()
    m, d, width = rows.shape[0], A.shape[1], tiles.shape[2]
    if m * d <= FEW:
        for i in range(m):
            out[i] = scale[i] * scale[i] * squared_length(A, rows[i], M)
        return
    kept = tiles.shape[0] > 0
    if not kept:
        width = tile_width(m)
        tiles = np.empty((1, d, width))
    lengths = np.empty(width)
    for start in range(0, m, width):
        if not kept:
            fill(A, rows, scale, start, tiles[0])
        tile_lengths(tiles[start // width] if kept else tiles[0], M, lengths)
        for i in range(min(width, m - start)):
            out[start + i] = lengths[i]


@kernel
def squared_length(A, i, M):
    """a_iᵀ M a_i for one arm and a symmetric M, by plain loops.  A (K,d), M (d,d)."""
    total = 0.0
    for j in range(M.shape[0]):
        inner = 0.0
        for k in range(j):
            inner += M[j, k] * A[i, k]
        total += A[i, j] * (2.0 * inner + M[j, j] * A[i, j])
    return max(total, 0.0)


@kernel
def leverages(A, M, out):
    """out_i = a_iᵀ M a_i for every arm and a symmetric M (d,d).  A (K,d), out (K,)."""
    K, d = A.shape
    squared_lengths(A, np.arange(K), np.ones(K), np.empty((0, d, 1)), M, out)


@kernel
def subtract(tile, c, out):
    """out = tile − c, column by column."""
    for k in range(tile.shape[0]):
        source, target, ck = tile[k], out[k], c[k]
        for i in range(tile.shape[1]):
            target[i] = source[i] - ck


@kernel
def fill_differences(A, start, c, tile):
    """The columns a_i − c of a tile, from arm `start` on."""
    d, width = tile.shape
    n = min(width, A.shape[0] - start)
    for k in range(d):
        line, ck = tile[k], c[k]
        for i in range(n):
            line[i] = A[start + i, k] - ck
        for i in range(n, width):
            line[i] = 0.0


@kernel
def rescale(tiles, scale):
    """Multiply the vectors of kept tiles by scale (m,), in place."""
    m, width = scale.shape[0], tiles.shape[2]
    for t in range(tiles.shape[0]):
        s = scale[t * width : min(t * width + width, m)]
        for k in range(tiles.shape[1]):
            line = tiles[t, k]
            for i in range(s.shape[0]):
                line[i] *= s[i]
