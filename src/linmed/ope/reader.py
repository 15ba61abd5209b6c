"""Reading a log: batches as checked arrays, of the decisions that can be judged.

Wrong rows are counted to the log's end, then named together.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import validation
from linmed.log import BATCH, DecisionLog
from linmed.ope.known import begins_with, ended, holds
from linmed.ope.reading import Reading, RewardRange
from linmed.ope.recent import Fading
from linmed.ope.rounds import Rounds, given, require
from linmed.ope.rows import MANY, Check
from linmed.validation import BadValue, Ints

AGES = 1e12
"""Seconds beyond which nothing ripens."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """What is read of a log: the columns besides arm, probability and reward, and what is done on the way."""

    columns: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    """Columns outside the log's schema, handed on as they are."""
    possible: RewardRange | None = None
    missing: str | float = "stop"
    """Of decisions without a reward: "stop" judges the log up to the first of them, which assumes nothing;
    "skip" leaves them out, which is right if lateness has nothing to do with the reward; a number is the
    reward that none after `mature` seconds means."""
    mature: float | timedelta | None = None
    """Seconds after which a reward is in; younger decisions are not judged."""
    smallest_probability: float | None = None
    """No arm of a decision was less probable: a promise, to which the played arms are held."""
    shares: tuple[float, ...] | None = None
    """Every arm's probability, where all decisions have the same (`fixed_shares`)."""
    batch: int = BATCH
    every_arm: bool = False
    """Whether arrays over all arms of a decision are made, so that each arm must be one of them."""
    watchful: bool = False
    """Whether to look if decisions stand in the order of their times, where the log has them."""
    horizon: int | None = None
    """Microseconds since 1970: decisions after it are too young. Known when the log is (`settled`)."""
    fading: Fading | None = None
    """How much decisions count by their age."""

    def __post_init__(self) -> None:
        if isinstance(self.missing, str):
            validation.option("missing", self.missing, ("stop", "skip"))
        else:
            object.__setattr__(self, "missing", validation.real("missing", self.missing))
            if self.mature is None:
                raise BadValue(
                    "mature",
                    f"mature must be given where missing is a number: the seconds after which no reward "
                    f"means {self.missing:g}",
                )
        if self.mature is not None:
            length = self.mature.total_seconds() if isinstance(self.mature, timedelta) else self.mature
            seconds = validation.real("mature", length)
            if not 0 <= seconds <= AGES:
                raise BadValue("mature", f"mature must be 0 to {AGES:g} seconds, got {seconds:g}")
            object.__setattr__(self, "mature", seconds)
        if self.smallest_probability is not None:
            p = validation.positive("smallest_probability", self.smallest_probability)
            if p > 1.0:
                raise BadValue("smallest_probability", f"smallest_probability must be at most 1, got {p:g}")
        validation.whole("batch", self.batch)

    def settled(self, log: DecisionLog) -> "Reader":
        """This reader for `log`, whose end tells how old its decisions are."""
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
        """The same of a part of a log. After a wrong row nothing more is yielded, only checked."""
        clocked = self.fading is not None and self.fading.clock
        times = ["time"] if self.horizon is not None or self.watchful or clocked else []
        if times and not isinstance(self.missing, str) and "reward_time" in log.columns:
            times.append("reward_time")
        latest = -MANY
        routes = ["fallback"] if "fallback" in log.columns else []
        needed = ["arm", "probability", "reward", *routes, *times, *self.columns, *self.extra]
        wanted = list(dict.fromkeys(needed))
        check = Check(reading, self.possible, self.smallest_probability, self.every_arm)
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
            if self.fading is not None:
                rounds.weight = self.fading.weights(self._taken(batch, row, reading) if clocked else row)
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

    def _taken(self, batch: pa.RecordBatch, row: Ints, reading: Reading) -> Ints:
        """When decisions were taken, in microseconds; one without a time has no age."""
        return _microseconds(given(batch.column("time"), "time", row, reading.problems, 0, "half_life"))

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
