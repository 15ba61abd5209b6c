"""Catalogues whose items come and go, and a log that does not repeat them."""

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from linmed.ope import DecisionLog
from linmed.policies import LinMED
from linmed.serve import database as db
from linmed.serve.encoding import Joining

from .serving import application, create, decide, reward

THREE = {"ids": ["a", "b", "c"], "features": [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]}


def put(client: httpx.Client, item: str, features: list[float], name: str = "b") -> dict[str, Any]:
    answer = client.put(f"/v1/bandits/{name}/items/{item}", json={"features": features})
    assert answer.status_code == 200, answer.text
    return answer.json()


def delete(client: httpx.Client, item: str, name: str = "b") -> httpx.Response:
    return client.delete(f"/v1/bandits/{name}/items/{item}")


def state(client: httpx.Client, name: str = "b") -> dict[str, Any]:
    return client.get(f"/v1/bandits/{name}/state").json()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_items_come_and_go_and_a_decision_names_the_version_it_saw(
    kind: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(kind)
    with application(url) as app:
        assert create(app, catalogue=THREE)["catalogue_version"] == 1
        first = decide(app, context=[])
        assert first["catalogue_version"] == 1
        assert put(app, "d", [0.5, 0.5]) == {"catalogue_version": 2, "items": 4}
        assert put(app, "b", [0.8, 0.6]) == {"catalogue_version": 3, "items": 4}
        assert put(app, "b", [0.8, 0.6]) == {"catalogue_version": 3, "items": 4}  # nothing differs
        assert delete(app, "a").json() == {"catalogue_version": 4, "items": 3}
        later = decide(app, context=[])
        assert later["catalogue_version"] == 4
        assert len(later["probabilities"]) == 3
        now = app.get("/v1/bandits/b/catalogue").json()
        assert now == {
            "version": 4,
            "ids": ["b", "c", "d"],
            "features": [[0.8, 0.6], [0.0, 1.0], [0.5, 0.5]],
            "next": None,
        }
        assert app.get("/v1/bandits/b/catalogue/1").json() == {"version": 1, **THREE, "next": None}
        assert app.get("/v1/bandits/b/catalogue/3").json()["ids"] == ["a", "b", "c", "d"]
        assert app.get("/v1/bandits/b/catalogue/5").status_code == 404
        assert app.get("/v1/bandits/b").json()["catalogue_version"] == 4
        refused = app.post("/v1/bandits/b/decide", json={"arm_ids": ["a", "b"]})
        assert (refused.status_code, refused.json()["error"]["field"]) == (422, "arm_ids[0]")
        stored = app.get(f"/v1/bandits/b/decisions/{first['decision_id']}").json()
        assert (stored["catalogue_version"], stored["arm_count"]) == (1, 3)


def test_a_change_writes_the_items_that_differ_and_nothing_else(sqlite: str) -> None:
    with application(sqlite) as app:
        create(app, catalogue=THREE)
        put(app, "d", [0.5, 0.5])
        put(app, "b", [0.8, 0.6])
        delete(app, "c")
    opened = db.Database(sqlite)
    with opened.reader.begin() as connection:
        query = sa.select(*db.items.c["id", "place", "since", "until"]).order_by(db.items.c.number)
        rows = [tuple(row) for row in connection.execute(query)]
    opened.close()
    assert rows == [("a", 0, 1, None), ("b", 1, 1, 3), ("c", 2, 1, 4), ("d", 3, 2, None), ("b", 1, 3, None)]


def test_another_order_of_the_same_items_is_another_version(app: httpx.Client) -> None:
    create(app, catalogue=THREE)
    turned = {"ids": ["c", "a", "b"], "features": [[0.0, 1.0], [1.0, 0.0], [0.6, 0.8]]}
    assert app.patch("/v1/bandits/b", json={"catalogue": turned}).json()["catalogue_version"] == 2
    assert app.patch("/v1/bandits/b", json={"catalogue": turned}).json()["catalogue_version"] == 2
    assert app.get("/v1/bandits/b/catalogue").json() == {"version": 2, **turned, "next": None}
    assert app.get("/v1/bandits/b/catalogue/1").json() == {"version": 1, **THREE, "next": None}


def test_several_items_at_once_are_one_version(app: httpx.Client) -> None:
    create(app, catalogue=THREE)
    more = {"ids": ["x", "a", "y/z"], "features": [[0.1, 0.2], [0.9, 0.1], [0.3, 0.3]]}
    assert app.put("/v1/bandits/b/items", json=more).json() == {"catalogue_version": 2, "items": 5}
    assert app.get("/v1/bandits/b/catalogue").json()["ids"] == ["a", "b", "c", "x", "y/z"]
    assert delete(app, "y/z").json() == {"catalogue_version": 3, "items": 4}  # an id may have a slash


def test_what_cannot_be_in_a_catalogue_is_refused_by_name(app: httpx.Client) -> None:
    create(app, catalogue=THREE)
    create(app, "solo", catalogue={"ids": ["a"], "features": [[1.0, 0.0]]})
    create(app, "none")
    wide = app.put("/v1/bandits/b/items/e", json={"features": [1.0, 2.0, 3.0]})
    assert wide.status_code == 422
    narrow = app.put("/v1/bandits/b/items/e", json={"features": [1.0]})
    assert (narrow.status_code, narrow.json()["error"]["field"]) == (422, "features")
    assert "have 2 features, got 1" in narrow.json()["error"]["message"]
    assert delete(app, "nobody").status_code == 404
    assert delete(app, "a", "none").status_code == 404
    last = delete(app, "a", "solo")
    assert last.status_code == 409
    assert "last of the catalogue" in last.json()["error"]["message"]
    assert app.get("/v1/bandits/none/catalogue").status_code == 404
    assert app.get("/v1/bandits/b/catalogue").json()["version"] == 1
    assert put(app, "first", [0.3, 0.4], "none") == {"catalogue_version": 1, "items": 1}


@pytest.mark.identity
def test_late_rewards_of_removed_and_changed_items_count_as_what_was_played(sqlite: str) -> None:
    """The state is the fold of what was played, to the last bit, here and after a restart."""
    rng = np.random.default_rng(5)
    contexts = [rng.normal(size=2).tolist() for _ in range(40)]
    names, played, rewards = {"a": [1.0, 0.0], "b": [0.6, 0.8], "c": [0.0, 1.0]}, [], []
    with application(sqlite, snapshot_every=7) as app:
        create(app, dim=4, catalogue=THREE, map="outer")
        taken = [decide(app, context=context) for context in contexts]
        delete(app, "a")
        put(app, "b", [9.0, 9.0])
        for i in rng.permutation(40):
            value = float(rng.random())
            reward(app, taken[i], value)
            played.append(np.outer(names[taken[i]["arm_id"]], contexts[i]).ravel())
            rewards.append(value)
        served = state(app)
    policy = LinMED(sigma=0.5)
    fold = policy.start(1, 4)
    policy.learn(fold, np.array(played), np.array(rewards), np.zeros(40, dtype=np.int64))
    for name, array in fold.arrays().items():
        np.testing.assert_array_equal(np.array(served["arrays"][name]), array)
    opened = db.Database(sqlite)
    with opened.writer.begin() as connection:
        connection.execute(sa.delete(db.snapshots))
    opened.close()
    with application(sqlite) as app:
        assert state(app) == served


@pytest.mark.identity
@pytest.mark.parametrize("map", ["plain", "outer"])
def test_the_log_rebuilds_every_arm_to_the_last_bit(map: Any, app: httpx.Client, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    items = {"ids": [f"i{k}" for k in range(30)], "features": rng.normal(size=(30, 3)).tolist()}
    dim = 5 if map == "plain" else 6
    create(app, dim=dim, catalogue=items, map=map)
    features, expected, answers = np.array(items["features"]), [], []
    for step in range(12):
        context = rng.normal(size=2)
        body: dict[str, Any] = {"context": context.tolist()}
        places = np.arange(len(features))
        if step % 3 == 1:
            places = rng.permutation(len(features))[:7]
        if step % 3 == 2:
            places = np.sort(rng.permutation(len(features))[:20])
        if step % 3:
            body["arm_ids"] = [items["ids"][k] for k in places]
        answers.append(decide(app, **body))
        expected.append(Joining(dim, map).join(features[places], context))
        if step == 5:  # the items change; what was decided before stays
            put(app, "i3", [7.0, 8.0, 9.0])
            features = features.copy()
            features[3] = [7.0, 8.0, 9.0]
    (tmp_path / "log.parquet").write_bytes(app.get("/v1/bandits/b/log").content)
    rows = DecisionLog.open(tmp_path / "log.parquet").table().to_pylist()
    for row, arms, answer in zip(rows, expected, answers, strict=True):
        np.testing.assert_array_equal(np.array(row["arms"]), arms)
        np.testing.assert_array_equal(np.array(row["features"]), arms[answer["arm"]])
        assert row["probability"] == answer["probability"] == row["probabilities"][row["arm"]]
        np.testing.assert_allclose(sum(row["probabilities"]), 1.0, atol=1e-6)


@pytest.mark.parametrize(
    ("count", "features", "context", "decisions", "most"), [(1000, 64, 0, 120, 1024), (50, 64, 8, 1500, 500)]
)
def test_a_decision_among_items_costs_little_and_greedy_can_be_judged(
    sqlite: str, count: int, features: int, context: int, decisions: int, most: int
) -> None:
    """Bytes by which the database grows for each decision, its indexes and context included."""
    rng = np.random.default_rng(2)
    items = {
        "ids": [f"item-{k}" for k in range(count)],
        "features": rng.normal(size=(count, features)).tolist(),
    }

    def used(client: httpx.Client) -> int:
        opened = db.Database(sqlite)
        with opened.reader.begin() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            size = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        opened.close()
        return int(pages * size)

    with application(sqlite) as app:
        create(app, dim=features + context, catalogue=items, reward_range=[0, 1])

        def play(number: int) -> None:
            asked = [{"context": rng.normal(size=context).tolist()} for _ in range(number)]
            for part in range(0, number, 60):
                body = {"decisions": asked[part : part + 60]}
                answer = app.post("/v1/bandits/b/decide/batch", json=body)
                assert answer.status_code == 200, answer.text
                taken = answer.json()["decisions"]
                pairs = [{"decision_id": one["decision_id"], "reward": 0.5} for one in taken[:3]]
                app.post("/v1/bandits/b/reward/batch", json={"rewards": pairs})

        before = used(app)
        play(decisions)
        grown = (used(app) - before) / decisions
        assert grown <= most
        body = {"targets": ["greedy", "uniform"], "interval": "none", "missing": "skip"}
        answer = app.post("/v1/bandits/b/evaluate", json=body)
        assert answer.status_code == 200, answer.text
        assert [one["target"] for one in answer.json()["results"]] == ["greedy", "uniform"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_key_answers_with_what_was_decided_whatever_became_of_the_bandit(
    kind: str, request: pytest.FixtureRequest
) -> None:
    with application(request.getfixturevalue(kind)) as app:
        create(app, dim=3, catalogue=THREE)
        whole, some = {"context": [0.5], "key": "w"}, {"arm_ids": ["a", "b"], "context": [0.5], "key": "s"}
        first, second = decide(app, **whole), decide(app, **some)

        def asked_again() -> None:
            assert decide(app, **whole) == {**first, "repeated": True}
            assert decide(app, **some) == {**second, "repeated": True}
            both = app.post("/v1/bandits/b/decide/batch", json={"decisions": [whole, some]}).json()
            assert both["decisions"] == [{**first, "repeated": True}, {**second, "repeated": True}]
            other = app.post("/v1/bandits/b/decide", json={**whole, "context": [0.6]})
            assert (other.status_code, other.json()["error"]["field"]) == (409, "key")

        put(app, "d", [0.5, 0.5])
        asked_again()
        delete(app, "a")  # one of the arms of `some`
        asked_again()
        app.delete("/v1/bandits/b")
        asked_again()
        fresh = app.post("/v1/bandits/b/decide", json={"context": [0.5], "key": "fresh"})
        assert fresh.status_code == 409
        assert "archived" in fresh.json()["error"]["message"]
        mixed = app.post("/v1/bandits/b/decide/batch", json={"decisions": [whole, {"context": [0.5]}]})
        assert mixed.status_code == 409


@pytest.mark.parametrize("max_work", [4_000_000, 7])
def test_a_known_key_does_not_cost_the_new_decisions_of_its_batch(sqlite: str, max_work: int) -> None:
    with application(sqlite, max_work=max_work) as app:
        create(app, catalogue=THREE)
        some = {"arm_ids": ["a"], "key": "s"}
        first, whole = decide(app, **some), decide(app, key="w")
        put(app, "d", [0.5, 0.5])
        delete(app, "a")
        put(app, "e", [0.5, 0.6])  # the whole catalogue has 8 numbers now
        assert decide(app, key="w") == {**whole, "repeated": True}
        batch = {"decisions": [{"arm_ids": ["b"]}, some, {"arm_ids": ["c"], "key": "n"}]}
        answer = app.post("/v1/bandits/b/decide/batch", json=batch)
        assert answer.status_code == 200, answer.text
        found = answer.json()["decisions"]
        assert [one["arm_id"] for one in found] == ["b", "a", "c"]
        assert found[1] == {**first, "repeated": True}
        assert decide(app, arm_ids=["c"], key="n") == {**found[2], "repeated": True}
        batch["decisions"].append({"arm_ids": ["b", "no"]})
        wrong = app.post("/v1/bandits/b/decide/batch", json=batch).json()["error"]
        assert wrong["field"] == "decisions[3].arm_ids[1]"
        assert app.get("/v1/bandits/b/statistics").json()["decisions"] == 4


def test_a_policy_for_one_set_of_arms_begins_anew_with_other_items(app: httpx.Client) -> None:
    create(app, catalogue=THREE, policy={"policy": "EXP2", "horizon": 100})
    before = decide(app, context=[])
    reward(app, before, 1.0)
    put(app, "d", [0.5, 0.5])
    assert app.get("/v1/bandits/b").json()["policy_version"] == 2
    after = decide(app, context=[])
    assert (after["policy_version"], len(after["probabilities"])) == (2, 4)


def test_items_keep_their_limits_whichever_are_offered(app: httpx.Client) -> None:
    limits = {"policy": "Limits", "base": {"policy": "LinMED"}, "caps": {"b": 0.1}, "floors": {"c": 0.3}}
    create(app, catalogue=THREE, policy=limits)
    for ids in (["a", "b", "c"], ["c", "b"], ["b", "a"]):
        body = {"arm_ids": ids} if len(ids) < 3 else {}
        answer = app.post("/v1/bandits/b/decide", json=body).json()
        p = dict(zip(ids, answer["probabilities"], strict=True))
        assert p["b"] <= 0.1 + 1e-12
        assert p.get("c", 1.0) >= 0.3 - 1e-12
    refused = app.post("/v1/bandits/b/decide", json={"arm_ids": ["b"]})
    assert refused.status_code == 422
    assert "caps of the one arm sum to 0.1" in refused.text
