"""Designs: the paper's ApproxDesign (Algorithms 4 and 5) and the G-optimal design (Wolfe–Atwood).

A design is computed for the rows exp(log_scale_i)·a_i, because LinMED rescales its arms by √f and √f
may lie far below the smallest float64. log_scale_i = −inf leaves arm i out.

Designs do not change under an invertible map of the arms, so every quadratic form may be taken in the
coordinates where it is accurate: the arms' own when they are well conditioned, and otherwise those of
`span_coordinates`. Only the set chosen by BH depends on the coordinates; at full rank it is found in
the arms' own.
"""

import math

import numpy as np

from linmed.kernels.compile import apart, kernel
from linmed.kernels.linear import (
    KEEP,
    argmax,
    extreme_products,
    inner_products,
    lower_lengths,
    rescale,
    squared_lengths,
    squared_norm,
    tile_inner,
    tiles_of,
)
from linmed.kernels.screening import screened_extremes, single_precision

NEGLIGIBLE = 1e-10  # a component this small relative to its own vector is rounding
STOP = 1.0 + 1e-9  # the greedy loop ends when no leverage exceeds this
LONGEST = 1_000_000  # steps of Wolfe–Atwood; linear convergence needs thousands


@kernel
def subtract_outer(M, x, factor):
    """M −= factor · x xᵀ.  M (d,d), x (d,)."""
    for j in range(x.shape[0]):
        row, share = M[j], factor * x[j]
        for k in range(x.shape[0]):
            row[k] -= share * x[k]


@kernel
def betke_henk(A, rows, scale, tiles, count):
    """Algorithm 4 for the set (A, rows, scale); sets count to 1 on the chosen members.  count (m,).

    Where all arms have the same inner product with the new direction (a hyperplane off the origin), the
    difference of the two extreme arms vanishes; one arm alone then takes its place.
    """
    apart()
    m, d = rows.shape[0], A.shape[1]
    P = np.zeros((d, d))  # projects onto the complement of the directions v⊥ found so far
    for k in range(d):
        P[k, k] = 1.0
    b, v, rest = np.empty(d), np.empty(d), np.empty(d)
    scratch = np.empty(m if tiles.shape[0] > 0 else 0)
    screened = m * d > KEEP
    single = single_precision(A, rows, scale) if screened else np.empty((0, d), np.float32)
    score = np.empty(m if screened else 0, np.float32)
    for axis in range(d):
        for k in range(d):
            b[k] = P[axis, k]
        if squared_norm(b) < NEGLIGIBLE * NEGLIGIBLE:
            continue  # the axis already lies in the span of the directions
        if screened:
            top, bottom, highest, lowest = screened_extremes(A, rows, scale, single, b, score)
        else:
            top, bottom, highest, lowest = extreme_products(A, rows, scale, tiles, b, scratch)
        count[top] = 1.0
        for k in range(d):
            v[k] = scale[top] * A[rows[top], k]
        if highest - lowest > NEGLIGIBLE * max(abs(highest), abs(lowest)):
            count[bottom] = 1.0
            for k in range(d):
                v[k] -= scale[bottom] * A[rows[bottom], k]
        tile_inner(P, v, rest)
        length2 = squared_norm(rest)
        if length2 > NEGLIGIBLE * NEGLIGIBLE * squared_norm(v):
            subtract_outer(P, rest, 1.0 / length2)


@kernel
def weighted_gram(A, rows, scale, weight, M):
    """M = Σ weight_i v_i v_iᵀ over the set, lower triangle.  M (d,d)."""
    d = A.shape[1]
    for j in range(d):
        for k in range(d):
            M[j, k] = 0.0
    for i in np.nonzero(weight)[0]:
        a, square = rows[i], weight[i] * scale[i] * scale[i]
        for j in range(d):
            c = square * A[a, j]
            for k in range(j + 1):
                M[j, k] += c * A[a, k]


