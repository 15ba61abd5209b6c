"""Reading a log's Parquet files: decisions in order, each joined with its reward wherever that stands."""

import contextlib
import dataclasses
import math
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from linmed.log.source import Malformed, Source

NAMED = 5
"""Files that a message names."""
REWARDED = ["reward", "reward_time", "missing", "outcomes"]
"""Columns that become known with the reward."""
AT_ONCE = 1 << 24
"""Numbers of one column that a batch may hold (128 MiB): wide rows come fewer at a time."""


class LateRewards(NamedTuple):
    """Rewards of one decision file that came after it was written."""

    row: NDArray[np.int64]  # sorted, each once
    values: pa.Table  # the columns REWARDED of these


@dataclass(frozen=True)
class ParquetSource(Source):
    """A log's directory, one `file` of it, or a single Parquet file; rows `start` to `stop` of it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "log.parquet")
    ...     pq.write_table(pa.table({"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0]}), path)
    ...     source = ParquetSource(path)
    ...     source.columns, source.count(), source.slice(1, None).count(), len(source.pieces())
    (['arm', 'probability', 'reward'], 2, 1, 1)

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "log.parquet")
    ...     pq.write_table(pa.table({"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0]}), path)
    ...     source = ParquetSource(path)
    ...     rows = [batch.num_rows for batch in source.read(["arm"], rows=1, malformed=Malformed())]
    ...     rows, source.files == [path], source.schema.field("arm").type, source.metadata, source.vouches()
    ([1, 1], True, DataType(int64), {}, False)
    """

    path: Path
    file: Path | None = None
    start: int = 0
    stop: int | None = None
    threads: bool = True
    """Whether reading may use all cores; not where as many workers read as there are."""

    @property
    def files(self) -> list[Path]:
        """Those to be read, in order."""
        if self.file is not None or not self.path.is_dir():
            return [self.file or self.path]
        return log_files(self.path)

    @property
    def schema(self) -> pa.Schema:
        """As in the first file."""
        first = self.files[0]
        with reading(first):
            return pq.read_schema(first)

    @property
    def columns(self) -> list[str]:
        """Those of `schema`."""
        return list(self.schema.names)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """As in the last file."""
        last = self.files[-1]
        with reading(last):
            return dict(pq.read_schema(last).metadata or {})

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Read file after file, in batches of at most `rows` decisions with all rewards that arrived.

        The next batch is read while the caller works on the last one: pyarrow needs no interpreter for it.
        """
        batches = self._batches(columns, rows)
        if not self.threads:
            yield from batches
            return
        with contextlib.closing(batches), ThreadPoolExecutor(1) as reader:
            coming = reader.submit(next, batches, None)
            while (batch := coming.result()) is not None:
                coming = reader.submit(next, batches, None)
                yield batch

    def _batches(self, columns: Sequence[str], rows: int) -> Generator[pa.RecordBatch]:
        late = {}
        if self.path.is_dir() and set(REWARDED) & set(columns):
            late = late_rewards(self.path, None if self.file is None else self.file.stem)
        done = 0
        for part in self.files:
            if self.stop is not None and done >= self.stop:
                return
            with reading(part), pq.ParquetFile(part) as file:
                for start, batch in self._inside(file, done, columns, rows):
                    yield join(batch, start, late[part.stem]) if part.stem in late else batch
                done += file.metadata.num_rows

    def _inside(
        self, file: Any, done: int, columns: Sequence[str], rows: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The batches of a file after `done` rows of others, each with the number of its first row there."""
        have = file.schema_arrow.names
        missing = [name for name in columns if name not in have]
        if missing:
            raise pa.ArrowInvalid(f"it has no column {missing[0]!r}, which the log's first file has")
        size = min(rows, _rows_at_once(file.metadata, columns))
        first, last = self.start - done, math.inf if self.stop is None else self.stop - done
        ends = np.cumsum([file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)])
        starts = np.append(0, ends)[:-1]
        groups = np.flatnonzero((starts < last) & (ends > first))
        if not groups.size:
            return
        start = int(starts[groups[0]])
        for batch in file.iter_batches(size, groups.tolist(), list(columns), use_threads=self.threads):
            low, high = max(first - start, 0), min(last - start, batch.num_rows)
            if low < high:
                yield start + low, batch.slice(low, high - low).select(list(columns))
            start += batch.num_rows

    def count(self) -> int:
        """Count from the files' metadata."""
        return sum(rows for _, _, rows in self._extent())

    def slice(self, start: int, stop: int | None) -> "ParquetSource":
        """Take rows: files and row groups outside it are not read."""
        ends = [end for end in (self.stop, None if stop is None else self.start + stop) if end is not None]
        return dataclasses.replace(self, start=self.start + start, stop=min(ends, default=None))

    def pieces(self) -> list[tuple[str, "ParquetSource"]]:
        """Give one for each file of a directory."""
        if not self.path.is_dir() or self.file is not None:
            return [("", self)]
        if self.start == 0 and self.stop is None:
            return [(file.name, ParquetSource(self.path, file)) for file in self.files]
        return [
            (file.name, ParquetSource(self.path, file, first, first + rows))
            for file, first, rows in self._extent()
        ]

    def _extent(self) -> Iterator[tuple[Path, int, int]]:
        """Every file that is read, its first row that is, and how many are."""
        done = 0
        for part in self.files:
            if self.stop is not None and done >= self.stop:
                return
            with reading(part):
                rows = pq.read_metadata(part).num_rows
            first = max(self.start - done, 0)
            last = rows if self.stop is None else min(self.stop - done, rows)
            if first < last:
                yield part, first, last - first
            done += rows

    def vouches(self) -> bool:
        """Whether all files are a writer's own, by their names, and no two begin with the same decision.

        A writer takes no identifier that its directory holds already, and there is one writer at a time. So
        two rows of its files have the same one only where a file was copied under another name, or the
        files of another log with the same decisions were added, whose first file begins as this one's.
        """
        files = self.files
        if not self.path.is_dir() or not all(OWN.fullmatch(file.name) for file in files):
            return False
        firsts = [_first_identifier(file) for file in files]
        return len(set(firsts)) == len(firsts)


