"""Bandits whose items and contexts are fields by name: `linmed.features` makes numbers of them."""

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from linmed.features import Category, Features, Number, Vector
from linmed.ope import DecisionLog
from linmed.policies import LinMED
from linmed.serve.client import Client
from linmed.serve.encoding import Joining

from .serving import Running, application, decide, reward

MAP = Features(
    context=[Category("device", ["phone", "desk"]), Number("age", scale=(40.0, 12.0))],
    item=[Number("price", scale=(50.0, 20.0)), Category("kind", ["shoe", "hat"]), Vector("look", 2)],
)
SHOP = {
    "s-17": {"price": 40, "kind": "shoe", "look": [0.1, 0.2]},
    "h-3": {"price": 15.5, "kind": "hat", "look": [0.3, -0.2]},
    "odd": {"price": None, "kind": "sock"},
}
WHO = {"device": "phone", "age": 25}


DISJOINT = {"policy": "Disjoint", "base": {"policy": "LinMED"}}


def huge(**column: Any) -> dict[str, Any]:
    """A map that nobody's memory has room for."""
    return {**MAP.to_dict(), "item": [{"name": "v", **column}], "context": [{"name": "v", **column}]}


def start(client: Any, name: str = "b", **more: Any) -> dict[str, Any]:
    catalogue = {"ids": list(SHOP), "features": list(SHOP.values())}
    body = {"name": name, "features": MAP.to_dict(), "policy": {"policy": "LinMED", "sigma": 0.5}}
    answer = client.post("/v1/bandits", json={**body, "catalogue": catalogue, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.mark.identity
def test_fields_become_the_arms_that_the_map_makes_of_them(sqlite: str, tmp_path: Path) -> None:
    items = MAP.encode_items(list(SHOP.values()))
    contexts = [WHO, {"device": "desk", "age": 61.5}, {"device": "tv"}, {}, {"age": None}]
    with application(sqlite) as app:
        shown = start(app)
        assert (shown["dim"], shown["map"], shown["features"]) == (
            MAP.dim,
            None,
            json.loads(json.dumps(MAP.to_dict())),
        )
        np.testing.assert_array_equal(shown["catalogue"]["features"], items)
        answers = [decide(app, context=context) for context in contexts]
        some = decide(app, context=WHO, arm_ids=["odd", "s-17"])
        for i, answer in enumerate(answers):
            reward(app, answer, i / 4)
        (tmp_path / "log.parquet").write_bytes(app.get("/v1/bandits/b/log").content)
        served = app.get("/v1/bandits/b/state").json()
        assert app.get("/v1/bandits/b/arms").json()["context_size"] == MAP.context_width
        assert app.get("/v1/bandits/b/verdict").status_code == 200
        asked = app.post("/v1/bandits/b/verdict", json={"context": WHO}).json()
        assert asked["context"] == MAP.encode_context(WHO).tolist()
    rows = DecisionLog.open(tmp_path / "log.parquet").table().to_pylist()
    policy, fold = LinMED(sigma=0.5), None
    fold = policy.start(1, MAP.dim)
    for i, (row, context) in enumerate(zip(rows, contexts, strict=False)):
        arms = MAP.join(items, MAP.encode_context(context))
        np.testing.assert_array_equal(np.array(row["arms"]), arms)
        np.testing.assert_array_equal(np.array(row["features"]), arms[answers[i]["arm"]])
        policy.learn(fold, arms[answers[i]["arm"]][None], np.array([i / 4]), np.zeros(1, dtype=np.int64))
    np.testing.assert_array_equal(
        np.array(rows[-1]["arms"]), MAP.join(items[[2, 0]], MAP.encode_context(WHO))
    )
    assert rows[-1]["arm_id"] == some["arm_id"]
    for name, array in fold.arrays().items():
        np.testing.assert_array_equal(np.array(served["arrays"][name]), array)
    with application(sqlite) as app:
        assert app.get("/v1/bandits/b/state").json() == served


def test_a_key_knows_its_context_in_any_order_of_the_fields(app: httpx.Client) -> None:
    start(app)
    first = decide(app, context=WHO, key="k")
    assert decide(app, context=dict(reversed(WHO.items())), key="k") == {**first, "repeated": True}
    other = app.post("/v1/bandits/b/decide", json={"context": {**WHO, "age": 26}, "key": "k"})
    assert (other.status_code, other.json()["error"]["field"]) == (409, "key")


@pytest.mark.parametrize(
    ("context", "field", "said"),
    [
        ({**WHO, "shoe_size": 3}, "context.shoe_size", "the fields age, device"),
        ({**WHO, "age": "young"}, "context.age", "must be a number"),
        ({**WHO, "age": [1]}, "context.age", "must be a number"),
        ({**WHO, "age": 1e300}, "context.age", "1e+100"),
        ({**WHO, "age": 10**4200}, "context.age", "finite"),
        ({**WHO, "age": 1e20}, "context[2]", "at most 1e+12"),
        ({**WHO, "device": {"a": 1}}, "context.device", "text or a number"),
        ({**WHO, "x" * 3900: 1}, "context." + "x" * 100, "is unknown"),
        ([1.0, 0.0, 2.0], "context", "must be an object with the fields age, device"),
        (None, "context", "must be an object"),
        ("phone", "context", "must be a list"),
    ],
)
def test_a_context_that_the_map_does_not_know_is_refused_by_field(
    running: Running, context: Any, field: str, said: str
) -> None:
    with running.client() as client:
        if client.get("/v1/bandits/fields").status_code == 404:
            start(client, "fields")
        answer = client.post("/v1/bandits/fields/decide", json={"context": context})
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, field), answer.text
        assert said in answer.json()["error"]["message"]
        batch = {"decisions": [{"context": WHO}, {"context": context}]}
        answer = client.post("/v1/bandits/fields/decide/batch", json=batch)
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, f"decisions[1].{field}")


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"price": "cheap"}, "features[1].price"),
        ({"price": 3, "size": 1}, "features[1].size"),
        ({"look": [1, 2, 3]}, "features[1].look"),
        ({"look": [1, None]}, "features[1].look"),
        ([1.0, 2.0], "features"),
        ([], "features"),
        (5, "features[1]"),
    ],
)
def test_an_item_that_the_map_does_not_know_is_refused_by_field(
    running: Running, row: Any, field: str
) -> None:
    with running.client() as client:
        if client.get("/v1/bandits/fields").status_code == 404:
            start(client, "fields")
        body = {"ids": ["x", "y"], "features": [SHOP["s-17"], row]}
        answer = client.put("/v1/bandits/fields/items", json=body)
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, field), answer.text
        assert client.get("/v1/bandits/fields").json()["items"] == len(SHOP)


