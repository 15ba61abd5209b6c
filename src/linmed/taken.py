"""A decision before it has an id: one of the arms in a matrix, or one item of a catalogue by its route."""

from dataclasses import dataclass

from linmed.catalogue_sampler import Routed
from linmed.features.catalogue import Id
from linmed.item_encoder import Offer
from linmed.policies.live import Drawn
from linmed.validation import Floats


@dataclass(slots=True)
class Taken:
    """What was drawn, and of what."""

    arm: int
    log_probability: float | None
    log_probabilities: Floats | None
    error: float
    vector: Floats  # (d,)
    kept: Floats  # (d,) what its reward will be learned with
    count: int
    """Of what could have been played."""
    arms: Floats | None = None
    item: Id | None = None
    fallback: bool | None = None
    best: int | None = None
    """The place of â, where it was a decision by route, …"""
    catalogue_version: int | None = None
    """… and among which catalogue."""
    context: Floats | None = None  # (dx,) encoded


def chosen(matrix: Floats, drawn: Drawn, offer: Offer | None) -> Taken:
    """One of the arms in a matrix."""
    if offer is None:
        return Taken(*drawn, len(matrix), matrix)
    return Taken(*drawn, len(matrix), matrix, offer.ids[drawn[0]], context=offer.context)


def routed(made: Routed, context: Floats) -> Taken:
    """One item of a catalogue, in an encoded context (dx,)."""
    place, chance, vector, items = made.place, made.log_probability, made.features, made.items
    law = made.fallback, made.best, items.version, context if len(context) else None
    return Taken(place, chance, None, 0.0, vector, vector, items.count, None, items.ids[place], *law)
