"""The page at /, in a real Chromium."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linmed.serve.client import Client
from linmed.serve.database import Database
from linmed.serve.tokens import create

from .serving import Running, application

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PAGE = Path(__file__).parents[2] / "src" / "linmed" / "serve" / "page"
SHOT = os.environ.get("LINMED_SCREENSHOT")
"""Where to write a screenshot for the documentation."""


def play(url: str, name: str, rounds: int) -> None:
    """A bandit with three arms of which the second is best, half a dozen rewards still to come."""
    rng = np.random.default_rng(3)
    theta = np.array([0.2, 0.5])
    arms = {"news": [1.0, 0.0], "sport": [0.6, 0.8], "music": [0.3, -0.5]}
    with Client(url) as client:
        client.create(name, 2, {"policy": "LinMED", "sigma": 0.5}, catalogue=arms, reward_range=(0, 1))
        for step in range(rounds):
            decision = client.decide(name)
            if step < rounds - 6:
                mean = float(np.dot(arms[decision.arm_id or ""], theta))
                client.reward(name, decision, float(rng.random() < 0.3 + 0.5 * mean))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield opened
        opened.close()


def test_a_walk_through_the_page(browser: Any, running: Running) -> None:
    play(running.url, "articles", 320 if SHOT else 80)
    play(running.url, "banners", 8)
    page = browser.new_page(viewport={"width": 1000, "height": 1250})
    foreign: list[str] = []
    problems: list[str] = []
    page.on(
        "request",
        lambda request: None if request.url.startswith(running.url) else foreign.append(request.url),
    )
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(running.url)
    page.get_by_label("Bandit").select_option("articles")
    page.get_by_text("LinMED-90 (sigma=0.5), version 1").wait_for()
    numbers = page.locator("#numbers")
    total = 320 if SHOT else 80
    assert re.search(rf"decisions\s*{total}", numbers.inner_text())
    assert re.search(r"pending rewards\s*6", numbers.inner_text())
    assert 1 <= page.locator("#arms tr").count() <= 3  # the worst arm may not have been drawn
    for target in ("uniform", "logged", "greedy"):
        row = page.get_by_role("row", name=re.compile(f"^{target}"))
        assert re.search(r"\d\.\d{3} to \d\.\d{3}", row.inner_text())
    since = 192 if SHOT else 48
    share = f"of the {since} decisions since, of which 6 ({600 / since:.1f} %) wait for their reward"
    assert share in page.locator("#estimates-note").inner_text()
    assert f"6 of {since} decisions" in page.get_by_label("Doubts about these estimates").inner_text()
    assert page.locator("#chart-time svg path").count() == 2
    if SHOT:
        page.screenshot(path=SHOT, full_page=True)
    # It follows the log by itself, until it is told to pause.
    with Client(running.url) as client:
        client.decide("articles")
        page.locator("#numbers").get_by_text(str(total + 1)).wait_for()
        page.get_by_role("button", name="Pause updates").click()
        page.get_by_role("status").get_by_text("paused").wait_for()
    page.get_by_label("Bandit").select_option("banners")
    page.locator("#numbers").get_by_text("8", exact=True).wait_for()
    assert foreign == []
    assert problems == []


def test_the_page_fits_a_phone_and_its_controls_have_names(browser: Any, running: Running) -> None:
    play(running.url, "phone", 10)
    page = browser.new_page(viewport={"width": 360, "height": 740})
    page.goto(running.url)
    page.locator("#numbers dd").first.wait_for()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 360
    for control in page.locator("select:visible, button:visible, input:visible").all():
        assert control.bounding_box()["height"] >= 44
        named = control.evaluate("e => e.labels && e.labels.length ? e.labels[0].textContent : e.textContent")
        assert named.strip()
    for drawing in page.locator("svg[role=img]").all():
        assert drawing.locator("title").text_content()


def test_with_tokens_the_page_asks_for_one(browser: Any, sqlite: str) -> None:
    opened = Database(sqlite)
    opened.open()
    token = create(opened, ["read"])
    admin = create(opened, ["admin"])
    opened.close()
    with application(sqlite) as app:
        url = str(app.base_url)
        with Client(url, token=admin) as client:
            client.create("guarded", 2)
        page = browser.new_page()
        page.goto(url)
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Use this token").click()
        page.get_by_role("option", name="guarded").wait_for(state="attached")
        page.locator("#access").wait_for(state="hidden")


def test_the_page_needs_nothing_from_elsewhere() -> None:
    for file in PAGE.iterdir():
        addresses = re.findall(r"https?://[^\s\"'`)]+", file.read_text())
        assert [address for address in addresses if address != "http://www.w3.org/2000/svg"] == []
