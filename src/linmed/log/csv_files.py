"""Any CSV file, streamed as text that a plan makes a log of."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv

from linmed import validation
from linmed.log.mapped import Mapped, Numbered
from linmed.log.mapping import Columns, plan
from linmed.log.source import Malformed
from linmed.validation import Ints

BLOCK = 4 << 20
"""Bytes of the file that are parsed at once."""
DELIMITERS = (",", ";", "\t", "|")
"""Those that a header is searched for if it seems to have one column."""


@dataclass(frozen=True)
class CsvSource(Mapped):
    """A CSV file with a line of names."""

    path: Path
    errors: str = "raise"
    delimiter: str = ","
    nulls: bool = True
    """Whether an empty field, NA, NaN and the like are no value."""
    unit = "line"

    def numbered(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Generator[Numbered]:
        """Text, each row with its line; lines with too few or too many fields are reported."""
        short: list[int] = []
        reports: list[tuple[int, str]] = []

        def invalid(row: Any) -> str:
            # pyarrow swallows what is raised here, so the report waits until its batch has been read.
            short.append(row.number)
            reports.append((row.number, f"{row.actual_columns} fields, {row.expected_columns} expected"))
            return "skip"

        done = 0
        names = list(columns)
        with closing(
            self._batches(names, invalid)
        ) as batches:  # its thread must not outlive a reader's error
            for batch in batches:
                for line, reason in reports:
                    self.report(line, reason, malformed)
                reports.clear()
                lines = _lines(np.arange(done, done + batch.num_rows), short)
                for start in range(0, batch.num_rows, rows):
                    yield lines[start : start + rows], batch.slice(start, rows)
                done += batch.num_rows
        for line, reason in reports:
            self.report(line, reason, malformed)

    def _batches(self, names: list[str], invalid: Any) -> Generator[pa.RecordBatch]:
        convert = pv.ConvertOptions(
            include_columns=names,
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=self.nulls,
        )
        reading = pv.ReadOptions(use_threads=False, block_size=BLOCK)
        parsing = _parsing(self.delimiter, invalid)
        with _named(self.path), pv.open_csv(self.path, reading, parsing, convert) as reader:
            yield from reader


def _parsing(delimiter: str, invalid: Any) -> pv.ParseOptions:
    return pv.ParseOptions(delimiter=delimiter, invalid_row_handler=invalid, newlines_in_values=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """The file is named in what pyarrow has to say of its content."""
    try:
        yield
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        encoding = "UTF8" in str(error) or isinstance(error, UnicodeDecodeError)
        hint = " (UTF-8 is expected: save the file in that encoding)" if encoding else ""
        raise ValueError(f"{path} cannot be read as CSV: {error}{hint}") from None


def _lines(row: Ints, short: list[int]) -> Ints:
    """The lines of data rows: after the header, and after the lines that were left out."""
    before = np.sort(np.array(short, np.int64)) - np.arange(len(short))
    return row + 2 + np.searchsorted(before, row + 2, side="right")


def csv_schema(path: Path, delimiter: str = ",") -> pa.Schema:
    """The names of the columns, and the types that the first lines suggest.

    They are parsed in memory: a reader of the file would go on reading in a thread of its own.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no log at {path}")
    short: list[int] = []

    def invalid(row: Any) -> str:
        short.append(row.number)
        return "skip"

    with _named(path):
        with pa.input_stream(path, compression="detect") as file:
            head = file.read(BLOCK)
            whole = len(head) < BLOCK
        lines = head + b"\n" if whole and head else head[: head.rfind(b"\n") + 1] or head
        reading = pv.ReadOptions(use_threads=False, block_size=2 * BLOCK)
        table = pv.read_csv(pa.BufferReader(lines), reading, _parsing(delimiter, invalid))
        names = table.schema.names
        if whole and not table.num_rows and not short:
            raise ValueError(f"{path} is empty: it holds no decisions, only a line of names")
    others = [sign for sign in DELIMITERS if sign != delimiter and sign in names[0]]
    if len(names) == 1 and others:
        raise ValueError(
            f"{path} has one column, {names[0]!r}: its delimiter seems to be {others[0]!r} "
            "(say so with delimiter, on a command line with --delimiter)"
        )
    return table.schema


def csv_source(path: Path, columns: Columns, errors: str, delimiter: str) -> CsvSource:
    """The log that `columns` makes of the file."""
    validation.option("errors", errors, ("raise", "skip"))
    if len(validation.text("delimiter", delimiter)) != 1:
        raise validation.BadValue("delimiter", f"delimiter must be one character, got {delimiter!r}")
    schema = csv_schema(path, delimiter)
    made = plan(columns, schema, str(path), infer=True)
    return CsvSource(made, str(path), path, errors, delimiter)
