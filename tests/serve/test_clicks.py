"""Clicks in the service: rewards of the family alone, predicted rates, a change of policy, recovery."""

import numpy as np

from .serving import ARMS, application, create, decide, reward

CATALOGUE = {"ids": ["a", "b", "c"], "features": ARMS}


def clicks(app, rounds=40, seed=3):
    """Decisions with clicks at 70 %, 20 % and 20 %."""
    rng = np.random.default_rng(seed)
    for i in range(rounds):
        found = decide(app, key=f"k{i}")
        reward(app, found, float(rng.random() < (0.7 if found["arm"] == 0 else 0.2)))


def test_rewards_that_are_no_clicks_are_refused_and_named(sqlite):
    with application(sqlite) as app:
        create(app, policy={"policy": "LogisticMED"}, catalogue=CATALOGUE)
        decision = decide(app, key="k")
        body = {"decision_id": decision["decision_id"], "reward": 1.5}
        refused = app.post("/v1/bandits/b/reward", json=body)
        assert refused.status_code == 422
        assert refused.json()["error"]["field"] == "reward"
        assert "between 0 and 1, as clicks are" in refused.json()["error"]["message"]
        reward(app, decision, 1.0)
        assert app.get("/v1/bandits/b/state").json()["count"] == 1


def test_the_state_is_the_fold_of_the_log_after_a_restart(sqlite):
    with application(sqlite) as app:
        create(app, policy={"policy": "LogisticMED"}, catalogue=CATALOGUE)
        clicks(app)
        before = app.get("/v1/bandits/b/state").json()
    with application(sqlite) as app:
        assert app.get("/v1/bandits/b/state").json() == before


def test_predicted_rates_lie_between_0_and_1_with_their_intervals(sqlite):
    with application(sqlite) as app:
        create(app, policy={"policy": "LogisticMED"}, catalogue=CATALOGUE)
        clicks(app)
        outlook = app.get("/v1/bandits/b/arms").json()
        assert outlook["arms"][0]["id"] == "a"
        for arm in outlook["arms"]:
            assert 0.0 <= arm["lower"] < arm["estimate"] < arm["upper"] <= 1.0
        said = app.get("/v1/bandits/b/verdict").json()
        assert not said["proved"]


def test_a_policy_for_clicks_is_refused_where_the_log_has_other_rewards(sqlite):
    with application(sqlite) as app:
        create(app, catalogue=CATALOGUE)
        reward(app, decide(app, key="k"), 2.5)
        changed = app.patch("/v1/bandits/b", json={"policy": {"policy": "LogisticMED"}})
        assert changed.status_code == 409
        assert "cannot learn from the rewards that the log has" in changed.json()["error"]["message"]
        assert app.get("/v1/bandits/b").json()["policy"]["policy"] == "LinMED"
        reward(app, decide(app, key="l"), 2.5)


def test_a_policy_for_clicks_takes_over_a_log_of_clicks(sqlite):
    with application(sqlite) as app:
        create(app, catalogue=CATALOGUE)
        clicks(app)
        changed = app.patch("/v1/bandits/b", json={"policy": {"policy": "LogisticMED"}})
        assert changed.status_code == 200, changed.text
        assert app.get("/v1/bandits/b/state").json()["count"] == 40
        decide(app, key="after")


def test_clicks_are_evaluated_with_a_model_of_clicks(sqlite):
    with application(sqlite) as app:
        create(app, policy={"policy": "LogisticMED"}, catalogue=CATALOGUE, reward_range=[0.0, 1.0])
        clicks(app, 60)
        body = {"targets": ["uniform", "greedy"], "estimators": ["dr"], "regressor": "logistic"}
        answer = app.post("/v1/bandits/b/evaluate", json=body)
        assert answer.status_code == 200, answer.text
        assert {line["target"] for line in answer.json()["results"]} == {"uniform", "greedy"}
        assert app.post("/v1/bandits/b/trend", json={}).status_code == 200