def test_an_item_is_offered_once(app: httpx.Client) -> None:
    """Twice, it would be played with more than the probability that is logged."""
    start(app)
    twice = app.post("/v1/bandits/b/decide", json={"context": WHO, "arm_ids": ["s-17", "odd", "s-17"]})
    assert (twice.status_code, twice.json()["error"]["field"]) == (422, "arm_ids[2]")


def test_a_model_for_every_item_is_served_by_fields_too(app: httpx.Client) -> None:
    made = Features(context=MAP.context, item=[Number("model", scale=None)], interactions="plain")
    items = {"ids": ["a", "b"], "features": [{"model": 0}, {"model": 1}]}
    body = {"name": "b", "features": made.to_dict(), "policy": DISJOINT, "catalogue": items}
    assert app.post("/v1/bandits", json=body).status_code == 201
    reward(app, decide(app, context=WHO), 1.0)


def test_items_are_given_by_fields_or_as_numbers(app: httpx.Client) -> None:
    start(app)
    row = MAP.encode_items([SHOP["s-17"]])[0].tolist()
    assert app.put("/v1/bandits/b/items/s-17", json={"features": row}).json()["catalogue_version"] == 1
    answer = app.put("/v1/bandits/b/items/new", json={"features": {"kind": "hat"}})
    assert answer.json() == {"catalogue_version": 2, "items": 4}
    assert app.get("/v1/bandits/b/catalogue").json()["features"][-1] == [0.0, 0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"features": Features(context=[Number("age")]).to_dict()}, "features", "the scale of 'age'"),
        ({"features": Features(item=[Category("kind")]).to_dict()}, "features", "the categories of 'kind'"),
        ({"features": Features(item=[Vector("v", 1001)]).to_dict()}, "features", "at most 1000"),
        ({"features": {"format": 1}}, "features", "must have context"),
        ({"features": {"format": 99}}, "features", "format"),
        ({"features": []}, "features", "must be an object, got a list"),
        ({"features": {**MAP.to_dict(), "item": [{"column": "Number"}]}}, "features", "the parameter 'name'"),
        ({"features": huge(column="Vector", size=10**12)}, "features", "size must be at most 100000"),
        ({"features": huge(column="Category", hashed=10**12)}, "features", "hashed must be at most"),
        ({"features": huge(column="Fourier", count=10**9)}, "features", "count must be at most"),
        ({"features": huge(column="Vector", size=10**5)}, "features", "10000200001 features"),
        ({"features": MAP.to_dict(), "policy": DISJOINT}, "features", "Number('model', scale=None)"),
        ({"features": {**MAP.to_dict(), "item": [{"column": "Secret"}]}}, "features", "Secret"),
        ({"features": MAP.to_dict(), "map": "outer"}, "map", "goes with dim"),
        ({"features": MAP.to_dict(), "dim": 3}, "dim", f"must be {MAP.dim}"),
        ({}, "dim", "is missing"),
    ],
)
def test_a_map_that_leaves_something_to_be_learned_or_read_is_refused(
    running: Running, change: dict[str, Any], field: str, said: str
) -> None:
    with running.client() as client:
        answer = client.post("/v1/bandits", json={"name": "wrong", **change})
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, field), answer.text
        assert said in answer.json()["error"]["message"]
        assert client.get("/v1/bandits/wrong").status_code == 404


