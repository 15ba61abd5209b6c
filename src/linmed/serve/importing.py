"""`linmed serve --import`: a bandit that goes on where an agent's file or a decision log ends.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy.engine import Connection

from linmed.agent import Agent
from linmed.log import DecisionLog
from linmed.policies import Policy
from linmed.policies.linmed import NOTHING_TOLD
from linmed.serve import store
from linmed.serve.bandit import as_policy
from linmed.serve.bodies import NewBandit
from linmed.serve.database import Database, DatabaseError, bandits, decisions, now, origins, policies
from linmed.serve.imported_rows import BLANK, UNKNOWN_ARM, LogRows
from linmed.serve.messages import explained
from linmed.serve.numbers import blob

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
    """Make the bandit `name` of what is at `path`; says what was imported.

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


def _add_rewards(database: Database, connection: Connection, bandit: int, rows: LogRows) -> None:
    """In the order in which they came, numbered under the lock."""
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
                    "reward": value,
                    "time": time,
                }
                for i, (time, row, value) in enumerate(part, start + 1)
            ],
        )


# Both


@contextmanager
def _new_bandit(database: Database, name: str, dim: int, policy: Policy) -> Iterator[tuple[Connection, int]]:
    """A transaction in which the bandit is there; what goes wrong in it leaves nothing behind."""
    try:
        new = NewBandit(name=name, dim=dim)
    except ValidationError as error:
        raise ValueError(f"--bandit: {explained(error, 'name')[1]}") from None
    settings = json.dumps(new.model_dump(include={"map", "reward_range", "log_arms"}))
    try:
        with database.writer.begin() as connection:
            if store.find_bandit(connection, name) is not None:
                raise ValueError(f"--bandit: there is a bandit {name!r} already; import under another name")
            store.add_bandit(connection, name, dim, settings, policy)
            yield connection, store.the_bandit(connection, name).id
    except sa.exc.DBAPIError as error:
        raise DatabaseError(f"nothing was imported: {error.orig}") from None


def _add_decisions(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Append them; an id that is there already is refused by name."""
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
    """A policy of which only the name is known."""
    values = {"bandit": bandit, "version": version, "name": name, "config": "null", "created": now()}
    connection.execute(sa.insert(policies).values(**values))


def _move_version(connection: Connection, bandit: int, version: int) -> None:
    """Call the policy that serves version `version` instead of 1."""
    connection.execute(sa.update(policies).where(policies.c.bandit == bandit).values(version=version))
    connection.execute(sa.update(bandits).where(bandits.c.id == bandit).values(version=version))
