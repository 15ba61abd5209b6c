"""A bandit that forgets: folded from the log to the last bit, and what the service says of changes."""

from typing import Any

import httpx
import numpy as np

from linmed.serve.client import Client

from .serving import ARMS, application, create, decide, reward
from .test_page import opened

FORGETFUL = {
    "policy": "Forgetful",
    "base": {"policy": "LinMED", "sigma": 0.3},
    "half_lives": ["inf", 100, 20],
}
CLICKS = {**FORGETFUL, "base": {"policy": "LogisticMED", "norm_bound": 3.0}}
BY_CLOCK = {**FORGETFUL, "half_lives": ["inf", "1h", "0.05s"]}


def play(
    client: httpx.Client, rounds: int, turned: int, clicks: bool = False
) -> list[tuple[int, float, int]]:
    """Arms, rewards, and when it was decided. From `turned` on arms pay the opposite; clicks in [0, 1]."""
    rng = np.random.default_rng(4)
    seen = []
    for i in range(rounds):
        decision = decide(client)
        stored = client.get(f"/v1/bandits/b/decisions/{decision['decision_id']}").json()
        value = float(ARMS[decision["arm"]][0]) * (1.0 if i < turned else -1.0) + 0.1 * rng.standard_normal()
        value = min(max(value, 0.0), 1.0) if clicks else value
        reward(client, decision, value)
        seen.append((decision["arm"], value, stored["time"]))
    return seen


def test_it_says_when_the_world_changed(sqlite: str) -> None:
    with application(sqlite) as client:
        create(client, policy=FORGETFUL)
        seen = play(client, 120, turned=80)
        answer = client.get("/v1/bandits/b/drift")
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert found["changed"]
        alarm = found["alarms"][0]
        assert 80 < alarm["reward"] <= 120
        assert alarm["time"] == seen[alarm["reward"] - 1][2] / 1e6
        assert [one["half_life"] for one in found["weights"]] == ["∞", "100", "20"]
        assert found["adoptions"][0]["half_life"] == "∞"
        metrics = client.get("/metrics").text
        assert f'linmed_drift_alarms{{bandit="b"}} {float(found["alarm_count"])}' in metrics
        assert 'linmed_drift_weight{bandit="b",half_life="∞"}' in metrics
        assert 'linmed_drift_log_e{bandit="b"}' in metrics


def test_a_policy_that_does_not_watch_is_refused(sqlite: str) -> None:
    with application(sqlite) as client:
        create(client)
        answer = client.get("/v1/bandits/b/drift")
        assert answer.status_code == 422, answer.text
        assert "Forgetful" in answer.json()["error"]["message"]
        body = {"name": "c", "dim": 2, "policy": {"policy": "Forgetful", "base": {"policy": "EXP2"}}}
        answer = client.post("/v1/bandits", json=body)
        assert answer.status_code == 422
        assert answer.json()["error"]["field"] == "policy.base"


def test_the_page_shows_a_band_where_the_world_changed(browser: Any, app: httpx.Client) -> None:
    url = str(app.base_url).rstrip("/")
    rng = np.random.default_rng(3)
    items = {"red": [1.0, 0.0], "green": [0.0, 1.0]}
    with Client(url) as client:
        client.create("changing", 2, FORGETFUL, catalogue=items)
        for step in range(160):
            decision = client.decide("changing")
            good = decision.arm_id == ("red" if step < 100 else "green")
            client.reward("changing", decision, 2.0 * good + 0.1 * rng.standard_normal())
        client.create("steady", 2, {"policy": "LinMED", "sigma": 0.5}, catalogue=items)
        client.reward("steady", client.decide("steady"), 1.0)
        assert client.drift("changing")["changed"]
    page = opened(browser, url, "changing")
    page.locator("#drift-headline").filter(has_text="last noticed at reward").wait_for()
    assert page.locator("#memories tbody tr").count() == 3
    page.locator("#chart-mean .change").first.wait_for(state="attached")
    assert "false alarm ever: at most 5 %" in page.locator("#drift-note").inner_text()
    page.locator("#best-sentence").get_by_text("Forgetful is for a world that changes").wait_for()
    # Two columns, in each of which every card is as wide as the others and none stands beside another.
    boxes = "all => all.map(e => e.getBoundingClientRect()).filter(b => b.width).map(b => [b.left, b.width])"
    left, right = (
        page.locator(f"#report > .column{which} > .card").evaluate_all(boxes)
        for which in (".wide", ":not(.wide)")
    )
    assert (len(left), len(right)) == (3, 4)
    assert len({*map(tuple, left)}) == len({*map(tuple, right)}) == 1
    page.get_by_label("Bandit", exact=True).select_option("steady")
    page.get_by_text("LinMED-90 (sigma=0.5), version 1").wait_for()
    page.locator("#drift").wait_for(state="hidden")
    page.close()
