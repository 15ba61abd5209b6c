"""LinMED with a design that starts from the last one: for arms that do not change, or only a little.

ApproxDesign looks for its first set of arms anew in every round, with d passes over all of them. The arms of
the last design are as good a start: one pass tells the largest leverage, and greedy additions follow only
where it exceeds 1. With τ counts in the end no leverage in V(q) exceeds τ, so this is an ApproxDesign in the
sense of Assumptions 2 and 3 with C_opt = τ / (d log d), whatever it started from; beyond 4d counts it is made
from scratch.
"""

from typing import NamedTuple

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels.blocks import Held, block_room, held, leave_out_zero_arms
from linmed.kernels.compile import borrowed, deferred
from linmed.kernels.exchange import complete, gather
from linmed.kernels.many import Streamed
from linmed.kernels.med import MedRule, augmented_counts
from linmed.kernels.ridge import Ridge
from linmed.kernels.simd import LANES, load, store

REMEMBERED = 0.1  # leverage from which on an arm of a design is worth starting the next one with
ROOM = 4  # arms to remember for each dimension, and counts of a design


class WarmRidge(NamedTuple):
    """A `Ridge` that remembers the arms of the last design. Kernels take it as a plain tuple."""

    theta: Floats
    count: Ints  # type: ignore[assignment]
    gram: Floats
    gram_low: Floats
    inverse: Floats
    moment: Floats
    moment_low: Floats
    logdet: Floats
    rss: Floats
    leveraged: Floats
    support: Ints  # (R,4d), −1 where there is none
    size: Floats  # (R,) τ: counts of the last design, 0 before the first


WarmRidge.absorb, WarmRidge.refresh = Ridge.absorb, Ridge.refresh  # type: ignore[attr-defined]


class WarmRule(MedRule):
    """As `MedRule` with version 0, but the design starts from the last one."""

    __slots__ = ()

    def counts(self, belief, s, arms, p, blocks, n, scratch):
        """Writes the design as counts; returns their sum."""
        total = warm_counts(
            arms, p, blocks, n, scratch.root, scratch.scale, scratch.design, scratch.weight, scratch.desk,
            belief.support, s,
        )  # fmt: skip
        warm = total >= 0.0
        if not warm:
            total = augmented_counts(
                arms, p, blocks, n, scratch.log_f, scratch.root, 0, False, scratch.scale, scratch.design,
                scratch.weight, scratch.desk,
            )  # fmt: skip
        remember(arms.shape[1], scratch.design, scratch.weight, warm, belief.support, s)
        belief.size[s] = total
        return total


@deferred(
    "f8(f8[:,:,::1], intp, f8[:,::1], intp, f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], i8[:,::1], intp)"
)
def warm_counts(arms, p, blocks, n, root, scale, count, leverage, desk, support, s):
    """The design of the arms times `root`, begun with row s of `support`, as counts; returns their sum.

    Returns −1 where that set does not span the arms, or grows too large.
    """
    arms, blocks, root, scale = borrowed((arms, blocks, root, scale))
    count, leverage, desk, support = borrowed((count, leverage, desk, support))
    K, d = arms.shape[1], arms.shape[2]
    for first in range(0, K, LANES):
        store(scale, first, load(root, first))
    for i in range(K, scale.shape[0]):  # places past the last arm
        scale[i] = 0.0
    if held(K, d):
        view = Held(blocks, n, K, d)
        leave_out_zero_arms(view, scale)
        chosen = gather(arms, p, view, scale, support, s, count, desk)
        total = complete(arms, p, view, scale, chosen, count, leverage, desk) if chosen >= d else -1.0
    else:
        total = warm_counts_of_many(arms, p, scale, count, leverage, desk, support, s)
    return total if total <= ROOM * d else -1.0


@deferred("f8(f8[:,:,::1], intp, f8[::1], f8[::1], f8[::1], f8[::1], i8[:,::1], intp)")
def warm_counts_of_many(arms, p, scale, count, leverage, desk, support, s):
    """`warm_counts` of arms too many to be held in blocks."""
    K, d = arms.shape[1], arms.shape[2]
    nothing, none = np.empty((0, d), np.float32), np.empty(0, np.float32)
    view = Streamed(arms, p, np.empty((1, block_room(1, d))), nothing, none, K, d)
    chosen = gather(arms, p, view, scale, support, s, count, desk)
    return complete(arms, p, view, scale, chosen, count, leverage, desk) if chosen >= d else -1.0


@deferred("void(intp, f8[::1], f8[::1], b1, i8[:,::1], intp)")
def remember(K, count, leverage, warm, support, s):
    """Note in row s of `support` the arms of a design; of one that was warm, those that carry it."""
    m = 0
    for i in range(K):
        if count[i] > 0.0 and (not warm or leverage[i] >= REMEMBERED) and m < support.shape[1]:
            support[s, m] = i
            m += 1
    while m < support.shape[1]:
        support[s, m] = -1
        m += 1
