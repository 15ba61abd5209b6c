"""Where the batches of a log come from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

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
