"""Say whom to evaluate: how probable every arm would have been in each logged decision.

Items by their ids, and agents that decide among a catalogue, answer for the item that was played alone: the
log of a catalogue lists no items, and its weights need no more.
"""

import copy
import dataclasses
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed.log import SUM_ERROR, DecisionLog
from linmed.ope.log_facts import holds, of_catalogue, pairs, require, require_named
from linmed.ope.scan import Mask, Problems, Rounds, given
from linmed.policies.base import Policy, State
from linmed.validation import BadType, BadValue, Floats, Ints

CHUNK = 1 << 21
"""Features handed to a policy at once: bounds the memory of the arms, not of the policy's state."""

COUNTED = ("arm_count", "probabilities", "arms")
"""Columns of a log that tell the number of arms, the one that is read most quickly first."""
LOOKED_AT = 256
"""Sets of arms that tell whether a log repeats them."""


class Target(ABC):
    """A policy to evaluate.

    >>> from linmed.ope import DecisionLog, as_target, evaluate
    >>> class LastArm(Target):
    ...     name = "the last arm"
    ...
    ...     def probabilities(self, rounds, problems):
    ...         return (rounds.arm_number == np.repeat(rounds.arm_count - 1, rounds.arm_count)).astype(float)
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> log = DecisionLog.from_table(played | {"arm_count": [2] * 200})
    >>> evaluate(log, LastArm(), "ipw")["estimate"].to_pylist()
    [1.0]
    """

    name: str
    columns: tuple[str, ...] = ("arm_count",)
    """Columns of the log needed for all arms' probabilities; any that tells the number of arms will do."""
    extra: tuple[str, ...] = ()
    """Columns of the log outside its schema."""
    checked: tuple[str, ...] = ()
    """Columns that are read where the log has them, only to see whether the target is possible."""
    doubt: str | None = None
    """What is doubtful about this target on the log for which it was settled, after its name."""

    @property
    def played_columns(self) -> tuple[str, ...]:
        """Columns needed for the played arm's probability alone."""
        return self.columns

    def reads(self, log: DecisionLog, all_arms: bool) -> tuple[str, ...]:
        """List columns of the log's schema to read for every arm's probability, or for the played one's."""
        needed = _told(log, self.columns if all_arms else self.played_columns)
        require(log, [*needed, *self.extra], f"target {self.name!r}", "targets")
        return (*needed, *(name for name in _told(log, self.checked) if name in log.columns))

    def knows_all_arms(self, log: DecisionLog) -> bool:
        """Whether the log holds what every arm's probability needs, not only the played one's."""
        return all(name in log.columns for name in (*_told(log, self.columns), *self.extra))

    def settled(self, log: DecisionLog) -> "Target":
        """Settle this target on `log`, by which names may become known."""
        return self

    def silence(self, log: DecisionLog) -> str:
        """What it means that this target has no weight in a log, to be said after its name and the log's."""
        return "every weight is zero, so the rewards say nothing of its value"

    def lacking(self, share: float) -> str:
        """What a mean weight that is smaller than one by `share` may mean, besides wrong probabilities."""
        return "the target plays arms that could not be logged"

    def exceeding(self) -> str:
        """Say what one that is larger may mean, besides wrong probabilities; empty where there is nothing."""
        return ""

    @abstractmethod
    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """Give the probability of every arm of every decision, flat (ΣK,)."""

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """Give the probability of the arm that was played (n,)."""
        everything = self.probabilities(rounds, problems)
        return np.zeros(len(rounds)) if problems else everything[rounds.chosen]

    def _name(self, default: str) -> None:
        """The name given, or `default`."""
        object.__setattr__(self, "name", self.name or default)


def _told(log: DecisionLog, columns: tuple[str, ...]) -> tuple[str, ...]:
    """`columns`, where another that tells the number of arms stands in for an arm_count that is not there."""
    if "arm_count" not in columns or "arm_count" in log.columns:
        return columns
    instead = next((name for name in COUNTED if holds(log, name)), "arm_count")
    return tuple(instead if name == "arm_count" else name for name in columns)


@dataclass(frozen=True)
class UniformTarget(Target):
    """Every arm with probability 1/K."""

    name: str = "uniform"

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """Give 1/K."""
        assert rounds.arm_count is not None
        return np.repeat(1.0 / rounds.arm_count, rounds.arm_count)

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """Give 1/K."""
        assert rounds.arm_count is not None
        return 1.0 / rounds.arm_count


