"""Items that requests name by id, and the arms that they and a context make. Knows no database.

A catalogue never changes: adding, changing or removing an item gives the next version. A decision says which
version it saw, so its arms can be made again from the items, the context and the places that were offered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import checks
from linmed.checks import BadValue, Floats
from linmed.features import join
from linmed.serve.errors import INPUT
from linmed.serve.settings import LARGEST

Map = Literal["plain", "outer"]
MOST_ITEMS = 100_000


@dataclass(frozen=True, eq=False)
class Catalogue:
    """One version of it."""

    ids: tuple[str, ...]
    features: Floats  # (n, f)
    version: int = 0
    numbers: tuple[int, ...] = field(default=(), repr=False)
    """Of the items in the database: what a decision refers to."""

    @cached_property
    def place(self) -> dict[str, int]:
        """Where each id stands."""
        return {name: i for i, name in enumerate(self.ids)}

    def places(self, wanted: Sequence[str]) -> NDArray[np.uint32]:
        """Where the items called `wanted` stand."""
        if not wanted:
            raise BadValue("arm_ids", "arm_ids is empty: at least one arm is needed")
        for i, name in enumerate(wanted):
            if name not in self.place:
                raise BadValue(f"arm_ids[{i}]", f"arm_ids[{i}]: {name!r} is not in the catalogue")
        return np.array([self.place[name] for name in wanted], dtype=np.uint32)

    def same_items(self, other: "Catalogue | None") -> bool:
        """Whether `other` has the same items in the same order."""
        return other is not None and self.ids == other.ids and np.array_equal(self.features, other.features)

    def with_items(self, changes: "Catalogue") -> "Catalogue":
        """With those of `changes`: known ones keep their place, new ones come last."""
        found = dict(zip(self.ids, self.features, strict=True))
        found.update(zip(changes.ids, changes.features, strict=True))
        return _made(found)

    def without(self, name: str) -> "Catalogue":
        """Without one item."""
        return _made({key: row for key, row in zip(self.ids, self.features, strict=True) if key != name})


def _made(rows: Mapping[str, Floats]) -> Catalogue:
    return Catalogue(tuple(rows), np.array(list(rows.values())))


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
    width = catalogue.features.shape[1]
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
    return Catalogue(tuple(ids), matrix)
