"""Statistics, the exported log, and evaluation on it."""

from pathlib import Path

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest

from linmed.log import SCHEMA
from linmed.ope import DecisionLog, evaluate

from .serving import create

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
            if i % 10
        ]
        assert app.post(f"/v1/bandits/{name}/reward/batch", json={"rewards": pairs}).status_code == 200


def download(app: httpx.Client, path: Path, name: str = "b") -> DecisionLog:
    path.write_bytes(app.get(f"/v1/bandits/{name}/log").content)
    return DecisionLog.open(path)


@pytest.mark.parametrize("interval", ["betting", "bernstein", "adaptive"])
def test_the_exported_log_gives_the_numbers_that_the_service_gave(
    app: httpx.Client, tmp_path: Path, interval: str
) -> None:
    play(app, 200)
    estimators = ["ipw", "snipw", "dr"]
    targets = ["uniform", "logged", "arm:1"]
    body = {"targets": targets, "estimators": estimators, "interval": interval}
    served = app.post("/v1/bandits/b/evaluate", json=body).json()
    log = download(app, tmp_path / "log.parquet")
    named = {target: target for target in targets}
    local = evaluate(log, named, estimators, interval=interval, reward_range=(0, 1)).to_pylist()
    assert served["results"] == local
    assert (served["decisions"], served["waiting"], local[0]["n"]) == (200, 20, 180)


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


def test_trained_targets_are_judged_only_on_rewards_they_have_not_seen(app: httpx.Client) -> None:
    play(app, 300)
    body = {"targets": ["greedy", "uniform", {"name": "calm", "policy": {"policy": "LinMED", "sigma": 0.2}}]}
    found = app.post("/v1/bandits/b/evaluate", json=body).json()
    assert found["trained_on"] == 128  # the largest power of two within half of 270
    assert {one["n"] for one in found["results"]} == {270 - 128}
    assert all(one["lower"] <= one["upper"] for one in found["results"])
    again = app.post("/v1/bandits/b/evaluate", json=body).json()
    assert again == found


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
    fine = app.post("/v1/bandits/b/evaluate", json={"targets": ["uniform", "logged"]})
    assert fine.status_code == 200
    refused = app.post("/v1/bandits/b/evaluate", json={"targets": ["greedy"]})
    assert refused.status_code == 422
    assert "arms" in refused.json()["error"]["message"]
