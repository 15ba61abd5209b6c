"""What the log says: statistics, and the value of policies that were not followed."""

import contextlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from linmed.policies import Policy
from linmed.question import OPTIONS, Question
from linmed.serve import store, trends
from linmed.serve.bandit import Bandit, as_policy
from linmed.serve.database import Database, bandits, decisions, now, policies, rewards
from linmed.serve.errors import INPUT, Refused, field_of, place
from linmed.serve.live_log import LiveSource, export
from linmed.validation import BadValue

RECENT = 2000
"""Decisions behind the shares and the exploration rate."""
POINTS = 60
"""Points of the curves over time."""


class Reports:
    """What is dear to compute, for a process of its own; remembers what targets have learned."""

    def __init__(self, database: Database):
        self.database = database
        self._trained: dict[tuple[int, str, int], Bandit] = {}

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A reading transaction that may think for as long as it likes between two batches of the log."""
        with self.database.reader.begin() as connection:
            if not self.database.sqlite:  # where idle transactions are ended, for the sake of locks
                connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield connection

    def evaluate(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        """`linmed.ope.evaluate` on the live log."""
        with self.reading() as connection:
            row = store.the_bandit(connection, name)
            try:
                return self._evaluate(connection, row, **request)
            except INPUT as error:
                field = field_of(error)
                wrong = field if field is not None and field.partition("[")[0] in request else None
                raise Refused("invalid", str(error), wrong) from None

    def trend(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        """`trends.trend` of a bandit."""
        with self.reading() as connection:
            return trends.trend(connection, store.the_bandit(connection, name), **request)

    def export(self, name: str, path: str) -> int:
        """The whole log as one Parquet file; the number of its decisions."""
        with self.reading() as connection:
            bandit = store.as_bandit(connection, store.the_bandit(connection, name))
            return export(LiveSource(connection, bandit), Path(path))

    def _evaluate(
        self,
        connection: Connection,
        row: Row[Any],
        targets: list[Any],
        **asked: Any,
    ) -> dict[str, Any]:
        """`asked` is what `linmed.ope.evaluate` takes besides; its defaults are the service's too."""
        from linmed.ope import DecisionLog, OPEWarning, evaluate  # heavy, and not needed to decide
        from linmed.ope.plan import as_since, in_words

        question = Question(**{name: value for name, value in asked.items() if name in OPTIONS})
        bandit = store.as_bandit(connection, row)
        named: dict[str, Any] = {}
        trained: list[tuple[str, Policy]] = []
        for i, target in enumerate(targets):
            name = target if isinstance(target, str) else target["name"]
            if name in named:
                where = place("targets", i)
                raise BadValue(where, f"{where}: targets need distinct names, {name!r} occurs twice")
            named[name] = target  # what is trained takes its place
            if target == "greedy":
                trained.append((name, bandit.policy.greedy()))
            elif not isinstance(target, str):
                trained.append((name, as_policy(target["policy"], place("targets", i, "policy"))))
        title, first, after, count = f"the log of {bandit.name}", 0, 0, 0
        if trained:
            first, after = _training_part(connection, bandit.id)
            title += f" after its first {first} decisions"
            for name, policy in trained:
                learned = self._train(connection, row, policy, after)
                named[name], count = (learned.policy, learned.state), learned.count
            if count == 0:
                text = "a policy learns from the rewards of the first half of the decisions; none has come"
                raise BadValue("targets", f"targets: {text}")
        log = DecisionLog(LiveSource(connection, bandit, after), title)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", OPEWarning)
            begins = None if question.since is None else as_since(question.since)
            if isinstance(begins, int) and begins >= 0:  # the log that is judged may begin later than the log
                begins = max(begins - first, 0)
            possible = question.reward_range or bandit.reward_range
            table = evaluate(log, named, **{**asked, "since": begins, "reward_range": possible})
        return {
            "results": table.to_pylist(),
            "trained_on": count,
            **{key: _metadata(table, key) for key in ("decisions", "waiting", "judged")},
            "value": in_words(question),
            "warnings": [str(one.message) for one in caught if issubclass(one.category, OPEWarning)],
        }

    def _train(self, connection: Connection, row: Row[Any], policy: Policy, until: int) -> Bandit:
        """`policy` after the rewards of decisions up to `until`; the last ones asked for are remembered."""
        key = (row.id, json.dumps(policy.to_dict(), sort_keys=True), until)
        if key not in self._trained:
            fresh = store.as_bandit(connection, row)
            fresh.policy = policy
            if fresh.keeps:
                name = type(policy).__name__
                raise BadValue("targets", f"targets: {name} cannot learn from another policy's decisions")
            fresh.state = policy.start(1, fresh.dim)
            while len(self._trained) >= 16:
                del self._trained[next(iter(self._trained))]
            self._trained[key] = fresh
        store.fold_log(connection, self._trained[key], until)  # late rewards, where it was remembered
        return self._trained[key]


