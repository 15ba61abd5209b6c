"""Whom to evaluate: each target says how probable every arm would have been in each logged decision."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from linmed.log import DecisionLog
from linmed.ope.known import holds
from linmed.ope.rounds import Problems, Rounds, given, require
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
    """What makes one hesitate over this target on the log for which it was settled, after its name."""
    by_id: bool = False
    """Whether it knows items by their ids alone: no arm of a decision but the played one can be told."""

    @property
    def played_columns(self) -> tuple[str, ...]:
        """Columns needed for the played arm's probability alone."""
        return self.columns

    def reads(self, log: DecisionLog, all_arms: bool) -> tuple[str, ...]:
        """Columns of the log's schema to read for every arm's probability, or for the played one's."""
        needed = _told(log, self.columns if all_arms else self.played_columns)
        require(log, [*needed, *self.extra], f"target {self.name!r}", "targets")
        return (*needed, *(name for name in _told(log, self.checked) if name in log.columns))

    def knows_all_arms(self, log: DecisionLog) -> bool:
        """Whether the log holds what every arm's probability needs, not only the played one's."""
        return all(name in log.columns for name in (*_told(log, self.columns), *self.extra))

    def settled(self, log: DecisionLog) -> "Target":
        """This target for `log`, by which names may become known."""
        return self

    def silence(self, log: DecisionLog) -> str:
        """What it means that this target has no weight in a log, to be said after its name and the log's."""
        return "every weight is zero, so the rewards say nothing of its value"

    def lacking(self, share: float) -> str:
        """What a mean weight that is smaller than one by `share` may mean, besides wrong probabilities."""
        return "the target plays arms that could not be logged"

    def exceeding(self) -> str:
        """What one that is larger may mean, besides wrong probabilities; empty where there is nothing."""
        return ""

    @abstractmethod
    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """The probability of every arm of every decision, flat (ΣK,)."""

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """The probability of the arm that was played (n,)."""
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
        """1/K."""
        assert rounds.arm_count is not None
        return np.repeat(1.0 / rounds.arm_count, rounds.arm_count)

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """1/K."""
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
        """One for the arm, zero for the others."""
        self._offered(rounds, problems)
        return np.asarray(rounds.arm_number == self.arm, dtype=np.float64)

    def silence(self, log: DecisionLog) -> str:
        """Also that there may be no such arm, where the log leaves that open."""
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
        """As logged."""
        assert rounds.logged is not None
        return rounds.logged

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """As logged."""
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
        """exp of the policy's log-probabilities."""
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
    bits = sets.reshape(n, -1).view(np.uint64)
    some = _keys(bits[:: max(1, n // LOOKED_AT)])
    if np.unique(some).size == some.size:
        return everything, everything
    _, first, which = np.unique(_keys(bits), return_index=True, return_inverse=True)
    if (bits != bits[first][which]).any():  # two sets that differ have one key
        return everything, everything
    return first, which


def _keys(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """(n, m) → (n,): equal for equal rows, and hardly ever for others."""
    factors = np.random.default_rng(0).integers(1 << 63, size=bits.shape[1], dtype=np.uint64) * 2 + 1
    mixed = bits >> np.uint64(32)  # the lower half of a number such as 0.5 is zero
    mixed ^= bits
    keys: NDArray[np.uint64] = mixed @ factors
    return keys


def log_law(policy: Policy, state: State, arms: Floats, field: str) -> Floats:
    """The policy's log-probabilities, if they are one for each arm.  arms (n,K,d) → (n,K)."""
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
        """One call a decision, each checked: K numbers ≥ 0 that sum to one."""
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

    def knows_all_arms(self, log: DecisionLog) -> bool:
        """Whether the column's entries are lists."""
        first = next(log.batches([self.column], 1), None) if super().knows_all_arms(log) else None
        return first is not None and is_list(first.column(0))

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """The list column, checked."""
        column = rounds.extra[self.column]
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
        """The number column, or the entry of the list column."""
        column = rounds.extra[self.column]
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


def is_list(column: pa.Array) -> bool:
    """Whether the entries of a column are lists."""
    kinds = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    return any(is_kind(column.type) for is_kind in kinds)


def no_target(target: Any) -> BadType:
    """What is to be said of something that is none."""
    return BadType(
        "targets",
        "a target must be 'uniform', 'logged', 'arm:NUMBER', 'item:ID', 'column:NAME', an arm's index, "
        "{id: probability} of a few items, (policy, state), an agent or anything with probability_of(item), "
        f"or a function of the arms, got {target!r}",
    )
