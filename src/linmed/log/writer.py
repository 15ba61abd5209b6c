"""Write the decision log: one row per decision, appended in whole Parquet files.

A log is a directory. `decisions-*.parquet` hold the decisions in order, with the rewards that were known
when the file was written; `rewards-*.parquet` hold rewards that came later, each with the file and row of
its decision, so reading joins them by position and needs no index of identifiers. Files appear whole or not
at all: a killed process loses only what had not been flushed.
"""

import atexit
import functools
import json
import math
import os
import re
import sys
import threading
import time as clock
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from linmed import validation
from linmed.decision import probabilities_of, probability_of
from linmed.files import write_atomically
from linmed.log.list_log import ListRows, list_row
from linmed.log.parquet import REWARDED, decision_files, join, late_rewards, reading
from linmed.log.schema import (
    ENTRY_ERROR,
    FEATURES,
    MOST_NUMBERS,
    REWARDS,
    SCHEMA,
    SUM_ERROR,
    microseconds,
    ragged,
)
from linmed.validation import BadValue, Floats


def text(name: str, value: object) -> str:
    """Write `value` as text that the file can hold."""
    written = value if type(value) is str else str(value)
    if not written.isascii():
        try:
            written.encode()
        except UnicodeEncodeError as error:
            raise validation.BadValue(
                name, f"{name} must be Unicode text, got {written!r} ({error})"
            ) from None
    return written


def int64(name: str, value: int, at_least: int) -> int:
    """Check `value` as a whole number of 64 bits."""
    number = value if type(value) is int else validation.whole(name, value, at_least)
    if not at_least <= number < 2**63:
        raise validation.BadValue(name, f"{name} must lie in {at_least}..{2**63 - 1}, got {value!r}")
    return number


Checked = TypeVar("Checked")


def maybe(check: Callable[..., Checked], name: str, value: Any, *more: Any) -> Checked | None:
    """Check `value`, or leave None as it is."""
    return None if value is None else check(name, value, *more)


def chance(
    log_probability: float | None, log_probabilities: ArrayLike | None, fallback: bool
) -> tuple[float, float] | tuple[None, None]:
    """Give the logarithm of a decision's probability and itself: what was given, or nothing of a fallback."""
    if fallback:
        for name, value in (("log_probability", log_probability), ("log_probabilities", log_probabilities)):
            if value is not None:
                raise validation.BadValue(
                    name,
                    f"{name} must be None where fallback is True: a fallback's probability is not known "
                    "without a pass over all items (where it is known, the row is none of a fallback)",
                )
        return None, None
    if log_probability is None:
        raise validation.BadType(
            "log_probability", "log_probability must be given: only where fallback is True it may be None"
        )
    number = (
        log_probability
        if type(log_probability) is float
        else validation.real("log_probability", log_probability)
    )
    if not -math.inf < number <= 1e-9:
        raise validation.BadValue(
            "log_probability", f"log_probability must be finite and at most 0, got {number!r}"
        )
    number = min(number, 0.0)
    return number, probability_of(number)


def _own(name: str, value: ArrayLike, axes: int) -> Floats:
    """The writer's own copy of an array with so many axes."""
    plain = type(value) is np.ndarray and value.dtype == np.float64
    array: Floats = np.array(value if plain else validation.real_array(name, value), np.float64)
    if array.ndim != axes:
        raise validation.BadValue(name, f"{name} must have {axes} axes, got shape {array.shape}")
    return array


def finite(name: str, value: ArrayLike, axes: int) -> Floats:
    """Copy an array of finite numbers: where the squares sum to little, each is small, and none is NaN."""
    array = _own(name, value, axes)
    return array if np.vdot(array, array) <= validation.LARGEST else validation.floats(name, array)


def law(log_probabilities: ArrayLike, arm_count: int, arm: int, probability: float) -> Floats:
    """Give every arm's probability, as a reader of the log will want them."""
    name = "log_probabilities"
    every = _own(name, log_probabilities, 1)
    every = probabilities_of(np.minimum(every, 300.0))  # no overflow
    if every.size != arm_count:
        raise validation.BadValue(
            name, f"{name} must have one entry for each of the {arm_count} arms, got {every.size}"
        )
    total = float(np.add.reduce(every))
    if not abs(total - 1.0) <= SUM_ERROR:
        raise validation.BadValue(
            name, f"{name} must be those of probabilities that sum to 1, not to {total:g}"
        )
    if not abs(every[arm] - probability) <= max(ENTRY_ERROR, SUM_ERROR * probability):
        raise validation.BadValue(
            "log_probability",
            f"log_probability must be the entry of log_probabilities for arm {arm}: their probabilities are "
            f"{probability:g} and {every[arm]:g}",
        )
    return every


