"""Whom to evaluate: each target says how probable every arm would have been in each logged decision."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linmed import checks
from linmed.checks import Floats
from linmed.ope.rounds import SUM_TOLERANCE, Problems, Rounds
from linmed.policies.base import Policy, State

CHUNK = 2048
"""Decisions answered by one call of a policy: its state is repeated for each of them."""


class Target(ABC):
    """A policy to evaluate."""

    name: str
    columns: tuple[str, ...] = ("arm_count",)
    """Columns of the log needed for all arms' probabilities."""
    extra: tuple[str, ...] = ()
    """Columns of the log outside its schema."""

    @property
    def played_columns(self) -> tuple[str, ...]:
        """Columns needed for the played arm's probability alone."""
        return self.columns

    @abstractmethod
    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """The probability of every arm of every decision, flat (ΣK,)."""

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """The probability of the arm that was played (n,)."""
        everything = self.probabilities(rounds, problems)
        return np.zeros(len(rounds)) if problems else everything[rounds.chosen]


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

    def __post_init__(self) -> None:
        checks.whole("arm", self.arm, at_least=0)

    @property
    def name(self) -> str:  # type: ignore[override]
        """`arm 3`."""
        return f"arm {self.arm}"

    @property
    def played_columns(self) -> tuple[str, ...]:
        """None: comparing indices is enough."""
        return ()

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """One for the arm, zero for the others."""
        assert rounds.arm_count is not None
        short = np.flatnonzero(rounds.arm_count <= self.arm)
        problems.add(
            f"target {self.name!r} needs at least {self.arm + 1} arms",
            rounds.row[short],
            lambda i: f"{rounds.arm_count[short[i]]}",  # type: ignore[index]
        )
        one: Floats = (rounds.arm_number == self.arm).astype(np.float64)
        return one

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """Whether it was the arm."""
        one: Floats = (rounds.arm == self.arm).astype(np.float64)
        return one


@dataclass(frozen=True)
class LoggedTarget(Target):
    """The policy that wrote the log: every weight is one, so this is the value on its own policy."""

    name: str = "logged"
    columns: tuple[str, ...] = ("probabilities",)

    @property
    def played_columns(self) -> tuple[str, ...]:
        """None: the logged probability itself."""
        return ()

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """As logged."""
        assert rounds.logged is not None
        return rounds.logged

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """As logged."""
        return rounds.probability


