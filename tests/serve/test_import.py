"""`linmed serve --import`: a bandit goes on where an agent's file or a decision log ends."""

import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from linmed import EXP2, Agent, LinMED
from linmed.cli import main
from linmed.ope import DecisionLog, learn_from
from linmed.serve import database as db
from linmed.serve.importing import import_file

from .serving import ARMS, application, create, decide, reward

URL = "/v1/bandits/b"


def imported(url: str, path: Path, name: str = "b", **options: Any) -> str:
    opened = db.Database(url)
    opened.open()
    try:
        return import_file(opened, path, name, **options)
    finally:
        opened.close()


def log_of(folder: Path, decisions: int = 60, policy: LinMED | None = None) -> Path:
    """What an agent logged: some rewards came late, and the last ones not yet."""
    random = np.random.default_rng(3)
    with Agent(policy or LinMED(sigma=0.5), 2, seed=5, log=folder) as agent:
        waiting = []
        for i in range(decisions):
            decision = agent.decide(random.normal(size=(4, 2)))
            waiting.insert(random.integers(len(waiting) + 1), decision)
            if i % 3 and i < decisions - 5:
                agent.learn(waiting.pop(), float(random.random() < 0.5))
    return folder


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


def test_a_bandit_goes_on_with_a_log(url: str, tmp_path: Path) -> None:
    path = log_of(tmp_path / "log")
    log = DecisionLog.open(path)
    rewarded = sum(one is not None for one in log.table(["reward"])["reward"].to_pylist())
    seen: list[int] = []
    with application(url) as app:  # a server that was there before
        create(app, "other")
        reward(app, decide(app, "other"), 1.0, "other")
        said = imported(url, path, policy={"policy": "LinMED", "sigma": 0.3}, progress=seen.append)
        assert f"60 decisions and {rewarded} rewards" in said
        assert seen[-1] == 60
        state = app.get(f"{URL}/state").json()
        expected = learn_from(log, LinMED(sigma=0.3))
        assert state["count"] == expected.count == rewarded
        np.testing.assert_allclose(state["theta"], expected.theta, rtol=1e-12, atol=1e-12)
        first = decide(app)
        assert first["policy_version"] == 2
        np.testing.assert_allclose(first["probabilities"], expected.probabilities(ARMS), rtol=1e-9)
        reward(app, first, 1.0)
        late = next(row for row in log.table(["decision_id", "reward"]).to_pylist() if row["reward"] is None)
        assert reward(app, late, 0.25)["repeated"] is False
        assert app.get(f"{URL}/state").json()["count"] == rewarded + 2
        counts = app.get(f"{URL}/statistics").json()
        assert (counts["decisions"], counts["rewards"]) == (61, rewarded + 2)
        assert [one["version"] for one in counts["policy_versions"]] == [1, 2]
        asked = {"targets": ["uniform", "logged", "greedy"], "missing": "skip", "reward_range": [0, 1]}
        answer = app.post(f"{URL}/evaluate", json=asked)
        assert answer.status_code == 200, answer.text
        assert answer.json()["judged"] > 0


def test_the_log_that_comes_out_is_the_one_that_went_in(sqlite: str, tmp_path: Path) -> None:
    log = DecisionLog.open(log_of(tmp_path / "log"))
    imported(sqlite, tmp_path / "log")
    with application(sqlite) as app:
        (tmp_path / "out.parquet").write_bytes(app.get(f"{URL}/log").content)
    before, after = log.table(), DecisionLog.open(tmp_path / "out.parquet").table()
    for name in (
        "decision_id",
        "time",
        "arm",
        "arm_count",
        "features",
        "arms",
        "version",
        "reward",
        "reward_time",
    ):
        assert after[name].to_pylist() == before[name].to_pylist(), name
    for name in ("probability", "probabilities"):
        for one, two in zip(before[name].to_pylist(), after[name].to_pylist(), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)
    (tmp_path / "elsewhere").mkdir()
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere' / 'x.db'}"
    imported(elsewhere, tmp_path / "out.parquet")
    with application(elsewhere) as app:
        (tmp_path / "again.parquet").write_bytes(app.get(f"{URL}/log").content)
    assert DecisionLog.open(tmp_path / "again.parquet").table() == after


