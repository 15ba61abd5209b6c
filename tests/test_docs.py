"""Every Python block in the README and the docs runs, in order, in an empty directory; so do the doctests."""

import doctest
import importlib
import multiprocessing
import os
import re
import runpy
import subprocess
import sys
import tomllib
import warnings
from itertools import chain
from pathlib import Path
from textwrap import indent

import pytest
import yaml

import linmed

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "llms.txt",
    *sorted((ROOT / "docs").glob("*.md")),
]


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def run_page(script: Path, folder: Path) -> None:
    """Run a script in this process as the program that was started, with warnings as errors."""
    sys.stderr = (folder / "stderr").open("w")
    os.chdir(folder)
    sys.path.insert(0, str(ROOT / "examples"))
    warnings.resetwarnings()
    warnings.simplefilter("error")
    runpy.run_path(str(script), run_name="__main__")


@pytest.fixture(scope="module")
def processes():
    """Processes that have imported what most pages do, where they can be forked from one that has."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["linmed.ope", "linmed.simulation", "matplotlib.pyplot", "scipy.stats"])
    return context


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.name)
def test_examples_in_the_docs_run(page, tmp_path, processes, monkeypatch):
    script = tmp_path / "example.py"
    # Guarded, because worker processes import the program again.
    script.write_text('if __name__ == "__main__":\n' + indent("\n".join(python_blocks(page)), "    "))
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("MPLBACKEND", "Agg")
    process = processes.Process(target=run_page, args=(script, tmp_path / "here"))
    process.start()
    process.join(300)
    if process.exitcode != 0:
        process.kill()
        pytest.fail((tmp_path / "here" / "stderr").read_text() or f"exit code {process.exitcode}")


PROMPTS = [page for page in PAGES if "```pycon\n" in page.read_text()]


@pytest.mark.parametrize("page", PROMPTS, ids=lambda page: page.name)
def test_sessions_in_the_docs_print_what_they_say(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sessions = re.findall(r"^```pycon\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    run = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    names = {}
    said = []
    for session in sessions:
        test = doctest.DocTestParser().get_doctest(session, names, page.name, str(page), 0)
        run.run(test, out=said.append, clear_globs=False)
        names = test.globs
    assert run.tries >= len(sessions) > 0
    assert run.failures == 0, "".join(said)
    for value in names.values():
        if isinstance(value, linmed.Agent):
            value.close()


def test_many_messages_are_quoted():
    page = (ROOT / "docs" / "errors.md").read_text()
    assert page.count("Traceback (most recent call last):") >= 25


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_the_docs_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_what_contributors_are_told_to_copy_exists():
    named = re.findall(r"`((?:src|tests|benchmarks)/[^`]*)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(named) > 5
    for path in named:
        assert (ROOT / path).exists(), path


def test_the_lowest_versions_are_those_that_were_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    tried = dict(re.findall(r" ([\w\[\]-]+)==([\d.]+)", page))
    extras = project["optional-dependencies"]
    users = (extras[name] for name in extras.keys() - {"all", "dev", "docs"})
    needs = [need for need in chain(project["dependencies"], *users) if "linmed" not in need]
    needed = dict(need.partition(";")[0].split(">=") for need in needs)
    assert tried.keys() == needed.keys()
    assert all(re.fullmatch(rf"{re.escape(needed[name])}(\.0)*", tried[name]) for name in tried)


MEASURES = re.compile(
    r"python benchmarks/\w+\.py|make bench|linmed (reproduce|simulate) [^`\n]*--(scale|trials)"
)
STAMP = re.compile(r"(\d{4}-\d\d-\d\d)(?:,|\s+at)\s+commit\s+([0-9a-f]{7})")
OWN_STAMPS = {"CONTRIBUTING.md", "ledger.md", "ledger-as-run.md", "reproduction.md"}
"""Not about figures, or with the commits of rules and runs that the ledger itself writes."""
MEASURED = [page for page in PAGES if page.name not in OWN_STAMPS and MEASURES.search(page.read_text())]


@pytest.mark.parametrize("page", MEASURED, ids=lambda page: page.name)
def test_what_was_measured_says_when_and_at_which_commit(page):
    """Each section that names a measuring command; above the first heading only where there is a table."""
    first, *sections = re.split(r"^(?=## )", page.read_text(), flags=re.MULTILINE)
    for part in [*sections, *([first] if "|---" in first.replace(" ", "") else [])]:
        if MEASURES.search(part):
            assert STAMP.search(part), f"{page.name}: {part.splitlines()[0]} has no date and commit"


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(
    not (ROOT / ".git").exists() or git("rev-parse", "--is-shallow-repository") != "false",
    reason="needs the history",
)
def test_stamps_name_commits_of_that_day():
    """A script's stamp may be a day or two younger than the commit that it measured; none is older."""
    days = {line[:7]: line.split()[1] for line in git("log", "--format=%H %as").splitlines()}
    stamps = [(page.name, *found) for page in PAGES for found in STAMP.findall(page.read_text())]
    assert len(stamps) > 40
    for page, day, commit in stamps:
        assert commit in days, f"{page}: there is no commit {commit}"
        assert days[commit] <= day, f"{page}: commit {commit} is of {days[commit]}, not yet of {day}"


def test_benchmarks_stamp_what_they_write(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr(sys, "argv", ["/elsewhere/growth.py", "--document", f"{ROOT}/docs/x.md"])
    report = importlib.import_module("report")
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- part -->\nold\n<!-- /part -->\nafter\n")
    monkeypatch.setattr(report, "SHOWN", ["| a table |"])
    report.document(page, "part")
    text = page.read_text()
    assert text.startswith("before\n<!-- part -->\n\nMeasured 2")
    assert text.endswith("\n\n| a table |\n\n<!-- /part -->\nafter\n")
    assert "`python benchmarks/growth.py --document docs/x.md`" in text
    if (ROOT / ".git").exists():
        assert STAMP.search(text)[2] == git("rev-parse", "--short=7", "HEAD")


def test_hosted_checks_call_our_own_commands():
    workflow = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text())
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert {".ci/run", "make docs"} <= set(commands)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    for hook in hooks:
        assert Path(hook["entry"].split()[0]).name in lint


def modules_with_doctests():
    source = Path(linmed.__path__[0])
    files = [path for path in source.rglob("*.py") if ">>> " in path.read_text()]
    # Examples of the service's clients need one: tests/serve/test_client_examples.py has it.
    files = [path for path in files if path.parent.name != "serve"]
    return sorted(".".join(["linmed", *path.relative_to(source).with_suffix("").parts]) for path in files)


@pytest.mark.parametrize("name", modules_with_doctests())
def test_doctests(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_path_that_the_page_on_the_tree_names_is_there():
    named = set(re.findall(r"`([\w./-]+\.(?:py|hpp|txt)|[\w./-]+/)`", ARCHITECTURE))
    assert len(named) > 80
    here = ROOT, ROOT / "src" / "linmed"
    assert [name for name in sorted(named) if not any((place / name).exists() for place in here)] == []


def test_the_page_on_the_tree_has_the_layers_that_the_linter_checks():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    shown = re.findall(r"^\| \d+ \| (.*?) \|", ARCHITECTURE, flags=re.MULTILINE)
    layers = [sorted(layer.split(" | ")) for layer in reversed(contract["layers"])]
    assert [sorted(re.findall(r"`(\w+)`", packages)) for packages in shown] == layers
