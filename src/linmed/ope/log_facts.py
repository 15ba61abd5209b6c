"""Tell what a log holds before it is read through."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from linmed.log import SUM_ERROR, DecisionLog, ListLog, Malformed, ParquetSource, Source, TableSource
from linmed.log.source import View
from linmed.ope.intervals import Weights
from linmed.question import Question
from linmed.validation import BadType, BadValue

CERTAIN = 14.0
"""e^−14 is about one in a million."""
KEYS = ("time", "context", "arms", "probabilities")
"""Columns that are known before a draw."""
WORTH = ("value", "cost")
"""Columns of the played arm; a list with those of every arm is called as they are, with an s."""
LOOKED_AT = 1 << 16
"""Rows in which copies of decisions are looked for."""
PATTERN = 50
"""Rows of a pattern that is taken for a copied file, at least."""
ODD = np.uint64(0x9E37_79B9_7F4A_7C15)

Log = DecisionLog | ListLog | str | os.PathLike[str]
"""A log, or the path of one."""
Words = NDArray[np.uint64]


def as_log(log: Log, question: Question | None = None) -> DecisionLog:
    """Open `log` where it is a path, with the rewards that a question is about.

    A decision that stands in it twice would count twice, and is refused.
    """
    if isinstance(log, (str, os.PathLike)):
        log = DecisionLog.open(log)
    if not isinstance(log, DecisionLog):
        advice = "DecisionLog.from_table makes one of a table or of a dictionary of arrays"
        found = type(log).__name__
        raise BadType("log", f"log must be a DecisionLog or the path of one, got {found}: {advice}")
    if (repeated := log.duplicates()) is not None:
        advice = "log.distinct() keeps the first of each"
        raise BadValue("log", f"every decision must stand in {log.name} once: {repeated}; {advice}")
    if question is None:
        return log
    if question.reward is not None and not any(has_some(log, name) for name in WORTH):
        raise BadValue(
            "reward",
            f"reward='utility' needs a column 'value' or 'cost' of floating-point numbers, and "
            f"{log.name} has neither: agents log them where `decide` is given values or costs",
        )
    return log if question.outcome is None else with_outcome(log, question.outcome)


@dataclass(frozen=True)
class _Outcome(View):
    """The same decisions, with one of their outcomes for the reward."""

    name: str
    made = ("reward",)

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Read the outcomes where rewards are asked for."""
        wanted = dict.fromkeys("outcomes" if name == "reward" else name for name in columns)
        for batch in self.source.read(list(wanted), rows, malformed):
            found = [
                pc.map_lookup(batch.column("outcomes"), pa.scalar(self.name), "first")
                if name == "reward"
                else batch.column(name)
                for name in columns
            ]
            yield pa.RecordBatch.from_arrays(found, list(columns))

    def count(self) -> int | None:
        """Count the source's."""
        return self.source.count()

    def slice(self, start: int, stop: int | None) -> "_Outcome":
        """Take some of the source's."""
        return replace(self, source=self.source.slice(start, stop))

    def pieces(self) -> list[tuple[str, Source]]:
        """Give those of the source."""
        return [(label, replace(self, source=piece)) for label, piece in self.source.pieces()]


def with_outcome(log: DecisionLog, name: str) -> DecisionLog:
    """Give `log` with the outcome of that name for the reward; refused where no decision has it."""
    require_named(log, "outcomes", name, "outcome")
    return DecisionLog(_Outcome(log.source, name), f"{log.name} (outcome {name!r})")


def require_named(log: DecisionLog, column: str, name: str, field: str) -> None:
    """Raise unless some row of a column of numbers by name has `name`, which was given as `field`."""
    require(log, [column], f"{field} {name!r}", field)
    known: set[str] = set()
    for batch in log.batches([column]):
        numbers = batch.column(0)
        if not pa.types.is_map(numbers.type):
            text = f"the column {column!r} of {log.name} must hold numbers by name, got {numbers.type}"
            raise BadValue("log", text)
        known.update(numbers.keys.unique().to_pylist())
        if name in known:
            return
    names = ", ".join(map(repr, sorted(known))) or "none"
    raise BadValue(field, f"{field} must name one of those in {log.name}: {names}, got {name!r}")


