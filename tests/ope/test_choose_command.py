"""`linmed choose` and `linmed compare`: what they print, their JSON, their pages and their errors."""

import argparse
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

from linmed.agent import Agent
from linmed.cli.choose_policy import amount
from linmed.cli.compare_groups import shares
from linmed.cli.log_options import parse_candidate, parse_target
from linmed.ope import DecisionLog, OPEWarning, choose, compare
from linmed.policies.linmed import LinMED
from tests.ope.conftest import command


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """An agent with its log, and the table of an A/B test as CSV and Parquet."""
    folder = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    with Agent(LinMED(sigma=0.5, alpha_emp=0.5), dim=2, seed=0, log=folder / "log") as agent:
        for _ in range(600):
            decision = agent.decide(rng.uniform(0, 0.5, size=(3, 2)))
            agent.learn(decision, float(rng.random() < decision.features.sum()))
    agent.save(folder / "agent")
    variant = rng.choice(["red", "green", "blue"], 6_000)
    click = rng.random(6_000) < np.where(variant == "blue", 0.3, 0.2)
    table = pa.table({"visitor": np.arange(6_000), "variant": variant, "click": click.astype(int)})
    pq.write_table(table, folder / "visits.parquet")
    pv.write_csv(table, folder / "visits.csv")
    return folder


CHOOSE = "choose {log} --candidate uniform --candidate arm:1 --candidate new=policy:LinMED(sigma=0.5)"
COMPARE = "compare {visits} --groups variant --columns reward=click"
ASKED = {"uniform": "uniform", "arm 1": 1, "new": LinMED(sigma=0.5)}


def flat(text):
    return " ".join(text.split())


def test_choose_prints_the_verdict_first_and_a_bar_a_candidate(shop, capsys, monkeypatch):
    with pytest.warns(OPEWarning):
        choice = choose(shop / "log", ASKED)
    for width in (80, 40):
        monkeypatch.setenv("COLUMNS", str(width))
        status, out, _ = command(capsys, CHOOSE, log=shop / "log")
        assert status == 0
        lines = out.splitlines()
        assert max(map(len, lines)) <= width
        assert sum("●" in line and line.endswith("┤") for line in lines) == 5
        assert flat(out).startswith(f"{choice}.")
        for told in ("300 that judge", "the 300 decisions before them", "confidence 95 % for all at once"):
            assert told in flat(out)
        assert f"What {choice.leader} earns more than:" in flat(out)


def test_choose_in_json_is_what_choose_returns(shop, capsys):
    more = " --train 100 --estimator dr --confidence 0.9 --json"
    printed = json.loads(command(capsys, CHOOSE + more, log=shop / "log")[1])
    with pytest.warns(OPEWarning) as caught:
        choice = choose(shop / "log", ASKED, 0.9, train=100, estimator="dr")
    assert printed["candidates"] == choice.table.to_pylist()
    assert printed["gains"] == choice.gains.to_pylist()
    for name in set(printed) - {"candidates", "gains", "warnings", "notes"}:
        assert printed[name] == getattr(choice, name)
    assert printed["trained_on"] == 100
    assert printed["warnings"] == [str(one.message) for one in caught]


def test_a_saved_agent_and_a_learner_of_one_name_are_told_apart_by_names(shop, capsys):
    words = "choose {log} --candidate {old}agent:{agent} --candidate policy:LinMED-50(sigma=0.5) --json"
    places = {"log": shop / "log", "agent": shop / "agent"}
    status, _, error = command(capsys, words, old="", **places)
    assert (status, "'LinMED-50 (sigma=0.5)' occurs twice: write NAME=CANDIDATE" in error) == (2, True)
    found = json.loads(command(capsys, words, old="old=", **places)[1])["candidates"]
    assert [row["candidate"] for row in found] == ["old", "LinMED-50 (sigma=0.5)"]


