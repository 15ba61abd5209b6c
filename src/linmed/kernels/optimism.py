"""Rules that look at ⟨θ̂, a⟩ and ‖a‖ in V⁻¹ and play one arm: OFUL, LinIMED and, without a bonus, greed."""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats
from linmed.kernels.blocks import (
    Held,
    block,
    block_room,
    held,
    inner,
    pack_block,
    padded,
    products,
    squared_length,
)
from linmed.kernels.compile import by_class, deferred, inlined
from linmed.kernels.many import row_product
from linmed.kernels.sampling import settle_on
from linmed.kernels.simd import LANES, store

TIE = 1e-12  # values this close, relative to the size of their terms, are equal: the lowest index wins


class ArmScratch(NamedTuple):
    """What these rules write of every arm, (K,) each."""

    mean: Floats
    leverage: Floats
    score: Floats


class OfulRule(NamedTuple):
    """argmax_a ⟨θ̂, a⟩ + √β ‖a‖."""

    floor: float

    def workspace(self, K, d):
        """Scratch for sets of K arms."""
        return ArmScratch(per_arm(K), per_arm(K), per_arm(K))

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        mean, leverage, ucb = scratch.mean, scratch.leverage, scratch.score
        look_at(belief, s, arms, p, blocks, n, mean, leverage, ucb)
        arm = upper_bounds(mean, leverage, math.sqrt(beta), ucb)
        return settle_on(arm, ucb, self.floor, noise[t, r, 0], t, r, log_p)


class GreedyRule(NamedTuple):
    """argmax_a ⟨θ̂, a⟩."""

    epsilon: float

    def workspace(self, K, d):
        """Scratch for sets of K arms."""
        return (per_arm(K),)

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        mean = scratch[0]
        expect(belief, s, arms, p, blocks, n, mean)
        size = 0.0
        for i in range(mean.shape[0]):
            size = max(size, abs(mean[i]))
        arm = first_largest(mean, TIE * size)
        return settle_on(arm, mean, self.epsilon, noise[t, r, 0], t, r, log_p)


class ImedRule(NamedTuple):
    """argmin_a I(a) with one of LinIMED's three indices."""

    version: int
    C: float
    log_horizon: float  # negative stands for the current round
    floor: float

    def workspace(self, K, d):
        """Scratch for sets of K arms."""
        return ArmScratch(per_arm(K), per_arm(K), per_arm(K))

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        mean, leverage, index = scratch.mean, scratch.leverage, scratch.score
        look_at(belief, s, arms, p, blocks, n, mean, leverage, index)
        log_horizon = self.log_horizon
        if log_horizon < 0.0:
            log_horizon = math.log(belief.count[s] + 1.0)
        imed_indices(mean, leverage, math.sqrt(beta), self.version, self.C, log_horizon, index)
        arm = first_smallest(index)
        return settle_on(arm, index, self.floor, noise[t, r, 0], t, r, log_p)


@by_class
def look_at(belief, s, arms, p, blocks, n, mean, leverage, scratch):
    """⟨θ̂, a⟩ and ‖a‖² in V⁻¹ of every arm of set p in row s of the belief; scratch is as long as these."""
    means_and_leverages(arms, p, blocks, n, belief.theta, belief.inverse, s, mean, leverage)


@by_class
def expect(belief, s, arms, p, blocks, n, mean):
    """⟨θ̂, a⟩ of every arm of set p in row s of the belief."""
    means(arms, p, blocks, n, belief.theta, s, mean)


@inlined
def per_arm(K):
    """Room for a number of every arm, padded to whole blocks."""
    return np.empty(padded(K))[:K]


@inlined
def means(arms, p, blocks, n, theta, s, mean):
    """⟨θ̂, a⟩ of every arm of set p, whose blocks are in blocks[n], in replica s.

    arms (·,K,d), theta (·,d), mean (K,) from `per_arm`.
    """
    K, d = arms.shape[1], arms.shape[2]
    if held(K, d):
        products(Held(blocks, n, K, d), theta, s * d, mean)
    else:
        means_of_many(arms, p, theta, s, mean)


