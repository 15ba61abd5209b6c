"""A few items of a catalogue for every decision, by which reward models know what a target would earn.

q̂(π) = Σ_a π(a) q̂(a) is a sum over all items of a catalogue. For a target of a few items it is a sum over
these. For "uniform" it is the mean of q̂ over items that are drawn evenly, with replacement, anew for each
decision: given the past and the context that mean has the expectation q̂(π), whatever the model, and it knows
nothing of what was played. So the terms q̃ + w (r − q̂(a)) have the mean that they had with q̂(π), and less that
mean they still are martingale differences; their variance grows by Var(q̂)/m, which is in the terms and so in
their intervals. One sample for all decisions would not do: its error would be the same in every term, and no
interval would know of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from linmed import streams
from linmed.agent import Agent
from linmed.catalogue_sampler import NthLive
from linmed.features import Catalogue, Features, Items
from linmed.log import DecisionLog
from linmed.ope.log_facts import require
from linmed.ope.scan import Rounds
from linmed.ope.targets import ItemsTarget, Target, UniformTarget
from linmed.validation import BadType, BadValue, Floats, Ints

SAMPLED = 256
"""Items that are drawn for a decision where a target plays all of them."""
LISTED = 0x6C_6973_7465_64  # "listed" in ASCII: the key of the stream that draws them
AT_ONCE = 1 << 22
"""Numbers of arms that are made at once."""
SAME = 1e-9
"""Share of its size by which an arm that was made again may differ from the one that was logged."""


class Listed(NamedTuple):
    """A target's probability of the items that were played (n,), and its share of the listed ones (ΣK,)."""

    played: Floats
    mass: Floats


@dataclass(frozen=True, eq=False)
class Listing:
    """Which items stand for a catalogue, and how arms are made of them."""

    catalogue: Catalogue
    features: Features
    targets: tuple[Target, ...]
    seed: int

    @classmethod
    def of(cls, given: Any, targets: tuple[Target, ...], seed: int, log: DecisionLog) -> "Listing":
        """By a catalogue whose items are arms, or an agent's, which are made so in a context."""
        catalogue, features = (
            (given.catalogue, given.features)
            if isinstance(given, Agent)
            else (given, getattr(given, "features", None))
        )
        if not isinstance(catalogue, Catalogue) or not isinstance(features, Features):
            raise BadType(
                "catalogue",
                f"catalogue must be a Catalogue, or an agent with one, got {type(given).__name__}",
            )
        found = cls(catalogue, features, targets, seed)
        require(log, found.columns, "a reward model of a catalogue's items", "catalogue")
        return found

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the log that it needs."""
        context = ("context",) if self.features.context_width else ()
        return ("features", "catalogue_version", *context)

    @staticmethod
    def knows(target: Target) -> bool:
        """Whether a target's value by a model is a sum over few items, or the mean over all."""
        return isinstance(target, (ItemsTarget, UniformTarget))

    def begin(self) -> "Lister":
        """For one pass over a log."""
        return Lister(self)


