"""The arms that items, which requests name by id, and a context make. Knows no database.

A version of a catalogue (`shelf`) never changes: adding, changing or removing an item gives the next. A
decision says which version it saw, so its arms can be made again from the items, the context and the places
that were offered.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.serve.encoding import Joining, bounded
from linmed.serve.item_table import Catalogue
from linmed.validation import BadValue, Floats

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


class Whole(NamedTuple):
    """All items of a catalogue, to be decided among by route: their arms are not made."""

    catalogue: Catalogue
    context: Floats


def from_catalogue(
    catalogue: Catalogue, wanted: Sequence[str] | None, context: Any, joining: Joining
) -> Offer:
    """All items, or those called `wanted`, joined by a context."""
    user = joining.context(context, catalogue.width)
    places = None if wanted is None else catalogue.places(wanted)
    features = catalogue.features if places is None else catalogue.features[places]
    vectors = validation.for_kernels(joining.join(features, user))
    if joining.map != "plain":  # products may be larger than their factors
        bounded("arms", vectors)
    return Offer(vectors, catalogue.ids if wanted is None else tuple(wanted), catalogue, places, user)


def as_catalogue(ids: Sequence[str], rows: Any, joining: Joining) -> Catalogue:
    """Checked: distinct ids, one row each, and a width that `joining` can bring to its dimension."""
    if len(ids) != len(rows):
        raise BadValue("catalogue", f"catalogue: {len(ids)} ids for {len(rows)} rows of features")
    if len(set(ids)) != len(ids):
        seen: set[str] = set()
        twice = next(name for name in ids if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise BadValue("catalogue.ids", f"catalogue: the id {twice!r} occurs twice")
    try:
        return Catalogue.of(tuple(ids), joining.items(rows, "catalogue.features"))
    except BadValue as error:
        raise BadValue(error.field, str(error).replace("catalogue.features: ", "catalogue: ", 1)) from None
