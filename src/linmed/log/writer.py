"""The decision log on disk: one row per decision, appended in whole Parquet files.

A log is a directory. `decisions-*.parquet` hold the decisions in order, with the rewards that were known
when the file was written; `rewards-*.parquet` hold rewards that came later, each with the file and row of
its decision, so reading joins them by position and needs no index of identifiers. Files appear whole or not
at all: a killed process loses only what had not been flushed.
"""

import atexit
import functools
import os
import threading
import time as clock
import uuid
import weakref
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from linmed import checks
from linmed.checks import Floats
from linmed.files import write_atomically
from linmed.log.parquet import decision_files, late_rewards
from linmed.log.schema import MOST_NUMBERS, REWARDS, SCHEMA, microseconds, ragged

ROW_BYTES = 1000  # what a row in the buffer weighs beside its arrays, about


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


class LogWriter:
    """Appends decisions and rewards to the log at `path`.

    The buffer is written by `flush`, and by itself once it holds `flush_rows` rows or `flush_bytes` bytes or
    its oldest row is `flush_seconds` old (looked at whenever something is recorded). The rest is written by
    `close`, at the end of a `with` block or of the process. Threads may share a writer; one process writes a
    log at a time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        flush_rows: int = 8192,
        flush_seconds: float = 10.0,
        flush_bytes: int = 64 << 20,
    ):
        self.path = Path(path)
        self.flush_rows = checks.whole("flush_rows", flush_rows)
        self.flush_bytes = min(checks.whole("flush_bytes", flush_bytes), 8 * MOST_NUMBERS)
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
        self._lock = threading.RLock()
        self._resume()
        self._start_part()
        self._at_exit = functools.partial(_close, weakref.ref(self))
        atexit.register(self._at_exit)
        self._closed = False

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
        identifier = str(decision_id)
        if not -np.inf < log_probability <= 1e-9:
            raise ValueError(f"log_probability must be finite and at most 0, got {log_probability!r}")
        if not 0 <= arm < arm_count:
            raise ValueError(f"arm must lie in 0..{arm_count - 1} (arm_count={arm_count}), got {arm!r}")
        log_probability = min(float(log_probability), 0.0)
        every = _copy("log_probabilities", log_probabilities, 1)
        row = {
            "decision_id": identifier,
            "time": microseconds(time),
            "policy": policy,
            "version": version,
            "arm": int(arm),
            "arm_id": None if arm_id is None else str(arm_id),
            "arm_count": int(arm_count),
            "features": _copy("features", features, 1),
            "probability": float(np.exp(log_probability)),
            "log_probability": log_probability,
            "probabilities": None if every is None else np.exp(every),
            "arms": _copy("arms", arms, 2),
            "reward": None,
            "reward_time": None,
        }
        size = ROW_BYTES + sum(value.nbytes for value in row.values() if isinstance(value, np.ndarray))
        if size > 8 * MOST_NUMBERS:
            raise ValueError(f"a decision of {size} bytes is too large for a log: leave out its arms")
        with self._lock:
            self._check_open()
            if self._known(identifier):
                raise ValueError(
                    f"decision_id {identifier!r} is already in the log at {self.path}; "
                    "an agent restored from an older checkpoint needs a log of its own"
                )
            if self._rows and self._bytes + size > self.flush_bytes:
                self.flush()
            self._pending[identifier] = (self._part, len(self._rows))
            self._rows[identifier] = row
            self._bytes += size

            def take_back() -> None:
                del self._rows[identifier], self._pending[identifier]
                self._bytes -= size

            self._flush_if_due(take_back)

    def reward(self, decision_id: object, reward: float, time: datetime | float | None = None) -> None:
        """Append the reward of one decision: once for each, in any order, however late."""
        identifier = str(decision_id)
        value, moment = checks.reward("reward", reward), microseconds(time)
        with self._lock:
            self._check_open()
            if identifier not in self._pending:
                state = "already has its reward" if self._known(identifier) else "is not in the log"
                raise KeyError(f"decision_id {identifier!r} {state} at {self.path}")
            place = self._pending.pop(identifier)
            row = self._rows.get(identifier)
            late = (identifier, *place, value, moment)
            if row is None:
                self._late.append(late)
            else:
                row.update(reward=value, reward_time=moment)

            def take_back() -> None:
                if row is not None:
                    row.update(reward=None, reward_time=None)
                elif late in self._late:
                    self._late.remove(late)
                else:  # it is on the disk already, and the decisions after it are not
                    return
                self._pending[identifier] = place

            self._flush_if_due(take_back)

    def flush(self) -> None:
        """Write the buffer to disk; when this returns it survives a crash."""
        with self._lock:
            if self._late:
                columns = list(zip(*self._late, strict=True))
                self._write(f"rewards-{self._next_stamp()}", pa.table(columns, schema=REWARDS))
                self._late = []
            if self._rows:
                rows = self._rows.values()
                columns = [_column(field, [row[field.name] for row in rows]) for field in SCHEMA]
                self._write(self._part, pa.table(columns, schema=SCHEMA))
                self._seen.add(list(self._rows))
            self._start_part()

    def close(self) -> None:
        """Flush and refuse further rows."""
        with self._lock:
            if not self._closed:
                self.flush()
                self._closed = True
                atexit.unregister(self._at_exit)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"the log at {self.path} is closed; a new LogWriter continues it")

    def _flush_if_due(self, take_back: Callable[[], None]) -> None:
        """Write a buffer that is full or old; what was just added is taken back where that fails."""
        now = clock.monotonic()
        if self._oldest is None:
            self._oldest = now
        full = len(self._rows) + len(self._late) >= self.flush_rows or self._bytes >= self.flush_bytes
        if full or now - self._oldest >= self.flush_seconds:
            try:
                self.flush()
            except BaseException:
                take_back()
                raise

    def _start_part(self) -> None:
        self._part = f"decisions-{self._next_stamp()}"
        self._rows: dict[str, dict[str, Any]] = {}  # by decision, in order
        self._bytes = 0
        self._oldest = None

    def _next_stamp(self) -> str:
        """File names sort by the time they were begun, also across writers."""
        self._stamp = max(self._stamp + 1, clock.time_ns() // 1000)
        return f"{self._stamp:020d}-{self._token}"

    def _write(self, name: str, table: pa.Table) -> None:
        write_atomically(self.path / f"{name}.parquet", lambda file: pq.write_table(table, file))

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
        if identifier in self._pending or identifier in self._rows:
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


def _column(field: pa.Field, values: list[Any]) -> pa.Array:
    if not pa.types.is_list(field.type):
        return pa.array(values, field.type)
    return ragged(values, nested=pa.types.is_list(field.type.value_type))


def _copy(name: str, value: ArrayLike | None, axes: int) -> Floats | None:
    """The writer's own copy of an array with so many axes."""
    if value is None:
        return None
    array = np.array(value, dtype=np.float64)
    if array.ndim != axes:
        raise checks.BadValue(name, f"{name} must have {axes} axes, got shape {array.shape}")
    return array
