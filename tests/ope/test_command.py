"""`linmed ope`: what it prints, its JSON, its plot and its errors."""

import argparse
import bz2
import gzip
import json
import math
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linmed.agent import Agent
from linmed.cli.log_options import open_log, unexplained
from linmed.ope import DecisionLog, OPEWarning, difference, evaluate
from linmed.policies.linmed import LinMED
from linmed.question import duration, missing
from linmed.report.tables import Table
from tests.ope.conftest import command

pytestmark = pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("command")
    rng = np.random.default_rng(0)
    with Agent(LinMED(sigma=0.5), dim=2, seed=0, log=folder / "log") as agent:
        for i in range(120):
            decision = agent.decide(rng.uniform(0, 0.5, size=(3, 2)))
            if i < 110:
                agent.learn(decision, float(rng.random() < decision.features.sum()))
    agent.save(folder / "agent")
    return folder


def asked(capsys, words, **places):
    """The JSON that a command prints."""
    status, out, error = command(capsys, f"ope {words} --json", **places)
    assert status == 0, error
    return json.loads(out)


def test_json_holds_what_evaluate_returns(logged, capsys):
    printed = asked(capsys, "{log}/log --target uniform --target arm:1 --estimator dr", log=logged)
    with pytest.warns(OPEWarning) as caught:
        table = evaluate(DecisionLog.open(logged / "log"), ["uniform", 1], "dr", reward_range=(0, 1))
    assert printed["results"] == table.to_pylist()
    assert (printed["waiting"], printed["judged"]) == (10, 110)
    assert printed["warnings"] == [str(one.message) for one in caught]
    assert printed["notes"] == []
    assert asked(capsys, "{log}/log --interval none", log=logged)["results"][0]["lower"] is None


