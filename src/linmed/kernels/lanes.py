"""Functions of a vector, lane by lane, and searches over vectors."""

import math

from linmed.kernels.compile import inlined
from linmed.kernels.simd import (
    largest_lane,
    multiply_add,
    smallest_lane,
    splat,
    subtract,
    times_power_of_two,
    where_greater,
)

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
SHIFT = 6755399441055744.0  # 1.5·2⁵²: what is added to it is rounded to a whole number
DEEPEST = -708.0  # exp(x) is taken as 0 below: it would lose digits


@inlined
def exponential(x):
    """exp(x) for x ≤ 0, to about one unit in the last place.

    x = n log 2 + r with n whole and |r| ≤ log(2)/2; exp(r) by its Taylor polynomial of degree 13, whose
    remainder is below 2⁻⁵⁶.
    """
    floor = splat(DEEPEST)
    bounded = where_greater(x, floor, x, floor)
    shifted = multiply_add(bounded, splat(LOG2_E), splat(SHIFT))
    n = subtract(shifted, splat(SHIFT))
    r = multiply_add(n, splat(-LN2_HIGH), bounded)
    r = multiply_add(n, splat(-LN2_LOW), r)
    y = splat(1.0 / 6227020800.0)
    y = multiply_add(y, r, splat(1.0 / 479001600.0))
    y = multiply_add(y, r, splat(1.0 / 39916800.0))
    y = multiply_add(y, r, splat(1.0 / 3628800.0))
    y = multiply_add(y, r, splat(1.0 / 362880.0))
    y = multiply_add(y, r, splat(1.0 / 40320.0))
    y = multiply_add(y, r, splat(1.0 / 5040.0))
    y = multiply_add(y, r, splat(1.0 / 720.0))
    y = multiply_add(y, r, splat(1.0 / 120.0))
    y = multiply_add(y, r, splat(1.0 / 24.0))
    y = multiply_add(y, r, splat(1.0 / 6.0))
    y = multiply_add(y, r, splat(0.5))
    y = multiply_add(y, r, splat(1.0))
    y = multiply_add(y, r, splat(1.0))
    return where_greater(x, floor, times_power_of_two(y, shifted), splat(0.0))


@inlined
def larger(x, y):
    """The larger number of every lane; y where x is NaN."""
    return where_greater(x, y, x, y)


@inlined
def first_of_largest(values, places):
    """The largest number of a vector and its place, the lowest where several are equal."""
    highest = largest_lane(values)
    first = smallest_lane(where_greater(splat(highest), values, splat(math.inf), places))
    return highest, int(first)


@inlined
def first_of_smallest(values, places):
    """The smallest number of a vector and its place, the lowest where several are equal."""
    lowest = smallest_lane(values)
    first = smallest_lane(where_greater(values, splat(lowest), splat(math.inf), places))
    return lowest, int(first)
