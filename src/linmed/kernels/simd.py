"""Eight float64 numbers at once: a vector that the compiler keeps in registers.

Lanes are arms, or neighbouring entries of a row, so each sum keeps its own order: the same digits wherever
an arm stands, on every processor, whatever instructions (AVX-512, AVX2, SSE, NEON) the eight lanes become.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import float64, intp, types, void
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 8
_LLVM = ir.VectorType(ir.DoubleType(), LANES)
_WORDS = ir.VectorType(ir.IntType(64), LANES)
_INT = ir.IntType(32)


class _Vector(types.Type):
    """The type of a vector in numba."""

    def __init__(self) -> None:
        super().__init__(name="linmed.Vector")


vector = _Vector()


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, type_: Any) -> None:
        super().__init__(manager, type_, _LLVM)


def _places(*numbers: int) -> Any:
    return ir.Constant(ir.VectorType(_INT, len(numbers)), list(numbers))


def _place(context: Any, builder: Any, type_: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(type_)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), _LLVM.as_pointer())


def _spread_out(builder: Any, number: Any) -> Any:
    nothing = ir.Constant(_LLVM, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, nothing, _places(*[0] * LANES))


def _load(context: Any, array: Any, offset: Any) -> Any:
    """Numbers offset … offset + 7 of a contiguous array, counted from its beginning."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_place(context, builder, signature.args[0], *arguments), align=8)

    return vector(array, intp), generate


def _store(context: Any, array: Any, offset: Any, value: Any) -> Any:
    """Write a vector to offset … offset + 7 of a contiguous array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _place(context, builder, signature.args[0], *arguments[:2]), align=8)
        return context.get_dummy_value()

    return void(array, intp, vector), generate


def _splat(context: Any, x: Any) -> Any:
    """x in every lane."""

    return vector(float64), lambda context, builder, signature, arguments: _spread_out(builder, *arguments)


def _number(context: Any, array: Any, offset: Any) -> Any:
    """The number at `offset` of a contiguous array of any shape."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load(builder.gep(data, [arguments[1]]))

    return float64(array, intp), generate


def _put(context: Any, array: Any, offset: Any, value: Any) -> Any:
    """Write a number to `offset` of a contiguous array of any shape."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        builder.store(arguments[2], builder.gep(data, [arguments[1]]))
        return context.get_dummy_value()

    return void(array, intp, float64), generate


def _spread(context: Any, array: Any, offset: Any) -> Any:
    """The number at `offset` of a contiguous array in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        number = builder.load(builder.gep(data, [arguments[1]]))
        return _spread_out(builder, number)

    return vector(array, intp), generate


def _steps(context: Any) -> Any:
    """0, 1, …, 7."""
    numbers = ir.Constant(_LLVM, [float(i) for i in range(LANES)])
    return vector(), lambda context, builder, signature, arguments: numbers


def _multiply_add(context: Any, x: Any, y: Any, z: Any) -> Any:
    """x·y + z in every lane, with one rounding."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_LLVM, [_LLVM] * 3)
        name = f"llvm.fma.v{LANES}f64"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

    return vector(vector, vector, vector), generate


def _multiply(context: Any, x: Any, y: Any) -> Any:
    """x·y in every lane."""
    return vector(vector, vector), lambda context, builder, signature, arguments: builder.fmul(*arguments)


def _divide(context: Any, x: Any, y: Any) -> Any:
    """x/y in every lane."""
    return vector(vector, vector), lambda context, builder, signature, arguments: builder.fdiv(*arguments)


def _add(context: Any, x: Any, y: Any) -> Any:
    """x + y in every lane."""
    return vector(vector, vector), lambda context, builder, signature, arguments: builder.fadd(*arguments)


def _subtract(context: Any, x: Any, y: Any) -> Any:
    """x − y in every lane."""
    return vector(vector, vector), lambda context, builder, signature, arguments: builder.fsub(*arguments)


def _where_greater(context: Any, x: Any, y: Any, then: Any, otherwise: Any) -> Any:
    """In every lane: `then` if x > y, else (or if either is NaN) `otherwise`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y, then, otherwise = arguments
        return builder.select(builder.fcmp_ordered(">", x, y), then, otherwise)

    return vector(vector, vector, vector, vector), generate


def _folded(combine: Callable[[Any, Any, Any], Any], doc: str) -> Any:
    """An intrinsic that makes one number of the lanes, halves first."""

    def fold(context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            (whole,), width = arguments, LANES
            while width > 1:
                width //= 2
                nothing = ir.Constant(whole.type, ir.Undefined)
                low = builder.shuffle_vector(whole, nothing, _places(*range(width)))
                high = builder.shuffle_vector(whole, nothing, _places(*range(width, 2 * width)))
                whole = combine(builder, low, high)
            return builder.extract_element(whole, ir.Constant(_INT, 0))

        return float64(vector), generate

    fold.__doc__ = doc
    return intrinsic(fold)


def _greater(builder: Any, low: Any, high: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", high, low), high, low)


def _smaller(builder: Any, low: Any, high: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", high, low), high, low)


def _times_power_of_two(context: Any, x: Any, shifted: Any) -> Any:
    """x·2ⁿ in every lane, for shifted = n + 1.5·2⁵² and n between −1022 and 1023."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        bits = builder.bitcast(arguments[1], _WORDS)
        bias, places = (ir.Constant(_WORDS, [word(number)] * LANES) for number in (1023, 52))
        power = builder.bitcast(builder.shl(builder.add(bits, bias), places), _LLVM)
        return builder.fmul(arguments[0], power)

    return vector(vector, vector), generate


load: Callable[..., Any] = intrinsic(_load)
store: Callable[..., Any] = intrinsic(_store)
splat: Callable[..., Any] = intrinsic(_splat)
number: Callable[..., Any] = intrinsic(_number)
put: Callable[..., Any] = intrinsic(_put)
spread: Callable[..., Any] = intrinsic(_spread)
steps: Callable[..., Any] = intrinsic(_steps)
multiply_add: Callable[..., Any] = intrinsic(_multiply_add)
multiply: Callable[..., Any] = intrinsic(_multiply)
divide: Callable[..., Any] = intrinsic(_divide)
add: Callable[..., Any] = intrinsic(_add)
subtract: Callable[..., Any] = intrinsic(_subtract)
where_greater: Callable[..., Any] = intrinsic(_where_greater)
sum_lanes: Callable[..., Any] = _folded(lambda builder, low, high: builder.fadd(low, high), "Their sum.")
largest_lane: Callable[..., Any] = _folded(_greater, "The largest of them.")
smallest_lane: Callable[..., Any] = _folded(_smaller, "The smallest of them.")
times_power_of_two: Callable[..., Any] = intrinsic(_times_power_of_two)
