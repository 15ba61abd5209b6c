"""`linmed ope`: what it prints, its JSON, its plot and its errors."""

import argparse
import bz2
import gzip
import json
import math
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linmed.agent import Agent
from linmed.cli import main
from linmed.cli.log_arguments import doubts, open_log
from linmed.cli.ope import unexplained
from linmed.ope import DecisionLog, OPEWarning, difference, evaluate
from linmed.policies.linmed import LinMED
from linmed.question import duration, missing
from linmed.report.tables import Table


def command(*words: object) -> int:
    return main(["ope", *map(str, words)])


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


def test_json_holds_what_evaluate_returns(logged, capsys):
    code = command(logged / "log", "--target", "uniform", "--target", "arm:1", "--estimator", "dr", "--json")
    printed = json.loads(capsys.readouterr().out)
    assert code == 0
    with pytest.warns(OPEWarning) as caught:
        table = evaluate(DecisionLog.open(logged / "log"), ["uniform", 1], "dr", reward_range=(0, 1))
    assert printed["results"] == table.to_pylist()
    assert (printed["waiting"], printed["judged"]) == (10, 110)
    assert printed["warnings"] == [str(one.message) for one in caught]
    assert printed["notes"] == []


@pytest.mark.parametrize("width", [80, 40])
def test_the_table_has_bars_at_every_width(logged, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    assert command(logged / "log", "--target", "uniform", "--target", f"agent:{logged / 'agent'}") == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert max(map(len, lines)) <= width
    for told in (
        "120, 10 of them",
        "betting, confidence 95 %",
        "in [0, 1]",
        "uniform",
        "LinMED-90",
        "any time",
    ):
        assert told in out
    assert sum("●" in line and line.endswith("┤") for line in lines) == 6


@pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")
def test_the_plot_the_page_and_the_differences(logged, capsys, tmp_path):
    words = (
        "--target",
        "uniform",
        "--target",
        f"agent:{logged / 'agent'}",
        "--diff",
        "uniform",
        "--diagnose",
    )
    files = ("--plot", tmp_path / "plot.png", "--html", tmp_path / "report.html")
    assert command(logged / "log", *words, *files) == 0
    out = capsys.readouterr().out
    assert "More than uniform:" in out
    assert "LinMED-90 (sigma=0.5) − uniform" in out
    assert (tmp_path / "plot.png").stat().st_size > 1000
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for told in ("LinMED-90 (sigma=0.5) − uniform", "More than uniform", "<polygon", str(logged / "log")):
        assert told in page
    assert command(logged / "log", *words, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    agent = Agent.load(logged / "agent")
    with pytest.warns(OPEWarning, match="10 of 120 decisions"):
        apart = difference(logged / "log", agent, "uniform")
    assert printed["differences"] == apart.to_pylist()


def test_without_a_sequence_the_page_has_no_plot_unless_one_is_asked_for(logged, capsys, tmp_path):
    words = (logged / "log", "--interval", "adaptive", "--html", tmp_path / "report.html")
    assert command(*words) == 0
    assert "<polygon" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "More than" not in capsys.readouterr().out
    assert command(*words, "--plot", tmp_path / "plot.svg", "--diff", "arm:0") == 0
    assert "More than arm 0 (betting interval):" in capsys.readouterr().out
    assert "The betting sequence" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def silent(tmp_path):
    """A log in which arm 1 is never played."""
    rows = {"arm": [0] * 40, "probability": [0.5] * 40, "reward": [0.0, 1.0] * 20, "arm_count": [2] * 40}
    DecisionLog.from_table(rows).save(tmp_path / "silent")
    return tmp_path / "silent"


def test_every_doubt_is_told_once_in_words(silent, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    words = (silent, "--target", "arm:0", "--target", "arm:1", "--estimator", "ipw", "--diff", "arm:0")
    assert command(*words, "--html", tmp_path / "report.html") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert " ".join(captured.out.split()).count("warning: target 'arm 1' never agrees with") == 1
    assert max(map(len, captured.out.splitlines())) <= 60
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<li>target &#x27;arm 1&#x27; never agrees with") == 1
    assert command(*words, "--json") == 0
    (doubt,) = [
        one for one in json.loads(capsys.readouterr().out)["warnings"] if "'arm 1' never agrees" in one
    ]
    assert "the rewards say nothing of its value" in doubt


def test_a_target_without_an_interval_is_shown_as_such_with_the_reason(silent, capsys, tmp_path):
    words = ("--target", "arm:0", "--target", "arm:1", "--estimator", "ipw", "--interval", "normal")
    assert command(silent, *words, "--html", tmp_path / "report.html") == 0
    out = capsys.readouterr().out
    (row,) = [line for line in out.splitlines() if line.startswith("arm 1")]
    assert "no interval" in row
    assert "warning: target 'arm 1'" in out
    reason = re.search(
        '<td class="bar none">(.*?)</td>', (tmp_path / "report.html").read_text(encoding="utf-8")
    )
    assert "target &#x27;arm 1&#x27; never agrees" in reason[1]


def test_a_missing_interval_that_nobody_explains_is_explained():
    table = Table(
        {"target": ["a", "b"], "estimate": [0.1, 0.2], "lower": [math.nan] * 2, "upper": [math.nan] * 2}
    )
    (words,) = unexplained("normal", [table], ["target 'a' is silent"])
    assert words.startswith("target 'b' has no interval")
    assert list(unexplained("none", [table], [])) == []


def speak() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for kind in (OPEWarning, OPEWarning, DeprecationWarning):
            warnings.warn(f"a {kind.__name__}", kind, stacklevel=1)


def overhear() -> list[str]:
    with doubts() as found:
        speak()
    return found


def test_other_warnings_go_their_usual_way():
    with pytest.warns(DeprecationWarning, match="a DeprecationWarning") as usual:
        found = overhear()
    assert found == ["a OPEWarning"]
    assert len(usual) == 1


def test_a_terminal_that_knows_ascii_alone_gets_ascii(logged):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "72"}
    words = ("ope", logged / "log", "--target", "arm:1", "--diff", "uniform", "--estimator", "ipw")
    done = subprocess.run(
        [sys.executable, "-m", "linmed.cli", *words], env=environment, capture_output=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    lines = done.stdout.decode("ascii").splitlines()
    assert max(map(len, lines)) <= 72
    assert any(line.startswith("arm 1 - uniform") for line in lines)
    assert sum("o" in line and line.endswith("|") for line in lines) == 2


def test_no_interval_is_null_in_json(logged, capsys):
    assert command(logged / "log", "--interval", "none", "--json") == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["lower"] is None


def test_text_logs_are_recognised_by_their_names(logged, capsys, tmp_path):
    DecisionLog.open(logged / "log").to_dsjson(tmp_path / "log.json")
    with open(tmp_path / "log.json", "a") as file:
        file.write("nonsense\n")
    assert command(tmp_path / "log.json", "--json") == 2
    assert "line 121: not JSON" in capsys.readouterr().err
    assert command(tmp_path / "log.json", "--json", "--skip-malformed") == 0
    assert "1 lines could not be read, the first is line 121" in capsys.readouterr().out
    (tmp_path / "log.vw").write_text("1:-1:0.5 | a\n2:0:0.5 | a\n")
    assert command(tmp_path / "log.vw", "--arms", 2, "--json") == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["estimate"] == 0.5


def test_a_dask_cluster_gives_the_same_table(logged, capsys):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp"
    ) as cluster:
        words = (logged / "log", "--target", "uniform", "--estimator", "dr", "--json")
        assert command(*words, "--cluster", cluster.scheduler_address) == 0
        spread = json.loads(capsys.readouterr().out)
    assert command(*words) == 0
    assert spread == json.loads(capsys.readouterr().out)


def test_wrong_input_is_one_line_and_exit_code_2(logged, capsys):
    assert command("nowhere") == 2
    assert capsys.readouterr().err == "linmed: error: there is no log at nowhere\n"
    assert command(logged / "log", "--target", "nobody") == 2
    assert "target must be" in capsys.readouterr().err
    assert command(logged / "log", "--reward-range", 0, 0.5) == 2
    assert "reward must lie in reward_range [0, 0.5]" in capsys.readouterr().err
    assert command(logged / "log", "--plot", "nowhere/x.png") == 2
    assert "there is no directory nowhere" in capsys.readouterr().err
    assert command(logged / "log", "--plot", "x.wav") == 2
    assert "ends in .png, .svg or .pdf" in capsys.readouterr().err
    assert command(logged / "log", "--html", "nowhere/x.html") == 2
    assert "there is no directory nowhere" in capsys.readouterr().err
    pq.write_table(pa.table({"item": [0], "click": [1.0]}), logged / "shop.parquet")
    assert command(logged / "shop.parquet") == 2
    assert "say where they are with --columns reward=click,arm=item" in capsys.readouterr().err
    assert command(logged / "log", "--diff", "uniform") == 2
    assert "--diff uniform needs another --target" in capsys.readouterr().err


def test_options_reach_evaluate_and_the_report(logged, capsys):
    said = ("--missing", "0", "--mature", "0", "--no-drift", "--smallest-probability", "1e-9")
    assert command(logged / "log", *said, "--json") == 0
    told = json.loads(capsys.readouterr().out)["results"]
    given = {"missing": 0.0, "mature": 0.0, "drift": False, "smallest_probability": 1e-9}
    assert told == evaluate(DecisionLog.open(logged / "log"), "uniform", **given).to_pylist()
    assert command(logged / "log", *said) == 0
    out = capsys.readouterr().out
    for told in ("after 0 s", "one that does not change", "1e-09"):
        assert told in out


def test_durations_and_missing_rewards_are_read():
    assert [duration(text) for text in ("90s", "15m", "6h", "2d", "45", "1.5 h")] == [
        90, 900, 21600, 172800, 45, 5400
    ]  # fmt: skip
    assert [missing(text) for text in ("stop", "skip", "0", "-1.5")] == ["stop", "skip", 0.0, -1.5]
    for read, text in (
        (duration, "soon"),
        (duration, "-3s"),
        (duration, "5 weeks"),
        (missing, "nan"),
        (missing, "no"),
    ):
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
        assert command(tmp_path / name, "--json") == 2
        assert "seems to be ';' (say so with delimiter, on a command line with" in capsys.readouterr().err
        assert command(tmp_path / name, "--arms", 2, "--delimiter", ";", "--json") == 0
        assert json.loads(capsys.readouterr().out)["decisions"] == 40
    (tmp_path / "log.csv").write_text(lines.replace(";", "\t"))
    assert command(tmp_path / "log.csv", "--arms", 2, "--delimiter", "tab", "--json") == 0


def test_decisions_that_stand_in_a_log_twice_may_be_counted_once(tmp_path, capsys):
    rows = "".join(f"d{i % 30},{i % 2},0.5,1\n" for i in range(40))
    (tmp_path / "log.csv").write_text("decision_id,arm,probability,reward\n" + rows)
    assert command(tmp_path / "log.csv", "--arms", 2) == 2
    error = capsys.readouterr().err
    assert "row 30 has the decision_id 'd0' of row 0 again" in error
    assert "--distinct counts the first of each" in error
    assert command(tmp_path / "log.csv", "--arms", 2, "--distinct", "--json") == 0
    assert json.loads(capsys.readouterr().out)["decisions"] == 30


def test_a_diagnosis_tells_its_numbers_of_a_healthy_log_too(tmp_path, capsys):
    rng = np.random.default_rng(3)
    rows = {"arm": rng.integers(0, 2, 400), "reward": rng.random(400), "probability": np.full(400, 0.5)}
    DecisionLog.from_table({**rows, "probabilities": np.full((400, 2), 0.5)}).save(tmp_path / "log")
    assert command(tmp_path / "log", "--diagnose") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "note: uniform: 400 decisions are worth 400.0 of the target's own, largest weight 1," in out
    assert "mass without overlap 0" in out
    assert command(tmp_path / "log", "--diagnose", "--target", "arm:0", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["diagnosis"]
    assert (found["target"], found["n"], found["largest_weight"]) == ("arm 0", 400, 2.0)


def test_an_agent_that_is_not_there_is_named(silent, capsys):
    for target, reason in (("agent:nofile", "does not exist"), (f"agent:{silent}", "is a directory")):
        assert command(silent, "--target", target) == 2
        error = capsys.readouterr().err
        assert f"target '{target}' must name a file that agent.save wrote" in error
        assert reason in error
