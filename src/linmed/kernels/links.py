"""Families of rewards with a natural parameter: what a mean of clicks, counts or numbers is to z = c + ⟨a,θ⟩.

A reward has the loss ℓ(z, y) = m(z) − yz, its mean is μ(z) = m′(z) and its variance μ′(z):

    LOGISTIC   m = log(1 + e^z)    clicks, or fractions of one
    POISSON    m = e^z             counts
    GAUSSIAN   m = τz²/2           numbers of variance 1/τ; here ℓ = τ(z − y)²/2, the same but for a constant

kl(z, z + Δ) = m(z + Δ) − m(z) − μ(z)Δ is the Kullback–Leibler divergence between the laws at z and z + Δ. For
Gaussian rewards it is μ′(z)Δ²/2; by how much it differs from that for the others is `bend`.
"""

import math

from linmed.kernels.compile import inlined

LOGISTIC, POISSON, GAUSSIAN = range(3)
SMALL = 1e-2  # |Δ| below which kl is taken from its series
FAR = 30.0  # |z| beyond which 1 + e^−|z| is 1 for kl, and Δ beyond which e^Δ − 1 is e^Δ
EDGE = 700.0  # |z| beyond which e^z, or its inverse, is hardly a number any more
TOP = 230.3  # counts are refused beyond e^TOP, so no mean need be larger


@inlined
def mean(family, z):
    """μ(z); for Gaussian rewards z itself, as rewards are, not τz."""
    if family == LOGISTIC:
        e = math.exp(-abs(z))
        return (1.0 if z >= 0.0 else e) / (1.0 + e)
    if family == POISSON:
        return math.exp(min(z, TOP))
    return z


@inlined
def variance(family, precision, z):
    """μ′(z)."""
    if family == LOGISTIC:
        e = math.exp(-abs(z))
        return e / ((1.0 + e) * (1.0 + e))
    if family == POISSON:
        return math.exp(min(z, TOP))
    return precision


@inlined
def loss(family, precision, z, y):
    """ℓ(z, y)."""
    if family == LOGISTIC:
        return softplus(z) - y * z
    if family == POISSON:
        return math.exp(min(z, TOP)) - y * z
    return 0.5 * precision * (z - y) * (z - y)


@inlined
def predictive_loss(family, precision, z, h, y):
    """−log of the probability that was predicted for y, of which all that matters is that it is one.

    z is estimated with variance h. Clicks and counts are predicted with z drawn towards 0, as an average of
    the logistic function over N(z, h) is; Gaussian rewards with the average itself.
    """
    if family == GAUSSIAN:
        spread = 1.0 + precision * h
        return 0.5 * math.log(spread) + 0.5 * precision * (z - y) * (z - y) / spread
    drawn = z / math.sqrt(1.0 + math.pi * h / 8.0)
    return loss(family, precision, min(drawn, TOP) if family == POISSON else drawn, y)


