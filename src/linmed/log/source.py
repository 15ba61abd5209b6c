"""Where the batches of a log come from, and what some sources can do besides being read."""

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

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


class Source(Protocol):
    """Where batches come from. Reading twice gives the same rows, whichever columns are asked for.

    >>> from linmed.log import DecisionLog
    >>> class Rows:
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
    >>> len(DecisionLog(Rows([{"arm": 0, "probability": 0.5, "reward": 1.0}] * 3), name="mine"))
    3
    """

    @property
    def columns(self) -> list[str]:
        """The columns there are."""

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `rows` rows with `columns`, in the log's order."""


@runtime_checkable
class Counted(Protocol):
    """A source that knows its number of rows without reading them."""

    def count(self) -> int:
        """Count the rows there are."""


@runtime_checkable
class Sliceable(Protocol):
    """A source that need not read the rows before a slice."""

    def slice(self, start: int, stop: int | None) -> Source:
        """Take its rows from `start` on, to `stop` if that is given."""


@runtime_checkable
class Divisible(Protocol):
    """A source made of parts that can be read elsewhere."""

    def pieces(self) -> Sequence[tuple[str, Source]]:
        """Give the parts in order, each with what tells it from the others."""


@runtime_checkable
class Vouching(Protocol):
    """A source that may know of its identifiers without comparing them all."""

    def vouches(self) -> bool:
        """Whether it is certain that no `decision_id` occurs twice."""


@runtime_checkable
class Dated(Protocol):
    """A source that knows until when it tells, which may be later than its last row."""

    def ended(self) -> int:
        """Tell microseconds since 1970."""


@runtime_checkable
class Foreign(Protocol):
    """A source whose columns are made of a file's."""

    @property
    def own(self) -> Sequence[str]:
        """The names in the file."""


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


def vouched(source: Source) -> bool:
    """Whether no two rows of `source` need be compared."""
    return isinstance(source, Vouching) and source.vouches()


def divided(source: Source) -> Sequence[tuple[str, Source]]:
    """Give the parts of `source`, or itself."""
    return source.pieces() if isinstance(source, Divisible) else [("", source)]


def rows_of(source: Source) -> int:
    """Count the rows that `source` has: as it says, or by reading one column."""
    if isinstance(source, Counted):
        return source.count()
    return sum(batch.num_rows for batch in source.read(["arm"], BATCH, Malformed()))


@dataclass(frozen=True)
class TableSource:
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