def named_numbers(name: str, value: Mapping[str, float]) -> list[tuple[str, float]]:
    """Numbers by name, as the file has them."""
    return [(text(name, key), number) for key, number in validation.named_numbers(name, value).items()]


if sys.platform != "win32":
    import fcntl


class DirectoryLock:
    """Held from its making to `release`. Readers do not ask for it; nothing is left in the directory.

    Windows, which cannot open a directory, and file systems without locks let every writer through.
    """

    def __init__(self, path: Path):
        self._owner = os.getpid()
        self._handle: int | None = None
        if sys.platform == "win32":
            return
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                raise BadValue(
                    "path",
                    f"the log at {path} has a writer already, in this process or another: close that one "
                    "first (or the agent it belongs to), or write to a directory of its own",
                ) from None
        else:
            self._handle = handle
            _held.add(self)

    @property
    def ours(self) -> bool:
        """False in a process forked from the one that took the lock."""
        return os.getpid() == self._owner

    def release(self) -> None:
        """Let the next writer in; twice does nothing."""
        if sys.platform != "win32" and self._handle is not None:
            if self.ours:
                fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
            self._handle = None


_held: "weakref.WeakSet[DirectoryLock]" = weakref.WeakSet()


def _let_go() -> None:
    """A forked child has copies of its parent's locks, and would keep them when the parent is killed."""
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


MOST_ASSUMED = 1 << 20
"""Decisions whose reward was assumed, and may still come: those of longer ago have theirs."""
ROW_BYTES = 1000  # what a row in the buffer weighs beside its arrays, about


class Recorder(Protocol):
    """What an agent asks of a log.

    >>> from linmed import Agent, LinMED
    >>> class Printing:
    ...     def record(self, decision_id, *, arm, log_probability, **told):
    ...         print("played", arm)
    ...
    ...     def reward(self, decision_id, reward, time=None):
    ...         print("earned", reward)
    ...
    ...     def flush(self):
    ...         pass
    >>> agent = Agent(LinMED(), dim=1, seed=0, log=Printing())
    >>> agent.learn(agent.decide([[1.0]]), reward=1.0)
    played 0
    earned 1.0
    """

    def record(
        self,
        decision_id: object,
        *,
        arm: int,
        arm_count: int,
        log_probability: float | None,
        features: Floats | None = None,
        log_probabilities: Floats | None = None,
        arms: Floats | None = None,
        arm_id: object = None,
        fallback: bool | None = None,
        best: int | None = None,
        catalogue_version: int | None = None,
        context: Floats | None = None,
        policy: str | None = None,
        version: int | None = None,
        time: datetime | float | None = None,
        control: bool | None = None,
        control_share: float | None = None,
        shadow: Mapping[str, float] | None = None,
        value: float | None = None,
        cost: float | None = None,
        values: Floats | None = None,
        costs: Floats | None = None,
    ) -> None:
        """Take down a decision."""

    def reward(
        self,
        decision_id: object,
        reward: float,
        time: datetime | float | None = None,
        *,
        missing: bool = False,
        outcomes: Mapping[str, float] | None = None,
    ) -> None:
        """Take down the reward of an earlier decision arrived.

        `missing` is given only by agents with a `wait`, `outcomes` only where `learn` had some.
        """

    def flush(self) -> None:
        """Make everything recorded so far durable."""