@inlined
def softplus(z):
    """log(1 + e^z)."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


@inlined
def series(gap, skew, third, fourth, fifth):
    """2 kl / (μ′Δ²) for small Δ, given the next four cumulants divided by μ′."""
    return 1.0 + gap * (skew / 3.0 + gap * (third / 12.0 + gap * (fourth / 60.0 + gap * (fifth / 360.0))))


@inlined
def bend(family, z, gap):
    """2 kl(z, z + Δ) / (μ′(z) Δ²) for a gap Δ of either sign: 1 for Gaussian rewards; may be infinite."""
    if family == GAUSSIAN:
        return 1.0
    if family == POISSON:
        if abs(gap) < SMALL:
            return series(gap, 1.0, 1.0, 1.0, 1.0)
        return 2.0 * (math.expm1(gap) - gap) / gap / gap
    if gap < 0.0:  # an unclick is a click at −z
        z, gap = -z, -gap
    e = math.exp(-abs(z))
    small = e / (1.0 + e)  # the rarer of click and no click
    v = small / (1.0 + e)
    if gap < SMALL:
        skew = math.tanh(-0.5 * z)  # 1 − 2μ
        fifth = 1.0 - 30.0 * v + 120.0 * v * v
        return series(gap, skew, 1.0 - 6.0 * v, skew * (1.0 - 12.0 * v), fifth)
    if z >= 0.0:
        if z > FAR:
            divergence = gap + math.expm1(-gap)
        else:
            divergence = (small * gap + math.log1p(small * math.expm1(-gap))) / v
    elif z + gap < -FAR:
        divergence = math.expm1(gap) - gap
    elif z < -FAR:
        divergence = softplus(z + gap) * math.exp(-z) - 1.0 - gap
    elif gap < FAR:
        divergence = (math.log1p(small * math.expm1(gap)) - small * gap) / v
    else:
        divergence = (softplus(z + gap) - softplus(z) - small * gap) / v
    return 2.0 * divergence / gap / gap


@inlined
def least_curvature(family, precision, z, low, high):
    """2·min b(z, z*) over z* in [low, high], b(z, z*) = kl(z, z*)/(z* − z)²: how much ℓ is bent, at least.

    b rises up to one z* and falls from there, so its least is at an end. Beyond ±`EDGE`, where μ′(z) is no
    number to multiply by, kl is what it tends to; 0 is never too much.
    """
    if family == LOGISTIC and abs(z) > EDGE:  # −log of the probability that the truth gives what z is sure of
        bound = high if z > 0.0 else -low
        nearest = abs(z) - bound
        return 2.0 * softplus(-bound) / nearest / nearest if nearest > FAR else 0.0
    if family == POISSON and z < -EDGE:
        nearest = low - z
        return 2.0 * math.exp(low) / nearest / nearest if nearest > FAR else 0.0
    least = min(bend(family, z, high - z), bend(family, z, low - z))
    return variance(family, precision, z) * least


@inlined
def settle(family, precision, z, h, y):
    """The root z′ of z′ − z + h(μ(z′) − y), with τ(z′ − y) for Gaussian rewards: where one reward takes z.

    The function increases, so there is one. Newton's method within a bracket, which is halved where that
    would leave it or go to and fro.
    """
    if family == GAUSSIAN:
        return z + precision * h / (1.0 + precision * h) * (y - z)
    if h == 0.0:
        return z
    mirrored = family == LOGISTIC and y > 0.5  # 1 − μ(z) is μ(−z), of which small values keep their digits
    if mirrored:
        z, y = -z, 1.0 - y
    reach = -math.log(h)
    if family == LOGISTIC:  # h(μ − y) is at most h, and at −log h or below at most 1
        low = max(z - h * (1.0 - y), min(z - 1.0, reach))
        high = min(z + h * y, max(z + 1.0, -reach))
    else:
        # Between z and log y the function changes its sign; at −log h it is 1 − hy − (z + log h).
        target = math.log(y) if y > 0.0 else -math.inf
        high = min(max(z, target), z + h * y)
        low = max(min(z, target), z - h * mean(family, z))
        if reach <= z - 1.0:
            low = max(low, reach)
        if z > target:  # h(e^x − y) is z − x, at most what it is at the lower end
            high = min(high, max(math.log(y + (z - low) / h) + 1e-12, low))
    x = z - h * (mean(family, z) - y) / (1.0 + h * variance(family, precision, z))
    x = min(max(x, low), high) if math.isfinite(x) else 0.5 * (low + high)
    last = math.inf
    for _ in range(200):
        g = x - z + h * (mean(family, x) - y)
        if g > 0.0:
            high = x
        else:
            low = x
        slope = 1.0 + h * variance(family, precision, x)
        step = g / slope
        following = x - step
        slack = max(1.0, abs(x), abs(z) / slope)  # what g has lost to rounding moves x by as much
        if not low <= following <= high or 2.0 * abs(step) > last:
            following = 0.5 * (low + high)
            step = x - following
            slack = max(1.0, abs(x))
        x, last = following, abs(step)
        if last <= 1e-15 * slack:
            break
    return -x if mirrored else x


@inlined
def residual(family, z, h, y, after):
    """μ(z′) − y for the root z′ of `settle`, which is (z − z′)/h: whichever has lost less to rounding.

    Where h is large a sure click leaves of 1 − μ nothing, and that nothing is to move z by log h.
    """
    predicted = mean(family, after)
    if h * max(predicted, y) > max(abs(z), abs(after)):
        return (z - after) / h
    return predicted - y
