"""A concave quadratic on the simplex: max Σ G_i Δ_i − ½ Δᵀ H Δ over x + Δ ≥ 0, Σ Δ = 0, for a dense H.

Exchanges between two entries find most of the entries that stay positive and cost one row of H each. On the
face of those that are left the maximum is a system of equations, solved by Cholesky; an entry that would turn
negative leaves the face, and the solution follows by an update. Vectors have a multiple of eight entries, the
rest of which are zeros that stay zeros. No sum depends on the processor: lanes keep their own order.
"""

import math

import numpy as np

from linmed.kernels.blocks import padded
from linmed.kernels.compile import deferred
from linmed.kernels.linear import argmax
from linmed.kernels.simd import LANES, load, multiply_add, splat, store, sum_lanes

BETWEEN_CHECKS = 32  # exchanges
SINGULAR = 1e-11  # a pivot this small relative to its diagonal is rounding
MOST_LEAVERS = 128


@deferred("void(f8[:,::1], f8[::1], f8[::1], f8, intp)")
def exchange(H, G, x, within, most):
    """Exchanges until max G − Σ x G/Σ x ≤ within, `most` at the most; x and the gradient G follow.  H (n,n).

    Mass moves to the entry of largest G from the one that then gains most, as far as is best.
    """
    n = x.shape[0]
    own, gain = np.empty(n), np.empty(n)
    for i in range(n):
        own[i] = H[i, i]
    for step in range(most):
        high = argmax(G)
        if step % BETWEEN_CHECKS == 0:
            total, mean = 0.0, 0.0
            for i in range(n):
                total += x[i]
                mean += x[i] * G[i]
            if G[high] - mean / total <= within:
                return
        to, top, own_top = H[high], G[high], own[high]
        for i in range(n):
            rise = max(top - G[i], 0.0)
            bend = max(own_top + own[i] - 2.0 * to[i], 1e-300)
            gain[i] = rise * min(x[i], rise / bend)
        low = argmax(gain)
        if not gain[low] > 0.0:
            return
        rise = top - G[low]
        amount = x[low]
        if rise < amount * (own_top + own[low] - 2.0 * to[low]):
            amount = rise / (own_top + own[low] - 2.0 * to[low])
        x[high] += amount
        x[low] = x[low] - amount if amount < x[low] else 0.0
        away = H[low]
        for i in range(n):
            G[i] -= amount * (to[i] - away[i])


@deferred("void(f8[:,::1], f8[::1])")
def factor(L, inverse):
    """Cholesky of the lower triangle of L in place, but for the diagonal: inverse_i = 1/L_ii.

    Where a pivot is rounding, inverse_i = 0: solutions leave entry i at 0. L (n,n), n a multiple of eight.
    """
    n = L.shape[0]
    panel = np.empty((n, LANES))
    for i in range(n):
        inverse[i] = SINGULAR * L[i, i]
    for first in range(0, n, LANES):  # eight columns; what the columns before take from them …
        for lane in range(LANES):
            for k in range(first):
                panel[k, lane] = -L[first + lane, k]
        for i in range(first, n, 4):
            s0, s1 = load(L, i * n + first), load(L, (i + 1) * n + first)
            s2, s3 = load(L, (i + 2) * n + first), load(L, (i + 3) * n + first)
            for k in range(first):
                column = load(panel, LANES * k)
                s0 = multiply_add(splat(L[i, k]), column, s0)
                s1 = multiply_add(splat(L[i + 1, k]), column, s1)
                s2 = multiply_add(splat(L[i + 2, k]), column, s2)
                s3 = multiply_add(splat(L[i + 3, k]), column, s3)
            store(L, i * n + first, s0)
            store(L, (i + 1) * n + first, s1)
            store(L, (i + 2) * n + first, s2)
            store(L, (i + 3) * n + first, s3)
        for i in range(first, n):  # … and what they take from one another
            for j in range(first, min(i + 1, first + LANES)):
                rest = L[i, j]
                for k in range(first, j):
                    rest -= L[i, k] * L[j, k]
                if j < i:
                    L[i, j] = rest * inverse[j]
                else:
                    inverse[i] = 1.0 / math.sqrt(rest) if rest > inverse[i] else 0.0


