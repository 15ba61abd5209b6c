"""Rules that look at ⟨θ̂, a⟩ and ‖a‖ in V⁻¹ and play one arm: OFUL, LinIMED and, without a bonus, greed.

Replicas are indexed, not sliced: taking a view of an array costs more than these rules themselves do.
"""

import math

import numpy as np

from linmed.kernels.compile import kernel
from linmed.kernels.linear import leverages, matvec

TIE = 1e-12  # values this close, relative to the size of their terms, are equal: the lowest index wins
LOOPS_DIM = 12  # below this dimension plain loops are faster than the calls that set up tiles


@kernel
def means_and_leverages(arms, r, theta, inverse, mean, leverage):
    """⟨θ̂, a⟩ and ‖a‖² in V⁻¹ of every arm of decision r; returns the replica that takes it.

    arms (R,K,d) or (1,K,d), theta (R,d) or (1,d), inverse alike, mean, leverage (K,).
    """
    K, d = arms.shape[1], arms.shape[2]
    set_ = r if arms.shape[0] > 1 else 0
    s = r if theta.shape[0] > 1 else 0
    if d >= LOOPS_DIM:
        matvec(arms[set_], theta[s], mean)
        leverages(arms[set_], inverse[s], leverage)
        return s
    for i in range(K):
        inner = 0.0
        total = 0.0
        for j in range(d):
            a = arms[set_, i, j]
            inner += a * theta[s, j]
            cross = 0.0
            for k in range(j):
                cross += inverse[s, j, k] * arms[set_, i, k]
            total += a * (2.0 * cross + inverse[s, j, j] * a)
        mean[i] = inner
        leverage[i] = max(total, 0.0)
    return s


@kernel
def first_largest(values, slack):
    """The lowest index whose value is within `slack` of the maximum."""
    highest = values[0]
    for i in range(1, values.shape[0]):
        highest = max(highest, values[i])
    i = 0
    while values[i] < highest - slack:
        i += 1
    return i


@kernel
def upper_bounds(mean, leverage, radius, ucb):
    """ucb_a = ⟨θ̂, a⟩ + √β ‖a‖; returns the arm of the largest one.  All (K,)."""
    size = 0.0
    for i in range(mean.shape[0]):
        bonus = radius * math.sqrt(leverage[i])
        ucb[i] = mean[i] + bonus
        size = max(size, abs(mean[i]) + bonus)
    return first_largest(ucb, TIE * size)


@kernel
def oful(arms, theta, inverse, radius, out):
    """argmax_a ⟨θ̂, a⟩ + √β ‖a‖ in every replica; a zero radius is greed.  radius (R or 1,), out (R,)."""
    K = arms.shape[1]
    mean, leverage, ucb = np.empty(K), np.empty(K), np.empty(K)
    for r in range(out.shape[0]):
        s = means_and_leverages(arms, r, theta, inverse, mean, leverage)
        out[r] = upper_bounds(mean, leverage, radius[s], ucb)


@kernel
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


@kernel
def imed(arms, theta, inverse, radius, version, C, log_horizon, out):
    """argmin_a I(a) in every replica.  radius, log_horizon (R or 1,), out (R,)."""
    K = arms.shape[1]
    mean, leverage, index = np.empty(K), np.empty(K), np.empty(K)
    for r in range(out.shape[0]):
        s = means_and_leverages(arms, r, theta, inverse, mean, leverage)
        imed_indices(mean, leverage, radius[s], version, C, log_horizon[s], index)
        lowest = index[0]
        for i in range(1, K):
            lowest = min(lowest, index[i])
        slack = TIE * (1.0 + abs(lowest)) if lowest < math.inf else 0.0
        arm = 0
        while index[arm] > lowest + slack:
            arm += 1
        out[r] = arm