@inlined
def means_and_leverages(arms, p, blocks, n, theta, inverse, s, mean, leverage):
    """⟨θ̂, a⟩ and ‖a‖² in V⁻¹ of every arm of set p in replica s.

    arms (·,K,d), theta (·,d), inverse (·,d,d), mean, leverage (K,) from `per_arm`.
    """
    K, d = arms.shape[1], arms.shape[2]
    if held(K, d):
        view = Held(blocks, n, K, d)
        for first in range(0, K, LANES):
            start = block(view, first)
            store(mean, first, inner(blocks, start, d, theta, s * d))
            store(leverage, first, squared_length(blocks, start, d, inverse, s * d * d, d))
    else:
        means_and_leverages_of_many(arms, p, theta, inverse, s, mean, leverage)


@deferred("void(f8[:,:,::1], intp, f8[:,::1], intp, f8[::1])")
def means_of_many(arms, p, theta, s, mean):
    """`means` of arms too many to be held in blocks."""
    K, d = arms.shape[1], arms.shape[2]
    flat = theta.reshape(-1)
    for i in range(K):
        mean[i] = row_product(arms, p, i, flat, s * d)


@deferred("void(f8[:,:,::1], intp, f8[:,::1], f8[:,:,::1], intp, f8[::1], f8[::1])")
def means_and_leverages_of_many(arms, p, theta, inverse, s, mean, leverage):
    """`means_and_leverages` of arms too many to be held in blocks."""
    K, d = arms.shape[1], arms.shape[2]
    one = np.empty((1, block_room(1, d)))
    for first in range(0, K, LANES):
        pack_block(arms, p, d, first, one, 0, 0)
        store(mean, first, inner(one, 0, d, theta, s * d))
        store(leverage, first, squared_length(one, 0, d, inverse, s * d * d, d))


@inlined
def first_largest(values, slack):
    """The lowest index whose value is within `slack` of the maximum."""
    highest = values[0]
    for i in range(1, values.shape[0]):
        highest = max(highest, values[i])
    i = 0
    while values[i] < highest - slack:
        i += 1
    return i


@inlined
def first_smallest(index):
    """The lowest position whose index is the smallest but for rounding; +inf ties with itself alone."""
    lowest = index[0]
    for i in range(1, index.shape[0]):
        lowest = min(lowest, index[i])
    slack = TIE * (1.0 + abs(lowest)) if lowest < math.inf else 0.0
    arm = 0
    while index[arm] > lowest + slack:
        arm += 1
    return arm


@inlined
def upper_bounds(mean, leverage, radius, ucb):
    """ucb_a = ⟨θ̂, a⟩ + √β ‖a‖; returns the arm of the largest one.  All (K,)."""
    size = 0.0
    for i in range(mean.shape[0]):
        bonus = radius * math.sqrt(leverage[i])
        ucb[i] = mean[i] + bonus
        size = max(size, abs(mean[i]) + bonus)
    return first_largest(ucb, TIE * size)


@inlined
def imed_indices(mean, leverage, radius, version, C, log_horizon, index):
    """The index of LinIMED-1, -2 or -3 of every arm, to be minimised.  mean, leverage, index (K,).

    I(a) = D(a)² / (β‖a‖²) − log(β‖a‖²), where D is the gap between means (versions 1 and 2) or between
    upper confidence bounds (version 3); the leading arm's index is capped in versions 2 and 3. An arm
    without leverage (the zero vector) has index +inf.
    """
    K = mean.shape[0]
    if version == 3:
        best = upper_bounds(mean, leverage, radius, index)
    else:
        best = 0
        for i in range(K):
            index[i] = mean[i]
            if mean[i] > mean[best]:
                best = i
    top = index[best]
    widest = 0.0
    for i in range(K):
        gap = max(top - index[i], 0.0)
        widest = max(widest, gap)
        width = radius * math.sqrt(leverage[i])
        if width > 0.0:
            ratio = gap / width
            index[i] = ratio * ratio - 2.0 * math.log(width)
        else:
            index[i] = math.inf
    if version == 2:
        index[best] = min(log_horizon, index[best])
    elif version == 3 and widest > 0.0:
        index[best] = min(math.log(C) - 2.0 * math.log(widest), index[best])
