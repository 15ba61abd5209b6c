"""`linmed choose` and `linmed compare`: what they print, their JSON, their pages and their errors."""

import argparse
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linmed.agent import Agent
from linmed.cli import main
from linmed.cli.choose import amount
from linmed.cli.compare import shares
from linmed.cli.log_arguments import parse_candidate, parse_target
from linmed.ope import DecisionLog, OPEWarning, choose, compare
from linmed.policies.linmed import LinMED


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
    lines = [
        "visitor,variant,click",
        *(f"{i},{v},{int(c)}" for i, (v, c) in enumerate(zip(variant, click, strict=True))),
    ]
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")
    return folder


CANDIDATES = ("--candidate", "uniform", "--candidate", "arm:1", "--candidate", "new=policy:LinMED(sigma=0.5)")


def test_choose_prints_the_verdict_first_and_a_bar_a_candidate(shop, capsys, monkeypatch):
    for width in (80, 40):
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(["choose", str(shop / "log"), *CANDIDATES]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= width
        assert sum("●" in line and line.endswith("┤") for line in lines) == 5
        text = " ".join(" ".join(lines).split())
        with pytest.warns(OPEWarning):
            choice = choose(shop / "log", {"uniform": "uniform", "arm 1": 1, "new": LinMED(sigma=0.5)})
        assert text.startswith(f"{choice}.")
        for told in (
            "300 that judge",
            "the 300 decisions before them",
            "betting, confidence 95 % for all at once",
            f"What {choice.leader} earns more than:",
        ):
            assert told in text


def test_choose_in_json_is_what_choose_returns(shop, capsys):
    words = [
        str(shop / "log"),
        *CANDIDATES,
        "--train",
        "100",
        "--estimator",
        "dr",
        "--confidence",
        "0.9",
        "--json",
    ]
    assert main(["choose", *words]) == 0
    printed = json.loads(capsys.readouterr().out)
    asked = {"uniform": "uniform", "arm 1": 1, "new": LinMED(sigma=0.5)}
    with pytest.warns(OPEWarning) as caught:
        choice = choose(shop / "log", asked, 0.9, train=100, estimator="dr")
    assert printed["candidates"] == choice.table.to_pylist()
    assert printed["gains"] == choice.gains.to_pylist()
    for name in (
        "leader",
        "left",
        "dropped",
        "refuted",
        "more",
        "decided",
        "decisions",
        "trained_on",
        "confidence",
    ):
        assert printed[name] == getattr(choice, name)
    assert printed["trained_on"] == 100
    assert printed["warnings"] == [str(one.message) for one in caught]


def test_a_saved_agent_and_a_learner_of_one_name_are_told_apart_by_names(shop, capsys):
    agent = f"agent:{shop / 'agent'}"
    words = ["choose", str(shop / "log"), "--candidate", agent, "--candidate", "policy:LinMED-50(sigma=0.5)"]
    assert main(words) == 2
    assert "'LinMED-50 (sigma=0.5)' occurs twice: write NAME=CANDIDATE" in capsys.readouterr().err
    assert main([*words[:2], "--candidate", f"old={agent}", *words[4:], "--json"]) == 0
    assert [row["candidate"] for row in json.loads(capsys.readouterr().out)["candidates"]] == [
        "old",
        "LinMED-50 (sigma=0.5)",
    ]


def test_who_was_dropped_by_whom_is_said(capsys, tmp_path):
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
    words = [
        "choose",
        str(tmp_path / "log"),
        "--candidate",
        "arm:0",
        "--candidate",
        "arm:1",
        "--candidate",
        "arm:2",
    ]
    assert main([*words, "--html", str(tmp_path / "page.html")]) == 0
    out = capsys.readouterr().out
    leader = out.split(" leads after")[0]
    assert f"Dropped: arm 0, since {leader} surely earns more." in out
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f'<p class="answer">Dropped: arm 0, since {leader} surely earns more.</p>' in page
    assert "Which policy shall I run?" in page
    assert main([*words[:-2]]) == 0
    out = capsys.readouterr().out
    assert "arm 1 is the best of 2" in out
    assert "Dropped" not in out


@pytest.mark.parametrize("file", ["visits.csv", "visits.parquet"])
def test_compare_takes_a_plain_table(shop, capsys, monkeypatch, file):
    words = [
        "compare",
        str(shop / file),
        "--groups",
        "variant",
        "--columns",
        "reward=click",
        "--baseline",
        "red",
    ]
    assert main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    table = pq.read_table(shop / "visits.parquet")
    expected = compare(table, "variant", reward="click", baseline="red")
    both = printed["groups"] + printed["differences"]
    for name in ("estimate", "lower", "upper", "n", "valid"):
        assert [row[name] for row in both] == expected[name].to_pylist()
    assert printed["confidence"] == 0.95
    for width in (80, 40):
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(words) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= width
        assert lines[0] == "blue earns more than red."
        assert sum("●" in line and line.endswith("┤") for line in lines) == 5
        text = " ".join(" ".join(lines).split())
        assert "green against red is undecided" in text
        assert "6,000, grouped by variant" in text


def test_compare_by_unit(capsys, tmp_path):
    rng = np.random.default_rng(3)
    user = rng.integers(200, size=3_000)
    click = (rng.random(3_000) < rng.beta(0.5, 0.5, 200)[user]).astype(int)
    table = pa.table({"user": user, "variant": np.array(["a", "b"])[user % 2], "click": click})
    pq.write_table(table, tmp_path / "visits.parquet")
    lines = [
        f"{u},{v},{c}" for u, v, c in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]
    (tmp_path / "visits.csv").write_text("\n".join(["user,variant,click", *lines]) + "\n")
    expected = compare(table, "variant", reward="click", unit="user").to_pylist()
    for file in ("visits.csv", "visits.parquet"):
        words = ["compare", str(tmp_path / file), "--groups", "variant", "--columns", "reward=click"]
        assert main([*words, "--unit", "user", "--json", "--html", str(tmp_path / "page.html")]) == 0
        told = json.loads(capsys.readouterr().out)
        assert [row["lower"] for row in told["groups"]] == [row["lower"] for row in expected[:2]]
        assert (told["decisions"], told["rows"], told["warnings"]) == (200, 3_000, [])
        assert main([*words, "--unit", "user"]) == 0
        assert "200 by user, in 3,000 rows, grouped by variant" in capsys.readouterr().out
        assert main(words) == 0
        assert "Give unit='user'" in " ".join(capsys.readouterr().out.split())
    assert "at this one look, if it was not chosen by looking" in (tmp_path / "page.html").read_text()
    assert main([*words, "--unit", "person"]) == 2
    assert "counting by unit needs the column 'person'" in capsys.readouterr().err


def test_choose_draws_its_candidates(shop, capsys, tmp_path):
    words = ["choose", str(shop / "log"), *CANDIDATES, "--train", "300", "--plot"]
    assert main([*words, str(tmp_path / "choice.svg")]) == 0
    drawn = (tmp_path / "choice.svg").read_text()
    assert all(f">{name}<" in drawn or f"<!-- {name} -->" in drawn for name in ("uniform", "arm 1", "new"))
    assert main([*words, str(tmp_path / "choice.doc")]) == 2
    assert "a plot's name ends in .png, .svg or .pdf" in capsys.readouterr().err


def test_compare_takes_a_log_too_and_writes_a_page(shop, capsys, tmp_path):
    words = [
        str(shop / "log"),
        "--groups",
        "arm",
        "--interval",
        "normal",
        "--html",
        str(tmp_path / "page.html"),
    ]
    assert main(["compare", *words]) == 0
    assert "More than 0:" in capsys.readouterr().out
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for told in ("What do the groups earn?", "their number was fixed beforehand", "not put at random"):
        assert told in page


def test_groups_that_are_called_arms_keep_their_names(capsys, tmp_path):
    rng = np.random.default_rng(0)
    lines = ["arm,reward", *(f"{arm},{int(rng.random() < 0.3)}" for arm in rng.choice(["x", "y"], 500))]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
    assert main(["compare", str(tmp_path / "visits.csv"), "--groups", "arm", "--json"]) == 0
    assert [row["group"] for row in json.loads(capsys.readouterr().out)["groups"]] == ["x", "y"]


def test_compare_with_shares_and_without_an_interval(shop, capsys):
    words = ["compare", str(shop / "visits.csv"), "--groups", "variant", "--columns", "reward=click"]
    assert main([*words, "--shares", "red=1/3,green=1/3,blue=1/3", "--interval", "none"]) == 0
    out = capsys.readouterr().out
    assert "undecided" not in out
    assert "no interval" in out
    assert main([*words, "--shares", "red=1/2,green=1/4,blue=1/4"]) == 2
    assert "shares must be those that visitors were assigned with" in capsys.readouterr().err


def test_a_group_whose_probabilities_are_wrong_cannot_be_judged(capsys, tmp_path):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 4_000)
    reward = [None if one and rng.random() < 0.5 else float(rng.random() < 0.3) for one in group]
    pq.write_table(pa.table({"g": group, "reward": reward}), tmp_path / "visits.parquet")
    assert main(["compare", str(tmp_path / "visits.parquet"), "--groups", "g", "--missing", "skip"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 against 0 cannot be judged.")
    assert "where it should be 1" in " ".join(out.split())


def test_groups_of_a_csv_may_be_numbers_or_truths(capsys, tmp_path):
    rng = np.random.default_rng(0)
    for truths, names in (("01", ["0", "1"]), (("false", "true"), ["false", "true"])):
        group = rng.integers(0, 2, 500)
        lines = ["treated,reward", *(f"{truths[g]},{int(rng.random() < 0.3)}" for g in group)]
        (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
        assert main(["compare", str(tmp_path / "visits.csv"), "--groups", "treated", "--json"]) == 0
        assert [row["group"] for row in json.loads(capsys.readouterr().out)["groups"]] == names
        words = [
            "compare",
            str(tmp_path / "visits.csv"),
            "--groups",
            "treated",
            "--baseline",
            names[1],
            "--json",
        ]
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out)["differences"][0]["group"] == f"{names[0]} − {names[1]}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["choose", "nowhere", "--candidate", "uniform"], "there is no log at nowhere"),
        (["choose", "LOG", "--candidate", "nobody"], "target must be"),
        (["choose", "LOG", "--candidate", "policy:LinMEd"], "did you mean 'LinMED'?"),
        (["choose", "LOG", "--candidate", "policy:LinMED(alpha=2)"], "no parameter 'alpha'"),
        (["choose", "LOG", "--candidate", "policy:EXP2"], "cannot learn from another policy"),
        (["choose", "LOG", "--candidate", "policy:LinMED", "--train", "600"], "train must leave decisions"),
        (["choose", "LOG", "--candidate", "uniform", "--confidence", "2"], "confidence must lie"),
        (
            ["choose", "LOG", "--candidate", "uniform", "--html", "nowhere/x.html"],
            "there is no directory nowhere",
        ),
        (["compare", "nowhere.csv", "--groups", "variant"], "there is no log at nowhere.csv"),
        (["compare", "nowhere", "--groups", "variant"], "there is no log at nowhere"),
        (["compare", "CSV", "--groups", "colour"], "--groups must be one of the columns"),
        (["compare", "CSV", "--groups", "variant"], "say where they are with --columns reward=click"),
        (["compare", "LOG", "--groups", "policy"], "groups must be at least two"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(shop, capsys, words, message):
    places = {"LOG": str(shop / "log"), "CSV": str(shop / "visits.csv")}
    assert main([places.get(word, word) for word in words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


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