@kernel
def weighted_inverse(A, rows, scale, weight, smallest_pivot, M):
    """M = (Σ weight_i v_i v_iᵀ)⁻¹ over the set; False if a pivot falls below its share of the diagonal.

    The symmetric sweep (Gauss–Jordan on one triangle): after the k-th, the first k+1 rows and columns
    hold minus the inverse of the leading block.
    """
    apart()
    d = A.shape[1]
    weighted_gram(A, rows, scale, weight, M)
    diagonal, column = np.empty(d), np.empty(d)
    for k in range(d):
        diagonal[k] = M[k, k]
    for k in range(d):
        pivot = M[k, k]
        if not pivot > smallest_pivot * diagonal[k]:
            return False
        for i in range(k):
            column[i] = M[k, i]
        for i in range(k, d):
            column[i] = M[i, k]
        for i in range(d):
            share = column[i] / pivot
            for j in range(i + 1):
                M[i, j] -= share * column[j]
        for i in range(k):
            M[k, i] = column[i] / pivot
        for i in range(k, d):
            M[i, k] = column[i] / pivot
        M[k, k] = -1.0 / pivot
    for i in range(d):
        for j in range(i + 1):
            M[i, j] = M[j, i] = -M[i, j]
    return True


@kernel
def span_coordinates(A, log_scale, B, pivots):
    """Well-conditioned coordinates of exp(log_scale_i)·a_i in their span; returns the rank r.

    A (K,d), log_scale (K,), B (K,d) of which the first r columns are filled, pivots (d,).
    Gram–Schmidt that always takes the arm with the largest remainder as the next direction and measures
    along it in units of that remainder: all coordinates are at most 1, however far apart the scales are.
    An arm's remainder counts as zero when it is below 1e-10 of the arm itself.
    """
    apart()
    K, d = A.shape
    rest = np.empty((K, d))  # unit arm minus what the directions so far explain
    size = np.empty(K)  # its norm
    log_norm = np.empty(K)
    for i in range(K):
        largest = 0.0
        for k in range(d):
            largest = max(largest, abs(A[i, k]))
        if largest == 0.0 or log_scale[i] == -math.inf:
            log_norm[i] = -math.inf
            size[i] = 0.0
            for k in range(d):
                rest[i, k] = 0.0
            continue
        total = 0.0
        for k in range(d):
            rest[i, k] = A[i, k] / largest
            total += rest[i, k] * rest[i, k]
        norm = math.sqrt(total)
        for k in range(d):
            rest[i, k] /= norm
        log_norm[i] = math.log(largest) + math.log(norm) + log_scale[i]
        size[i] = 1.0
    direction = np.empty((d, d))
    for rank in range(d):
        best = -1
        log_unit = 0.0
        for i in range(K):
            if size[i] > NEGLIGIBLE:
                value = log_norm[i] + math.log(size[i])
                if best < 0 or value > log_unit:
                    best, log_unit = i, value
        if best < 0:
            return rank
        pivots[rank] = best
        q = direction[rank]
        for k in range(d):
            q[k] = rest[best, k] / size[best]
        for j in range(rank):  # once more, against the rounding of the first pass
            share = 0.0
            for k in range(d):
                share += direction[j, k] * q[k]
            for k in range(d):
                q[k] -= share * direction[j, k]
        total = 0.0
        for k in range(d):
            total += q[k] * q[k]
        norm = math.sqrt(total)
        for k in range(d):
            q[k] /= norm
        for i in range(K):
            B[i, rank] = 0.0
            if size[i] > 0.0:
                along = 0.0
                for k in range(d):
                    along += rest[i, k] * q[k]
                B[i, rank] = along * math.exp(log_norm[i] - log_unit)
                total = 0.0
                for k in range(d):
                    rest[i, k] -= along * q[k]
                    total += rest[i, k] * rest[i, k]
                size[i] = math.sqrt(total)
                if size[i] <= NEGLIGIBLE or i == best:
                    size[i] = 0.0
    return d


@kernel
def add_greedily(A, rows, scale, tiles, M, leverage, count):
    """The loop of Algorithm 5: add the arm of largest leverage until none exceeds 1.

    M = (Σ count_i v_i v_iᵀ)⁻¹ over the set, leverage_i = v_iᵀ M v_i. Each addition at least doubles
    det V, so the loop ends.
    """
    apart()
    d = A.shape[1]
    u, v = np.empty(d), np.empty(d)
    scratch = np.empty(rows.shape[0] if tiles.shape[0] > 0 else 0)
    worst = argmax(leverage)
    while leverage[worst] > STOP:
        count[worst] += 1.0
        for k in range(d):
            v[k] = scale[worst] * A[rows[worst], k]
        tile_inner(M, v, u)
        shrink = 1.0 / (1.0 + leverage[worst])
        subtract_outer(M, u, shrink)
        worst = lower_lengths(A, rows, scale, tiles, u, shrink, leverage, scratch)


