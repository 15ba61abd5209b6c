"""Our own experiment: its rules answer to the numbers they are about, and its report stands by itself."""

import argparse
import dataclasses
import json

import numpy as np
import pytest

import linmed.cli.reproduce as command
from linmed.paper import EXPERIMENTS
from linmed.paper.robustness import Robustness, figures, problems, run
from linmed.paper.robustness.problems import BALL, EXACT, GAP, GUESSES, ONE, ORACLE, RULES, named, sets
from linmed.paper.robustness.rules import claims
from linmed.paper.rules import claims as papers_claims
from linmed.simulation import Results, Run, checkpoints

FEW = ("LinMED-90", "OFUL", "LinTS-Freq")


def played(regret, trials=1_000):
    """Findings with mean final regret(policy, key); policies share their luck, so intervals are narrow."""
    plan = Robustness().plan("paper", "text", trials=trials)
    luck = 1.0 + 0.01 * np.random.default_rng(0).standard_normal(trials)
    results = {}
    for setting in plan.settings:
        marks = checkpoints(setting.horizon)
        runs = {
            policy.name: Run(
                policy, np.arange(trials),
                np.outer(luck * regret(policy.name, setting.key), marks / marks[-1]),
                np.ones((trials, 2), dtype=np.int64), 1.0,
            )
            for policy in setting.policies
        }  # fmt: skip
        results[setting.key] = Results(setting.environment, setting.horizon, 0, marks, runs)
    return dataclasses.replace(plan, results=results)


def verdicts(found, word=""):
    return [claim.judge(found).verdict for claim in claims(found) if word in claim.text]


def test_every_rule_meets_every_guess_with_every_set_that_depends_on_it():
    settings = {setting.key: setting for setting in Robustness().plan("quick", "text").settings}
    for problem in (GAP, BALL):
        for guess in GUESSES:
            names = [policy.name for policy in settings[problem, guess].policies]
            assert names == [named(rule, chosen) for rule in RULES for chosen in sets(guess)]
    over = {p.name: p for p in settings[BALL, "σ × 10"].policies}
    assert over["OFUL, empirical"].sigma == pytest.approx(1.0)
    assert over["OFUL, empirical"].confidence == "empirical"
    small = {p.name: p for p in settings[GAP, "S / 10"].policies}
    assert (small["RandUCB, σ unknown"].sigma, small["RandUCB, σ unknown"].norm_bound) == ("unknown", 0.1)
    exact = {p.name: p for p in settings[GAP, EXACT].policies}
    assert exact["LinMED-99, ridge learned"].ridge == "learned"
    assert exact["LinMED-99, ridge learned"].alpha_emp == 0.99


def test_claims_are_about_what_is_played_and_all_borders_are_ours():
    plan = Robustness().plan("quick", "text")
    there = {(setting.key, policy.name) for setting in plan.settings for policy in setting.policies}
    stated = claims(plan)
    assert len({claim.text for claim in stated}) == len(stated)
    assert all(claim.cells <= there and claim.threshold == "ours" for claim in stated)
    assert papers_claims(plan) == []
    assert Robustness.name not in EXPERIMENTS


def test_what_costs_a_quarter_more_holds_and_what_costs_more_fails():
    for factor, expected in ((1.2, "holds"), (1.3, "fails")):
        found = played(
            lambda name, key, f=factor: 10.0 if name == ORACLE else 100.0 if name == ONE else 10 * f
        )
        assert verdicts(found, "costs at most a quarter more") == [expected] * 4


def test_a_third_of_what_a_wrong_guess_costs_is_a_third():
    for own, expected in ((3.0, "holds"), (4.0, "fails")):
        found = played(lambda name, key, own=own: 10.0 if name == ONE else own)
        assert verdicts(found, "a third of what") == [expected]


def test_mixture_may_cost_no_more_than_the_papers_set():
    for factor, expected in ((1.0, "holds"), (1.1, "fails")):
        found = played(lambda name, key, f=factor: f if name.startswith("mixture") else 1.0)
        assert verdicts(found, "mixture set") == [expected]