def pairs(batch: pa.RecordBatch, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a batch that differ in these columns, each once."""
    found = pa.Table.from_batches([batch.select(list(names))]).group_by(list(names)).aggregate([])
    yield from zip(*(found[name].to_pylist() for name in names), strict=True)


def require(log: DecisionLog, columns: Sequence[str], reason: str, field: str) -> None:
    """Raise unless the log has all `columns`, which what was given as `field` needs."""
    try:
        log.require(columns, reason)
    except ValueError as error:
        raise BadValue(field, str(error)) from None


def holds(log: DecisionLog, column: str) -> bool:
    """Whether the log has `column` in every row, as far as can be told without reading it.

    A log of ours has all columns of the schema, and nulls where nothing was recorded.
    """
    if column not in log.columns:
        return False
    source = _rows_of(log, column)
    if isinstance(source, TableSource):
        return bool(source.table[column].null_count == 0)
    if isinstance(source, ParquetSource):
        every = [_statistics(file, column) for file in source.files]
        return all(
            known is not None and all(one is not None and one.null_count == 0 for one in known)
            for known in every
        )
    return begins_with(DecisionLog(source, log.name), column)


def has_some(log: DecisionLog, column: str) -> bool:
    """Whether some row of the log has `column`; of a part of a log, whether some row of the whole has."""
    if column not in log.columns:
        return False
    source = _rows_of(log, column)
    if isinstance(source, TableSource):
        return bool(source.table[column].null_count < source.table.num_rows)
    if isinstance(source, ParquetSource):
        known = (one for file in source.files for one in _statistics(file, column) or [])
        return any(one is None or one.num_values > 0 for one in known)
    batches = DecisionLog(source, log.name).batches([column])
    return any(batch.column(0).null_count < batch.num_rows for batch in batches)


def _rows_of(log: DecisionLog, column: str) -> Source:
    """Find the source that a log is a part of, and has a column from."""
    source = log.source
    while isinstance(source, View) and column not in source.made:
        source = source.source
    return source


def of_catalogue(log: DecisionLog) -> bool:
    """Whether arms are a catalogue's items, which the log does not list: they may be millions."""
    return has_some(log, "fallback") and not holds(log, "arms")


def begins_with(log: DecisionLog, column: str) -> bool:
    """Whether the log's first row has `column`."""
    if column not in log.columns:
        return False
    first = next(log.batches([column], 1), None)
    return first is not None and bool(first.column(0).null_count == 0)


def _statistics(file: Path, column: str) -> list[Any] | None:
    """What a Parquet file knows of a column, row group by row group; None where it has no such column."""
    metadata = pq.read_metadata(file)
    for leaf in range(metadata.num_columns):
        if metadata.schema.column(leaf).path.split(".")[0] == column:
            return [metadata.row_group(i).column(leaf).statistics for i in range(metadata.num_row_groups)]
    return None


def fixed_shares(log: DecisionLog) -> tuple[float, ...] | None:
    """Every arm's probability in a log that holds only the played arm's, if it was always the same; or None.

    So it is in a randomised experiment: whenever an arm was played it had one probability, and these sum to
    one. If at some decision another arm's had differed, the arms with a wrong one would have held at least
    the smallest share of that decision; that none of them was ever played has a probability below e^−CERTAIN
    if it was so all along, and a log too short for that to count is not believed.
    """
    if "arm_count" not in log.columns:
        return None
    seen: dict[int, float] = {}
    decisions, counts = 0, set()
    for batch in log.batches(["arm", "probability", "arm_count"]):
        if any(column.null_count for column in batch.columns):
            return None
        decisions += batch.num_rows
        counts |= set(batch.column("arm_count").unique().to_pylist())
        if len(counts) != 1 or len(batch.column("probability").unique()) > next(iter(counts)):
            return None
        if any(seen.setdefault(arm, p) != p for arm, p in pairs(batch, "arm", "probability")):
            return None
    if len(counts) != 1 or set(seen) != set(range(counts.pop())):
        return None
    shares = [seen[arm] for arm in sorted(seen)]
    total = sum(shares)
    if not (min(shares) > 0 and abs(total - 1.0) <= SUM_ERROR and decisions * min(shares) >= CERTAIN):
        return None
    return tuple(share / total for share in shares)


def copied(log: DecisionLog) -> str | None:
    """Tell how rows without a `decision_id` show that decisions stand in the log more than once; or None.

    Whatever is known before a draw says nothing of it: of two rows with the same time, context, arms and
    probabilities the second plays the first one's arm as often as by its probability. More shows copies, as
    in `Played.clustered`. Rows that repeat all those before them, in their order, are a file appended to
    itself: only where the repeated part is no short pattern, as in examples.
    """
    if begins_with(log, "decision_id"):
        return None  # by which they are told apart
    before = [name for name in KEYS if begins_with(log, name)]
    arms, chances, rewards, keys, whole = [], [], [], [], []
    for batch in log[:LOOKED_AT].batches(["arm", "probability", "reward", *before]):
        arm, p, reward = (
            batch.column(i).cast(kind).fill_null(empty).to_numpy(zero_copy_only=False)
            for i, kind, empty in ((0, pa.int64(), -1), (1, pa.float64(), np.inf), (2, pa.float64(), -1.0))
        )
        arms.append(arm)
        chances.append(np.where(p > 0, p, np.inf))
        rewards.append(reward)
        key = np.zeros(batch.num_rows, np.uint64)
        for i, _ in enumerate(before):
            key = (key ^ _digest(batch.column(3 + i))) * ODD
        keys.append(key)
        rest = [np.ascontiguousarray(column).view(np.uint64) for column in (arm, p, reward)]
        whole.append(key ^ (rest[0] * ODD + rest[1]) * ODD + rest[2])
    if not arms:
        return None
    row = np.concatenate(whole)
    if (period := _period(row)) is not None:
        return f"rows {period:,} to {row.size - 1:,} are those from row 0 on again"
    if not before:
        return None
    arm, p, reward, key = (np.concatenate(column) for column in (arms, chances, rewards, keys))
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1])
    first, second = order[again], order[again + 1]
    same = arm[first] == arm[second]
    weights = Weights()
    if again.size:
        weights.add(np.where(same, 1.0 / p[second], 0.0), reward[second])
    if not weights.refuted:
        return None
    known = " and ".join([", ".join(before[:-1]), before[-1]] if len(before) > 1 else before)
    return (
        f"of {again.size:,} rows whose {known} an earlier row has, {same.sum():,} also played its arm, "
        f"{weights.mean:.3g} times as often as by their probabilities"
    )


