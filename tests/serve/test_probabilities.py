"""The probabilities of all arms as the log has them: a law, though the arms not played are rounded."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linmed import Agent, LinMED
from linmed.log import DecisionLog, LogWriter
from linmed.serve.decisions import log_probabilities

from .serving import application, create, decide, reward

ITEMS = 40


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 300.0])
def test_rounded_probabilities_sum_to_one_and_leave_the_played_arm_as_it_was(spread: float) -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        exact = rng.normal(size=ITEMS) * spread
        exact -= np.logaddexp.reduce(exact)
        arm = int(rng.integers(ITEMS))
        row = {"arm": arm, "arm_count": ITEMS, "log_probability": float(exact[arm])}
        row["log_probabilities"] = exact.astype("<f4").tobytes()
        found = log_probabilities(row)
        assert found is not None
        assert found[arm] == exact[arm]
        assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-14)
        # float32 has 24 bits: a logarithm of up to 3000 is off by at most 3000 · 2⁻²⁴, and so is the sum's.
        np.testing.assert_allclose(found, exact, rtol=2.0**-23, atol=np.abs(exact).max() * 2.0**-22 + 1e-12)


@pytest.mark.parametrize("log_probability", [0.0, -1e-300, -1e-17])
def test_where_the_arm_played_is_certain_the_others_stay_as_they_are(log_probability: float) -> None:
    exact = np.array([log_probability, -60.0, -np.inf])
    row = {"arm": 0, "arm_count": 3, "log_probability": log_probability}
    found = log_probabilities({**row, "log_probabilities": exact.astype("<f4").tobytes()})
    assert found is not None
    assert not np.isnan(found).any()
    assert found[0] == log_probability
    assert np.exp(found).sum() == 1.0


def test_what_the_log_earned_is_within_its_own_bounds(sqlite: str) -> None:
    features = np.random.default_rng(2).normal(size=(ITEMS, 2))
    catalogue = {"ids": [f"i{i}" for i in range(ITEMS)], "features": features.round(3).tolist()}
    with application(sqlite) as app:
        create(app, catalogue=catalogue, reward_range=[0.0, 1.0])
        for _ in range(30):
            reward(app, decide(app, key=None), 1.0)
        body = {"targets": ["logged"], "estimators": ["ipw"], "interval": "betting"}
        answer = app.post("/v1/bandits/b/evaluate", json=body)
        assert answer.status_code == 200, answer.text
        for line in answer.json()["results"]:
            assert line["lower"] <= line["estimate"] <= line["upper"] + 1e-14, line  # was above it by 1e-9


class OtherExp:
    """NumPy on another processor: exp and its kin differ in the last bit."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def exp(x: Any, **more: Any) -> Any:
        return np.nextafter(np.exp(x, **more), 2.0)

    @staticmethod
    def log(x: Any, **more: Any) -> Any:
        return np.nextafter(np.log(x, **more), -1e9)


def test_what_is_answered_and_what_is_logged_are_the_same_numbers(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = np.random.default_rng(2).normal(size=(ITEMS, 2)).round(3).tolist()
    with application(sqlite) as app:
        create(app, catalogue={"ids": [f"i{i}" for i in range(ITEMS)], "features": features})
        made = []
        for i in range(40):  # both kinds of rows, with every arm's logarithm in 4 or in 8 bytes
            made.append(decide(app, **({"key": f"k{i}"} if i % 2 else {"arms": features[: 3 + i % 7]})))
            reward(app, made[-1], i / 40.0)
        monkeypatch.setattr("linmed.serve.live_log.np", OtherExp())  # the log is exported elsewhere
        content = app.get("/v1/bandits/b/log").content
        monkeypatch.setattr("linmed.serve.decisions.np", OtherExp())
        stored = [app.get(f"/v1/bandits/b/decisions/{one['decision_id']}").json() for one in made]
    table = pq.read_table(pa.BufferReader(content)).to_pylist()
    for answered, kept, logged in zip(made, stored, table, strict=True):
        assert answered["probability"] == kept["probability"] == logged["probability"]
        assert answered["probabilities"] == kept["probabilities"] == logged["probabilities"]
        assert answered["probability"] == logged["probabilities"][logged["arm"]]


def test_an_agent_and_its_log_have_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linmed.log.writer.np", OtherExp())
    arms = np.random.default_rng(2).normal(size=(ITEMS, 2))
    agent, made = Agent(LinMED(), dim=2, seed=3), []
    with LogWriter(tmp_path / "log") as writer:
        for i in range(20):
            asked = agent.probabilities(arms)
            made.append(agent.decide(arms))
            assert (asked == made[-1].probabilities).all()
            law = {"log_probabilities": made[-1].log_probabilities, "arm_count": ITEMS}
            told = {"arm": made[-1].arm, "log_probability": made[-1].log_probability}
            writer.record(made[-1].id, **told, **law)
            agent.learn(made[-1], reward=i / 20.0)
    for decision, row in zip(made, DecisionLog.open(tmp_path / "log").table().to_pylist(), strict=True):
        assert decision.probability == row["probability"] == decision.probabilities[decision.arm]
        assert decision.probabilities.tolist() == row["probabilities"]
