"""Arms as an agent is given them: a matrix for one decision, or many sets at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from linmed import validation
from linmed.core import core
from linmed.validation import Floats


def as_matrix(arms: ArrayLike, dim: int) -> Floats:
    """`arms` as the core takes them (K,d); if they were so already, nobody has looked at their entries."""
    if type(arms) is np.ndarray and arms.dtype is validation.FLOAT64 and arms.flags.carray and arms.ndim == 2:
        count, width = arms.shape
        if count > 0 and width == dim:
            return arms
    if isinstance(arms, Mapping):
        raise validation.BadType(
            "arms", "arms must be vectors (K, d); a context is told by name: context={…}"
        )
    return validation.arm_matrix(arms, dim)


def validate(arms: ArrayLike, dim: int) -> Floats:
    """`arms` as the core takes them (K,d), every entry looked at."""
    matrix = as_matrix(arms, dim)
    if not core.all_within(matrix, validation.LARGEST):
        raise validation.bad_entry("arms", matrix)
    return matrix


def group_by_size(sets: Any, dim: int) -> list[tuple[list[int], Floats]]:
    """Sets, checked, by number of arms: the places of those with K, and all of them as (m,K,d)."""
    if isinstance(sets, np.ndarray) and sets.dtype != object and sets.ndim != 3:
        raise validation.BadValue("sets", f"sets must have shape (n, K, {dim}), got {sets.shape}")
    if not hasattr(sets, "__iter__"):
        raise validation.BadType("sets", f"sets must be matrices of arms, got {sets!r}")
    found: list[tuple[list[int], Floats]]
    if type(sets) is np.ndarray and sets.dtype.kind == "f" and sets.size and sets.shape[2] == dim:
        found = [(list(range(len(sets))), validation.for_kernels(sets))]
    else:
        alike: dict[int, dict[int, Floats]] = {}
        for i, arms in enumerate(sets):
            try:
                matrix = as_matrix(arms, dim)
            except (ValueError, TypeError) as error:
                raise validation.BadValue("sets", f"in sets[{i}]: {error}") from None
            alike.setdefault(len(matrix), {})[i] = matrix
        found = [(list(some), np.array(list(some.values()))) for some in alike.values()]
    for places, stack in found:
        if not core.all_within(stack.reshape(-1, dim), validation.LARGEST):
            i, matrix = next(
                p for p in zip(places, stack, strict=True) if not core.all_within(p[1], validation.LARGEST)
            )
            raise validation.BadValue("sets", f"in sets[{i}]: {validation.bad_entry('arms', matrix)}")
    return found
