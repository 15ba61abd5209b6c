"""Drawing an arm by inverting the cumulative distribution."""

import math

from linmed.kernels.compile import kernel


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
def sample(log_probabilities, uniforms, weights, out):
    """One arm per replica.  log_probabilities (R,K), uniforms (R,), weights (K,) scratch, out (R,)."""
    for r in range(log_probabilities.shape[0]):
        total = 0.0
        for i in range(weights.shape[0]):
            weights[i] = math.exp(log_probabilities[r, i])
            total += weights[i]
        out[r] = invert_cdf(weights, uniforms[r] * total)
