"""Statistics, the exported log, and evaluation on it."""

import time
import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from linmed.log import SCHEMA
from linmed.ope import DecisionLog, OPEWarning, evaluate
from linmed.serve.client import Client
from linmed.serve.database import Database, decisions, rewards

from .serving import application, create, decide, reward

THETA = np.array([0.3, 0.6])


def play(app: httpx.Client, rounds: int, name: str = "b", **more: object) -> None:
    """Arms that change, and rewards 0 or 1, a tenth of them still to come."""
    rng = np.random.default_rng(5)
    create(app, name, reward_range=[0.0, 1.0], **more)
    arms = rng.random((rounds, 4, 2)).round(3)
    for start in range(0, rounds, 50):
        part = arms[start : start + 50]
        body = {"decisions": [{"arms": one.tolist()} for one in part]}
        found = app.post(f"/v1/bandits/{name}/decide/batch", json=body).json()["decisions"]
        pairs = [
            {"decision_id": d["decision_id"], "reward": float(rng.random() < one[d["arm"]] @ THETA)}
            for i, (d, one) in enumerate(zip(found, part, strict=True))
            if i % 10 != 9
        ]
        assert app.post(f"/v1/bandits/{name}/reward/batch", json={"rewards": pairs}).status_code == 200


def download(app: httpx.Client, path: Path, name: str = "b") -> DecisionLog:
    path.write_bytes(app.get(f"/v1/bandits/{name}/log").content)
    return DecisionLog.open(path)


def nullable(value: Any) -> Any:
    """As JSON has it: what is not a number is null."""
    return None if value != value else value


