"""Batches of a log as checked numpy arrays. Wrong rows are counted to the log's end, then named together."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from linmed import checks
from linmed.checks import BadValue, Floats, Ints
from linmed.log import BATCH, DecisionLog

SUM_ERROR = 1e-3
"""How far from one a decision's probabilities may sum: rounding to four digits, or an integral that has an
error of its own, leaves no more. Such a decision's are divided by their sum; beyond it they are refused."""
SUM_ROUNDING = 1e-9
"""Sums closer to one than this are float64's own, and left as they are."""
ENTRY_ERROR = 1e-6
"""How far `probability` may be from the played arm's entry of `probabilities`, or SUM_ERROR of itself."""
SMALLEST, LARGEST = np.finfo(np.float64).smallest_subnormal, np.finfo(np.float64).max
MANY = np.iinfo(np.int64).max

Mask = NDArray[np.bool_]


class Problems:
    """What is wrong with a log, by kind: the first row with its value, how many rows, and the argument."""

    def __init__(self) -> None:
        self._found: dict[str, list[Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(
        self, rule: str, row: Ints, wrong: Mask, value: Callable[[int], object] | str, field: str = "log"
    ) -> None:
        """Where `wrong` is true, that row breaks `rule`; `value(i)` is what the i-th has."""
        if wrong.any():
            first = int(np.argmax(wrong))
            described = value if isinstance(value, str) else value(first)
            entry = self._found.setdefault(rule, [int(row[first]), described, 0, field])
            entry[2] += int(np.count_nonzero(wrong))

    def merge(self, later: "Problems", shift: int) -> None:
        """Absorb what was found in rows that follow; their numbers grow by `shift`."""
        for rule, (row, value, count, blamed) in later._found.items():
            entry = self._found.setdefault(rule, [row + shift, value, 0, blamed])
            entry[2] += count

    def raise_any(self) -> None:
        """One error that names every kind."""
        if self._found:
            lines = [
                f"{rule}: row {row} has {value} ({count} row{'s' if count > 1 else ''} in all)"
                for rule, (row, value, count, _) in self._found.items()
            ]
            fields = {entry[3] for entry in self._found.values()}
            raise BadValue("log" if "log" in fields else fields.pop(), "; ".join(lines))


def given(
    column: pa.Array, name: str, row: Ints, problems: Problems, instead: float, field: str = "log"
) -> pa.Array:
    """`column` without nulls: they are a problem, and `instead` is no second one."""
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        problems.add(f"{name} must be given in every row", row, missing, "none", field)
        return column.fill_null(instead)
    return column


def require(log: DecisionLog, columns: Sequence[str], reason: str, field: str) -> None:
    """Raise unless the log has all `columns`, which what was given as `field` needs."""
    try:
        log.require(columns, reason)
    except ValueError as error:
        raise BadValue(field, str(error)) from None


class RewardRange(NamedTuple):
    """Which rewards are possible."""

    low: float
    high: float
    given: bool = True
    """False where nobody said: a log that has others is refused."""

    def contains(self, lowest: float, highest: float) -> bool:
        """Whether rewards seen between these are possible; those of a given range are checked one by one."""
        return self.given or (self.low <= lowest and highest <= self.high)


def possible_rewards(reward_range: Any, needed: bool) -> RewardRange | None:
    """The range as it was given; where it is needed and was not, [0, 1]; otherwise None for any reward."""
    if reward_range is not None:
        return RewardRange(*checks.interval("reward_range", reward_range))
    return RewardRange(0.0, 1.0, given=False) if needed else None


@dataclass
class Rounds:
    """n rewarded decisions in log order. Ragged arrays are flat, decision i at offsets[i]:offsets[i+1]."""

    row: Ints  # (n,) number of the row in the log
    arm: Ints  # (n,)
    probability: Floats  # (n,)
    reward: Floats  # (n,)
    arm_count: Ints | None = None  # (n,) K of each decision
    logged: Floats | None = None  # (ΣK,) the logging policy's probability of every arm
    arms: Floats | None = None  # (ΣK, d)
    extra: dict[str, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.row.size

    @cached_property
    def offsets(self) -> Ints:
        """(n+1,) where each decision's arms begin in the flat arrays."""
        assert self.arm_count is not None
        return np.concatenate([[0], np.cumsum(self.arm_count)])

    @property
    def chosen(self) -> Ints:
        """(n,) the played arm's place in the flat arrays."""
        return self.offsets[:-1] + self.arm

    @property
    def arm_number(self) -> Ints:
        """(ΣK,) index of every arm within its decision."""
        assert self.arm_count is not None
        return np.arange(self.offsets[-1]) - np.repeat(self.offsets[:-1], self.arm_count)

    def sum_over_arms(self, flat: Floats) -> Floats:
        """Sums of a flat array over each decision's arms.  (ΣK,) → (n,)."""
        assert self.arm_count is not None
        if len(self) and np.all(self.arm_count == self.arm_count[0]):
            total: Floats = flat.reshape(len(self), -1).sum(axis=1)
            return total
        return np.add.reduceat(flat, self.offsets[:-1]) if len(self) else np.empty(0)

    def probabilities(self, flat: Floats, whose: str, problems: Problems, field: str = "log") -> Floats:
        """`flat` (ΣK,), checked to be non-negative and made to sum to one where it nearly does."""
        total = self.sum_over_arms(flat)
        off = np.abs(total - 1.0)
        possible = bool((flat >= 0).all())
        if possible and (off <= SUM_ROUNDING).all():
            return flat
        negative = self.sum_over_arms((~(flat >= 0)).astype(np.float64)) > 0
        problems.add(f"{whose} must be non-negative", self.row, negative, "a negative one or a NaN", field)
        problems.add(
            f"{whose} must sum to one, within {SUM_ERROR:g} (divide them by their sum if that is what they "
            "mean, or leave them out if they are not known)",
            self.row,
            ~negative & ~(off <= SUM_ERROR),
            lambda i: f"a sum of {total[i]:.6g}",
            field,
        )
        scale = np.where(off > SUM_ROUNDING, total, 1.0)
        return flat if problems else flat / np.repeat(scale, np.diff(self.offsets))

    def alike(self, arms: int) -> Iterator[Ints]:
        """Places (m, K) in the flat arrays of decisions with as many arms, few enough that m K ≤ `arms`."""
        assert self.arm_count is not None
        for count in np.unique(self.arm_count).tolist():
            index = np.flatnonzero(self.arm_count == count)
            for part in np.split(index, range(size := max(arms // count, 1), index.size, size)):
                yield self.offsets[part][:, None] + np.arange(count)


@dataclass
class Reading:
    """What one pass over the log has seen, and what was wrong."""

    decisions: int = 0
    rewarded: int = 0  # and used
    waiting: int = 0  # without a reward yet
    lowest: float = np.inf  # reward
    highest: float = -np.inf
    policies: set[str | None] = field(default_factory=set)
    versions: set[int] = field(default_factory=set)  # the lowest and the highest
    problems: Problems = field(default_factory=Problems)

    @property
    def adaptive(self) -> bool:
        """Whether the logging policy changed along the log, as far as the log tells."""
        return len(self.policies) > 1 or len(self.versions) > 1

    def merge(self, later: "Reading") -> None:
        """Absorb what another pass saw of the rows that follow."""
        self.problems.merge(later.problems, self.decisions)
        self.decisions += later.decisions
        self.rewarded += later.rewarded
        self.waiting += later.waiting
        self.lowest, self.highest = min(self.lowest, later.lowest), max(self.highest, later.highest)
        self.policies |= later.policies
        self._note_versions(later.versions)

    def note(self, batch: pa.RecordBatch) -> None:
        """The policies and versions of a batch, where the log has them."""
        names = batch.schema.names
        if "policy" in names:
            self.policies.update(batch.column("policy").unique().to_pylist())
        if "version" in names:
            low_high = pc.min_max(batch.column("version")).as_py().values()
            self._note_versions({version for version in low_high if version is not None})

    def _note_versions(self, versions: set[int]) -> None:
        both = self.versions | versions
        self.versions = {min(both), max(both)} if both else set()

    def finish(self, log: DecisionLog, possible: RewardRange | None = None) -> None:
        """Raise what the pass found wrong."""
        self.problems.raise_any()
        if self.decisions == 0:
            raise BadValue("log", f"{log.name} is empty: it holds no decisions")
        if self.rewarded == 0:
            waiting = f"none of its {self.decisions} decisions can be used"
            raise BadValue("log", f"{log.name} has no rewards yet: {waiting}")
        if possible is not None and not possible.contains(self.lowest, self.highest):
            raise BadValue(
                "reward_range",
                f"reward_range must be given: it may be left out only where every reward lies in [0, 1], and "
                f"{log.name} has rewards from {self.lowest:g} to {self.highest:g}; give the lowest and the "
                "highest reward that are possible, not only those seen",
            )


@dataclass(frozen=True, kw_only=True)
class Reader:
    """What is read of a log: the columns besides arm, probability and reward, and what is done on the way."""

    columns: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    """Columns outside the log's schema, handed on as they are."""
    possible: RewardRange | None = None
    missing: str = "skip"
    """"stop" ends the log at its first decision without a reward, "skip" leaves such decisions out."""
    batch: int = BATCH

    def __post_init__(self) -> None:
        checks.option("missing", self.missing, ("skip", "stop"))
        checks.whole("batch", self.batch)

    def read(self, log: DecisionLog) -> Iterator[Rounds]:
        """The rewarded decisions of a log in batches; raises at the end if a row was wrong or none of use."""
        reading = Reading()
        yield from self.scan(log, reading)
        reading.finish(log, self.possible)

    def scan(self, log: DecisionLog, reading: Reading) -> Iterator[Rounds]:
        """The same of a part of a log. After a wrong row nothing more is yielded, only checked."""
        wanted = list(dict.fromkeys(["arm", "probability", "reward", *self.columns, *self.extra]))
        check = _Check(reading, self.possible)
        for batch in log.batches(wanted, self.batch):
            numbers = np.arange(reading.decisions, reading.decisions + batch.num_rows)
            reading.decisions += batch.num_rows
            reading.note(batch)
            stop = False
            if batch.column("reward").null_count:
                present = batch.column("reward").is_valid().to_numpy(zero_copy_only=False)
                gaps = np.flatnonzero(~present)
                reading.waiting += gaps.size
                stop = self.missing == "stop"
                keep = np.arange(gaps[0]) if stop else np.flatnonzero(present)
                batch, numbers = batch.take(pa.array(keep)), numbers[keep]
            rounds = check.convert(batch, numbers)
            rounds.extra = {name: batch.column(name) for name in self.extra}
            reading.rewarded += len(rounds)
            if not reading.problems and check.in_range and len(rounds):
                yield rounds
            if stop:
                break


class _Check:
    """Turns batches into rounds; remembers the dimension across batches."""

    def __init__(self, reading: Reading, possible: RewardRange | None):
        self.reading, self.problems, self.possible = reading, reading.problems, possible
        self.in_range = True  # false after a reward outside a range that nobody gave
        self.dim: int | None = None

    def convert(self, batch: pa.RecordBatch, row: Ints) -> Rounds:
        names = batch.schema.names
        # No kernel sees probability and arm_count themselves: they may stay where Arrow has them.
        chance = given(batch.column("probability"), "probability", row, self.problems, 1)
        p: Floats = np.asarray(chance.to_numpy(zero_copy_only=False), np.float64)
        reward = _floats(batch.column("reward"))
        arm = _ints(given(batch.column("arm"), "arm", row, self.problems, 0), 0)
        self._within("probability must lie in (0, 1]", row, p, SMALLEST, 1.0)
        self._rewards(row, reward)
        self._within("arm must be a non-negative index", row, arm, 0, np.inf)
        rounds = Rounds(row, arm, p, reward)
        if "arm_count" in names:
            count = given(batch.column("arm_count"), "arm_count", row, self.problems, MANY)
            rounds.arm_count = _ints(count, 0, copy=False)
            self.problems.add("arm must be smaller than arm_count", row, arm >= rounds.arm_count, arm.item)
        if "probabilities" in names:
            rounds.logged = self._logged(batch.column("probabilities"), rounds)
        if "arms" in names:
            rounds.arms = self._arms(batch.column("arms"), rounds)
        return rounds

    def _rewards(self, row: Ints, reward: Floats) -> None:
        if self.possible is not None and self.possible.given:
            low, high, _ = self.possible
            self._within(f"reward must lie in reward_range [{low:g}, {high:g}]", row, reward, low, high)
            return
        self._within("reward must be finite", row, reward, -LARGEST, LARGEST)
        if self.possible is not None and reward.size:
            seen = self.reading
            seen.lowest = min(seen.lowest, float(reward.min()))
            seen.highest = max(seen.highest, float(reward.max()))
            self.in_range = self.possible.contains(seen.lowest, seen.highest)

    def _within(self, rule: str, row: Ints, values: Floats | Ints, low: float, high: float) -> None:
        # The extremes first: they need no temporary array, and a NaN is neither above nor below.
        if values.size and not (values.min() >= low and values.max() <= high):
            self.problems.add(rule, row, ~((values >= low) & (values <= high)), values.item)

    def _fits(self, column: pa.Array, name: str, rounds: Rounds) -> bool:
        """Whether a list column is given in every row with one entry per arm, and nothing else is wrong."""
        row, length = rounds.row, _ints(column.value_lengths(), -1)
        self.problems.add(f"{name} must be given in every row", row, length < 0, "none")
        if rounds.arm_count is None and not self.problems:
            rounds.arm_count = length
            few = rounds.arm >= length
            self.problems.add("arm must be smaller than the number of arms", row, few, rounds.arm.item)
        if not self.problems:
            wrong = length != rounds.arm_count
            self.problems.add(f"{name} must have one entry per arm (arm_count)", row, wrong, length.item)
        return not self.problems

    def _logged(self, column: pa.Array, rounds: Rounds) -> Floats | None:
        if not self._fits(column, "probabilities", rounds):
            return None
        flat = _floats(column.flatten())
        own, played = flat[rounds.chosen], rounds.probability
        same = np.abs(own - played) <= np.maximum(ENTRY_ERROR, SUM_ERROR * played)
        self.problems.add("probability must be the arm's entry of probabilities", rounds.row, ~same, own.item)
        return rounds.probabilities(flat, "probabilities", self.problems)

    def _arms(self, column: pa.Array, rounds: Rounds) -> Floats | None:
        if not self._fits(column, "arms", rounds):
            return None
        vectors = column.flatten()
        length = _ints(vectors.value_lengths(), -1)
        if not length.size:
            return None
        self.dim = self.dim or int(length[0])
        other = length != self.dim
        if other.any():
            self._arm(f"arms must all have dimension {self.dim}", rounds, other, length.item)
            return None
        flat = _floats(vectors.flatten()).reshape(-1, self.dim)
        endless: Mask = np.logical_not(np.isfinite(flat).all(axis=1))
        self._arm("arms must be finite", rounds, endless, lambda i: "a NaN or an infinity")
        return flat

    def _arm(self, rule: str, rounds: Rounds, wrong: Mask, value: Callable[[int], object]) -> None:
        """The same of single arms: wrong (ΣK,), value(i) what the i-th arm has."""
        if wrong.any():
            rows = np.logical_or.reduceat(wrong, rounds.offsets[:-1])
            self.problems.add(rule, rounds.row, rows, str(value(int(np.argmax(wrong)))))


def _floats(column: pa.Array) -> Floats:
    """A copy where Arrow gave a read-only view: kernels see one layout only."""
    return checks.for_kernels(column.to_numpy(zero_copy_only=False))


def _ints(column: pa.Array, missing: int, copy: bool = True) -> Ints:
    filled = column.fill_null(missing) if column.null_count else column
    array: Ints = filled.to_numpy(zero_copy_only=False)
    return np.require(array, np.int64, ["C", "W"] if copy else ["C"])
