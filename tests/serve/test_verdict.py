"""Which items can still be the best, as the service says it: in the API, in the clients and on the page."""

import re
from typing import Any

import httpx
import pytest

from linmed import Agent, LinMED
from linmed.serve.client import Client

from .serving import Running, create, decide, reward

ITEMS = {"ids": ["red", "green", "blue"], "features": [[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]]}
PAYS = {"red": 0.3, "green": 0.9, "blue": -0.9}


def taught(app: httpx.Client, rounds: int, sigma: float = 0.5, **settings: Any) -> Agent:
    """A bandit, and an agent with the same rewards."""
    create(app, catalogue=ITEMS, policy={"policy": "LinMED", "sigma": sigma}, **settings)
    agent = Agent(LinMED(sigma=sigma), dim=2)
    for i in range(rounds):
        decision = decide(app, key=str(i))
        reward(app, decision, PAYS[decision["arm_id"]])
        agent.observe(ITEMS["features"][ITEMS["ids"].index(decision["arm_id"])], PAYS[decision["arm_id"]])
    return agent


def asked(app: httpx.Client, query: str = "", **body: Any) -> dict[str, Any]:
    path = "/v1/bandits/b/verdict"
    answer = app.post(path, json=body) if body else app.get(path + query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize(("rounds", "sigma", "decided"), [(20, 0.5, False), (40, 0.05, True)])
def test_the_verdict_is_that_of_an_agent_with_the_same_rewards(
    app: httpx.Client, rounds: int, sigma: float, decided: bool
) -> None:
    agent = taught(app, rounds, sigma)
    for delta, epsilon in ((0.05, 0.0), (0.2, 0.1)):
        found = asked(app, f"?delta={delta}&epsilon={epsilon}")
        expected = agent.verdict(ITEMS["features"], delta, epsilon)
        assert found["best"] == ITEMS["ids"][expected.best]
        assert found["decided"] == expected.decided
        assert set(found["candidates"]) == {ITEMS["ids"][i] for i in expected.candidates}
        assert (found["possible"], found["count"]) == (len(expected.candidates), 3)
        assert found["margin"] == pytest.approx(expected.margin, rel=1e-9)
        assert (found["delta"], found["epsilon"], found["rewards"]) == (delta, epsilon, rounds)
        assert (found["proved"], found["doubt"]) == (True, None)
        assert found["sentence"] == expected.sentence(ITEMS["ids"])
        for one in found["arms"]:
            place = ITEMS["ids"].index(one["id"])
            behind = expected.difference(expected.best, place)
            assert [one["behind"], one["lower"], one["upper"]] == pytest.approx(list(behind), abs=1e-9)
            assert one["possible"] == (place in expected.candidates)
    assert asked(app)["decided"] == decided
    assert asked(app)["delta"] == 0.05


def test_arms_of_a_request_are_compared_by_what_the_bandit_has_learned(app: httpx.Client) -> None:
    agent = taught(app, 40, 0.05)
    found = asked(app, arms=[[0.2, 0.1], [0.5, 0.5]], arm_ids=["dull", "bright"])
    assert found["best"] == "bright"
    assert found["margin"] == pytest.approx(agent.verdict([[0.2, 0.1], [0.5, 0.5]]).margin, rel=1e-9)
    assert asked(app, arms=[[0.2, 0.1], [0.5, 0.5]])["best"] == "1"  # its place, where it has no name
    some = asked(app, arm_ids=["blue", "red"], delta=0.1)
    assert (some["count"], some["best"]) == (2, "red")
    alone = asked(app, arm_ids=["blue"])
    assert (alone["decided"], alone["margin"]) == (True, None)


@pytest.mark.parametrize(("map", "dim"), [("plain", 4), ("outer", 4)])
def test_items_that_depend_on_a_context(app: httpx.Client, map: str, dim: int) -> None:
    create(app, dim=dim, catalogue=ITEMS, map=map)
    before = app.get("/v1/bandits/b/verdict")
    if map == "plain":  # what is appended to every item alike makes none of them better
        assert before.json()["possible"] == 3
    else:
        assert (before.status_code, before.json()["error"]["message"]) == (
            422,
            "no context has come yet: POST one",
        )
    for context in ([1.0, 0.5], [1.0, 0.0], [0.5, 0.25]):
        reward(app, decide(app, context=context), 1.0)
    found = asked(app)
    assert found["context"] == pytest.approx([2.5 / 3, 0.25])
    given = asked(app, context=[2.5 / 3, 0.25])
    assert given["margin"] == pytest.approx(found["margin"], rel=1e-9)
    other = asked(app, context=[0.0, 1.0])
    assert (other["margin"] == pytest.approx(found["margin"], rel=1e-9)) == (map == "plain")


def test_what_cannot_be_judged_is_refused_by_name(app: httpx.Client) -> None:
    create(app, catalogue=ITEMS)
    path = "/v1/bandits/b/verdict"
    for query, field in {
        "?delta=0": "delta", "?delta=x": "delta", "?delta=1": "delta", "?epsilon=-1": "epsilon",
        "?epsilon=nan": "epsilon", "?colour=red": "colour",
    }.items():  # fmt: skip
        answer = app.get(path + query)
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, field), query
    for body, field in (
        ({"arms": [[1.0]]}, "arms"),
        ({"arm_ids": ["pink"]}, "arm_ids"),
        ({"arms": [[1.0, 0.0]], "arm_ids": ["a", "b"]}, "arm_ids"),
        ({"context": [1.0]}, "context"),
        ({"delta": 2.0}, "delta"),
        ({"colour": 1}, "colour"),
    ):
        answer = app.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]["field"].partition("[")[0]) == (422, field), body
    create(app, name="free")
    answer = app.get("/v1/bandits/free/verdict")
    assert "has no catalogue: POST the arms" in answer.json()["error"]["message"]
    create(app, name="exp2", catalogue=ITEMS, policy={"policy": "EXP2"})
    answer = app.get("/v1/bandits/exp2/verdict")
    assert answer.status_code == 422
    assert re.search(r"EXP2 keeps no ridge estimate.*LinMED\(\)", answer.json()["error"]["message"])
    assert app.get("/v1/bandits/none/verdict").status_code == 404


def test_the_page_says_which_arm_is_the_best(browser: Any, running: Running) -> None:
    with Client(running.url) as client:
        catalogue = dict(zip(ITEMS["ids"], ITEMS["features"], strict=True))
        client.create("shades", 2, {"policy": "Pinpoint", "sigma": 0.05}, catalogue=catalogue)
        client.create("free", 2, {"policy": "LinMED"})
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(90_000)
        page.goto(f"{running.url}/#bandit=shades")
        headline = page.locator("#best-headline")
        headline.get_by_text("Still possible: 3 of 3; best so far red; not yet decided.").wait_for()
        for _ in range(60):
            decision = client.decide("shades")
            client.reward("shades", decision, PAYS[decision.arm_id or ""])
        headline.get_by_text("Still possible: 1 of 3; best so far green; decided at 95 %.").wait_for()
        page.locator("#best-sentence").get_by_text(
            re.compile(r"^green is the best \(95 % confidence after 60 rewards\)")
        ).wait_for()
        assert "linear in the features" in page.locator("#best-note").inner_text()
        assert page.locator("#best").get_attribute("aria-busy") == "false"
        page.get_by_label("Bandit", exact=True).select_option("free")
        page.locator("#best-sentence").get_by_text("Arms come with each request").wait_for()
        assert headline.inner_text() == ""
