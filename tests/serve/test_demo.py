"""`linmed serve --demo` as a newcomer sees it."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Error

from linmed.cli import main
from linmed.serve.database import Database
from linmed.serve.demo import ARTICLES, BANNERS, PATIENCE, Visitors, _visits
from linmed.serve.middleware import create

from .test_page import SHOT

COUNT = "+document.querySelector('#numbers dd').textContent.replace(',', '')"


@pytest.mark.unix
def test_the_demo_shows_growing_numbers_and_leaves_nothing_behind(browser: Any, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "linmed.cli", "serve", "--demo", "--port", "0"]
    temporary = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=temporary
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        assert url in process.stdout.readline()
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        for _ in range(600):
            with contextlib.suppress(Error):  # it does not listen yet
                page.goto(f"{url}#bandit=articles")
                break
            page.wait_for_timeout(100)
        options = page.get_by_label("Bandit", exact=True).locator("option")
        options.filter(has_text="articles").wait_for(state="attached", timeout=300_000)
        page.locator("#values tbody tr").first.wait_for(timeout=120_000)
        counts = [page.evaluate(COUNT)]
        while counts[-1] <= counts[0] + 20:
            assert len(counts) < 600, counts
            page.wait_for_timeout(100)
            counts.append(page.evaluate(COUNT))
        assert page.get_by_label("Bandit", exact=True).input_value() == "articles"
        assert page.locator("#arms tbody tr").count() == len(ARTICLES.items)
        if SHOT:
            page.wait_for_timeout(60_000)
            page.screenshot(path=SHOT, clip={"x": 0, "y": 0, "width": 1200, "height": 1520}, full_page=True)
        page.close()
    finally:
        process.send_signal(signal.SIGINT)
        said, problems = process.communicate(timeout=300)
    assert (process.returncode, problems) == (0, "")
    assert said.endswith("demo: ended\n")
    assert list(tmp_path.iterdir()) == []


def test_visitors_click_with_probabilities_between_0_and_1() -> None:
    for site in (ARTICLES, BANNERS):
        corners = np.array(np.meshgrid([1.0], *[[0.0, 1.0]] * (site.context - 1))).reshape(site.context, -1)
        chances = np.array(list(site.items.values())) @ site.tastes @ corners
        assert chances.max() < 0.95
        best = chances.argmax(axis=0)
        assert chances.max(axis=0).mean() > 1.5 * chances.mean()  # there is something to learn
        assert site is BANNERS or len(set(best)) > 1  # and it depends on the visitor


def test_non_clicks_arrive_beside_clicks_from_the_first_seconds() -> None:
    visitors = Visitors(ARTICLES, httpx.AsyncClient(), 0)
    clicked = np.random.default_rng(1).random(2000) < 0.4
    came = np.linspace(0.0, 60.0, 2000)
    arrived = came + [visitors.moment(bool(one), when) for one, when in zip(clicked, came, strict=True)]
    for begin in range(0, 60, 3):  # as the page draws the mean reward: by when rewards came
        assert 0.2 < clicked[(arrived >= begin) & (arrived < begin + 3)].mean() < 0.7
    assert max(arrived - came) == pytest.approx(PATIENCE)


def test_the_demo_does_not_touch_a_database_with_tokens(sqlite: str, capsys: pytest.CaptureFixture) -> None:
    database = Database(sqlite)
    database.open()
    create(database, ["admin"])
    database.close()
    assert main(["serve", "--demo", "--database", sqlite, "--port", "0"]) == 2
    assert "without tokens" in capsys.readouterr().err


@pytest.mark.parametrize("farewell", [None, 503])
def test_visitors_leave_without_a_word_when_the_service_goes(farewell: int | None) -> None:
    class Leaving(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            if farewell is None:
                self.connection.close()
            else:
                self.send_error(farewell)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Leaving)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    stop = threading.Event()
    threading.Timer(1, stop.set).start()  # as the end of the demo does, for which a thread waits
    try:
        url = f"http://127.0.0.1:{server.server_port}/"
        with ThreadPoolExecutor(1) as beside:  # the browser's loop runs in this thread
            beside.submit(lambda: asyncio.run(_visits(url, stop))).result()
    finally:
        stop.set()
        server.shutdown()
        thread.join()
        server.server_close()
