"""The service's log as a `DecisionLog`, and as Parquet: one reading transaction, in batches, never whole."""

import functools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection, Row

from linmed.decision import probabilities_of, probability_of
from linmed.log import AT_ONCE, SCHEMA, Malformed, Source, ragged, write_parquet
from linmed.log.schema import OF_WORTH
from linmed.serve import store
from linmed.serve.bandit import Bandit
from linmed.serve.database import decisions, items, now, unpack, vector
from linmed.serve.decisions import log_probabilities
from linmed.serve.items import catalogue_at
from linmed.validation import Floats

EXPORT_ROWS = 8192
_STORED = {  # what columns of the log are made from, where that is not the column of the same name
    "decision_id": ("id",),
    "policy": ("version",),
    "version": ("absorbed",),
    "probability": ("log_probability", "fallback"),
    "log_probability": ("log_probability", "fallback"),
    "probabilities": ("arm", "arm_count", "log_probability", "log_probabilities"),
    "features": ("features", "context"),
    "arms": ("arms", "catalogue", "offered", "context", "fallback"),
    "best": ("best", "fallback"),
    "catalogue_version": ("catalogue",),
    "values": ("every_value",),
    "costs": ("every_cost",),
}


@dataclass
class LiveSource(Source):
    """One bandit's decisions in the order they were taken, with the rewards that have come.

    `connection` is inside one reading transaction, so two readings give the same rows. With `after`, only
    decisions numbered higher, whether their reward has come or not.
    """

    connection: Connection
    bandit: Bandit
    after: int = 0

    def __post_init__(self) -> None:
        self._names = store.policy_names(self.connection, self.bandit.id)
        # Version 0 are an imported agent's: nobody knows how probable they were.
        self._own = (decisions.c.bandit == self.bandit.id) & (decisions.c.version > 0)
        unknown = {
            "probabilities": decisions.c.log_probabilities.is_(None),
            # By route an item is found without making the arms of the others, which may be a million.
            "arms": decisions.c.arms.is_(None)
            & (decisions.c.catalogue.is_(None) | decisions.c.fallback.is_not(None)),
        }
        lacking = {name for name, absent in unknown.items() if self._some(absent)}
        if not self._some(decisions.c.control.is_not(None)):
            lacking |= {"control", "control_share"}
        if not self._some(decisions.c.shadow.is_not(None)):
            lacking.add("shadow")
        kinds = store.reward_kinds(self.connection, self.bandit.id)
        lacking |= set() if "missing" in kinds else {"missing"}
        lacking |= set() if kinds.get("outcomes") else {"outcomes"}
        if not self._some(decisions.c.fallback.is_not(None)):
            lacking |= {"fallback", "best"}
        if not self._some(decisions.c.value.is_not(None)):
            lacking |= {*OF_WORTH}
        elif not self.bandit.log_arms:
            lacking |= {"values", "costs"}
        for name, stored in (("catalogue_version", "catalogue"), ("context", "context")):
            if not self._some(decisions.c[stored].is_not(None)):
                lacking.add(name)
        self._columns = [name for name in SCHEMA.names if name not in lacking]
        self._versions = functools.lru_cache(maxsize=16)(
            functools.partial(catalogue_at, self.connection, self.bandit.id)
        )
        self._begun = now()

    @property
    def columns(self) -> list[str]:
        """Those of the log that the database has."""
        return self._columns

    def _some(self, condition: sa.ColumnElement[bool]) -> bool:
        """Whether some decision is such a one."""
        query = sa.select(sa.exists(sa.select(1).where(self._own, condition)))
        return bool(self.connection.execute(query).scalar_one())

    def vouches(self) -> bool:
        """The database takes no identifier twice."""
        return True

    def ended(self) -> int:
        """The present: a bandit that nobody asks any more grows older all the same.

        The log's last moment, where another server's clock is ahead of this one's.
        """
        return max(self._begun, store.newest_times(self.connection).get(self.bandit.id, 0))

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Batches of at most `rows` decisions, fewer where their arms are very many numbers.

        Two servers may write at the same moment with clocks that differ; as it is read, time never goes back,
        and no reward comes before its decision.
        """
        last, moment = self.after, -sys.maxsize
        if "arms" in columns:
            largest = sa.select(sa.func.max(decisions.c.arm_count)).where(
                (decisions.c.bandit == self.bandit.id) & decisions.c.fallback.is_(None)
            )
            widest = (self.connection.execute(largest).scalar() or 1) * self.bandit.dim
            rows = min(rows, max(1, AT_ONCE // widest))
        made = {one for name in (*columns, "time") for one in _STORED.get(name, (name,))}
        elsewhere = {"reward", "reward_time", "missing", "outcomes"}
        needed: list[Any] = [decisions.c[name] for name in sorted(made - elsewhere)]
        joined = store.with_rewards(decisions)
        if "features" in columns:
            joined = joined.outerjoin(items, items.c.number == decisions.c.item)
            needed.append(items.c.features.label("item"))
        query = (
            sa.select(decisions.c.number, *store.REWARDED, *needed)
            .select_from(joined)
            .where(self._own)
            .order_by(decisions.c.number)
            .limit(rows)
        )
        while found := self.connection.execute(query.where(decisions.c.number > last)).all():
            times = np.maximum.accumulate([moment, *(row.time for row in found)])[1:]
            yield pa.record_batch(
                [self._column(name, found, times) for name in columns],
                schema=pa.schema([SCHEMA.field(name) for name in columns]),
            )
            last, moment = found[-1].number, int(times[-1])
            if len(found) < rows:
                return

    def _column(self, name: str, rows: Sequence[Row[Any]], times: NDArray[np.int64]) -> pa.Array:
        kind = SCHEMA.field(name).type
        if name == "reward":
            return pa.array([row.assumed if self.bandit.ignores(row) else row.reward for row in rows], kind)
        if name in ("values", "costs"):
            found = [getattr(row, *_STORED[name]) for row in rows]
            return ragged([None if one is None else vector(one) for one in found], nested=False)
        if name == "missing":
            return pa.array([None if row.assumed is None else True for row in rows], kind)
        if name in ("shadow", "outcomes"):
            told = [getattr(row, name) for row in rows]
            return pa.array([None if one is None else list(json.loads(one).items()) for one in told], kind)
        if name == "time":
            return pa.array(times).cast(kind)
        if name == "reward_time":
            pairs = zip(times.tolist(), rows, strict=True)
            return pa.array(
                [None if r.reward_time is None else max(t, r.reward_time) for t, r in pairs], kind
            )
        if name == "policy":
            return pa.array([f"{self._names[row.version]} v{row.version}" for row in rows], kind)
        if name == "probability":
            return pa.array(
                [None if row.fallback else probability_of(row.log_probability) for row in rows], kind
            )
        if name == "log_probability":
            return pa.array([None if row.fallback else row.log_probability for row in rows], kind)
        if name == "features":
            return ragged([vector(store.played(row, self.bandit.joining)) for row in rows], nested=False)
        if name == "context":
            contexts = [None if row.context is None else unpack(row.context) for row in rows]
            return ragged(contexts, nested=False)
        if name == "best":  # among other arms than a catalogue's it is no place in one
            return pa.array([None if row.fallback is None else row.best for row in rows], kind)
        if name == "probabilities":
            every = [log_probabilities(row._mapping) for row in rows]
            return ragged([None if one is None else probabilities_of(one) for one in every], nested=False)
        if name == "arms":
            return ragged([self._arms(row) for row in rows], nested=True)
        (stored,) = _STORED.get(name, (name,))
        return pa.array([getattr(row, stored) for row in rows], kind)

    def _arms(self, row: Row[Any]) -> Floats | None:
        """Every arm's features (K, d): the request's own, or made again from the catalogue it saw."""
        if row.arms is not None:
            return vector(row.arms).reshape(-1, self.bandit.dim)
        if row.catalogue is None or row.fallback is not None:
            return None
        features = self._versions(row.catalogue).features
        if row.offered is not None:
            features = features[np.frombuffer(row.offered, dtype="<u4")]
        context = np.empty(0) if row.context is None else unpack(row.context)
        return self.bandit.joining.join(features, context)


def export(source: LiveSource, path: Path) -> int:
    """Write the log to one Parquet file; returns the number of decisions."""
    return write_parquet(path, SCHEMA, source.read(SCHEMA.names, EXPORT_ROWS, Malformed()))