class LogWriter:
    """Appends decisions and rewards to the log at `path`.

    The buffer is written by `flush`, and by itself once it holds `flush_rows` rows or `flush_bytes` bytes or
    its oldest row is `flush_seconds` old (looked at whenever something is recorded). The rest is written by
    `close`, at the end of a `with` block or of the process. Threads may share a writer; a log has one at a
    time, and a second is refused until the first is closed or its process has ended, however it did.

    >>> import tempfile
    >>> from linmed.log import DecisionLog, LogWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with LogWriter(folder) as writer:
    ...         writer.record("visit-1", arm=1, arm_count=2, log_probability=-0.7, policy="coin")
    ...         writer.flush()
    ...         writer.reward("visit-1", 1.0)
    ...     DecisionLog.open(folder).table(["decision_id", "arm", "reward"]).to_pylist()
    [{'decision_id': 'visit-1', 'arm': 1, 'reward': 1.0}]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        flush_rows: int = 8192,
        flush_seconds: float = 10.0,
        flush_bytes: int = 64 << 20,
    ):
        self.path = Path(path).absolute()  # the log stays where it is if the program goes elsewhere
        self.flush_rows = validation.whole("flush_rows", flush_rows)
        self.flush_bytes = min(validation.whole("flush_bytes", flush_bytes), 8 * MOST_NUMBERS)
        self.flush_seconds = validation.between("flush_seconds", flush_seconds, 0.0, 1e9)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"path must be a directory of Parquet files, {self.path} is a file")
        self.path.mkdir(parents=True, exist_ok=True)
        self._token = uuid.uuid4().hex[:8]
        self._stamp = 0
        self._pending: dict[str, tuple[str, int]] = {}  # decision without a reward → its file and row
        self._seen = _Seen()
        self._assumed: dict[str, tuple[str, int]] = {}  # decision with one that was assumed → the same
        self._late: list[tuple[Any, ...]] = []
        self._description: dict[str, str] | None = None
        self._oldest: float | None = None  # when the oldest row in the buffer was added
        self._lock = threading.RLock()
        self._directory = DirectoryLock(self.path)
        try:
            self._resume()
        except BaseException:
            self._directory.release()
            raise
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
        log_probability: float | None,
        features: Floats | None = None,
        log_probabilities: Floats | None = None,
        arms: Floats | None = None,
        arm_id: object = None,
        fallback: bool | None = None,
        best: int | None = None,
        catalogue_version: int | None = None,
        context: Floats | None = None,
        policy: str | None = None,
        version: int | None = None,
        time: datetime | float | None = None,
        control: bool | None = None,
        control_share: float | None = None,
        shadow: Mapping[str, float] | None = None,
        value: float | None = None,
        cost: float | None = None,
        values: Floats | None = None,
        costs: Floats | None = None,
    ) -> None:
        """Append one decision. `log_probability` is the marginal one of the arm that was played.

        `fallback` is for items of a catalogue: True where what was proposed was not accepted, so that the
        best item known was played instead. Then `log_probability` is None: only a pass over all items would
        tell it. Where `fallback` is False it is that of the item by any route but the fallback. `arm` is the
        item's place, `arm_id` its id and `arm_count` the number of items that could be played; where items
        were taken out of the catalogue a place may be larger. `best` is the place of the best item known,
        `catalogue_version` that of the catalogue, `context` the encoded context in which arms were made of
        items (dx,): with them `linmed.ope.complete` can say how probable a fallback was.

        `control` says whether a control group's law drew the arm, which it did with probability
        `control_share`; `shadow` how probable the arm was to policies that decide nothing, by name. `value`
        is what a unit of the arm's reward is worth, `cost` what playing it costs; `values` and `costs` are
        those of every arm (K,).
        """
        identifier = text("decision_id", decision_id)
        if fallback is not None and type(fallback) is not bool:
            fallback = validation.flag("fallback", fallback)
        log_probability, probability = chance(log_probability, log_probabilities, fallback is True)
        arm_count, arm = int64("arm_count", arm_count, 1), int64("arm", arm, -(2**63))
        listed = fallback is None or arms is not None or log_probabilities is not None
        if arm < 0 or (arm >= arm_count and listed):
            raise validation.BadValue(
                "arm",
                f"arm must lie in 0..{arm_count - 1} (arm_count={arm_count}), got {arm!r}"
                + ("; only an item's place in a catalogue, where fallback is given, may be larger" * listed),
            )
        own, seen = maybe(finite, "features", features, 1), maybe(finite, "context", context, 1)
        sets = maybe(finite, "arms", arms, 2)
        if sets is not None and (len(sets) != arm_count or not sets.size):
            raise validation.BadValue(
                "arms", f"arms must have shape ({arm_count}, dim), a row for each arm, got {sets.shape}"
            )
        every = None
        if log_probabilities is not None:
            assert probability is not None
            every = law(log_probabilities, arm_count, arm, probability)
        row = {
            "decision_id": identifier,
            "time": microseconds(time),
            "policy": None if policy is None else text("policy", validation.text("policy", policy)),
            "version": maybe(int64, "version", version, -(2**63)),
            "arm": arm,
            "arm_id": maybe(text, "arm_id", arm_id),
            "arm_count": arm_count,
            "features": own,
            "probability": probability,
            "log_probability": log_probability,
            "fallback": fallback,
            "best": maybe(int64, "best", best, 0),
            "catalogue_version": maybe(int64, "catalogue_version", catalogue_version, 0),
            "context": seen,
            "probabilities": every,
            "arms": sets,
            "control": maybe(validation.flag, "control", control),
            "control_share": maybe(validation.between, "control_share", control_share, 0.0, 1.0),
            "shadow": maybe(named_numbers, "shadow", shadow),
            "value": maybe(validation.real, "value", value),
            "cost": maybe(validation.real, "cost", cost),
            "values": maybe(finite, "values", values, 1),
            "costs": maybe(finite, "costs", costs, 1),
            "reward": None,
            "reward_time": None,
            "missing": None,
            "outcomes": None,
        }
        size = ROW_BYTES + sum(
            array.nbytes for array in (own, seen, every, sets, values, costs) if array is not None
        )
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

    def reward(
        self,
        decision_id: object,
        reward: float,
        time: datetime | float | None = None,
        *,
        missing: bool = False,
        outcomes: Mapping[str, float] | None = None,
    ) -> None:
        """Append the reward of one decision: once for each, in any order, however late.

        `missing`: none had come by a deadline, and this one is assumed; another one, also `missing`, may take
        its place once. `outcomes` are other numbers that came back, by name.
        """
        identifier = str(decision_id)
        value, moment = validation.reward("reward", reward), microseconds(time)
        more = maybe(named_numbers, "outcomes", outcomes)
        with self._lock:
            self._check_open()
            waiting = self._assumed if missing and identifier in self._assumed else self._pending
            if identifier not in waiting:
                state = "already has its reward" if self._known(identifier) else "is not in the log"
                raise KeyError(f"decision_id {identifier!r} {state} at {self.path}")
            place = waiting.pop(identifier)
            row = self._rows.get(identifier)
            assumed = missing and waiting is self._pending
            known = dict(zip(REWARDED, (value, moment, missing or None, more), strict=True))
            before = None if row is None else {name: row[name] for name in REWARDED}
            late = (identifier, *place, *known.values())
            if row is None:
                self._late.append(late)
            else:
                row.update(known)
            if assumed:
                self._assumed[identifier] = place
                if len(self._assumed) > MOST_ASSUMED:
                    del self._assumed[next(iter(self._assumed))]

            def take_back() -> None:
                if row is not None and before is not None:
                    row.update(before)
                elif late in self._late:
                    self._late.remove(late)
                else:  # it is on the disk already, and the decisions after it are not
                    return
                if assumed:
                    self._assumed.pop(identifier, None)
                waiting[identifier] = place

            self._flush_if_due(take_back)

    def record_list(self, decision_id: object, **given: Any) -> None:
        """Append one list: `arms`, `arm_count` and `log_probabilities` of each position given those above.

        Also, where they are known, `features` (m, d), `offered` (K, d), `arm_ids`, `candidates` of each
        position, `policy`, `version` and `time`: the columns of `linmed.log.LIST_SCHEMA`.

        >>> import tempfile
        >>> from linmed.log import ListLog, LogWriter
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with LogWriter(folder) as writer:
        ...         writer.record_list("visit-1", arms=[2, 0], arm_count=3, log_probabilities=[-0.7, -0.1])
        ...         writer.reward_list("visit-1", {0: 0.0, 1: 1.0})
        ...     ListLog.open(folder).table().select(["arms", "rewards"]).to_pylist()
        [{'arms': [2, 0], 'rewards': [0.0, 1.0]}]
        """
        identifier, row = text("decision_id", decision_id), list_row(**given)
        with self._lock:
            self._check_open()
            if identifier in self._lists.known:
                raise ValueError(f"decision_id {identifier!r} is already in the log at {self.path}")
            self._lists.add(identifier, row)
            sets = [one for name in ("features", "offered") for one in row[name] or ()]
            self._bytes += ROW_BYTES + sum(one.nbytes for one in sets)
            self._flush_if_due(lambda: self._lists.remove(identifier))

    def reward_list(
        self, decision_id: object, rewards: Mapping[int, float], time: datetime | float | None = None
    ) -> None:
        """Append rewards of a list by position, each once and however late; by −1 one for the whole list."""
        with self._lock:
            self._check_open()
            self._lists.reward(str(decision_id), rewards, time)
            self._flush_if_due(lambda: None)

    def describe(self, features: Mapping[str, Any]) -> None:
        """Have the files from now on say how features were made, in JSON: see `DecisionLog.features`.

        >>> import tempfile
        >>> from linmed.features import Features, Number
        >>> from linmed.log import DecisionLog, LogWriter
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with LogWriter(folder) as writer:
        ...         writer.describe(Features(item=[Number("price", scale=None)]).to_dict())
        ...         writer.record(1, arm=0, arm_count=1, log_probability=0.0, features=[9.5, 1.0])
        ...     Features.from_dict(DecisionLog.open(folder).features).names
        ('price', '1')
        """
        self._description = {FEATURES: json.dumps(features)}

    def flush(self) -> None:
        """Write the buffer to disk; when this returns it survives a crash."""
        with self._lock:
            if self._late:
                values = zip(*self._late, strict=True)
                columns = [_column(field, [*own]) for field, own in zip(REWARDS, values, strict=True)]
                self._write(f"rewards-{self._next_stamp()}", pa.table(columns, schema=REWARDS))
                self._late = []
            if self._rows:
                rows = self._rows.values()
                columns = [_column(field, [row[field.name] for row in rows]) for field in SCHEMA]
                table = pa.table(columns, schema=SCHEMA)
                self._write(self._part, table.replace_schema_metadata(self._description))
                self._seen.add(list(self._rows))
            self._lists.write(self._write, self._next_stamp)
            self._start_part()

    def close(self) -> None:
        """Flush and refuse further rows."""
        with self._lock:
            if not self._closed:
                if self._directory.ours:
                    self.flush()
                self._closed = True
                self._directory.release()
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
        if not self._directory.ours:
            raise ValueError(
                f"the log at {self.path} belongs to the process that opened it, and this one was forked from "
                "it: let it write to a directory of its own"
            )

    def _flush_if_due(self, take_back: Callable[[], None]) -> None:
        """Write a buffer that is full or old; what was just added is taken back where that fails."""
        now = clock.monotonic()
        if self._oldest is None:
            self._oldest = now
        full = (
            len(self._rows) + len(self._late) + len(self._lists) >= self.flush_rows
            or self._bytes >= self.flush_bytes
        )
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
        self._lists = ListRows(self.path)
        late = late_rewards(self.path)
        for file in decision_files(self.path):
            stamp = self._continued(file)
            with reading(file):
                table = pq.read_table(file, columns=["decision_id", "reward", "missing"])
            self._stamp = max(self._stamp, stamp)
            for batch in table.combine_chunks().to_batches():
                batch = join(batch, 0, late[file.stem]) if file.stem in late else batch
                identifiers = batch.column("decision_id")
                self._seen.add(identifiers.to_pylist())
                assumed = batch.column("missing").fill_null(False)
                for known, rows in (
                    (self._pending, batch.column("reward").is_null()),
                    (self._assumed, assumed),
                ):
                    for row in np.flatnonzero(rows.to_numpy(zero_copy_only=False)).tolist():
                        known[identifiers[row].as_py()] = (file.stem, row)

    def _continued(self, file: Path) -> int:
        """The stamp of a file that is already there, if more can follow it."""
        named = re.fullmatch(r"decisions-([0-9]{20})-\w+", file.stem)
        with reading(file):
            columns = pq.read_schema(file).names
        if named is None:
            reason = "is not named decisions-<20 digits>-<letters>.parquet, which keeps the files in order"
        elif set(columns) != set(SCHEMA.names):
            other = ", ".join(sorted(set(columns) ^ set(SCHEMA.names)))
            reason = f"has not the columns of linmed.log.SCHEMA (it differs in {other})"
        else:
            return int(named[1])
        raise ValueError(
            f"the log at {self.path} cannot be continued: {file.name} {reason}; write to a new directory"
        )

    def _known(self, identifier: str) -> bool:
        """Whether the log holds `identifier`: a fast no, and a search of the files to confirm a yes."""
        if identifier in self._pending or identifier in self._rows:
            return True
        if hash(identifier) not in self._seen:
            return False
        wanted = pa.scalar(identifier)
        for file in decision_files(self.path):
            with reading(file):
                column = pq.read_table(file, columns=["decision_id"])["decision_id"]
            if any(wanted in chunk for chunk in column.chunks):
                return True
        return False


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