@kernel
def uniform_over_members(log_scale, weights):
    """Equal weight on every arm that takes part."""
    members = 0
    for i in range(log_scale.shape[0]):
        if log_scale[i] > -math.inf:
            members += 1
    for i in range(log_scale.shape[0]):
        weights[i] = 1.0 / members if log_scale[i] > -math.inf else 0.0


@kernel
def start_in_span(A, log_scale, count):
    """Coordinates B (K,r) of the span, a set of arms in `count` that spans it, and the inverse M (r,r).

    `count` (K,) may come with a set found elsewhere, which is kept at full rank and completed if need be.
    """
    apart()
    K, d = A.shape
    everything = np.empty((K, d))
    pivots = np.empty(d, np.int64)
    rank = span_coordinates(A, log_scale, everything, pivots)
    B = np.ascontiguousarray(everything[:, :rank])
    M = np.empty((rank, rank))
    if rank == 0:
        return B, M
    given = 0.0
    for i in range(K):
        given += count[i]
    rows, ones = np.arange(K), np.ones(K)
    if rank < d or given == 0.0:
        for i in range(K):
            count[i] = 0.0
        members = np.nonzero(log_scale > -math.inf)[0]
        chosen = np.zeros(members.shape[0])
        tiles = tiles_of(B, members, ones)
        betke_henk(B, members, ones, tiles, chosen)
        for i in range(members.shape[0]):
            count[members[i]] = chosen[i]
    if not weighted_inverse(B, rows, ones, count, 1e-9, M):
        for k in range(rank):
            count[pivots[k]] = 1.0
        weighted_inverse(B, rows, ones, count, 0.0, M)
    return B, M


@kernel
def approx_design(A, log_scale, weights):
    """ApproxDesign (Algorithm 5) of the rows exp(log_scale_i)·a_i.  A (K,d), log_scale, weights (K,)."""
    K, d = A.shape
    members = 0
    top = -math.inf
    for i in range(K):
        if log_scale[i] > -math.inf:
            members += 1
            top = max(top, log_scale[i])
    if members <= 2 * d:  # Algorithm 4, line 1: all arms, whose leverages then are at most 1
        uniform_over_members(log_scale, weights)
        return
    scale = np.empty(K)
    for i in range(K):
        scale[i] = math.exp(log_scale[i] - top)
    approx_design_of_many(A, log_scale, scale, np.empty((0, d, 1)), weights)


@kernel
def approx_design_of_many(A, log_scale, all_scale, tiles, weights):
    """The same for more than 2d arms, with all_scale = exp(log_scale) up to a factor.

    tiles may hold all the arms unscaled; they are then used up. all_scale (K,).
    """
    apart()
    K, d = A.shape
    rows, scale = np.empty(K, np.int64), np.empty(K)
    m = 0
    for i in range(K):
        weights[i] = 0.0
        if all_scale[i] > 0.0:
            for k in range(d):
                if A[i, k] != 0.0:  # a zero arm informs of nothing and takes no part
                    rows[m], scale[m] = i, all_scale[i]
                    m += 1
                    break
    rows, scale = rows[:m], scale[:m]
    count, leverage = np.zeros(m), np.empty(m)
    M = np.empty((d, d))
    solved = False
    if m >= d:
        if m == K and tiles.shape[0] > 0:
            rescale(tiles, scale)
        else:
            tiles = tiles_of(A, rows, scale)
        betke_henk(A, rows, scale, tiles, count)
        if weighted_inverse(A, rows, scale, count, 1e-7, M):
            squared_lengths(A, rows, scale, tiles, M, leverage)
            if leverage[argmax(leverage)] < 1e6:
                add_greedily(A, rows, scale, tiles, M, leverage, count)
                solved = True
    for i in range(m):
        weights[rows[i]] = count[i]
    if not solved:
        B, M = start_in_span(A, log_scale, weights)
        rank = B.shape[1]
        if rank == 0:
            uniform_over_members(log_scale, weights)
            return
        rows, scale = np.arange(K), np.ones(K)
        leverage = np.empty(K)
        tiles = tiles_of(B, rows, scale)
        squared_lengths(B, rows, scale, tiles, M, leverage)
        add_greedily(B, rows, scale, tiles, M, leverage, weights)
    total = 0.0
    for i in range(K):
        total += weights[i]
    for i in range(K):
        weights[i] /= total