def test_who_was_dropped_by_whom_is_said_and_drawn(capsys, tmp_path):
    rng = np.random.default_rng(0)
    arm = rng.integers(0, 3, 3_000)
    reward = (rng.random(3_000) < np.array([0.2, 0.8, 0.81])[arm]).astype(float)
    rows = {
        "arm": arm,
        "probability": np.full(3_000, 1 / 3),
        "reward": reward,
        "arm_count": np.full(3_000, 3),
    }
    DecisionLog.from_table(rows).save(tmp_path / "log")
    words = "choose {place}/log --candidate arm:0 --candidate arm:1"
    more = words + " --candidate arm:2 --html {place}/page.html --plot {place}/choice.svg"
    out = command(capsys, more, place=tmp_path)[1]
    leader = out.split(" leads after")[0]
    assert f"Dropped: arm 0, since {leader} surely earns more." in out
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f'<p class="answer">Dropped: arm 0, since {leader} surely earns more.</p>' in page
    assert "Which policy shall I run?" in page
    drawn = (tmp_path / "choice.svg").read_text()
    assert all(f">arm {i}<" in drawn or f"<!-- arm {i} -->" in drawn for i in range(3))
    out = command(capsys, words, place=tmp_path)[1]
    assert "arm 1 is the best of 2" in out
    assert "Dropped" not in out


@pytest.mark.parametrize("file", ["visits.csv", "visits.parquet"])
def test_compare_takes_a_plain_table(shop, capsys, monkeypatch, file):
    words = COMPARE + " --baseline red"
    printed = json.loads(command(capsys, words + " --json", visits=shop / file)[1])
    expected = compare(pq.read_table(shop / "visits.parquet"), "variant", reward="click", baseline="red")
    both = printed["groups"] + printed["differences"]
    for name in ("estimate", "lower", "upper", "n", "valid"):
        assert [row[name] for row in both] == expected[name].to_pylist()
    assert printed["confidence"] == 0.95
    monkeypatch.setenv("COLUMNS", "40")
    out = command(capsys, words, visits=shop / file)[1]
    lines = out.splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[0] == "blue earns more than red."
    assert sum("●" in line and line.endswith("┤") for line in lines) == 5
    assert "green against red is undecided" in flat(out)
    assert "6,000, grouped by variant" in flat(out)


def test_compare_by_unit(capsys, tmp_path):
    rng = np.random.default_rng(3)
    user = rng.integers(200, size=3_000)
    click = (rng.random(3_000) < rng.beta(0.5, 0.5, 200)[user]).astype(int)
    table = pa.table({"user": user, "variant": np.array(["a", "b"])[user % 2], "click": click})
    pq.write_table(table, tmp_path / "visits.parquet")
    pv.write_csv(table, tmp_path / "visits.csv")
    expected = compare(table, "variant", reward="click", unit="user").to_pylist()
    for file in ("visits.csv", "visits.parquet"):
        places = {"visits": tmp_path / file, "page": tmp_path / "page.html"}
        told = json.loads(command(capsys, COMPARE + " --unit user --json --html {page}", **places)[1])
        assert [row["lower"] for row in told["groups"]] == [row["lower"] for row in expected[:2]]
        assert (told["decisions"], told["rows"], told["warnings"]) == (200, 3_000, [])
        out = command(capsys, COMPARE + " --unit user", **places)[1]
        assert "200 by user, in 3,000 rows, grouped by variant" in out
        assert "Give unit='user'" in flat(command(capsys, COMPARE, **places)[1])
    assert "at this one look, if it was not chosen by looking" in (tmp_path / "page.html").read_text()
    status, _, error = command(capsys, COMPARE + " --unit person", **places)
    assert (status, "counting by unit needs the column 'person'" in error) == (2, True)


def test_compare_takes_a_log_too_and_writes_a_page(shop, capsys, tmp_path):
    words = "compare {log} --groups arm --interval normal --html {page}"
    assert "More than 0:" in command(capsys, words, log=shop / "log", page=tmp_path / "page.html")[1]
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for told in ("What do the groups earn?", "their number was fixed beforehand", "not put at random"):
        assert told in page


