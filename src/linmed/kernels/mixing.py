"""From probabilities to arms and logarithms, with a share `floor` of the mass spread evenly over all arms."""

import math

from linmed.kernels.compile import kernel


@kernel
def draw(probabilities, floor, uniforms, out):
    """One arm per replica from (1 − floor)·p + floor/K.  probabilities (R,K), uniforms, out (R,)."""
    R, K = probabilities.shape
    for r in range(R):
        running = 0.0
        out[r] = 0
        for i in range(K):
            p = (1.0 - floor) * probabilities[r, i] + floor / K
            if p > 0.0:
                running += p
                out[r] = i
                if running > uniforms[r]:
                    break


@kernel
def take_logs(probabilities, floor):
    """Replace p by log((1 − floor)·p + floor/K) in place.  probabilities (R,K)."""
    R, K = probabilities.shape
    for r in range(R):
        for i in range(K):
            p = (1.0 - floor) * probabilities[r, i] + floor / K
            probabilities[r, i] = math.log(p) if p > 0.0 else -math.inf
