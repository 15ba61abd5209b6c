"""Arms from items and a context: every feature is one entry of the item times one of the context.

Either entry may be the constant 1, which stands last in both: e' = (e, 1), x' = (x, 1), and feature k of an
arm is e'[i_k] · x'[j_k]. So an arm is affine in the item, B_x e + c_x, whatever the interactions. One rounded
product each, no sum and no BLAS: the same bits on every processor.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed.validation import Floats, Ints

Span = tuple[int, int]
"""First place, and the place after the last."""


class Products(NamedTuple):
    """Which entries are multiplied, (d,) each.

    >>> import numpy as np
    >>> from linmed.features import outer
    >>> products = outer(item_width=1, context_width=2, intercept=True)
    >>> products.dim, products.join(np.array([[5.0]]), np.array([2.0, 3.0])).tolist()
    (6, [[10.0, 15.0, 5.0, 2.0, 3.0, 1.0]])

    >>> products.spread(np.array([[5.0]])).tolist(), products.factors(np.array([2.0, 3.0, 1.0])).tolist()
    ([[5.0, 5.0, 5.0, 1.0, 1.0, 1.0]], [2.0, 3.0, 1.0, 2.0, 3.0, 1.0])
    >>> B, c = products.lift(np.array([2.0, 3.0]))
    >>> B.T.tolist(), c.tolist()
    ([[2.0, 3.0, 1.0, 0.0, 0.0, 0.0]], [0.0, 0.0, 0.0, 2.0, 3.0, 1.0])
    """

    item: Ints
    """Places in e' = (e, 1), …"""
    context: Ints
    """… and in x' = (x, 1)."""
    item_width: int
    context_width: int
    sizes: Floats | None = None
    """What each product is multiplied with, where that is not 1 everywhere."""

    @property
    def dim(self) -> int:
        """d."""
        return len(self.item)

    def spread(self, items: NDArray[np.floating]) -> Floats:
        """What of each item is multiplied: (K, de) → (K, d). It serves any number of contexts."""
        extended = np.ones((len(items), self.item_width + 1))
        extended[:, :-1] = items
        return extended.take(self.item, axis=1)  # rows of one piece, which extended[:, …] would not be

    def factors(self, extended: Floats) -> Floats:
        """What each of these is multiplied with: x' = (x, 1) (dx + 1,) → (d,)."""
        found = extended.take(self.context)
        return found if self.sizes is None else found * self.sizes

    def shrunk(self, size: float) -> "Products":
        """These with products of two entries, neither of them the constant, times `size`.

        >>> import numpy as np
        >>> from linmed.features import outer
        >>> outer(1, 1, intercept=True).shrunk(0.5).join(np.array([[5.0]]), np.array([2.0])).tolist()
        [[5.0, 5.0, 2.0, 1.0]]
        """
        both = (self.item < self.item_width) & (self.context < self.context_width)
        return self._replace(sizes=np.where(both, size, 1.0))

    def join(self, items: NDArray[np.floating], context: Floats) -> Floats:
        """Arms (K, d)."""
        arms = self.spread(items)
        arms *= self.factors(np.append(context, 1.0))
        return arms

    def lift(self, context: Floats) -> tuple[Floats, Floats]:
        """B_x (d, de) and c_x (d,) with arm = B_x e + c_x."""
        factors, constant = self.factors(np.append(context, 1.0)), self.item == self.item_width
        matrix = np.zeros((self.dim, self.item_width + 1))
        matrix[np.arange(self.dim), self.item] = factors
        return np.ascontiguousarray(matrix[:, :-1]), np.where(constant, factors, 0.0)


@lru_cache(maxsize=256)
def plain(item_width: int, context_width: int, intercept: bool = False) -> Products:
    """(e, x), and 1 after them where there is an intercept: every context ranks the items alike.

    >>> plain(item_width=2, context_width=3, intercept=True).dim
    6
    """
    return chosen(item_width, context_width, (), intercept)


@lru_cache(maxsize=256)
def outer(item_width: int, context_width: int, intercept: bool = False) -> Products:
    """e ⊗ x; with an intercept (e, 1) ⊗ (x, 1): every item has a line of its own in the context.

    >>> outer(item_width=2, context_width=3, intercept=True).dim
    12
    """
    items, contexts = item_width + intercept, context_width + intercept
    pairs = np.repeat(np.arange(items), contexts), np.tile(np.arange(contexts), items)
    return Products(*pairs, item_width, context_width)


def join(items: Floats, context: Floats, interactions: Literal["plain", "outer"]) -> Floats:
    """Arms (K, d) from items (K, de) and a context (dx,), without an intercept.

    >>> items, context = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0])
    >>> join(items, context, "plain").tolist(), join(items, context, "outer").tolist()
    ([[1.0, 2.0, 10.0], [3.0, 4.0, 10.0]], [[10.0, 20.0], [30.0, 40.0]])
    """
    if interactions == "plain" and context.size == 0:
        return items
    make = {"plain": plain, "outer": outer}[interactions]
    return make(items.shape[1], context.size).join(items, context)


def chosen(
    item_width: int, context_width: int, pairs: Sequence[tuple[Span, Span]], intercept: bool
) -> Products:
    """(e, x, 1), and e_i ⊗ x_c for each pair (c, i) of columns."""
    item = [*range(item_width), *[item_width] * (context_width + intercept)]
    context = [*[context_width] * item_width, *range(context_width), *[context_width] * intercept]
    for (c, c_end), (i, i_end) in pairs:
        item += [place for place in range(i, i_end) for _ in range(c, c_end)]
        context += [*range(c, c_end)] * (i_end - i)
    return Products(np.array(item, np.int64), np.array(context, np.int64), item_width, context_width)
