"""Every Python block in the README and the docs runs, in order, in an empty directory; so do the doctests."""

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

import linmed

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.name)
def test_examples_in_the_docs_run(page, tmp_path):
    script = tmp_path / "example.py"
    # Guarded, because worker processes import the program again.
    script.write_text('if __name__ == "__main__":\n' + indent("\n".join(python_blocks(page)), "    "))
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_the_docs_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def modules_with_doctests():
    source = Path(linmed.__path__[0])
    files = [path for path in source.rglob("*.py") if ">>> " in path.read_text()]
    return sorted(".".join(["linmed", *path.relative_to(source).with_suffix("").parts]) for path in files)


@pytest.mark.parametrize("name", modules_with_doctests())
def test_doctests(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
