"""Searches and inner products row by row, where no blocks are at hand."""

from linmed.kernels.compile import kernel, reordered


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
def all_within(A, bound):
    """Whether every |entry| is at most `bound`; NaN is not.  A (K,d)."""
    for i in range(A.shape[0]):
        outside = 0
        for k in range(A.shape[1]):
            outside += not abs(A[i, k]) <= bound
        if outside:
            return False
    return True


@reordered
def row_product(A, i, x):
    """⟨a_i, x⟩."""
    total = 0.0
    for k in range(x.shape[0]):
        total += A[i, k] * x[k]
    return total


@kernel
def matvec(A, x, out):
    """out = A x, row by row.  A (K,d), x (d,), out (K,)."""
    for i in range(A.shape[0]):
        out[i] = row_product(A, i, x)