@dataclass(frozen=True)
class ArmTarget(Target):
    """Always the same arm."""

    arm: int
    name: str = ""
    played_columns = ()  # comparing indices is enough
    checked = ("arm_count",)

    def __post_init__(self) -> None:
        if isinstance(self.arm, bool) or not isinstance(self.arm, (int, np.integer)) or self.arm < 0:
            raise BadValue("targets", f"a target's arm must be an index of at least 0, got {self.arm!r}")
        self._name(f"arm {self.arm}")

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """Give one for the arm, zero for the others."""
        self._offered(rounds, problems)
        return np.asarray(rounds.arm_number == self.arm, dtype=np.float64)

    def silence(self, log: DecisionLog) -> str:
        """Say also that there may be no such arm, where the log leaves that open."""
        words = super().silence(log)
        if any(holds(log, name) for name in COUNTED):
            return words
        return (
            f"{words}, and there may be no such arm: the log does not tell how many arms there are (it has "
            f"none of the columns {', '.join(COUNTED)})"
        )

    def _offered(self, rounds: Rounds, problems: Problems) -> None:
        if (count := rounds.arm_count) is not None:
            rule = f"target {self.name!r} needs at least {self.arm + 1} arms"
            few = count <= self.arm
            few = few if rounds.placed is None else few & ~rounds.placed
            problems.add(rule, rounds.row, few, count.item, "targets")

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """Whether it was the arm."""
        self._offered(rounds, problems)
        return np.asarray(rounds.arm == self.arm, dtype=np.float64)


@dataclass(frozen=True)
class LoggedTarget(Target):
    """The policy that wrote the log: every weight is one, so this is the value on its own policy."""

    name: str = "logged"
    columns: tuple[str, ...] = ("probabilities",)
    played_columns = ()

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """Give them as logged."""
        assert rounds.logged is not None
        return rounds.logged

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """Give them as logged."""
        return rounds.probability


