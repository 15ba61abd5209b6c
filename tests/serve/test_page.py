"""The page at /, in a real Chromium."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from linmed.serve.client import Client
from linmed.serve.database import Database, bandits, decisions
from linmed.serve.middleware import create

from .serving import Running, application

PAGE = Path(__file__).parents[2] / "src" / "linmed" / "serve" / "page"
SHOT = os.environ.get("LINMED_SCREENSHOT")
"""Where to write a screenshot for the documentation."""
PATIENCE = 300_000
"""Milliseconds: the first report of a server loads much code."""
ARMS = {"news": [1.0, 0.0], "sport": [0.6, 0.8], "a long night of music": [0.3, -0.5]}


def play(url: str, name: str, rounds: int, waiting: int = 6, **policy: Any) -> None:
    """A bandit with three arms of which the second is best, the last rewards still to come."""
    rng = np.random.default_rng(3)
    theta = np.array([0.2, 0.5])
    with Client(url) as client:
        chosen = policy or {"policy": "LinMED", "sigma": 0.5}
        client.create(name, 2, chosen, catalogue=ARMS, reward_range=(0, 1))
        for step in range(rounds):
            decision = client.decide(name)
            if step < rounds - waiting:
                mean = float(np.dot(ARMS[decision.arm_id or ""], theta))
                client.reward(name, decision, float(rng.random() < 0.3 + 0.5 * mean))


def opened(browser: Any, url: str, bandit: str = "", width: int = 1200, **options: Any) -> Any:
    """A page that shows this bandit."""
    page = browser.new_page(viewport={"width": width, "height": 900}, **options)
    page.set_default_timeout(PATIENCE)
    page.goto(f"{url}/#bandit={bandit}")
    if bandit:
        page.locator("#numbers dd").first.wait_for()
        page.locator("#arms tbody tr").first.wait_for()
        page.locator("#headline").filter(has_text=re.compile(".")).wait_for()
    return page


def test_a_walk_through_the_page(browser: Any, app: httpx.Client) -> None:
    url = str(app.base_url).rstrip("/")
    play(url, "articles", 80)
    play(url, "banners", 8)
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.set_default_timeout(PATIENCE)
    foreign: list[str] = []
    problems: list[str] = []
    page.on(
        "request",
        lambda request: None if request.url.startswith(url) else foreign.append(request.url),
    )
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(url)
    page.get_by_label("Bandit", exact=True).select_option("articles")
    page.get_by_text("LinMED-90 (sigma=0.5), version 1").wait_for()
    numbers = page.locator("#numbers")
    assert re.search(r"decisions\s*80", numbers.inner_text())
    assert re.search(r"pending rewards\s*6", numbers.inner_text())
    arms = page.locator("#arms tbody tr")
    arms.first.wait_for()
    assert arms.count() == 3
    sport = arms.filter(has_text="sport").inner_text()
    assert re.search(r"sport\s+0\.6, 0\.8\s+\S*\d\.\d{3} \(\S+ to \S+\)\s+\d", sport)
    assert "3 in the catalogue" in page.locator("#arms-more").inner_text()
    for target in ("as played", "uniform", "greedy"):
        row = page.locator("#values").get_by_role("row", name=re.compile(f"^{target}"))
        row.wait_for()
        assert re.search(r"\d\.\d{3}\s+\d\.\d{3} to \d\.\d{3}", row.inner_text())
    said = page.locator("#headline").inner_text() + page.locator("#second").inner_text()
    assert re.search(r"0\.\d{3} to \d\.\d{3} against \d\.\d{3} to \d\.\d{3} a decision", said)
    judged = page.locator("#judged").inner_text()
    assert "From 74 of 80 decisions; 6 (7.5 %) wait for their reward." in judged
    assert page.locator("#chart-values path.band").count() == 3
    assert "Nothing speaks against it" in page.locator("#sound").inner_text()
    assert page.locator("#chart-time path.line").count() == 2
    # It follows the log by itself, until it is told to pause.
    with Client(url) as client:
        client.decide("articles")
        page.locator("#numbers").get_by_text("81", exact=True).wait_for()
        page.get_by_role("button", name="Pause updates").click()
        page.get_by_role("status").get_by_text("paused").wait_for()
    page.get_by_label("Bandit", exact=True).select_option("banners")
    page.locator("#numbers").get_by_text("8", exact=True).wait_for()
    assert page.url.endswith("#bandit=banners&missing=stop")  # a link that others can open
    assert foreign == []
    assert problems == []


def test_another_bandit_is_blank_until_its_own_numbers_are_there(browser: Any, running: Running) -> None:
    play(running.url, "old", 80)
    play(running.url, "fresh", 9)
    page = opened(browser, running.url, "old")
    held: dict[str, list[Any]] = {"old": [], "fresh": []}
    page.route("**/v1/bandits/old/*", lambda route: held["old"].append(route))
    page.route("**/v1/bandits/fresh/*", lambda route: held["fresh"].append(route))
    while not held["old"]:  # the next look at the old one is under way
        page.wait_for_timeout(50)
    page.get_by_label("Bandit", exact=True).select_option("fresh")
    shown = (
        "#numbers, #headline, #second, #policy, #values tbody, #judged, #doubts, #arms tbody, #arms-note, "
        "#sound, #tried, #alerts, .picture, .readout"
    )
    for _ in range(3):
        texts = page.locator(shown).all_text_contents()
        assert len(texts) >= 14
        assert set(texts) == {""}
        page.wait_for_timeout(200)
    assert page.locator("[data-panel]:not([aria-busy=true])").count() == 0
    for waiting in page.locator("#headline, .chart").all():  # and says that something is to come
        said = waiting.evaluate("e => getComputedStyle(e, '::before').content")
        assert said == '"Being worked out …"'
    for route in held["old"]:  # answers that come late
        route.fulfill(json=httpx.get(route.request.url.replace("/trend", "/statistics")).json())
    page.wait_for_timeout(300)
    assert set(page.locator(shown).all_text_contents()) == {""}
    for route in held["fresh"]:
        route.continue_()
    page.unroute_all()
    page.locator("#numbers").get_by_text("9", exact=True).wait_for()
    page.locator("#arms tbody tr").first.wait_for()
    assert "80" not in page.locator("#numbers").inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (360, "dark"), (1200, "dark")])
def test_the_page_fits_its_screen_and_all_that_it_shows_has_words(
    browser: Any, running: Running, width: int, scheme: str
) -> None:
    play(running.url, "phone", 20)
    page = opened(browser, running.url, "phone", width, color_scheme=scheme)
    page.get_by_role("button", name="Decide", exact=True).click()
    page.locator("#probabilities").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    tables = page.locator("#arms, #values, #probabilities")
    assert tables.evaluate_all("all => all.filter(e => e.scrollWidth > e.parentElement.clientWidth)") == []
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight + 1)"
    assert page.locator("#arms .id").evaluate_all(cut + ".map(e => e.textContent)") == []
    page.get_by_role("button", name="New bandit").click()
    for control in page.locator("select:visible, button:visible, input:visible, textarea:visible").all():
        assert control.bounding_box()["height"] >= 44
        named = control.evaluate("e => e.labels && e.labels.length ? e.labels[0].textContent : e.textContent")
        assert named.strip()
    for drawing in page.locator("svg[role=img]").all():
        assert drawing.locator("title").text_content()
    assert page.locator("svg:not([role=img]):not([aria-hidden])").count() == 0
    shade = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(shade) > 384) == (scheme == "light")


def tab_to(page: Any, id: str) -> None:
    for _ in range(60):
        if page.evaluate("document.activeElement.id") == id:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the keyboard does not reach {id}")


def test_a_bandit_is_created_and_tried_with_the_keyboard_alone(browser: Any, running: Running) -> None:
    page = opened(browser, running.url)
    tab_to(page, "open-create")
    page.keyboard.press("Enter")
    page.keyboard.type("typed")
    tab_to(page, "new-catalogue")
    page.keyboard.type("red, 1, 0\ngreen, 0.6, oops")
    tab_to(page, "new-context")
    page.keyboard.type("1")  # before the 0: ten numbers
    page.keyboard.press("Enter")
    problem = page.get_by_role("alert").filter(has_text="oops")
    problem.wait_for()
    assert "catalogue: “oops” is not a number" in problem.inner_text()
    page.locator("#new-catalogue").focus()
    for _ in range(4):
        page.keyboard.press("Backspace")
    page.keyboard.type("0.8")
    tab_to(page, "new-context")
    page.keyboard.type("2")
    page.keyboard.press("Enter")
    page.locator("#create").wait_for(state="hidden")
    assert page.get_by_label("Bandit", exact=True).input_value() == "typed"
    page.locator("#try-user").wait_for()
    tab_to(page, "try-context")
    page.keyboard.type("1, 0.5")
    page.keyboard.press("Enter")
    page.locator("#probabilities").wait_for()
    rows = page.locator("#probabilities tbody tr").all_inner_texts()
    assert {row.split()[0] for row in rows} == {"red", "green"}
    assert sum(float(row.split()[1]) for row in rows) == pytest.approx(100.0, abs=0.2)
    page.get_by_role("button", name="Reward 1").focus()
    page.keyboard.press("Enter")
    page.get_by_text("The reward 1 is in the log.").wait_for()
    with Client(running.url) as client:
        made = client.bandit("typed")
        assert (made["dim"], made["reward_range"]) == (4, [0.0, 1.0])
        assert made["policy"]["sigma"] == 0.5
        found = client.statistics("typed")
        assert (found["decisions"], found["rewards"], found["mean_reward"]) == (1, 1, 1.0)


def test_every_policy_that_the_page_offers_can_be_created(browser: Any, running: Running) -> None:
    page = opened(browser, running.url)
    offered = page.locator("#new-policy option").evaluate_all("all => all.map(e => e.value)")
    assert len(offered) > 3
    for policy in offered:
        page.get_by_role("button", name="New bandit").click()
        page.get_by_label("Name", exact=True).fill(f"made-{policy}")
        page.get_by_label("Policy", exact=True).select_option(policy)
        page.get_by_role("button", name="Create", exact=True).click()
        page.locator("#create").wait_for(state="hidden", timeout=120_000)
    with Client(running.url) as client:
        for policy in offered:
            assert client.bandit(f"made-{policy}")["policy"]["policy"] == policy.partition("-")[0]
            assert client.decide(f"made-{policy}", [[1.0, 0.0], [0.0, 1.0]]).probability > 0
    # Arms that come with each request can be tried too.
    page.get_by_label("Arms, one line of numbers each").fill("1, 0\n0, 1\n1, x")
    page.get_by_role("button", name="Decide", exact=True).click()
    page.get_by_text("arms: “x” is not a number").wait_for()
    page.get_by_label("Arms, one line of numbers each").fill("1, 0\n0 1")
    page.get_by_role("button", name="Decide", exact=True).click()
    page.locator("#probabilities").get_by_text("arm 1", exact=True).wait_for()


def test_a_chart_can_be_read_point_by_point(browser: Any, running: Running) -> None:
    play(running.url, "points", 60, waiting=0)
    page = opened(browser, running.url, "points")
    page.locator("#chart-values .picture").focus()
    page.keyboard.press("ArrowRight")
    first = page.locator("#chart-values .readout").inner_text()
    assert re.search(r"^16 decisions: as played \S+ \(\S+ to \S+\); greedy .*; uniform ", first)
    page.keyboard.press("ArrowRight")
    assert page.locator("#chart-values .readout").inner_text().startswith("32 decisions")
    page.locator("#chart-values summary").press("Enter")
    rows = page.locator("#chart-values tbody tr")
    rows.first.wait_for()  # as long as they are hidden, their cells are one text
    assert [text.split()[0] for text in rows.all_inner_texts()] == ["16", "32", "48", "60"]


def test_alerts_are_there_when_something_is_wrong_and_only_then(browser: Any, app: httpx.Client) -> None:
    url = str(app.base_url).rstrip("/")
    play(url, "well", 60, waiting=0, policy="Uniform")
    page = opened(browser, url, "well")
    alerts = page.get_by_role("list", name="Alerts")
    assert page.locator("#alerts li").all_inner_texts() == []
    play(url, "late", 60, waiting=50, policy="Uniform")
    page.get_by_label("Bandit", exact=True).select_option("late")
    alerts.get_by_text("83 % of the decisions have no reward").wait_for()
    alerts.get_by_text("Only 17 % of the decisions are judged").wait_for()
    page.get_by_label("Decisions without a reward").select_option("skip")
    page.locator("#judged").get_by_text("From 10 of 60 decisions").wait_for()
    with Client(url) as client:
        client.change("late", archived=True)
    alerts.get_by_text("archived").wait_for()
    busy = {"error": {"status": 429, "message": "too many reports at once", "field": None}}
    page.route("**/late/trend", lambda route: route.fulfill(status=429, json=busy))
    alerts.get_by_text("trend: too many reports at once").wait_for()
    page.unroute_all()
    alerts.get_by_text("too many reports").wait_for(state="hidden")
    with Client(url) as client:
        shadow = {"calm": {"policy": "LinMED", "sigma": 0.2}}
        client.create("offers", 2, catalogue=ARMS, control=0.2, wait="1h", shadow=shadow)
        client.reward("offers", client.decide("offers"), 1.0, outcomes={"margin": 2.5})
    page.get_by_label("Bandit", exact=True).select_option("offers")
    for words in ("control group (20 %)", "no reward by the deadline", "shadow policies", "calm"):
        page.locator("#numbers").get_by_text(words).wait_for()


def test_a_log_that_is_not_sound_is_said_to_be_so(browser: Any, running: Running) -> None:
    play(running.url, "wrong", 40, waiting=0, policy="Uniform")
    words: Any = running.process.args
    database = Database(words[words.index("--database") + 1])
    with database.writer.begin() as connection:  # every arm is said to have been half as probable
        own = sa.select(bandits.c.id).where(bandits.c.name == "wrong").scalar_subquery()
        false = {"log_probability": decisions.c.log_probability - np.log(2.0), "log_probabilities": None}
        connection.execute(sa.update(decisions).where(decisions.c.bandit == own).values(**false))
    database.close()
    page = opened(browser, running.url, "wrong")
    page.get_by_role("list", name="Alerts").get_by_text("The log is not sound. No:").wait_for()
    assert "Nothing can be said" in page.locator("#headline").inner_text()
    assert page.locator("#chart-values path.band").count() == 0


def test_what_others_wrote_is_text(browser: Any, running: Running) -> None:
    with Client(running.url) as client:
        client.create("foreign", 1, catalogue={"<img src=/nowhere>": [1.0], "&lt;": [0.5]})
        client.reward("foreign", client.decide("foreign"), 1.0)
    page = opened(browser, running.url, "foreign")
    assert {"<img src=/nowhere>", "&lt;"} == set(page.locator("#arms .id").all_inner_texts())
    page.get_by_role("button", name="Decide", exact=True).click()
    page.locator("#probabilities").wait_for()
    assert page.locator("#report img").count() == 0


HOSTILE = {
    "</td><script>window.hit = 1</script>": [1.0],
    "__proto__": [0.9],
    "constructor": [0.8],
    "\u202etxet sdrawkcab": [0.7],
    "two\nlines\ttabs": [0.6],
    "W" * 200: [0.5],
    "javascript:window.hit=1": [0.4],
    "' onmouseover='window.hit=1": [0.3],
}


@pytest.mark.parametrize("width", [390, 1200])
def test_names_made_to_break_the_page_do_not(browser: Any, running: Running, width: int) -> None:
    name, label = f"hostile-{width}", "<svg onload='window.hit=1'>" + "M" * 300
    with Client(running.url) as client:
        client.create(name, 1, {"policy": "LinMED", "label": label}, catalogue=HOSTILE, reward_range=(0, 1))
        for _ in range(12):
            client.reward(name, client.decide(name), 1.0)
    page = opened(browser, running.url, name, width)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.get_by_role("button", name="Decide", exact=True).click()
    page.locator("#probabilities").wait_for()
    assert set(page.locator("#arms .id").all_text_contents()) == set(HOSTILE)
    assert page.evaluate("window.hit") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert problems == []


@pytest.fixture
def guarded(sqlite: str) -> Iterator[tuple[str, str]]:
    """The URL of a server with tokens and a bandit, and a token that may only read."""
    database = Database(sqlite)
    database.open()
    token, admin = create(database, ["read"]), create(database, ["admin"])
    database.close()
    with application(sqlite) as app:
        url = str(app.base_url).rstrip("/")
        with Client(url, token=admin) as client:
            client.create("guarded", 2, catalogue=ARMS)
        yield url, token


def test_with_tokens_the_page_asks_for_one_and_says_what_it_does_not_allow(
    browser: Any, guarded: tuple[str, str]
) -> None:
    url, token = guarded
    page = browser.new_page()
    page.goto(url)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Use this token").click()
    page.get_by_role("option", name="guarded").wait_for(state="attached")
    page.locator("#access").wait_for(state="hidden")
    page.locator("#arms tbody tr").first.wait_for()
    page.get_by_role("button", name="Decide", exact=True).click()
    page.get_by_text("this token does not have the scope 'decide' for bandit 'guarded'").wait_for()
    page.get_by_role("button", name="New bandit").click()
    page.get_by_label("Name", exact=True).fill("mine")
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_text("this token does not have the scope 'admin' for bandit 'mine'").wait_for()
    page.close()


def test_the_page_needs_nothing_from_elsewhere() -> None:
    for file in PAGE.iterdir():
        addresses = re.findall(r"https?://[^\s\"'`)]+", file.read_text())
        assert [address for address in addresses if address != "http://www.w3.org/2000/svg"] == []
        assert not re.search(r"style=|innerHTML|eval\(", file.read_text())
