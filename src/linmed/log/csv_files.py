"""Any CSV file, streamed as text that a plan makes a log of."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv

from linmed import checks
from linmed.checks import Ints
from linmed.log.mapped import Mapped, Numbered
from linmed.log.mapping import Columns, plan
from linmed.log.source import Malformed

BLOCK = 4 << 20
"""Bytes of the file that are parsed at once."""


@dataclass(frozen=True)
class CsvSource(Mapped):
    """A CSV file with a line of names."""

    path: Path
    errors: str = "raise"
    delimiter: str = ","
    nulls: bool = True
    """Whether an empty field, NA, NaN and the like are no value."""
    unit = "line"

    def numbered(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[Numbered]:
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
        for batch in self._batches(names, invalid):
            for line, reason in reports:
                self.report(line, reason, malformed)
            reports.clear()
            lines = _lines(np.arange(done, done + batch.num_rows), short)
            for start in range(0, batch.num_rows, rows):
                yield lines[start : start + rows], batch.slice(start, rows)
            done += batch.num_rows
        for line, reason in reports:
            self.report(line, reason, malformed)

    def _batches(self, names: list[str], invalid: Any) -> Iterator[pa.RecordBatch]:
        convert = pv.ConvertOptions(
            include_columns=names,
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=self.nulls,
        )
        with _opened(self.path, self.delimiter, convert, invalid) as reader:
            yield from reader


@contextmanager
def _opened(path: Path, delimiter: str, convert: pv.ConvertOptions | None, invalid: Any) -> Iterator[Any]:
    """A reader of the file, which is named in what pyarrow has to say of its content."""
    try:
        with pv.open_csv(
            path,
            read_options=pv.ReadOptions(use_threads=False, block_size=BLOCK),
            parse_options=pv.ParseOptions(
                delimiter=delimiter, invalid_row_handler=invalid, newlines_in_values=True
            ),
            convert_options=convert,
        ) as reader:
            yield reader
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read as CSV: {error}") from None


def _lines(row: Ints, short: list[int]) -> Ints:
    """The lines of data rows: after the header, and after the lines that were left out."""
    before = np.sort(np.array(short, np.int64)) - np.arange(len(short))
    return row + 2 + np.searchsorted(before, row + 2, side="right")


def csv_schema(path: Path, delimiter: str = ",") -> pa.Schema:
    """The names of the columns, and the types that the first lines suggest."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no log at {path}")
    with _opened(path, delimiter, None, lambda row: "skip") as reader:
        return reader.schema


def csv_source(path: Path, columns: Columns, errors: str, delimiter: str) -> CsvSource:
    """The log that `columns` makes of the file."""
    checks.option("errors", errors, ("raise", "skip"))
    if len(checks.text("delimiter", delimiter)) != 1:
        raise checks.BadValue("delimiter", f"delimiter must be one character, got {delimiter!r}")
    schema = csv_schema(path, delimiter)
    made = plan(columns, schema, str(path), infer=True)
    return CsvSource(made, str(path), path, errors, delimiter)