def test_the_same_map_again_is_the_same_bandit_and_another_is_not(app: httpx.Client) -> None:
    start(app)
    catalogue = {"ids": list(SHOP), "features": list(SHOP.values())}
    body = {
        "name": "b",
        "features": MAP.to_dict(),
        "policy": {"policy": "LinMED", "sigma": 0.5},
        "catalogue": catalogue,
    }
    assert app.post("/v1/bandits", json=body).status_code == 200
    other = Features(context=MAP.context, item=MAP.item, interactions="plain")
    refused = app.post("/v1/bandits", json={**body, "features": other.to_dict()})
    assert refused.status_code == 409
    assert "features: others there" in refused.json()["error"]["message"]


def test_the_client_sends_fields(running: Running) -> None:
    with Client(running.url) as client:
        client.create("client-fields", features=MAP.to_dict(), catalogue=SHOP)
        client.put_item("client-fields", "h-9", {"kind": "hat"})
        decision = client.decide("client-fields", context=WHO)
        client.reward("client-fields", decision, 1.0)
        several = client.decide_batch("client-fields", contexts=[WHO, {"age": 3}])
        assert {one.arm_id for one in several} <= {*SHOP, "h-9"}


@pytest.mark.parametrize("map", ["plain", "outer"])
def test_a_map_by_name_is_the_one_of_features(map: Any) -> None:
    """Bit for bit what earlier releases made, of which logs are full."""
    rng = np.random.default_rng(4)
    items, context = rng.normal(size=(7, 3)), rng.normal(size=2)
    items[0, 0], context[0] = -0.0, 5e-324
    made = Joining(5 if map == "plain" else 6, map).join(items, context)
    if map == "plain":
        expected = np.hstack([items, np.broadcast_to(context, (7, 2))])
    else:
        expected = (items[:, :, None] * context).reshape(7, -1)
    assert made.tobytes() == expected.tobytes()
