"""The decision log on disk: one row per decision, appended in whole Parquet files.

A log is a directory. `decisions-*.parquet` hold the decisions in order, with the rewards that were known
when the file was written; `rewards-*.parquet` hold rewards that came later, each with the file and row of
its decision, so reading joins them by position and needs no index of identifiers. A file is written under
a hidden name, synchronised and renamed: a killed process leaves only whole files, and loses only what had
not been flushed.
"""

import atexit
import functools
import os
import time as clock
import uuid
import weakref
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from linmed import checks
from linmed.checks import Floats

TIME = pa.timestamp("us", tz="UTC")

SCHEMA = pa.schema(
    [
        ("decision_id", pa.string()),
        ("time", TIME),
        ("policy", pa.string()),
        ("version", pa.int64()),  # how many rewards the policy had absorbed: it varies in an adaptive log
        ("arm", pa.int64()),
        ("arm_id", pa.string()),
        ("arm_count", pa.int64()),
        ("features", pa.list_(pa.float64())),  # of the chosen arm (d,)
        ("probability", pa.float64()),
        ("log_probability", pa.float64()),
        ("probabilities", pa.list_(pa.float64())),  # of every arm (K,), optional
        ("arms", pa.list_(pa.list_(pa.float64()))),  # every arm's features (K, d), optional
        ("reward", pa.float64()),  # null until it arrives
        ("reward_time", TIME),
    ]
)
REWARDS = pa.schema(
    [
        ("decision_id", pa.string()),
        ("part", pa.string()),
        ("row", pa.int64()),
        ("reward", pa.float64()),
        ("reward_time", TIME),
    ]
)


class Recorder(Protocol):
    """What an agent asks of a log."""

    def record(
        self,
        decision_id: object,
        *,
        arm: int,
        arm_count: int,
        log_probability: float,
        features: Floats | None = None,
        log_probabilities: Floats | None = None,
        arms: Floats | None = None,
        arm_id: object = None,
        policy: str | None = None,
        version: int | None = None,
        time: datetime | float | None = None,
    ) -> None:
        """A decision was taken."""

    def reward(self, decision_id: object, reward: float, time: datetime | float | None = None) -> None:
        """The reward of an earlier decision arrived."""

    def flush(self) -> None:
        """Make everything recorded so far durable."""


class LateRewards(NamedTuple):
    """Rewards of one decision file that came after it was written, by row."""

    row: NDArray[np.int64]
    reward: Floats
    time: NDArray[np.int64]  # microseconds


