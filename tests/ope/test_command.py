"""`linmed ope`: what it prints, its JSON, its plot and its errors."""

import json

import numpy as np
import pytest

from linmed.agent import Agent
from linmed.cli import main
from linmed.ope import DecisionLog, evaluate
from linmed.policies.linmed import LinMED


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
    table = evaluate(DecisionLog.open(logged / "log"), ["uniform", 1], "dr", reward_range=(0, 1))
    assert printed["results"] == table.to_pylist()
    assert printed["waiting"] == 10
    assert any("10 of 120 decisions have no reward yet" in note for note in printed["notes"])


def test_the_table_and_the_plot(logged, capsys, tmp_path):
    code = command(
        logged / "log", "--target", "uniform", "--target", f"agent:{logged / 'agent'}", "--diagnose",
        "--plot", tmp_path / "plot.png",
    )  # fmt: skip
    out = capsys.readouterr().out
    assert code == 0
    assert "uniform" in out
    assert "LinMED-90" in out
    assert "any time" in out
    assert (tmp_path / "plot.png").stat().st_size > 1000


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