def test_rewards_are_folded_in_the_order_in_which_they_came(sqlite: str, tmp_path: Path) -> None:
    came = [30, 10, 20]
    rows = {
        "arm": [0, 1, 0], "probability": [0.5, 0.5, 0.5], "arm_count": [2, 2, 2],
        "features": [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], "reward": [1.0, 0.0, 0.5],
        "time": [1, 2, 3], "reward_time": came,
    }  # fmt: skip
    DecisionLog.from_table(rows).save(tmp_path / "log")
    imported(sqlite, tmp_path / "log")
    opened = db.Database(sqlite)
    with opened.reader.begin() as connection:
        found = connection.execute(sa.select(db.rewards).order_by(db.rewards.c.seq)).all()
        decisions = connection.execute(sa.select(db.decisions).order_by(db.decisions.c.number)).all()
    opened.close()
    assert [row.time for row in found] == [1_000_000 * time for time in sorted(came)]
    assert [row.seq for row in found] == [1, 2, 3]
    assert [row.reward for row in found] == [0.0, 0.5, 1.0]
    assert [row.time for row in decisions] == [1_000_000, 2_000_000, 3_000_000]
    assert len({row.id for row in decisions}) == 3  # the log had none


def test_a_bandit_goes_on_with_an_agent_to_the_last_bit(url: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    agent = Agent(LinMED(sigma=0.5), 2, seed=2)
    for _ in range(50):
        decision = agent.decide(random.normal(size=(5, 2)))
        agent.learn(decision, float(random.random() < 0.5))
    waiting = [agent.decide(ARMS) for _ in range(3)]
    agent.save(tmp_path / "agent.npz")
    assert "after 50 rewards; 3 decisions wait" in imported(url, tmp_path / "agent.npz")
    with application(url) as app:
        assert decide(app)["probabilities"] == agent.probabilities(ARMS).tolist()
        for one, value in zip(waiting, (1.0, 0.0, 0.5), strict=True):  # sent to the agent in its last days
            reward(app, {"decision_id": one.id}, value)
            agent.learn(one, value)
        assert decide(app)["probabilities"] == agent.probabilities(ARMS).tolist()
        assert app.get(f"{URL}/state").json()["count"] == 53
        policy = {"policy": {"policy": "LinMED", "sigma": 0.3}}
        refused = app.patch(URL, json=policy)
        assert (refused.status_code, refused.json()["error"]["field"]) == (409, "policy")
        assert "agent's file" in refused.json()["error"]["message"]
        assert app.patch(URL, json={"reward_range": [0, 1]}).status_code == 200
        answer = app.post(f"{URL}/evaluate", json={"targets": ["logged"], "missing": "skip"}).json()
        assert "no rewards yet" in answer["error"]["message"]  # of the agent's the probability is not known
        reward(app, decide(app), 1.0)
        found = app.post(f"{URL}/evaluate", json={"targets": ["logged"], "missing": "skip"}).json()
        assert (found["judged"], found["decisions"]) == (1, 3)
        state = app.get(f"{URL}/state").json()
    opened = db.Database(url)
    with opened.writer.begin() as connection:  # what a server that was killed leaves behind
        connection.execute(sa.delete(db.snapshots))
    opened.close()
    with application(url) as app:
        assert app.get(f"{URL}/state").json() == state


def test_an_origin_that_is_damaged_is_not_taken_for_true(sqlite: str, tmp_path: Path) -> None:
    agent = Agent(LinMED(), 2, seed=2)
    agent.learn(agent.decide(ARMS), 1.0)
    agent.save(tmp_path / "agent.npz")
    imported(sqlite, tmp_path / "agent.npz")
    opened = db.Database(sqlite)
    with opened.writer.begin() as connection:
        state = bytearray(connection.execute(sa.select(db.origins.c.state)).scalar_one())
        state[len(state) // 2] ^= 1
        connection.execute(sa.update(db.origins).values(state=bytes(state)))
    opened.close()
    with application(sqlite) as app:
        answer = app.post(f"{URL}/decide", json={"arms": ARMS})
        assert answer.status_code == 500
        assert "backup" in answer.json()["error"]["message"]


@pytest.mark.unix
def test_an_import_that_is_killed_leaves_nothing(sqlite: str, tmp_path: Path) -> None:
    path = log_of(tmp_path / "log")
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from linmed.serve import database, importing\n"
        "importing._move_version = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "opened = database.Database(sys.argv[1]); opened.open()\n"
        "importing.import_file(opened, Path(sys.argv[2]), 'b')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, sqlite, str(path)], timeout=300)
    assert done.returncode == -signal.SIGKILL
    opened = db.Database(sqlite)
    with opened.reader.begin() as connection:
        for table in (db.bandits, db.policies, db.decisions, db.rewards):
            assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() == 0
    opened.close()
    imported(sqlite, path)


def write(path: Path, **columns: Any) -> Path:
    rows = {
        "arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, None], "features": [[1.0, 0.0], [0.0, 1.0]],
        "arm_count": [2, 2], **columns,
    }  # fmt: skip
    pq.write_table(pa.table({name: value for name, value in rows.items() if value is not None}), path)
    return path


FUTURE = int((time.time() + 10 * 86400) * 1e6)
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"probability": None}, "needs the columns arm, probability and reward"),
    ({"fallback": [False, True]}, r"probability must be null where fallback is true; row 1 has 0\.5"),
    (
        {"probability": [0.5, None], "fallback": [True, None]},
        "probability must be null where .*; row 0 has 0",
    ),
    ({"probability": [0.5, None], "fallback": [False, False]}, r"probability must lie in \(0, 1\]; row 1"),
    ({"features": None}, "needs the column 'features'"),
    ({"probability": [0.5, 0.0]}, r"probability must lie in \(0, 1\]; row 1 has 0"),
    ({"probability": [0.5, float("nan")]}, "probability must lie in"),
    ({"arm": [0, 2]}, "arm must be the index of one of its arms; row 1 has 2"),
    ({"features": [[1.0, 0.0], [1.0]]}, "features must have dimension 2; row 1 has 1"),
    ({"features": [[1.0, 0.0], [1.0, float("inf")]]}, "features must be finite .*; row 1"),
    ({"arms": [[[1.0, 0.0], [0.0, 1.0]], [[1.0], [0.0]]]}, "arms must have dimension 2; row 1"),
    (
        {"probabilities": [[0.5, 0.5], [0.9, 0.1]]},
        "probability must be the arm's entry of probabilities; row 1",
    ),
    ({"probabilities": [[0.5, 0.5], [0.5, 0.6]]}, "probabilities must be non-negative and sum to one"),
    ({"probabilities": [[0.5, 0.5], [0.2, 0.5, 0.3]]}, "arms, probabilities and arm_count must agree; row 1"),
    ({"reward": [1e13, None]}, "reward must be finite and at most"),
    ({"decision_id": ["one", "one"]}, "decision_id 'one' occurs twice in the file"),
    ({"decision_id": ["one", "x" * 65]}, "decision_id must have 1 to 64 characters"),
    ({"decision_id": ["one", "known"]}, "decision_id 'known' is a decision of bandit 'a' already"),
    ({"time": [0, FUTURE]}, "time must not be in the future; row 1 has 20"),
    ({"arm": [], "probability": [], "reward": [], "features": [], "arm_count": []}, "is empty"),
]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with a bandit `a` that has the decision `known`."""
    folder = tmp_path_factory.mktemp("known")
    url = f"sqlite:///{folder / 'x.db'}"
    imported(url, write(folder / "a.parquet", decision_id=["known", "second"]), "a")
    return url


@pytest.mark.parametrize(("columns", "message"), WRONG)
def test_a_wrong_log_is_refused_by_name(
    known: str, tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    if "time" in columns:
        columns = {"time": pa.array(columns["time"], pa.timestamp("us", "UTC"))}
    with pytest.raises(ValueError, match=message):
        imported(known, write(tmp_path / "log.parquet", **columns))
    opened = db.Database(known)
    with opened.reader.begin() as connection:
        assert connection.execute(sa.select(db.bandits.c.name)).scalars().all() == ["a"]
        assert connection.execute(sa.select(sa.func.count()).select_from(db.decisions)).scalar_one() == 2
    opened.close()


@pytest.mark.unix
def test_wrong_files_names_and_policies_are_refused_by_name(known: str, tmp_path: Path) -> None:
    right = write(tmp_path / "right.parquet")
    (tmp_path / "text").write_text("hello")
    np.savez(tmp_path / "arrays.npz", a=np.ones(2))
    fixed = Agent(EXP2(horizon=100), 2, seed=1)
    fixed.decide(ARMS)
    fixed.save(tmp_path / "fixed.npz")
    os.mkfifo(tmp_path / "pipe")
    vast = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }".ljust(117) + b"\n"
    with zipfile.ZipFile(tmp_path / "vast.npz", "w") as file:
        file.writestr("meta.npy", b"\x93NUMPY\x01\x00v\x00" + vast)
    for path, name, policy, message in [
        (tmp_path / "nothing", "b", None, "there is no file"),
        (tmp_path / "pipe", "b", None, "is no file"),  # it would be waited for
        (tmp_path / "vast.npz", "b", None, "not a linmed agent"),
        (tmp_path / "text", "b", None, "neither an agent's file nor a decision log"),
        (tmp_path / "arrays.npz", "b", None, "not a linmed agent"),
        (tmp_path / "fixed.npz", "b", None, "one fixed set of arms"),
        (right, "a", None, "there is a bandit 'a' already"),
        (right, "a b", None, "--bandit: name must be letters"),
        (right, "b", {"policy": "NoSuch"}, "--policy: unknown policy 'NoSuch'"),
        (right, "b", {"policy": "EXP2", "horizon": 100}, "cannot learn from another policy's decisions"),
    ]:
        with pytest.raises(ValueError, match=message):
            imported(known, path, name, policy=policy)
    Agent(LinMED(), 2).save(tmp_path / "agent.npz")
    with pytest.raises(ValueError, match="has its own"):
        imported(known, tmp_path / "agent.npz", "b", policy={"policy": "LinMED"})


def test_the_command_imports_and_says_what(
    sqlite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path / "log.parquet"))
    words = ["serve", "--database", sqlite, "--import", path]
    assert main([*words, "--bandit", "b", "--policy", '{"policy": "LinMED", "sigma": 0.5}']) == 0
    assert capsys.readouterr().out.startswith("bandit 'b' has 2 decisions and 1 rewards of ")
    assert main([*words, "--bandit", "b"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "linmed serve: --bandit: there is a bandit 'b' already; import under another name\n"
    assert main(words) == 2
    assert "--import needs --bandit NAME" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*words, "--bandit", "c", "--policy", "LinMED"])
    assert "must be a JSON object such as" in capsys.readouterr().err


def test_the_exploration_of_imported_decisions_is_not_told(sqlite: str, tmp_path: Path) -> None:
    imported(sqlite, write(tmp_path / "log.parquet"))
    with application(sqlite) as app:
        assert app.get(f"{URL}/statistics").json()["exploration_rate"] is None
        found = decide(app)
        statistics = app.get(f"{URL}/statistics").json()
        assert statistics["exploration_rate"] in (0.0, 1.0)
        assert {point["exploration_rate"] for point in statistics["over_time"]} <= {None, 0.0, 1.0}
        assert found["policy_version"] == 2


def test_clients_of_a_server_can_reward_what_was_imported(
    app: httpx.Client, tmp_path: Path, sqlite: str
) -> None:
    imported(sqlite, write(tmp_path / "log.parquet", decision_id=["one", "two"]))
    assert reward(app, {"decision_id": "two"}, 1.0)["repeated"] is False
    assert reward(app, {"decision_id": "one"}, 1.0)["repeated"] is True
    assert app.get(f"{URL}/decisions/two").json()["reward"] == 1.0
