"""Evaluation of recent decisions: `since` starts the sequence there, and models may know what came before."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from linmed.cli import main
from linmed.ope import DecisionLog, difference, evaluate, sequence
from linmed.ope.plan import as_since, in_words
from linmed.question import Question

BEGAN = datetime(2026, 5, 1, tzinfo=UTC)
pytestmark = pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")


def logged(n=1200, seed=0, better=slice(None)):
    """A decision an hour among three arms; arm 0 pays 0.8 in the rows of `better`, else 0.2 as the others."""
    rng = np.random.default_rng(seed)
    p = np.tile([0.5, 0.3, 0.2], (n, 1))
    arm = rng.choice(3, n, p=p[0])
    means = np.full((n, 3), 0.2)
    means[better, 0] = 0.8
    reward = (rng.random(n) < means[np.arange(n), arm]).astype(float)
    return {
        "arm": arm,
        "probability": p[np.arange(n), arm],
        "probabilities": p,
        "reward": reward,
        "arms": np.tile(np.eye(3), (n, 1, 1)),
        "time": [BEGAN + timedelta(hours=i) for i in range(n)],
    }


@pytest.mark.parametrize(
    ("since", "first", "interval"),
    [
        (700, 700, "betting"),
        ("700", 700, "asymptotic"),
        (-500, 700, "normal"),
        (BEGAN + timedelta(hours=700), 700, "normal"),
        ("2026-05-30T04:00:00+00:00", 700, "betting"),
        (timedelta(hours=499), 700, "betting"),
        ("499h", 700, "betting"),
        ("20d", 1199 - 480, "normal"),
        (-10_000, 0, "betting"),
    ],
)
def test_it_is_the_answer_for_the_log_that_begins_there(since, first, interval):
    log = DecisionLog.from_table(logged())
    own = evaluate(log, [0, "uniform"], ["ipw", "snipw"], interval, since=since)
    assert own.to_pylist() == evaluate(log[first:], [0, "uniform"], ["ipw", "snipw"], interval).to_pylist()
    assert own.to_pylist()[0]["n"] == 1200 - first


def test_differences_and_sequences_begin_there_too():
    log = DecisionLog.from_table(logged())
    own = difference(log, 0, "uniform", since="20d").to_pylist()
    assert own == difference(log[719:], 0, "uniform").to_pylist()
    own = sequence(log, 0, since=719).to_pylist()
    assert own == sequence(log[719:], 0).to_pylist()
    assert own[0]["n"] == 1


def test_models_know_the_decisions_before():
    """Where nothing changes, a model fitted on 1,100 earlier decisions makes DR vary less from the start."""
    log = DecisionLog.from_table(logged(better=slice(None)))
    told = evaluate(log, 0, "dr", since=1100).to_pylist()[0]
    cold = evaluate(log[1100:], 0, "dr").to_pylist()[0]
    assert told["n"] == cold["n"] == 100
    assert told["upper"] - told["lower"] < cold["upper"] - cold["lower"]
    assert told["estimate"] != cold["estimate"]
    spread = sequence(log, 0, "dr", since=1100).to_pylist()[0]
    assert spread["n"] == 1


def test_models_learn_of_earlier_decisions_that_have_a_reward():
    columns = logged()
    columns["reward"] = [None if i in (3, 900) else reward for i, reward in enumerate(columns["reward"])]
    log = DecisionLog.from_table(columns)
    found = evaluate(log, 0, "dr", since=1000).to_pylist()[0]
    assert found["n"] == 200  # a reward that is missing before does not end what comes after
    assert evaluate(log, 0, "dr", since=800).to_pylist()[0]["n"] == 100


def test_mature_and_missing_are_of_the_whole_log():
    columns = logged(300)
    columns["reward"] = [None if i >= 290 else reward for i, reward in enumerate(columns["reward"])]
    log = DecisionLog.from_table(columns)
    found = evaluate(log, 0, since=200, mature=timedelta(hours=20))
    assert found.to_pylist()[0]["n"] == 80
    assert found.schema.metadata[b"judged"] == b"80"


@pytest.mark.parametrize(
    ("since", "error"),
    [
        (1200, ValueError),
        ("2030-01-01", ValueError),
        ("0d", ValueError),
        ("tomorrow", ValueError),
        (timedelta(0), ValueError),
        (1.5, TypeError),
        (True, TypeError),
        ([3], TypeError),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(since, error):
    with pytest.raises(error, match="since"):
        evaluate(DecisionLog.from_table(logged()), 0, since=since)


def test_a_time_needs_times():
    columns = {name: column for name, column in logged(50).items() if name != "time"}
    log = DecisionLog.from_table(columns)
    for since in ("1d", BEGAN):
        with pytest.raises(ValueError, match=r"since.*time"):
            evaluate(log, 0, since=since)
    assert evaluate(log, 0, since=20).to_pylist()[0]["n"] == 30


@pytest.mark.parametrize(
    ("since", "said"),
    [
        (None, "average so far"),
        ("30d", "average of the last 30 days"),
        ("1d", "average of the last day"),
        ("36h", "average of the last 36 hours"),
        (timedelta(seconds=90), "average of the last 90 seconds"),
        ("2026-05-01", "average since 2026-05-01 00:00:00+00:00"),
        (1000, "average since decision 1,000"),
        (-1000, "average of the last 1,000 decisions"),
    ],
)
def test_it_is_said_which_average_it_is(since, said):
    assert in_words(Question(since=since)) == said
    assert since is None or as_since(since) is not None


def test_the_command_says_which_average_it_is(tmp_path, capsys):
    DecisionLog.from_table(logged()).save(tmp_path / "log")
    words = ["ope", str(tmp_path / "log"), "--target", "arm:0", "--estimator", "ipw"]
    assert main([*words, "--since", "20d", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["value"] == "average of the last 20 days"
    assert (told["decisions"], told["results"][0]["n"]) == (481, 481)
    assert main([*words, "--since", "-300", "--diagnose", "--html", str(tmp_path / "page.html")]) == 0
    printed = capsys.readouterr().out
    assert "average of the last 300 decisions" in printed
    assert "300 decisions are worth" in printed
    assert "average of the last 300 decisions" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert main(words) == 0
    assert "average so far" in capsys.readouterr().out
    assert main([*words, "--since", "soon"]) == 2
    assert "since" in capsys.readouterr().err
