"""Store finished batches in a directory of Parquet files, found again by what they were computed from.

Every file is `trials/<configuration>-<first trial>-<last trial>-<content>.parquet`: a hash of the
whole configuration, the trials, and a hash of the file's own bytes. A file appears under its name complete
or not at all, so a killed run loses only what it had not finished; a file whose bytes or configuration do
not match its name is set aside and its trials are computed again.
"""

import hashlib
import json
import os
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import __version__
from linmed.extras import Later, require
from linmed.files import PARTIAL, write_atomically
from linmed.report.tables import Table
from linmed.simulation.trials import Job, Outcome
from linmed.validation import Ints

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pa, pc, pq = (
        Later(name, "a store of results", "log") for name in ("pyarrow", "pyarrow.compute", "pyarrow.parquet")
    )

FORMAT = 2
MARKER = "_linmed-store.json"  # readers of Parquet directories pass over names that begin with _ or .
ARRAYS = b"linmed.arrays"
"""Where a file's metadata names the columns that `Job.run` computed."""


class StoreError(ValueError):
    """The directory cannot be used as a store; the message says what to do.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = Path(folder, "letters.txt").write_text("mine")
    ...     try:
    ...         Store(folder)
    ...     except StoreError:
    ...         print("that directory holds something else")
    that directory holds something else
    """


class StoreWarning(UserWarning):
    """A file in the store was damaged; its trials are computed again.

    >>> import tempfile
    >>> from linmed import LinMED, simulate
    >>> from linmed.environments import LargeGap
    >>> asked = {"horizon": 100, "trials": 2, "progress": False}
    >>> with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always", StoreWarning)
    ...     first = simulate(LinMED(), LargeGap(), store=folder, **asked)
    ...     size = next(Path(folder, "trials").glob("*.parquet")).write_bytes(b"half a file")
    ...     again = simulate(LinMED(), LargeGap(), store=folder, **asked)
    >>> len(said), bool((first.final("LinMED") == again.final("LinMED")).all())
    (1, True)
    """


class Finished(NamedTuple):
    """Trials of one job that have been computed."""

    trials: Ints
    arrays: Outcome

    @staticmethod
    def together(parts: "list[Finished]") -> "Finished":
        """All of them in ascending order, each once."""
        if not parts:
            return Finished(np.empty(0, dtype=np.int64), {})
        trials, first = np.unique(np.concatenate([part.trials for part in parts]), return_index=True)
        names = parts[0].arrays
        return Finished(
            trials, {name: np.concatenate([part.arrays[name] for part in parts])[first] for name in names}
        )


