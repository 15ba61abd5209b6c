"""Deadlines, control groups, shadow policies and outcomes: in the fold of the log, whoever makes it."""

import json
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from linmed.ope import DecisionLog
from linmed.policies import LinMED
from linmed.serve import database as db
from linmed.serve import decisions, engine

from .serving import ARMS, Running, application, create, decide, reward, until

POLICY = {"policy": "LinMED", "sigma": 0.5}
SHADOWS = {"greedy": {"policy": "Greedy"}, "calm": {"policy": "LinMED", "sigma": 0.2}}
ITEMS = {"ids": ["red", "green", "blue"], "features": ARMS}
CORNERS = {"catalogue": ITEMS, "control": 0.2, "shadow": SHADOWS}


def state(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/v1/bandits/b/state").json()
    return found


def stored(client: httpx.Client, decision: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/v1/bandits/b/decisions/{decision['decision_id']}").json()
    return found


def exported(client: httpx.Client, path: Path) -> list[dict[str, Any]]:
    path.write_bytes(client.get("/v1/bandits/b/log").content)
    log = DecisionLog.open(path)
    found: list[dict[str, Any]] = log.table([*log.columns]).to_pylist()
    return found


def folded(*steps: tuple[Any, ...]) -> dict[str, Any]:
    """The state of POLICY after rewards (arm, reward) and corrections (arm, before, after)."""
    policy = LinMED(sigma=0.5)
    made = policy.start(1, 2)
    for arm, *rewards in steps:
        row = np.array(ARMS[arm])
        if len(rewards) == 2:
            assert policy.correct(made, row, *rewards)
        else:
            policy.learn(made, row[None], np.array(rewards), np.zeros(1, dtype=np.int64))
    return made.arrays()


@pytest.mark.parametrize("late", ["correct", "ignore"])
@pytest.mark.parametrize("early", ["hold", "learn"])
def test_what_is_missing_early_or_late_is_learned_when_the_rule_says(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: str, late: str
) -> None:
    clock = [1_000_000_000]
    for module in (engine, decisions):
        monkeypatch.setattr(module, "now", lambda: clock[0])

    def at(seconds: float) -> None:
        clock[0] = round(1e9 + 1e6 * seconds)

    with application(sqlite, staleness=0.02) as app:
        create(app, wait="10s", early=early, late=late)
        made = []
        for second in range(4):
            at(second)
            made.append(decide(app))
        a, b, c, d = (one["arm"] for one in made)
        at(5)
        reward(app, made[1], 1.0)
        assert state(app)["count"] == (early == "learn")
        assert stored(app, made[1])["reward"] == 1.0
        at(12)  # of the third the deadline is now: its reward is in time only if nothing looked before
        until(lambda: state(app)["count"] == 3)
        late_one = reward(app, made[2], 0.75)
        assert reward(app, made[2], 0.75) == {**late_one, "repeated": True}
        body = {"decision_id": made[2]["decision_id"], "reward": 0.5}
        assert app.post("/v1/bandits/b/reward", json=body).status_code == 409
        shown = stored(app, made[3])
        assert (shown["reward"], shown["missing"], shown["deadline"]) == (None, False, round(1e9 + 13e6))
        at(14)
        until(lambda: state(app)["count"] == 4)
        kinds = [(1, "missing"), (3, "missing"), (3, "late"), (4, "missing")]
        both = {"hold": [(2, "held"), kinds[0], (2, "due"), *kinds[1:]], "learn": [(2, "reward"), *kinds]}
        assert facts(sqlite)[2] == both[early]
        first = [(a, 0.0), (b, 1.0)] if early == "hold" else [(b, 1.0), (a, 0.0)]
        corrected = [(c, 0.0, 0.75)] if late == "correct" else []
        expected = folded(*first, (c, 0.0), *corrected, (d, 0.0))
        for name, array in expected.items():
            assert np.array_equal(np.array(state(app)["arrays"][name]), array), name
        value = 0.75 if late == "correct" else 0.0
        shown = [stored(app, one) for one in made]
        assert [(one["reward"], one["missing"]) for one in shown] == [
            (0.0, True), (1.0, False), (value, True), (0.0, True),
        ]  # fmt: skip
        found = app.get("/v1/bandits/b/statistics").json()
        assert found["deadlines"] == {"held": 0, "missing": 3, "late": 1}
        assert (found["rewards"], found["pending"]) == (2, 0)
        assert found["mean_reward"] == pytest.approx((1.0 + value) / 4)
        rows = exported(app, tmp_path / "log.parquet")
        assert [(one["reward"], one["missing"]) for one in rows] == [
            (0.0, True), (1.0, None), (value, True), (0.0, True),
        ]  # fmt: skip
        before = state(app)
    with application(sqlite) as again:
        assert state(again) == before


def busy(client: httpx.Client, stop: threading.Event, seed: int) -> None:
    """Decisions, half of which get a reward at some moment, until stopped or the server goes."""
    rng, waiting = np.random.default_rng(seed), list[dict[str, Any]]()
    while not stop.is_set():
        try:
            waiting.append(decide(client))
            if rng.random() < 0.5:
                reward(client, waiting.pop(int(rng.integers(len(waiting)))), float(rng.random()))
        except httpx.TransportError:
            return
        time.sleep(0.003)


def facts(url: str) -> tuple[int, int, list[tuple[int, str]]]:
    """How many decisions there are, how many wait, and the rows of rewards in their order."""
    opened = db.Database(url)
    with opened.reader.begin() as connection:
        counts = [
            connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in (db.decisions, db.waiting)
        ]
        rows = connection.execute(
            sa.select(db.rewards.c.decision, db.rewards.c.kind).order_by(db.rewards.c.seq)
        )
        found = [(one.decision, one.kind) for one in rows]
    opened.close()
    return counts[0], counts[1], found


@pytest.mark.identity
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_servers_that_are_killed_among_deadlines_agree_to_the_last_bit(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url, stop = request.getfixturevalue(kind), threading.Event()
    options = {"staleness": 0.05, "snapshot_every": 40}
    with Running(url, tmp_path, "--staleness", "0.05", "--snapshot-every", "40") as server:
        with server.client() as client:
            create(client, wait=0.1, early="learn", **CORNERS)
            threads = [threading.Thread(target=busy, args=(server.client(), stop, seed)) for seed in range(2)]
            for thread in threads:
                thread.start()
            until(lambda: client.get("/v1/bandits/b/statistics").json()["deadlines"]["missing"] > 40)
            server.end(signal.SIGKILL)
        stop.set()
        for thread in threads:
            thread.join()
    with application(url, **options) as one:
        until(lambda: facts(url)[1] == 0)
        count, _, rows = facts(url)
        until(lambda: state(one)["seq"] == len(rows))
        learned = [decision for decision, what in rows if what in ("reward", "missing")]
        assert sorted(learned) == list(range(1, count + 1))  # each once, whoever was killed when
        late = {decision for decision, what in rows if what == "late"}
        assert late <= {decision for decision, what in rows if what == "missing"}
        if kind == "postgres":
            with application(url, **options) as two:
                made = [decide((one, two)[i % 2]) for i in range(30)]
                for i, decision in enumerate(made[::2]):
                    reward((two, one)[i % 2], decision, 0.5)
                until(lambda: facts(url)[1] == 0)
                until(lambda: state(one)["seq"] == state(two)["seq"] == len(facts(url)[2]))
                assert state(one) == state(two)  # every array, those of shadow policies too
        before = state(one)
    assert any(name.startswith("group_1_") for name in before["arrays"])
    opened = db.Database(url)
    with opened.writer.begin() as connection:
        connection.execute(sa.delete(db.snapshots))  # from the log alone
    opened.close()
    with application(url) as again:
        assert state(again) == before


def test_both_sides_make_the_probability_and_shadows_learn(app: httpx.Client, tmp_path: Path) -> None:
    """1000 draws: the control group's share is beyond 4.5 standard errors with probability 7e-6."""
    policy = {**POLICY, "alpha_emp": 0.4, "alpha_opt": 0.3}
    create(app, policy=policy, **CORNERS)
    for value in (1.0, 0.0, 0.5):
        reward(app, decide(app, arm_ids=ITEMS["ids"]), value)
    create(app, "plain", policy=policy, catalogue=ITEMS)
    body = {"decisions": [{}] * 1000}
    found = app.post("/v1/bandits/b/decide/batch", json=body).json()["decisions"]
    share = np.mean([one["control"] for one in found])
    assert abs(share - 0.2) < 4.5 * np.sqrt(0.16 / 1000)
    law = np.array(found[0]["probabilities"])
    counts = np.bincount([one["arm"] for one in found], minlength=3)
    assert ((counts - 1000 * law) ** 2 / (1000 * law)).sum() < 23.0  # 2 degrees: 1e-5
    theirs = np.bincount([one["arm"] for one in found if one["control"]], minlength=3)
    assert ((theirs - theirs.sum() / 3) ** 2 / (theirs.sum() / 3)).sum() < 23.0  # uniform
    assert law.min() >= 0.2 / 3
    assert set(found[0]["shadow"]) == set(SHADOWS)
    for one in found[:50]:
        assert stored(app, one)["shadow"] == one["shadow"]
    greedy = {one["arm"]: one["shadow"]["greedy"] for one in found}
    assert sorted(greedy.values()) == [0.0, 0.0, 1.0]  # it has learned: no tie is left
    rows = exported(app, tmp_path / "log.parquet")
    assert {one["control_share"] for one in rows} == {0.2}
    assert [one["control"] for one in rows[3:]] == [one["control"] for one in found]
    assert [dict(one["shadow"]) for one in rows[3:]] == [one["shadow"] for one in found]
    sides = app.get("/v1/bandits/b/statistics").json()["control"]
    assert sides["control"]["decisions"] + sides["policy"]["decisions"] == 1003
    only = app.post("/v1/bandits", json={"name": "one", "dim": 2, "catalogue": ITEMS, "control": 0.5,
                                         "control_policy": "blue"})  # fmt: skip
    assert only.status_code == 201, only.text
    found = app.post("/v1/bandits/one/decide/batch", json=body).json()["decisions"]
    assert {one["arm_id"] for one in found if one["control"]} == {"blue"}


def test_outcomes_come_with_a_reward_once(app: httpx.Client, tmp_path: Path) -> None:
    create(app)
    made = decide(app)
    body = {"decision_id": made["decision_id"], "reward": 1.0, "outcomes": {"margin": 2.1, "complaint": 0}}
    for repeated in (False, True):
        assert app.post("/v1/bandits/b/reward", json=body).json()["repeated"] is repeated
    for other in ({"margin": 2.2, "complaint": 0}, None):
        answer = app.post("/v1/bandits/b/reward", json={**body, "outcomes": other})
        assert (answer.status_code, answer.json()["error"]["field"]) == (409, "outcomes")
    assert stored(app, made)["outcomes"] == body["outcomes"]
    decide(app)
    rows = exported(app, tmp_path / "log.parquet")
    assert [one["outcomes"] and dict(one["outcomes"]) for one in rows] == [body["outcomes"], None]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"control": 1.0}, "control"),
        ({"control": -0.1}, "control"),
        ({"control_policy": "red"}, "control_policy"),
        ({"control": 0.1, "control_policy": "pink"}, "control_policy"),
        ({"control": 0.1, "control_policy": {"policy": "No"}}, "control_policy.policy"),
        ({"control": 0.1, "policy": {"policy": "CatalogueMED"}}, "control"),
        ({"control": 0.1, "policy": {"policy": "EXP2"}}, "control"),
        ({"shadow": {}}, "shadow"),
        ({"shadow": {"x": {"policy": "LinMED", "sigma": -1}}}, "shadow.x.sigma"),
        ({"shadow": {"x": {"policy": "EXP2"}}}, "shadow['x']"),
        ({"wait": 0}, "wait"),
        ({"wait": "soon"}, "wait"),
        ({"missing": 1.0}, "wait"),
        ({"wait": 60, "missing": 2.0, "reward_range": [0, 1]}, "missing"),
        ({"wait": 60, "missing": 1.5, "policy": {"policy": "LogisticMED"}}, "missing"),
        ({"wait": 60, "early": "never"}, "early"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(app: httpx.Client, more: dict[str, Any], field: str) -> None:
    body = {"name": "b", "dim": 2, "policy": POLICY, "catalogue": ITEMS, **more}
    answer = app.post("/v1/bandits", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["field"] == field, answer.text
    assert app.get("/v1/bandits").json() == []


def test_a_bandit_shows_its_options_and_is_found_again_by_them(app: httpx.Client) -> None:
    told = {"wait": "15m", "missing": -1.0, "early": "learn", "late": "ignore", **CORNERS}
    made = create(app, **told)
    assert made["wait"] == 900.0
    assert {name: made[name] for name in told if name not in ("wait", "catalogue")} == {
        name: told[name] for name in told if name not in ("wait", "catalogue")
    }
    again = {"name": "b", "dim": 2, "policy": POLICY, **told}
    assert app.post("/v1/bandits", json=again).status_code == 200
    answer = app.post(
        "/v1/bandits", json={**again, "wait": "1d", "control": 0.3, "dim": 3, "catalogue": None}
    )
    message = answer.json()["error"]["message"]
    for words in (
        "dim is 2 there and 3 here",
        "wait is 900.0 there and 86400.0 here",
        "control is 0.2 there",
    ):
        assert words in message
    assert "catalogue has other items" in message
    changed = {
        **again,
        "policy": {"policy": "LinMED", "sigma": 0.4},
        "shadow": {"greedy": {"policy": "Greedy"}},
    }
    message = app.post("/v1/bandits", json=changed).json()["error"]["message"]
    assert "policy.sigma is 0.5 there and 0.4 here" in message
    assert "shadow: others there" in message
    assert json.dumps(app.get("/v1/bandits/b").json(), sort_keys=True) == json.dumps(made, sort_keys=True)
    for change in (
        {"policy": {"policy": "EXP2"}},
        {"policy": {"policy": "LogisticMED"}},
        {"reward_range": [0, 1]},
    ):
        assert app.patch("/v1/bandits/b", json=change).status_code == 422  # −1 would be none of its rewards
    assert decide(app, key="k")["control"] in (True, False)
