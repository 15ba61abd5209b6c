"""How every kernel is compiled: cached on disk, without the interpreter lock, IEEE arithmetic kept."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` on first call. `fastmath` stays off: compensated sums rely on IEEE order."""
    compiled: F = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled
