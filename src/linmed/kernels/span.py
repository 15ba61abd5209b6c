"""Coordinates in which a set of arms is well conditioned, and designs made there.

The arms may span less than the space, be nearly dependent, or have scales beyond float64's range: designs do
not change under an invertible map, so they are made in coordinates of the span.
"""

import math

import numpy as np

from linmed.kernels.blocks import Held, block, block_room, pack, padded, squared_lengths
from linmed.kernels.compile import deferred, inlined
from linmed.kernels.exchange import LARGEST, NEGLIGIBLE, add_greedily, betke_henk, desk_room
from linmed.kernels.matrices import add_outer, clear, invert
from linmed.kernels.simd import LANES


@deferred("intp(f8[:,::1], f8[::1], f8[:,::1], i8[::1], f8[:,::1])")
def span_coordinates(A, log_scale, B, pivots, lift):
    """Well-conditioned coordinates of exp(log_scale_i)·a_i in their span; returns the rank r.

    A (K,d), log_scale (K,), B (K,d) of which the first r columns are filled, pivots (d,). lift (d,d),
    unless it is empty, takes coordinates back: ⟨lift x, a_i⟩ = ⟨x, b_i⟩ where log_scale_i = 0.
    Gram–Schmidt that always takes the arm with the largest remainder as the next direction and measures
    along it in units of that remainder: all coordinates are at most 1, however far apart the scales are.
    An arm's remainder counts as zero when it is below 1e-10 of the arm itself.
    """
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
            if lift.shape[0] > 0:
                lift[k, rank] = q[k] * math.exp(-log_unit)
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


@inlined
def weighted_inverse(arms, p, d, scale, weight, smallest_pivot, desk):
    """M = (Σ weight_i v_i v_iᵀ)⁻¹ on the desk; False if a pivot falls below its share of the diagonal.

    arms (·,K,≥ d), of which the first d features count; scale, weight (≥ K,); desk as for a design.
    """
    stride = padded(d)
    M, v = d * stride, 2 * d * stride
    clear(desk, M, (d + 4) * stride)
    for i in range(arms.shape[1]):
        if weight[i] > 0.0:
            for k in range(d):
                desk[v + k] = scale[i] * arms[p, i, k]
            add_outer(desk, M, d, stride, desk, v, weight[i])
    return invert(desk, M, d, stride, smallest_pivot, v + 2 * stride, v + 3 * stride)


@inlined
def adds_up(weight, leverage, K, rank):
    """Whether Σ weight_i leverage_i is the rank, as it is unless rounding has eaten the inverse."""
    total = 0.0
    for i in range(K):
        total += weight[i] * leverage[i]
    return abs(total - rank) <= 1e-6 * rank


@deferred("intp(f8[:,::1], f8[::1], f8[::1], f8[:,:,::1], f8[:,::1], f8[::1], f8[::1])")
def start_in_span(A, log_scale, count, coordinates, blocks, ones, desk):
    """Coordinates of the span, their blocks, and a set of arms in `count` that spans it; returns the rank r.

    `count` may come with a set found elsewhere, which is kept at full rank and completed if need be. Writes
    coordinates (1,K,d), of which r features count, their blocks to blocks[0], 1 to `ones` for every arm that
    takes part, and M = (Σ count_i b_i b_iᵀ)⁻¹ to the desk of r dimensions.
    """
    K, d = A.shape
    pivots = np.empty(d, np.int64)
    rank = span_coordinates(A, log_scale, coordinates[0], pivots, np.empty((0, 0)))
    if rank == 0:
        return 0
    pack(coordinates, 0, rank, blocks, 0)
    view = Held(blocks, 0, K, rank)
    given = 0.0
    for i in range(padded(K)):
        present = blocks[0, block(view, i // LANES * LANES) + rank * LANES + i % LANES]
        ones[i] = present if i < K and log_scale[i] > -math.inf else 0.0
        given += count[i] if i < K else 0.0
    if rank < d or given == 0.0:
        betke_henk(coordinates, 0, view, ones, count, desk)
    spanning = weighted_inverse(coordinates, 0, rank, ones, count, 1e-9, desk)
    if spanning:  # a set found where rounding decides may span by its smallest arms alone
        stride, leverage = padded(rank), np.empty(padded(K))
        worst = squared_lengths(view, ones, desk, rank * stride, stride, leverage)
        spanning = leverage[worst] < LARGEST and adds_up(count, leverage, K, rank)
    if not spanning:
        for k in range(rank):
            count[pivots[k]] = 1.0
        weighted_inverse(coordinates, 0, rank, ones, count, 0.0, desk)
    return rank


@deferred("f8(f8[:,::1], f8[::1], f8[::1])")
def approx_counts_in_span(A, log_scale, count):
    """ApproxDesign of the rows exp(log_scale_i)·a_i as counts, for whatever arms; returns their sum.

    BH's set may be given in `count`.
    """
    K, d = A.shape
    coordinates, blocks = np.empty((1, K, d)), np.empty((1, block_room(K, d)))
    ones, leverage, desk = np.empty(padded(K)), np.empty(padded(K)), np.empty(desk_room(d))
    rank = start_in_span(A, log_scale, count, coordinates, blocks, ones, desk)
    total = 0.0
    if rank > 0:
        view = Held(blocks, 0, K, rank)
        stride = padded(rank)
        worst = squared_lengths(view, ones, desk, rank * stride, stride, leverage)
        add_greedily(coordinates, 0, view, ones, worst, leverage, count, desk)
    for i in range(K):
        if rank == 0:
            count[i] = 1.0 if log_scale[i] > -math.inf else 0.0
        total += count[i]
    return total
