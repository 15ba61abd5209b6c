"""The report as a page: complete, self-contained, escaped, and legible in a real Chromium."""

import math
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from linmed.cli.log_options import meaning
from linmed.cli.ope import _course
from linmed.report.estimates_page import page, window
from linmed.report.tables import Table
from linmed.report.text_report import Report

CHROMIUM = Path("/usr/bin/chromium")
NAN = math.nan
NASTY = "<img src='//evil.example/x' onerror=\"alert(1)\">&amp;"
VOID = {"meta", "line", "polyline"}


def trace(final: float) -> Table:
    """A sequence that closes in on 0.5 ± `final`."""
    n = [1, 3, 10, 30, 100, 300, 1000]
    half = [min(0.5, final * math.sqrt(1000 / k)) for k in n]
    estimate = [0.5 + 1 / k for k in n]
    return Table(
        {"n": n, "estimate": estimate, "lower": [0.5 - h for h in half], "upper": [0.5 + h for h in half]}
    )


def report(**changes: Any) -> Report:
    table = Table(
        {
            "target": ["uniform", "uniform", NASTY, "arm 3"],
            "estimator": ["ipw", "dr", "ipw", "ipw"],
            "estimate": [0.5, 0.51, 0.7, 0.0],
            "lower": [0.45, 0.46, 0.6, NAN],
            "upper": [0.55, 0.56, 0.8, NAN],
            "n": [1000] * 4,
            "effective_n": [500.0, 500.0, 80.0, 0.0],
            "valid": ["any time"] * 4,
        }
    )
    more = Table({"target": [f"{NASTY} − uniform"], "estimate": [0.2], "lower": [-0.05], "upper": [0.35]})
    given: dict[str, Any] = {
        "title": "What would other policies have earned?",
        "asked": {"log": NASTY, "interval": "betting, confidence 95 %"},
        "tables": {"Value per decision": table, "More than uniform": more},
        "meaning": meaning("betting", 0.95, (0, 1), False),
        "warnings": [f"target {NASTY!r} is a doubtful one", "target 'arm 3' never agrees with the log"],
        "notes": ["3 lines could not be read"],
        "course": _course({"uniform": trace(0.05), NASTY: trace(0.1)}),
        "traced": "The betting sequences.",
    }
    return Report(**(given | changes))


class Page(HTMLParser):
    """A page's tags, attributes and text; fails where tags are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_the_page_tells_everything_that_was_found():
    found = Page(page(report()))
    for told in (
        "What would other policies have earned?", "betting, confidence 95 %", "2 warnings",
        "target 'arm 3' never agrees with the log", "3 lines could not be read", "Value per decision",
        "More than uniform", "0.450 to 0.550", "effective n", "With probability 95 % or more",
        "As the log grew", "The betting sequences.", "How to read this", "one side of the dashed zero",
        "valid any time",
    ):  # fmt: skip
        assert told in found.text
    assert found.tags["tr"] == 2 + 4 + 1
    labels = [value for name, value in found.attributes if name == "aria-label"]
    assert "uniform: 0.500, interval 0.450 to 0.550" in labels


def test_the_page_needs_nothing_but_itself():
    text = page(report())
    found = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    assert not {"href", "src", "onerror", "onload"} & {name for name, _ in found.attributes}
    assert not re.search(r"url\((?!#)", text)
    assert "@import" not in text
    assert not re.search(r"https?:", text)
    assert "prefers-color-scheme:dark" in text
    assert 'name="viewport"' in text


def test_names_are_escaped_wherever_they_stand():
    text = page(report())
    assert "<img" not in text
    assert "&lt;img" in text
    assert Page(text).text.count(NASTY) == 3  # the log and both tables
    assert repr(NASTY) in Page(text).text  # a warning


def test_a_row_without_an_interval_says_why():
    text = page(report())
    cell = re.search(r'<td class="bar none">(.*?)</td>', text)
    assert cell is not None
    assert cell[1] == "target &#x27;arm 3&#x27; never agrees with the log"
    assert "nan" not in Page(text).text.lower()
    assert '<td class="bar none">no interval</td>' in page(report(warnings=[]))


def test_a_page_without_warnings_or_traces_has_no_empty_parts():
    found = Page(page(report(warnings=[], notes=[], course="")))
    assert "warning" not in found.text
    assert "As the log grew" not in found.text


def test_the_window_is_where_the_bounds_end_and_not_where_they_begin():
    shown = window({"a": trace(0.01)})
    assert (shown.scale.low, shown.scale.high) == pytest.approx((0.48, 0.52))
    assert shown[:2] == (100, 1000)
    assert window({"a": trace(0.01)}, truth=0.6).scale.high >= 0.6
    single = Table({"n": [1], "estimate": [0.4], "lower": [0.0], "upper": [1.0]})
    assert window({"a": single})[:2] == (1, 1)


@pytest.mark.parametrize(
    ("interval", "told"),
    [
        ("betting", "at every look at once"),
        ("asymptotic", "about 90 %"),
        ("adaptive", "learned slowly"),
        ("normal", "did not learn"),
        ("none", "No interval was asked for"),
    ],
)
def test_what_an_interval_means_is_one_sentence(interval, told):
    sentence = meaning(interval, 0.9, (0, 5))
    assert told in sentence
    assert sentence.count(". ") == 0
    assert sentence.endswith(".")
    assert ("[0, 5]" in sentence) == (interval == "betting")


@pytest.mark.parametrize("width", [1200, 360])
def test_a_browser_shows_the_page_at_every_width(width, tmp_path):
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is not installed")
    from playwright.sync_api import sync_playwright

    file = tmp_path / "report.html"
    file.write_text(page(report()), encoding="utf-8")
    with sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        shown = browser.new_page(viewport={"width": width, "height": 800}, color_scheme="dark")
        asked: list[str] = []
        problems: list[str] = []
        shown.on("request", lambda request: asked.append(request.url))
        shown.on("console", lambda message: problems.append(message.text))
        shown.goto(file.as_uri())
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.locator("td.bar svg").first.bounding_box()["width"] > 200
        assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
        browser.close()
    assert asked == [file.as_uri()]
    assert problems == []
