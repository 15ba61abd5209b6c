"""Decisions among whole catalogues by route (CatalogueMED): thousands of items, whose arms are not made."""

import signal
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from linmed.features import Category, Features, Number, Vector
from linmed.ope import DecisionLog
from linmed.policies import CatalogueMED
from linmed.serve.client import Client
from linmed.serve.database import Database
from linmed.serve.importing import import_file
from linmed.serve.joining import Joining
from linmed.serve.routing import Router
from linmed.serve.shelf import Catalogue, Rows

from .serving import Running, application, create, decide, reward, until

COUNT, PART = 5000, 2000
MAP = Features(
    context=[Category("device", ["phone", "desk"]), Number("age", scale=(40.0, 12.0))],
    item=[Number("price", scale=(50.0, 20.0)), Vector("look", 3)],
)
POLICY = {"policy": "CatalogueMED", "sigma": 0.5, "alpha_emp": 0.5, "alpha_opt": 0.25}
RANDOM = np.random.default_rng(19)
ITEMS = {
    f"item-{k}": {"price": float(price), "look": look.tolist()}
    for k, (price, look) in enumerate(
        zip(RANDOM.uniform(5, 95, COUNT).round(2), RANDOM.normal(size=(COUNT, 3)).round(4), strict=True)
    )
}


def who(k: int) -> dict[str, Any]:
    """Visitor number k."""
    return {"device": ("phone", "desk", "tv")[k % 3], "age": 20 + k % 50}


def upload(client: Client, name: str) -> None:
    ids = list(ITEMS)
    for first in range(0, COUNT, PART):
        client.put_items(name, {one: ITEMS[one] for one in ids[first : first + PART]})


def test_a_shop_of_thousands_survives_a_crash_and_is_judged(tmp_path: Path) -> None:
    """Fields, ids, rewards, items that go between decision and reward, kill −9, and an evaluation."""
    database = f"sqlite:///{tmp_path / 'shop.db'}"
    with Running(database, tmp_path) as server, Client(server.url) as client:
        client.create("shop", features=MAP.to_dict(), policy=POLICY, reward_range=(0.0, 1.0))
        upload(client, "shop")
        assert client.bandit("shop")["items"] == COUNT
        taken = [client.decide("shop", context=who(k), key=f"visit-{k}") for k in range(60)]
        taken += client.decide_batch(
            "shop", contexts=[who(k) for k in range(60, 90)], keys=[f"visit-{k}" for k in range(60, 90)]
        )
        assert all(one.arm_id in ITEMS for one in taken)
        assert all((one.probability is None) == one.fallback for one in taken)
        assert all(0.0 < one.probability <= 1.0 for one in taken if one.probability is not None)
        gone = taken[3].arm_id
        assert gone is not None
        client.delete_item("shop", gone)
        for k, one in enumerate(taken[:80]):
            client.reward("shop", one, (k % 4) / 3)
        later = client.decide_batch(
            "shop", contexts=[who(k) for k in range(200)], keys=[f"l{k}" for k in range(200)]
        )
        assert gone not in {one.arm_id for one in later}
        state = client.state("shop")
        server.end(signal.SIGKILL)
    with Running(database, tmp_path) as server, Client(server.url) as client:
        assert client.state("shop")["arrays"] == state["arrays"]
        again = [client.decide("shop", context=who(k), key=f"visit-{k}") for k in range(90)]
        for before, now in zip(taken, again, strict=True):
            assert now.repeated
            assert (now.id, now.arm_id, now.probability) == (before.id, before.arm_id, before.probability)
        assert client.bandit("shop")["items"] == COUNT - 1
        for k in range(80, 90):
            client.reward("shop", taken[k], 0.5)
        for k, one in enumerate(later):
            client.reward("shop", one, (k % 5) / 4)
        targets = ["logged", "uniform", f"item:{gone}"]
        found = client.evaluate("shop", targets, interval="normal")
        assert [one["target"] for one in found["results"]] == targets
        assert found["judged"] == 290
        client.export("shop", tmp_path / "log.parquet")
        trend = httpx.post(f"{server.url}/v1/bandits/shop/trend", json={}, timeout=300).json()
        assert trend["weights"]["refuted"] is False
    rows = DecisionLog.open(tmp_path / "log.parquet").table().to_pylist()
    assert [row["decision_id"] for row in rows[:90]] == [one.id for one in taken]
    for row in rows:
        assert (row["probability"] is None) == row["fallback"]
        assert (row["log_probability"] is None) == row["fallback"]
        assert row["arm_count"] == (COUNT if row in rows[:90] else COUNT - 1)
        assert row["arms"] is None
    encoded = MAP.encode_items([ITEMS[str(one.arm_id)] for one in taken])
    for k, (row, item) in enumerate(zip(rows, encoded, strict=False)):
        np.testing.assert_array_equal(row["features"], MAP.join(item[None], MAP.encode_context(who(k)))[0])
        np.testing.assert_array_equal(row["context"], MAP.encode_context(who(k)))
        assert row["best"] == row["arm"] or not row["fallback"]
    assert {row["catalogue_version"] for row in rows[90:]} == {rows[0]["catalogue_version"] + 1}


