"""Targets that speak of items by their ids: a few of them, or whoever can say how probable an item is.

A catalogue's log lists no items, so nobody could ask for every item's probability; that of the item which was
played is enough for the weights.
"""

import dataclasses
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed.log import SUM_ERROR, DecisionLog
from linmed.ope.known import holds, of_catalogue
from linmed.ope.rounds import Mask, Problems, Rounds, require
from linmed.ope.targets import Frozen, Target
from linmed.policies.base import Policy, State
from linmed.validation import BadType, BadValue, Floats, Ints

NAMED = 5
"""Ids that a message names."""
TOLD_APART = 1 << 12
"""Arms whose ids are remembered, to know every arm of a decision by its id."""


@dataclass(frozen=True, eq=False)
class ItemsTarget(Target):
    """A few items by their ids, each with its probability, whatever else is in the catalogue.

    In a log in which every arm has one id throughout, all arms of a decision are known by their ids. In
    others only the played one is, and reward models are models of the items (`recast`).
    """

    chances: Mapping[Any, float]
    name: str = ""
    doubt: str | None = None
    by_place: Floats | None = None
    """(K,) every arm's probability, where each has one id throughout the log."""
    several: str = ""
    """An item that was played at several places, and at which."""
    columns: tuple[str, ...] = ()
    extra: tuple[str, ...] = ("arm_id",)

    def __post_init__(self) -> None:
        chances = {str(item): self._chance(item, chance) for item, chance in self.chances.items()}
        total = sum(chances.values())
        if len(chances) < len(self.chances):
            raise BadValue("targets", f"a target's ids must differ, got {list(self.chances)!r}")
        if not abs(total - 1.0) <= SUM_ERROR:
            raise BadValue("targets", f"a target's probabilities of items must sum to one, not to {total:g}")
        object.__setattr__(self, "chances", {item: chance / total for item, chance in chances.items()})
        self._name(f"item:{next(iter(chances))}" if len(chances) == 1 else f"{len(chances)} items")

    @staticmethod
    def _chance(item: Any, chance: Any) -> float:
        number = float(chance) if isinstance(chance, numbers.Real) else math.nan
        if isinstance(chance, bool) or not 0.0 <= number <= 1.0:
            raise BadValue(
                "targets", f"a target's probability of item {item!r} must lie in [0, 1], got {chance!r}"
            )
        return number

    def knows_all_arms(self, log: DecisionLog) -> bool:
        """Whether each arm has one id throughout."""
        return self.by_place is not None

    def settled(self, log: DecisionLog) -> "ItemsTarget":
        """This target once the log was looked through for its ids."""
        require(log, self.extra, f"target {self.name!r}", "targets")
        seen = _Seen(list(self.chances), log)
        for batch in log.batches(["arm", "arm_id", *(["arm_count"] if seen.counted else [])]):
            seen.add(batch)
        law = None
        if (ids := seen.every_id()) is not None:
            law = np.array([self.chances.get(item, 0.0) for item in ids])
        columns = () if law is None else ("arm_count",)
        several = next((f"{item!r} at {_listed(p)}" for item, p in seen.places.items() if len(p) > 1), "")
        doubt = self._doubt(seen, log)
        return dataclasses.replace(self, doubt=doubt, by_place=law, several=several, columns=columns)

    @property
    def by_id(self) -> bool:  # type: ignore[override]
        """Whether an item's place says nothing."""
        return self.by_place is None

    def lacking(self, share: float) -> str:
        """That its items were not always among those that could be played."""
        items = "the item was" if len(self.chances) == 1 else "its items were"
        return (
            f"{items} not on offer in about {share:.0%} of the decisions (ipw counts a reward of 0 there, "
            "snipw leaves them out, and intervals allow any)"
        )

    def exceeding(self) -> str:
        """That an id may stand at two places of one decision."""
        return self.several and f", or one id stands at several places of a decision ({self.several})"

    def recast(self, rounds: Rounds, problems: Problems) -> tuple[Rounds, Floats]:
        """Decisions among the target's items and "another", and its probabilities of these, flat.

        A reward model of these arms knows an item by its id, wherever it stood: as unbiased as any other,
        since w (r − q̂(item)) + Σ_i π(i) q̂(i) has the mean that it should, whatever q̂ of the past.
        """
        place = self._place(rounds, problems)
        law = np.array([*self.chances.values(), 0.0])
        count = np.full(len(rounds), law.size)
        alone = dataclasses.replace(
            rounds, arm=place, arm_count=count, logged=None, arms=None, placed=None, extra={}
        )
        return alone, np.tile(law, len(rounds))

    def _doubt(self, seen: "_Seen", log: DecisionLog) -> str | None:
        unseen = [item for item, places in seen.places.items() if not places]
        if len(unseen) == len(self.chances) == 1:
            known = ", ".join(map(repr, seen.others)) + (", …" if len(seen.others) == NAMED else "")
            raise BadValue(
                "targets",
                f"target {self.name!r}: no decision of {log.name} played an item of this id; it has "
                f"{known or 'none'} (of an item that was never played there is nothing to be said)",
            )
        found = []
        if unseen:
            mass = sum(self.chances[item] for item in unseen)
            found.append(
                f"{mass:.3g} of its probability lies on items that were never played, such as {unseen[0]!r}"
            )
        return "; ".join(found) or None

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """By the arms' ids."""
        assert self.by_place is not None
        return self.by_place[rounds.arm_number]

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """By the id of the item that was played; zero for all others."""
        chance: Floats = np.array([*self.chances.values(), 0.0])[self._place(rounds, problems)]
        return chance

    def _place(self, rounds: Rounds, problems: Problems) -> Ints:
        """Which of its items was played, their number where it was another."""
        ids = _ids(rounds, rounds.row >= 0, problems)
        known = pa.array(list(self.chances), pa.string())
        place = pc.index_in(ids, value_set=known, skip_nulls=True).fill_null(len(known))
        found: Ints = place.to_numpy(zero_copy_only=False).astype(np.int64)
        return found