@deferred("void(f8[:,::1], f8[::1], intp, f8[::1])")
def solve(L, inverse, start, x):
    """x ← (L Lᵀ)⁻¹ x for an x (n,) that is zero before `start`."""
    n = L.shape[0]
    start -= start % LANES
    for i in range(start, n):
        whole = i - i % LANES
        s = splat(0.0)
        for k in range(start, whole, LANES):
            s = multiply_add(load(L, i * n + k), load(x, k), s)
        inner = sum_lanes(s)
        for k in range(whole, i):
            inner += L[i, k] * x[k]
        x[i] = (x[i] - inner) * inverse[i]
    for i in range(n - 1, -1, -1):
        x[i] *= inverse[i]
        xi, row = x[i], L[i]
        for k in range(i):
            x[k] -= xi * row[k]


@deferred("void(f8[::1], f8[::1], f8[::1])")
def balance(y, ones, d):
    """d = y − ν·ones with Σ d = 0."""
    above, below = 0.0, 0.0
    for i in range(d.shape[0]):
        above += y[i]
        below += ones[i]
    nu = above / below if below > 0.0 else 0.0
    for i in range(d.shape[0]):
        d[i] = y[i] - nu * ones[i]


@deferred("i8[::1](f8[:,::1], f8[::1])")
def positive_entries(H, x):
    """Indices of the positive x_i, those with the largest x_i √H_ii first."""
    found = np.nonzero(x)[0]
    for i in range(1, found.shape[0]):
        new = found[i]
        size = x[new] * x[new] * H[new, new]
        k = i
        while k > 0 and x[found[k - 1]] * x[found[k - 1]] * H[found[k - 1], found[k - 1]] < size:
            found[k] = found[k - 1]
            k -= 1
        found[k] = new
    return found


@deferred("f8(f8[:,::1], f8[::1], f8[::1])")
def gained(H, G, change):
    """Σ G_i Δ_i − ½ Δᵀ H Δ."""
    total = 0.0
    for i in np.nonzero(change)[0]:
        bend = splat(0.0)
        for k in range(0, change.shape[0], LANES):
            bend = multiply_add(load(H, i * H.shape[0] + k), load(change, k), bend)
        total += change[i] * (G[i] - 0.5 * sum_lanes(bend))
    return total


@deferred("void(f8[:,::1], f8[::1], f8[::1])")
def climb_face(H, G, x):
    """Move x to the maximum on the face of its positive entries, or of those that are left.  G is read only.

    Where H is singular on the face, the smaller entries stay what they are. With N = H⁻¹, Δ = N G − ν N 1.
    When entry j leaves, N loses v vᵀ for v = N e_j/√N_jj; the v are kept, N is not.
    """
    face = positive_entries(H, x)
    m = face.shape[0]
    n = padded(m)
    L, inverse = np.zeros((n, n)), np.empty(n)
    y, ones, d, z, stays = np.zeros(n), np.zeros(n), np.empty(n), np.zeros(n), np.ones(n)
    level = G[face[0]]
    for i in range(m):
        for k in range(i + 1):
            L[i, k] = H[face[i], face[k]]
        y[i], ones[i], z[i] = G[face[i]] - level, 1.0, x[face[i]]
    factor(L, inverse)
    solve(L, inverse, 0, y)
    solve(L, inverse, 0, ones)
    left = np.empty((MOST_LEAVERS, n))
    for leavers in range(MOST_LEAVERS + 1):
        balance(y, ones, d)
        j, share = -1, 1.0
        for i in range(m):
            if z[i] + share * d[i] < 0.0:
                j, share = i, z[i] / -d[i]
        for i in range(m):
            z[i] = max(z[i] + share * d[i], 0.0)
        if j < 0:
            break
        z[j], stays[j] = 0.0, 0.0
        if leavers == MOST_LEAVERS:
            break
        v = left[leavers]
        for i in range(n):
            v[i] = 0.0
        v[j] = 1.0
        solve(L, inverse, j, v)
        for before in range(leavers):
            u = left[before]
            uj = u[j]
            for i in range(n):
                v[i] -= u[i] * uj
        if not v[j] > 0.0:
            break
        root = math.sqrt(v[j])
        to_y, to_ones = (1.0 - share) * d[j] / root, ones[j] / root
        for i in range(n):
            v[i] = stays[i] * (v[i] / root)
            y[i] = stays[i] * ((1.0 - share) * d[i] - to_y * v[i])
            ones[i] = stays[i] * (ones[i] - to_ones * v[i])
    change = np.zeros(x.shape[0])
    for i in range(m):
        change[face[i]] = z[i] - x[face[i]]
    if gained(H, G, change) > 0.0:  # no rounding of an ill-conditioned H may lead astray
        for i in range(m):
            x[face[i]] = z[i]