def test_the_answer_is_what_the_library_decides_with_the_same_state(app: httpx.Client) -> None:
    """Its probability is that of `linmed.routes` for the item, whatever the shelf went through."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(300, 3)).round(3)
    names = [f"i{k}" for k in range(300)]
    create(app, dim=5, policy=POLICY, catalogue={"ids": names, "features": features.tolist()})
    for k in range(40):
        reward(app, decide(app, context=[1.0, k / 40]), float(rng.random()))
    app.delete("/v1/bandits/b/items/i4")
    app.put("/v1/bandits/b/items/i9", json={"features": [2.0, 0.0, 0.0]})
    features[9] = [2.0, 0.0, 0.0]
    left = [k for k in range(300) if k != 4]
    arrays = app.get("/v1/bandits/b/state").json()["arrays"]
    policy = CatalogueMED(**{k: v for k, v in POLICY.items() if k != "policy"})
    state = policy.start(1, 5)
    state.restore({name: np.array(array) for name, array in arrays.items()})
    catalogue = Catalogue.of([names[k] for k in left], features[left])
    law = Router(policy, catalogue, Joining(5)).routes().law(state, np.array([1.0, 0.25]))
    seen = set()
    for _ in range(60):
        found = decide(app, context=[1.0, 0.25])
        number = names.index(found["arm_id"])
        place = number - (number > 4)
        assert (found["arm"], found["probabilities"]) == (number, None)
        if found["fallback"]:
            assert place == law.best
        else:
            np.testing.assert_allclose(found["probability"], law.probability_of(place), rtol=1e-9)
        seen.add(found["fallback"])
    assert False in seen


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_servers_over_one_log_have_one_law(kind: str, request: pytest.FixtureRequest) -> None:
    """Both know the state and the items: what either plays has the probability that the other gives it."""
    url = request.getfixturevalue(kind)
    rng = np.random.default_rng(2)
    features = rng.normal(size=(40, 2)).round(3)
    body = {"ids": [f"i{k}" for k in range(40)], "features": features.tolist()}
    with application(url, staleness=0.1) as one, application(url, staleness=0.1) as two:
        create(one, dim=2, policy={**POLICY, "alpha_emp": 0.2}, catalogue=body)
        taken = [decide(app, context=[]) for app in (one, two) for _ in range(20)]
        for k, decision in enumerate(taken):
            reward(one, decision, k / 40)
        until(lambda: two.get("/v1/bandits/b/state").json()["count"] == 40)
        chances: list[dict[str, float]] = [{}, {}]
        for app, known in zip((one, two), chances, strict=True):
            for _ in range(120):
                found = decide(app, context=[])
                if not found["fallback"]:
                    known[found["arm_id"]] = found["probability"]
        both = chances[0].keys() & chances[1].keys()
        assert len(both) >= 3
        assert {name: chances[0][name] for name in both} == {name: chances[1][name] for name in both}


def test_requests_that_name_arms_are_decided_as_ever(app: httpx.Client) -> None:
    create(app, dim=2, policy=POLICY, catalogue={"ids": ["a", "b"], "features": [[1.0, 0.0], [0.0, 1.0]]})
    some = decide(app, arm_ids=["b", "a"])
    assert (some["fallback"], len(some["probabilities"])) == (False, 2)
    given = decide(app, arms=[[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    np.testing.assert_allclose(sum(given["probabilities"]), 1.0)
    app.delete("/v1/bandits/b/items/a")
    gone = app.post("/v1/bandits/b/decide", json={"arm_ids": ["a"]})
    assert (gone.status_code, gone.json()["error"]["field"]) == (422, "arm_ids[0]")
    assert decide(app, context=[])["arm_id"] == "b"
    none = app.post("/v1/bandits/b/decide", json={"context": [1.0]})
    assert (none.status_code, none.json()["error"]["field"]) == (422, "context")
    verdict = app.post("/v1/bandits/b/verdict", json={"context": []})
    assert verdict.status_code == 200, verdict.text


def test_products_that_are_too_large_are_refused(app: httpx.Client) -> None:
    items = {"ids": ["a", "b"], "features": [[1e7, 0.0], [0.0, 1.0]]}
    create(app, dim=2, map="outer", policy=POLICY, catalogue=items)
    large = app.post("/v1/bandits/b/decide", json={"context": [1e6]})
    assert (large.status_code, large.json()["error"]["field"]) == (422, "context")
    assert decide(app, context=[1.0])["arm_id"] in ("a", "b")


def test_another_policy_goes_on_with_the_log_of_routes(app: httpx.Client, tmp_path: Path) -> None:
    create(app, dim=2, policy=POLICY, catalogue={"ids": ["a", "b"], "features": [[1.0, 0.0], [0.0, 1.0]]})
    for k in range(30):
        reward(app, decide(app, context=[]), k / 30)
    changed = app.patch("/v1/bandits/b", json={"policy": {"policy": "LinMED"}})
    assert changed.json()["policy_version"] == 2
    assert decide(app, context=[])["probabilities"] is not None
    back = app.patch("/v1/bandits/b", json={"policy": POLICY})
    assert back.json()["policy_version"] == 3
    assert decide(app, context=[])["probabilities"] is None
    assert app.get("/v1/bandits/b/state").json()["count"] == 30
    assert app.get("/v1/bandits/b/statistics").json()["decisions"] == 32


def test_what_is_known_of_a_version_serves_the_next_one() -> None:
    """Index and coreset of a catalogue that has grown answer as those of one that was read afresh."""
    rng = np.random.default_rng(5)
    policy, joining = CatalogueMED(), Joining(3)
    now = Catalogue.of([f"i{k}" for k in range(2000)], rng.normal(size=(2000, 3)), 1)
    router = Router(policy, now, joining)
    router.routes()
    for version in range(2, 9):
        ids = [f"i{k}" for k in sorted({*rng.integers(0, 2200, size=40).tolist()})]
        gone = [one for one in ids if one in now]
        numbers = 10_000 * version + np.arange(len(ids))
        size = 10.0 if version == 5 else 1.0  # more than all before
        before, now = (
            now,
            now.put(Rows(ids, size * rng.normal(size=(len(ids), 3)), numbers, numbers, gone), version),
        )
        after = Router(policy, now, joining)
        after.after(router)
        assert after.used
        fresh = Router(policy, now.again(), joining)
        state = policy.start(1, 3)
        policy.learn(state, rng.normal(size=(9, 3)), rng.random(9), np.zeros(9, dtype=np.int64))
        best = [one.catalogue.id(one.routes().law(state, np.empty(0)).best) for one in (after, fresh)]
        assert best[0] == best[1]
        old = router.routes().law(state, np.empty(0)).best  # which goes on serving what it had
        scores = np.where(before.live, before.matrix @ state.theta[0], -np.inf)
        assert old == scores.argmax()
        router = after


def test_a_log_of_routes_can_be_imported_and_judged_alike(app: httpx.Client, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    names = [f"i{k}" for k in range(30)]
    create(app, dim=2, policy={**POLICY, "alpha_emp": 0.3}, reward_range=[0, 1],
           catalogue={"ids": names, "features": rng.normal(size=(30, 2)).tolist()})  # fmt: skip
    app.delete("/v1/bandits/b/items/i0")
    for k in range(150):
        reward(app, decide(app, context=[]), (k % 3) / 2)
    (tmp_path / "log.parquet").write_bytes(app.get("/v1/bandits/b/log").content)
    rows = DecisionLog.open(tmp_path / "log.parquet").table()
    assert rows["fallback"].to_pylist().count(True) > 0
    other = Database(f"sqlite:///{tmp_path / 'other.db'}")
    other.open()
    import_file(other, tmp_path / "log.parquet", "b")
    other.close()
    body = {"targets": ["logged", "uniform", "item:i3"], "interval": "normal"}
    here = app.post("/v1/bandits/b/evaluate", json=body)
    assert here.status_code == 200, here.text
    with application(f"sqlite:///{tmp_path / 'other.db'}") as there:
        again = there.post("/v1/bandits/b/evaluate", json={**body, "reward_range": [0, 1]})
        assert again.status_code == 200, again.text
        assert again.json()["results"] == here.json()["results"]
        assert here.json()["judged"] == 150
        trend = app.post("/v1/bandits/b/trend", json={}).json()
        assert trend["weights"]["refuted"] is False
        assert trend["reason"] is None
