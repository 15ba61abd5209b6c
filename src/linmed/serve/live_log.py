"""The service's log as a `DecisionLog`, and as Parquet: one reading transaction, in batches, never whole."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from linmed.log import AT_ONCE, SCHEMA, Malformed, ragged, write_parquet
from linmed.serve import store
from linmed.serve.bandit import Bandit
from linmed.serve.database import decisions, now, rewards

EXPORT_ROWS = 8192

_STORED = {  # what columns of the log are made from, where it has another name
    "decision_id": "id",
    "policy": "version",
    "version": "absorbed",
    "probability": "log_probability",
    "probabilities": "log_probabilities",
}


@dataclass
class LiveSource:
    """One bandit's decisions in the order they were taken, with the rewards that have come.

    `connection` is inside one reading transaction, so two readings give the same rows. With `after`, only
    decisions numbered higher, whether their reward has come or not.
    """

    connection: Connection
    bandit: Bandit
    after: int = 0

    def __post_init__(self) -> None:
        self._names = store.policy_names(self.connection, self.bandit.id)
        lacking = {
            name: column
            for name, column in (("probabilities", decisions.c.log_probabilities), ("arms", decisions.c.arms))
            if self.connection.execute(
                sa.select(
                    sa.exists(sa.select(1).where(decisions.c.bandit == self.bandit.id, column.is_(None)))
                )
            ).scalar_one()
        }
        self.columns = [name for name in SCHEMA.names if name not in lacking]
        self._begun = now()

    def vouches(self) -> bool:
        """The database takes no identifier twice."""
        return True

    def ended(self) -> int:
        """The present: a bandit that nobody asks any more grows older all the same."""
        return self._begun

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Batches of at most `rows` decisions, fewer where their arms are very many numbers."""
        last = self.after
        if "arms" in columns:
            largest = sa.select(sa.func.max(decisions.c.arm_count)).where(
                decisions.c.bandit == self.bandit.id
            )
            widest = (self.connection.execute(largest).scalar() or 1) * self.bandit.dim
            rows = min(rows, max(1, AT_ONCE // widest))
        names = {_STORED.get(name, name) for name in columns} - {"reward", "reward_time"}
        needed = [decisions.c[name] for name in sorted(names)]
        joined = decisions.outerjoin(rewards, rewards.c.decision == decisions.c.number)
        query = (
            sa.select(decisions.c.number, rewards.c.reward, rewards.c.time.label("reward_time"), *needed)
            .select_from(joined)
            .where(decisions.c.bandit == self.bandit.id)
            .order_by(decisions.c.number)
            .limit(rows)
        )
        while found := self.connection.execute(query.where(decisions.c.number > last)).all():
            yield pa.record_batch(
                [self._column(name, found) for name in columns],
                schema=pa.schema([SCHEMA.field(name) for name in columns]),
            )
            last = found[-1].number
            if len(found) < rows:
                return

    def _column(self, name: str, rows: Sequence[Row[Any]]) -> pa.Array:
        kind = SCHEMA.field(name).type
        if name == "policy":
            return pa.array([f"{self._names[row.version]} v{row.version}" for row in rows], kind)
        if name == "probability":
            return pa.array(np.exp([row.log_probability for row in rows]), kind)
        if name == "features":
            return ragged([store.vector(row.features) for row in rows], nested=False)
        if name == "probabilities":
            every = [row.log_probabilities for row in rows]
            return ragged([None if one is None else np.exp(store.vector(one)) for one in every], nested=False)
        if name == "arms":
            dim = self.bandit.dim
            shaped = [None if row.arms is None else store.vector(row.arms).reshape(-1, dim) for row in rows]
            return ragged(shaped, nested=True)
        return pa.array([getattr(row, _STORED.get(name, name)) for row in rows], kind)


def export(source: LiveSource, path: Path) -> int:
    """Write the log to one Parquet file; returns the number of decisions."""
    return write_parquet(path, SCHEMA, source.read(SCHEMA.names, EXPORT_ROWS, Malformed()))
