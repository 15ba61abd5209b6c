"""Batches of a log as checked numpy arrays. Wrong rows are counted to the log's end, then named together."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from linmed import checks
from linmed.checks import Floats, Ints
from linmed.log import BATCH, DecisionLog

SUM_TOLERANCE = 1e-6
"""How far probabilities of one decision may be from summing to one (logs are often rounded to 6 digits)."""


class Problems:
    """What is wrong with a log, by kind: the first row with its value, and how many rows."""

    def __init__(self) -> None:
        self._found: dict[str, list[Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, rule: str, rows: Ints, value: Callable[[int], object]) -> None:
        """`rows` of the log break `rule`; `value(i)` describes the i-th of them."""
        if rows.size:
            entry = self._found.setdefault(rule, [int(rows[0]), value(0), 0])
            entry[2] += rows.size

    def merge(self, later: "Problems", shift: int) -> None:
        """Absorb what was found in rows that follow; their numbers grow by `shift`."""
        for rule, (row, value, count) in later._found.items():
            entry = self._found.setdefault(rule, [row + shift, value, 0])
            entry[2] += count

    def raise_any(self) -> None:
        """One error that names every kind."""
        if self._found:
            lines = [
                f"{rule}: row {row} has {value} ({count} row{'s' if count > 1 else ''} in all)"
                for rule, (row, value, count) in self._found.items()
            ]
            raise ValueError("; ".join(lines))


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
    features: Floats | None = None  # (n, d) of the arm played
    extra: dict[str, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.row.size

    @property
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

    def groups(self) -> Iterator[tuple[Ints, int]]:
        """Decisions with the same number of arms: their indices here, and that number."""
        assert self.arm_count is not None
        for count in np.unique(self.arm_count).tolist():
            yield np.flatnonzero(self.arm_count == count), count

    def places(self, index: Ints, count: int) -> Ints:
        """Places in the flat arrays of the decisions `index`, which have `count` arms each.  → (m, K)."""
        return self.offsets[index][:, None] + np.arange(count)


@dataclass
class Reading:
    """What one pass over the log has seen."""

    decisions: int = 0
    rewarded: int = 0  # and used
    waiting: int = 0  # without a reward yet
    policies: set[str | None] = field(default_factory=set)
    versions: set[int] = field(default_factory=set)  # the lowest and the highest

    @property
    def adaptive(self) -> bool:
        """Whether the logging policy changed along the log, as far as the log tells."""
        return len(self.policies) > 1 or len(self.versions) > 1

    def merge(self, later: "Reading") -> None:
        """Absorb what another pass saw of the rows that follow."""
        self.decisions += later.decisions
        self.rewarded += later.rewarded
        self.waiting += later.waiting
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


def read_rounds(
    log: DecisionLog,
    columns: Sequence[str],
    problems: Problems,
    *,
    extra: Sequence[str] = (),
    reward_range: tuple[float, float] | None = None,
    missing: str = "skip",
    reading: Reading | None = None,
    rows: int = BATCH,
) -> Iterator[Rounds]:
    """The rewarded decisions of `log` in batches; raises at the end if a row was wrong, or none had a reward.

    `columns` are those wanted besides arm, probability and reward. `missing="stop"` ends the log at its
    first decision without a reward. After a wrong row nothing more is yielded, only checked.
    """
    reading = Reading() if reading is None else reading
    yield from scan_rounds(log, columns, problems, reading, extra, reward_range, missing, rows)
    finish(log, problems, reading)


def finish(log: DecisionLog, problems: Problems, reading: Reading) -> None:
    """Raise what a pass over the log found wrong."""
    problems.raise_any()
    if reading.decisions == 0:
        raise ValueError(f"{log.name} is empty: it holds no decisions")
    if reading.rewarded == 0:
        raise ValueError(
            f"{log.name} has no rewards yet: none of its {reading.decisions} decisions can be used"
        )


def scan_rounds(
    log: DecisionLog,
    columns: Sequence[str],
    problems: Problems,
    reading: Reading,
    extra: Sequence[str],
    reward_range: tuple[float, float] | None,
    missing: str,
    rows: int,
) -> Iterator[Rounds]:
    """As `read_rounds`, without the final check: for a part of a log."""
    checks.option("missing", missing, ("skip", "stop"))
    wanted = list(dict.fromkeys(["arm", "probability", "reward", *columns, *extra]))
    batch_checks = _Checks(problems, reward_range)
    for batch in log.batches(wanted, rows):
        start = reading.decisions
        reading.decisions += batch.num_rows
        reading.note(batch)
        numbers = np.arange(start, start + batch.num_rows)
        stop = False
        if batch.column("reward").null_count:
            present = batch.column("reward").is_valid().to_numpy(zero_copy_only=False)
            gaps = np.flatnonzero(~present)
            reading.waiting += gaps.size
            stop = missing == "stop"
            keep = np.arange(gaps[0]) if stop else np.flatnonzero(present)
            batch, numbers = batch.take(pa.array(keep)), numbers[keep]
        rounds = batch_checks.convert(batch, numbers, extra)
        reading.rewarded += len(rounds)
        if not problems and len(rounds):
            yield rounds
        if stop:
            break


class _Checks:
    """Turns batches into rounds; remembers the dimension across batches."""

    def __init__(self, problems: Problems, reward_range: tuple[float, float] | None):
        self.problems = problems
        self.reward_range = reward_range
        self.dim: int | None = None

    def convert(self, batch: pa.RecordBatch, row: Ints, extra: Sequence[str]) -> Rounds:
        names = batch.schema.names
        probability = _floats(batch.column("probability"))
        reward = _floats(batch.column("reward"))
        arm = _ints(batch.column("arm"), -1)
        self._row(
            "probability must lie in (0, 1]", row, ~((probability > 0) & (probability <= 1)), probability
        )
        if self.reward_range is None:
            self._row("reward must be finite", row, ~np.isfinite(reward), reward)
        else:
            low, high = self.reward_range
            self._row(
                f"reward must lie in reward_range [{low:g}, {high:g}]",
                row,
                ~((reward >= low) & (reward <= high)),
                reward,
            )
        self._row("arm must be a non-negative index", row, arm < 0, arm)
        rounds = Rounds(row, arm, probability, reward)
        if "arm_count" in names:
            rounds.arm_count = _ints(batch.column("arm_count"), 0)
            self._row("arm must be smaller than arm_count", row, arm >= rounds.arm_count, arm)
        if "probabilities" in names:
            rounds.logged = self._logged(batch.column("probabilities"), rounds)
        if "arms" in names:
            rounds.arms = self._arms(batch.column("arms"), rounds)
        if "features" in names:
            rounds.features = self._features(batch.column("features"), rounds)
        rounds.extra = {name: batch.column(name) for name in extra}
        return rounds

    def _row(self, rule: str, row: Ints, wrong: NDArray[np.bool_], values: NDArray[Any]) -> None:
        if wrong.any():
            bad = np.flatnonzero(wrong)
            self.problems.add(rule, row[bad], lambda i: values[bad[i]].item())

    def _lengths(self, column: pa.Array, name: str, rounds: Rounds) -> Ints | None:
        """Lengths of a list column if every row has one and they agree with arm_count."""
        length = _ints(column.value_lengths(), -1)
        if (length < 0).any():
            bad = np.flatnonzero(length < 0)
            self.problems.add(f"{name} must be given in every row", rounds.row[bad], lambda i: "none")
            return None
        if rounds.arm_count is None:
            rounds.arm_count = length
            self._row(
                "arm must be smaller than the number of arms", rounds.row, rounds.arm >= length, rounds.arm
            )
        wrong = length != rounds.arm_count
        if wrong.any():
            bad = np.flatnonzero(wrong)
            self.problems.add(
                f"{name} must have one entry per arm (arm_count)",
                rounds.row[bad],
                lambda i: int(length[bad[i]]),
            )
            return None
        return length

    def _logged(self, column: pa.Array, rounds: Rounds) -> Floats | None:
        if self._lengths(column, "probabilities", rounds) is None or self.problems:
            return None
        flat = _floats(column.flatten())
        total = rounds.sum_over_arms(flat)
        impossible = rounds.sum_over_arms((~(flat >= 0)).astype(np.float64)) > 0
        self._row(
            "probabilities must be non-negative", rounds.row, impossible, np.where(impossible, np.nan, 0)
        )
        self._row(
            "probabilities must sum to one",
            rounds.row,
            ~impossible & (np.abs(total - 1) > SUM_TOLERANCE),
            total,
        )
        own = flat[rounds.chosen]
        wrong = ~(np.abs(own - rounds.probability) <= SUM_TOLERANCE)
        self._row("probability must be the arm's entry of probabilities", rounds.row, wrong, own)
        return flat

    def _arms(self, column: pa.Array, rounds: Rounds) -> Floats | None:
        count = self._lengths(column, "arms", rounds)
        if count is None or self.problems:
            return None
        vectors = column.flatten()
        length = _ints(vectors.value_lengths(), -1)
        if not length.size:
            return None
        dim = self._dim(length[0])
        if (length != dim).any():
            owner = np.repeat(rounds.row, count)
            bad = np.flatnonzero(length != dim)
            rows, first = np.unique(owner[bad], return_index=True)
            self.problems.add(
                f"arms must all have dimension {dim}", rows, lambda i: int(length[bad[first[i]]])
            )
            return None
        flat = _floats(vectors.flatten()).reshape(-1, dim)
        finite = np.isfinite(flat).all(axis=1)
        if not finite.all():
            rows = np.unique(np.repeat(rounds.row, count)[~finite])
            self.problems.add("arms must be finite", rows, lambda i: "a NaN or an infinity")
        return flat

    def _features(self, column: pa.Array, rounds: Rounds) -> Floats | None:
        length = _ints(column.value_lengths(), -1)
        dim = self._dim(max(int(length[0]), 0)) if length.size else 0
        self._row(f"features must have dimension {dim}", rounds.row, length != dim, length)
        if self.problems or not length.size:
            return None
        return _floats(column.flatten()).reshape(-1, dim)

    def _dim(self, seen: int) -> int:
        if self.dim is None:
            self.dim = int(seen)
        return self.dim


def _floats(column: pa.Array) -> Floats:
    """A copy where Arrow gave a read-only view: kernels would be compiled a second time for those."""
    array: Floats = column.to_numpy(zero_copy_only=False)
    return np.require(array, np.float64, ["C", "W"])


def _ints(column: pa.Array, missing: int) -> Ints:
    filled = column.fill_null(missing) if column.null_count else column
    array: Ints = filled.to_numpy(zero_copy_only=False)
    return np.require(array, np.int64, ["C", "W"])