@dataclass(frozen=True, eq=False)
class Frozen(Target):
    """A linmed policy at one state (R = 1), which no longer learns and serves all decisions.

    >>> from linmed import LinMED
    >>> from linmed.ope import DecisionLog, evaluate, learn_from
    >>> played = {"arm": [0, 1] * 200, "probability": [0.5] * 400, "reward": [0.0, 1.0] * 200}
    >>> arms = {"arms": [[[1.0, 0.0], [0.0, 1.0]]] * 400, "features": [[1.0, 0.0], [0.0, 1.0]] * 200}
    >>> first, rest = DecisionLog.from_table(played | arms).split(0.5)
    >>> agent = learn_from(first, LinMED(sigma=0.5))
    >>> frozen = Frozen(agent.policy, agent.state, name="as it was")
    >>> evaluate(rest, frozen, "ipw")["estimate"][0].as_py() > 0.9
    True
    """

    policy: Policy
    state: State
    name: str = ""
    columns: tuple[str, ...] = ("arms",)

    def __post_init__(self) -> None:
        if not (isinstance(self.policy, Policy) and isinstance(self.state, State)):
            raise no_target((self.policy, self.state))
        replicas = self.state.count.shape[0]
        if replicas != 1:
            raise BadValue("targets", f"a frozen policy needs a state of one replica, got {replicas}")
        object.__setattr__(self, "state", self.state.copy())
        self._name(self.policy.name)

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """Give exp of the policy's log-probabilities."""
        arms = rounds.arms
        assert arms is not None
        own, dim = self.state.dim, arms.shape[1]
        flat = np.zeros(arms.shape[0])
        if own != dim:
            rule = f"target {self.name!r} was made for dim={own}"
            problems.add(rule, rounds.row, rounds.row >= 0, f"arms of dimension {dim}", "targets")
            return flat
        for places in rounds.alike(CHUNK // dim):
            sets = arms.take(places, axis=0)
            first, which = distinct(sets)
            flat[places] = np.exp(log_law(self.policy, self.state, sets[first], "targets"))[which]
        return flat


Index = Ints | slice


def distinct(sets: Floats) -> tuple[Index, Index]:
    """Which of the sets (n,K,d) are not alike, and where among those each set is: sets[first][which] = sets.

    Alike means every bit. Sets that differ cost only a look at a few of them: where not even two of those
    are alike, all are taken to be different.
    """
    n, everything = len(sets), slice(None)
    rows = sets.reshape(n, -1)
    bits = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    some = bits[:: max(1, n // LOOKED_AT)]
    if np.unique(some).size == some.size:
        return everything, everything
    _, first, which = np.unique(bits, return_index=True, return_inverse=True)
    return first, which


def log_law(policy: Policy, state: State, arms: Floats, field: str) -> Floats:
    """Ask for the policy's log-probabilities, if they are one for each arm.  arms (n,K,d) → (n,K)."""
    log_p = policy.log_probabilities(state, arms)
    if log_p.shape != arms.shape[:2]:
        raise BadValue(
            field,
            f"{type(policy).__name__}.log_probabilities must answer arms (n, K, d) at a state of one replica "
            f"with (n, K): {arms.shape[:2]} is expected, got {log_p.shape}",
        )
    return log_p


@dataclass(frozen=True, eq=False)
class CallableTarget(Target):
    """A function of the arms (K, d) that returns their probabilities (K,)."""

    function: Callable[[Floats], Any]
    name: str = ""
    columns: tuple[str, ...] = ("arms",)

    def __post_init__(self) -> None:
        self._name(str(getattr(self.function, "__name__", type(self.function).__name__)))

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """Call once a decision, each checked: K numbers ≥ 0 that sum to one."""
        assert rounds.arms is not None
        flat = np.zeros(rounds.arms.shape[0])
        offsets = rounds.offsets
        rule, wrong = f"target {self.name!r} must give one probability per arm", np.ones(1, dtype=bool)
        for i in range(len(rounds)):
            arms = rounds.arms[offsets[i] : offsets[i + 1]].copy()  # theirs to change
            answer = np.asarray(self.function(arms), dtype=np.float64)
            if answer.shape == (arms.shape[0],):
                flat[offsets[i] : offsets[i + 1]] = answer
            else:
                found = f"{arms.shape[0]} arms but an answer of shape {answer.shape}"
                problems.add(rule, rounds.row[i : i + 1], wrong, found, "targets")
        return rounds.probabilities(flat, f"the probabilities of target {self.name!r}", problems, "targets")


@dataclass(frozen=True)
class ColumnTarget(Target):
    """A column of the log: the target's probability of the played arm, or a list with that of every arm."""

    column: str
    name: str = ""
    played_columns = ()

    def __post_init__(self) -> None:
        self._name(f"column:{self.column}")
        object.__setattr__(self, "extra", (self.column,))

    def _given(self, rounds: Rounds) -> pa.Array:
        return rounds.extra[self.column]

    def knows_all_arms(self, log: DecisionLog) -> bool:
        """Whether the column's entries are lists."""
        first = next(log.batches([self.column], 1), None) if super().knows_all_arms(log) else None
        return first is not None and is_list(first.column(0))

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """Read the list column, checked."""
        column = self._given(rounds)
        if not is_list(column):
            raise BadValue(
                "targets",
                f"target {self.name!r} gives only the played arm's probability; estimators with a reward "
                "model need a list column with every arm's",
            )
        length = column.value_lengths().fill_null(-1).to_numpy().astype(np.int64)
        if rounds.arm_count is None:
            rounds.arm_count = length
        wrong = (length != rounds.arm_count) | (length <= rounds.arm)
        rule = f"target {self.name!r} must give one probability per arm"
        described = ["none" if one < 0 else f"{one} of them" for one in length[wrong][:1]]
        problems.add(rule, rounds.row, wrong, "".join(described), "targets")
        if problems:
            return np.zeros(0)
        flat = self._numbers(column.flatten())
        return rounds.probabilities(flat, f"the probabilities of target {self.name!r}", problems, "targets")

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """Read the number column, or the entry of the list column."""
        column = self._given(rounds)
        if is_list(column):
            return super().played(rounds, problems)
        if rounds.fallback is not None:  # which no probability would give a weight
            column = pc.if_else(pa.array(rounds.fallback), pa.scalar(0).cast(column.type), column)
        value = self._numbers(given(column, f"target {self.name!r}", rounds.row, problems, 0, "targets"))
        rule = f"target {self.name!r} must lie in [0, 1]"
        problems.add(rule, rounds.row, ~((value >= 0) & (value <= 1)), value.item, "targets")
        return value

    def _numbers(self, column: pa.Array) -> Floats:
        try:
            numbers: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
        except (TypeError, ValueError):
            found = f"got {column.type}"
            raise BadValue("targets", f"target {self.name!r} must be a column of numbers, {found}") from None
        return numbers


@dataclass(frozen=True)
class ShadowTarget(ColumnTarget):
    """A policy that learned and decided nothing: the log has how probable the played arm was to it."""

    column: str = "shadow"
    policy: str = ""

    def __post_init__(self) -> None:
        self._name(f"shadow:{self.policy}")
        super().__post_init__()

    def settled(self, log: DecisionLog) -> "ShadowTarget":
        """Refuse a name that no decision has."""
        require_named(log, self.column, self.policy, "targets")
        return self

    def _given(self, rounds: Rounds) -> pa.Array:
        return pc.map_lookup(rounds.extra[self.column], pa.scalar(self.policy), "first")


def is_list(column: pa.Array) -> bool:
    """Whether the entries of a column are lists."""
    kinds = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    return any(is_kind(column.type) for is_kind in kinds)


def no_target(target: Any) -> BadType:
    """Make the error for something that is no target."""
    return BadType(
        "targets",
        "a target must be 'uniform', 'logged', 'arm:NUMBER', 'item:ID', 'shadow:NAME', 'column:NAME', an "
        "arm's index, {id: probability} of a few items, (policy, state), an agent or a function of the arms, "
        f"got {target!r}",
    )


NAMED = 5
"""Ids that a message names."""
TOLD_APART = 1 << 12
"""Arms whose ids are remembered, to know every arm of a decision by its id."""


@dataclass(frozen=True, eq=False)
class ItemsTarget(Target):
    """A few items by their ids, each with its probability, whatever else is in the catalogue.

    In a log in which every arm has one id throughout, all arms of a decision are known by their ids, in
    others only the played one is.
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
        """Settle it once the log was looked through for its ids."""
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

    def lacking(self, share: float) -> str:
        """Say that its items were not always among those that could be played."""
        items = "the item was" if len(self.chances) == 1 else "its items were"
        return (
            f"{items} not on offer in about {share:.0%} of the decisions (ipw counts a reward of 0 there, "
            "snipw leaves them out, and intervals allow any)"
        )

    def exceeding(self) -> str:
        """Say that an id may stand at two places of one decision."""
        return self.several and f", or one id stands at several places of a decision ({self.several})"

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
        """Go by the arms' ids."""
        if self.by_place is None:
            raise by_id_alone(self.name)
        return self.by_place[rounds.arm_number]

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """Go by the id of the item that was played; zero for all others."""
        ids = _ids(rounds, rounds.row >= 0, problems)
        known = pa.array(list(self.chances), pa.string())
        place = pc.index_in(ids, value_set=known, skip_nulls=True).fill_null(len(known))
        chance: Floats = np.array([*self.chances.values(), 0.0])[place.to_numpy(zero_copy_only=False)]
        return chance


def by_id_alone(name: str) -> BadValue:
    """Make the error for every arm's probability where only the played item's is known."""
    return BadValue(
        "targets",
        f"target {name!r} tells the probability of the item that was played, not of every arm: use 'ipw' or "
        "'snipw'",
    )


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
        if self._ids is None and len(self.others) == NAMED:  # others are of no more interest
            wanted = pa.array(list(self.places), pa.string())
            batch = batch.filter(pc.is_in(batch.column("arm_id"), value_set=wanted))
        for arm, item in pairs(batch, "arm", "arm_id"):
            if item in self.places:
                self.places[item].add(arm)
            elif item is not None and len(self.others) < NAMED and item not in self.others:
                self.others.append(item)
            if self._ids is not None:
                other = item is None or self._ids.setdefault(arm, item) != item
                self._ids = None if other or len(self._ids) > TOLD_APART else self._ids

    def every_id(self) -> list[str] | None:
        """List the ids of arms 0 … K − 1, if all decisions had these K arms as far as can be seen."""
        ids = self._ids
        if not ids or self._counts != {len(ids)} or len(set(ids.values())) < len(ids):
            return None
        return [ids[arm] for arm in sorted(ids)] if set(ids) == set(range(len(ids))) else None


@dataclass(frozen=True, eq=False)
class RoutedTarget(Target):
    """An agent that decides among a catalogue: asked for the item that was played, once an item and batch."""

    agent: Any
    name: str = ""
    columns: tuple[str, ...] = ()
    extra: tuple[str, ...] = ("arm_id",)

    def __post_init__(self) -> None:
        self._name(self.agent.policy.name)

    def settled(self, log: DecisionLog) -> Target:
        """Ask by policy and state where the log lists the arms: contexts are in them."""
        return Frozen(self.agent.policy, self.agent.state, self.name) if holds(log, "arms") else self

    def knows_all_arms(self, log: DecisionLog) -> bool:
        """It is never asked for all items."""
        return False

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """Refuse: it says how probable an item is, not which there are."""
        raise by_id_alone(self.name)

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """Ask for each item; a fallback's would count for nothing, and only its own items can be played."""
        counts = np.ones(len(rounds), dtype=bool) if rounds.fallback is None else ~rounds.fallback
        ids = _ids(rounds, counts, problems)
        chance = np.zeros(len(rounds))
        if problems:
            return chance
        own = {str(item) for item in self.agent.items}
        answers: dict[str, float] = {}
        for row in np.flatnonzero(counts).tolist():
            item = ids[row].as_py()
            if item in own:
                if item not in answers:
                    answers[item] = float(self.agent.probability_of(item))
                chance[row] = answers[item]
        return chance


def as_target(target: Any, name: str | None = None) -> Target:
    """Make a target of any way of naming one, a `Target`, called `name` if that is given.

    "uniform", "logged", "arm:3" or 3, "item:ID" or {id: probability} of a few items, "shadow:NAME" (a policy
    that learned and decided nothing), "column:NAME", (policy, state), an agent, a function of the arms.

    >>> import numpy as np
    >>> [as_target(target).name for target in ("uniform", "arm:3", "column:p_new")]
    ['uniform', 'arm 3', 'column:p_new']
    >>> as_target(lambda arms: np.full(len(arms), 1 / len(arms)), name="by chance").name
    'by chance'
    """
    if isinstance(target, Target):
        found = target if name is None else copy.copy(target)
    elif isinstance(target, str):
        found = _from_string(target)
    elif isinstance(target, (int, np.integer)) and not isinstance(target, bool):
        found = ArmTarget(int(target))
    elif isinstance(target, Mapping):
        found = ItemsTarget(target)
    elif _is_pair(target):
        found = Frozen(target[0], target[1])
    elif isinstance(getattr(target, "policy", None), Policy) and isinstance(
        getattr(target, "state", None), State
    ):
        routed = target.policy.capabilities.by_route and getattr(target, "catalogue", None) is not None
        found = RoutedTarget(target) if routed else Frozen(target.policy, target.state)
    elif callable(target):
        found = CallableTarget(target)
    else:
        raise no_target(target)
    if name is not None:
        object.__setattr__(found, "name", name)
    return found


def as_targets(targets: Any) -> tuple[Target, ...]:
    """Make targets of one, a sequence or a {name: target} mapping, with distinct names.

    A mapping to numbers with a point is one target: {id: probability}. Whole numbers are arms.
    """
    if isinstance(targets, Mapping) and not _is_law(targets):
        found = [as_target(target, str(name)) for name, target in targets.items()]
    elif isinstance(targets, str) or not isinstance(targets, Sequence) or _is_pair(targets):
        found = [as_target(targets)]
    else:
        found = [as_target(target) for target in targets]
    check_names("targets", [target.name for target in found])
    return tuple(found)


def check_names(field: str, names: Sequence[str]) -> None:
    """Refuse targets, or candidates, where there are none or two have one name."""
    one = field.removesuffix("s")
    if not names:
        raise BadValue(field, f"{field} is empty: at least one is needed")
    for name in names:
        if names.count(name) > 1:
            advice = f"{name!r} occurs twice; give them as {{name: {one}}}"
            raise BadValue(field, f"{field} need distinct names, {advice}")


def _is_pair(target: Any) -> bool:
    """Whether it is (policy, state)."""
    return isinstance(target, tuple) and len(target) == 2 and isinstance(target[0], Policy)


def _is_law(target: Mapping[Any, Any]) -> bool:
    """Whether it is {id: probability}, not {name: target}."""
    return bool(target) and all(isinstance(value, (float, np.floating)) for value in target.values())


def _from_string(text: str) -> Target:
    if text == "uniform":
        return UniformTarget()
    if text == "logged":
        return LoggedTarget()
    kind, _, value = text.partition(":")
    if kind == "arm" and value.isdecimal():
        return ArmTarget(int(value))
    if kind == "item" and value:
        return ItemsTarget({value: 1.0}, text)
    if kind == "column" and value:
        return ColumnTarget(value)
    if kind == "shadow" and value:
        return ShadowTarget(policy=value)
    known = "'uniform', 'logged', 'arm:NUMBER', 'item:ID', 'shadow:NAME' or 'column:NAME'"
    raise BadValue("targets", f"target must be {known}, got {text!r}")
