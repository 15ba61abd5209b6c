"""Make a bandit that goes on where an agent's file or a decision log ends: `linmed serve --import`.

Everything is written in one transaction, so a bandit is imported wholly or not at all, whatever happens on
the way, and servers on the same database may run meanwhile.

A *log* becomes the bandit's log: its decisions with their probabilities, times and ids, and its rewards in
the order in which they came. The policies that took them become versions 1 to m, of which only the names are
known; the policy that is to serve is version m + 1 and has learned from all of them, as the state is the
fold of the log.

An *agent's file* holds what was learned, not from what. Its state is the bandit's origin, from which the log
is folded. Decisions that wait for their reward are put into the log as version 0: their rewards are taken,
but they are not evaluated, since the file does not say how probable they were.
"""

import hashlib
import io
import json
import math
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray
from pydantic import ValidationError
from sqlalchemy.engine import Connection

from linmed.agent import Agent
from linmed.decider import Decider
from linmed.log import ENTRY_ERROR, SCHEMA, SUM_ERROR, DecisionLog
from linmed.log.schema import TIME
from linmed.ope.log_facts import begins_with
from linmed.policies import Policy
from linmed.policies.linmed import NOTHING_TOLD
from linmed.serve import store
from linmed.serve.bandit import as_policy
from linmed.serve.database import Database, DatabaseError, bandits, blob, decisions, now, origins, policies
from linmed.serve.parsing import explained
from linmed.serve.schemas import NewBandit
from linmed.serve.settings import LARGEST
from linmed.validation import Floats, Ints

ZIP = b"PK\x03\x04"
"""How a file that numpy wrote begins."""
REWARDS = 5000
"""Rewards in one INSERT."""

Progress = Callable[[int], object]


def import_file(
    database: Database,
    path: Path,
    name: str,
    policy: dict[str, Any] | None = None,
    progress: Progress = lambda rows: None,
) -> str:
    """Make the bandit `name` of what is at `path`; return what was imported.

    `policy` (as JSON has it) is to serve a log's bandit, LinMED by default. `progress` is told the number of
    decisions written so far.
    """
    if not path.exists():
        raise ValueError(f"there is no file {path}: --import needs an agent's file or a decision log")
    if not path.is_file() and not path.is_dir():  # to open a pipe would be to wait for its other end
        raise ValueError(f"{path} is no file: --import needs an agent's file or a decision log")
    if _is_agent(path):
        if policy is not None:
            raise ValueError(f"--policy is for decision logs: {path} is an agent's file and has its own")
        return _import_agent(database, Agent.load(path), name)
    try:
        log = DecisionLog.open(path)
    except ValueError as error:
        text = "other formats: DecisionLog.from_csv(...).save(FOLDER) writes a folder that can be imported"
        raise ValueError(f"{path} is neither an agent's file nor a decision log: {error} ({text})") from None
    return _import_log(database, log, name, as_policy(policy or NOTHING_TOLD.to_dict(), "--policy"), progress)


def _is_agent(path: Path) -> bool:
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(len(ZIP)) == ZIP


# An agent


def _import_agent(database: Database, agent: Agent, name: str) -> str:
    policy, waiting, taken = agent.policy, agent.pending_features(), agent.pending_times()
    if not policy.learns_from_arms:
        raise ValueError(
            f"{policy.name} cannot be imported: it decides among one fixed set of arms, which an agent's "
            "file does not hold"
        )
    if agent.deadlines is not None or type(agent._decider) is not Decider:
        raise ValueError(
            "an agent with deadlines, a control group or shadow policies cannot be imported: make a bandit "
            "with these options, and import the agent's log if it is to learn from that"
        )
    with _new_bandit(database, name, agent.dim, policy) as (connection, bandit):
        state = _saved(agent)
        digest = hashlib.sha256(state).digest()
        connection.execute(sa.insert(origins).values(bandit=bandit, state=state, digest=digest))
        if waiting:
            _add_version(connection, bandit, 0, policy.name)
            row = {**BLANK, "bandit": bandit, "version": 0, "absorbed": 0, "time": now()}
            row |= {"arm": 0, "arm_count": 1, "best": UNKNOWN_ARM, "log_probability": 0.0}
            _add_decisions(
                connection,
                [
                    {
                        **row,
                        "id": one,
                        "features": blob(vector),
                        "time": round(1e6 * taken.get(one, now() / 1e6)),
                    }
                    for one, vector in waiting.items()
                ],
            )
    return (
        f"bandit {name!r} goes on with {policy.name} after {agent.count} rewards; "
        f"{len(waiting)} decisions wait for theirs"
    )


