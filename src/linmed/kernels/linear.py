"""Inner products and quadratic forms over a set of arms.

Arms are copied, transposed, into tiles of a few dozen: tile[k, i] is feature k of arm i. Loops over the
arms of a tile then run over neighbouring numbers, which the compiler turns into vector instructions
without reordering any sum, and equal arms get equal values wherever they stand, so that ties can go to
the lowest index. All tiles are kept while they fit a cache; for larger sets one tile is refilled as the
arms stream by, so that a million arms need no second copy.

A *set* of m vectors is given by A (K,d), rows (m,), scale (m,): the i-th is scale_i · A[rows_i].
"""

import numpy as np

from linmed.kernels.compile import kernel

TILE = 136  # arms per tile; an odd number of cache lines, so that features do not evict each other
KEEP = 1 << 18  # keep all tiles up to this many numbers (2 MiB)
BLAS_DIM = 16  # from this dimension on, products of matrices go to BLAS (benchmarks/switch.py)


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
def tiles_of(A, rows, scale):
    """The set as tiles (T, d, width): all of them if they are few, else room for one."""
    m, d = rows.shape[0], A.shape[1]
    width = min(TILE, m)
    if m * d > KEEP:
        return np.empty((1, d, width))
    number = (m + width - 1) // width
    tiles = np.empty((number, d, width))
    for t in range(number):
        fill(A, rows, scale, t * width, tiles[t])
    return tiles


@kernel
def tile_at(A, rows, scale, tiles, start):
    """The tile that begins with vector `start`: kept, or filled now."""
    width = tiles.shape[2]
    if tiles.shape[0] * width >= rows.shape[0]:
        return tiles[start // width]
    fill(A, rows, scale, start, tiles[0])
    return tiles[0]


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
def tile_lengths(tile, M, image, out):
    """out_i = vᵀ M v for the columns v of a tile and a symmetric M (d,d); image is scratch like the tile."""
    d, n = tile.shape[0], out.shape[0]
    if d >= BLAS_DIM:
        np.dot(M, tile, image)
    else:
        for j in range(d):
            line, tj, c = image[j], tile[j], M[j, j]
            for i in range(n):
                line[i] = c * tj[i]
            for k in range(j):
                tk, c = tile[k], 2.0 * M[j, k]
                for i in range(n):
                    line[i] += c * tk[i]
    for i in range(n):
        out[i] = 0.0
    for j in range(d):
        line, tj = image[j], tile[j]
        for i in range(n):
            out[i] += line[i] * tj[i]
    for i in range(n):
        out[i] = max(out[i], 0.0)


@kernel
def inner_products(A, rows, scale, tiles, x, out):
    """out_i = ⟨vector i of the set, x⟩.  x (d,), out (m,)."""
    m, width = rows.shape[0], tiles.shape[2]
    for start in range(0, m, width):
        tile_inner(tile_at(A, rows, scale, tiles, start), x, out[start : min(start + width, m)])


@kernel
def squared_lengths(A, rows, scale, tiles, M, out):
    """out_i = vᵀ M v for the vectors v of the set and a symmetric M (d,d).  out (m,)."""
    m, width = rows.shape[0], tiles.shape[2]
    image = np.empty((A.shape[1], width))
    for start in range(0, m, width):
        tile_lengths(tile_at(A, rows, scale, tiles, start), M, image, out[start : min(start + width, m)])


@kernel
def matvec(A, x, out):
    """out = A x for a few arms, by plain loops.  A (K,d), x (d,), out (K,)."""
    for i in range(A.shape[0]):
        total = 0.0
        for k in range(A.shape[1]):
            total += A[i, k] * x[k]
        out[i] = total


@kernel
def squared_norm(A, i, c, M):
    """(a_i − c)ᵀ M (a_i − c) for one arm and a symmetric M.  A (K,d), c (d,), M (d,d)."""
    total = 0.0
    for j in range(c.shape[0]):
        dj = A[i, j] - c[j]
        inner = 0.0
        for k in range(j):
            inner += M[j, k] * (A[i, k] - c[k])
        total += dj * (2.0 * inner + M[j, j] * dj)
    return max(total, 0.0)


@kernel
def squared_norms(A, c, M, out):
    """out_i = (a_i − c)ᵀ M (a_i − c).  A (K,d), c (d,), M (d,d) symmetric, out (K,).

    The difference is taken before the product, so near-duplicates of c keep full precision.
    """
    K, d = A.shape
    if K * d <= 64:
        for i in range(K):
            out[i] = squared_norm(A, i, c, M)
        return
    rows, ones = np.arange(K), np.ones(K)
    width = min(TILE, K)
    tile, image = np.empty((d, width)), np.empty((d, width))
    for start in range(0, K, width):
        fill(A, rows, ones, start, tile)
        subtract(tile, c, tile)
        tile_lengths(tile, M, image, out[start : min(start + width, K)])


@kernel
def subtract(tile, c, out):
    """out = tile − c, column by column."""
    for k in range(tile.shape[0]):
        source, target, ck = tile[k], out[k], c[k]
        for i in range(tile.shape[1]):
            target[i] = source[i] - ck


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
