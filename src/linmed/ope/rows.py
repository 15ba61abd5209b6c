"""A batch's rows as checked arrays."""

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import validation
from linmed.core import core
from linmed.log import ENTRY_ERROR, SUM_ERROR
from linmed.ope.reading import Reading, RewardRange
from linmed.ope.rounds import Mask, Rounds, given
from linmed.validation import Floats, Ints

SMALLEST = np.finfo(np.float64).smallest_subnormal
MANY = np.iinfo(np.int64).max


class Check:
    """Turns batches into rounds; remembers the dimension across batches."""

    def __init__(
        self, reading: Reading, possible: RewardRange | None, smallest: float | None, every_arm: bool
    ):
        self.reading, self.problems, self.possible = reading, reading.problems, possible
        self.smallest, self.every_arm = smallest, every_arm
        self.in_range = True  # false after a reward outside a range that nobody gave
        self.dim: int | None = None

    def convert(self, batch: pa.RecordBatch, row: Ints) -> Rounds:
        """The rows of a batch, which have these numbers in the log."""
        names = batch.schema.names
        # No kernel sees probability and arm_count themselves: they may stay where Arrow has them.
        chance, fallback = batch.column("probability"), self._fallback(batch, row)
        if fallback is not None:
            chance = pc.if_else(pa.array(fallback), 1.0, chance)  # no rule of probabilities is for these rows
        chance = given(chance, "probability", row, self.problems, 1)
        p: Floats = np.asarray(chance.to_numpy(zero_copy_only=False), np.float64)
        reward = _floats(batch.column("reward"))
        arm = _ints(given(batch.column("arm"), "arm", row, self.problems, 0), 0)
        self._within("probability must lie in (0, 1]", row, p, SMALLEST, 1.0)
        if self.smallest is not None:
            rule = f"probability must be at least smallest_probability={self.smallest:g}"
            self._within(rule, row, p, self.smallest, 1.0, "smallest_probability")
        self._rewards(row, reward)
        self._within("arm must be a non-negative index", row, arm, 0, np.inf)
        if fallback is not None:
            p = np.where(fallback, np.inf, p)
        rounds = Rounds(row, arm, p, reward, fallback=fallback, placed=self._placed(batch))
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
            self._within(f"reward must lie in reward_range [{low:g}, {high:g}]", row, reward, low, high)
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


def _ints(column: pa.Array, missing: int, copy: bool = True) -> Ints:
    filled = column.fill_null(missing) if column.null_count else column
    array: Ints = filled.to_numpy(zero_copy_only=False)
    return np.require(array, np.int64, ["C", "W"] if copy else ["C"])
