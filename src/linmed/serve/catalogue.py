"""The arms that items, which requests name by id, and a context make. Knows no database.

A version of a catalogue (`shelf`) never changes: adding, changing or removing an item gives the next. A
decision says which version it saw, so its arms can be made again from the items, the context and the places
that were offered.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import checks
from linmed.checks import BadValue, Floats
from linmed.serve.errors import INPUT
from linmed.serve.settings import LARGEST
from linmed.serve.shelf import Catalogue

Map = Literal["plain", "outer"]
MOST_ITEMS = 1_000_000
MOST_AT_ONCE = 100_000
"""Items of a catalogue that are gone through for one request: to replace it as a whole, or to judge all."""


class Offer(NamedTuple):
    """The arms among which one request asks for a decision."""

    vectors: Floats  # (K, d)
    ids: tuple[str, ...] | None
    catalogue: Catalogue | None = None
    """Where the arms are items: from here, …"""
    places: NDArray[np.uint32] | None = None
    """… these of them (None: all), …"""
    context: Floats | None = None
    """… joined by this."""


def from_catalogue(
    catalogue: Catalogue, wanted: Sequence[str] | None, context: Sequence[float] | None, map: Map, dim: int
) -> Offer:
    """All items, or those called `wanted`, joined by a context."""
    width = catalogue.width
    user = bounded("context", checks.floats("context", [] if context is None else context).reshape(-1))
    needed, how = (dim // width, "dim / features") if map == "outer" else (dim - width, "dim − features")
    if user.size != needed:
        raise BadValue("context", f"context must have {needed} entries ({how}), got {user.size}")
    places = None if wanted is None else catalogue.places(wanted)
    features = catalogue.features if places is None else catalogue.features[places]
    vectors = checks.for_kernels(join(features, user, map))
    if map == "outer":  # products may be larger than their factors
        bounded("arms", vectors)
    return Offer(vectors, catalogue.ids if wanted is None else tuple(wanted), catalogue, places, user)


def join(features: Floats, context: Floats, map: Map) -> Floats:
    """Arms from the features of items (K, f) and a context (c,).

    plain: (features, context), dim = f + c.  outer: features ⊗ context, dim = f·c.
    """
    if map == "outer":
        return (features[:, :, None] * context).reshape(len(features), -1)
    if context.size == 0:
        return features
    return np.hstack([features, np.broadcast_to(context, (len(features), context.size))])


def bounded(field: str, array: Floats) -> Floats:
    """`array` if nothing in it is larger than the service accepts."""
    if array.size and max(array.max(), -array.min()) > LARGEST:
        where = np.unravel_index(int(np.argmax(np.abs(array))), array.shape)
        entry = field + "".join(f"[{int(i)}]" for i in where)
        raise BadValue(entry, f"{entry} is {array[where]:g}; at most {LARGEST:g} in size is accepted")
    return array


def as_catalogue(ids: Sequence[str], features: list[list[float]], map: Map, dim: int) -> Catalogue:
    """Checked: distinct ids, one row each, and a width that `map` can bring to `dim`."""
    if len(ids) != len(features):
        raise BadValue("catalogue", f"catalogue: {len(ids)} ids for {len(features)} rows of features")
    if len(set(ids)) != len(ids):
        seen: set[str] = set()
        twice = next(name for name in ids if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise BadValue("catalogue.ids", f"catalogue: the id {twice!r} occurs twice")
    field = "catalogue.features"
    try:
        matrix = checks.arm_matrix(features)
    except INPUT as error:
        raise BadValue(field, f"catalogue: {error}") from None
    bounded(field, matrix)
    width = matrix.shape[1]
    if map == "plain" and width > dim:
        raise BadValue(field, f"catalogue: arms have {width} features, more than dim={dim}")
    if map == "outer" and dim % width:
        text = f"catalogue: with map 'outer' dim={dim} must be a multiple of the {width} features"
        raise BadValue(field, text)
    return Catalogue.of(tuple(ids), matrix)