def test_wrong_guesses_are_compared_by_their_factors():
    def regret(name, key, hurt):
        wrong = key[1] == "σ × 10" and name.endswith("paper")
        return hurt if wrong and name.startswith("LinMED-90") else 5.0 if wrong else 1.0

    assert verdicts(played(lambda *where: regret(*where, 4.0)), "hurts LinMED-90 less") == ["holds"] * 2
    assert verdicts(played(lambda *where: regret(*where, 6.0)), "hurts LinMED-90 less") == ["fails"] * 2
    assert verdicts(played(lambda *where: regret(*where, 4.0)), "empirical set mends") == ["holds"] * 2


def test_unknown_must_beat_each_of_the_four_wrong_guesses():
    def regret(name, key, loser):
        return 1.0 if "unknown" in name else 0.5 if key[1] == loser else 2.0

    word = "better than a guess wrong by ten"
    assert verdicts(played(lambda *where: regret(*where, None)), word) == ["holds"] * 2
    for guess in ("σ × 10", "σ / 10", "S × 10", "S / 10"):
        assert verdicts(played(lambda *where, g=guess: regret(*where, g)), word) == ["fails"] * 2


def test_figures_show_factors_to_the_same_rule_told_the_truth():
    found = played(lambda name, key: 7.0 if name == "OFUL, paper" and key == (BALL, "σ × 10") else 2.0)
    gap, ball, levels = found.experiment.drawings(found)
    cells = [text.get_text() for text in ball.figure.axes[0].texts]
    assert cells.count("3.50") == 1
    assert cells.count("1.00") == len(RULES) * (sum(len(sets(guess)) for guess in GUESSES) - 1) - 1
    assert "3.50" not in [text.get_text() for text in gap.figure.axes[0].texts]
    assert [ax.get_title().split(",")[0] for ax in levels.figure.axes] == ["large gap", "unit ball"]
    assert {claim.figure for claim in claims(found)} == {drawing.name for drawing in (gap, ball, levels)}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:  # three rules of nine: the others take long to compile
        patch.setattr(problems, "RULES", FEW)
        patch.setattr(figures, "RULES", FEW)
        sizes = {"trials": 3, "horizon": 20, "workers": 1, "progress": False}
        yield run(out=tmp_path_factory.mktemp("robustness") / "out", **sizes)


def test_the_report_has_its_own_ledger_figures_and_rules(report):
    folder = report.path.parent
    ledger = json.loads((folder / "ledger.json").read_text(encoding="utf-8"))
    assert [row["claim"] for row in ledger["claims"]] == [row.claim for row in report.ledger]
    assert ledger["command"] == "linmed reproduce robustness --scale quick --trials 3 --horizon 20 --seed 0"
    assert len(ledger["rules_digest"]) == 12
    page = report.path.read_text(encoding="utf-8")
    for row in report.ledger:
        assert f'id="figure-{row.figure}"' in page
        assert (folder / "figures" / f"{row.figure}.png").stat().st_size > 0
        assert row.claim in (folder / "ledger.md").read_text(encoding="utf-8")
    assert "no rule here judges the paper" in page
    assert not any(row.verdict == "fails" for row in report.ledger), "of 20 rounds nothing fails"


def call(*words):
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers(dest="command"))
    return command.run(parser.parse_args(["reproduce", *words]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("robustness", "large-gap"), "has a ledger of its own"),
        (("robustness", "--variant", "both"), "leave --variant out"),
    ],
)
def test_the_command_keeps_it_apart(tmp_path, capsys, words, message):
    assert call(*words, "--out", str(tmp_path / "new")) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "new").exists()


def test_the_command_runs_it(tmp_path, capsys, monkeypatch, report):
    asked = {}

    def ours(*words, **named):
        asked.update(named, scale=words[0], out=words[1])
        return report

    monkeypatch.setattr(command.robustness, "run", ours)
    assert call("robustness", "--scale", "paper", "--seed", "4", "--out", str(tmp_path)) == 0
    assert (asked["scale"], asked["seed"], asked["out"]) == ("paper", 4, str(tmp_path))
    assert "12 claims" in capsys.readouterr().out
