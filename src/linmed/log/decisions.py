"""`DecisionLog`: a log to evaluate on, read in batches and never whole, wherever it came from."""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from linmed import checks
from linmed.files import write_atomically
from linmed.log import dsjson, open_bandit, text
from linmed.log.parquet import ParquetSource, decision_files, write_parquet
from linmed.log.source import Malformed, Source, TableSource
from linmed.log.tables import canonical

BATCH = 65_536


class DecisionLog:
    """An append-only log of decisions: `arm`, `probability`, `reward` and what else is known of each.

    Columns are those of `linmed.log.SCHEMA`; only `arm`, `probability` and `reward` are needed, others
    make more targets, estimators and checks possible. A reward is null until it arrives.
    """

    def __init__(self, source: Source, name: str = "log"):
        missing = [column for column in ("arm", "probability", "reward") if column not in source.columns]
        if missing:
            raise ValueError(
                f"a decision log needs the columns arm, probability and reward; {name} has no "
                f"{', '.join(missing)} (it has {', '.join(source.columns)})"
            )
        self.source = source
        self.name = name
        self._malformed: Malformed | None = None

    @property
    def columns(self) -> list[str]:
        """The columns this log has."""
        return self.source.columns

    @property
    def malformed(self) -> Malformed:
        """Lines of a text log that could not be read and were skipped; reads the log if nobody has yet."""
        if self._malformed is None:
            for _ in self.batches(["arm"]):
                pass
        assert self._malformed is not None
        return self._malformed

    def require(self, columns: Sequence[str], reason: str) -> None:
        """Raise unless the log has all `columns`."""
        for column in columns:
            if column not in self.columns:
                raise ValueError(
                    f"{reason} needs the column {column!r}, which {self.name} does not have "
                    f"(it has {', '.join(self.columns)})"
                )

    def batches(self, columns: Sequence[str] | None = None, rows: int = BATCH) -> Iterator[pa.RecordBatch]:
        """The log from its beginning, in batches of at most `rows` rows."""
        wanted = self.columns if columns is None else list(columns)
        self.require(wanted, "reading")
        malformed = Malformed()
        yield from self.source.read(wanted, checks.whole("rows", rows), malformed)
        self._malformed = malformed

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The whole log in memory: for small logs."""
        batches = list(self.batches(columns))
        if not batches:
            raise ValueError(f"{self.name} is empty: it holds no decisions")
        return pa.Table.from_batches(batches)

    def pieces(self) -> list["DecisionLog"]:
        """The log in parts that can be read elsewhere, in order: its files, if it is a directory."""
        source = self.source
        if not (isinstance(source, ParquetSource) and source.path.is_dir() and source.file is None):
            return [self]
        files = decision_files(source.path)
        return [DecisionLog(ParquetSource(source.path, file), f"{self.name}, {file.name}") for file in files]

    def save(self, path: str | os.PathLike[str]) -> "DecisionLog":
        """Write this log as a new Parquet log in large files, late rewards in their rows; returns it."""
        folder = Path(path)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            state = "not empty" if folder.is_dir() else "a file"
            raise checks.BadValue("path", f"path must be a new or empty directory, {folder} is {state}")
        batches = self.batches()
        first = next(batches, None)
        if first is None:
            raise ValueError(f"{self.name} is empty: it holds no decisions")
        every = itertools.chain([first], batches)
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"decisions-{0:020d}-saved.parquet"
        write_atomically(target, lambda file: write_parquet(file, first.schema, every))
        return DecisionLog.open(folder)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "DecisionLog":
        """A log written by an agent (`Agent(..., log=path)`) or by `save`, or one Parquet file like it."""
        place = Path(path)
        if not place.exists():
            raise FileNotFoundError(f"there is no log at {place}")
        if place.is_dir() and not decision_files(place):
            raise ValueError(f"the log at {place} is empty: it holds no decisions")
        return cls(ParquetSource(place), str(place))

    @classmethod
    def from_table(cls, table: Any, columns: Mapping[str, Any] | None = None) -> "DecisionLog":
        """A pyarrow, pandas or polars table, or a dictionary of arrays.

        `columns` says where the log's columns are: `{"arm": "item", "reward": "click"}`; `features` may be
        a list of columns, `arm_count` a number. Columns not mentioned keep their names.
        """
        return cls(TableSource(canonical(table, columns or {})), "table")

    @classmethod
    def from_obp(cls, feedback: Mapping[str, Any]) -> "DecisionLog":
        """The Open Bandit Pipeline's `bandit_feedback` dictionary."""
        return cls(TableSource(open_bandit.feedback_table(feedback)), "bandit_feedback")

    @classmethod
    def from_open_bandit(
        cls, path: str | os.PathLike[str], arm_count: int | None = None, errors: str = "raise"
    ) -> "DecisionLog":
        """A CSV file of the Open Bandit Dataset; its probability is `propensity_score` or `action_prob`.

        The number of arms is that of `item_context.csv` beside the file unless `arm_count` is given.
        `errors="skip"` counts malformed lines in `malformed` instead of raising.
        """
        return cls(open_bandit.csv_source(Path(path), arm_count, errors), str(path))

    @classmethod
    def from_vw(
        cls,
        path: str | os.PathLike[str],
        *,
        features: Sequence[str] | None = None,
        arm_count: int | None = None,
        errors: str = "raise",
    ) -> "DecisionLog":
        """Vowpal Wabbit text with labels `action:cost:probability`: one line an example, or ADF.

        The reward is −cost. `features` names the features that make an arm's vector, in order.
        """
        return cls(text.vw_source(Path(path), features, arm_count, errors), str(path))

    @classmethod
    def from_dsjson(
        cls, path: str | os.PathLike[str], *, features: Sequence[str] | None = None, errors: str = "raise"
    ) -> "DecisionLog":
        """Decision-service JSON, one event a line. The reward is −`_label_cost`, null where there is none.

        An arm's vector is the array `x` of its `_multi` entry, or the numbers named in `features`.
        """
        return cls(dsjson.source(Path(path), features, errors), str(path))

    def to_obp(self) -> dict[str, Any]:
        """The Open Bandit Pipeline's `bandit_feedback` dictionary (in memory)."""
        return open_bandit.feedback(self)

    def to_dsjson(self, path: str | os.PathLike[str]) -> int:
        """Write decision-service JSON, one event a line; returns the number of lines."""
        return dsjson.write(self, Path(path))
