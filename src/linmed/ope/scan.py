"""Read a log: batches of decisions as checked arrays, of the decisions that can be judged.

Wrong rows are counted to the end of the log, then named together.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from linmed import validation
from linmed.core import core
from linmed.log import BATCH, ENTRY_ERROR, SUM_ERROR, DecisionLog
from linmed.ope.intervals import Played
from linmed.ope.log_facts import WORTH, begins_with, ended, holds, require
from linmed.question import MISSING, checked
from linmed.validation import BadValue, Floats, Ints

SUM_ROUNDING = 1e-9
"""Sums closer to one than this are float64's own, and left as they are."""

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
        """Note where `wrong` is true, that row breaks `rule`; `value(i)` is what the i-th has."""
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
        """Raise one error that names every kind."""
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
    """Give `column` without nulls: they are a problem, and `instead` is no second one."""
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        problems.add(f"{name} must be given in every row", row, missing, "none", field)
        return column.fill_null(instead)
    return column


@dataclass
class Rounds:
    """n rewarded decisions in log order. Ragged arrays are flat, decision i at offsets[i]:offsets[i+1]."""

    row: Ints  # (n,) number of the row in the log
    arm: Ints  # (n,)
    probability: Floats  # (n,) by any route but a catalogue's fallback; ∞ on fallback rows
    reward: Floats  # (n,)
    arm_count: Ints | None = None  # (n,) K of each decision
    logged: Floats | None = None  # (ΣK,) the logging policy's probability of every arm
    arms: Floats | None = None  # (ΣK, d)
    fallback: Mask | None = None  # (n,) None where there is none
    placed: Mask | None = None  # (n,) where `arm` is a place in a catalogue, which may exceed K
    paid: Floats | None = None  # (n,) where `reward` is the utility: the reward that it is made of
    worth: tuple[Floats, Floats] | None = None  # and every arm's value and cost (ΣK,), where models need them
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

    def weights(self, chance: Floats) -> Floats:
        """Compute w = π/p of the arms played (n,), with the target's probability of each; 0 on fallback rows.

        E w = Σ_a p(a) π(a)/p(a) = 1 as without fallbacks: the sum is over all arms, and a fallback adds
        nothing to it. The policy that wrote the log is as probable as itself (∞/∞): each row is its own.
        """
        if self.fallback is None:
            return chance / self.probability
        own = np.isinf(chance)
        weight: Floats = np.where(own, 1.0, np.where(own, 1.0, chance) / self.probability)
        return weight

    def sum_over_arms(self, flat: Floats) -> Floats:
        """Sum a flat array over each decision's arms.  (ΣK,) → (n,)."""
        assert self.arm_count is not None
        if len(self) and np.all(self.arm_count == self.arm_count[0]):
            total: Floats = flat.reshape(len(self), -1).sum(axis=1)
            return total
        return np.add.reduceat(flat, self.offsets[:-1]) if len(self) else np.empty(0)

    def probabilities(self, flat: Floats, whose: str, problems: Problems, field: str = "log") -> Floats:
        """Check `flat` (ΣK,) to be non-negative and made to sum to one where it nearly does."""
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
        return RewardRange(*validation.interval("reward_range", reward_range))
    return RewardRange(0.0, 1.0, given=False) if needed else None


