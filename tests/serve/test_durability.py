"""What is acknowledged stays, and the state is the fold of the log."""

import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from linmed.cli import main
from linmed.policies import LinMED, Policy
from linmed.serve import database as db
from linmed.serve import store
from linmed.serve.engine import Decide, Engine, Reward
from linmed.serve.errors import Refused

from .serving import ARMS, PATIENCE, SETTINGS, Running, application, create, decide, reward, row, until

ROOT = Path(__file__).parents[2]


def fold_of_log(url: str) -> dict[str, Any]:
    """The state of the only bandit, by one pass over the tables with nothing of the service's own folding."""
    opened = db.Database(url)
    with opened.reader.begin() as connection:
        config = connection.execute(sa.select(db.policies.c.config)).scalars().all()[-1]
        rows = connection.execute(
            sa.select(db.decisions.c.features, db.rewards.c.reward)
            .join(db.rewards, db.rewards.c.decision == db.decisions.c.number)
            .order_by(db.rewards.c.seq)
        ).all()
    opened.close()
    policy = Policy.from_dict(json.loads(config))
    state = policy.start(1, 2)
    for one in rows:
        features = np.frombuffer(one.features)[None]
        policy.learn(state, features, np.array([one.reward]), np.zeros(1, dtype=np.int64))
    return state.arrays()


def assert_state_is_fold(client: httpx.Client, url: str) -> int:
    served = client.get("/v1/bandits/b/state").json()
    for name, array in fold_of_log(url).items():
        np.testing.assert_allclose(np.array(served["arrays"][name]), array, rtol=1e-12, atol=1e-12)
    return int(served["count"])


