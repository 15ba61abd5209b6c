"""What the API promises about bandits, decisions and rewards."""

import math
from typing import Any

import httpx
import numpy as np
import pytest
from jsonschema import Draft202012Validator

from linmed.policies import ALL

from .serving import ARMS, application, create, decide, reward, until

CATALOGUE = {"ids": ["red", "green", "blue"], "features": ARMS}


def test_a_decision_carries_the_exact_probability_of_its_arm(app: httpx.Client) -> None:
    create(app)
    for _ in range(20):
        found = decide(app)
        assert found["probability"] == pytest.approx(math.exp(found["log_probability"]), rel=1e-15)
        assert found["probabilities"][found["arm"]] == pytest.approx(found["probability"], rel=1e-12)
        assert sum(found["probabilities"]) == pytest.approx(1.0, abs=1e-12)


def test_arms_are_drawn_with_the_probabilities_that_are_logged(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 decisions at one state: χ² of the counts beyond 16.3 (2 degrees) has probability 3e-4."""
    monkeypatch.setattr("secrets.randbits", lambda bits: 20)
    with application(sqlite) as app:
        create(app, policy={"policy": "LinMED", "alpha_emp": 0.4, "alpha_opt": 0.3})
        body = {"decisions": [{"arms": ARMS}] * 400}
        found = app.post("/v1/bandits/b/decide/batch", json=body).json()["decisions"]
    p = np.array(found[0]["probabilities"])
    counts = np.bincount([one["arm"] for one in found], minlength=3)
    assert ((counts - 400 * p) ** 2 / (400 * p)).sum() < 16.3


def test_the_same_key_gives_the_same_decision(app: httpx.Client) -> None:
    create(app)
    first = decide(app, arms=ARMS, key="k")
    reward(app, first, 1.0)
    again = decide(app, arms=ARMS, key="k")
    assert again == {**first, "repeated": True}
    assert app.get("/v1/bandits/b/statistics").json()["decisions"] == 1


def test_keys_are_per_bandit(app: httpx.Client) -> None:
    create(app)
    create(app, "c")
    assert (
        decide(app, arms=ARMS, key="k")["decision_id"] != decide(app, "c", arms=ARMS, key="k")["decision_id"]
    )


def test_a_key_used_for_other_arms_is_a_conflict(app: httpx.Client) -> None:
    create(app)
    decide(app, arms=ARMS, key="k")
    answer = app.post("/v1/bandits/b/decide", json={"arms": ARMS[:2], "key": "k"})
    assert answer.status_code == 409
    assert "'k'" in answer.json()["error"]["message"]


def test_the_same_key_twice_in_one_batch_is_one_decision(app: httpx.Client) -> None:
    create(app)
    body = {"decisions": [{"arms": ARMS, "key": "k"}, {"arms": ARMS, "key": "k"}, {"arms": ARMS}]}
    found = app.post("/v1/bandits/b/decide/batch", json=body).json()["decisions"]
    assert found[0]["decision_id"] == found[1]["decision_id"] != found[2]["decision_id"]
    assert [one["repeated"] for one in found] == [False, True, False]
    assert app.get("/v1/bandits/b/statistics").json()["decisions"] == 2


def test_a_reward_counts_once_and_a_contradiction_is_a_conflict(app: httpx.Client) -> None:
    create(app)
    decision = decide(app)
    assert not reward(app, decision, 0.5)["repeated"]
    assert reward(app, decision, 0.5)["repeated"]
    body = {"decision_id": decision["decision_id"], "reward": 0.6}
    assert app.post("/v1/bandits/b/reward", json=body).status_code == 409
    assert app.get("/v1/bandits/b/state").json()["count"] == 1
    stored = app.get(f"/v1/bandits/b/decisions/{decision['decision_id']}").json()
    assert stored["reward"] == 0.5


def test_a_batch_of_rewards_is_written_whole_or_not_at_all(app: httpx.Client) -> None:
    create(app)
    one, two = decide(app), decide(app)
    pairs = [{"decision_id": one["decision_id"], "reward": 1.0}, {"decision_id": "missing", "reward": 1.0}]
    answer = app.post("/v1/bandits/b/reward/batch", json={"rewards": pairs})
    assert answer.status_code == 404
    assert app.get("/v1/bandits/b/state").json()["count"] == 0
    pairs[1]["decision_id"] = two["decision_id"]
    assert app.post("/v1/bandits/b/reward/batch", json={"rewards": pairs}).status_code == 200
    assert app.get("/v1/bandits/b/state").json()["count"] == 2


def test_a_reward_for_another_bandits_decision_is_refused(app: httpx.Client) -> None:
    create(app)
    create(app, "c")
    body = {"decision_id": decide(app)["decision_id"], "reward": 1.0}
    assert app.post("/v1/bandits/c/reward", json=body).status_code == 404


def test_rewards_are_part_of_the_state_when_they_are_acknowledged(app: httpx.Client) -> None:
    create(app)
    decision = decide(app)
    reward(app, decision, 1.0)
    a = np.array(ARMS[decision["arm"]])
    V = 0.25 * np.eye(2) + np.outer(a, a)
    assert app.get("/v1/bandits/b/state").json()["theta"] == pytest.approx(np.linalg.solve(V, a), rel=1e-12)


def test_arms_come_from_the_catalogue_by_id(app: httpx.Client) -> None:
    create(app, catalogue=CATALOGUE)
    found = decide(app, arm_ids=["blue", "red"])
    assert found["arm_id"] == ["blue", "red"][found["arm"]]
    assert len(decide(app, key="all")["probabilities"]) == 3
    wrong = app.post("/v1/bandits/b/decide", json={"arm_ids": ["red", "pink"]})
    assert wrong.status_code == 422
    assert "arm_ids[1]" in wrong.json()["error"]["message"]


@pytest.mark.parametrize(
    ("map", "dim", "expected"),
    [("plain", 4, [0.6, 0.8, 2.0, 3.0]), ("outer", 4, [1.2, 1.8, 1.6, 2.4])],
)
def test_a_context_joins_the_catalogue(app: httpx.Client, map: str, dim: int, expected: list[float]) -> None:
    catalogue = {"ids": ["only"], "features": [[0.6, 0.8]]}
    create(app, dim=dim, catalogue=catalogue, map=map)
    decision = decide(app, context=[2.0, 3.0])
    reward(app, decision, 1.0)
    gram = np.array(app.get("/v1/bandits/b/state").json()["arrays"]["gram"][0]) - 0.25 * np.eye(4)
    assert gram[3] == pytest.approx(np.outer(expected, expected)[3], rel=1e-12)
    assert app.post("/v1/bandits/b/decide", json={"context": [2.0]}).status_code == 422
    assert app.post("/v1/bandits/b/decide", json={}).status_code == 422


def test_a_new_policy_keeps_the_log_and_each_decision_knows_its_version(app: httpx.Client) -> None:
    create(app)
    first = decide(app)
    reward(app, first, 1.0)
    changed = app.patch("/v1/bandits/b", json={"policy": {"policy": "Greedy", "epsilon": 0.2, "sigma": 0.5}})
    assert changed.json()["policy_version"] == 2
    second = decide(app)
    assert (first["policy_version"], second["policy_version"]) == (1, 2)
    state = app.get("/v1/bandits/b/state").json()
    assert (state["count"], state["policy_version"]) == (1, 2)
    assert any(state["theta"])
    same = app.patch("/v1/bandits/b", json={"policy": {"policy": "Greedy", "epsilon": 0.2, "sigma": 0.5}})
    assert same.json()["policy_version"] == 2


def test_an_archived_bandit_takes_late_rewards_but_no_decisions(app: httpx.Client) -> None:
    create(app)
    decision = decide(app)
    assert app.delete("/v1/bandits/b").json()["archived"]
    assert app.post("/v1/bandits/b/decide", json={"arms": ARMS}).status_code == 409
    assert not reward(app, decision, 1.0)["repeated"]
    assert not app.patch("/v1/bandits/b", json={"archived": False}).json()["archived"]
    decide(app)
    assert app.get("/v1/bandits/b/state").json()["count"] == 1


def test_exp2_learns_by_what_it_kept_and_survives_a_restart(sqlite: str) -> None:
    with application(sqlite) as app:
        create(app, policy={"policy": "EXP2"}, catalogue=CATALOGUE)
        assert app.post("/v1/bandits/b/decide", json={"arms": ARMS}).status_code == 422
        for i in range(5):
            reward(app, decide(app, key=f"k{i}"), i / 5)
        before = app.get("/v1/bandits/b/state").json()
    with application(sqlite) as app:
        assert app.get("/v1/bandits/b/state").json() == before
        changed = app.patch("/v1/bandits/b", json={"catalogue": {"ids": ["x", "y"], "features": ARMS[:2]}})
        assert changed.json()["policy_version"] == 2
        assert app.get("/v1/bandits/b/state").json()["count"] == 0
        decide(app, key="new")


def test_the_openapi_document_shows_examples(app: httpx.Client) -> None:
    document = app.get("/v1/openapi.json").json()
    for model in ("NewBandit", "DecideRequest", "RewardRequest", "EvaluateRequest"):
        assert document["components"]["schemas"][model]["examples"]
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert document["paths"]["/v1/bandits/{name}/decide"]["post"]["operationId"] == "decide"
    assert len({one["operationId"] for one in operations}) == len(operations)


def test_a_bandit_can_be_made_from_the_openapi_document_alone(app: httpx.Client) -> None:
    document = app.get("/v1/openapi.json").json()
    schemas = document["components"]["schemas"]

    def right(name: str, value: Any) -> bool:
        return Draft202012Validator({"$ref": f"#/components/schemas/{name}", **document}).is_valid(value)

    for policy in ALL:
        assert right("Policy", policy().to_dict()), policy
    for config in (
        {"policy": "LinMED", "sigma": "unknown"},
        {"policy": "Forgetful", "base": {"policy": "LinTS"}},
    ):
        assert right("Policy", config)
    for config in (
        {},
        {"policy": "LinMED", "sigmaa": 1},
        {"policy": "No"},
        {"policy": "LinMED", "sigma": "x"},
    ):
        assert not right("Policy", config)
        assert not right("BanditChange", {"policy": config})
    [features] = schemas["Features"]["examples"]
    new = {"name": "shoes", "policy": {"policy": "LinMED", "sigma": 0.5}, "features": features,
           "catalogue": {"ids": ["s-17"], "features": [{"price": 40}]}}  # fmt: skip
    assert right("NewBandit", new)
    assert not right("NewBandit", {**new, "features": {**features, "item": [{"column": "Number"}]}})
    assert app.post("/v1/bandits", json=new).status_code == 201
    assert decide(app, "shoes", context={"device": "phone"})["arm_id"] == "s-17"
    for name, field in (("StoredDecision", "time"), ("Point", "time"), ("BanditLine", "created")):
        assert "icroseconds since 1970" in schemas[name]["properties"][field]["description"]


def test_a_query_parameter_that_nothing_reads_is_refused_by_its_name(app: httpx.Client) -> None:
    create(app)
    made = decide(app)
    for method, path, body in (
        ("GET", "", None),
        ("GET", "/b", None),
        ("GET", f"/b/decisions/{made['decision_id']}", None),
        ("GET", "/b/log", None),
        ("POST", "/b/decide", {"arms": ARMS}),
        ("POST", "/b/reward", {"decision_id": made["decision_id"], "reward": 1.0}),
        ("DELETE", "/b", None),
    ):
        for query in ("limit=10&offset=2", "limit", "limit=/decide"):
            answer = app.request(method, f"/v1/bandits{path}?{query}", json=body)
            assert answer.status_code == 422, (method, path, query)
            error = answer.json()["error"]
            assert error["field"] == "limit"
            assert "'limit' is unknown" in error["message"]
    assert app.get("/v1/bandits/b").json()["archived"] is False
    assert app.get("/healthz?at=1").status_code == 200  # probes may carry what they like


def test_head_is_answered_where_get_is_without_content(app: httpx.Client) -> None:
    create(app)
    paths = ["/", "/healthz", "/readyz", "/metrics", "/v1/status", "/v1/bandits", "/v1/bandits/b"]
    for path in paths:
        until(lambda path=path: app.get(path).status_code == 200)  # type: ignore[misc]
        shown, head = app.get(path), app.head(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-type"] == shown.headers["content-type"]
    assert app.head("/v1/bandits/unknown").status_code == 404
    assert app.head("/v1/bandits/b/decide").status_code == 405
    assert "head" not in app.get("/v1/openapi.json").json()["paths"]["/v1/bandits"]
