"""What arms are worth: values and costs, beside their features."""

from typing import Any, NamedTuple

import numpy as np

from linmed import validation
from linmed.validation import Floats

WORTH = 2
"""Columns behind an arm's features where arms have values and costs: see `priced`."""


def priced(arms: Floats, values: Any = 1.0, costs: Any = 0.0) -> Floats:
    """Put values and costs (…,K) behind the features of arms (…,K,d): arms (…,K,d + 2).

    A policy then maximises value · reward − cost, and learns rewards as before.

    >>> priced(np.eye(2), costs=[0.3, 0.0])
    array([[1. , 0. , 1. , 0.3],
           [0. , 1. , 1. , 0. ]])
    """
    shape = np.broadcast_shapes(arms.shape[:-1], np.shape(values), np.shape(costs))
    out = np.empty((*shape, arms.shape[-1] + WORTH))
    out[..., :-WORTH], out[..., -WORTH], out[..., -1] = arms, values, costs
    return out


def plain_if_worthless(arms: Floats, dim: int) -> Floats:
    """Arms (…,K,d) of arms that may have values and costs, where all are 1 and 0; else the same."""
    if arms.shape[-1] > dim and (arms[..., dim] == 1.0).all() and not arms[..., dim + 1].any():
        return validation.for_kernels(arms[..., :dim])
    return arms


class Worth(NamedTuple):
    """The value of a unit of reward (K,) and the cost (K,) of each arm; None stands for 1, and for 0."""

    values: Any
    costs: Any

    def checked(self, count: int) -> "Worth":
        """The same as the core takes them, for so many arms; one number stands for all."""
        found = []
        for name, given in zip(self._fields, self, strict=True):
            array = None
            if given is not None:
                array = validation.floats(name, given)
                if array.shape not in ((), (count,)):
                    text = f"{name} must be one number, or one for each of {count} arms, got {array.shape}"
                    raise validation.BadValue(name, text)
                array = np.array(np.broadcast_to(array, count))
                good = array > 0.0 if name == "values" else array >= 0.0
                good &= array <= validation.LARGEST
                if not good.all():
                    right = "above 0, what a unit of reward is worth" if name == "values" else "0 or more"
                    raise validation.BadValue(name, f"{name} must be {right}, got {array[~good][0]:g}")
            found.append(array)
        return Worth(*found)

    def both(self, count: int) -> tuple[Floats, Floats]:
        """Values and costs of so many arms, checked."""
        values, costs = self.checked(count)
        return (
            np.ones(count) if values is None else values,
            np.zeros(count) if costs is None else costs,
        )

    def beside(self, arms: Floats) -> Floats:
        """Arms (K,d) with both behind their features (K,d + 2)."""
        return priced(arms, *self.both(len(arms)))
