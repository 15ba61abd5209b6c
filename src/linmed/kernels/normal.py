"""The tail of the normal distribution, eight numbers at once (see `simd`)."""

from linmed.kernels.compile import inlined
from linmed.kernels.lanes import LN2_HIGH, LN2_LOW, LOG2_E, SHIFT, larger
from linmed.kernels.simd import (
    add,
    divide,
    multiply,
    multiply_add,
    splat,
    subtract,
    times_power_of_two,
    where_greater,
)

FARTHEST = 37.0  # beyond it, probability 1e-300, nothing is told apart
CENTRE = 3.2


@inlined
def short_exponential(x):
    """exp(x) for |x| ≤ 700, to 6e-9 of itself: 2ⁿ exp(r) with |r| ≤ ln 2/2, and exp(r) by its series.

    Neighbouring terms are paired, then pairs: the processor works on several at a time.
    """
    shifted = multiply_add(x, splat(LOG2_E), splat(SHIFT))
    n = subtract(shifted, splat(SHIFT))
    r = multiply_add(n, splat(-LN2_LOW), multiply_add(n, splat(-LN2_HIGH), x))
    r2 = multiply(r, r)
    low = multiply_add(r2, multiply_add(r, splat(1.0 / 6.0), splat(0.5)), add(r, splat(1.0)))
    high = multiply_add(r, splat(1.0 / 5040.0), splat(1.0 / 720.0))
    high = multiply_add(r2, high, multiply_add(r, splat(1.0 / 120.0), splat(1.0 / 24.0)))
    return times_power_of_two(multiply_add(multiply(r2, r2), high, low), shifted)


@inlined
def upper_tail(x):
    """1 − Φ(x), to 3e-8 of itself up to x = 37 and constant from there on.

    exp(x²/2) (1 − Φ(x)) (x + c), x ≥ 0, as a function of y = (x − c)/(x + c) is interpolated at ten Chebyshev
    points.
    """
    one = splat(1.0)
    a = larger(x, multiply(x, splat(-1.0)))
    a = where_greater(a, splat(FARTHEST), splat(FARTHEST), a)
    share = divide(one, add(a, splat(CENTRE)))
    y = multiply_add(share, splat(-2.0 * CENTRE), one)
    y2 = multiply(y, y)
    y4 = multiply(y2, y2)
    t0 = multiply_add(y, splat(-0.5338043223775493), splat(0.7358878857057768))
    t2 = multiply_add(y, splat(-0.07403134532137647), splat(0.265840204446541))
    t4 = multiply_add(y, splat(8.2667217399261e-03), splat(-1.618066826741253e-03))
    t6 = multiply_add(y, splat(-1.0924277435284985e-03), splat(-7.332167971885364e-04))
    t8 = multiply_add(y, splat(1.3320200632528238e-04), splat(9.499664456559093e-05))
    t4 = multiply_add(y4, t8, multiply_add(y2, t6, t4))
    ratio = multiply_add(y4, t4, multiply_add(y2, t2, t0))
    tail = multiply(multiply(share, ratio), short_exponential(multiply(multiply(a, a), splat(-0.5))))
    return where_greater(splat(0.0), x, subtract(one, tail), tail)
