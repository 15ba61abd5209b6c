"""The G-optimal design (Wolfe–Atwood), and the certificate of any design."""

import math

import numpy as np

from linmed.kernels.blocks import Held, block_room, pack, padded, products, squared_lengths
from linmed.kernels.compile import deferred, kernel
from linmed.kernels.exchange import desk_room
from linmed.kernels.matrices import times_line
from linmed.kernels.simd import LANES, load, multiply, multiply_add, splat, spread, store
from linmed.kernels.span import adds_up, span_coordinates, start_in_span, weighted_inverse

LONGEST = 1_000_000  # steps of Wolfe–Atwood; linear convergence needs thousands


@deferred("f8(f8[:,::1], f8[::1], f8, f8[::1])")
def optimal_design(A, log_scale, tol, weights):
    """G-optimal design of the rows exp(log_scale_i)·a_i: Frank–Wolfe with away steps (Todd 2016).

    Ends when max leverage ≤ (1 + tol)·rank and no arm of the support lies more than tol below: the
    Kiefer–Wolfowitz certificate. Returns max leverage / rank. A (K,d); log_scale, weights (≥ K,).
    """
    K, d = A.shape
    for i in range(K):
        weights[i] = 0.0
    B, blocks = np.empty((1, K, d)), np.empty((1, block_room(K, d)))
    ones, desk = np.empty(padded(K)), np.empty(desk_room(d))
    rank = start_in_span(A, log_scale, weights, B, blocks, ones, desk)
    total = 0.0
    for i in range(K):
        if rank == 0:
            weights[i] = 1.0 if log_scale[i] > -math.inf else 0.0
        total += weights[i]
    for i in range(K):
        weights[i] /= total
    if rank == 0:
        return 1.0
    view = Held(blocks, 0, K, rank)
    stride = padded(rank)
    M, v, u = rank * stride, 2 * rank * stride, (2 * rank + 1) * stride
    leverage, c = np.empty(padded(K)), np.empty(padded(K))
    step, high = 0, 0
    while True:
        if step % 200 == 0:  # the rank-one updates below drift
            weighted_inverse(B, 0, rank, ones, weights, 0.0, desk)
            high = squared_lengths(view, ones, desk, M, stride, leverage)
        low = -1
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
        for k in range(rank):
            desk[v + k] = B[0, arm, k]
        times_line(desk, M, rank, stride, desk, v, desk, u)
        products(view, desk, u, c)
        shrink = tau / (1.0 - tau + tau * leverage[arm])
        high = 0
        for i in range(K):
            leverage[i] = (leverage[i] - shrink * c[i] * c[i]) / (1.0 - tau)
            high = i if leverage[i] > leverage[high] else high
            weights[i] *= 1.0 - tau
        for j in range(rank):
            share = multiply(splat(-shrink), spread(desk, u + j))
            for k in range(M + j * stride, M + (j + 1) * stride, LANES):
                change = multiply_add(share, load(desk, u + (k - M) % stride), load(desk, k))
                store(desk, k, multiply(change, splat(1.0 / (1.0 - tau))))
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
    weighted_inverse(B, 0, rank, ones, weights, 0.0, desk)
    return leverage[squared_lengths(view, ones, desk, M, stride, leverage)] / rank


@kernel
def optimal_design_of(A, tol, weights):
    """`optimal_design` of the arms as they are.  A (K,d), weights (K,)."""
    return optimal_design(A, np.zeros(A.shape[0]), tol, weights)


@kernel
def certificate(A, weights):
    """max_a ‖a‖² in V(π)⁻¹ / rank of the arms; inf if π does not span them.  A (K,d), weights (K,)."""
    K, d = A.shape
    B = np.empty((1, K, d))
    rank = span_coordinates(A, np.zeros(K), B[0], np.empty(d, np.int64), np.empty((0, 0)))
    if rank == 0:
        return 1.0
    ones, desk, leverage = np.ones(padded(K)), np.empty(desk_room(d)), np.empty(padded(K))
    if not weighted_inverse(B, 0, rank, ones, weights, 1e-13, desk):
        return math.inf
    blocks = np.empty((1, block_room(K, rank)))
    pack(B, 0, rank, blocks, 0)
    stride = padded(rank)
    worst = squared_lengths(Held(blocks, 0, K, rank), ones, desk, rank * stride, stride, leverage)
    return leverage[worst] / rank if adds_up(weights, leverage, K, rank) else math.inf