@kernel
def optimal_design(A, log_scale, tol, weights):
    """G-optimal design of the rows exp(log_scale_i)·a_i: Frank–Wolfe with away steps (Todd 2016).

    Ends when max leverage ≤ (1 + tol)·rank and no arm of the support lies more than tol below: the
    Kiefer–Wolfowitz certificate. Returns max leverage / rank. A (K,d), log_scale, weights (K,).
    """
    apart()
    K = A.shape[0]
    for i in range(K):
        weights[i] = 0.0
    B, M = start_in_span(A, log_scale, weights)
    rank = B.shape[1]
    if rank == 0:
        uniform_over_members(log_scale, weights)
        return 1.0
    total = 0.0
    for i in range(K):
        total += weights[i]
    for i in range(K):
        weights[i] /= total
    rows, ones = np.arange(K), np.ones(K)
    tiles = tiles_of(B, rows, ones)
    leverage, c, u = np.empty(K), np.empty(K), np.empty(rank)
    step = 0
    while True:
        if step % 200 == 0:  # the rank-one updates below drift
            weighted_inverse(B, rows, ones, weights, 0.0, M)
            squared_lengths(B, rows, ones, tiles, M, leverage)
        high, low = argmax(leverage), -1
        for i in range(K):
            if weights[i] > 0.0 and (low < 0 or leverage[i] < leverage[low]):
                low = i
        over = leverage[high] / rank - 1.0
        under = 1.0 - leverage[low] / rank
        if (over <= tol and under <= tol) or step >= LONGEST or rank == 1:
            break
        if over >= under:
            arm = high
            tau = over / (leverage[high] - 1.0)
        else:
            arm = low
            tau = -weights[low] / (1.0 - weights[low])  # drops the arm
            if leverage[low] > 1.0:
                tau = max(-under / (leverage[low] - 1.0), tau)
        dropped = tau < 0.0 and tau == -weights[arm] / (1.0 - weights[arm])
        w = leverage[arm]
        for j in range(rank):
            u[j] = 0.0
        for k in range(rank):
            for j in range(rank):
                u[j] += B[arm, k] * M[k, j]
        inner_products(B, rows, ones, tiles, u, c)
        shrink = tau / (1.0 - tau + tau * w)
        for i in range(K):
            leverage[i] = (leverage[i] - shrink * c[i] * c[i]) / (1.0 - tau)
            weights[i] *= 1.0 - tau
        for j in range(rank):
            for k in range(rank):
                M[j, k] = (M[j, k] - shrink * u[j] * u[k]) / (1.0 - tau)
        weights[arm] = 0.0 if dropped else weights[arm] + tau
        step += 1
    if rank == 1:  # all weight on the longest arm
        for i in range(K):
            weights[i] = 1.0 if i == high else 0.0
    total = 0.0
    for i in range(K):
        if weights[i] < 1e-9 / K:
            weights[i] = 0.0
        total += weights[i]
    for i in range(K):
        weights[i] /= total
    weighted_inverse(B, rows, ones, weights, 0.0, M)
    squared_lengths(B, rows, ones, tiles, M, leverage)
    return leverage[argmax(leverage)] / rank


@kernel
def certificate(A, weights):
    """max_a ‖a‖² in V(π)⁻¹ / rank of the arms; inf if π does not span them.  A (K,d), weights (K,)."""
    K, d = A.shape
    everything = np.empty((K, d))
    rank = span_coordinates(A, np.zeros(K), everything, np.empty(d, np.int64))
    if rank == 0:
        return 1.0
    B = np.ascontiguousarray(everything[:, :rank])
    M = np.empty((rank, rank))
    rows, ones = np.arange(K), np.ones(K)
    if not weighted_inverse(B, rows, ones, weights, 1e-13, M):
        return math.inf
    leverage = np.empty(K)
    squared_lengths(B, rows, ones, tiles_of(B, rows, ones), M, leverage)
    return leverage[argmax(leverage)] / rank
