"""A notebook in a real kernel: one bar, one line about compilation, HTML and pictures of our objects."""

import os

import nbclient
import nbformat
import pytest

from linmed.decision import Decision
from linmed.report.html import bar, running, table
from linmed.report.tables import Table

CELLS = [
    """
import warnings
warnings.simplefilter("error")
from linmed import Agent, LinMED, simulate
from linmed.environments import LargeGap
from linmed.report.progress import Bar
import linmed.report.progress
linmed.report.progress.SELDOM = 0.0
with Bar(True, "rounds", "counting", total=50) as bar:
    for _ in range(50):
        bar.advance(1)
""",
    "agent = Agent(LinMED(), dim=2, seed=1)\nagent.decide([[1.0, 0.0], [0.0, 1.0]])",
    "agent.explain([[1.0, 0.0], [0.0, 1.0]], names=['<b>', 'c'])",
    "ax = agent.explain([[1.0, 0.0], [0.0, 1.0]]).plot()",
    "agent",
]


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The outputs of each cell."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS])
    folder = str(tmp_path_factory.mktemp("notebook"))
    # The backend is the notebook's own, whatever the tests draw with.
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3")
    client.execute(env={**environment, "IPYTHONDIR": folder}, cwd=folder)
    return [cell.outputs for cell in notebook.cells]


def shown_in(outputs):
    """What a cell shows, without what it prints."""
    return [one for one in outputs if one.output_type != "stream"]


def test_a_bar_is_one_output_that_is_empty_at_the_end(cells):
    (shown,) = cells[0]
    assert shown.output_type == "display_data"
    assert shown.data["text/html"] == ""


def test_objects_are_shown_as_html_with_names_escaped(cells):
    (decision,), (explained,) = shown_in(cells[1]), shown_in(cells[2])
    assert "with probability" in decision.data["text/html"]
    assert "&lt;b&gt;" in explained.data["text/html"]
    assert "<b>" not in explained.data["text/html"]
    assert explained.data["text/plain"].startswith("Explanation(LinMED-90, 2 arms")


def test_a_plot_is_a_picture_below_its_cell(cells):
    (picture,) = shown_in(cells[3])
    assert len(picture.data["image/png"]) > 1000


def test_an_agent_is_one_line(cells):
    (agent,) = cells[4]
    assert agent.data == {"text/plain": "Agent(LinMED-90, dim=2, count=0)"}


def test_elsewhere_there_is_no_notebook():
    assert not running()


def test_html_of_tables_and_decisions_is_escaped_and_in_bounds():
    page = Table({"<name>": ["<i>a</i>", "b"], "value": [0.25, None]})._repr_html_()
    assert "<i>" not in page
    assert "&lt;i&gt;a&lt;/i&gt;" in page
    assert "&lt;name&gt;" in page
    assert page.count("<tr>") == 3
    long = Table({"n": list(range(1_000))})._repr_html_()
    assert long.count("<tr>") == 42
    assert "960 more rows" in long
    decision = Decision(0, -0.5, None, None, None, 2, item="<script>")
    assert "<script>" not in decision._repr_html_()
    assert "width:25%" in table(["x"], [[bar(0.25)]])
