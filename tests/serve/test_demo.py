"""`linmed serve --demo` as a newcomer sees it."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error

from linmed.cli import main
from linmed.serve.database import Database
from linmed.serve.demo import ARTICLES
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


def test_the_demo_does_not_touch_a_database_with_tokens(sqlite: str, capsys: pytest.CaptureFixture) -> None:
    database = Database(sqlite)
    database.open()
    create(database, ["admin"])
    database.close()
    assert main(["serve", "--demo", "--database", sqlite, "--port", "0"]) == 2
    assert "without tokens" in capsys.readouterr().err
