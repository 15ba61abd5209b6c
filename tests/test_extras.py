"""What is missing is asked for by the name of its extra; the lists of packages agree with each other."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import yaml

from linmed import Agent, LinMED, cli
from linmed.environments import Classification
from linmed.environments.rewards import counts
from linmed.extras import PACKAGES
from linmed.report.tables import Table
from linmed.serve.database import Database
from linmed.simulation import Store
from linmed.simulation.executors import on_cluster

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FOR_CONTRIBUTORS = {"dev", "docs", "all"}


@pytest.mark.parametrize(
    ("package", "extra", "use"),
    [
        ("psycopg", "postgres", lambda: Database("postgresql://user@127.0.0.1/name")),
        ("sklearn.datasets", "data", lambda: Classification("digits")),
        ("usearch", "catalogue", lambda: import_module("linmed.features.usearch")),
        ("pyarrow", "log", lambda: Agent(LinMED(), dim=2, log="decisions")),
        ("pyarrow", "log", lambda: Table({"n": [1]}).to_arrow()),
        ("pyarrow", "log", lambda: Store("results")),
        ("pyarrow", "ope", lambda: import_module("linmed.ope")),
        ("pyarrow", "paper", lambda: import_module("linmed.paper")),
        ("matplotlib", "plot", lambda: Agent(LinMED(), dim=2).explain([[1.0, 0.0], [0.0, 1.0]]).plot()),
        ("scipy", "paper", lambda: counts(np.ones(1), np.ones(1))),
        ("distributed", "cluster", lambda: on_cluster("127.0.0.1:1").__enter__()),
    ],
)
def test_a_missing_package_is_asked_for_by_its_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, extra: str, use: Callable[[], object]
) -> None:
    parts = f"{package}.", "linmed.features.usearch", "linmed.log", "linmed.ope", "linmed.paper"
    for loaded in [name for name in sys.modules if name.startswith(parts)]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Exception, match=rf"pip install 'linmed\[{extra}\]'$"):
        use()


def test_a_server_on_postgresql_without_its_extra_says_so_and_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert cli.main(["serve", "--database", "postgresql://user@127.0.0.1/name", "--check"]) == 2
    expected = "linmed serve: a postgresql database needs psycopg: pip install 'linmed[postgres]'\n"
    assert capsys.readouterr().err == expected


def test_every_extra_that_is_named_exists() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").iterdir()]
    texts = [file.read_text(encoding="utf-8") for file in [*pages, *(ROOT / "src").rglob("*.py")]]
    lists = [found for text in texts for found in re.findall(r"linmed\[([\w,]+)\]", text)]
    named = {name for names in lists for name in names.split(",")}
    assert EXTRAS.keys() - FOR_CONTRIBUTORS <= named <= EXTRAS.keys()


def test_the_packages_of_an_error_are_those_of_the_extra() -> None:
    def packages(extra: str) -> set[str]:
        found: set[str] = set()
        for text in EXTRAS[extra]:
            inner = re.match(r"linmed\[(.*)\]", text)
            parts = map(packages, inner[1].split(",")) if inner else [{re.split(r"[<>=]", text)[0]}]
            found = found.union(*parts)
        return found

    assert {extra: packages(extra) for extra in PACKAGES} == {x: set(names) for x, names in PACKAGES.items()}


def test_all_is_every_extra_for_users() -> None:
    (whole,) = EXTRAS["all"]
    assert whole == f"linmed[{','.join(sorted(EXTRAS.keys() - FOR_CONTRIBUTORS))}]"


def test_every_dependency_is_explained() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    explained = {name for row in re.findall(r"^\| ([\w, -]+) \|", page, re.M) for name in row.split(", ")}
    for text in [*PROJECT["dependencies"], *(text for extra in EXTRAS.values() for text in extra)]:
        name = re.split(r"[\[<>=; ]", text)[0]
        assert name in {*explained, "linmed"}, name


def test_importing_linmed_reaches_no_extra_and_neither_service_nor_paper() -> None:
    """Not even when every public name has been looked up."""
    program = (
        "import sys, linmed\n"
        "for name in linmed.__all__: getattr(linmed, name)\n"
        "found = {'.'.join(name.split('.')[:2]) for name in sys.modules}\n"
        "print(*sorted(found & {'linmed.serve', 'linmed.paper', 'linmed.ope', 'linmed.log', 'linmed.cli',\n"
        "                       'matplotlib', 'pyarrow', 'scipy', 'sqlalchemy', 'starlette', 'pandas'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_recipe_and_the_citation_say_what_the_project_says() -> None:
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == citation["version"] == PROJECT["version"]
    needs = [
        f"python {PROJECT['requires-python']}",
        *(need.replace(">=", " >=") for need in PROJECT["dependencies"]),
    ]
    assert recipe["requirements"]["run"] == needs
    assert {need.replace(" >=", ">=") for need in recipe["requirements"]["host"]} >= set(
        PYPROJECT["build-system"]["requires"]
    )
