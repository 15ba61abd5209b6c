"""The normal distribution, accurate in its tails."""

import math

from linmed.kernels.compile import kernel

SQRT_HALF = math.sqrt(0.5)
LOG_SQRT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
FAR = 25.0  # from here on the asymptotic series below is good to 1e-13


@kernel
def lower_tail(x):
    """Φ(x)."""
    return 0.5 * math.erfc(-x * SQRT_HALF)


@kernel
def mills_deficit(x):
    """1 − x Φ(−x)/φ(x) for x ≥ 0, by its asymptotic series where the difference would cancel."""
    if x < FAR:
        return 1.0 - x * lower_tail(-x) * math.exp(0.5 * x * x + LOG_SQRT_TWO_PI)
    y = 1.0 / (x * x)
    series = 1.0 - 13.0 * y
    series = 1.0 - 11.0 * y * series
    series = 1.0 - 9.0 * y * series
    series = 1.0 - 7.0 * y * series
    series = 1.0 - 5.0 * y * series
    return y * (1.0 - 3.0 * y * series)


@kernel
def log_cdf(x):
    """log Φ(x), finite however far x is in the tail."""
    if x > 0.0:
        return math.log1p(-lower_tail(-x))
    if x > -FAR:
        return math.log(lower_tail(x))
    # Φ(x) = φ(x)/|x| · (1 − the deficit)
    return math.log1p(-mills_deficit(-x)) - 0.5 * x * x - math.log(-x) - LOG_SQRT_TWO_PI