class LogWriter:
    """Appends decisions and rewards to the log at `path`.

    The buffer is written by `flush`, and by itself once it holds `flush_rows` rows or its oldest row is
    `flush_seconds` old (looked at whenever something is recorded). The rest is written by `close`, at the
    end of a `with` block or of the process. One process writes a log at a time.
    """

    def __init__(self, path: str | os.PathLike[str], *, flush_rows: int = 8192, flush_seconds: float = 10.0):
        self.path = Path(path)
        self.flush_rows = checks.whole("flush_rows", flush_rows)
        self.flush_seconds = checks.between("flush_seconds", flush_seconds, 0.0, 1e9)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"path must be a directory of Parquet files, {self.path} is a file")
        self.path.mkdir(parents=True, exist_ok=True)
        self._token = uuid.uuid4().hex[:8]
        self._stamp = 0
        self._pending: dict[str, tuple[str, int]] = {}  # decision without a reward → its file and row
        self._seen = _Seen()
        self._late: list[tuple[str, str, int, float, int]] = []
        self._oldest: float | None = None  # when the oldest row in the buffer was added
        self._closed = False
        self._resume()
        self._start_part()
        self._at_exit = functools.partial(_close, weakref.ref(self))
        atexit.register(self._at_exit)

    def record(
        self,
        decision_id: object,
        *,
        arm: int,
        arm_count: int,
        log_probability: float,
        features: Floats | None = None,
        log_probabilities: Floats | None = None,
        arms: Floats | None = None,
        arm_id: object = None,
        policy: str | None = None,
        version: int | None = None,
        time: datetime | float | None = None,
    ) -> None:
        """Append one decision. `log_probability` is the marginal one of the arm that was played."""
        self._check_open()
        identifier = str(decision_id)
        if not -np.inf < log_probability <= 1e-9:
            raise ValueError(f"log_probability must be finite and at most 0, got {log_probability!r}")
        if not 0 <= arm < arm_count:
            raise ValueError(f"arm must lie in 0..{arm_count - 1} (arm_count={arm_count}), got {arm!r}")
        if self._known(identifier):
            raise ValueError(
                f"decision_id {identifier!r} is already in the log at {self.path}; an agent restored from an "
                "older checkpoint needs a log of its own"
            )
        log_probability = min(float(log_probability), 0.0)
        self._pending[identifier] = (self._part, len(self._rows))
        self._buffered.add(identifier)
        self._rows.append(
            {
                "decision_id": identifier,
                "time": _microseconds(time),
                "policy": policy,
                "version": version,
                "arm": int(arm),
                "arm_id": None if arm_id is None else str(arm_id),
                "arm_count": int(arm_count),
                "features": None if features is None else np.array(features, dtype=np.float64),
                "probability": float(np.exp(log_probability)),
                "log_probability": log_probability,
                "probabilities": None if log_probabilities is None else np.exp(log_probabilities),
                "arms": None if arms is None else np.array(arms, dtype=np.float64),
                "reward": None,
                "reward_time": None,
            }
        )
        self._flush_if_due()

    def reward(self, decision_id: object, reward: float, time: datetime | float | None = None) -> None:
        """Append the reward of one decision: once for each, in any order, however late."""
        self._check_open()
        identifier = str(decision_id)
        value = checks.real("reward", reward)
        if identifier not in self._pending:
            state = "already has its reward" if self._known(identifier) else "is not in the log"
            raise KeyError(f"decision_id {identifier!r} {state} at {self.path}")
        moment = _microseconds(time)
        part, row = self._pending.pop(identifier)
        if part == self._part:
            self._rows[row]["reward"] = value
            self._rows[row]["reward_time"] = moment
        else:
            self._late.append((identifier, part, row, value, moment))
        self._flush_if_due()

    def flush(self) -> None:
        """Write the buffer to disk; when this returns it survives a crash."""
        if self._late:
            columns = list(zip(*self._late, strict=True))
            self._write(f"rewards-{self._next_stamp()}", pa.table(columns, schema=REWARDS))
            self._late = []
        if self._rows:
            columns = [_column(field, [row[field.name] for row in self._rows]) for field in SCHEMA]
            self._write(self._part, pa.table(columns, schema=SCHEMA))
            self._seen.add([row["decision_id"] for row in self._rows])
            self._start_part()
        self._oldest = None

    def close(self) -> None:
        """Flush and refuse further rows."""
        if not self._closed:
            self.flush()
            self._closed = True
            atexit.unregister(self._at_exit)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"the log at {self.path} is closed")

    def _flush_if_due(self) -> None:
        now = clock.monotonic()
        if self._oldest is None:
            self._oldest = now
        if len(self._rows) + len(self._late) >= self.flush_rows or now - self._oldest >= self.flush_seconds:
            self.flush()

    def _start_part(self) -> None:
        self._part = f"decisions-{self._next_stamp()}"
        self._rows: list[dict[str, Any]] = []
        self._buffered: set[str] = set()
        self._oldest = None

    def _next_stamp(self) -> str:
        """File names sort by the time they were begun, also across writers."""
        self._stamp = max(self._stamp + 1, clock.time_ns() // 1000)
        return f"{self._stamp:020d}-{self._token}"

    def _write(self, name: str, table: pa.Table) -> None:
        final = self.path / f"{name}.parquet"
        hidden = self.path / f".{name}.tmp"
        with open(hidden, "wb") as file:
            pq.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(hidden, final)
        directory = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _resume(self) -> None:
        """Learn from the files already there which decisions exist and which still wait."""
        late = late_rewards(self.path)
        for file in decision_files(self.path):
            table = pq.read_table(file, columns=["decision_id", "reward"])
            waiting = table["reward"].combine_chunks().is_null().to_numpy(zero_copy_only=False).copy()
            if file.stem in late:
                waiting[late[file.stem].row] = False
            identifiers = table["decision_id"]
            self._seen.add(identifiers.to_pylist())
            for row in np.flatnonzero(waiting).tolist():
                self._pending[identifiers[row].as_py()] = (file.stem, row)
            self._stamp = max(self._stamp, int(file.stem.split("-")[1]))

    def _known(self, identifier: str) -> bool:
        """Whether the log holds `identifier`: a fast no, and a search of the files to confirm a yes."""
        if identifier in self._pending or identifier in self._buffered:
            return True
        if hash(identifier) not in self._seen:
            return False
        wanted = pa.scalar(identifier)
        return any(
            wanted in column.chunk(i)
            for file in decision_files(self.path)
            for column in [pq.read_table(file, columns=["decision_id"])["decision_id"]]
            for i in range(column.num_chunks)
        )


def _close(writer: "weakref.ref[LogWriter]") -> None:
    """At the end of the process: write what is still in the buffer."""
    alive = writer()
    if alive is not None:
        alive.close()


class _Seen:
    """The 64-bit hashes of all identifiers, 8 bytes each: sorted runs, merged as they double."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.int64]] = []

    def add(self, identifiers: Sequence[str]) -> None:
        run = np.sort(np.array([hash(identifier) for identifier in identifiers], dtype=np.int64))
        while self._runs and self._runs[-1].size <= 2 * run.size:
            run = np.sort(np.concatenate([self._runs.pop(), run]))
        self._runs.append(run)

    def __contains__(self, value: int) -> bool:
        for run in self._runs:
            place = int(np.searchsorted(run, value))
            if place < run.size and run[place] == value:
                return True
        return False


def decision_files(path: Path) -> list[Path]:
    """The files of decisions, in the order they were written."""
    return sorted(path.glob("decisions-*.parquet"))


def late_rewards(path: Path, part: str | None = None) -> dict[str, LateRewards]:
    """Rewards that came after their decision's file was written, by that file's stem; 24 bytes each."""
    only = None if part is None else [("part", "=", part)]
    parts: dict[str, list[LateRewards]] = {}
    for file in sorted(path.glob("rewards-*.parquet")):
        table = pq.read_table(file, columns=["part", "row", "reward", "reward_time"], filters=only)
        names = table["part"].combine_chunks().dictionary_encode()
        code = names.indices.to_numpy()
        row, reward = table["row"].to_numpy(), table["reward"].to_numpy()
        moment = table["reward_time"].cast(pa.int64()).to_numpy()
        for i, name in enumerate(names.dictionary.to_pylist()):
            chosen = code == i
            parts.setdefault(name, []).append(LateRewards(row[chosen], reward[chosen], moment[chosen]))
    return {
        name: LateRewards(*map(np.concatenate, zip(*several, strict=True))) for name, several in parts.items()
    }


def join(batch: pa.RecordBatch, start: int, late: LateRewards) -> pa.RecordBatch:
    """`batch`, whose first row is row `start` of its file, with its late rewards filled in."""
    inside = (late.row >= start) & (late.row < start + batch.num_rows)
    rows = late.row[inside] - start
    for name, values in (("reward", late.reward[inside]), ("reward_time", late.time[inside])):
        place = batch.schema.get_field_index(name)
        if place < 0 or rows.size == 0:
            continue
        mask = np.zeros(batch.num_rows, dtype=bool)
        mask[rows] = True
        order = np.argsort(rows, kind="stable")
        filler = pa.array(values[order]).cast(batch.schema.field(place).type)
        column = batch.column(place).cast(batch.schema.field(place).type)
        joined = pc.replace_with_mask(column, pa.array(mask), filler)
        batch = batch.set_column(place, name, joined)
    return batch


def read(path: Path, columns: Sequence[str], rows: int, file: Path | None = None) -> Iterator[pa.RecordBatch]:
    """The log, or one file of it, in batches of at most `rows` decisions with all rewards that arrived."""
    late = {}
    if {"reward", "reward_time"} & set(columns):
        late = late_rewards(path, None if file is None else file.stem)
    for part in decision_files(path) if file is None else [file]:
        start = 0
        with pq.ParquetFile(part) as parquet:
            for batch in parquet.iter_batches(batch_size=rows, columns=list(columns)):
                if part.stem in late:
                    yield join(batch, start, late[part.stem])
                else:
                    yield batch
                start += batch.num_rows


def _column(field: pa.Field, values: list[Any]) -> pa.Array:
    if not pa.types.is_list(field.type):
        return pa.array(values, field.type)
    return ragged(values, nested=pa.types.is_list(field.type.value_type))


def ragged(arrays: Sequence[Floats | None], nested: bool) -> pa.Array:
    """Arrays (m,), or (m, d) if `nested`, as one list column without a Python object per number."""
    present = [array for array in arrays if array is not None]
    flat = pa.array(np.concatenate([array.ravel() for array in present]) if present else np.empty(0))
    offsets = np.zeros(len(arrays) + 1, dtype=np.int32)
    offsets[1:] = np.cumsum([0 if array is None else len(array) for array in arrays])
    if nested:
        widths = np.concatenate([np.full(a.shape[0], a.shape[1]) for a in present] or [np.empty(0, np.int64)])
        inner = np.concatenate([[0], np.cumsum(widths)]).astype(np.int32)
        flat = pa.ListArray.from_arrays(pa.array(inner), flat)
    absent = pa.array([array is None for array in arrays])
    return pa.ListArray.from_arrays(pa.array(offsets), flat, mask=absent)


def _microseconds(time: datetime | float | None) -> int:
    """Seconds since 1970 or a datetime with a zone (none means UTC), as whole microseconds; None is now."""
    if time is None:
        return clock.time_ns() // 1000
    if isinstance(time, datetime):
        return int(pa.scalar(time, TIME).value)
    return round(checks.real("time", time) * 1e6)