def _period(row: Words) -> int | None:
    """After how many rows the log begins again and goes on as before, to its end; None for short patterns."""
    if row.size < 2 * PATTERN:
        return None
    starts = np.flatnonzero(row[1 : row.size - PATTERN + 1] == row[0]) + 1
    for k in range(1, PATTERN):
        starts = starts[row[starts + k] == row[k]]
    if not starts.size:
        return None
    period = int(starts[0])
    return period if period >= PATTERN and np.array_equal(row[period:], row[:-period]) else None


def _digest(column: pa.Array) -> Words:
    """Compute 64 bits of every entry of a column of numbers, times or lists of numbers."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        ends = np.concatenate([[0], np.cumsum(column.value_lengths().fill_null(0).to_numpy())])
        inner = _digest(column.flatten())
        place = np.arange(inner.size) - np.repeat(ends[:-1], np.diff(ends))
        mixed = (inner ^ (inner >> np.uint64(32))) * (place.astype(np.uint64) * np.uint64(2) + ODD)
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
        found: Words = total[ends[1:]] - total[ends[:-1]]
        return found
    whole = pa.types.is_timestamp(column.type) or pa.types.is_integer(column.type)
    plain = column.cast(pa.int64() if whole else pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
    bits: Words = np.ascontiguousarray(plain).view(np.uint64) * ODD
    return bits


def ended(log: DecisionLog, asked: str = "mature") -> int:
    """The time of the last decision or reward in the log, in microseconds since 1970; a live log ends now."""
    if (known := log.source.ended()) is not None:
        return known
    last = None
    names = [name for name in ("time", "reward_time") if name in log.columns]
    for batch in log.batches(names):
        for column in batch.columns:
            largest = pc.max(column.cast(pa.int64())).as_py()
            last = largest if last is None else max(last, last if largest is None else largest)
    if last is None:
        raise BadValue(asked, f"{asked} needs the times of decisions, {log.name} has none")
    return int(last)