def some_rounds(client: httpx.Client, number: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    decisions = [decide(client) for _ in range(number)]
    for i in rng.permutation(number):
        reward(client, decisions[i], float(rng.random()))


@pytest.mark.identity
def test_a_killed_server_comes_back_with_the_state_of_the_log(sqlite: str, tmp_path: Path) -> None:
    with Running(sqlite, tmp_path, "--snapshot-every", "7") as server, server.client() as client:
        create(client)
        some_rounds(client, 18)
        waiting = decide(client, arms=ARMS, key="before")
        server.end(signal.SIGKILL)
    with application(sqlite) as client:
        assert assert_state_is_fold(client, sqlite) == 18
        assert decide(client, arms=ARMS, key="before") == {**waiting, "repeated": True}
        reward(client, waiting, 1.0)
        assert assert_state_is_fold(client, sqlite) == 19


def test_a_server_told_to_stop_writes_a_snapshot_and_starts_from_it(sqlite: str) -> None:
    with application(sqlite) as client:
        create(client)
        some_rounds(client, 5)
    opened = db.Database(sqlite)
    with opened.writer.begin() as connection:
        assert connection.execute(sa.select(db.snapshots.c.seq)).scalar_one() == 5
        # Had the log been folded from its beginning, this reward would show.
        connection.execute(sa.update(db.rewards).where(db.rewards.c.seq == 1).values(reward=100.0))
    opened.close()
    with application(sqlite) as client:
        assert client.get("/v1/bandits/b/state").json()["count"] == 5
        assert max(map(abs, client.get("/v1/bandits/b/state").json()["theta"])) < 10


def test_snapshots_do_not_pile_up(sqlite: str) -> None:
    with application(sqlite, snapshot_every=2) as client:
        create(client)
        some_rounds(client, 12)
    opened = db.Database(sqlite)
    with opened.reader.begin() as connection:
        kept = connection.execute(sa.select(db.snapshots.c.seq).order_by(db.snapshots.c.seq)).scalars().all()
    opened.close()
    assert len(kept) == 2
    assert kept[-1] == 12


@pytest.mark.parametrize(("other", "which"), [(db.VERSION + 1, "a newer"), (db.VERSION - 1, "an older")])
def test_a_database_of_another_schema_is_refused_and_stays_as_it_is(
    sqlite: str, other: int, which: str, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = db.Database(sqlite)
    opened.open()
    with opened.writer.begin() as connection:
        connection.execute(sa.update(db.schema).values(version=other))
    with pytest.raises(db.DatabaseError, match=f"{which} linmed; this release reads version {db.VERSION}"):
        opened.open()
    assert main(["serve", "--check", "--database", sqlite]) == 2
    assert f"{which} linmed" in capsys.readouterr().err
    with opened.reader.begin() as connection:
        assert connection.execute(sa.select(db.schema.c.version)).scalar_one() == other
    opened.close()


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    backend: str, request: pytest.FixtureRequest
) -> None:
    """The short form of benchmarks/service_crash.py."""
    url = request.getfixturevalue(backend)
    kills = "2" if backend == "sqlite" else "1"
    script = str(ROOT / "benchmarks" / "service_crash.py")
    command = [sys.executable, script, "--kills", kills, "--clients", "3"]
    found = subprocess.run([*command, "--database", url], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "each in the log once" in found.stdout


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "sqlite:///:memory:", "no url"])
def test_a_database_that_cannot_serve_is_named(url: str) -> None:
    with pytest.raises(db.DatabaseError, match="database must be"):
        db.Database(url)


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_a_commit_whose_confirmation_is_lost_is_answered_as_the_success_it_was(
    backend: str, lost: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = db.Database(request.getfixturevalue(backend))
    opened.open()
    with opened.writer.begin() as connection:
        store.add_bandit(connection, "b", 2, SETTINGS, LinMED())
    dialect: Any = opened.writer.dialect
    commit, losing = dialect.do_commit, 0

    def without_confirmation(connection: Any) -> None:
        nonlocal losing
        commit(connection)
        if losing:
            losing -= 1
            raise dialect.dbapi.OperationalError("the connection was lost after the commit")

    monkeypatch.setattr(dialect, "do_commit", without_confirmation)
    folded: list[int] = []
    engine = Engine(opened)
    engine.fold = lambda rows: folded.extend(one.seq for one in rows)

    def answered(*jobs: Any) -> list[Any]:
        """What a group gets whose first `lost` commits succeed unnoticed."""
        nonlocal losing
        losing = lost
        engine.submit(*jobs)
        return [job.answer.result(300) for job in jobs]

    rows = [row("plain"), row("keyed", "k"), row("one"), row("two", "l"), row("another", "k")]
    jobs = [Decide([rows[0]]), Decide([rows[1]]), Decide(rows[2:4]), Decide([rows[4]])]
    engine.start()
    try:
        first = answered(*jobs)
        assert first[:3] == [[rows[0]], [rows[1]], rows[2:4]]  # as they were drawn, none of them repeated
        assert [(one["id"], one["repeated"]) for one in first[3]] == [("keyed", True)]
        given = [Reward(1, [("plain", 1.0, None)]), Reward(1, [("keyed", 0.5, None), ("one", 0.0, None)])]
        found = [one for answer in answered(*given) for one in answer]
        assert [(one["decision_id"], one["reward"]) for one in found] == [
            ("plain", 1.0),
            ("keyed", 0.5),
            ("one", 0.0),
        ]
        assert losing == 0
    finally:
        engine.stop(PATIENCE)
    with opened.reader.begin() as connection:
        stored = connection.execute(sa.select(db.decisions.c.id).order_by(db.decisions.c.number)).scalars()
        assert list(stored) == ["plain", "keyed", "one", "two"]
        assert connection.execute(sa.select(db.rewards.c.reward)).scalars().all() == [1.0, 0.5, 0.0]
    assert folded == [1, 2, 3]
    opened.close()


def test_an_engine_whose_database_is_held_by_another_refuses_what_it_cannot_write(sqlite: str) -> None:
    opened = db.Database(sqlite)
    opened.open()
    with opened.writer.begin() as connection:
        store.add_bandit(connection, "b", 2, SETTINGS, LinMED())
    engine = Engine(opened)
    engine.start()
    jobs = [Decide([row("one")]), Decide([row("two")])]
    with sqlite3.connect(sqlite.removeprefix("sqlite:///")) as other:
        other.execute("BEGIN IMMEDIATE")
        engine.submit(jobs[0])
        until(lambda: engine._writing == jobs[:1])
        engine.submit(jobs[1])
        assert not engine.stop(0.2)  # and not for as long as the other holds it
        for job in jobs:
            with pytest.raises(Refused, match="shutting down: try again"):
                job.answer.result(0)
    other.close()
    assert engine.stop(PATIENCE)
    opened.close()
