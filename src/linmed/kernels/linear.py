"""Inner products and quadratic forms over a set of arms.

Arms are copied, transposed, into tiles of a few dozen: tile[k, i] is feature k of arm i. Loops over the
arms of a tile then run over neighbouring numbers, which the compiler turns into vector instructions
without reordering any sum, and equal arms get equal values wherever they stand, so that ties can go to
the lowest index. All tiles are kept while they fit a cache; for larger sets one tile is refilled as the
arms stream by, so that a million arms need no second copy.

A *set* of m vectors is given by A (K,d), rows (m,), scale (m,), center (d,): the i-th is
scale_i · (A[rows_i] − center).
"""

import numpy as np

from linmed.kernels.compile import kernel

TILE = 136  # arms per tile; an odd number of cache lines, so that features do not evict each other
KEEP = 1 << 18  # keep all tiles up to this many numbers (2 MiB)
BLAS_DIM = 16  # from this dimension on, products of matrices go to BLAS (benchmarks/kernels.py)


@kernel
def argmax(x):  # type: ignore[no-untyped-def]
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
def argmin(x):  # type: ignore[no-untyped-def]
    """Index of the smallest entry, the lowest index on ties."""
    n = x.shape[0]
    best, lowest = 0, x[0]
    whole = n - n % 8
    for i in range(0, whole, 8):
        m0 = x[i] if x[i] < x[i + 4] else x[i + 4]
        m1 = x[i + 1] if x[i + 1] < x[i + 5] else x[i + 5]
        m2 = x[i + 2] if x[i + 2] < x[i + 6] else x[i + 6]
        m3 = x[i + 3] if x[i + 3] < x[i + 7] else x[i + 7]
        m0 = m0 if m0 < m2 else m2
        m1 = m1 if m1 < m3 else m3
        m0 = m0 if m0 < m1 else m1
        if m0 < lowest:
            for j in range(i, i + 8):
                if x[j] < lowest:
                    best, lowest = j, x[j]
    for i in range(whole, n):
        if x[i] < lowest:
            best, lowest = i, x[i]
    return best


@kernel
def fill(A, rows, scale, center, start, tile):  # type: ignore[no-untyped-def]
    """Copy the vectors start, start+1, … of the set into the columns of a tile (d, width)."""
    d, width = tile.shape
    n = min(width, rows.shape[0] - start)
    for i in range(n):
        a = rows[start + i]
        s = scale[start + i]
        for k in range(d):
            tile[k, i] = s * (A[a, k] - center[k])
    for k in range(d):
        for i in range(n, width):
            tile[k, i] = 0.0
    return n


@kernel
def tiles_of(A, rows, scale, center):  # type: ignore[no-untyped-def]
    """The set as tiles (T, d, width): all of them if they are few, else room for one."""
    m, d = rows.shape[0], A.shape[1]
    width = min(TILE, m)
    number = (m + width - 1) // width
    if m * d > KEEP:
        return np.empty((1, d, width))
    tiles = np.empty((number, d, width))
    for t in range(number):
        fill(A, rows, scale, center, t * width, tiles[t])
    return tiles


@kernel
def inner_products(A, rows, scale, center, tiles, x, out):  # type: ignore[no-untyped-def]
    """out_i = ⟨vector i of the set, x⟩.  x (d,), out (m,)."""
    m, d, width = rows.shape[0], A.shape[1], tiles.shape[2]
    kept = tiles.shape[0] * width >= m
    whole = d - d % 4
    for start in range(0, m, width):
        n = min(width, m - start)
        t = start // width if kept else 0
        if not kept:
            fill(A, rows, scale, center, start, tiles[0])
        for i in range(n):
            out[start + i] = 0.0
        for k in range(0, whole, 4):
            x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
            for i in range(n):
                out[start + i] += (x0 * tiles[t, k, i] + x1 * tiles[t, k + 1, i]) + (
                    x2 * tiles[t, k + 2, i] + x3 * tiles[t, k + 3, i]
                )
        for k in range(whole, d):
            xk = x[k]
            for i in range(n):
                out[start + i] += xk * tiles[t, k, i]


@kernel
def squared_lengths(A, rows, scale, center, tiles, M, out):  # type: ignore[no-untyped-def]
    """out_i = vᵢᵀ M vᵢ for the vectors of the set and a symmetric M (d,d).  out (m,)."""
    m, d, width = rows.shape[0], A.shape[1], tiles.shape[2]
    kept = tiles.shape[0] * width >= m
    image = np.empty((d if d >= BLAS_DIM else 1, width))
    for start in range(0, m, width):
        n = min(width, m - start)
        t = start // width if kept else 0
        if not kept:
            fill(A, rows, scale, center, start, tiles[0])
        for i in range(n):
            out[start + i] = 0.0
        if d >= BLAS_DIM:
            np.dot(M, tiles[t], image)
        for j in range(d):
            row = j
            if d < BLAS_DIM:
                row = 0
                for i in range(n):
                    image[0, i] = M[j, j] * tiles[t, j, i]
                for k in range(j):
                    c = 2.0 * M[j, k]
                    for i in range(n):
                        image[0, i] += c * tiles[t, k, i]
            for i in range(n):
                out[start + i] += image[row, i] * tiles[t, j, i]
        for i in range(n):
            out[start + i] = max(out[start + i], 0.0)


@kernel
def matvec(A, x, out):  # type: ignore[no-untyped-def]
    """out = A x for a few arms, by plain loops.  A (K,d), x (d,), out (K,)."""
    for i in range(A.shape[0]):
        total = 0.0
        for k in range(A.shape[1]):
            total += A[i, k] * x[k]
        out[i] = total


@kernel
def squared_norm(A, i, c, M):  # type: ignore[no-untyped-def]
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
def squared_norms(A, c, M, out):  # type: ignore[no-untyped-def]
    """out_i = (a_i − c)ᵀ M (a_i − c).  A (K,d), c (d,), M (d,d) symmetric, out (K,).

    The difference is taken before the product, so near-duplicates of c keep full precision.
    """
    K, d = A.shape
    if K * d <= 64:
        for i in range(K):
            out[i] = squared_norm(A, i, c, M)
        return
    rows, scale = np.arange(K), np.ones(K)
    squared_lengths(A, rows, scale, c, tiles_of(A, rows, scale, c), M, out)
