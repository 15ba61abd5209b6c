"""Sources whose columns are made of a file's or a table's by a plan."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed.log.mapping import Columns, Part, Plan, Same, Value, plan, unreadable
from linmed.log.parquet import ParquetSource
from linmed.log.source import BATCH, Malformed, Source, TableSource
from linmed.validation import Ints

Numbered = tuple[Ints, pa.RecordBatch]
"""Rows as they are in the file, each with its number there."""


@dataclass(frozen=True)
class Mapped(ABC):
    """What `plan` makes of numbered rows. Where arms are names, they are looked for once, when first read."""

    plan: Plan
    name: str
    """Where the rows are from, for messages."""

    errors = "raise"
    """"skip": rows that cannot be read are left out and counted."""
    unit = "row"

    @property
    def columns(self) -> list[str]:
        """Those of the plan."""
        return self.plan.columns

    @property
    def own(self) -> Sequence[str]:
        """Those of the file."""
        return self.plan.own

    @abstractmethod
    def numbered(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Generator[Numbered]:
        """The columns of the file, in batches of at most `rows` rows."""

    @cached_property
    def ready(self) -> Plan:
        """The plan with the names of the arms."""
        plan = self.plan
        if plan.named is None:
            return plan
        found: set[str] = set()
        part = Value((plan.named,), "arm", pa.string())
        for batch in self._made(plan, {"arm": part}, BATCH, Malformed()):
            found.update(batch.column(0).unique().to_pylist())
        return plan.with_names(pa.array(sorted(name for name in found if name is not None), pa.string()))

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Batches as the log has them. Lines are skipped by all of the log's columns, also those not read."""
        plan = self.ready
        yield from self._made(plan, {name: plan.parts[name] for name in columns}, rows, malformed)

    def _made(
        self, plan: Plan, wanted: dict[str, Part], rows: int, malformed: Malformed
    ) -> Iterator[pa.RecordBatch]:
        needed = list(wanted.values())
        if self.errors == "skip":
            needed += [part for part in plan.parts.values() if not part.lenient]
        reads = list(dict.fromkeys(name for part in needed for name in part.reads))
        some = next(part.reads for part in plan.parts.values() if part.reads)  # rows are counted by a column
        with closing(self.numbered(reads or list(some), rows, malformed)) as numbered:
            for numbers, batch in numbered:
                made = _arrays(needed, batch)
                if made is None:
                    batch = self._readable(numbers, batch, needed, malformed)
                    made = _arrays(needed, batch)
                assert made is not None  # every row that is left can be read, and so can they all
                if batch.num_rows:
                    yield pa.RecordBatch.from_arrays(made[: len(wanted)], list(wanted))

    def _readable(
        self, numbers: Ints, batch: pa.RecordBatch, parts: Sequence[Part], malformed: Malformed
    ) -> pa.RecordBatch:
        """`batch` without the rows that cannot be read, which are reported."""
        wrong: dict[int, Part] = {}
        for part in parts:
            rows = unreadable(part, batch)
            if self.errors == "skip" and part.lenient:
                batch = _without(batch, part.reads[0], list(rows))
            elif self.errors == "skip":
                wrong = {**dict.fromkeys(rows, part), **wrong}
            elif (first := next(rows, None)) is not None and first < min(wrong, default=len(numbers)):
                wrong[first] = part
        for row in sorted(wrong):
            self.report(int(numbers[row]), wrong[row].reason(batch.slice(row, 1)), malformed)
        return batch.take(pa.array(np.delete(np.arange(batch.num_rows), list(wrong))))

    def report(self, number: int, reason: str, malformed: Malformed) -> None:
        """Raise what is wrong with a row, or note it."""
        if self.errors == "raise":
            raise ValueError(f"{self.name}, {self.unit} {number}: {reason}")
        malformed.add(number, reason)


def _arrays(parts: Sequence[Part], batch: pa.RecordBatch) -> list[pa.Array] | None:
    """What the parts make of `batch`, None where some row cannot be read."""
    try:
        return [part.make(batch) for part in parts]
    except (ValueError, pa.ArrowException):
        return None


def _without(batch: pa.RecordBatch, name: str, rows: list[int]) -> pa.RecordBatch:
    """`batch` with nulls in a column at `rows`."""
    mask = np.zeros(batch.num_rows, dtype=bool)
    mask[rows] = True
    place, column = batch.schema.get_field_index(name), batch.column(name)
    return batch.set_column(place, name, pc.if_else(pa.array(mask), pa.scalar(None, column.type), column))


@dataclass(frozen=True)
class MappedTable(Mapped):
    """A table in memory."""

    table: pa.Table

    def numbered(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Generator[Numbered]:
        """Slices of it."""
        yield from _counted(TableSource(self.table).read(columns, rows, malformed))


@dataclass(frozen=True)
class MappedParquet(Mapped):
    """A Parquet file, or a directory of them."""

    source: ParquetSource

    def numbered(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Generator[Numbered]:
        """File after file."""
        yield from _counted(self.source.read(columns, rows, malformed))

    def count(self) -> int:
        """From the files' metadata."""
        return self.source.count()

    def slice(self, start: int, stop: int | None) -> "MappedParquet":
        """The same arms, however few of them are in the slice."""
        return self._of(self.source.slice(start, stop))

    def pieces(self) -> list[tuple[str, Source]]:
        """One for each file of a directory."""
        parts = self.source.pieces()
        return [(label, self._of(piece)) for label, piece in parts] if len(parts) > 1 else [("", self)]

    def _of(self, source: ParquetSource) -> "MappedParquet":
        return dataclasses.replace(self, plan=self.ready, source=source)


def _counted(batches: Iterator[pa.RecordBatch]) -> Generator[Numbered]:
    """Each batch with the numbers of its rows."""
    done = 0
    for batch in batches:
        yield np.arange(done, done + batch.num_rows), batch
        done += batch.num_rows


def parquet_source(path: Path, columns: Columns) -> ParquetSource | MappedParquet:
    """The log at `path`; a plan only where its columns are not those of a log already."""
    source = ParquetSource(path)
    schema = source.schema
    made = plan(columns, schema, str(path))
    own = all(_as_it_is(name, part, schema) for name, part in made.parts.items())
    return source if own and made.named is None else MappedParquet(made, str(path), source)


def _as_it_is(name: str, part: Part, schema: pa.Schema) -> bool:
    """Whether a part is a column of the file, under its own name and type."""
    if isinstance(part, Value):
        return part.reads == (name,) and schema.field(name).type == part.kind
    return isinstance(part, Same)