def _training_part(connection: Connection, bandit: int) -> tuple[int, int]:
    """The largest power of two that is at most half of the decisions, and the number of that decision.

    Targets learn from the rewards of these decisions and are judged on the decisions since. What divides
    them is the order in which they were taken, never when their rewards came: quick rewards may differ from
    late ones. Powers of two change seldom, so that what was learned can be remembered.
    """
    total = connection.execute(sa.select(sa.func.count()).where(decisions.c.bandit == bandit)).scalar_one()
    if total < 2:
        return 0, 0
    count = 1 << ((total // 2).bit_length() - 1)
    query = sa.select(decisions.c.number).where(decisions.c.bandit == bandit).order_by(decisions.c.number)
    return count, connection.execute(query.offset(count - 1).limit(1)).scalar_one()


def _metadata(table: pa.Table, key: str) -> int:
    return int((table.schema.metadata or {}).get(key.encode(), b"0"))


def statistics(connection: Connection, name: str) -> dict[str, Any]:
    """Counts, means, and the recent past in curves."""
    row = store.the_bandit(connection, name)
    total = connection.execute(sa.select(sa.func.count()).where(decisions.c.bandit == row.id)).scalar_one()
    rewarded, mean = connection.execute(
        sa.select(sa.func.count(), sa.func.avg(rewards.c.reward)).where(rewards.c.bandit == row.id)
    ).one()
    recent = connection.execute(
        sa.select(*decisions.c["arm", "arm_id", "best", "time"])
        .where(decisions.c.bandit == row.id)
        .order_by(decisions.c.number.desc())
        .limit(RECENT)
    ).all()
    versions = connection.execute(
        sa.select(*policies.c["version", "name", "created"])
        .where(policies.c.bandit == row.id)
        .order_by(policies.c.version)
    ).all()
    return {
        "name": row.name,
        "policy": row.policy_name,
        "policy_version": row.version,
        "policy_versions": [one._asdict() for one in versions],
        "archived": row.archived,
        "decisions": total,
        "rewards": rewarded,
        "pending": total - rewarded,
        "mean_reward": None if mean is None else float(mean),
        "recent": len(recent),
        "exploration_rate": _share(recent),
        "arm_shares": _arm_shares(recent),
        "over_time": _over_time(connection, row.id, recent),
    }


def _share(recent: store.Rows) -> float | None:
    """How often the arm played was not the one with the largest estimate, where that is known."""
    known = [row for row in recent if row.best >= 0]
    return sum(row.arm != row.best for row in known) / len(known) if known else None


def _arm_shares(recent: store.Rows) -> list[dict[str, Any]]:
    counts: dict[str, int] = {}
    for row in recent:
        name = str(row.arm) if row.arm_id is None else row.arm_id
        counts[name] = counts.get(name, 0) + 1
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:20]
    return [{"arm": name, "share": count / len(recent)} for name, count in ranked]


def _over_time(connection: Connection, bandit: int, recent: store.Rows) -> list[dict[str, Any]]:
    """Decisions, rewards, mean reward and exploration in equal spans of time over the recent decisions."""
    if not recent:
        return []
    taken = np.maximum.accumulate([row.time for row in reversed(recent)])[::-1]  # two servers' clocks differ
    first = int(taken[-1])
    arrived = connection.execute(
        sa.select(rewards.c.time, rewards.c.reward)
        .where((rewards.c.bandit == bandit) & (rewards.c.time >= first))
        .order_by(rewards.c.seq.desc())
        .limit(2 * RECENT)
    ).all()

    def per_span(times: Any, weights: list[float] | None = None) -> Any:
        return np.histogram(times, edges, weights=weights)[0]

    came = [row.time for row in arrived]
    edges = np.linspace(first, max(now(), int(taken[0]), *came) + 1, POINTS + 1)
    known = np.array([row.best >= 0 for row in recent])
    judged = per_span(taken[known])
    explored = per_span(taken[known], [float(row.arm != row.best) for row in recent if row.best >= 0])
    counts = per_span(taken)
    numbers, sums = per_span(came), per_span(came, [row.reward for row in arrived])
    return [
        {
            "time": int(edges[i]),
            "decisions": int(counts[i]),
            "rewards": int(numbers[i]),
            "mean_reward": float(sums[i] / numbers[i]) if numbers[i] else None,
            "exploration_rate": float(explored[i] / judged[i]) if judged[i] else None,
        }
        for i in range(POINTS)
    ]


def overview(connection: Connection) -> list[dict[str, Any]]:
    """Every bandit in a line."""
    rows = connection.execute(
        sa.select(*bandits.c["name", "dim", "version", "archived", "created"])
        .add_columns(policies.c.name.label("policy"))
        .join(policies, (policies.c.bandit == bandits.c.id) & (policies.c.version == bandits.c.version))
        .order_by(bandits.c.name)
    ).all()
    return [row._asdict() for row in rows]
