"""How items and a context make arms: by a map's name and the dimension, or by `linmed.features.Features`.

Everything is one product of an entry of the item and one of the context (`linmed.features.features`), so an
arm can be made again from what the log holds, to the last bit, on every processor. A decision says which
version of the catalogue it saw: its arms are made of that, the context and the places that were offered.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.features.features import Features, Products, Side, outer, plain
from linmed.policies.worth import Worth
from linmed.serve.errors import INPUT, field_of
from linmed.serve.items import Catalogue
from linmed.serve.settings import LARGEST
from linmed.validation import BadType, BadValue, Floats

MapName = Literal["plain", "outer"]


@dataclass(frozen=True)
class Joining:
    """One of a bandit's settings, which never changes."""

    dim: int
    map: MapName | None = "plain"
    features: Features | None = None
    """Instead of `map`."""

    def products(self, width: int) -> Products:
        """For items of `width` numbers."""
        if self.features is not None:
            return self.features.products
        if self.map == "outer":
            return outer(width, self.dim // width)
        return plain(width, self.dim - width)

    def separate(self, width: int) -> bool:
        """Whether every context ranks the items alike, because nothing of it is multiplied with them."""
        made = self.products(width)
        return not ((made.item < width) & (made.context < made.context_width)).any()

    def join(self, items: Floats, context: Floats) -> Floats:
        """Arms (K, d) from items (K, f) and a context (c,)."""
        if context.size == 0 and self.map == "plain":
            return items
        return self.products(items.shape[1]).join(items, context)

    def context(self, given: Any, width: int) -> Floats:
        """A request's context as numbers (c,), for items of `width` numbers."""
        if self.features is not None:
            side = self.features.context_side
            if given is None and not side.fields:
                given = {}
            if not isinstance(given, Mapping):
                text = f"context must be an object with {_listed(side)}, got {_kind(given)}"
                raise BadType("context", text)
            return bounded("context", encoded(side, given, "context"))
        if isinstance(given, Mapping):
            text = "context must be a list of numbers: this bandit has no features to make them of an object"
            raise BadType("context", text)
        user = bounded("context", validation.floats("context", [] if given is None else given).reshape(-1))
        needed, how = (
            (self.dim // width, "dim / features")
            if self.map == "outer"
            else (self.dim - width, "dim − features")
        )
        if user.size != needed:
            raise BadValue("context", f"context must have {needed} entries ({how}), got {user.size}")
        return user

    def items(self, rows: Any, where: str) -> Floats:
        """A request's items as numbers (n, f): each a list of numbers or, with `features`, an object."""
        described = not isinstance(rows, np.ndarray) and any(isinstance(row, Mapping) for row in rows)
        if described:
            rows = [
                self._item(row, f"{where}[{i}]").tolist() if isinstance(row, Mapping) else row
                for i, row in enumerate(rows)
            ]
        try:
            matrix = validation.arm_matrix(rows)
        except INPUT as error:
            raise BadValue(where, f"{where}: {error}") from None
        bounded(where, matrix)
        width = matrix.shape[1]
        if self.features is not None and width != self.features.item_width:
            wanted = f"{self.features.item_width} numbers by this bandit's features"
            raise BadValue(where, f"{where}: items have {wanted}, got {width}")
        if self.map == "plain" and width > self.dim:
            raise BadValue(where, f"{where}: arms have {width} features, more than dim={self.dim}")
        if self.map == "outer" and self.dim % width:
            text = f"{where}: with map 'outer' dim={self.dim} must be a multiple of the {width} features"
            raise BadValue(where, text)
        return matrix

    def _item(self, row: Mapping[str, Any], where: str) -> Floats:
        if self.features is None:
            text = f"{where} must be a list of numbers: this bandit has no features to make them of an object"
            raise BadType(where, text)
        return encoded(self.features.item_side, row, where)


class Offer(NamedTuple):
    """The arms among which one request asks for a decision."""

    vectors: Floats | None  # (K, d)
    """None: all items of the catalogue, whose arms are not made."""
    ids: tuple[str, ...] | None
    catalogue: Catalogue | None = None
    """Where the arms are items: from here, …"""
    places: NDArray[np.uint32] | None = None
    """… these of them (None: all), …"""
    context: Floats | None = None
    """… joined by this."""
    worth: Worth | None = None
    """Their values and costs (K,) each, where the request has some."""

    def priced(self, values: Any, costs: Any) -> "Offer":
        """The same with the values and costs of a request: lists in the arms' order, or by their ids."""
        if self.vectors is None:
            text = "costs: decisions among all items by route know no values and costs: name some (arm_ids)"
            raise BadValue("costs" if values is None else "values", text)
        told = Worth(self._in_order("values", values), self._in_order("costs", costs))
        return self._replace(worth=told.checked(len(self.vectors)))

    def _in_order(self, name: str, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        if self.ids is None:
            raise BadValue(name, f"{name} must be a list in the order of the arms: these have no ids")
        for one in self.ids:
            if one not in given:
                raise BadValue(name, f"{name} has nothing for {one!r}")
        return [given[one] for one in self.ids]


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
    return Offer(vectors, catalogue.names if wanted is None else tuple(wanted), catalogue, places, user)


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


def as_features(config: Mapping[str, Any]) -> Features:
    """The map that a request describes. Nothing in it may be left to be learned: servers would disagree."""
    try:
        features = Features.from_dict(config)
        unknown = features.unknown
        if unknown:
            text = f"{unknown[0]} is not known: give it, or fit the map to tables first"
            raise BadValue("features", f"features: {text} (Features.fit)")
        if features.dim > 1000:
            raise BadValue("features", f"features: an arm would have {features.dim} numbers, at most 1000")
        return features
    except INPUT as error:
        raise BadValue("features", f"features: {str(error).removeprefix('features: ')}") from None


def encoded(side: Side, row: Mapping[str, Any], where: str) -> Floats:
    """The fields of a row as numbers; those that are missing have the answer of their column."""
    for name in row:
        if name not in side.fields:
            entry = f"{where}.{name[:100]}"
            raise BadValue(entry, f"{entry} is unknown: this bandit's features have {_listed(side)} there")
    try:
        return side.encode(dict(row))
    except INPUT as error:
        field = field_of(error) or ""
        found = re.match(r"\w+\['(.*)'\]", field)
        entry = f"{where}.{found[1]}" if found else where
        raise BadValue(entry, str(error).replace(field, entry, 1) if found else f"{where}: {error}") from None


def bounded(field: str, array: Floats) -> Floats:
    """`array` if nothing in it is larger than the service accepts."""
    if array.size and max(array.max(), -array.min()) > LARGEST:
        where = np.unravel_index(int(np.argmax(np.abs(array))), array.shape)
        entry = field + "".join(f"[{int(i)}]" for i in where)
        raise BadValue(entry, f"{entry} is {array[where]:g}; at most {LARGEST:g} in size is accepted")
    return array


def _listed(side: Side) -> str:
    return f"the fields {', '.join(sorted(side.fields))}" if side.fields else "no fields"


def _kind(value: Any) -> str:
    if value is None:
        return "none"
    return f"a list of {len(value)}" if isinstance(value, Sequence) else type(value).__name__