@dataclass(frozen=True, eq=False)
class Frozen(Target):
    """A linmed policy at one state (R = 1), which no longer learns."""

    policy: Policy
    state: State
    label: str | None = None
    columns: tuple[str, ...] = ("arms",)

    def __post_init__(self) -> None:
        replicas = self.state.count.shape[0]
        if replicas != 1:
            raise ValueError(f"a frozen policy needs a state of one replica, got {replicas}")
        object.__setattr__(self, "state", self.state.copy())

    @property
    def name(self) -> str:  # type: ignore[override]
        """The policy's name."""
        return self.label or self.policy.name

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """exp of the policy's exact log-probabilities."""
        assert rounds.arms is not None
        dim = self.state.theta.shape[1]
        if rounds.arms.shape[1] != dim:
            problems.add(
                f"target {self.name!r} was made for dim={dim}",
                rounds.row,
                lambda i: f"arms of dimension {rounds.arms.shape[1]}",  # type: ignore[union-attr]
            )
            return np.zeros(rounds.arms.shape[0])
        flat = np.empty(rounds.arms.shape[0])
        for index, count in rounds.groups():
            for part in np.array_split(index, -(-index.size // CHUNK)):
                places = rounds.places(part, count)
                state = _repeat(self.state, part.size)
                flat[places] = np.exp(self.policy.log_probabilities(state, rounds.arms[places]))
        return flat


@dataclass(frozen=True, eq=False)
class CallableTarget(Target):
    """A function of the arms (K, d) that returns their probabilities (K,)."""

    function: Callable[[Floats], Any]
    label: str | None = None
    columns: tuple[str, ...] = ("arms",)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The function's name."""
        return self.label or str(getattr(self.function, "__name__", type(self.function).__name__))

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """One call a decision, each checked: K numbers ≥ 0 that sum to one."""
        assert rounds.arms is not None
        flat = np.zeros(rounds.arms.shape[0])
        offsets = rounds.offsets
        for i in range(len(rounds)):
            arms = rounds.arms[offsets[i] : offsets[i + 1]]
            answer = np.asarray(self.function(arms), dtype=np.float64)
            if answer.shape != (arms.shape[0],):
                found = f"{arms.shape[0]} arms but an answer of shape {answer.shape}"
                rule = f"target {self.name!r} must give one probability per arm"
                problems.add(rule, rounds.row[i : i + 1], partial(_constant, found))
            else:
                flat[offsets[i] : offsets[i + 1]] = answer
        check_sums(self.name, flat, rounds, problems)
        return flat


@dataclass(frozen=True)
class ColumnTarget(Target):
    """A column of the log: the target's probability of the played arm, or a list with that of every arm."""

    column: str

    @property
    def name(self) -> str:  # type: ignore[override]
        """`column:NAME`."""
        return f"column:{self.column}"

    @property
    def extra(self) -> tuple[str, ...]:  # type: ignore[override]
        """The column."""
        return (self.column,)

    @property
    def played_columns(self) -> tuple[str, ...]:
        """None besides the column."""
        return ()

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """The list column, checked."""
        import pyarrow as pa

        column = rounds.extra[self.column]
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            raise ValueError(
                f"target {self.name!r} gives only the played arm's probability; estimators with a reward "
                "model need a list column with every arm's"
            )
        length = column.value_lengths().fill_null(-1).to_numpy().astype(np.int64)
        if rounds.arm_count is None:
            rounds.arm_count = length
        wrong = np.flatnonzero((length != rounds.arm_count) | (length <= rounds.arm))
        problems.add(
            f"target {self.name!r} must give one probability per arm",
            rounds.row[wrong],
            lambda i: f"{length[wrong[i]]} of them",
        )
        if problems:
            return np.zeros(0)
        flat: Floats = column.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
        check_sums(self.name, flat, rounds, problems)
        return flat

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """The number column, or the entry of the list column."""
        import pyarrow as pa

        column = rounds.extra[self.column]
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            everything = self.probabilities(rounds, problems)
            return np.zeros(len(rounds)) if problems else everything[rounds.chosen]
        value: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
        wrong = np.flatnonzero(~((value >= 0) & (value <= 1)))
        problems.add(
            f"target {self.name!r} must lie in [0, 1]", rounds.row[wrong], lambda i: value[wrong[i]].item()
        )
        return value


def _constant(value: str, _: int) -> str:
    return value


def check_sums(name: str, flat: Floats, rounds: Rounds, problems: Problems) -> None:
    """Every decision's probabilities must be ≥ 0 and sum to one."""
    negative = rounds.sum_over_arms((~(flat >= 0)).astype(np.float64)) > 0
    bad = np.flatnonzero(negative)
    problems.add(
        f"target {name!r} must give non-negative probabilities",
        rounds.row[bad],
        lambda i: "a negative one or a NaN",
    )
    total = rounds.sum_over_arms(flat)
    wrong = np.flatnonzero(~negative & ~(np.abs(total - 1) <= SUM_TOLERANCE))
    problems.add(
        f"target {name!r} must give probabilities that sum to one",
        rounds.row[wrong],
        lambda i: f"{total[wrong[i]]:.6g}",
    )


def as_target(target: Any, name: str | None = None) -> Target:
    """Any way of naming a target as a `Target`.

    "uniform", "logged", "arm:3" or 3, "column:NAME", (policy, state), an agent, a function of the arms.
    """
    if isinstance(target, Target):
        return target if name is None else Renamed(target, name)
    if isinstance(target, str):
        found = _from_string(target)
    elif isinstance(target, (int, np.integer)) and not isinstance(target, bool):
        found = ArmTarget(int(target))
    elif _is_pair(target):
        return Frozen(target[0], target[1], name)
    elif isinstance(getattr(target, "policy", None), Policy) and isinstance(
        getattr(target, "state", None), State
    ):
        return Frozen(target.policy, target.state, name)
    elif callable(target):
        return CallableTarget(target, name)
    else:
        raise TypeError(
            "a target must be 'uniform', 'logged', 'arm:NUMBER', 'column:NAME', an arm's index, "
            f"(policy, state), an agent or a function of the arms, got {target!r}"
        )
    return found if name is None else Renamed(found, name)


def as_targets(targets: Any) -> list[Target]:
    """One target, a sequence or a {name: target} mapping, with distinct names."""
    if isinstance(targets, Mapping):
        found = [as_target(target, str(name)) for name, target in targets.items()]
    elif isinstance(targets, str) or not isinstance(targets, Sequence) or _is_pair(targets):
        found = [as_target(targets)]
    else:
        found = [as_target(target) for target in targets]
    if not found:
        raise ValueError("targets is empty: at least one target is needed")
    names = [target.name for target in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"targets need distinct names, {twice[0]!r} occurs twice; give them as {{name: target}}"
        )
    return found


def _is_pair(target: Any) -> bool:
    """Whether it is (policy, state)."""
    return isinstance(target, tuple) and len(target) == 2 and isinstance(target[0], Policy)


class Renamed(Target):
    """A target under another name."""

    def __init__(self, target: Target, name: str):
        self.target = target
        self.name = name
        self.columns = target.columns
        self.extra = target.extra

    @property
    def played_columns(self) -> tuple[str, ...]:
        """The target's own."""
        return self.target.played_columns

    def probabilities(self, rounds: Rounds, problems: Problems) -> Floats:
        """The target's own."""
        return self.target.probabilities(rounds, problems)

    def played(self, rounds: Rounds, problems: Problems) -> Floats:
        """The target's own."""
        return self.target.played(rounds, problems)


def _from_string(text: str) -> Target:
    if text == "uniform":
        return UniformTarget()
    if text == "logged":
        return LoggedTarget()
    kind, _, value = text.partition(":")
    if kind == "arm" and value.isdecimal():
        return ArmTarget(int(value))
    if kind == "column" and value:
        return ColumnTarget(value)
    raise ValueError(f"target must be 'uniform', 'logged', 'arm:NUMBER' or 'column:NAME', got {text!r}")


def _repeat(state: State, times: int) -> State:
    return type(state)(**{name: np.repeat(array, times, axis=0) for name, array in state.arrays().items()})