def _saved(agent: Agent) -> bytes:
    file = io.BytesIO()
    np.savez(file, **agent.state.arrays())
    return file.getvalue()


# A log


def _import_log(database: Database, log: DecisionLog, name: str, policy: Policy, progress: Progress) -> str:
    if not policy.learns_from_arms:
        raise ValueError(
            f"--policy: {policy.name} cannot learn from another policy's decisions, as LinMED can"
        )
    rows = LogRows(log)
    with _new_bandit(database, name, rows.dim, policy) as (connection, bandit):
        for some in rows.read(bandit):
            _add_decisions(connection, some)
            progress(rows.count)
        if not rows.count:
            raise ValueError(f"{log.name} is empty: it holds no decisions")
        _add_rewards(database, connection, bandit, rows)
        serving = len(rows.policies) + 1
        _move_version(connection, bandit, serving)
        for version, past in enumerate(rows.policies, 1):
            _add_version(
                connection, bandit, version, past.removesuffix(f" v{version}")
            )  # as `export` names them
    return (
        f"bandit {name!r} has {rows.count} decisions and {len(rows.rewards)} rewards of {log.name}; "
        f"{policy.name} goes on as version {serving}"
    )


def _add_rewards(database: Database, connection: Connection, bandit: int, rows: "LogRows") -> None:
    """Write rewards in the order in which they came, numbered under the lock."""
    query = sa.select(decisions.c.number).where(decisions.c.bandit == bandit).order_by(decisions.c.number)
    numbers = np.fromiter(connection.execute(query).scalars(), dtype=np.int64, count=rows.count)
    database.lock(connection)
    seq = store.last_seq(connection)
    came = sorted(rows.rewards)
    for start in range(0, len(came), REWARDS):
        part = came[start : start + REWARDS]
        store.add_rewards(
            connection,
            [
                {
                    "seq": seq + i,
                    "decision": int(numbers[row]),
                    "bandit": bandit,
                    "kind": "reward",
                    "reward": value,
                    "outcomes": outcomes,
                    "time": time,
                }
                for i, (time, row, value, outcomes) in enumerate(part, start + 1)
            ],
        )


# Both


@contextmanager
def _new_bandit(database: Database, name: str, dim: int, policy: Policy) -> Iterator[tuple[Connection, int]]:
    """Open a transaction in which the bandit is there; what goes wrong in it leaves nothing behind."""
    try:
        new = NewBandit(name=name, dim=dim)
    except ValidationError as error:
        raise ValueError(f"--bandit: {explained(error, 'name')[1]}") from None
    settings = json.dumps(new.model_dump(exclude={"name", "dim", "policy", "catalogue", "features"}))
    try:
        with database.writer.begin() as connection:
            if store.find_bandit(connection, name) is not None:
                raise ValueError(f"--bandit: there is a bandit {name!r} already; import under another name")
            store.add_bandit(connection, name, dim, settings, policy)
            yield connection, store.the_bandit(connection, name).id
    except sa.exc.DBAPIError as error:
        raise DatabaseError(f"nothing was imported: {error.orig}") from None