def _listed(places: set[int]) -> str:
    return ", ".join(map(str, sorted(places)[:NAMED])) + (", …" if len(places) > NAMED else "")


def _ids(rounds: Rounds, needed: Mask, problems: Problems) -> pa.Array:
    """The ids of the items that were played; where they are needed they must be given."""
    ids = rounds.extra["arm_id"].cast(pa.string())
    missing = ids.is_null().to_numpy(zero_copy_only=False) & needed
    problems.add("arm_id must be given in every row, for targets that are items", rounds.row, missing, "none")
    return ids


class _Seen:
    """What a pass over a log tells of ids."""

    def __init__(self, wanted: list[str], log: DecisionLog):
        self.places: dict[str, set[int]] = {item: set() for item in wanted}
        self.others: list[str] = []
        self.counted = "arm_count" in log.columns
        self._counts: set[int | None] = set()
        self._ids: dict[int, str] | None = {} if self.counted and not of_catalogue(log) else None

    def add(self, batch: pa.RecordBatch) -> None:
        """Look at the ids of a batch, each with its arm once."""
        if self.counted:
            self._counts.update(batch.column("arm_count").unique().to_pylist())
        pairs = pa.Table.from_batches([batch.select(["arm", "arm_id"])])
        if self._ids is None and len(self.others) == NAMED:  # others are of no more interest
            pairs = pairs.filter(
                pc.is_in(pairs["arm_id"], value_set=pa.array(list(self.places), pa.string()))
            )
        pairs = pairs.group_by(["arm", "arm_id"]).aggregate([])
        for arm, item in zip(pairs["arm"].to_pylist(), pairs["arm_id"].to_pylist(), strict=True):
            if item in self.places:
                self.places[item].add(arm)
            elif item is not None and len(self.others) < NAMED and item not in self.others:
                self.others.append(item)
            if self._ids is not None:
                other = item is None or self._ids.setdefault(arm, item) != item
                self._ids = None if other or len(self._ids) > TOLD_APART else self._ids

    def every_id(self) -> list[str] | None:
        """The ids of arms 0 … K − 1, if all decisions had these K arms as far as can be seen."""
        ids = self._ids
        if not ids or self._counts != {len(ids)} or len(set(ids.values())) < len(ids):
            return None
        return [ids[arm] for arm in sorted(ids)] if set(ids) == set(range(len(ids))) else None


class Askable(Protocol):
    """Who can say how probable an item would be, as an agent with a catalogue of its own.

    `columns`, if there are any, names columns of the log, such as a context, that `probability_of` takes by
    these names.
    """

    def probability_of(self, item: str, /, **columns: Any) -> float:
        """By any route, so that the probabilities of all items sum to one: a catalogue's best item is also
        played where another was not accepted."""


@dataclass(frozen=True, eq=False)
class AskedTarget(Target):
    """Whoever has `probability_of(item)`: asked for the item that was played, once an item and batch."""

    asked: Askable
    name: str = ""
    columns: tuple[str, ...] = ()
    extra: tuple[str, ...] = field(default=("arm_id",), init=False)

    def __post_init__(self) -> None:
        own = getattr(self.asked, "columns", ())
        if isinstance(own, str) or not all(isinstance(name, str) for name in own):
            raise BadType("targets", f"columns of a target must be names of the log's columns, got {own!r}")
        object.__setattr__(self, "extra", ("arm_id", *own))
        policy = getattr(self.asked, "policy", None)
        self._name(str(getattr(policy or self.asked, "name", type(self.asked).__name__)))

    def settled(self, log: DecisionLog) -> Target:
        """An agent is asked by its policy and state where the log lists the arms: contexts are in them."""
        policy, state = (getattr(self.asked, name, None) for name in ("policy", "state"))
        if isinstance(policy, Policy) and isinstance(state, State) and holds(log, "arms"):
            return Frozen(policy, state, self.name)
        return self

    def knows_all_arms(self, log: DecisionLog) -> bool:
        """It is never asked for all items."""
        return False

    def _own(self) -> set[str] | None:
        """The ids of an agent's own items, which alone it would play; None where nobody tells them."""
        agent = isinstance(getattr(self.asked, "policy", None), Policy)
        return {str(item) for item in self.asked.items} if agent and hasattr(self.asked, "items") else None

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """Refused: it says how probable an item is, not which there are."""
        text = f"target {self.name!r} is asked item by item, not for all arms: use 'ipw' or 'snipw'"
        raise BadValue("targets", text)

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """What it says of each item; a fallback's would count for nothing."""
        chance = np.zeros(len(rounds))
        counts = np.ones(len(rounds), dtype=bool) if rounds.fallback is None else ~rounds.fallback
        ids = _ids(rounds, counts, problems)
        if problems:
            return chance
        columns = [rounds.extra[name].to_pylist() for name in self.extra[1:]]
        own = self._own()
        answers: dict[str, float] = {}
        for row in np.flatnonzero(counts).tolist():
            item = ids[row].as_py()
            if own is not None and item not in own:
                continue
            if columns:
                told = dict(zip(self.extra[1:], (column[row] for column in columns), strict=True))
                chance[row] = self.asked.probability_of(item, **told)
            else:
                if item not in answers:
                    answers[item] = float(self.asked.probability_of(item))
                chance[row] = answers[item]
        rule = f"probability_of target {self.name!r} must lie in [0, 1]"
        problems.add(rule, rounds.row, ~((chance >= 0) & (chance <= 1)), chance.item, "targets")
        return chance
