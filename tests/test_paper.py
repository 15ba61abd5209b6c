"""docs/paper.md: every item of the paper has a place in the code and a test, and both exist."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAPER = next((p / "shared/paper/linmed.tex" for p in ROOT.parents if (p / "shared/paper").is_dir()), None)
SECTIONS = {"problemstatement", "aaa"}  # a second name of section 2, and a line of Algorithm 1
TEXT = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
ROWS = [
    [re.findall(r"`([^`]+)`", cell) for cell in line.strip("| ").split(" | ")]
    for line in TEXT.splitlines()
    if "::test_" in line and line.startswith("| ")
]


def test_every_item_has_a_place_and_a_test_that_exist():
    assert len(ROWS) >= 50
    for labels, _, places, tests in ROWS:
        assert places, labels
        assert tests, labels
        for place in places:
            module, _, names = place.partition(":")
            found = import_module(module)
            for name in names.split("."):
                assert hasattr(found, name), place
                found = getattr(found, name)
        for test in tests:
            path, name = test.split("::")
            assert re.search(rf"def {name}\(", (ROOT / "tests" / path).read_text(encoding="utf-8")), test


def test_no_item_is_listed_twice():
    labels = [label for row in ROWS for label in row[0]]
    assert len(labels) == len(set(labels))


@pytest.mark.skipif(PAPER is None, reason="the paper's LaTeX source is not at hand")
def test_every_label_of_the_paper_is_an_item():
    lines = [line for line in PAPER.read_text(encoding="utf-8").splitlines() if "section{" not in line]
    known = set(re.findall(r"(?<!%)\\label\{([^}]+)\}", "\n".join(lines))) - SECTIONS
    assert len(known) > 60
    assert known == {label for row in ROWS for label in row[0]}
