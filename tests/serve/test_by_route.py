"""Decisions among whole catalogues by route (CatalogueMED): thousands of items, whose arms are not made."""

import signal
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from linmed.features import Category, Features, Number, Scan, Vector
from linmed.ope import DecisionLog
from linmed.policies import CatalogueMED
from linmed.serve.bandit import TOGETHER, Router
from linmed.serve.client import Client
from linmed.serve.database import Database
from linmed.serve.encoding import Joining
from linmed.serve.importing import import_file
from linmed.serve.items import Catalogue, Rows

from .serving import Running, application, create, decide, reward, until
from .test_page import opened

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
        client.delete_items("shop", [gone])
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
        assert trend["reason"] is None
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
    """Its probability is that of `linmed.catalogue_sampler` for the item, whatever the shelf went through."""
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


def test_a_batch_is_drawn_together_and_each_decision_has_its_own_law(
    app: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    names, features = [f"i{k}" for k in range(300)], rng.normal(size=(300, 3)).round(3)
    create(app, dim=6, map="outer", policy=POLICY, catalogue={"ids": names, "features": features.tolist()})
    for k in range(40):
        reward(app, decide(app, context=[1.0, k / 40]), float(rng.random()))
    policy = CatalogueMED(**{k: v for k, v in POLICY.items() if k != "policy"})
    state = policy.start(1, 6)
    arrays = app.get("/v1/bandits/b/state").json()["arrays"]
    state.restore({name: np.array(array) for name, array in arrays.items()})
    laws = Router(policy, Catalogue.of(names, features), Joining(6, "outer")).routes()
    asked: list[int] = []
    top = Scan.top

    def counted(self: Scan, queries: Any, k: int) -> Any:
        asked.append(len(queries))
        return top(self, queries, k)

    monkeypatch.setattr(Scan, "top", counted)
    monkeypatch.setattr("linmed.serve.scheduling.DEAR", 0.0)  # no batch is short
    contexts = rng.normal(size=(2 * TOGETHER + 5, 2)).round(3)
    body: list[dict[str, Any]] = [
        {"context": context.tolist(), "key": str(k)} for k, context in enumerate(contexts)
    ]
    body[3] = {"arm_ids": ["i5", "i6"], "context": [1.0, 0.0], "key": "3"}
    found = app.post("/v1/bandits/b/decide/batch", json={"decisions": body}).json()["decisions"]
    assert len(asked) <= 4  # and not one for each
    assert sum(asked) == len(body) - 1
    monkeypatch.undo()
    assert found[3]["arm_id"] in ("i5", "i6")
    for k, one in enumerate(found):
        law = laws.law(state, contexts[k])
        place = names.index(one["arm_id"])
        if k != 3 and one["fallback"]:
            assert place == law.best
        elif k != 3:
            np.testing.assert_allclose(one["probability"], law.probability_of(place), rtol=1e-9)
    again = app.post("/v1/bandits/b/decide/batch", json={"decisions": body}).json()["decisions"]
    assert [one["decision_id"] for one in again] == [one["decision_id"] for one in found]
    body[20]["context"] = [1.0]
    body[20]["key"] = "new"
    wrong = app.post("/v1/bandits/b/decide/batch", json={"decisions": body})
    assert (wrong.status_code, wrong.json()["error"]["field"]) == (422, "decisions[20].context")


@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_shows_a_shop_and_decides_for_a_visitor(browser: Any, running: Running, width: int) -> None:
    name, some = f"shop-{width}", dict(list(ITEMS.items())[:60])
    with Client(running.url) as client:
        client.create(name, features=MAP.to_dict(), policy=POLICY, catalogue=some, reward_range=(0.0, 1.0))
        taken = client.decide_batch(name, contexts=[who(k) for k in range(40)])
        client.reward_batch(name, [(one, k % 2) for k, one in enumerate(taken)])
    page = opened(browser, running.url, name, width)
    page.locator("#best-headline").get_by_text("of 60; best so far").wait_for()
    assert page.locator("#legend-values").inner_text().split() == ["as", "played", "uniform"]
    assert "decisions by route are logged without all items" in page.locator("#doubts").inner_text()
    page.get_by_label("Context: JSON with the fields age, device").fill('{"device": "phone", "age": 33}')
    page.get_by_role("button", name="Decide", exact=True).click()
    page.locator("#tried").get_by_text("Decided for item-").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_a_batch_by_route_is_worth_less_than_its_decisions_alone() -> None:
    items = Catalogue.of([f"i{k}" for k in range(20_000)], np.ones((20_000, 200)))
    router = Router(CatalogueMED(), items, Joining(200))
    assert router.numbers(1) == router.numbers()
    assert router.numbers(64) < 64 * router.numbers() / 2
    assert all(router.numbers(n + 1) > router.numbers(n) for n in range(1, 40))


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
    one = rows["arm_id"].to_pylist()[-1]
    other = Database(f"sqlite:///{tmp_path / 'other.db'}")
    other.open()
    import_file(other, tmp_path / "log.parquet", "b")
    other.close()
    body = {"targets": ["logged", "uniform", f"item:{one}"], "interval": "normal"}
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
