"""How every kernel is compiled: cached on disk, without the interpreter lock, IEEE arithmetic kept."""

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` on its first call.

    `fastmath` stays off: the sums in twice the working precision rely on the order of operations.
    """
    compiled: Callable[..., Any] = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


def reordered(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, but sums may be taken in another order and in one rounding with their products.

    For inner products along a row, which vectorise only so. A row's sum depends on nothing but the row,
    so equal arms still get equal values wherever they stand.
    """
    compiled: Callable[..., Any] = numba.njit(
        cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
    )(function)
    return compiled


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, copied into its callers: a call that passes many arrays costs more than a small case does."""
    compiled: Callable[..., Any] = numba.njit(nogil=True, error_model="numpy", inline="always")(function)
    return compiled
