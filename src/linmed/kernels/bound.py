"""A kernel with its first arguments given once: what a live decision calls.

numba finds the compiled version of a kernel by looking at every argument of every call, at each array within
a tuple too. For a state of eight arrays that takes longer than a small decision does.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np

_PLACES, _CUBE = np.empty(0, dtype=np.int64), np.empty((0, 0, 0))
ROUND = _CUBE[None], _CUBE, _CUBE, _PLACES[None], _CUBE
"""What the kernel `rounds` takes after state, confidence and rule: arms, rewards, noise, played, log_p."""
OBSERVATIONS = np.empty((0, 0)), np.empty(0), _PLACES
"""What `observe` takes after the state: features, rewards, replicas."""


def bound(kernel: Any, given: tuple[Any, ...], like: tuple[Any, ...]) -> Callable[..., Any]:
    """`kernel(*given, …)` for further arguments of the types that `like` has, compiled if need be.

    Nothing looks at those types again: arrays must have passed `checks.for_kernels`, or be one's own.
    """
    compiled = kernel.compile(tuple(numba.typeof(argument) for argument in (*given, *like)))
    return partial(compiled, *given)
