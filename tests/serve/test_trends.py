"""Values with confidence sequences and the mean weight, as they grew with the log."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from linmed.policies import Greedy
from linmed.serve import reports, store
from linmed.serve.database import Database, decisions

from .serving import create, decide, reward
from .test_reports import ask, download, play


@pytest.fixture
def connection(sqlite: str, app: httpx.Client) -> Iterator[Connection]:
    """Beside the running application, in a transaction of our own for each question."""
    database = Database(sqlite)
    with database.reader.connect() as found:
        yield found
    database.close()


def trend(connection: Connection, name: str = "b", **asked: Any) -> dict[str, Any]:
    with connection.begin():
        return reports.trend(connection, store.the_bandit(connection, name), **asked)


def by_target(found: dict[str, Any]) -> dict[str, Any]:
    return {one["target"]: one for one in found["values"]}


@pytest.mark.parametrize("asked", [{}, {"missing": "skip"}, {"missing": 0.0, "mature": 0.0}])
def test_a_trend_ends_with_what_an_evaluation_says(app: httpx.Client, asked: dict[str, Any]) -> None:
    play(app, 200)
    answer = app.post("/v1/bandits/b/trend", json=asked)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    for row in ask(app, targets=["logged", "uniform"], **asked)["results"]:
        value = by_target(found)[row["target"]]
        for key in ("estimate", "lower", "upper"):
            assert value[key] == pytest.approx(row[key], abs=1e-9)
        assert value["curve"][-1] == {key: value[key] for key in ("n", "estimate", "lower", "upper")}
        assert value["n"] == row["n"] == found["judged"]
        assert [point["n"] for point in value["curve"]] == sorted({point["n"] for point in value["curve"]})
    pairs = {(one["target"], one["baseline"]): one for one in found["differences"]}
    gap = pairs["logged", "uniform"]
    logged, uniform = (by_target(found)[name]["estimate"] for name in ("logged", "uniform"))
    assert gap["estimate"] == pytest.approx(logged - uniform, abs=1e-9)
    assert -1.0 <= gap["lower"] <= gap["upper"] <= 1.0  # a large weight may take the estimate itself beyond
    assert set(pairs) == set(reports.PAIRS)


def test_what_was_said_of_a_shorter_log_is_said_again_of_a_longer_one(
    app: httpx.Client, connection: Connection
) -> None:
    """So that looking again costs no confidence."""
    play(app, 112)  # a cut
    before = trend(connection, missing="skip")
    for i in range(40):
        reward(app, decide(app), float(i % 2))
    after = trend(connection, missing="skip")
    for one, more in zip(before["values"], after["values"], strict=True):
        assert one["curve"] == more["curve"][: len(one["curve"])]
        assert len(more["curve"]) > len(one["curve"])
    curve = before["weights"]["curve"]
    assert curve == after["weights"]["curve"][: len(curve)]


def test_greedy_is_judged_before_it_learns(app: httpx.Client, connection: Connection, tmp_path: Path) -> None:
    play(app, 150)
    found = by_target(trend(connection, missing="skip"))["greedy"]
    rows = download(app, tmp_path / "log.parquet").table().to_pylist()
    policy = Greedy(sigma=0.5)
    state, terms, start = policy.start(1, 2), [], 0
    for stop in reports.cuts():
        part = [row for row in rows[start:stop] if row["reward"] is not None]
        for row in part:
            law = np.exp(policy.log_probabilities(state, np.array(row["arms"])[None])[0])
            terms.append(law[row["arm"]] / row["probability"] * row["reward"])
        features = np.array([row["features"] for row in part])
        values = np.array([row["reward"] for row in part])
        policy.learn(state, features, values, np.zeros(len(part), dtype=np.int64))
        start = stop
        if stop >= len(rows):
            break
    assert found["estimate"] == pytest.approx(np.mean(terms), rel=1e-9)


def test_what_cannot_be_said_is_told(app: httpx.Client, connection: Connection) -> None:
    play(app, 40, log_arms=False)
    bare = trend(connection, missing="skip")
    assert set(by_target(bare)) == {"logged", "uniform"}
    assert "log_arms" in bare["notes"][0]
    create(app, "new")
    fresh = trend(connection, "new")
    assert "is empty" in fresh["reason"]
    assert (fresh["values"], fresh["weights"]["curve"]) == ([], [])
    reward(app, decide(app, "new"), 1.0, "new")
    unbounded = trend(connection, "new")
    assert by_target(unbounded)["logged"] | {"curve": []} == {
        "target": "logged", "n": 1, "estimate": 1.0, "lower": None, "upper": None, "curve": [],
    }  # fmt: skip
    assert "reward_range" in unbounded["notes"][0]


def test_true_probabilities_are_not_refuted_and_false_ones_are(
    app: httpx.Client, connection: Connection, sqlite: str
) -> None:
    play(app, 400)
    sound = trend(connection)["weights"]
    assert not sound["refuted"]
    assert 0.0 < sound["curve"][-1]["lower"] <= 1.0
    create(app, "even", policy={"policy": "Uniform"}, reward_range=[0.0, 1.0])
    for _ in range(20):
        reward(app, decide(app, "even"), 1.0, "even")
    even = trend(connection, "even")["weights"]
    assert even["curve"][-1]["estimate"] == pytest.approx(1.0)
    database = Database(sqlite)
    with database.writer.begin() as writing:  # every decision is said to have been half as probable
        values = {"log_probability": decisions.c.log_probability - np.log(2.0), "log_probabilities": None}
        writing.execute(sa.update(decisions).values(**values))
    database.close()
    wrong = trend(connection, "even")
    assert wrong["weights"]["refuted"]
    assert {one["lower"] for one in [*wrong["values"], *wrong["differences"]]} == {None}


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"missing": 0.0}, "mature"),
        ({"mature": 1e300}, "mature"),
        ({"missing": 5.0, "mature": 0.0}, "missing"),
    ],
)
def test_a_trend_asked_for_wrongly_is_refused_as_an_evaluation_is(
    app: httpx.Client, asked: dict[str, Any], field: str
) -> None:
    create(app, reward_range=[0.0, 1.0])
    decide(app)
    for report, more in (("evaluate", {"targets": ["uniform"]}), ("trend", {})):
        answer = app.post(f"/v1/bandits/b/{report}", json={**asked, **more})
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