@dataclass
class Reading:
    """What one pass over the log has seen, and what was wrong."""

    decisions: int = 0
    rewarded: int = 0  # and used
    waiting: int = 0  # old enough, but without a reward
    young: int = 0  # not old enough
    assumed: int = 0  # given the reward that none by then means
    fallbacks: int = 0  # used, but without a weight
    stopped: int | None = None  # the row at which the log was judged no further
    lowest: float = np.inf  # reward
    highest: float = -np.inf
    policies: set[str | None] = field(default_factory=set)
    versions: set[int] = field(default_factory=set)  # the lowest and the highest
    played: Played = field(default_factory=Played)
    disordered: int | None = None  # the first row that was taken before the one above it
    problems: Problems = field(default_factory=Problems)

    @property
    def adaptive(self) -> bool:
        """Whether the logging policy changed along the log, as far as the log tells."""
        return len(self.policies) > 1 or len(self.versions) > 1

    def merge(self, later: "Reading") -> None:
        """Absorb what another pass saw of the rows that follow."""
        if self.stopped is None:
            self.problems.merge(later.problems, self.decisions)
            self.rewarded += later.rewarded
            self.assumed += later.assumed
            self.fallbacks += later.fallbacks
            self.played.merge(later.played)
            self.lowest, self.highest = min(self.lowest, later.lowest), max(self.highest, later.highest)
            if self.disordered is None and later.disordered is not None:
                self.disordered = later.disordered + self.decisions
            self.stopped = None if later.stopped is None else later.stopped + self.decisions
        self.decisions += later.decisions
        self.waiting += later.waiting
        self.young += later.young
        self.policies |= later.policies
        self._note_versions(later.versions)

    def note(self, batch: pa.RecordBatch) -> None:
        """Note the policies and versions of a batch, where the log has them."""
        names = batch.schema.names
        if "policy" in names:
            self.policies.update(batch.column("policy").unique().to_pylist())
        if "version" in names:
            low_high = pc.min_max(batch.column("version")).as_py().values()
            self._note_versions({version for version in low_high if version is not None})

    def _note_versions(self, versions: set[int]) -> None:
        both = self.versions | versions
        self.versions = {min(both), max(both)} if both else set()

    @property
    def unused(self) -> int:
        """Decisions that were not judged."""
        return self.decisions - self.rewarded

    @property
    def _unusable(self) -> str:
        """Why not one decision can be used."""
        if self.young == self.decisions:
            return f"all its {self.decisions} decisions are younger than mature"
        if self.stopped is not None and self.waiting < self.decisions - self.young:
            return (
                f"its decision {self.stopped} still waits for one, and missing='stop' goes no further; give "
                "mature, and missing=0 if no reward by then means 0, or missing='skip' if lateness has "
                "nothing to do with the reward"
            )
        return f"none of its {self.decisions} decisions can be used"

    def finish(self, log: DecisionLog, possible: RewardRange | None = None) -> None:
        """Raise what the pass found wrong."""
        self.problems.raise_any()
        if self.decisions == 0:
            raise BadValue("log", f"{log.name} is empty: it holds no decisions")
        if self.rewarded == 0:
            raise BadValue("log", f"{log.name} has no rewards yet: {self._unusable}")
        if possible is not None and not possible.contains(self.lowest, self.highest):
            raise BadValue(
                "reward_range",
                f"reward_range must be given: it may be left out only where every reward lies in [0, 1], and "
                f"{log.name} has rewards from {self.lowest:g} to {self.highest:g}; give the lowest and the "
                "highest reward that are possible, not only those seen",
            )


SMALLEST = np.finfo(np.float64).smallest_subnormal
MANY = np.iinfo(np.int64).max


