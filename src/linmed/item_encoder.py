"""What an agent with a catalogue offers: its items, joined with a context by a map."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed.features import Catalogue, Column, Features, Items
from linmed.features.catalogue import Id
from linmed.features.rows import number, row, table
from linmed.policies import Policy
from linmed.policies.worth import Worth
from linmed.validation import BadType, BadValue, Floats

MANY = 200
"""A guessed map with more features than these is spoken of."""
Seen = dict[str, float]
"""Numbers of one context that a scale is waiting for, by field."""


class Offer(NamedTuple):
    """The arms of one decision."""

    arms: Any  # (K, d); None where a sampler decides among all items
    ids: Sequence[Id]  # (K,)
    seen: Seen | None
    """What becomes known by deciding."""
    context: Floats | None
    """The numbers of the context (dx,); None where the map reads none."""
    worth: Worth | None = None
    """The values and costs of the arms, where the catalogue has any."""

    def joined(self, told: Worth | None) -> Worth | None:
        """Values and costs that were given, and the catalogue's where they were not."""
        if told is None or self.worth is None:
            return self.worth if told is None else told
        return Worth(*(own if one is None else one for one, own in zip(told, self.worth, strict=True)))


class ItemEncoder:
    """A catalogue and a map. Arms are made of the catalogue as it is when they are asked for.

    An item that is new has the features that it shares with others, and is as good as these say; where a
    feature is its own (its id as a category), that one starts as every other did: at zero, unknown.

    For `Disjoint` an arm is the number of the item's model and the context with its 1; for `Hybrid` the map's
    features, which all items share, stand between them. The number is the first row that the item had, so an
    item that changes, or goes and comes back, keeps its model.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        features: Features,
        policy: Policy,
        seen: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self.catalogue, self.features = catalogue, features
        can = policy.capabilities
        self._models, self._shared = can.per_item, can.shared > 0
        if self._shared and can.shared != features.dim:
            raise BadValue(
                "policy",
                f"policy must be Hybrid(…, shared={features.dim}), the features that the map makes, got "
                f"shared={can.shared}",
            )
        self._seen = {field: list((seen or {}).get(field, ())) for field in self._unsettled()}
        self._learn()

    def _unsettled(self) -> dict[str, int]:
        """Count the numbers of each field for which the map still waits."""
        waiting: dict[str, int] = {}
        for column in self.features.context:
            for field, count in column.unsettled.items():
                waiting[field] = max(count, waiting.get(field, 0))
        return waiting

    def _learn(self) -> None:
        """Update the map with what was seen."""
        context = tuple(column.settle(self._seen) for column in self.features.context)
        self.features = replace(self.features, context=context)
        self._waiting = self._unsettled()
        self._seen = {field: self._seen[field] for field in self._waiting}
        self._side, self._products = self.features.context_side, self.features.products
        self._items: Items | None = None  # of which the two below are

    def current(self) -> tuple[Floats, Sequence[Id]]:
        """Return the live items as a context multiplies them (K, d), and their ids."""
        items = self.catalogue.snapshot()
        if items is not self._items:
            rows = np.flatnonzero(items.live)
            spread = self._products.spread(items.matrix[rows])
            if self._models:
                parts = [spread] if self._shared else []
                own = np.ones((len(rows), self._own_width))
                spread = np.hstack([_first_rows(items)[rows, None], *parts, own])
            self._kept = spread, [items.ids[row] for row in rows.tolist()]
            self._worth = None if items.worth is None else np.ascontiguousarray(items.worth[rows].T)
            self._items = items
            self._places: dict[str, int] | None = None
        return self._kept

    def offer(self, context: Any, wanted: Any = None) -> Offer:
        """Make arms of the live items, or those called `wanted`, in this context."""
        spread, ids = self.current()
        worth = self._worth
        if wanted is not None:
            places = self._find(wanted, ids)
            spread, ids = spread[places], [ids[place] for place in places]
            worth = None if worth is None else worth[:, places]
        if not ids:
            raise BadValue("catalogue", "catalogue is empty: no item can be played")
        extended, seen = self.encoded(context)
        told = extended[:-1] if len(extended) > 1 else None
        arms = spread * self._factors(extended)
        return Offer(arms, ids, seen, told, None if worth is None else Worth(*worth))

    def whole(self, context: Any) -> tuple[Floats, Offer]:
        """Encode the context (dx,) of all items, without making arms."""
        extended, seen = self.encoded(context)
        encoded = extended[:-1]
        return encoded, Offer(None, (), seen, encoded if len(encoded) else None)

    @property
    def dim(self) -> int:
        """d: the features of an arm."""
        if not self._models:
            return self.features.dim
        return 1 + self._shared * self.features.dim + self._own_width

    @property
    def names(self) -> tuple[str, ...]:
        """What each entry of an arm is, (d,)."""
        if not self._models:
            return self.features.names
        shared = self.features.names if self._shared else ()
        own = (*self._side.labels, "1")[: self._own_width]
        return "model", *shared, *(f"{name} (own)" if shared else name for name in own)

    @property
    def _own_width(self) -> int:
        """What a model of an item's own sees: the context, and a 1 where the map has an intercept."""
        return self.features.context_width + self.features.intercept

    def _factors(self, extended: Floats) -> Floats:
        """Compute the factor of each entry of an arm, from a context and its 1."""
        if not self._models:
            return self._products.factors(extended)
        shared = self._products.factors(extended) if self._shared else ()
        return np.concatenate([[1.0], shared, extended[: self._own_width]])

    def encoded(self, context: Any) -> tuple[Floats, Seen | None]:
        """Encode a context, with a 1 (dx + 1,), and what becomes known by deciding in it."""
        if context is None:
            if self._side.fields:
                fields = ", ".join(map(repr, sorted(self._side.fields)))
                raise BadValue("context", f"context must be given: the map reads {fields} of it")
            context = {}
        return self._side.extended(context), self._numbers(context) if self._waiting else None

    def lift(self, encoded: Floats | None) -> tuple[Floats, Floats]:
        """Express arms in the space of items, in an encoded context (dx,): see `Features.lift`."""
        return self._products.lift(np.empty(0) if encoded is None else encoded)

    def see(self, seen: Seen) -> bool:
        """Remember the numbers of a decision's context; True where a scale has become known by them."""
        enough = False
        for field, value in seen.items():
            if field in self._waiting:
                values = self._seen[field]
                values.append(value)
                enough = enough or len(values) >= self._waiting[field]
        before = self.features
        if enough:
            self._learn()
        return self.features is not before

    @property
    def waits(self) -> bool:
        """Whether the map waits for numbers of contexts."""
        return bool(self._waiting)

    def rows(self, contexts: Any) -> list[Mapping[str, Any]]:
        """A table or a list of contexts, one by one."""
        if isinstance(contexts, (list, tuple)):
            return [row(f"contexts[{i}]", each) for i, each in enumerate(contexts)]
        found = table("contexts", contexts)
        columns = {name: found(name) for name in found.names if name in self._side.fields}
        if not columns and self._side.fields:
            raise found.lacks(min(self._side.fields))
        return [{name: column[i] for name, column in columns.items()} for i in range(found.rows)]

    def to_dict(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Give everything as JSON and arrays; `from_dict` is its inverse."""
        meta, arrays = self.catalogue.arrays()
        return {"features": self.features.to_dict(), "seen": self._seen, "catalogue": meta}, arrays

    @classmethod
    def from_dict(
        cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], policy: Policy
    ) -> "ItemEncoder":
        """Make the encoder that `to_dict` described."""
        catalogue = Catalogue.from_arrays(meta["catalogue"], arrays)
        seen = {field: [number("seen", value) for value in values] for field, values in meta["seen"].items()}
        return cls(catalogue, Features.from_dict(meta["features"]), policy, seen)

    def _numbers(self, context: Any) -> Seen:
        """Read from a context the numbers that a scale waits for."""
        fields = row("context", context)
        found = {field: number(f"context[{field!r}]", fields.get(field)) for field in self._waiting}
        return {field: value for field, value in found.items() if value == value}

    def _find(self, wanted: Any, ids: Sequence[Id]) -> list[int]:
        """Look up the places of the items called `wanted`."""
        if isinstance(wanted, (str, bytes)) or not hasattr(wanted, "__iter__"):
            raise BadType("items", f"items must be a list of ids, got {wanted!r}")
        if self._places is None:
            self._places = {str(name): place for place, name in enumerate(ids)}
        names = [str(name) for name in wanted]
        for name in names:
            if name not in self._places:
                raise BadValue("items", f"items has {name!r}, which is not in the catalogue")
        if len(set(names)) < len(names):
            raise BadValue("items", f"items has an id twice: {names}")
        if not names:
            raise BadValue("items", "items is empty: at least one is needed")
        return [self._places[name] for name in names]


def _first_rows(items: Items) -> Floats:
    """Find for every row the first that had its id (N,)."""
    first: dict[str, int] = {}
    return np.array(
        [first.setdefault(str(name), row) for row, name in enumerate(items.ids[: len(items.live)])],
        dtype=np.float64,
    )


def item_encoder(catalogue: Any, features: Any, context: Any, policy: Policy) -> ItemEncoder | None:
    """Make the encoder of an agent with these arguments; None without a catalogue."""
    if catalogue is None:
        for name, value in (("features", features), ("context", context)):
            if value is not None:
                raise BadValue(name, f"{name} needs a catalogue: Agent(policy, catalogue=…, {name}=…)")
        return None
    if not isinstance(catalogue, Catalogue):
        raise BadType("catalogue", f"catalogue must be a linmed.features.Catalogue, got {catalogue!r}")
    if features is None:
        features = catalogue.features
    elif not isinstance(features, Features):
        raise BadType("features", f"features must be linmed.features.Features, got {features!r}")
    elif context is not None:
        raise BadValue("context", "context must be None where features are given: they have columns of it")
    else:
        features = replace(features, item=_same(features.item, catalogue.features.item))
    if context is not None:
        features = replace(features, context=context)
    made = ItemEncoder(catalogue, features, policy)
    joined = not policy.capabilities.per_item or policy.capabilities.shared > 0
    if joined and features.interactions == "shrunk" and features.dim > MANY:
        warnings.warn(
            f"the guessed map has {made.features}; regret grows with their number: name the pairs of columns "
            "that matter, features=Features(context=…, item=…, interactions=[(…, …)])",
            stacklevel=3,
        )
    return made


def _same(given: Sequence[Column], known: Sequence[Column]) -> Sequence[Column]:
    """Return the columns with which a catalogue was encoded, if a map's are these, fitted or not yet."""
    same = len(given) == len(known) and all(
        one == other or (one.unknown and type(one) is type(other) and one.name == other.name)
        for one, other in zip(given, known, strict=True)
    )
    if not same:
        raise BadValue(
            "features",
            "features.item must be the columns with which the catalogue was made, "
            f"{[column.name for column in known]}, fitted alike; got {[column.name for column in given]}",
        )
    return known
