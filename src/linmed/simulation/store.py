"""Finished batches in a directory of Parquet files, found again by what they were computed from.

Every file is `trials/<configuration>-<first trial>-<last trial>-<content>.parquet`: a hash of the
whole configuration, the trials, and a hash of the file's own bytes. A file appears under its name complete
or not at all, so a killed run loses only what it had not finished; a file whose bytes do not match
its name is set aside and its trials are computed again.
"""

import hashlib
import json
import os
import time
import uuid
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linmed import __version__
from linmed.checks import Floats, Ints
from linmed.simulation.batch import Outcome, Task
from linmed.simulation.columns import parameter_columns

FORMAT = 1
MARKER = "_linmed-store.json"  # readers of Parquet directories pass over names that begin with _ or .


class StoreError(Exception):
    """The directory cannot be used as a store; the message says what to do."""


class StoreWarning(UserWarning):
    """A file in the store was damaged; its trials are computed again."""


class Trial(NamedTuple):
    """One trial's results."""

    regret: Floats  # (checkpoints,)
    pulls: Ints  # (K,)
    seconds: float

    @staticmethod
    def split(task: Task, outcome: Outcome) -> "dict[int, Trial]":
        """An outcome by trial; the time is shared equally."""
        share = outcome.seconds / len(task.trials)
        return {
            trial: Trial(outcome.regret[row], outcome.pulls[row], share)
            for row, trial in enumerate(task.trials)
        }


class Store:
    """A directory of results. Made if it does not exist; a directory of something else is refused."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        marker = self.path / MARKER
        if marker.exists():
            self._check_format(marker)
        else:
            self._create(marker)
        self.trials = self.path / "trials"
        self.trials.mkdir(exist_ok=True)
        self._sweep()

    def load(self, task: Task) -> dict[int, Trial]:
        """The trials of the task that are here."""
        found: dict[int, Trial] = {}
        wanted = set(task.trials)
        for file in sorted(self.trials.glob(f"{self.key(task)}-*.parquet")):
            table = self._read(file)
            if table is None:
                continue
            for row in table.select(["trial", "regret", "pulls", "seconds"]).to_pylist():
                if row["trial"] in wanted:
                    found[row["trial"]] = Trial(
                        np.array(row["regret"], dtype=np.float64),
                        np.array(row["pulls"], dtype=np.int64),
                        row["seconds"],
                    )
        return found

    def save(self, task: Task, outcome: Outcome) -> Path:
        """Write a finished batch; it is on the disk when this returns."""
        sink = pa.BufferOutputStream()
        pq.write_table(_table(task, outcome, self.key(task)), sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
        digest = hashlib.sha256(content).hexdigest()[:16]
        name = f"{self.key(task)}-{task.trials[0]:06d}-{task.trials[-1]:06d}-{digest}.parquet"
        return self._write(self.trials / name, content)

    def table(self) -> pa.Table:
        """Everything in the store, one row per trial; parameters that a policy lacks are null."""
        tables = [
            table for file in sorted(self.trials.glob("*.parquet")) if (table := self._read(file)) is not None
        ]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})

    @staticmethod
    def key(task: Task) -> str:
        """The hash of all that the numbers depend on, the trials aside."""
        return hashlib.sha256(_configuration(task).encode()).hexdigest()[:16]

    def _write(self, target: Path, content: bytes) -> Path:
        """All or nothing: a file of another name first, then a rename."""
        partial = self.path / f".{uuid.uuid4().hex}.part"
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
        return target

    def _read(self, file: Path) -> pa.Table | None:
        """The file's table; None, and the file set aside, if its bytes are not those that were written."""
        content = file.read_bytes()
        if hashlib.sha256(content).hexdigest()[:16] == file.stem.rsplit("-", 1)[-1]:
            return pq.read_table(pa.BufferReader(content))
        aside = self.path / f"_{file.stem}.damaged"
        os.replace(file, aside)
        warnings.warn(
            f"{file} is damaged: it is kept as {aside} and its trials will be computed again",
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
        self._write(marker, json.dumps({"format": FORMAT, "linmed": __version__}).encode())

    def _check_format(self, marker: Path) -> None:
        try:
            written = json.loads(marker.read_text())
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
        for partial in self.path.glob(".*.part"):
            try:
                if time.time() - partial.stat().st_mtime > 86_400:
                    partial.unlink()
            except FileNotFoundError:  # another process was quicker
                pass


def _configuration(task: Task) -> str:
    """All that the numbers depend on, the trials aside, as canonical JSON."""
    return json.dumps(
        {
            "policy": task.policy.to_dict(),
            "environment": task.environment.identity(),
            "horizon": task.horizon,
            "seed": task.seed,
            "checkpoints": len(task.checkpoints),
            "linmed": __version__,
        },
        sort_keys=True,
    )


def _table(task: Task, outcome: Outcome, key: str) -> pa.Table:
    """One row per trial: what was run, its parameters as columns, and the curve as lists."""
    rows = len(task.trials)
    columns: dict[str, pa.Array] = {
        "policy": pa.array([task.policy.name] * rows),
        "environment": pa.array([task.environment.name] * rows),
        "horizon": pa.array([task.horizon] * rows),
        "seed": pa.array([str(task.seed)] * rows),  # text: a seed may exceed 64 bits
        "trial": pa.array(task.trials, pa.int64()),
        "final_regret": pa.array(outcome.regret[:, -1]),
        "seconds": pa.array([outcome.seconds / rows] * rows),
    }
    for name, (type_, value) in parameter_columns(task.policy, task.environment).items():
        columns[name] = pa.array([value] * rows, type_)
    columns["round"] = pa.array([task.checkpoints.tolist()] * rows, pa.list_(pa.int64()))
    columns["regret"] = pa.array(outcome.regret.tolist(), pa.list_(pa.float64()))
    columns["pulls"] = pa.array(outcome.pulls.tolist(), pa.list_(pa.int64()))
    columns["linmed"] = pa.array([__version__] * rows)
    columns["configuration"] = pa.array([_configuration(task)] * rows)
    columns["key"] = pa.array([key] * rows)
    return pa.table(columns)
