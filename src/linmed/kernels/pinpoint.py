"""Pinpoint's rule: the arm whose reward tells most about whether â is better than its strongest rival."""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats
from linmed.kernels.blocks import Held, best_arm, block, held, inner, pack_block
from linmed.kernels.compile import deferred, inlined
from linmed.kernels.many import best_row, row_product
from linmed.kernels.matrices import combine_rows
from linmed.kernels.med import centre, seen_from
from linmed.kernels.optimism import TIE, first_largest, per_arm
from linmed.kernels.sampling import settle_on
from linmed.kernels.simd import LANES, store


class PinpointScratch(NamedTuple):
    """What a decision writes on its way."""

    leverage: Floats  # (K,) as the next three
    gap: Floats
    distance2: Floats
    score: Floats
    center: Floats  # (2d,) â and V⁻¹â, then y = â − b and V⁻¹y
    difference: Floats  # (8d,) a − â of one block


class PinpointRule(NamedTuple):
    """LinGapE's greedy rule, and a share `floor` for all arms."""

    floor: float

    def workspace(self, K, d):
        """Scratch for sets of K arms in d dimensions."""
        return PinpointScratch(
            per_arm(K), per_arm(K), per_arm(K), per_arm(K), np.empty(2 * d), np.empty(LANES * d)
        )

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        K, d = arms.shape[1], arms.shape[2]
        theta, inverse = belief.theta, belief.inverse
        center, score = scratch.center, scratch.score
        if held(K, d):
            view = Held(blocks, n, K, d)
            best = best_arm(view, theta, s * d)
            length = centre(arms, p, best, inverse, s, center)
            for first in range(0, K, LANES):
                start = block(view, first)
                note(first, blocks, start, d, theta, inverse, s, center, length, scratch)
        else:
            best = seen_many(
                arms, p, theta, inverse, s, center, scratch.difference, scratch.leverage, scratch.gap,
                scratch.distance2,
            )  # fmt: skip
        arm = best
        if K > 1:
            rival = strongest_rival(best, math.sqrt(beta), scratch.gap, scratch.distance2, score)
            for k in range(d):
                center[k] = arms[p, best, k] - arms[p, rival, k]
            combine_rows(center, 0, inverse, s * d * d, d, center, d)
            if held(K, d):
                view = Held(blocks, n, K, d)
                for first in range(0, K, LANES):
                    store(score, first, inner(blocks, block(view, first), d, center, d))
            else:
                products_of_many(arms, p, center, score)
            arm = most_telling(scratch.leverage, score)
        return settle_on(arm, score, self.floor, noise[t, r, 0], t, r, log_p)


@inlined
def note(first, blocks, start, d, theta, inverse, s, center, length, scratch):
    """Write ‖a‖², Δ̂ and ‖â − a‖² of the arms of the block at `start`."""
    lengths, gap, distance2 = seen_from(
        blocks, start, d, theta, inverse, s, center, length, scratch.difference
    )
    store(scratch.leverage, first, lengths)
    store(scratch.gap, first, gap)
    store(scratch.distance2, first, distance2)


@inlined
def strongest_rival(best, radius, gap, distance2, score):
    """argmax over a ≠ â of √β‖â − a‖ − Δ̂(a), written to score; an infinite radius outweighs every gap."""
    size, lowest = 0.0, math.inf
    for i in range(score.shape[0]):
        width = math.sqrt(distance2[i])
        if radius < math.inf:
            width *= radius
            score[i] = width - gap[i]
            size = max(size, width + abs(gap[i]))
        else:
            score[i] = width
            size = max(size, width)
        lowest = min(lowest, score[i])
    slack = TIE * size
    score[best] = lowest - 1.0 - 4.0 * slack
    return first_largest(score, slack)


@inlined
def most_telling(leverage, score):
    """argmax_a ⟨a, V⁻¹y⟩² / (1 + ‖a‖²): what a reward of a takes off ‖y‖².  score holds ⟨a, V⁻¹y⟩."""
    largest = 0.0
    for i in range(score.shape[0]):
        score[i] = score[i] / math.sqrt(1.0 + leverage[i])
        score[i] = abs(score[i])
        largest = max(largest, score[i])
    return first_largest(score, TIE * largest)


@deferred(
    "intp(f8[:,:,::1], intp, f8[:,::1], f8[:,:,::1], intp, f8[::1], f8[::1], f8[::1], f8[::1], f8[::1])"
)
def seen_many(arms, p, theta, inverse, s, center, difference, leverage, gap, distance2):
    """`note` for arms too many to be held in blocks; returns the best."""
    K, d = arms.shape[1], arms.shape[2]
    best = best_row(arms, p, theta.reshape(-1), s * d)
    length = centre(arms, p, best, inverse, s, center)
    one = np.empty((1, LANES * (d + 1)))
    for first in range(0, K, LANES):
        pack_block(arms, p, d, first, one, 0, 0)
        lengths, gaps, distances2 = seen_from(one, 0, d, theta, inverse, s, center, length, difference)
        store(leverage, first, lengths)
        store(gap, first, gaps)
        store(distance2, first, distances2)
    return best


@deferred("void(f8[:,:,::1], intp, f8[::1], f8[::1])")
def products_of_many(arms, p, center, out):
    """out_i = ⟨a_i, V⁻¹y⟩, which is the second half of center (2d,)."""
    K, d = arms.shape[1], arms.shape[2]
    for i in range(K):
        out[i] = row_product(arms, p, i, center, d)
