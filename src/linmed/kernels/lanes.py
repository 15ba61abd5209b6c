"""The normal distribution and what it is made of, eight numbers at once (see `simd`)."""

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from linmed.kernels.compile import inlined
from linmed.kernels.simd import LANES, multiply, multiply_add, splat, vector

_LLVM = ir.VectorType(ir.DoubleType(), LANES)
_BITS = ir.VectorType(ir.IntType(64), LANES)
FARTHEST = 37.0  # beyond it, probability 1e-300, nothing is told apart
CENTRE = 3.2
LOG2_E = 1.0 / math.log(2.0)
LN2_HIGH = 6.93147180369123816490e-01  # ln 2 in two parts, the first with zeros at its end
LN2_LOW = 1.90821492927058770002e-10


def _add(context: Any, x: Any, y: Any) -> Any:
    """x + y in every lane."""
    return vector(vector, vector), lambda context, builder, signature, arguments: builder.fadd(*arguments)


def _subtract(context: Any, x: Any, y: Any) -> Any:
    """x − y in every lane."""
    return vector(vector, vector), lambda context, builder, signature, arguments: builder.fsub(*arguments)


def _divide(context: Any, x: Any, y: Any) -> Any:
    """x/y in every lane."""
    return vector(vector, vector), lambda context, builder, signature, arguments: builder.fdiv(*arguments)


def _larger(context: Any, x: Any, y: Any) -> Any:
    """The larger of x and y in every lane; y where x is not a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return vector(vector, vector), generate


def _smaller(context: Any, x: Any, y: Any) -> Any:
    """The smaller of x and y in every lane; y where x is not a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *arguments), *arguments)

    return vector(vector, vector), generate


def _absolute(context: Any, x: Any) -> Any:
    """|x| in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, name = ir.FunctionType(_LLVM, [_LLVM]), f"llvm.fabs.v{LANES}f64"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

    return vector(vector), generate


def _where_negative(context: Any, x: Any, yes: Any, no: Any) -> Any:
    """`yes` in the lanes where x < 0, `no` in the others."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, yes, no = arguments
        return builder.select(builder.fcmp_ordered("<", x, ir.Constant(_LLVM, [0.0] * LANES)), yes, no)

    return vector(vector, vector, vector), generate


def _round(context: Any, x: Any) -> Any:
    """The whole number nearest to x, |x| < 2⁵¹, in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        shift = ir.Constant(_LLVM, [1.5 * 2.0**52] * LANES)
        return builder.fsub(builder.fadd(arguments[0], shift), shift)

    return vector(vector), generate


def _power_of_two(context: Any, n: Any) -> Any:
    """2ⁿ for whole numbers −1022 ≤ n ≤ 1023 in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        biased = builder.fadd(arguments[0], ir.Constant(_LLVM, [1.5 * 2.0**52 + 1023.0] * LANES))
        exponent = builder.shl(builder.bitcast(biased, _BITS), ir.Constant(_BITS, [52] * LANES))
        return builder.bitcast(exponent, _LLVM)

    return vector(vector), generate


add: Callable[..., Any] = intrinsic(_add)
subtract: Callable[..., Any] = intrinsic(_subtract)
divide: Callable[..., Any] = intrinsic(_divide)
larger: Callable[..., Any] = intrinsic(_larger)
absolute: Callable[..., Any] = intrinsic(_absolute)
smaller: Callable[..., Any] = intrinsic(_smaller)
where_negative: Callable[..., Any] = intrinsic(_where_negative)
nearest: Callable[..., Any] = intrinsic(_round)
power_of_two: Callable[..., Any] = intrinsic(_power_of_two)


@inlined
def exponential(x):
    """exp(x) for |x| ≤ 700, to 6e-9 of itself: 2ⁿ exp(r) with |r| ≤ ln 2/2, and exp(r) by its series.

    Neighbouring terms are paired, then pairs: the processor works on several at a time.
    """
    n = nearest(multiply(x, splat(LOG2_E)))
    r = multiply_add(n, splat(-LN2_LOW), multiply_add(n, splat(-LN2_HIGH), x))
    r2 = multiply(r, r)
    low = multiply_add(r2, multiply_add(r, splat(1.0 / 6.0), splat(0.5)), add(r, splat(1.0)))
    high = multiply_add(r, splat(1.0 / 5040.0), splat(1.0 / 720.0))
    high = multiply_add(r2, high, multiply_add(r, splat(1.0 / 120.0), splat(1.0 / 24.0)))
    return multiply(power_of_two(n), multiply_add(multiply(r2, r2), high, low))


@inlined
def upper_tail(x):
    """1 − Φ(x), to 3e-8 of itself up to x = 37 and constant from there on.

    exp(x²/2) (1 − Φ(x)) (x + c), x ≥ 0, as a function of y = (x − c)/(x + c) is interpolated at ten Chebyshev
    points.
    """
    one = splat(1.0)
    a = smaller(absolute(x), splat(FARTHEST))
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
    tail = multiply(multiply(share, ratio), exponential(multiply(multiply(a, a), splat(-0.5))))
    return where_negative(x, subtract(one, tail), tail)
