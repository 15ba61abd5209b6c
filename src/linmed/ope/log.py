"""`DecisionLog`: a log to evaluate on, read in batches and never whole, wherever it came from."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from linmed import checks
from linmed import log as disk

BATCH = 65_536
KEPT_REPORTS = 20


@dataclass
class Malformed:
    """Lines that could not be read: how many, and the first of them with the reason."""

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)  # (line number from 1, reason)

    def add(self, line: int, reason: str) -> None:
        """Note one line."""
        self.count += 1
        if len(self.first) < KEPT_REPORTS:
            self.first.append((line, reason))


class Source(Protocol):
    """Where batches come from. Reading twice gives the same rows."""

    @property
    def columns(self) -> list[str]:
        """The columns there are."""

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Batches of at most `rows` rows with `columns`, in the log's order."""


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
        files = disk.decision_files(source.path)
        return [DecisionLog(ParquetSource(source.path, file), f"{self.name}, {file.name}") for file in files]

    def save(self, path: str | os.PathLike[str]) -> "DecisionLog":
        """Write this log as a new Parquet log in large files, late rewards in their rows; returns it."""
        folder = Path(path)
        if folder.exists() and any(folder.iterdir()):
            raise ValueError(f"path must be a new or empty directory, {folder} is not empty")
        folder.mkdir(parents=True, exist_ok=True)
        name = f"decisions-{0:020d}-saved"
        hidden = folder / f".{name}.tmp"
        writer: pq.ParquetWriter | None = None
        try:
            for batch in self.batches():
                if writer is None:
                    writer = pq.ParquetWriter(hidden, batch.schema)
                writer.write_batch(batch)
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise ValueError(f"{self.name} is empty: it holds no decisions")
        os.replace(hidden, folder / f"{name}.parquet")
        return DecisionLog.open(folder)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "DecisionLog":
        """A log written by an agent (`Agent(..., log=path)`) or by `save`, or one Parquet file like it."""
        place = Path(path)
        if not place.exists():
            raise FileNotFoundError(f"there is no log at {place}")
        if place.is_dir() and not disk.decision_files(place):
            raise ValueError(f"the log at {place} is empty: it holds no decisions")
        return cls(ParquetSource(place), str(place))

    @classmethod
    def from_table(cls, table: Any, columns: Mapping[str, Any] | None = None) -> "DecisionLog":
        """A pyarrow, pandas or polars table, or a dictionary of arrays.

        `columns` says where the log's columns are: `{"arm": "item", "reward": "click"}`; `features` may be
        a list of columns, `arm_count` a number. Columns not mentioned keep their names.
        """
        from linmed.ope.interchange import canonical

        return cls(TableSource(canonical(table, columns or {})), "table")

    @classmethod
    def from_obp(cls, feedback: Mapping[str, Any]) -> "DecisionLog":
        """The Open Bandit Pipeline's `bandit_feedback` dictionary."""
        from linmed.ope.interchange import obp_table

        return cls(TableSource(obp_table(feedback)), "bandit_feedback")

    @classmethod
    def from_open_bandit(
        cls, path: str | os.PathLike[str], arm_count: int | None = None, errors: str = "raise"
    ) -> "DecisionLog":
        """A CSV file of the Open Bandit Dataset; its probability is `propensity_score` or `action_prob`.

        The number of arms is that of `item_context.csv` beside the file unless `arm_count` is given.
        `errors="skip"` counts malformed lines in `malformed` instead of raising.
        """
        from linmed.ope.lines import open_bandit

        return cls(open_bandit(Path(path), arm_count, errors), str(path))

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
        from linmed.ope.lines import vw_text

        return cls(vw_text(Path(path), features, arm_count, errors), str(path))

    @classmethod
    def from_dsjson(
        cls, path: str | os.PathLike[str], *, features: Sequence[str] | None = None, errors: str = "raise"
    ) -> "DecisionLog":
        """Decision-service JSON, one event a line. The reward is −`_label_cost`, null where there is none.

        An arm's vector is the array `x` of its `_multi` entry, or the numbers named in `features`.
        """
        from linmed.ope.lines import dsjson

        return cls(dsjson(Path(path), features, errors), str(path))

    def to_obp(self) -> dict[str, Any]:
        """The Open Bandit Pipeline's `bandit_feedback` dictionary (in memory)."""
        from linmed.ope.interchange import to_obp

        return to_obp(self)

    def to_dsjson(self, path: str | os.PathLike[str]) -> int:
        """Write decision-service JSON, one event a line; returns the number of lines."""
        from linmed.ope.interchange import to_dsjson

        return to_dsjson(self, Path(path))


@dataclass(frozen=True)
class ParquetSource:
    """A log's directory, one `file` of it, or a single Parquet file with a log's columns."""

    path: Path
    file: Path | None = None

    @property
    def columns(self) -> list[str]:
        """As in the first file."""
        first = self.path if self.path.is_file() else self.file or disk.decision_files(self.path)[0]
        return list(pq.read_schema(first).names)

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """File after file."""
        if self.path.is_dir():
            yield from disk.read(self.path, columns, rows, self.file)
        else:
            with pq.ParquetFile(self.path) as file:
                yield from file.iter_batches(batch_size=rows, columns=list(columns))


@dataclass(frozen=True)
class TableSource:
    """A table in memory."""

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        """The table's own."""
        return list(self.table.column_names)

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Slices without a copy."""
        yield from self.table.select(list(columns)).to_batches(max_chunksize=rows)
