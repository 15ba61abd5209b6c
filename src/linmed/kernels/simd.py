"""Eight float64 numbers at once: a vector that the compiler keeps in registers.

Lanes are arms, so each arm's sum keeps its own order: the same digits wherever the arm stands, on every
processor, whatever instructions (AVX-512, AVX2, SSE, NEON) the eight lanes become.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import float64, intp, types, void
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 8
_LLVM = ir.VectorType(ir.DoubleType(), LANES)
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


def _place(context: Any, builder: Any, type_: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(type_)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), _LLVM.as_pointer())


def _load(context: Any, array: Any, offset: Any) -> Any:
    """Numbers offset … offset + 7 of a contiguous array."""

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

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        nothing = ir.Constant(_LLVM, ir.Undefined)
        first = builder.insert_element(nothing, arguments[0], ir.Constant(_INT, 0))
        return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INT, LANES), [0] * LANES))

    return vector(float64), generate


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


load: Callable[..., Any] = intrinsic(_load)
store: Callable[..., Any] = intrinsic(_store)
splat: Callable[..., Any] = intrinsic(_splat)
multiply_add: Callable[..., Any] = intrinsic(_multiply_add)
multiply: Callable[..., Any] = intrinsic(_multiply)
