"""Inner products and quadratic forms over a set of arms.

Rows are summed in a fixed order that does not depend on where a row stands, so equal arms get equal
values and ties can go to the lowest index.
"""

import numpy as np

from linmed.kernels.compile import kernel

BLOCK = 128  # rows per BLAS call: the block and its image stay in the nearest caches
BLAS_DIM = 12  # below this dimension plain loops are faster than a call of BLAS (benchmarks/switch.py)


@kernel
def dot(x, y):  # type: ignore[no-untyped-def]
    """⟨x, y⟩ with eight running sums, which the compiler turns into vector instructions."""
    d = x.shape[0]
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = d - d % 8
    for k in range(0, whole, 8):
        s0 += x[k] * y[k]
        s1 += x[k + 1] * y[k + 1]
        s2 += x[k + 2] * y[k + 2]
        s3 += x[k + 3] * y[k + 3]
        s4 += x[k + 4] * y[k + 4]
        s5 += x[k + 5] * y[k + 5]
        s6 += x[k + 6] * y[k + 6]
        s7 += x[k + 7] * y[k + 7]
    total = ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
    for k in range(whole, d):
        total += x[k] * y[k]
    return total


@kernel
def matvec(A, x, out):  # type: ignore[no-untyped-def]
    """out = A x.  A (K,d), x (d,), out (K,)."""
    K, d = A.shape
    if d < 8:
        for i in range(K):
            total = 0.0
            for k in range(d):
                total += A[i, k] * x[k]
            out[i] = total
    else:
        for i in range(K):
            out[i] = dot(A[i], x)


@kernel
def squared_norm(M, a, c):  # type: ignore[no-untyped-def]
    """(a − c)ᵀ M (a − c) for a symmetric M, by plain loops.  M (d,d), a, c (d,)."""
    total = 0.0
    for j in range(a.shape[0]):
        dj = a[j] - c[j]
        inner = 0.0
        for k in range(j):
            inner += M[j, k] * (a[k] - c[k])
        total += dj * (2.0 * inner + M[j, j] * dj)
    return max(total, 0.0)


@kernel
def squared_norms(A, center, M, out):  # type: ignore[no-untyped-def]
    """out_i = (a_i − c)ᵀ M (a_i − c).  A (K,d), center (d,), M (d,d) symmetric, out (K,).

    The difference is taken before the product, so near-duplicates of the centre keep full precision.
    """
    K, d = A.shape
    if d < BLAS_DIM:
        for i in range(K):
            out[i] = squared_norm(M, A[i], center)
        return
    rows = min(BLOCK, K)
    D = np.empty((rows, d))
    W = np.empty((rows, d))
    for start in range(0, K, rows):
        stop = min(start + rows, K)
        for i in range(start, stop):
            for k in range(d):
                D[i - start, k] = A[i, k] - center[k]
        np.dot(D, M, W)
        for i in range(start, stop):
            out[i] = max(dot(D[i - start], W[i - start]), 0.0)
