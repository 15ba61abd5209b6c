"""Reading a log's Parquet files: decisions in order, each joined with its reward wherever that stands."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from linmed.checks import Floats
from linmed.log.source import Malformed

AT_ONCE = 1 << 24
"""Numbers of one column that a batch may hold (128 MiB): wide rows come fewer at a time."""


class LateRewards(NamedTuple):
    """Rewards of one decision file that came after it was written."""

    row: NDArray[np.int64]  # sorted
    reward: Floats
    time: NDArray[np.int64]  # microseconds


@dataclass(frozen=True)
class ParquetSource:
    """A log's directory, one `file` of it, or a single Parquet file with a log's columns."""

    path: Path
    file: Path | None = None

    @property
    def files(self) -> list[Path]:
        """Those to be read, in order."""
        if self.file is not None or not self.path.is_dir():
            return [self.file or self.path]
        return decision_files(self.path)

    @property
    def columns(self) -> list[str]:
        """As in the first file."""
        first = self.files[0]
        with reading(first):
            return list(pq.read_schema(first).names)

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """File after file, in batches of at most `rows` decisions with all rewards that arrived."""
        late = {}
        if self.path.is_dir() and {"reward", "reward_time"} & set(columns):
            late = late_rewards(self.path, None if self.file is None else self.file.stem)
        for part in self.files:
            start = 0
            with reading(part), pq.ParquetFile(part) as file:
                size = min(rows, _rows_at_once(file.metadata, columns))
                for batch in file.iter_batches(batch_size=size, columns=list(columns)):
                    yield join(batch, start, late[part.stem]) if part.stem in late else batch
                    start += batch.num_rows


def decision_files(path: Path) -> list[Path]:
    """The files of decisions, in the order they were written."""
    return sorted(path.glob("decisions-*.parquet"))


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
    """Rewards that came after their decision's file was written, by that file's stem; 24 bytes each."""
    only = None if part is None else [("part", "=", part)]
    parts: dict[str, list[LateRewards]] = {}
    for file in sorted(path.glob("rewards-*.parquet")):
        with reading(file):
            table = pq.read_table(file, columns=["part", "row", "reward", "reward_time"], filters=only)
        names = table["part"].combine_chunks().dictionary_encode()
        columns = [table["row"], table["reward"], table["reward_time"].cast(pa.int64())]
        for i, name in enumerate(names.dictionary.to_pylist()):
            chosen = names.indices.to_numpy() == i
            late = LateRewards(*(column.to_numpy()[chosen] for column in columns))
            parts.setdefault(name, []).append(late)
    for name, several in parts.items():
        row, reward, time = map(np.concatenate, zip(*several, strict=True))
        order = np.argsort(row)
        parts[name] = [LateRewards(row[order], reward[order], time[order])]
    return {name: late for name, (late,) in parts.items()}


def join(batch: pa.RecordBatch, start: int, late: LateRewards) -> pa.RecordBatch:
    """`batch`, whose first row is row `start` of its file, with its late rewards filled in."""
    first, end = np.searchsorted(late.row, [start, start + batch.num_rows])
    mask = np.zeros(batch.num_rows, dtype=bool)
    mask[late.row[first:end] - start] = True
    for name, values in (("reward", late.reward), ("reward_time", late.time)):
        if name in batch.schema.names:
            place = batch.schema.get_field_index(name)
            filler = pa.array(values[first:end]).cast(batch.schema.field(place).type)
            joined = pc.replace_with_mask(batch.column(place), pa.array(mask), filler)
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
    """Write `batches` into one file, never holding more than one; returns the number of rows."""
    count = 0
    with pq.ParquetWriter(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count