class Check:
    """Turns batches into rounds; remembers the dimension across batches."""

    def __init__(
        self,
        reading: Reading,
        possible: RewardRange | None,
        smallest: float | None,
        every_arm: bool,
        utility: bool,
    ):
        self.reading, self.problems, self.possible = reading, reading.problems, possible
        self.smallest, self.every_arm, self.utility = smallest, every_arm, utility
        self.in_range = True  # false after a reward outside a range that nobody gave
        self.dim: int | None = None

    def convert(self, batch: pa.RecordBatch, row: Ints) -> Rounds:
        """Convert the rows of a batch, which have these numbers in the log."""
        names = batch.schema.names
        # No kernel sees probability and arm_count themselves: they may stay where Arrow has them.
        chance, fallback = batch.column("probability"), self._fallback(batch, row)
        if fallback is not None:
            chance = pc.if_else(pa.array(fallback), 1.0, chance)  # no rule of probabilities is for these rows
        chance = given(chance, "probability", row, self.problems, 1)
        p: Floats = np.asarray(chance.to_numpy(zero_copy_only=False), np.float64)
        reward, paid = _floats(batch.column("reward")), None
        if self.utility:
            value, cost = (_number(batch, name, one) for name, one in zip(WORTH, (1.0, 0.0), strict=True))
            paid, reward = reward, value * reward - cost
        arm = _ints(given(batch.column("arm"), "arm", row, self.problems, 0), 0)
        self._within("probability must lie in (0, 1]", row, p, SMALLEST, 1.0)
        if self.smallest is not None:
            rule = f"probability must be at least smallest_probability={self.smallest:g}"
            self._within(rule, row, p, self.smallest, 1.0, "smallest_probability")
        self._rewards(row, reward)
        self._within("arm must be a non-negative index", row, arm, 0, np.inf)
        if fallback is not None:
            p = np.where(fallback, np.inf, p)
        rounds = Rounds(row, arm, p, reward, fallback=fallback, placed=self._placed(batch), paid=paid)
        if not self.problems:
            self.reading.played.add(arm, p)
        if "arm_count" in names:
            count = given(batch.column("arm_count"), "arm_count", row, self.problems, MANY)
            rounds.arm_count = _ints(count, 0, copy=False)
            beyond = arm >= rounds.arm_count
            wrong = beyond if rounds.placed is None else beyond & ~rounds.placed
            self.problems.add("arm must be smaller than arm_count", row, wrong, arm.item)
        if "probabilities" in names:
            rounds.logged = self._logged(batch.column("probabilities"), rounds)
        if "arms" in names:
            rounds.arms = self._arms(batch.column("arms"), rounds)
        if self.utility and ("values" in names or "costs" in names):
            rounds.worth = self._worth(batch, "value", 1.0, rounds), self._worth(batch, "cost", 0.0, rounds)
        return rounds

    def _fallback(self, batch: pa.RecordBatch, row: Ints) -> Mask | None:
        """Which rows are a catalogue's fallbacks, None where there is none; they have no probability."""
        if "fallback" not in batch.schema.names or not pc.any(batch.column("fallback")).as_py():
            return None
        fallback: Mask = batch.column("fallback").fill_null(False).to_numpy(zero_copy_only=False)
        told = batch.column("probability")
        rule = "probability must be null where fallback is true (where it is known the row is no fallback's)"
        both = fallback & told.is_valid().to_numpy(zero_copy_only=False)
        self.problems.add(rule, row, both, lambda i: told[i].as_py())
        return fallback

    def _placed(self, batch: pa.RecordBatch) -> Mask | None:
        """Which rows are decisions of a catalogue; None where all arms are to be told apart."""
        names = batch.schema.names
        if self.every_arm or "fallback" not in names or "arms" in names or "probabilities" in names:
            return None
        column = batch.column("fallback")
        return None if column.null_count == len(column) else column.is_valid().to_numpy(zero_copy_only=False)

    def _rewards(self, row: Ints, reward: Floats) -> None:
        if self.possible is not None and self.possible.given:
            low, high, _ = self.possible
            name = "value · reward − cost" if self.utility else "reward"
            self._within(f"{name} must lie in reward_range [{low:g}, {high:g}]", row, reward, low, high)
            return
        if not reward.size:
            return
        lowest, highest = core.ends(reward)
        if math.isnan(lowest):
            self.problems.add("reward must be finite", row, ~np.isfinite(reward), reward.item)
        elif self.possible is not None:
            seen = self.reading
            seen.lowest, seen.highest = min(seen.lowest, lowest), max(seen.highest, highest)
            self.in_range = self.possible.contains(seen.lowest, seen.highest)

    def _within(
        self, rule: str, row: Ints, values: Floats | Ints, low: float, high: float, field: str = "log"
    ) -> None:
        if values.size and not within(values, low, high):
            self.problems.add(rule, row, ~((values >= low) & (values <= high)), values.item, field)

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

    def _worth(self, batch: pa.RecordBatch, name: str, instead: float, rounds: Rounds) -> Floats:
        """Every arm's value or cost (ΣK,), and `instead` in rows that have none."""
        several, names = f"{name}s", batch.schema.names
        column = batch.column(several) if several in names else pa.nulls(len(rounds), pa.list_(pa.float64()))
        length = _ints(column.value_lengths(), -1)
        if name in names:
            lacking = batch.column(name).is_valid().to_numpy(zero_copy_only=False) & (length < 0)
            self.problems.add(f"{several} must be given where {name} is", rounds.row, lacking, "none")
        wrong = (length >= 0) & (length != rounds.arm_count)
        self.problems.add(
            f"{several} must have one entry per arm (arm_count)", rounds.row, wrong, length.item
        )
        if self.problems:
            return np.empty(0)
        flat = np.full(rounds.offsets[-1], instead)
        flat[np.repeat(length >= 0, np.diff(rounds.offsets))] = _floats(column.flatten())
        endless: Mask = np.logical_not(np.isfinite(flat))
        self._arm(f"{several} must be finite", rounds, endless, lambda i: flat[i])
        return flat

    def _arm(self, rule: str, rounds: Rounds, wrong: Mask, value: Callable[[int], object]) -> None:
        """The same of single arms: wrong (ΣK,), value(i) what the i-th arm has."""
        if wrong.any():
            rows = np.logical_or.reduceat(wrong, rounds.offsets[:-1])
            self.problems.add(rule, rounds.row, rows, str(value(int(np.argmax(wrong)))))


