"""Rules that look at ⟨θ̂, a⟩ and ‖a‖ in V⁻¹ and play one arm: OFUL, LinIMED and, without a bonus, greed.

Replicas are indexed, not sliced: taking a view of an array costs more than these rules themselves do.
"""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats
from linmed.kernels.compile import apart, inlined, kernel
from linmed.kernels.linear import leverages, matvec
from linmed.kernels.sampling import settle_on

TIE = 1e-12  # values this close, relative to the size of their terms, are equal: the lowest index wins
LOOPS_DIM = 12  # below this dimension plain loops are faster than the calls that set up tiles


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
        return ArmScratch(np.empty(K), np.empty(K), np.empty(K))

    def decide(self, belief, s, beta, arms, p, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        mean, leverage, ucb = scratch.mean, scratch.leverage, scratch.score
        means_and_leverages(arms, p, belief.theta, belief.inverse, s, mean, leverage)
        arm = upper_bounds(mean, leverage, math.sqrt(beta), ucb)
        return settle_on(arm, ucb, self.floor, noise[t, r, 0], t, r, log_p)


class GreedyRule(NamedTuple):
    """argmax_a ⟨θ̂, a⟩."""

    epsilon: float

    def workspace(self, K, d):
        """Scratch for sets of K arms."""
        return (np.empty(K),)

    def decide(self, belief, s, beta, arms, p, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        mean = scratch[0]
        means(arms, p, belief.theta, s, mean)
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
        return ArmScratch(np.empty(K), np.empty(K), np.empty(K))

    def decide(self, belief, s, beta, arms, p, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        mean, leverage, index = scratch.mean, scratch.leverage, scratch.score
        means_and_leverages(arms, p, belief.theta, belief.inverse, s, mean, leverage)
        log_horizon = self.log_horizon
        if log_horizon < 0.0:
            log_horizon = math.log(belief.count[s] + 1.0)
        imed_indices(mean, leverage, math.sqrt(beta), self.version, self.C, log_horizon, index)
        arm = first_smallest(index)
        return settle_on(arm, index, self.floor, noise[t, r, 0], t, r, log_p)


@inlined
def means(arms, p, theta, s, mean):
    """⟨θ̂, a⟩ of every arm of set p in replica s.  arms (·,K,d), theta (·,d), mean (K,)."""
    K, d = arms.shape[1], arms.shape[2]
    if d >= LOOPS_DIM:
        means_of_long(arms, p, theta, s, mean)
        return
    for i in range(K):
        inner = 0.0
        for k in range(d):
            inner += arms[p, i, k] * theta[s, k]
        mean[i] = inner


@kernel
def means_of_long(arms, p, theta, s, mean):
    """`means` of arms with many features."""
    apart()
    matvec(arms[p], theta[s], mean)


@inlined
def means_and_leverages(arms, p, theta, inverse, s, mean, leverage):
    """⟨θ̂, a⟩ and ‖a‖² in V⁻¹ of every arm of set p in replica s.

    arms (·,K,d), theta (·,d), inverse (·,d,d), mean, leverage (K,).
    """
    K, d = arms.shape[1], arms.shape[2]
    if d >= LOOPS_DIM:
        means_and_leverages_of_long(arms, p, theta, inverse, s, mean, leverage)
        return
    for i in range(K):
        inner = 0.0
        total = 0.0
        for j in range(d):
            a = arms[p, i, j]
            inner += a * theta[s, j]
            cross = 0.0
            for k in range(j):
                cross += inverse[s, j, k] * arms[p, i, k]
            total += a * (2.0 * cross + inverse[s, j, j] * a)
        mean[i] = inner
        leverage[i] = max(total, 0.0)


@kernel
def means_and_leverages_of_long(arms, p, theta, inverse, s, mean, leverage):
    """`means_and_leverages` of arms with many features."""
    apart()
    matvec(arms[p], theta[s], mean)
    leverages(arms[p], inverse[s], leverage)


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