class Store:
    """A directory of results. Made if it does not exist; a directory of something else is refused.

    >>> import tempfile
    >>> from linmed import LinMED, simulate
    >>> from linmed.environments import LargeGap
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = simulate(LinMED(), LargeGap(), horizon=100, trials=3, store=folder, progress=False)
    ...     Store(folder).table()["trial"].to_pylist()
    [0, 1, 2]
    """

    def __init__(self, path: str | Path) -> None:
        require("a store of results", "log")
        self.path = Path(path)
        marker = self.path / MARKER
        if marker.exists():
            self._check_format(marker)
        else:
            self._create(marker)
        self.trials = self.path / "trials"
        self.trials.mkdir(exist_ok=True)
        self._sweep()

    def load(self, job: Job) -> Finished:
        """The trials of the job that are here."""
        found = []
        for file in sorted(self.trials.glob(f"{self.key(job)}-*.parquet")):
            table = self._read(file)
            if table is not None:
                trials = table["trial"].to_numpy()
                wanted = np.isin(trials, job.trials)
                arrays = {
                    name: _rows(table[name])[wanted] for name in json.loads(table.schema.metadata[ARRAYS])
                }
                found.append(Finished(trials[wanted], arrays))
        return Finished.together(found)

    def held(self, job: Job) -> int:
        """How many of the job's trials are here, by the names of the files alone."""
        here: set[int] = set()
        for file in self.trials.glob(f"{self.key(job)}-*.parquet"):
            _, first, last, _ = file.stem.split("-")
            here.update(range(int(first), int(last) + 1))
        return len(here.intersection(job.trials))

    def save(self, job: Job, outcome: Outcome) -> Path:
        """Write a finished batch; it is on the disk when this returns."""
        sink = pa.BufferOutputStream()
        pq.write_table(_table(job, outcome, self.key(job)), sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
        name = f"{self.key(job)}-{job.trials[0]:06d}-{job.trials[-1]:06d}-{_digest(content)}.parquet"
        return write_atomically(self.trials / name, content, scratch=self.path)

    def table(self) -> Table:
        """Everything in the store, one row per trial; parameters that a policy lacks are null."""
        tables = [
            table for file in sorted(self.trials.glob("*.parquet")) if (table := self._read(file)) is not None
        ]
        return Table(pa.concat_tables(tables, promote_options="permissive") if tables else {})

    @staticmethod
    def key(job: Job) -> str:
        """The hash of all that the numbers depend on, the trials aside."""
        return _digest(_configuration(job).encode())

    def _read(self, file: Path) -> "pa.Table | None":
        """The file's table; None, and the file set aside, if its name is not that of what it holds."""
        content = file.read_bytes()
        if _digest(content) == file.stem.rsplit("-", 1)[-1]:
            table = pq.read_table(pa.BufferReader(content))
            if pc.unique(table["key"]).to_pylist() == file.stem.split("-")[:1]:
                return table
        aside = self.path / f"_{file.stem}.damaged"
        os.replace(file, aside)
        warnings.warn(
            f"{file} is damaged or not under its own name: it is kept as {aside} and its trials will be "
            "computed again",
            StoreWarning,
            stacklevel=4,
        )
        return None

    def _create(self, marker: Path) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path} is a file; a store is a directory: choose another path")
        if self.path.exists() and any(not child.name.startswith(".") for child in self.path.iterdir()):
            raise StoreError(
                f"{self.path} holds files but no {MARKER}, so it is not a store of linmed and is left "
                "untouched: choose an empty or a new directory"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(marker, json.dumps({"format": FORMAT, "linmed": __version__}).encode())

    def _check_format(self, marker: Path) -> None:
        try:
            written = json.loads(marker.read_text(encoding="utf-8"))
            format_ = written["format"]
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                f'{marker} is damaged. If the directory is a store, write {{"format": {FORMAT}}} into that '
                "file: the results beside it are checked one by one"
            ) from None
        if format_ != FORMAT:
            raise StoreError(
                f"{self.path} is a store of format {format_}, written by linmed "
                f"{written.get('linmed', '?')}; linmed {__version__} reads format {FORMAT}. Give a new "
                "directory to compute the results again, or use the version of linmed that wrote it"
            )

    def _sweep(self) -> None:
        """Remove what killed runs left half-written, once no run can still be writing it."""
        for partial in self.path.glob(f".*{PARTIAL}"):
            with suppress(FileNotFoundError):  # another process was quicker
                if time.time() - partial.stat().st_mtime > 86_400:
                    partial.unlink()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _configuration(job: Job) -> str:
    """All that the numbers depend on, the trials aside, as canonical JSON."""
    everything = {
        "environment": job.environment.identity(),
        "horizon": job.horizon,
        "seed": job.seed,
        "linmed": __version__,
        **job.configuration(),
    }
    return json.dumps(everything, sort_keys=True)


def _table(job: Job, outcome: Outcome, key: str) -> "pa.Table":
    """One row per trial: what was run, its parameters as columns, and what was computed; curves as lists."""
    rows = len(job.trials)
    same = {
        "environment": ("string", job.environment.name),
        "horizon": ("int64", job.horizon),
        "seed": ("string", str(job.seed)),  # text: a seed may exceed 64 bits
        **job.columns(),
        "linmed": ("string", __version__),
        "configuration": ("string", _configuration(job)),
        "key": ("string", key),
    }
    columns: dict[str, Any] = {"trial": pa.array(job.trials, pa.int64())}
    columns |= {name: pa.array([value] * rows, arrow_type(kind)) for name, (kind, value) in same.items()}
    for name, array in outcome.items():
        values = pa.array(array.ravel())
        ends = pa.array(np.arange(rows + 1, dtype=np.int32) * (array.size // rows))
        columns[name] = values if array.ndim == 1 else pa.ListArray.from_arrays(ends, values)
    return pa.table(columns).replace_schema_metadata({ARRAYS: json.dumps(list(outcome))})


def arrow_type(kind: str) -> "pa.DataType":
    """By its name; `list<int64>` is one of lists."""
    inside = kind.removeprefix("list<").removesuffix(">")
    return pa.type_for_alias(kind) if kind == inside else pa.list_(pa.type_for_alias(inside))


def _rows(column: "pa.ChunkedArray") -> NDArray[Any]:
    """A column as it was before `_table`: numbers (R,), lists of equal length (R, m)."""
    if not pa.types.is_list(column.type):
        return np.asarray(column.to_numpy())
    flat = np.asarray(pc.list_flatten(column).to_numpy())
    return flat.reshape(len(column), -1)
