"""How every kernel is compiled: cached on disk, without the interpreter lock, IEEE arithmetic kept."""

from collections.abc import Callable
from typing import Any

import numba
from numba import float64
from numba.extending import intrinsic


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` on its first call.

    `fastmath` stays off: the sums in twice the working precision rely on the order of operations.
    """
    compiled: Callable[..., Any] = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


def reordered(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `kernel`, but sums may be taken in another order and in one rounding with their products.

    For inner products along a row, which vectorise only so. A row's sum depends on nothing but the row,
    so equal arms still get equal values wherever they stand.
    """
    compiled: Callable[..., Any] = numba.njit(
        cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
    )(function)
    return compiled


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `kernel`, copied into its callers: a call that passes many arrays costs more than a small case does.

    For leaves only: they index the arrays they are given, take no views of them and call nothing that does,
    not even in a branch seldom run. What that adds to the loop around them costs more than a small case, too.
    """
    compiled: Callable[..., Any] = numba.njit(nogil=True, error_model="numpy", forceinline=True)(function)
    return compiled


def _fma(context: Any, x: Any, y: Any, z: Any) -> Any:
    """x·y + z with one rounding: fma(x, y, −(x·y)) is exactly what the product x·y has lost."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return float64(float64, float64, float64), generate


fma: Callable[..., Any] = intrinsic(_fma)
