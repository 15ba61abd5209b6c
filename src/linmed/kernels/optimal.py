"""The G-optimal design (Wolfe–Atwood), and the certificate of any design."""

import math

import numpy as np

from linmed.kernels.compile import apart, kernel
from linmed.kernels.design import span_coordinates, start_in_span, uniform_over_members, weighted_inverse
from linmed.kernels.linear import argmax, inner_products, squared_lengths, tiles_of

LONGEST = 1_000_000  # steps of Wolfe–Atwood; linear convergence needs thousands


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
    rank = span_coordinates(A, np.zeros(K), everything, np.empty(d, np.int64), np.empty((0, 0)))
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