class Lister:
    """Lists items for the decisions of a log, in its order: the draws depend on the seed and that alone."""

    def __init__(self, listing: Listing):
        self._listing = listing
        self._stream = np.random.Generator(streams.bits(listing.seed, "data", LISTED))
        self._draws = SAMPLED if any(isinstance(one, UniformTarget) for one in listing.targets) else 0
        few = [one.chances for one in listing.targets if isinstance(one, ItemsTarget)]
        self._ids = list(dict.fromkeys(item for chances in few for item in chances))
        self._rows: dict[str, list[int]] = {item: [] for item in self._ids}
        for row, name in enumerate(listing.catalogue.ids):
            if str(name) in self._rows:
                self._rows[str(name)].append(row)
        self._then: tuple[Items, NthLive] | None = None

    def alone(self, rounds: Rounds) -> Rounds:
        """Decisions as a model learns from them: with the item that was played alone."""
        arms = self._played(rounds)
        ones = np.ones(len(rounds), dtype=np.int64)
        return replace(rounds, arm=0 * ones, arm_count=ones, arms=arms, placed=None, extra={})

    def listed(self, rounds: Rounds, chances: Sequence[Floats]) -> Iterator[tuple[Rounds, list[Listed]]]:
        """Decisions with the item that was played first, then the targets' own, then those drawn."""
        listing, played = self._listing, self._played(rounds)
        size = 1 + len(self._ids) + self._draws
        versions = rounds.extra["catalogue_version"].to_pylist()
        contexts: list[Any] = [()] * len(rounds)
        if listing.features.context_width:
            contexts = rounds.extra["context"].to_pylist()
        step = max(1, AT_ONCE // (size * played.shape[1]))
        for start in range(0, len(rounds), step):
            some = slice(start, min(start + step, len(rounds)))
            uniforms = self._stream.random((some.stop - start, self._draws))
            arms = np.empty((some.stop - start, size, played.shape[1]))
            there = np.zeros((some.stop - start, len(self._ids)), dtype=bool)
            for i, row in enumerate(range(start, some.stop)):
                arms[i], there[i] = self._arms(
                    rounds, row, played[row], versions[row], contexts[row], uniforms[i]
                )
            counts = np.full(some.stop - start, size, dtype=np.int64)
            part = replace(
                rounds, row=rounds.row[some], arm=0 * counts, probability=rounds.probability[some],
                reward=rounds.reward[some], arm_count=counts, arms=arms.reshape(-1, played.shape[1]),
                weight=None if rounds.weight is None else rounds.weight[some],
                fallback=None if rounds.fallback is None else rounds.fallback[some], placed=None, extra={},
            )  # fmt: skip
            own = zip(listing.targets, chances, strict=True)
            yield part, [Listed(chance[some], self._mass(target, there)) for target, chance in own]

    def _arms(
        self, rounds: Rounds, row: int, played: Floats, version: Any, context: Any, uniforms: Floats
    ) -> tuple[Floats, Any]:
        """The arms of one decision (K, d), and which of the targets' items were there."""
        number = int(rounds.row[row])
        if version is None or context is None:
            name = "catalogue_version" if version is None else "context"
            raise BadValue(
                "catalogue", f"{name} must be given in every row, for a reward model: row {number}"
            )
        items, nth = self._at(version, number)
        rows = [next((one for one in self._rows[item] if self._has(items, one)), -1) for item in self._ids]
        drawn: Ints = nth(np.floor(uniforms * items.count).astype(np.int64))
        own = int(rounds.arm[row])
        if not self._has(items, own):
            raise BadValue("catalogue", f"catalogue must be that of the log: row {number} played place {own}")
        places = np.concatenate([[own], np.array(rows, dtype=np.int64), drawn])
        matrix = np.asarray(items.matrix[np.maximum(places, 0)], dtype=np.float64)
        arms = self._listing.features.products.join(matrix, np.array(context, dtype=np.float64))
        if arms.shape[1] != played.size or np.abs(arms[0] - played).max() > SAME * np.abs(played).max():
            raise BadValue(
                "catalogue",
                f"catalogue must be that of the log: the item that was played in row {number} has other "
                "features there",
            )
        return arms, places[1 : 1 + len(rows)] >= 0

    @staticmethod
    def _has(items: Items, row: int) -> bool:
        return 0 <= row < len(items.live) and bool(items.live[row])

    def _at(self, version: int, number: int) -> tuple[Items, NthLive]:
        if self._then is None or self._then[0].version != version:
            known = self._listing.catalogue
            if not known.since <= version <= known.version:
                raise BadValue(
                    "catalogue",
                    f"catalogue knows its versions {known.since} to {known.version}, and row {number} was "
                    f"decided among version {version}",
                )
            items = known.at(version)
            self._then = items, NthLive(items.live, items.count)
        return self._then

    def _mass(self, target: Target, there: Any) -> Floats:
        """What of a target's law each listed item stands for, flat (ΣK,)."""
        mass = np.zeros((len(there), 1 + len(self._ids) + self._draws))
        if isinstance(target, ItemsTarget):
            mass[:, 1 : 1 + len(self._ids)] = there * [target.chances.get(item, 0.0) for item in self._ids]
        else:
            mass[:, 1 + len(self._ids) :] = 1.0 / self._draws
        return mass.reshape(-1)

    def _played(self, rounds: Rounds) -> Floats:
        """The features of the items that were played (n, d)."""
        column = rounds.extra["features"]
        widths = column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
        if (wrong := np.flatnonzero(widths != self._listing.features.dim)).size:
            raise BadValue(
                "catalogue",
                f"features must have the {self._listing.features.dim} numbers of the catalogue's map: row "
                f"{int(rounds.row[wrong[0]])} has {max(int(widths[wrong[0]]), 0)}",
            )
        flat = column.flatten().to_numpy(zero_copy_only=False)
        return np.array(flat, dtype=np.float64).reshape(len(rounds), -1)
