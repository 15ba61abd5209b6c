"""From probabilities to arms and logarithms, with a share `floor` of the mass spread evenly over all arms."""

import math

import numpy as np

from linmed.kernels.compile import inlined, kernel

SUM_TOLERANCE = 1e-6  # an integral's error; a rule that forgot to normalise is further off


@kernel
def invert_cdf(weights, target):
    """The first arm whose running total exceeds `target`; arms of weight 0 are never drawn."""
    running = 0.0
    last = 0
    for i in range(weights.shape[0]):
        if weights[i] > 0.0:
            running += weights[i]
            last = i
            if running > target:
                return i
    return last


@kernel
def sample(log_probabilities, noise, out):
    """One arm per replica by the uniforms in noise (R,1).  log_probabilities (R,K), out (R,).

    Returns the sum of the first row whose probabilities do not sum to one, else 1.
    """
    weights = np.empty(log_probabilities.shape[1])
    for r in range(log_probabilities.shape[0]):
        total = 0.0
        for i in range(weights.shape[0]):
            weights[i] = math.exp(log_probabilities[r, i])
            total += weights[i]
        if not abs(total - 1.0) <= SUM_TOLERANCE:
            return total
        out[r] = invert_cdf(weights, noise[r, 0] * total)
    return 1.0


@inlined
def floored(p, floor, K):
    """(1 − floor)·p + floor/K."""
    return (1.0 - floor) * p + floor / K


@inlined
def settle(p, floor, uniform, t, r, log_p):
    """The arm that a uniform draws from the floored p (K,), which takes its place; writes log_p[t, r]
    (T,R,K) unless its T is 0."""
    K = p.shape[0]
    if floor > 0.0:
        for i in range(K):
            p[i] = floored(p[i], floor, K)
    if log_p.shape[0] > 0:
        for i in range(K):
            log_p[t, r, i] = math.log(p[i]) if p[i] > 0.0 else -math.inf
    return invert_cdf(p, uniform)


@inlined
def settle_on(arm, p, floor, uniform, t, r, log_p):
    """`settle` where a rule plays one arm; p (K,) is scratch."""
    if floor == 0.0 and log_p.shape[0] == 0:
        return arm
    for i in range(p.shape[0]):
        p[i] = 0.0
    p[arm] = 1.0
    return settle(p, floor, uniform, t, r, log_p)


@kernel
def draw(probabilities, floor, noise, out):
    """One arm per replica from the floored probabilities (R,K) by the uniforms in noise (R,1).  out (R,)."""
    K = probabilities.shape[1]
    weights = np.empty(K)
    for r in range(probabilities.shape[0]):
        for i in range(K):
            weights[i] = floored(probabilities[r, i], floor, K)
        out[r] = invert_cdf(weights, noise[r, 0])


@kernel
def take_logs(probabilities, floor):
    """Replace p by its floored logarithm in place.  probabilities (R,K)."""
    R, K = probabilities.shape
    for r in range(R):
        for i in range(K):
            p = floored(probabilities[r, i], floor, K)
            probabilities[r, i] = math.log(p) if p > 0.0 else -math.inf