def test_compare_with_shares_and_without_an_interval(shop, capsys):
    words, places = COMPARE + " --shares ", {"visits": shop / "visits.csv"}
    out = command(capsys, words + "red=1/3,green=1/3,blue=1/3 --interval none", **places)[1]
    assert "undecided" not in out
    assert "no interval" in out
    status, _, error = command(capsys, words + "red=1/2,green=1/4,blue=1/4", **places)
    assert (status, "shares must be those that visitors were assigned with" in error) == (2, True)


@pytest.mark.parametrize(
    ("column", "values"), [("treated", "01"), ("treated", ("false", "true")), ("arm", "xy")]
)
def test_groups_of_a_csv_may_be_numbers_truths_or_names_of_arms(capsys, tmp_path, column, values):
    rng = np.random.default_rng(0)
    lines = [f"{values[rng.integers(2)]},{int(rng.random() < 0.3)}" for _ in range(500)]
    (tmp_path / "visits.csv").write_text("\n".join([f"{column},reward", *lines]) + "\n")
    words = "compare {visits} --groups {column} --baseline {base} --json"
    told = json.loads(
        command(capsys, words, visits=tmp_path / "visits.csv", column=column, base=values[1])[1]
    )
    assert [row["group"] for row in told["groups"]] == list(values)
    assert told["differences"][0]["group"] == f"{values[0]} − {values[1]}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("choose nowhere --candidate uniform", "there is no log at nowhere"),
        ("choose {log} --candidate nobody", "target must be"),
        ("choose {log} --candidate policy:LinMEd", "did you mean 'LinMED'?"),
        ("choose {log} --candidate policy:LinMED(alpha=2)", "no parameter 'alpha'"),
        ("choose {log} --candidate policy:EXP2", "cannot learn from another policy"),
        ("choose {log} --candidate policy:LinMED --train 600", "train must leave decisions"),
        ("choose {log} --candidate uniform --confidence 2", "confidence must lie"),
        ("choose {log} --candidate uniform --html nowhere/x.html", "there is no directory nowhere"),
        ("choose {log} --candidate uniform --plot x.doc", "a plot's name ends in .png, .svg or .pdf"),
        ("compare nowhere.csv --groups variant", "there is no log at nowhere.csv"),
        ("compare nowhere --groups variant", "there is no log at nowhere"),
        ("compare {visits} --groups colour", "--groups must be one of the columns"),
        ("compare {visits} --groups variant", "say where they are with --columns reward=click"),
        ("compare {log} --groups policy", "groups must be at least two"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(shop, capsys, words, message):
    status, _, error = command(capsys, words, log=shop / "log", visits=shop / "visits.csv")
    assert status == 2
    assert message in error
    assert error.count("\n") == 1


def test_names_before_candidates_and_targets():
    name, policy = parse_candidate("mine=policy:LinMED(sigma=0.5, alpha_emp=0.5)")
    assert (name, policy) == ("mine", LinMED(sigma=0.5, alpha_emp=0.5))
    name, policy = parse_candidate("policy:LinMED(sigma=0.5)")
    assert (name, policy) == ("LinMED-90 (sigma=0.5)", LinMED(sigma=0.5))
    assert parse_candidate("first=arm:0")[0] == "first"
    assert parse_candidate("arm:0")[0] == "arm 0"
    assert parse_target("column:a=b").name == "column:a=b"
    assert parse_target("other=column:a=b").name == "other"


def test_amounts_and_shares_are_read():
    assert [(amount(text), type(amount(text))) for text in ("0.5", "300")] == [(0.5, float), (300, int)]
    assert shares("a=0.5, b=1/4,c d=0.25") == {"a": 0.5, "b": 0.25, "c d": 0.25}
    for text in ("a", "a=", "=1", "a=x", "a=1/0", "a=-1", "a=0.5,a=0.5"):
        with pytest.raises(argparse.ArgumentTypeError, match="each once"):
            shares(text)
