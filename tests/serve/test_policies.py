"""Policies in the service: each is the fold of its log to the last bit, whatever it learns and forgets."""

from typing import Any

import httpx
import numpy as np
import pytest

from linmed.policies import ALL, Budget, Policy

from .serving import ARMS, application, create, decide, reward

CORNERS = {"ids": ["x", "y", "z"], "features": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}
LINMED = {"policy": "LinMED", "sigma": 0.3}
UNTOLD = {"policy": "LinMED", "sigma": "unknown"}
FORGETFUL = {"policy": "Forgetful", "half_lives": ["inf", 100, 20]}
CONFIGS: dict[str, dict[str, Any]] = {
    "ridge": {**UNTOLD, "ridge": "learned"},
    "norm": {**UNTOLD, "norm_bound": "unknown"},
    "clicks": {"policy": "LogisticMED"},
    "forgetful": {**FORGETFUL, "base": LINMED},
    "clock": {"policy": "Forgetful", "base": LINMED, "half_lives": ["inf", "1h", "0.05s"]},
    "fading-clicks": {**FORGETFUL, "base": {"policy": "LogisticMED", "norm_bound": 3.0}},
}


@pytest.mark.identity
def test_the_state_is_the_fold_of_the_log_to_the_last_bit(sqlite: str) -> None:
    rng, seen = np.random.default_rng(4), dict[str, list[Any]]()
    with application(sqlite, snapshot_every=7) as client:
        for name, told in CONFIGS.items():
            create(client, name, policy=told)
            seen[name] = []
            for i in range(40):
                made = decide(client, name)
                value = float(np.clip(ARMS[made["arm"]][i >= 20] + 0.1 * rng.standard_normal(), 0.0, 1.0))
                reward(client, made, value, name)
                stored = client.get(f"/v1/bandits/{name}/decisions/{made['decision_id']}").json()
                seen[name].append((made["arm"], value, stored["time"] / 1e6))
        before = {name: client.get(f"/v1/bandits/{name}/state").json() for name in CONFIGS}
    with application(sqlite) as client:
        for name in CONFIGS:
            assert client.get(f"/v1/bandits/{name}/state").json() == before[name]
    for name, told in CONFIGS.items():
        policy = Policy.from_dict(told)
        state = policy.start(1, 2)
        for arm, value, time in seen[name]:
            one = np.array([ARMS[arm]]), np.array([value]), np.zeros(1, dtype=np.int64)
            policy.learn_at(state, *one, np.array([time]))
        for key, array in state.arrays().items():
            np.testing.assert_array_equal(before[name]["arrays"][key], array, err_msg=f"{name}: {key}")


def test_every_policy_is_served_and_survives_a_restart(sqlite: str) -> None:
    states = {}
    with application(sqlite) as client:
        for policy in ALL:
            name = policy.__name__
            if policy is Budget:
                body = {"name": name, "dim": 3, "policy": {"policy": name}}
                refused = client.post("/v1/bandits", json=body)
                assert refused.status_code == 422
                assert "the service keeps no budget" in refused.text
                continue
            create(client, name, dim=3, policy={"policy": name}, catalogue=CORNERS)
            for value in (0.0, 1.0, 0.5):
                made = decide(client, name, key=f"k{value}")
                assert 0.0 < made["probability"] <= 1.0
                reward(client, made, value, name)
            states[name] = client.get(f"/v1/bandits/{name}/state").json()
            assert states[name]["count"] == 3
    with application(sqlite) as client:
        for name, state in states.items():
            assert client.get(f"/v1/bandits/{name}/state").json() == state


# What cannot be learned, and a change of policy

CATALOGUE = {"ids": ["a", "b", "c"], "features": ARMS}


def clicks(app: httpx.Client, rounds: int = 40, seed: int = 3) -> None:
    """Decisions with clicks at 70 %, 20 % and 20 %."""
    rng = np.random.default_rng(seed)
    for i in range(rounds):
        found = decide(app, key=f"k{i}")
        reward(app, found, float(rng.random() < (0.7 if found["arm"] == 0 else 0.2)))


def test_rewards_that_are_no_clicks_are_refused_and_named(app: httpx.Client) -> None:
    create(app, policy={"policy": "LogisticMED"}, catalogue=CATALOGUE)
    decision = decide(app, key="k")
    body = {"decision_id": decision["decision_id"], "reward": 1.5}
    refused = app.post("/v1/bandits/b/reward", json=body)
    assert refused.status_code == 422
    assert refused.json()["error"]["field"] == "reward"
    assert "between 0 and 1, as clicks are" in refused.json()["error"]["message"]
    reward(app, decision, 1.0)
    assert app.get("/v1/bandits/b/state").json()["count"] == 1


def test_predicted_rates_lie_between_0_and_1_with_their_intervals(app: httpx.Client) -> None:
    create(app, policy={"policy": "LogisticMED"}, catalogue=CATALOGUE)
    clicks(app)
    outlook = app.get("/v1/bandits/b/arms").json()
    assert outlook["arms"][0]["id"] == "a"
    for arm in outlook["arms"]:
        assert 0.0 <= arm["lower"] < arm["estimate"] < arm["upper"] <= 1.0
    said = app.get("/v1/bandits/b/verdict").json()
    assert not said["proved"]


def test_a_policy_for_clicks_is_refused_where_the_log_has_other_rewards(app: httpx.Client) -> None:
    create(app, catalogue=CATALOGUE)
    reward(app, decide(app, key="k"), 2.5)
    changed = app.patch("/v1/bandits/b", json={"policy": {"policy": "LogisticMED"}})
    assert changed.status_code == 409
    assert "cannot learn from the rewards that the log has" in changed.json()["error"]["message"]
    assert app.get("/v1/bandits/b").json()["policy"]["policy"] == "LinMED"
    reward(app, decide(app, key="l"), 2.5)


def test_a_policy_for_clicks_takes_over_a_log_of_clicks(app: httpx.Client) -> None:
    create(app, catalogue=CATALOGUE)
    clicks(app)
    changed = app.patch("/v1/bandits/b", json={"policy": {"policy": "LogisticMED"}})
    assert changed.status_code == 200, changed.text
    assert app.get("/v1/bandits/b/state").json()["count"] == 40
    decide(app, key="after")


def test_clicks_are_evaluated_with_a_model_of_clicks(app: httpx.Client) -> None:
    create(app, policy={"policy": "LogisticMED"}, catalogue=CATALOGUE, reward_range=[0.0, 1.0])
    clicks(app, 60)
    body = {"targets": ["uniform", "greedy"], "estimators": ["dr"], "regressor": "logistic"}
    answer = app.post("/v1/bandits/b/evaluate", json=body)
    assert answer.status_code == 200, answer.text
    assert {line["target"] for line in answer.json()["results"]} == {"uniform", "greedy"}
    assert app.post("/v1/bandits/b/trend", json={}).status_code == 200