OWN = re.compile(r"decisions-[0-9]{20}-[0-9a-f]{8}\.parquet")
"""The names that a writer gives its files; those of `DecisionLog.save` are others."""


def _first_identifier(part: Path) -> str | None:
    with reading(part), pq.ParquetFile(part) as file:
        first = next(file.iter_batches(1, columns=["decision_id"]), None)
    return None if first is None else first.column(0)[0].as_py()


def decision_files(path: Path) -> list[Path]:
    """List the files of decisions that a writer left, in the order they were written."""
    return sorted(path.glob("decisions-*.parquet"))


def log_files(path: Path) -> list[Path]:
    """List these, or where there are none all Parquet files below `path`, by name."""
    own = decision_files(path)
    if own or any(path.glob("*rewards-*.parquet")) or any(path.glob("lists-*.parquet")):
        return own
    below = sorted(path.rglob("*.parquet"))
    return [file for file in below if not any(p.startswith((".", "_")) for p in file.relative_to(path).parts)]


def nothing_in(path: Path) -> str:
    """Say what is to be said of a directory without a file of decisions."""
    others = sorted(file.name for file in path.iterdir() if not file.name.startswith("."))
    if any(name.startswith("lists-") for name in others):
        return "holds lists and no single decisions: ListLog.open reads it"
    if others and not any(name.startswith("rewards-") for name in others):
        named = ", ".join(others[:NAMED]) + (", …" if len(others) > NAMED else "")
        return (
            f"holds no Parquet files, but {named}: give a file of decisions, or a directory of Parquet files"
        )
    return (
        "is empty: it holds no decisions. If a program is writing it, that has not flushed yet: "
        "agent.log.flush() writes at once"
    )


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Name the file in what pyarrow has to say of its content."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # no such file, no permission: named
            raise
        raise ValueError(f"{file} is damaged, or no Parquet file of a log: {error}") from error


def late_rewards(path: Path, part: str | None = None) -> dict[str, LateRewards]:
    """Read rewards that came after their decision's file was written, by that file's stem.

    Where a decision has two, the second took the place of one that was assumed.
    """
    only = None if part is None else [("part", "=", part)]
    files: list[pa.Table] = []
    for file in sorted(path.glob("rewards-*.parquet")):
        with reading(file):
            files.append(pq.read_table(file, columns=["part", "row", *REWARDED], filters=only))
    if not files:
        return {}
    table = pa.concat_tables(files).combine_chunks()
    names = table["part"].combine_chunks().dictionary_encode()
    part_of, row = names.indices.to_numpy(), table["row"].to_numpy()
    found = {}
    for i, name in enumerate(names.dictionary.to_pylist()):
        places = np.flatnonzero(part_of == i)
        places = places[np.argsort(row[places], kind="stable")]
        own = row[places]
        last = np.append(own[1:] != own[:-1], True)
        found[name] = LateRewards(own[last], table.select(REWARDED).take(pa.array(places[last])))
    return found


def join(batch: pa.RecordBatch, start: int, late: LateRewards) -> pa.RecordBatch:
    """Join `batch`, whose first row is row `start` of its file, with its late rewards filled in."""
    first, end = np.searchsorted(late.row, [start, start + batch.num_rows])
    source = np.arange(batch.num_rows)
    source[late.row[first:end] - start] = batch.num_rows + np.arange(end - first)
    for name in set(REWARDED) & set(batch.schema.names):
        place = batch.schema.get_field_index(name)
        column = batch.column(place)
        filler = late.values[name].slice(first, end - first).combine_chunks().cast(column.type)
        joined = pa.concat_arrays([column, filler]).take(pa.array(source))
        batch = batch.set_column(place, name, joined)
    return batch


def _rows_at_once(metadata: Any, columns: Sequence[str]) -> int:
    """How many rows of a file hold AT_ONCE numbers in their widest column."""
    widest = 1
    for leaf in range(metadata.num_columns):
        if metadata.schema.column(leaf).path.split(".")[0] in columns:
            chunks = (metadata.row_group(i).column(leaf) for i in range(metadata.num_row_groups))
            widest = max(widest, sum(chunk.num_values for chunk in chunks))
    return max(1, AT_ONCE * int(metadata.num_rows) // widest)


def write_parquet(file: Any, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write `batches` into one file, never holding more than one; returns the number of rows.

    >>> import io
    >>> batches = pa.table({"arm": [0, 1, 1]}).to_batches(max_chunksize=2)
    >>> write_parquet(io.BytesIO(), batches[0].schema, batches)
    3
    """
    count = 0
    with pq.ParquetWriter(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count
