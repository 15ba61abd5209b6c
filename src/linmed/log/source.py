"""Where the batches of a log come from, and what some sources can do besides being read."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

BATCH = 65_536
KEPT_REPORTS = 20
NEEDED = ("arm", "probability", "reward")
LISTED, LONGEST = 20, 100
"""Names that a message lists, and letters of a value that it shows, at most."""


@dataclass
class Malformed:
    """Lines that could not be read: how many, and the first of them with the reason.

    >>> malformed = Malformed()
    >>> malformed.add(7, "probability is 'half'")
    >>> malformed.count, malformed.first
    (1, [(7, "probability is 'half'")])
    """

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)  # (line number from 1, reason)

    def add(self, line: int, reason: str) -> None:
        """Note one line."""
        self.count += 1
        if len(self.first) < KEPT_REPORTS:
            self.first.append((line, reason))


class Source(ABC):
    """Where batches come from. Reading twice gives the same rows, whichever columns are asked for.

    A source has `columns` and `read`; what else it may know, it says by the methods below them.

    >>> from linmed.log import DecisionLog
    >>> class Rows(Source):
    ...     def __init__(self, rows):
    ...         self.rows = rows
    ...
    ...     @property
    ...     def columns(self):
    ...         return list(self.rows[0])
    ...
    ...     def read(self, columns, rows, malformed):
    ...         for first in range(0, len(self.rows), rows):
    ...             yield pa.RecordBatch.from_pylist(self.rows[first : first + rows]).select(columns)
    >>> source = Rows([{"arm": 0, "probability": 0.5, "reward": 1.0}] * 3)
    >>> len(DecisionLog(source, name="mine")), source.slice(1, 2).columns == source.own, source.count()
    (3, True, None)
    >>> len(source.pieces()), source.vouches(), source.ended()
    (1, False, None)
    """

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """The columns there are."""

    @abstractmethod
    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `rows` rows with `columns`, in the log's order."""

    @property
    def own(self) -> Sequence[str]:
        """The names of the columns in the file."""
        return self.columns

    def count(self) -> int | None:
        """Count the rows there are, if that needs no reading."""
        return None

    def slice(self, start: int, stop: int | None) -> "Source":
        """Take the rows from `start` on, to `stop` if that is given."""
        return Slice(self, start, stop)

    def pieces(self) -> Sequence[tuple[str, "Source"]]:
        """Give the parts that can be read elsewhere, in order, each with what tells it from the others."""
        return [("", self)]

    def vouches(self) -> bool:
        """Whether it is certain that no `decision_id` occurs twice."""
        return False

    def ended(self) -> int | None:
        """Tell until when it tells, in microseconds since 1970, if that may be later than its last row."""
        return None


@dataclass(frozen=True)
class View(Source):
    """Some of the rows of another source."""

    made: ClassVar[tuple[str, ...]] = ()
    """Columns that are not those of the source."""
    source: Source

    @property
    def columns(self) -> list[str]:
        """Give those of the source."""
        return self.source.columns

    def vouches(self) -> bool:
        """Trust: what does not repeat among all rows does not among some."""
        return self.source.vouches()

    def ended(self) -> int | None:
        """Tell what the source tells: a log that is still written has the same present in all its parts."""
        return self.source.ended()


@dataclass(frozen=True)
class Slice(View):
    """Rows `start` to `stop` of a source that must be read from its beginning."""

    start: int
    stop: int | None

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Read no further than `stop`."""
        if self.stop is not None:
            if self.stop <= self.start:
                return
            rows = min(rows, self.stop)
        done = 0
        for batch in self.source.read(columns, rows, malformed):
            first = max(self.start - done, 0)
            last = batch.num_rows if self.stop is None else min(self.stop - done, batch.num_rows)
            if first < last:
                yield batch.slice(first, last - first)
            done += batch.num_rows
            if self.stop is not None and done >= self.stop:
                return

    def slice(self, start: int, stop: int | None) -> "Slice":
        """Make one slice of it: a slice of a slice is one slice."""
        ends = [end for end in (self.stop, None if stop is None else self.start + stop) if end is not None]
        return Slice(self.source, self.start + start, min(ends, default=None))


def quoted(names: Sequence[str]) -> str:
    """Write names in a message, so that spaces in them are seen; of very many the first."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED + 1 else ""
    return ", ".join(map(repr, names[:LISTED] if more else names)) + more


def brief(value: object) -> str:
    """Write a value in a message, on one line: of a long one its beginning and its end."""
    size = f" ({len(value)} entries)" if isinstance(value, Sized) and not isinstance(value, str) else ""
    short = shortened(repr(value))
    return short + (size if "…" in short else "")


def shortened(text: str) -> str:
    """Shorten text to one line; where it is long, its beginning and its end."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: 3 * LONGEST // 4]} … {text[-LONGEST // 4 :]}"


def check_needed(have: Sequence[str], own: Sequence[str], name: str) -> None:
    """Raise unless the columns that every log needs are there; `own` are those of the file."""
    missing = [column for column in NEEDED if column not in have]
    if missing:
        raise ValueError(
            f"a decision log needs the columns {', '.join(NEEDED[:-1])} and {NEEDED[-1]}; {name} has no "
            f"{', '.join(missing)} (it has {quoted(own)})"
        )


@dataclass(frozen=True)
class TableSource(Source):
    """A table in memory.

    >>> source = TableSource(pa.table({"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0]}))
    >>> source.columns, source.count(), source.slice(1, None).count()
    (['arm', 'probability', 'reward'], 2, 1)
    >>> [batch.num_rows for batch in source.read(["arm"], rows=1, malformed=Malformed())]
    [1, 1]
    """

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        """The table's own."""
        return list(self.table.column_names)

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Yield slices without a copy."""
        yield from self.table.select(list(columns)).to_batches(max_chunksize=rows)

    def count(self) -> int:
        """Count the table's rows."""
        return int(self.table.num_rows)

    def slice(self, start: int, stop: int | None) -> "TableSource":
        """Make a view of the table."""
        return TableSource(self.table.slice(start, None if stop is None else max(stop - start, 0)))