def ask(app: httpx.Client, name: str = "b", **body: Any) -> dict[str, Any]:
    answer = app.post(f"/v1/bandits/{name}/evaluate", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A server with a log of 200 decisions, for tests that only read it."""
    with application(f"sqlite:///{tmp_path_factory.mktemp('played') / 'test.db'}") as client:
        play(client, 200)
        yield client


@pytest.mark.parametrize(
    ("judged", "asked"),
    [
        (180, {"missing": "skip"}),
        (180, {"missing": "skip", "interval": "adaptive"}),
        (180, {"missing": "skip", "interval": "asymptotic"}),
        (180, {"missing": "skip", "confidence": 0.9}),
        (9, {}),
        (9, {"mature": 0.0}),
        (200, {"missing": 0.5, "mature": 0}),
    ],
)
def test_the_exported_log_gives_the_numbers_and_the_doubts_that_the_service_gave(
    played: httpx.Client, tmp_path: Path, judged: int, asked: dict[str, Any]
) -> None:
    estimators = ["ipw", "snipw", "dr"]
    targets = ["uniform", "logged", "arm:1"]
    served = ask(played, targets=targets, estimators=estimators, **asked)
    log = download(played, tmp_path / "log.parquet")
    named = {target: target for target in targets}
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", OPEWarning)
        local = evaluate(log, named, estimators, reward_range=(0, 1), **asked).to_pylist()
    assert served["results"] == [{key: nullable(value) for key, value in row.items()} for row in local]
    assert {one["n"] for one in local} == {judged}
    counts = (served["decisions"], served["waiting"], served["judged"])
    assert counts == (200, 0 if asked.get("missing") == 0.5 else 20, judged)
    said = [str(one.message).replace(log.name, "the log of b") for one in doubts]
    assert served["warnings"] == said
    assert (judged == 200) or "were not judged" in said[0]


def test_no_reward_by_then_means_zero(sqlite: str) -> None:
    """A decision every 100 seconds until now; every fourth is clicked, 200 later, but the ninth too late."""
    step = 100_000_000
    begun = time.time_ns() // 1000 - 40 * step
    with application(sqlite) as app:
        create(app, reward_range=[0.0, 1.0])
        found = [decide(app) for _ in range(40)]
        for decision in found[::4]:
            reward(app, decision, 1.0)
        database = Database(sqlite)
        with database.writer.begin() as connection:
            connection.execute(sa.update(decisions).values(time=begun + decisions.c.number * step))
            connection.execute(sa.update(rewards).values(time=begun + (rewards.c.decision + 2) * step))
            ninth = rewards.c.decision == 9
            connection.execute(sa.update(rewards).where(ninth).values(time=begun + (9 + 11) * step))
        database.close()
        asked = {"targets": ["logged"], "missing": 0, "mature": 1000}
        served = ask(app, **asked)
        (one,) = served["results"]
        assert (served["decisions"], served["judged"], served["waiting"]) == (40, 30, 0)
        # The first thirty are old enough by now; 1, 5, 13, 17, 21, 25 and 29 were clicked in time.
        assert (one["n"], one["estimate"]) == (30, pytest.approx(7 / 30))
        with Client(str(app.base_url)) as client:
            again = client.evaluate("b", ["logged"], missing=0, mature=timedelta(seconds=1000))
        assert again == served
        stopped = ask(app, targets=["logged"])
        assert (stopped["judged"], stopped["waiting"]) == (1, 30)
        assert "39 of 40 decisions (98%) were not judged: 30 have no reward yet" in stopped["warnings"][0]


def test_the_smallest_probability_is_passed_on(app: httpx.Client) -> None:
    play(app, 100)
    fine = ask(app, targets=["uniform"], missing="skip", smallest_probability=1e-9)
    assert fine["judged"] == 90
    broken = {"targets": ["uniform"], "missing": "skip", "smallest_probability": 0.99}
    error = app.post("/v1/bandits/b/evaluate", json=broken).json()["error"]
    assert error["field"] == "smallest_probability"


def test_what_is_not_a_number_is_null(app: httpx.Client) -> None:
    play(app, 50)
    (one,) = ask(app, targets=["arm:1"], missing="skip", interval="none")["results"]
    assert (one["lower"], one["upper"], one["valid"]) == (None, None, "—")


def test_the_export_has_the_schema_of_a_decision_log(app: httpx.Client, tmp_path: Path) -> None:
    play(app, 50)
    app.patch("/v1/bandits/b", json={"policy": {"policy": "Uniform"}})
    app.post("/v1/bandits/b/decide", json={"arms": [[1.0, 0.0]], "arm_ids": ["only"]})
    log = download(app, tmp_path / "log.parquet")
    table = pq.read_table(tmp_path / "log.parquet")
    assert table.schema.equals(SCHEMA)
    assert log.columns == SCHEMA.names
    last = table.to_pylist()[-1]
    assert last["policy"].endswith("v2")
    assert (last["arm_id"], last["probability"], last["reward"]) == ("only", 1.0, None)
    assert last["arms"] == [[1.0, 0.0]]
    first = table.to_pylist()[1]
    assert first["features"] == first["arms"][first["arm"]]
    assert sum(first["probabilities"]) == pytest.approx(1.0)
    assert first["reward_time"] >= first["time"]


def test_an_empty_log_exports_as_an_empty_file(app: httpx.Client, tmp_path: Path) -> None:
    create(app)
    (tmp_path / "log.parquet").write_bytes(app.get("/v1/bandits/b/log").content)
    assert pq.read_table(tmp_path / "log.parquet").num_rows == 0


CALM = {"name": "calm", "policy": {"policy": "LinMED", "sigma": 0.2}}


def test_trained_targets_are_judged_only_on_decisions_they_have_not_seen(app: httpx.Client) -> None:
    play(app, 300)
    asked = {"targets": ["greedy", "uniform", CALM], "missing": "skip"}
    found = ask(app, **asked)
    assert found["trained_on"] == 128 - 12  # the largest power of two within half of 300, twelve waiting
    assert {one["n"] for one in found["results"]} == {found["judged"]} == {172 - 18}
    assert (found["decisions"], found["waiting"]) == (172, 18)
    assert all(one["lower"] <= one["upper"] for one in found["results"])
    assert "18 have no reward" in found["warnings"][0]
    assert ask(app, **asked) == found


def test_an_evaluation_may_be_of_the_decisions_since(app: httpx.Client) -> None:
    play(app, 300)
    whole = ask(app, targets=["uniform"], missing="skip")
    assert (whole["decisions"], whole["value"]) == (300, "average so far")
    last = ask(app, targets=["uniform"], missing="skip", since=-100)
    assert (last["decisions"], last["value"]) == (100, "average of the last 100 decisions")
    assert ask(app, targets=["uniform"], missing="skip", since=200)["results"] == last["results"]
    everything = ask(app, targets=["uniform"], missing="skip", since="30d")
    assert everything["value"] == "average of the last 30 days"
    assert everything["results"] == whole["results"]
    # Where a target learned from the first decisions, numbers are those of the whole log all the same.
    trained = ask(app, targets=["greedy", "uniform"], missing="skip", since=200)
    assert (trained["decisions"], trained["value"]) == (100, "average since decision 200")
    assert trained["results"][1] == last["results"][0]


def test_a_remembered_target_learns_from_rewards_that_come_late(sqlite: str, tmp_path: Path) -> None:
    asked = {"targets": ["greedy", CALM], "missing": "skip"}
    with application(sqlite) as app:
        play(app, 300)
        ask(app, **asked)
        waiting = [row for row in download(app, tmp_path / "log.parquet").table().to_pylist()[:128]
                   if row["reward"] is None]  # fmt: skip
        late = [{"decision_id": row["decision_id"], "reward": 1.0} for row in waiting]
        assert app.post("/v1/bandits/b/reward/batch", json={"rewards": late}).status_code == 200
        found = ask(app, **asked)
        assert (found["trained_on"], found["judged"]) == (128, 154)
    with application(sqlite) as app:  # has nothing to remember
        assert ask(app, **asked) == found


def test_late_rewards_do_not_bias_what_trained_targets_are_judged_on(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clicks are known at once, the rest two batches later: 40 logs of two arms with means 0.3 and 0.7.

    With the log complete, |t| ≤ 5 of the mean estimate: a false alarm once in 80,000 runs for each target.
    With the latest zeros still to come, at most 8 of 40 sequences may miss: once in 7,700 runs.
    """
    monkeypatch.setattr("linmed.serve.decisions.secrets.randbits", lambda bits: 20)
    rng = np.random.default_rng(20)
    truth = {"uniform": 0.5, "arm:1": 0.7}
    catalogue = {"ids": ["x", "y"], "features": [[1.0, 0.0], [0.0, 1.0]]}
    errors: dict[str, list[float]] = {target: [] for target in truth}
    missed = 0
    with application(sqlite) as app:
        for i in range(40):
            name, asked = f"b{i}", {"targets": ["greedy", *truth]}
            create(app, name, policy={"policy": "Uniform"}, catalogue=catalogue, reward_range=[0.0, 1.0])
            late: list[list[dict[str, Any]]] = []
            for _ in range(8):
                found = app.post(f"/v1/bandits/{name}/decide/batch", json={"decisions": [{}] * 32}).json()
                pairs = [
                    {"decision_id": d["decision_id"], "reward": float(rng.random() < (0.3, 0.7)[d["arm"]])}
                    for d in found["decisions"]
                ]
                late.append([pair for pair in pairs if pair["reward"] == 0.0])
                send(app, name, [pair for pair in pairs if pair["reward"] == 1.0])
                if len(late) == 3:
                    send(app, name, late.pop(0))
            early = ask(app, name, **asked)
            assert early["waiting"] > 0
            bounds = {one["target"]: (one["lower"], one["upper"]) for one in early["results"]}
            missed += not bounds["uniform"][0] <= truth["uniform"] <= bounds["uniform"][1]
            for zeros in late:
                send(app, name, zeros)
            whole = ask(app, name, interval="none", **asked)
            assert (whole["decisions"], whole["judged"], whole["trained_on"]) == (128, 128, 128)
            for one in whole["results"]:
                if one["target"] in truth:
                    errors[one["target"]].append(one["estimate"] - truth[one["target"]])
    assert missed <= 8
    for target, found in errors.items():
        t = np.mean(found) / (np.std(found, ddof=1) / np.sqrt(len(found)))
        assert abs(t) <= 5, target


def send(app: httpx.Client, name: str, pairs: list[dict[str, Any]]) -> None:
    if pairs:
        assert app.post(f"/v1/bandits/{name}/reward/batch", json={"rewards": pairs}).status_code == 200


def test_statistics_count_the_log(app: httpx.Client) -> None:
    play(app, 100)
    found = app.get("/v1/bandits/b/statistics").json()
    assert (found["decisions"], found["rewards"], found["pending"]) == (100, 90, 10)
    assert sum(one["share"] for one in found["arm_shares"]) == pytest.approx(1.0)
    assert sum(one["decisions"] for one in found["over_time"]) == 100
    assert sum(one["rewards"] for one in found["over_time"]) == 90
    assert 0.0 <= found["exploration_rate"] <= 1.0


def test_without_arms_in_the_log_the_targets_that_need_none_still_work(app: httpx.Client) -> None:
    play(app, 50, log_arms=False)
    assert ask(app, targets=["uniform", "logged"])["judged"] == 9
    refused = app.post("/v1/bandits/b/evaluate", json={"targets": ["greedy"]})
    assert refused.status_code == 422
    assert "arms" in refused.json()["error"]["message"]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("name", ["uniform", "greedy", "arm:0"])
def test_two_targets_of_one_name_are_refused_by_it(app: httpx.Client, name: str, first: int) -> None:
    create(app, reward_range=[0.0, 1.0])
    for _ in range(4):
        reward(app, decide(app), 1.0)
    both = [name, {"name": name, "policy": {"policy": "LinMED"}}]
    wanted = {"targets": [both[first], both[1 - first]]}
    answer = app.post("/v1/bandits/b/evaluate", json=wanted)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "targets[1]")
    assert repr(name) in answer.json()["error"]["message"]
