"""A name that is taken: the answer says in what the two bandits differ."""

from typing import Any

import httpx
import pytest

from linmed.serve.bandits import differences

from .serving import create

ITEMS = {"ids": ["a", "b"], "features": [[1.0, 0.0], [0.0, 1.0]]}
SAME: dict[str, Any] = {
    "dim": 2, "policy": {"policy": "LinMED", "sigma": 0.5}, "map": "plain", "reward_range": [0.0, 1.0],
    "log_arms": True, "catalogue": ITEMS,
}  # fmt: skip


@pytest.mark.parametrize(
    ("here", "said"),
    [
        ({}, []),
        ({"dim": 3}, ["dim is 2 there and 3 here"]),
        ({"policy": {"policy": "LinMED", "sigma": 0.3}}, ["policy.sigma is 0.5 there and 0.3 here"]),
        ({"policy": {"policy": "Uniform"}}, ["policy is LinMED there and Uniform here"]),
        ({"reward_range": None}, ["reward_range is [0.0, 1.0] there and not given here"]),
        ({"catalogue": None}, ["catalogue is given only there"]),
        (
            {"catalogue": {"ids": ["a", "c"], "features": [[1.0, 0.0], [0.5, 0.5]]}},
            ["catalogue has other items (b is missing, c is new)"],
        ),
        (
            {"catalogue": {"ids": ["a", "b"], "features": [[1.0, 0.5], [0.0, 1.0]]}},
            ["catalogue has other features of a"],
        ),
        (
            {"catalogue": {"ids": ["b", "a"], "features": [[0.0, 1.0], [1.0, 0.0]]}},
            ["catalogue has its items in another order"],
        ),
        (
            {"catalogue": {"ids": list("abcdefghij"), "features": [*ITEMS["features"], *[[0.0, 0.0]] * 8]}},
            ["catalogue has other items (c, d, e, f, g and 3 more are new)"],
        ),
        (
            {"log_arms": False, "map": "outer"},
            ["map is plain there and outer here", "log_arms is True there and False here"],
        ),
    ],
)
def test_each_difference_is_named(here: dict[str, Any], said: list[str]) -> None:
    assert differences(SAME, SAME | here) == said


def test_an_application_that_creates_its_bandit_again_learns_what_was_changed(app: httpx.Client) -> None:
    create(app, catalogue=ITEMS)
    wanted = {"name": "b", "dim": 2, "policy": {"policy": "LinMED", "sigma": 0.5}, "catalogue": ITEMS}
    assert app.post("/v1/bandits", json=wanted).status_code == 200
    items = {"ids": ["a", "c"], "features": ITEMS["features"]}
    app.patch("/v1/bandits/b", json={"catalogue": items, "policy": {"policy": "LinMED", "sigma": 0.3}})
    answer = app.post("/v1/bandits", json=wanted)
    assert answer.status_code == 409
    assert answer.json()["error"]["message"].endswith(
        "policy.sigma is 0.3 there and 0.5 here; catalogue has other items (c is missing, b is new)"
    )
    app.patch("/v1/bandits/b", json={"catalogue": ITEMS, "policy": wanted["policy"], "archived": True})
    assert "it is archived there" in app.post("/v1/bandits", json=wanted).json()["error"]["message"]
