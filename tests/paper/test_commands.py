"""The command lines: reproduce, simulate and data."""

import numpy as np
import pytest

from linmed.cli import main, reproduce, simulate
from linmed.cli.simulate import environment_makers
from linmed.environments import FixedArms, MovieLens, UnitBall
from linmed.policies import LinMED, LinTS
from linmed.policies.table import policy_makers
from linmed.registry import parse


def test_reproduce_writes_a_report_and_says_where(tmp_path, capsys):
    out = tmp_path / "out"
    words = ("--out", str(out), "--trials", "2", "--horizon", "30", "--workers", "1")
    assert main(["reproduce", "large-gap", *words]) == 0
    printed = capsys.readouterr().out
    assert str(out / "report.html") in printed
    assert "claims" in printed
    command = "linmed reproduce large-gap --scale quick --variant text --trials 2 --horizon 30 --seed 0"
    assert command in (out / "report.html").read_text(encoding="utf-8")


def test_reproduce_suggests_the_nearest_experiment(tmp_path, capsys):
    assert main(["reproduce", "unit-ball-arm", "--out", str(tmp_path / "new")]) == 2
    assert "unit-ball-arms" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_reproduce_refuses_a_foreign_directory(tmp_path, capsys):
    (tmp_path / "notes").write_text("mine")
    assert main(["reproduce", "large-gap", "--out", str(tmp_path)]) == 2
    assert "left untouched" in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "notes").read_text() == "mine"


def test_reproduce_ends_with_130_after_an_interrupt(tmp_path, capsys, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "reproduce", interrupt)
    assert main(["reproduce", "large-gap", "--out", str(tmp_path)]) == 130
    assert "what was finished is kept" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("--trials", "0"), ("--horizon", "-3"), ("--scale", "vast"), ("--workers", "x")]
)
def test_reproduce_refuses_wrong_options(words):
    with pytest.raises(SystemExit):
        main(["reproduce", *words])


def test_names_with_parameters_become_policies_and_problems():
    assert parse("policy", "LinMED-50", policy_makers()) == LinMED(alpha_emp=0.5)
    assert parse("policy", 'LinTS(scale="bayes", sigma=0.5)', policy_makers()) == LinTS(
        scale="bayes", sigma=0.5
    )
    assert parse("policy", "LinMED-99(delta=0.1)", policy_makers()).delta == 0.1
    assert parse("problem", "UnitBall(arms=50, dim=10)", environment_makers()) == UnitBall(arms=50, dim=10)
    fixed = parse("problem", "FixedArms(arms=[[1, 0], [0, 1]], theta=[1, 0])", environment_makers())
    assert fixed == FixedArms(np.eye(2), [1, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LinMD", "did you mean 'LinMED'"),
        ("LinMED(sgima=1)", "has no parameter 'sgima'"),
        ("LinMED-90(sgima=1)", "has no parameter 'sgima'"),
        ("LinMED(0.5)", "name=value"),
        ("LinMED(sigma=open('x'))", "name=value"),
        ("LinMED(sigma=)", "name=value"),
        ("LinMED(**{'sigma': 1})", "name=value"),
        ("LinMED sigma=1", "name with parameters in brackets"),
        ("LinMED(sigma=-1)", "sigma must be positive"),
    ],
)
def test_a_wrong_policy_is_explained(text, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        parse("policy", text, policy_makers())


def test_simulate_prints_the_policies_best_first(tmp_path, capsys):
    words = ("OFUL", "Uniform", "--on", "LargeGap", "--horizon", "200", "--trials", "4")
    plot = tmp_path / "regret.svg"
    assert main(["simulate", *words, "--delay", "2", "--plot", str(plot)]) == 0
    printed = capsys.readouterr().out
    assert printed.index("OFUL") < printed.index("Uniform")
    assert plot.read_text().startswith("<?xml")


def test_simulate_explains_what_is_wrong(capsys):
    assert main(["simulate", "OFUL", "--on", "LargeGapp"]) == 2
    assert "did you mean 'LargeGap'" in capsys.readouterr().err
    assert main(["simulate", "OFUL", "--on", "LargeGap", "--trials", "0"]) == 2
    assert "trials must be at least 1" in capsys.readouterr().err


def test_data_says_why_a_download_failed(tmp_path, capsys, monkeypatch):
    def offline(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(simulate, "download", offline)
    assert main(["data", "movielens", "--out", str(tmp_path)]) == 2
    assert "no network" in capsys.readouterr().err


def test_data_keeps_what_is_there(tmp_path, capsys):
    directory = tmp_path / "ml-100k"
    directory.mkdir()
    films = [
        "|".join([str(i), f"film {i}", "", "", "", *[str((i >> j) % 2) for j in range(19)]])
        for i in range(12)
    ]
    users = [f"{i}|{20 + i}|{'MF'[i % 2]}|job{i % 3}|{i:05d}" for i in range(8)]
    (directory / "u.item").write_text("\n".join(films), encoding="latin-1")
    (directory / "u.user").write_text("\n".join(users), encoding="latin-1")
    assert main(["data", "movielens", "--out", str(tmp_path)]) == 0
    assert str(directory) in capsys.readouterr().out
    assert MovieLens(path=directory).source == "ml-100k"