def within(values: Floats | Ints, low: float, high: float) -> bool:
    """Whether all values lie between, by their extremes: no temporary array is needed, and NaN is neither."""
    smallest, largest = (
        core.ends(values)
        if values.dtype == np.float64 and values.flags.c_contiguous
        else (values.min(), values.max())
    )
    return bool(smallest >= low and largest <= high)


def _floats(column: pa.Array) -> Floats:
    """A copy where Arrow gave a read-only view: the core takes one layout only."""
    return validation.for_kernels(column.to_numpy(zero_copy_only=False))


def _number(batch: pa.RecordBatch, name: str, instead: float) -> Floats | float:
    """A column of numbers with `instead` where it has none, or is not there."""
    if name not in batch.schema.names:
        return instead
    return _floats(batch.column(name).cast(pa.float64()).fill_null(instead))


def _ints(column: pa.Array, missing: int, copy: bool = True) -> Ints:
    filled = column.fill_null(missing) if column.null_count else column
    array: Ints = filled.to_numpy(zero_copy_only=False)
    return np.require(array, np.int64, ["C", "W"] if copy else ["C"])


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Read a log: which columns, and with which options of `Question`."""

    columns: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    """Columns outside the log's schema, handed on as they are."""
    possible: RewardRange | None = None
    missing: str | float = MISSING
    mature: float | timedelta | None = None
    smallest_probability: float | None = None
    utility: bool = False
    """Whether value · reward − cost stands for the reward."""
    shares: tuple[float, ...] | None = None
    """Every arm's probability, where all decisions have the same (`fixed_shares`)."""
    batch: int = BATCH
    every_arm: bool = False
    """Whether arrays over all arms of a decision are made, so that each arm must be one of them."""
    watchful: bool = False
    """Whether to look if decisions stand in the order of their times, where the log has them."""
    horizon: int | None = None
    """Microseconds since 1970: decisions after it are too young. Known when the log is (`settled`)."""

    def __post_init__(self) -> None:
        for name in ("missing", "mature", "smallest_probability", "batch"):
            object.__setattr__(self, name, checked(name, getattr(self, name)))
        if not isinstance(self.missing, str) and self.mature is None:
            raise BadValue(
                "mature",
                f"mature must be given where missing is a number: the seconds after which no reward "
                f"means {self.missing:g}",
            )

    def settled(self, log: DecisionLog) -> "Reader":
        """Settle this reader on `log`, whose end tells how old its decisions are."""
        needed = self.watchful or (self.missing == "stop" and not holds(log, "reward"))
        timed = needed and begins_with(log, "time")
        return dataclasses.replace(self, watchful=timed)._matured(log)

    def _matured(self, log: DecisionLog) -> "Reader":
        if self.mature is None:
            return self
        require(log, ["time"], "mature", "mature")
        return dataclasses.replace(self, horizon=ended(log) - round(self._seconds * 1e6))

    @property
    def _seconds(self) -> float:
        assert isinstance(self.mature, (int, float))
        return self.mature

    def read(self, log: DecisionLog) -> Iterator[Rounds]:
        """The judged decisions of a log in batches; raises at the end if a row was wrong or none of use."""
        reading = Reading()
        yield from self.settled(log).scan(log, reading)
        reading.finish(log, self.possible)

    def known(self, log: DecisionLog) -> Iterator[Rounds]:
        """The decisions of a log that is not judged, of which models may learn: those that have a reward."""
        reader = dataclasses.replace(self, missing="skip") if self.missing == "stop" else self
        reading = Reading()
        yield from reader.scan(log, reading)
        reading.problems.raise_any()

    def scan(self, log: DecisionLog, reading: Reading) -> Iterator[Rounds]:
        """Read a part of a log. After a wrong row nothing more is yielded, only checked."""
        times = ["time"] if self.horizon is not None or self.watchful else []
        if times and not isinstance(self.missing, str) and "reward_time" in log.columns:
            times.append("reward_time")
        latest = -MANY
        routes = ["fallback"] if "fallback" in log.columns else []
        routes += [name for name in WORTH if self.utility and name in log.columns]
        needed = ["arm", "probability", "reward", *routes, *times, *self.columns, *self.extra]
        wanted = list(dict.fromkeys(needed))
        check = Check(reading, self.possible, self.smallest_probability, self.every_arm, self.utility)
        for batch in log.batches(wanted, self.batch):
            row = np.arange(reading.decisions, reading.decisions + batch.num_rows)
            reading.decisions += batch.num_rows
            reading.note(batch)
            if self.horizon is not None:
                batch, row = self._old(batch, row, reading)
            if batch.column("reward").null_count:
                batch, row = self._rewarded(batch, row, reading)
            if reading.stopped is not None and (row.size == 0 or row[0] > reading.stopped):
                continue  # only counted
            rounds = check.convert(batch, row)
            if self.watchful:
                latest = self._watch(batch, row, latest, reading)
            rounds.extra = {name: batch.column(name) for name in self.extra}
            if self.shares is not None:
                rounds.logged = np.tile(self.shares, len(rounds))
            reading.rewarded += len(rounds)
            if rounds.fallback is not None:
                reading.fallbacks += int(np.count_nonzero(rounds.fallback))
            if not reading.problems and check.in_range and len(rounds):
                yield rounds

    def _old(self, batch: pa.RecordBatch, row: Ints, reading: Reading) -> tuple[pa.RecordBatch, Ints]:
        """The decisions that are old enough; rewards that came later than `mature` came too late for them."""
        taken = given(batch.column("time"), "time", row, reading.problems, 0, "mature")
        time = _microseconds(taken)
        assert self.horizon is not None
        old = time <= self.horizon
        reading.young += int(np.count_nonzero(~old))
        if not old.all():
            batch, row, time = batch.filter(pa.array(old)), row[old], time[old]
        if isinstance(self.missing, str):
            return batch, row
        place = batch.schema.get_field_index("reward")
        reward = batch.column(place)
        if "reward_time" in batch.schema.names:
            came = _microseconds(batch.column("reward_time").fill_null(0))
            late = (came - time > self._seconds * 1e6) & reward.is_valid().to_numpy(zero_copy_only=False)
            reward = pc.if_else(pa.array(late), pa.scalar(None, reward.type), reward)
        reading.assumed += reward.null_count
        return batch.set_column(place, "reward", reward.fill_null(self.missing)), row

    def _watch(self, batch: pa.RecordBatch, row: Ints, latest: int, reading: Reading) -> int:
        """Note the first decision that is earlier than the one before; the time of the last one."""
        time = batch.column("time")
        if time.null_count or not row.size:
            return latest
        path = np.concatenate([[latest], _microseconds(time)])
        falls = np.flatnonzero(path[1:] < path[:-1])
        if falls.size and reading.disordered is None:
            reading.disordered = int(row[falls[0]])
        return int(path[-1])

    def _rewarded(self, batch: pa.RecordBatch, row: Ints, reading: Reading) -> tuple[pa.RecordBatch, Ints]:
        """The decisions that have a reward, up to the first that has none where that ends the log."""
        present = batch.column("reward").is_valid().to_numpy(zero_copy_only=False)
        gaps = np.flatnonzero(~present)
        reading.waiting += gaps.size
        keep = np.flatnonzero(present)
        if self.missing == "stop":
            if reading.stopped is None:
                reading.stopped = int(row[gaps[0]])
            keep = np.flatnonzero(row < reading.stopped)
        return batch.take(pa.array(keep)), row[keep]


def _microseconds(column: pa.Array) -> Ints:
    whole: Ints = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return whole