@pytest.mark.parametrize("width", [80, 40])
def test_the_table_has_bars_at_every_width(logged, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    out = command(capsys, "ope {log}/log --target uniform --target agent:{log}/agent", log=logged)[1]
    lines = out.splitlines()
    assert max(map(len, lines)) <= width
    for told in ("120, 10 of them", "betting, confidence 95 %", "in [0, 1]", "LinMED-90", "any time"):
        assert told in out
    assert sum("●" in line and line.endswith("┤") for line in lines) == 6


def test_the_plot_the_page_and_the_differences(logged, capsys, tmp_path):
    words = "{log}/log --target uniform --target agent:{log}/agent --diff uniform --diagnose"
    files = " --plot {to}/plot.png --html {to}/report.html"
    out = command(capsys, f"ope {words}{files}", log=logged, to=tmp_path)[1]
    assert "More than uniform:" in out
    assert "LinMED-90 (sigma=0.5) − uniform" in out
    assert (tmp_path / "plot.png").stat().st_size > 1000
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for told in ("LinMED-90 (sigma=0.5) − uniform", "More than uniform", "<figure><svg", str(logged / "log")):
        assert told in page
    agent = Agent.load(logged / "agent")
    apart = difference(logged / "log", agent, "uniform")
    assert asked(capsys, words, log=logged)["differences"] == apart.to_pylist()
    apart = difference(logged / "log", agent, "uniform", "dr")
    assert (
        asked(capsys, f"{words} --estimator snipw --estimator dr", log=logged)["differences"]
        == apart.to_pylist()
    )


@pytest.fixture
def silent(tmp_path):
    """A log in which arm 1 is never played."""
    rows = {"arm": [0] * 40, "probability": [0.5] * 40, "reward": [0.0, 1.0] * 20, "arm_count": [2] * 40}
    DecisionLog.from_table(rows).save(tmp_path / "silent")
    return tmp_path / "silent"


def test_every_doubt_is_told_once_in_words(silent, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    words, page = "{log} --target arm:0 --target arm:1 --estimator ipw", tmp_path / "report.html"
    _, out, error = command(capsys, f"ope {words} --diff arm:0 --html {page}", log=silent)
    assert error == ""
    assert " ".join(out.split()).count("warning: target 'arm 1' never agrees with") == 1
    assert max(map(len, out.splitlines())) <= 60
    assert page.read_text(encoding="utf-8").count("<li>target &#x27;arm 1&#x27; never agrees with") == 1
    told = asked(capsys, words.replace("ipw", "snipw"), log=silent)
    (doubt,) = [one for one in told["warnings"] if "'arm 1' never agrees" in one]
    assert "the rewards say nothing of its value" in doubt
    assert told["results"][1]["estimate"] is None
    out = command(capsys, f"ope {words} --interval normal --html {page}", log=silent)[1]
    (row,) = [line for line in out.splitlines() if line.startswith("arm 1")]
    assert "no interval" in row
    reason = re.search('<td class="bar none">(.*?)</td>', page.read_text(encoding="utf-8"))
    assert "target &#x27;arm 1&#x27; never agrees" in reason[1]


def test_a_missing_interval_that_nobody_explains_is_explained():
    table = Table(
        {"target": ["a", "b"], "estimate": [0.1, 0.2], "lower": [math.nan] * 2, "upper": [math.nan] * 2}
    )
    (words,) = unexplained("normal", [table], ["target 'a' is silent"])
    assert words.startswith("target 'b' has no interval")
    assert list(unexplained("none", [table], [])) == []


def test_text_logs_are_recognised_by_their_names(logged, capsys, tmp_path):
    DecisionLog.open(logged / "log").to_dsjson(tmp_path / "log.json")
    with open(tmp_path / "log.json", "a") as file:
        file.write("nonsense\n")
    status, _, error = command(capsys, "ope {to}/log.json", to=tmp_path)
    assert (status, "line 121: not JSON" in error) == (2, True)
    (note,) = asked(capsys, "{to}/log.json --skip-malformed", to=tmp_path)["notes"]
    assert "1 lines could not be read, the first is line 121" in note
    (tmp_path / "log.vw").write_text("1:-1:0.5 | a\n2:0:0.5 | a\n")
    assert asked(capsys, "{to}/log.vw --arms 2", to=tmp_path)["results"][0]["estimate"] == 0.5


def test_a_dask_cluster_gives_the_same_table(logged, capsys):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    words = "{log}/log --target uniform --estimator dr"
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp"
    ) as cluster:
        spread = asked(capsys, words + " --cluster {at}", log=logged, at=cluster.scheduler_address)
    assert spread == asked(capsys, words, log=logged)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nowhere", "linmed: error: there is no log at nowhere\n"),
        ("{log}/log --target nobody", "target must be"),
        ("{log}/log --reward-range 0 0.5", "reward must lie in reward_range [0, 0.5]"),
        ("{log}/log --plot nowhere/x.png", "there is no directory nowhere"),
        ("{log}/log --plot x.wav", "ends in .png, .svg or .pdf"),
        ("{log}/log --html nowhere/x.html", "there is no directory nowhere"),
        ("{log}/log --diff uniform", "--diff uniform needs another --target"),
        (
            "{log}/log --target agent:nofile",
            "'agent:nofile' must name a file that agent.save wrote; 'nofile' does",
        ),
        ("{log}/log --target agent:{log}", "is a directory"),
        ("{log}/bare.csv --columns arm=item", "or what it was, as in probability=1/3 (groups of an A/B test"),
        ("{log}/shop.parquet", "say where they are with --columns reward=click,arm=item"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(logged, capsys, words, message):
    pq.write_table(pa.table({"item": [0], "click": [1.0]}), logged / "shop.parquet")
    (logged / "bare.csv").write_text("item,reward\na,1\n")
    status, _, error = command(capsys, f"ope {words}", log=logged)
    assert (status, error.count("\n")) == (2, 1)
    assert message in error


def test_options_reach_evaluate_and_the_report(logged, capsys):
    words = "{log}/log --missing 0 --mature 0 --smallest-probability 1e-9"
    given = {"missing": 0.0, "mature": 0.0, "smallest_probability": 1e-9}
    expected = evaluate(DecisionLog.open(logged / "log"), "uniform", **given).to_pylist()
    assert asked(capsys, words, log=logged)["results"] == expected
    out = command(capsys, f"ope {words}", log=logged)[1]
    for told in ("after 0 s", "1e-09"):
        assert told in out


def test_durations_and_missing_rewards_are_read():
    assert [duration(text) for text in ("90s", "15m", "6h", "2d", "45", "1.5 h")] == [
        90, 900, 21600, 172800, 45, 5400
    ]  # fmt: skip
    assert [missing(text) for text in ("stop", "skip", "0", "-1.5")] == ["stop", "skip", 0.0, -1.5]
    wrong = ((duration, "soon"), (duration, "-3s"), (duration, "5 weeks"), (missing, "nan"), (missing, "no"))
    for read, text in wrong:
        with pytest.raises(argparse.ArgumentTypeError, match=text):
            read(text)


OPEN_BANDIT = "timestamp,item_id,position,click,propensity_score\n2020-01-01,0,1,1,0.5\n"


def test_a_csv_file_is_known_by_its_header(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(DecisionLog, "from_csv", lambda path, **said: calls.append(said), raising=False)
    monkeypatch.setattr(
        "linmed.log.parse_columns",
        lambda text: dict(one.split("=") for one in text.split(",")),
        raising=False,
    )
    (tmp_path / "ours.csv").write_text("arm,probability,reward\n0,0.5,1\n")
    (tmp_path / "theirs.csv").write_text(OPEN_BANDIT)
    assert open_log(tmp_path / "theirs.csv", arms=2).columns[:2] == ["time", "arm"]
    open_log(tmp_path / "ours.csv")
    open_log(tmp_path / "theirs.csv", columns="reward=click,arm=item_id", arms=3, errors="skip")
    open_log(tmp_path / "theirs.csv", "csv")
    mapped = {"reward": "click", "arm": "item_id", "arm_count": 3}
    assert calls == [
        {"columns": {}, "errors": "raise", "delimiter": ","},
        {"columns": mapped, "errors": "skip", "delimiter": ","},
        {"columns": {}, "errors": "raise", "delimiter": ","},
    ]
    monkeypatch.setattr(DecisionLog, "open", lambda path, **said: calls.append(said))
    open_log(tmp_path / "table.parquet", columns="reward=click")
    assert calls[-1] == {"columns": {"reward": "click"}}
    with pytest.raises(ValueError, match="--columns is for CSV and Parquet files"):
        open_log(tmp_path / "log.json", columns="reward=click")
    with pytest.raises(FileNotFoundError, match="there is no log at"):
        open_log(tmp_path / "none.csv")


def test_compressed_csv_files_and_other_delimiters_are_read(tmp_path, capsys):
    lines = "arm;probability;reward\n" + "0;0.5;1\n1;0.5;0\n" * 20
    for name, opened in (("log.csv.gz", gzip.open), ("LOG.CSV.bz2", bz2.open)):
        with opened(tmp_path / name, "wt") as file:
            file.write(lines)
        status, _, error = command(capsys, "ope {to}", to=tmp_path / name)
        assert status == 2
        assert "seems to be ';' (say so with delimiter, on a command line with" in error
        assert asked(capsys, "{to} --arms 2 --delimiter ';'", to=tmp_path / name)["decisions"] == 40
    (tmp_path / "log.csv").write_text(lines.replace(";", "\t"))
    assert asked(capsys, "{to}/log.csv --arms 2 --delimiter tab", to=tmp_path)["decisions"] == 40


def test_decisions_that_stand_in_a_log_twice_may_be_counted_once(tmp_path, capsys):
    rows = "".join(f"d{i % 30},{i % 2},0.5,1\n" for i in range(40))
    (tmp_path / "log.csv").write_text("decision_id,arm,probability,reward\n" + rows)
    status, _, error = command(capsys, "ope {to}/log.csv --arms 2", to=tmp_path)
    assert status == 2
    assert "row 30 has the decision_id 'd0' of row 0 again" in error
    assert "--distinct counts the first of each" in error
    assert asked(capsys, "{to}/log.csv --arms 2 --distinct", to=tmp_path)["decisions"] == 30


def test_a_diagnosis_tells_its_numbers_of_a_healthy_log_too(tmp_path, capsys):
    rng = np.random.default_rng(3)
    rows = {"arm": rng.integers(0, 2, 400), "reward": rng.random(400), "probability": np.full(400, 0.5)}
    DecisionLog.from_table({**rows, "probabilities": np.full((400, 2), 0.5)}).save(tmp_path / "log")
    out = " ".join(command(capsys, "ope {to}/log --diagnose", to=tmp_path)[1].split())
    assert "note: uniform: 400 decisions are worth 400.0 of the target's own, largest weight 1," in out
    assert "mass without overlap 0" in out
    (found,) = asked(capsys, "{to}/log --diagnose --target arm:0", to=tmp_path)["diagnosis"]
    assert (found["target"], found["n"], found["largest_weight"]) == ("arm 0", 400, 2.0)
