"""The paper's ApproxDesign (Algorithms 4 and 5).

A design is computed for the rows exp(log_scale_i)·a_i, because LinMED rescales its arms by √f and √f
may lie far below the smallest float64. log_scale_i = −inf leaves arm i out.

Designs do not change under an invertible map of the arms, so every quadratic form may be taken in the
coordinates where it is accurate: the arms' own when they are well conditioned, and otherwise those of
`span`. Only the set chosen by BH depends on the coordinates; at full rank it is found in the arms' own.
"""

import math

import numpy as np

from linmed.kernels.blocks import Held, block_room, held, leave_out_zero_arms, pack, padded
from linmed.kernels.compile import borrowed, deferred, inlined, kernel
from linmed.kernels.exchange import approx_counts_of, desk_room
from linmed.kernels.many import Streamed, single_precision
from linmed.kernels.span import approx_counts_in_span


@deferred("f8(f8[:,:,::1], intp, f8[:,::1], intp, f8[::1], f8[::1], f8[::1], f8[::1])")
def approx_counts_of_blocks(arms, p, blocks, n, scale, count, leverage, desk):
    """`approx_counts_of` set p of arms (·,K,d), whose blocks are in blocks[n]; zero arms take no part."""
    arms, blocks, scale, count, leverage, desk = borrowed((arms, blocks, scale, count, leverage, desk))
    view = Held(blocks, n, arms.shape[1], arms.shape[2])
    leave_out_zero_arms(view, scale)
    return approx_counts_of(arms, p, view, scale, count, leverage, desk)


@deferred("f8(f8[:,:,::1], intp, f8[::1], f8[::1], f8[::1], f8[::1])")
def approx_counts_of_many(arms, p, scale, count, leverage, desk):
    """`approx_counts_of` set p of arms (·,K,d), too many to be held in blocks; zero arms take no part."""
    K, d = arms.shape[1], arms.shape[2]
    for i in range(K):
        k = 0
        while k < d and arms[p, i, k] == 0.0:
            k += 1
        if k == d:
            scale[i] = 0.0
    room = np.empty((1, block_room(1, d)))
    view = Streamed(arms, p, room, single_precision(arms, p, scale), np.empty(K, np.float32), K, d)
    return approx_counts_of(arms, p, view, scale, count, leverage, desk)


@inlined
def approx_counts(arms, p, blocks, n, scale, count, leverage, desk):
    """ApproxDesign of more than 2d arms times `scale` as counts of every arm; returns their sum, or −1 where
    they are ill-conditioned, for `approx_counts_in_span` to go on with.

    Set p of arms (·,K,d) and its blocks in blocks[n], unless there are too many; scale, count and leverage
    are padded to whole blocks, desk has `desk_room`; all are written.
    """
    if held(arms.shape[1], arms.shape[2]):
        return approx_counts_of_blocks(arms, p, blocks, n, scale, count, leverage, desk)
    return approx_counts_of_many(arms, p, scale, count, leverage, desk)


@deferred("void(f8[:,::1], f8[::1], f8[::1])")
def approx_design_of(A, log_scale, weights):
    """ApproxDesign (Algorithm 5) of the rows exp(log_scale_i)·a_i.  A (K,d), log_scale, weights (K,)."""
    K, d = A.shape
    members, top = 0, -math.inf
    for i in range(K):
        members += log_scale[i] > -math.inf
        top = max(top, log_scale[i])
    count = np.zeros(padded(K))
    if members <= 2 * d:  # Algorithm 4, line 1: all arms, whose leverages then are at most 1
        for i in range(K):
            count[i] = 1.0 if log_scale[i] > -math.inf else 0.0
        total = float(members)
    else:
        arms = A.reshape((1, K, d))
        blocks = np.empty((1, block_room(K, d) if held(K, d) else 0))
        if held(K, d):
            pack(arms, 0, d, blocks, 0)
        scale = np.zeros(padded(K))
        for i in range(K):
            scale[i] = math.exp(log_scale[i] - top)
        total = approx_counts(arms, 0, blocks, 0, scale, count, np.empty(padded(K)), np.empty(desk_room(d)))
        if total < 0.0:
            total = approx_counts_in_span(A, log_scale, count)
    for i in range(K):
        weights[i] = count[i] / total


@kernel
def approx_design(A, log_scale, weights):
    """`approx_design_of` for Python."""
    approx_design_of(A, log_scale, weights)
