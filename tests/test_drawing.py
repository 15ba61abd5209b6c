"""What figures have in common, and pictures of verdicts, drift, evaluations and agents over time."""

import math

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from linmed import Agent, Forgetful, LinMED, Pinpoint
from linmed.ope import DecisionLog, choose, drift, evaluate, plot_sequences, sequence, verdict
from linmed.report.figures import Estimate, axes, intervals, labels, percent, shortened
from linmed.report.tables import Table
from linmed.validation import BadValue

ARMS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.6, 0.8, 0.0]])
THETA = np.array([0.6, 0.35, 0.1])


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("log"), np.random.default_rng(2)
    with Agent(LinMED(sigma=0.3, alpha_emp=0.4), dim=3, seed=2, log=folder) as agent:
        for _ in range(300):
            decision = agent.decide(ARMS)
            agent.learn(decision, float(np.clip(ARMS[decision.arm] @ THETA + 0.3 * rng.normal(), 0, 1)))
    return DecisionLog.open(folder)


def texts(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_shares_are_said_as_people_do():
    said = [percent(x) for x in (0.0, 1e-9, 0.00034, 0.052, 0.931, 0.99999, 1.0, math.nan)]
    assert said == ["0 %", "< 0.01 %", "0.03 %", "5.2 %", "93.1 %", "> 99.9 %", "100 %", "—"]


def test_names_fit_and_can_be_told_apart():
    assert shortened("a" * 100) == f"{'a' * 12}…{'a' * 13}"
    assert shortened("costs $5 and $6\n") == r"costs \$5 and \$6"
    long = [f"the beginning of all of these names is the same {i} and so is their end" for i in range(12)]
    assert len(set(labels(long))) == 12
    assert max(map(len, labels(long))) <= 26
    assert labels(["a", "b"]) == ["a", "b"]


def test_axes_are_those_given_or_a_notebooks_own():
    own = Figure().add_subplot()
    assert axes(own, 2.0) is own
    made = axes(None, 2.0)
    assert made.figure.number in plt.get_fignums()
    quiet = axes(None, 2.0, shown=False)
    assert not hasattr(quiet.figure, "number")
    with pytest.raises(TypeError, match="ax must be axes of matplotlib"):
        axes(5, 2.0)


def test_an_interval_without_an_end_is_an_arrow_and_one_that_is_missing_nothing():
    ax = Figure().add_subplot()
    intervals(ax, [Estimate("a", 0.5, -math.inf, 1.0), Estimate("b", 0.2, math.nan, math.nan)])
    low, high = ax.get_xlim()
    assert low < 0.2
    assert 1.0 < high < 2.0
    marks = [line.get_marker() for line in ax.lines]
    assert marks.count(4) == 1  # to the left
    assert len([line for line in ax.lines if line.get_ydata()[0] == 1]) == 1


def test_an_evaluation_draws_a_line_for_each_row(log):
    table = evaluate(log, {"zero": "arm:0", "three": "arm:3"}, ["ipw", "snipw"])
    ax = table.plot()
    assert texts(ax) == ["zero, ipw", "zero, snipw", "three, ipw", "three, snipw"]
    drawn = [line.get_xdata().tolist() for line in ax.lines if len(line.get_xdata()) == 2]
    rows = table.to_pylist()
    assert drawn == [[row["lower"], row["upper"]] for row in rows]
    assert "reward" in ax.get_xlabel()
    own = Figure().add_subplot()
    assert choose(log, ["arm:0", "arm:3"]).plot(own) is own
    with pytest.raises(BadValue, match="columns estimate, lower and upper"):
        Table({"x": [1]}).plot()
    with pytest.raises(BadValue, match="0 rows"):
        Table({"estimate": [], "lower": [], "upper": []}).plot()


def test_sequences_are_drawn_on_axes_or_to_a_file(log, tmp_path):
    own = Figure().add_subplot()
    assert plot_sequences({"zero": sequence(log, "arm:0")}, ax=own) is own
    plot_sequences({"zero": sequence(log, "arm:0")}, tmp_path / "course.png")
    assert (tmp_path / "course.png").stat().st_size > 1000
    assert not plt.get_fignums()


def test_a_verdict_draws_differences_to_the_best_arm(log):
    found = verdict(log, LinMED(sigma=0.3))
    ax = found.plot()
    less = found.verdict.differences()
    names = texts(ax)
    assert names[0] == f"arm {found.verdict.best}"
    for place, name in enumerate(names):
        own = less[int(name.split()[1])]
        ends = [line for line in ax.lines if len(line.get_ydata()) == 2 and line.get_ydata()[0] == place]
        (line,) = [line for line in ends if line.get_ydata()[1] == place]
        np.testing.assert_allclose(line.get_xdata(), [-own.upper, -own.lower], atol=1e-12)
    assert "95 % interval" in ax.get_xlabel()
    page = found._repr_html_()
    assert "sub-Gaussian" in page
    agent = Agent(Pinpoint(sigma=0.3), dim=3, seed=0)
    many = agent.verdict(np.random.default_rng(0).normal(size=(60, 3)))
    ax = many.plot(names=[f"<{i}>" for i in range(60)])
    assert len(texts(ax)) == 20
    assert "40 more arms" in ax.get_title(loc="left")
    assert len(repr(many)) < 120
    assert "&lt;" in many.html([f"<{i}>" for i in range(60)])


def test_drift_draws_alarms_and_what_a_log_came_to():
    rng = np.random.default_rng(0)
    paid = rng.normal([0.5, 0.0] * 200 + [0.0, 0.5] * 200, 0.1)
    played = {"arm": [0, 1] * 400, "probability": [0.5] * 800, "reward": paid}
    log = DecisionLog.from_table(played | {"features": [[1.0, 0.0], [0.0, 1.0]] * 400})
    found = drift(log)
    assert [alarm.reward for alarm in found.drift.alarms] == [411]
    course = found.course.to_pylist()
    assert [row["reward"] for row in course] == sorted(row["reward"] for row in course)
    assert 100 <= len(course) <= 400
    assert course[-1]["reward"] == 800 == found.drift.count
    assert course[-1]["log_e"] == found.drift.log_e
    ax = found.plot()
    assert any(line.get_xdata()[0] == 411 for line in ax.lines)
    assert "alarm at reward 411" in ax.get_title(loc="left")
    ax = found.drift.plot()
    assert texts(ax)[0] == "never forgets"
    assert "world has changed" in found._repr_html_()
    assert "\n" not in repr(found.drift)
    quiet = Agent(Forgetful(LinMED()), dim=2, seed=0).drift()
    assert "no change in 0 rewards" in quiet.plot().get_title(loc="left")
    assert repr(quiet).startswith("Drift(no alarm in 0 rewards")
