"""Drawing an arm by inverting the cumulative distribution."""

import math

from linmed.kernels.compile import kernel


@kernel
def invert_cdf(weights, uniform):
    """The first arm whose running total exceeds uniform · total; arms of weight 0 are never drawn."""
    total = 0.0
    for i in range(weights.shape[0]):
        total += weights[i]
    target = uniform * total
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
def sample(log_probabilities, uniforms, weights, out):
    """One arm per replica.  log_probabilities (R,K), uniforms (R,), weights (K,) scratch, out (R,)."""
    for r in range(log_probabilities.shape[0]):
        for i in range(weights.shape[0]):
            weights[i] = math.exp(log_probabilities[r, i])
        out[r] = invert_cdf(weights, uniforms[r])