def _add_decisions(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Append decisions; an id that is there already is refused by name."""
    seen = store.decisions_known(connection, [row["id"] for row in rows])
    for row in rows:
        if row["id"] in seen:
            raise _twice(connection, row)
        seen.add(row["id"])
    store.add_decisions(connection, rows)


def _twice(connection: Connection, row: dict[str, Any]) -> ValueError:
    query = sa.select(bandits.c.name).join(decisions, decisions.c.bandit == bandits.c.id)
    other = query.where((decisions.c.id == row["id"]) & (bandits.c.id != row["bandit"]))
    whose = connection.execute(other).scalar_one_or_none()
    if whose is None:
        return ValueError(
            f"decision_id {row['id']!r} occurs twice in the file: DecisionLog.distinct().save(...) writes it "
            "with the first of each"
        )
    return ValueError(
        f"decision_id {row['id']!r} is a decision of bandit {whose!r} already, in the same database: a "
        "reward that is sent for it could mean either"
    )


def _add_version(connection: Connection, bandit: int, version: int, name: str) -> None:
    """Write a policy of which only the name is known."""
    values = {"bandit": bandit, "version": version, "name": name, "config": "null", "created": now()}
    connection.execute(sa.insert(policies).values(**values))


def _move_version(connection: Connection, bandit: int, version: int) -> None:
    """Call the policy that serves version `version` instead of 1."""
    connection.execute(sa.update(policies).where(policies.c.bandit == bandit).values(version=version))
    connection.execute(sa.update(bandits).where(bandits.c.id == bandit).values(version=version))


ROWS = 500
"""Decisions that are converted at once."""
AHEAD = 3_600_000_000
"""Microseconds by which a clock elsewhere may be ahead of ours."""
MOST_POLICIES = 1000
UNKNOWN_ARM = -1
"""For the arm with the largest estimate, which no log tells."""
BLANK: dict[str, Any] = {column.name: None for column in decisions.c if column.name != "number"}
"""A decision of which nothing is known."""
_TEXTS = {"decision_id": 64, "arm_id": 200, "policy": 500}
"""Columns of text, and how long the service takes them."""


class LogRows:
    """Read a log in one pass: rows to be written, and beside them the rewards and the policies."""

    def __init__(self, log: DecisionLog):
        self.log = log
        told = begins_with(log, "features") or "arms" not in log.columns
        self._played_by = "features" if told else "arms"
        log.require([self._played_by], "a bandit that goes on with a log")
        self.count = 0
        self.policies: dict[str, int] = {}
        """The names of the log's policies, with their versions from 1, by their first decision."""
        self.rewards: list[tuple[int, int, float, str | None]] = []
        """(time, number of the decision, reward, outcomes as JSON)."""
        self._moment = now()
        self.dim = self._dim()

    def _dim(self) -> int:
        first = next(self.log.batches([self._played_by], 1), None)
        if first is None or not first.num_rows:
            raise ValueError(f"{self.log.name} is empty: it holds no decisions")
        lists = first.column(0)
        if not pa.types.is_list(lists.type) and not pa.types.is_large_list(lists.type):
            raise ValueError(
                f"{self.log.name}: {self._played_by} must hold lists of numbers, got {lists.type}"
            )
        value = lists[0]
        if self._played_by == "arms" and value.is_valid and len(value.values):
            value = value.values[0]
        if not value.is_valid or len(value.values) == 0:
            raise self._wrong(0, f"{self._played_by} must be given", "none")
        return len(value.values)

    def read(self, bandit: int) -> Iterator[list[dict[str, Any]]]:
        """Make rows for the log of this bandit, in the log's order."""
        used = [name for name in SCHEMA.names if name in self.log.columns]
        absent = dict.fromkeys(SCHEMA.names)
        for batch in self.log.batches(used, ROWS):
            columns = [self._values(name, batch.column(name)) for name in used]
            yield [
                {**self._row({**absent, **dict(zip(used, row, strict=True))}), "bandit": bandit}
                for row in zip(*columns, strict=True)
            ]

    def _values(self, name: str, column: pa.Array) -> list[Any]:
        """Return a column in Python, lists of numbers as arrays (m,), arms as (K,d)."""
        if name in ("time", "reward_time"):
            column = column.cast(TIME).cast(pa.int64())
        if name not in ("features", "probabilities", "arms"):
            values: list[Any] = column.to_pylist()
            return values
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = column.flatten()
        if name == "arms":
            widths = flat.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
            self._all(name, lengths, widths == self.dim, f"must have dimension {self.dim}")
            flat, lengths = flat.flatten(), lengths * self.dim
        numbers = np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64)
        within = np.abs(numbers) <= LARGEST
        self._all(name, lengths, within, f"must be finite and at most {LARGEST:g} in size")
        pieces = np.split(numbers, np.cumsum(lengths)[:-1])
        if name == "arms":
            pieces = [piece.reshape(-1, self.dim) for piece in pieces]
        present = column.is_valid().to_pylist()
        return [piece if there else None for piece, there in zip(pieces, present, strict=True)]

    def _all(self, name: str, lengths: Ints, right: NDArray[np.bool_], rule: str) -> None:
        """Refuse the first row with an entry that is not right.  lengths (n,), right (Σ lengths,)."""
        if not right.all():
            row = self.count + int(np.repeat(np.arange(lengths.size), lengths)[np.argmin(right)])
            raise self._wrong(row, f"{name} {rule}", "others")

    def _row(self, given: dict[str, Any]) -> dict[str, Any]:
        row, self.count = self.count, self.count + 1
        texts = {name: self._text(row, name, given[name]) for name in _TEXTS}
        arm, arms, every = given["arm"], given["arms"], given["probabilities"]
        count = next((len(one) for one in (arms, every) if one is not None), given["arm_count"])
        placed = arms is None and every is None and texts["arm_id"] is not None  # an item's place
        if arm is None or arm < 0 or (count is not None and arm >= count and not placed):
            raise self._wrong(row, "arm must be the index of one of its arms", arm)
        if given["arm_count"] not in (None, count) or (every is not None and len(every) != count):
            raise self._wrong(row, "arms, probabilities and arm_count must agree", given["arm_count"])
        time = self._time(row, "time", given["time"], self._moment)
        came = self._time(row, "reward_time", given["reward_time"], time)
        self._reward(row, given["reward"], came, _numbers(given["outcomes"]))
        return {
            **BLANK,
            "id": texts["decision_id"] or f"{time % 2**64:016x}{secrets.token_hex(8)}",
            "version": self._version(texts["policy"] or "unknown"),
            "absorbed": max(given["version"] or 0, 0),
            "time": time,
            "arm": arm,
            "arm_id": texts["arm_id"],
            "arm_count": arm + 1 if count is None else count,
            "best": UNKNOWN_ARM,
            "log_probability": self._chance(row, arm, given, every),
            "fallback": given["fallback"],
            "control": given["control"],
            "control_share": given["control_share"],
            "shadow": _numbers(given["shadow"]),
            **self._worth(row, given, count),
            "features": blob(self._features(row, given["features"], arms, arm)),
            "log_probabilities": blob(_logarithms(every)),
            "arms": blob(arms),
        }

    def _worth(self, row: int, given: dict[str, Any], count: int | None) -> dict[str, Any]:
        """Values and costs, as the database has them."""
        made = {"value": given["value"], "cost": given["cost"]}
        for name, stored in (("values", "every_value"), ("costs", "every_cost")):
            if given[name] is not None:
                if len(given[name]) != count:
                    raise self._wrong(row, f"{name} must be one for each arm", len(given[name]))
                made[stored] = blob(np.array(given[name], dtype=np.float64))
        return made

    def _text(self, row: int, name: str, value: Any) -> str | None:
        if value is not None and (not value or len(value) > _TEXTS[name] or "\0" in value):
            rule = f"{name} must have 1 to {_TEXTS[name]} characters, none of them NUL"
            raise self._wrong(row, rule, repr(value[:40]))
        return None if value is None else str(value)

    def _time(self, row: int, name: str, value: int | None, otherwise: int) -> int:
        if value is not None and value > self._moment + AHEAD:
            rule = f"{name} must not be in the future"
            raise self._wrong(row, rule, str(pa.scalar(value, TIME)))
        return otherwise if value is None else value

    def _version(self, policy: str) -> int:
        if policy not in self.policies and len(self.policies) == MOST_POLICIES:
            raise ValueError(f"{self.log.name} names more than {MOST_POLICIES} policies in its column policy")
        return self.policies.setdefault(policy, len(self.policies) + 1)

    def _reward(self, row: int, value: float | None, time: int, outcomes: str | None) -> None:
        if value is None:
            return
        if not abs(value) <= LARGEST:
            raise self._wrong(row, f"reward must be finite and at most {LARGEST:g} in size", value)
        self.rewards.append((time, row, float(value), outcomes))

    def _chance(self, row: int, arm: int, given: dict[str, Any], every: Floats | None) -> float:
        p = given["probability"]
        if given["fallback"]:
            if p is not None or every is not None:
                raise self._wrong(row, "probability must be null where fallback is true", p)
            return 0.0
        if p is None or not 0.0 < p <= 1.0:
            raise self._wrong(row, "probability must lie in (0, 1]", p)
        if every is not None:
            if not ((every >= 0).all() and abs(every.sum() - 1.0) <= SUM_ERROR):
                rule = f"probabilities must be non-negative and sum to one, within {SUM_ERROR:g}"
                raise self._wrong(row, rule, f"a sum of {every.sum():.6g}")
            if abs(every[arm] - p) > max(ENTRY_ERROR, SUM_ERROR * p):
                raise self._wrong(row, "probability must be the arm's entry of probabilities", every[arm])
        exact = given["log_probability"]
        if exact is not None and abs(math.exp(min(exact, 0.0)) - p) <= ENTRY_ERROR * p:
            return float(min(exact, 0.0))
        return math.log(p)

    def _features(self, row: int, vector: Floats | None, arms: Floats | None, arm: int) -> Floats:
        if vector is None:
            if arms is None:
                raise self._wrong(row, "features must be given", "none")
            vector = arms[arm]
        if len(vector) != self.dim:
            raise self._wrong(row, f"features must have dimension {self.dim}", len(vector))
        return vector

    def _wrong(self, row: int, rule: str, value: Any) -> ValueError:
        return ValueError(f"{self.log.name}: {rule}; row {row} has {'none' if value is None else value}")


def _numbers(pairs: list[tuple[str, float]] | None) -> str | None:
    """Write numbers by name, as a log has them, as JSON."""
    return None if pairs is None else json.dumps(dict(pairs), sort_keys=True)


def _logarithms(every: Floats | None) -> Floats | None:
    if every is None:
        return None
    with np.errstate(divide="ignore"):
        found: Floats = np.log(every)
    return found
