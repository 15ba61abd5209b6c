"""What a bandit believes of the arms in its catalogue."""

import httpx
import numpy as np
import pytest

from linmed.features import Category, Features, Number, Vector
from linmed.policies import LinMED

from .serving import create, decide, reward

ITEMS = {"ids": ["a", "b", "c"], "features": [[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]]}


def outlook(app: httpx.Client, name: str = "b") -> dict:
    answer = app.get(f"/v1/bandits/{name}/arms")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_arm_has_its_estimate_and_the_interval_of_the_confidence_set(app: httpx.Client) -> None:
    create(app, catalogue=ITEMS, reward_range=[0.0, 1.0])
    for i in range(30):
        reward(app, decide(app, key=str(i)), float(i % 3 == 0))
    found = outlook(app)
    arrays = app.get("/v1/bandits/b/state").json()["arrays"]
    policy = LinMED(sigma=0.5)
    state = policy.start(1, 2)
    state.restore({key: np.array(value, dtype=state.arrays()[key].dtype) for key, value in arrays.items()})
    assert (found["count"], found["rewards"], found["context_size"]) == (3, 30, 0)
    assert [one["estimate"] for one in found["arms"]] == sorted(
        (one["estimate"] for one in found["arms"]), reverse=True
    )
    for one in found["arms"]:
        arm = np.array(ITEMS["features"][ITEMS["ids"].index(one["id"])])
        assert (one["features"], one["place"]) == (arm.tolist(), ITEMS["ids"].index(one["id"]))
        half = policy.radius(state)[0] * np.sqrt(arm @ state.inverse[0] @ arm)
        assert one["estimate"] == pytest.approx(arm @ state.theta[0])
        assert (one["upper"] - one["lower"]) / 2 == pytest.approx(half)
    assert sum(one["share"] for one in found["arms"]) == pytest.approx(1.0)


@pytest.mark.parametrize(("map", "dim"), [("plain", 4), ("outer", 4)])
def test_arms_that_depend_on_a_context_are_shown_at_the_mean_of_the_recent_ones(
    app: httpx.Client, map: str, dim: int
) -> None:
    create(app, dim=dim, catalogue=ITEMS, map=map)
    before = outlook(app)
    assert (before["context_size"], before["context"]) == (2, None)
    assert [one["estimate"] for one in before["arms"]] == [None, None, None]
    contexts = [[1.0, 0.5], [1.0, 0.0], [0.5, 0.25]]
    for context in contexts:
        reward(app, decide(app, context=context), 1.0)
    found = outlook(app)
    mean = np.mean(contexts, axis=0)
    assert found["context"] == pytest.approx(mean.tolist())
    theta = np.array(app.get("/v1/bandits/b/state").json()["theta"])
    for one in found["arms"]:
        item = np.array(one["features"])
        vector = np.concatenate([item, mean]) if map == "plain" else np.outer(item, mean).ravel()
        assert one["estimate"] == pytest.approx(vector @ theta)


def test_fields_have_their_names_and_units(app: httpx.Client) -> None:
    kind, price = Category("kind", ["shoe", "hat"]), Number("price", scale=(50.0, 20.0))
    made = Features(context=[Category("device", ["phone", "desk"])], item=[kind, price, Vector("look", 1)])
    items = [{"kind": "hat", "price": 90.25, "look": [0.5]}, {"kind": "coat", "price": 40, "look": [0]}]
    body = {"name": "b", "features": made.to_dict(), "catalogue": {"ids": ["x", "y"], "features": items}}
    assert app.post("/v1/bandits", json=body).status_code == 201
    for device in ("phone", "phone", "phone", "desk"):
        decide(app, context={"device": device})
    found = outlook(app)
    assert {one["id"]: one["described"] for one in found["arms"]} == {
        "x": ["kind=hat", "price 90.25", "look[0] 0.5"],
        "y": ["price 40", "look[0] 0"],
    }
    assert found["context_described"] == ["device=phone 0.75", "device=desk 0.25"]


def test_without_a_catalogue_there_is_nothing_to_believe(app: httpx.Client) -> None:
    create(app)
    decide(app)
    found = outlook(app)
    assert (found["count"], found["arms"]) == (0, [])


def test_a_policy_without_a_confidence_set_has_estimates_alone(app: httpx.Client) -> None:
    policy = {"policy": "EXP2", "horizon": 100}
    create(app, policy=policy, catalogue=ITEMS)
    reward(app, decide(app, key="1"), 1.0)
    for one in outlook(app)["arms"]:
        assert isinstance(one["estimate"], float)
        assert (one["lower"], one["upper"]) == (None, None)
