"""Read a decision log in batches, never whole, wherever it came from: `DecisionLog`."""

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from linmed import validation
from linmed.files import write_atomically
from linmed.log import views
from linmed.log.importers import canonical, csv_source, obp_feedback, obp_table, open_bandit_source
from linmed.log.mapping import parquet_source
from linmed.log.parquet import ParquetSource, log_files, nothing_in, write_parquet
from linmed.log.schema import FEATURES
from linmed.log.source import BATCH, Malformed, Source, TableSource, View, check_needed, quoted
from linmed.log.text import dsjson_source, vw_source, write_dsjson
from linmed.log.views import Repeated, repeats

Time = datetime | float | str
"""A moment: a datetime (no zone means UTC), seconds since 1970, or ISO 8601 text."""


class DecisionLog:
    """An append-only log of decisions: `arm`, `probability`, `reward` and what else is known of each.

    Columns are those of `linmed.log.SCHEMA`; only `arm`, `probability` and `reward` are needed, others
    make more targets, estimators and checks possible. A reward is null until it arrives.

    Slices, splits and filters are logs again, read in batches like this one, and can be combined:
    `log.where(policy="LinMED-90").after("2024-05-01").split(0.5)`.

    >>> from linmed.ope import DecisionLog
    >>> played = {"arm": [0, 1, 1, 0], "probability": [0.5] * 4, "reward": [1.0, 0.0, None, 1.0]}
    >>> log = DecisionLog.from_table(played)
    >>> log
    DecisionLog 'table': 4 decisions, with arm, probability, reward
    >>> len(log), log.columns, log[:2].table()["reward"].to_pylist()
    (4, ['arm', 'probability', 'reward'], [1.0, 0.0])
    """

    def __init__(self, source: Source, name: str = "log"):
        check_needed(source.columns, source.own, name)
        self.source = source
        self.name = name
        self._malformed: Malformed | None = None
        self._rows: int | None = None
        self._repeated: Repeated | bool | None = False  # False: nobody asked yet

    @property
    def columns(self) -> list[str]:
        """The columns this log has."""
        return self.source.columns

    @property
    def features(self) -> dict[str, Any] | None:
        """How the features were made of contexts and items, as the last file has it; None if nobody said.

        It is what `linmed.features.Features.from_dict` takes.
        """
        source = self.source
        while isinstance(source, View):
            source = source.source
        told = source.metadata.get(FEATURES.encode()) if isinstance(source, ParquetSource) else None
        return None if told is None else dict(json.loads(told))

    @property
    def malformed(self) -> Malformed:
        """Lines of a text log that could not be read and were skipped; reads the log if nobody has yet.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from linmed.ope import DecisionLog
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "log.csv")
        ...     lines = path.write_text("arm,probability,reward\\n0,0.5,1\\n1,half,0\\n")
        ...     DecisionLog.from_csv(path, errors="skip").malformed.count
        1
        """
        if self._malformed is None:
            for _ in self.batches(["arm"]):
                pass
        assert self._malformed is not None
        return self._malformed

    def require(self, columns: Sequence[str], reason: str) -> None:
        """Raise unless the log has all `columns`.

        >>> from linmed.ope import DecisionLog
        >>> log = DecisionLog.from_table({"arm": [0], "probability": [0.5], "reward": [1.0]})
        >>> log.require(["time"], "a trend")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        ValueError: a trend needs the column 'time', which table does not have ...
        """
        own = self.source.own
        made = "" if set(own) <= set(self.columns) else f", made of {quoted(own)}"
        for column in columns:
            if column not in self.columns:
                raise ValueError(
                    f"{reason} needs the column {column!r}, which {self.name} does not have "
                    f"(it has {quoted(self.columns)}{made})"
                )

    def batches(self, columns: Sequence[str] | None = None, rows: int = BATCH) -> Iterator[pa.RecordBatch]:
        """Yield the log from its beginning in batches of at most `rows` rows."""
        wanted = self.columns if columns is None else list(columns)
        self.require(wanted, "reading")
        malformed = Malformed()
        yield from self.source.read(wanted, validation.whole("rows", rows), malformed)
        self._malformed = malformed

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the whole log into memory: for small logs."""
        batches = list(self.batches(columns))
        if not batches:
            raise ValueError(f"{self.name} is empty: it holds no decisions")
        return pa.Table.from_batches(batches)

    def pieces(self) -> list["DecisionLog"]:
        """Divide the log into parts that can be read elsewhere, in order: its files, if it is a directory.

        >>> import tempfile
        >>> from linmed.log import LogWriter
        >>> from linmed.ope import DecisionLog
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with LogWriter(folder, flush_rows=2) as writer:  # a file for every two decisions
        ...         for t in range(4):
        ...             writer.record(t, arm=0, arm_count=1, log_probability=0.0)
        ...     [len(piece) for piece in DecisionLog.open(folder).pieces()]
        [2, 2]
        """
        parts = self.source.pieces()
        if len(parts) == 1:
            return [self]
        return [DecisionLog(source, f"{self.name}, {label}") for label, source in parts]

    def __len__(self) -> int:
        """Count the decisions: from the files' metadata, or by reading one column once."""
        if self._rows is None:
            known = self.source.count()
            batches = self.source.read(["arm"], BATCH, Malformed()) if known is None else ()
            self._rows = sum(batch.num_rows for batch in batches) if known is None else known
        return self._rows

    def __repr__(self) -> str:
        """Show its name, size and columns; a text file is not read for its size."""
        size = "decisions that were not counted yet"
        if self._rows is not None or self.source.count() is not None:
            size = f"{len(self):,} decision{'' if len(self) == 1 else 's'}"
        return f"DecisionLog {self.name!r}: {size}, with {', '.join(self.columns)}"

    def __bool__(self) -> bool:
        """Be true, also while it is empty: asking must not read it."""
        return True

    def __getitem__(self, index: slice) -> "DecisionLog":
        """Take decisions `start:stop`, counted from the end where negative."""
        if not isinstance(index, slice):
            raise validation.BadType("index", f"index must be a slice like log[100:200], got {index!r}")
        if index.step not in (None, 1):
            raise validation.BadValue(
                "index", f"index must be a slice of step 1, got a step of {index.step!r}"
            )
        ends = []
        for end in (index.start, index.stop):
            whole = None if end is None else validation.whole("index", end, at_least=-(2**62))
            ends.append(whole if whole is None or whole >= 0 else max(whole + len(self), 0))
        start, stop = ends[0] or 0, ends[1]
        named = f"{self.name}[{start}:{'' if stop is None else stop}]"
        return DecisionLog(self.source.slice(start, stop), named)

    def before(self, time: Time) -> "DecisionLog":
        """Select the decisions taken before `time`."""
        return self._within(None, views.moment("time", time), f"{self.name} before {time}")

    def after(self, time: Time) -> "DecisionLog":
        """Select the decisions taken at `time` or later: all with a time that `before` leaves out.

        See `before`.
        """
        return self._within(views.moment("time", time), None, f"{self.name} after {time}")

    def _within(self, start: int | None, end: int | None, name: str) -> "DecisionLog":
        self.require(["time"], "a split by time")
        return DecisionLog(views.Where(self.source, views.Within(start, end), ("time",)), name)

    def split(self, fraction: float) -> tuple["DecisionLog", "DecisionLog"]:
        """Divide the log into two: the first `fraction` of its decisions and the rest."""
        cut = round(validation.strictly_between("fraction", fraction, 0.0, 1.0) * len(self))
        return self[:cut], self[cut : len(self)]

    def where(
        self,
        test: Callable[[pa.RecordBatch], Any] | None = None,
        /,
        columns: Sequence[str] | None = None,
        **values: Any,
    ) -> "DecisionLog":
        """The decisions that have these values: `log.where(variant="b", position=[1, 2])`; None is null.

        Or a function of a record batch that answers with one boolean for each of its rows; it is given the
        `columns` it needs, all unless they are named.
        """
        what = ", ".join(f"{name}={value!r}" for name, value in values.items()) or getattr(
            test, "__name__", repr(test)
        )
        return DecisionLog(views.where(self.source, test, columns, values), f"{self.name} where {what}")

    def duplicates(self) -> Repeated | None:
        """Decisions that stand in the log twice by their `decision_id`, None if there are none; remembered.

        All identifiers are compared, beyond a million rows a sample of them (`linmed.log.Duplicates`), but of
        a directory that a `LogWriter` wrote only those that could repeat.
        """
        if isinstance(self._repeated, bool):
            self._repeated = repeats(self.source)
        return self._repeated

    def distinct(self) -> "DecisionLog":
        """Keep the first decision of each `decision_id`; those without one all stay.

        Exact, and therefore not bounded in memory: reading it keeps every identifier (about 100 bytes each).
        """
        self.require(["decision_id"], "telling decisions apart")
        return DecisionLog(views.Distinct(self.source), f"{self.name}, each decision once")

    def save(self, path: str | os.PathLike[str]) -> "DecisionLog":
        """Write this log as a new Parquet log in large files, late rewards in their rows; returns it."""
        folder = Path(path)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            state = "not empty" if folder.is_dir() else "a file"
            raise validation.BadValue("path", f"path must be a new or empty directory, {folder} is {state}")
        batches = self.batches()
        first = next(batches, None)
        if first is None:
            raise ValueError(f"{self.name} is empty: it holds no decisions")
        every = itertools.chain([first], batches)
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"decisions-{0:020d}-saved.parquet"
        features = self.features
        told = None if features is None else {FEATURES: json.dumps(features)}
        schema = first.schema.with_metadata(told)
        write_atomically(target, lambda file: write_parquet(file, schema, every))
        return DecisionLog.open(folder)

    @classmethod
    def open(cls, path: str | os.PathLike[str], columns: Mapping[str, Any] | None = None) -> "DecisionLog":
        """A log written by an agent (`Agent(..., log=path)`) or by `save`, or any Parquet file or directory.

        `columns` says where the log's columns are, as for `from_table`.
        """
        place = Path(path)
        if not place.exists():
            raise FileNotFoundError(f"there is no log at {place}")
        if place.is_dir() and not log_files(place):
            raise ValueError(f"the log at {place} {nothing_in(place)}")
        return cls(parquet_source(place, {} if columns is None else columns), str(place))

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        columns: Mapping[str, Any] | None = None,
        *,
        errors: str = "raise",
        delimiter: str = ",",
    ) -> "DecisionLog":
        """Read any CSV file with a line of names in blocks; `columns` as for `from_table`.

        An empty field is no value. `errors="skip"` counts lines that cannot be read in `malformed` instead
        of raising; in a column that is none of the log's own such a value is null.
        """
        return cls(csv_source(Path(path), {} if columns is None else columns, errors, delimiter), str(path))

    @classmethod
    def from_table(cls, table: Any, columns: Mapping[str, Any] | None = None) -> "DecisionLog":
        """Read a pyarrow, pandas or polars table, or a dictionary of arrays.

        `columns` says where the log's columns are: `{"arm": "item", "reward": "click"}`; `features` and
        `probabilities` may be lists of columns, `arm_count` and `probability` numbers (as in a test with
        equal shares). Columns not mentioned keep their names. Arms that are names become their indices in
        alphabetical order, with the names in `arm_id`; rewards may be booleans; times are moments, ISO 8601
        text or seconds since 1970.
        """
        return cls(TableSource(canonical(table, {} if columns is None else columns)), "table")

    @classmethod
    def from_obp(cls, feedback: Mapping[str, Any]) -> "DecisionLog":
        """Read the Open Bandit Pipeline's `bandit_feedback` dictionary."""
        return cls(TableSource(obp_table(feedback)), "bandit_feedback")

    @classmethod
    def from_open_bandit(
        cls, path: str | os.PathLike[str], arm_count: int | None = None, errors: str = "raise"
    ) -> "DecisionLog":
        """Read a CSV file of the Open Bandit Dataset; its probability is `propensity_score` or `action_prob`.

        The number of arms is that of `item_context.csv` beside the file unless `arm_count` is given.
        `errors="skip"` counts malformed lines in `malformed` instead of raising.

        Users are in `user_feature_0` to `_3` (hashes, as text) and `affinities` (K numbers), where the file
        has them. Columns that nobody reads are not parsed.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from linmed.ope import DecisionLog
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "men.csv")
        ...     names = "timestamp,item_id,position,click,propensity_score"
        ...     lines = path.write_text(f"{names}\\n2020-01-01,7,1,1,0.03\\n")
        ...     DecisionLog.from_open_bandit(path, arm_count=34).table(["arm", "reward"]).to_pylist()
        [{'arm': 7, 'reward': 1.0}]
        """
        return cls(open_bandit_source(Path(path), arm_count, errors), str(path))

    @classmethod
    def from_vw(
        cls,
        path: str | os.PathLike[str],
        *,
        features: Sequence[str] | None = None,
        arm_count: int | None = None,
        errors: str = "raise",
    ) -> "DecisionLog":
        """Read Vowpal Wabbit text with labels `action:cost:probability`: one line an example, or ADF.

        The reward is −cost. `features` names the features that make an arm's vector, in order.
        """
        return cls(vw_source(Path(path), features, arm_count, errors), str(path))

    @classmethod
    def from_dsjson(
        cls, path: str | os.PathLike[str], *, features: Sequence[str] | None = None, errors: str = "raise"
    ) -> "DecisionLog":
        """Decision-service JSON, one event a line. The reward is −`_label_cost`, null where there is none.

        An arm's vector is the array `x` of its `_multi` entry, or the numbers named in `features`.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from linmed.ope import DecisionLog
        >>> event = '{"_label_cost": -1, "_label_probability": 0.8, "_labelIndex": 0, "a": [1, 2]'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "events.json")
        ...     lines = path.write_text(event + ', "p": [0.8, 0.2]}')
        ...     DecisionLog.from_dsjson(path).table(["arm", "probabilities", "reward"]).to_pylist()
        [{'arm': 0, 'probabilities': [0.8, 0.2], 'reward': 1.0}]
        """
        return cls(dsjson_source(Path(path), features, errors), str(path))

    def to_obp(self) -> dict[str, Any]:
        """Make the Open Bandit Pipeline's `bandit_feedback` dictionary (in memory).

        >>> from linmed.ope import DecisionLog
        >>> played = {"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0], "arm_count": [2, 2]}
        >>> feedback = DecisionLog.from_table(played).to_obp()
        >>> feedback["n_actions"], feedback["action"], feedback["pscore"]
        (2, array([0, 1]), array([0.5, 0.5]))
        """
        return obp_feedback(self)

    def to_dsjson(self, path: str | os.PathLike[str]) -> int:
        """Write decision-service JSON, one event a line; returns the number of lines.

        >>> import tempfile
        >>> from linmed.ope import DecisionLog
        >>> played = {"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0], "arm_count": [2, 2]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     count = DecisionLog.from_table(played).to_dsjson(f"{folder}/events.json")
        ...     count, DecisionLog.from_dsjson(f"{folder}/events.json").table()["reward"].to_pylist()
        (2, [1.0, 0.0])
        """
        return write_dsjson(self, Path(path))
