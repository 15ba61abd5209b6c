"""Clicks as an experiment: its rules answer to the numbers they are about, and what is watched is true."""

import argparse
import dataclasses
import json
import os
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import linmed.cli.reproduce as command
from linmed.environments import Clicks, News
from linmed.paper import EXPERIMENTS
from linmed.paper.clicks import ClickExperiment, play, problems, run
from linmed.paper.clicks.measures import ClickFindings, ClickRatio
from linmed.paper.clicks.problems import (
    FINALISTS,
    GREEDY,
    GRID,
    IDS,
    LINEAR,
    LOW,
    MOST,
    OPTIMISM,
    OWN,
    PLAIN,
    PREVIEW,
    PROBLEMS,
    SQUARECB,
    told,
)
from linmed.paper.clicks.rules import claims
from linmed.paper.clicks.vowpal_wabbit import VowpalWabbit, rival, version_of
from linmed.paper.clicks.watching import EDGES, LIMIT, WATCHED, Attainable, Watched, deviations, worst
from linmed.paper.rules import claims as papers_claims
from linmed.policies import EpsilonGreedy, LinMED, LogisticTS, Policy, Uniform
from linmed.simulation import Results, Run, attainable, checkpoints, simulate

FEW = (0.1, 0.3)


def played(regret, best=1000.0, counts=None):
    """Findings with mean final regret(policy, key); policies share their luck, so intervals are narrow."""
    plan = ClickExperiment().plan("decisive", "text", trials=400)
    results = {}
    for setting in plan.settings:
        marks, runs = checkpoints(setting.horizon), {}
        for policy in setting.policies:
            trials = (counts or {}).get(policy.name, setting.most or 400)
            luck = 1.0 + 0.01 * np.random.default_rng(0).standard_normal(trials)
            curves = np.outer(luck * regret(policy.name, setting.key), marks / marks[-1])
            runs[policy.name] = Run(
                policy, np.arange(trials), curves, np.ones((trials, 2), dtype=np.int64), 1.0
            )
        results[setting.key] = Results(setting.environment, setting.horizon, 0, marks, runs)
    own = {f.name: getattr(plan, f.name) for f in dataclasses.fields(plan) if f.init}
    fair = {"expected": np.full((2, 11), 50.0), "variance": np.full((2, 11), 40.0)}
    watched = {name: {**fair, "played": np.full((2, 11), 52.0)} for name in WATCHED if "Wabbit" not in name}
    return ClickFindings(
        **{**own, "results": results},
        best={s.key: np.full(40, best) for s in plan.settings},
        watched=watched,
        micros={LINEAR: 8.0, OWN: 12.0},
        replayed=(("Uniform", "0.5 %"),),
    )


def verdicts(found, word):
    return [claim.judge(found).verdict for claim in claims(found) if word in claim.text]


def test_the_cells_are_those_that_were_announced():
    plan = ClickExperiment().plan("decisive", "text")
    settings = {setting.key: setting for setting in plan.settings}
    assert all(settings[name,].horizon == 4000 for name in PROBLEMS)
    assert [settings[name,].most for name in (PLAIN, IDS)] == [MOST, MOST]
    assert set(GRID) <= set(plan.names(IDS))
    assert not set(GRID) & set(plan.names(PLAIN))
    wrong = {policy.name: policy for policy in settings[LOW[0], "norm"].policies}
    true = wrong[told(OWN, "S")].norm_bound
    assert true == pytest.approx(np.sqrt(2) * 4.0)
    assert wrong[told(OPTIMISM, "3 S")].norm_bound == pytest.approx(3 * true)
    assert wrong[told(OWN, "S / 3")].norm_bound == pytest.approx(true / 3)
    assert any("Vowpal Wabbit was not played" in note for note in plan.notes)
    assert any("Open Bandit" in note for note in plan.notes)
    there = {(setting.key, policy.name) for setting in plan.settings for policy in setting.policies}
    stated = claims(plan)
    assert len({claim.text for claim in stated}) == len(stated)
    assert all(claim.cells <= there and claim.threshold == "ours" for claim in stated)
    assert papers_claims(plan) == []
    assert ClickExperiment.name not in EXPERIMENTS


def test_a_fifth_less_than_linmed_is_a_fifth():
    for own, expected in ((75.0, "holds"), (85.0, "fails")):
        found = played(lambda name, key, own=own: own if name == OWN else 100.0)
        assert verdicts(found, "told nothing, regrets a fifth less") == [expected]
    found = played(
        lambda name, key: 85.0 if name == OWN and key == (LOW[1],) else 75.0 if name == OWN else 100
    )
    assert verdicts(found, "told nothing, regrets a fifth less") == ["fails"], "both problems count"
    found = played(lambda name, key: 75.0 if name == told(OWN, "S") else 100.0)
    assert verdicts(found, "told the norm") == ["holds"]


def test_a_wrong_norm_must_stay_below_linmed_in_both_directions():
    for loser, expected in ((None, "holds"), ("3 S", "fails"), ("S / 3", "fails")):
        found = played(
            lambda name, key, loser=loser: 110.0 if name.endswith(f", {loser}") else
            90.0 if name.startswith(OWN) else 100.0
        )  # fmt: skip
        assert verdicts(found, "wrongly by three") == [expected]


def test_clicks_are_compared_with_the_best_of_those_that_were_played_most():
    # Of 1,000 clicks the own policy collects 600; the best finalist 560 or 590, one that was given up 900.
    for best, expected in ((440.0, "holds"), (410.0, "fails")):
        found = played(
            lambda name, key, best=best: 400.0 if name == OWN else 100.0 if name == GRID[0] else
            best if name == GRID[1] else 600.0,
            counts={name: PREVIEW for name in GRID if name != GRID[1]},
        )  # fmt: skip
        assert verdicts(found, "twentieth more clicks") == [expected]
        value = ClickRatio(OWN, GRID, (IDS,)).estimate(found).value
        assert value == pytest.approx(600 / (1000 - best), rel=0.02)


def test_greedy_earns_as_much_if_it_earns_nineteen_twentieths():
    for greedy, expected in ((410.0, "holds"), (450.0, "fails")):
        found = played(lambda name, key, greedy=greedy: greedy if name == GREEDY else 400.0)
        assert verdicts(found, "earns as much") == [expected]


def test_vowpal_wabbit_is_judged_where_it_was_played():
    found = played(lambda name, key: 1.0)
    assert verdicts(found, "Vowpal Wabbit") == []
    experiment = ClickExperiment()
    experiment.rivals = [VowpalWabbit(words, "9", "python", label=name) for name, words in SQUARECB.items()]
    plan = experiment.plan("decisive", "text")
    assert [claim.place for claim in claims(plan) if "Vowpal Wabbit" in claim.text] == [IDS]
    assert experiment.notes(None) == ClickExperiment(None, None).notes(None)[1:]


def test_plays_that_do_not_fit_what_was_said_are_called_so():
    found = played(lambda name, key: 1.0)
    assert verdicts(found, "calibrated") == ["holds"]
    wrong = {**found.watched[OWN], "played": np.full((2, 11), 70.0)}
    assert verdicts(dataclasses.replace(found, watched={**found.watched, OWN: wrong}), "calibrated") == [
        "fails"
    ]


def test_the_preview_chooses_the_finalists():
    order = {name: place for place, name in enumerate(reversed(GRID))}
    found = played(lambda name, key: float(order.get(name, 0)), counts=dict.fromkeys(GRID, PREVIEW))
    first = play.first_trials(found)
    assert {trials for (key, name), trials in first.items() if name in GRID} == {PREVIEW}
    assert {trials for (key, name), trials in first.items() if key == (IDS,) and name == OWN} == {MOST}
    assert play.finalists(found) == {((IDS,), name): MOST for name in GRID[-FINALISTS:]}


SMALL = Clicks(rate=0.1, norm=2.0, arms=4, changing=True)


@pytest.mark.parametrize(
    "policy", [LinMED(sigma=0.5), EpsilonGreedy(sigma=0.5), LogisticTS()], ids=lambda policy: policy.name
)
def test_stated_probabilities_are_those_of_the_plays(policy):
    # A false alarm in a hundred; the seed is fixed.
    counted = Watched(SMALL, 300, 3, tuple(range(6)), policy).run()
    assert np.isfinite(deviations(counted)).sum() >= 2
    assert worst(counted) < LIMIT
    np.testing.assert_allclose(counted["expected"].sum(), 6 * 300)
    assert counted["played"].sum() == 6 * 300


@dataclass(frozen=True)
class Boaster(Uniform):
    """Plays uniformly and says that the first arm has nine tenths."""

    def decide(self, state, arms, noise):
        choice = super().decide(state, arms, noise)
        said = np.log(np.broadcast_to([0.9, 0.04, 0.03, 0.03], choice.log_probabilities.shape))
        return choice._replace(log_probabilities=said)


def test_a_policy_that_says_something_else_is_found_out():
    scores = deviations(Watched(SMALL, 300, 3, (0, 1), Boaster()).run())
    assert scores[np.searchsorted(EDGES, 0.9)] < -LIMIT
    assert scores[np.searchsorted(EDGES, 0.04)] > LIMIT


def test_attainable_clicks_are_those_of_the_simulation():
    found = Attainable(SMALL, 50, 3, (0, 1, 2)).run()
    np.testing.assert_array_equal(found["attainable"], attainable(SMALL, 50, 3, seed=3))


# ---- the other interpreter

STAND_IN = """
__version__ = "0.stand-in"


class Workspace:
    '''Plays the arms it was rewarded for; the first feature's value says which arm that was.'''

    def __init__(self, words):
        assert words.startswith("--cb_explore_adf --some words")
        self.scores = {}

    def predict(self, lines):
        weights = [1.0 + 8.0 * self.scores.get(line.split("|")[1], 0.0) for line in lines]
        return [weight / sum(weights) for weight in weights]

    def learn(self, lines):
        (own,) = [line for line in lines if not line.startswith("|")]
        label, features = own.split("|")
        action, cost, chance = label.split(":")
        assert action == "0" and 0.0 < float(chance) <= 1.0
        self.scores[features] = self.scores.get(features, 0.0) + 1.0 - float(cost)
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """What stands for Vowpal Wabbit, which linmed is not installed with: the pipe and its order are ours."""
    (tmp_path / "vowpalwabbit.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return rival("VW", "--some words", sys.executable)


def test_a_policy_in_another_process_learns_what_it_played(stand_in):
    assert stand_in.version == "0.stand-in"
    assert "python" not in stand_in.to_dict()
    assert Policy.from_dict(stand_in.to_dict()) == stand_in
    state = stand_in.start(2, 3)
    arms = np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[0.5, 0.0, 0.0], [0.0, 0.0, 1.0]]])
    choice = stand_in.decide(state, arms, np.array([[0.1], [0.9]]))
    assert choice.arm.tolist() == [0, 1]
    later = stand_in.decide(state, arms, np.array([[0.1], [0.1]]))
    np.testing.assert_allclose(np.exp(later.log_probabilities), 0.5)
    # The first reward is of replica 1's first decision, arm 1; the second of its second, arm 0.
    stand_in.learn(state, choice.features[1:], np.array([1.0]), np.array([1]))
    stand_in.learn(state, later.features[1:], np.array([0.0]), np.array([1]))
    now = np.exp(stand_in.log_probabilities(state, arms))
    np.testing.assert_allclose(now, [[0.5, 0.5], [0.1, 0.9]])
    assert state.count.tolist() == [0, 2]
    process = state.process
    del state, choice, later
    process.wait(timeout=30)


def test_late_rewards_find_their_decisions(stand_in):
    late = News(articles=6, live=3, clicks_after=5, timeout=20)
    one = simulate([stand_in], late, 60, 3, seed=2, progress=False)
    two = simulate([stand_in], late, 60, 3, seed=2, progress=False, batch=1)
    np.testing.assert_array_equal(one.regret("VW"), two.regret("VW"))


def test_a_process_that_stops_says_why(stand_in, tmp_path):
    broken = dataclasses.replace(stand_in, arguments="--other words")
    state = broken.start(1, 2)
    with pytest.raises(RuntimeError, match="Vowpal Wabbit stopped: AssertionError"):
        broken.log_probabilities(state, np.eye(2)[None])


def test_an_interpreter_without_it_is_refused(tmp_path):
    assert rival("VW", "--squarecb", None) is None
    with pytest.raises(ValueError, match="cannot be run"):
        version_of(str(tmp_path / "python"))
    with pytest.raises(ValueError, match="has no Vowpal Wabbit: ModuleNotFoundError"):
        version_of(sys.executable)


@pytest.mark.skipif(
    not os.environ.get("LINMED_VOWPAL_WABBIT"), reason="LINMED_VOWPAL_WABBIT names no interpreter that has it"
)
def test_vowpal_wabbit_itself_learns_and_is_calibrated():
    policy = rival("VW", "--squarecb --gamma_scale 100", os.environ["LINMED_VOWPAL_WABBIT"])
    easy = Clicks(rate=0.5, norm=6.0, arms=4, changing=True)
    results = simulate([policy, Uniform()], easy, 400, 2, progress=False)
    assert results.final("VW").mean() < 0.7 * results.final("Uniform").mean()
    counted = Watched(easy, 200, 3, (0, 1), policy).run()
    assert worst(counted) < LIMIT


# ---- the report


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:  # four guesses of twenty-five
        patch.setattr(problems, "GUESSES", FEW)
        grid = tuple(problems.guessed(sigma, norm) for sigma in FEW for norm in FEW)
        for module in ("play", "rules", "figures"):
            patch.setattr(f"linmed.paper.clicks.{module}.GRID", grid)
        sizes = {"trials": 3, "horizon": 20, "workers": 1, "progress": False}
        yield run("decisive", tmp_path_factory.mktemp("clicks") / "out", **sizes)


def test_the_report_has_its_own_ledger_figures_and_rules(report):
    folder = report.path.parent
    ledger = json.loads((folder / "ledger.json").read_text())
    assert ledger["command"] == "linmed reproduce clicks --scale decisive --trials 3 --horizon 20 --seed 0"
    assert len(ledger["rules_digest"]) == 12
    names = {f"clicks-{part}" for part in ("regret", "norms", "news", "calibration")}
    assert {path.stem for path in folder.glob("figures/*.png")} == names
    assert {row["figure"] for row in ledger["claims"]} == names
    page = report.path.read_text()
    for words in (
        "Vowpal Wabbit was not played",
        "Calibration of propensities",
        "Expected clicks",
        "20 rounds",
    ):
        assert words in page
    assert "clicks/rules.py" in (folder / "ledger.md").read_text()
    assert not any(row.verdict == "fails" for row in report.ledger), "of 20 rounds nothing fails"


def test_smaller_scales_do_without_the_long_worlds_and_what_is_claimed_of_them(report, tmp_path):
    sizes = {"trials": 3, "horizon": 20, "workers": 1, "progress": False}
    small = run("paper", report.path.parent, **sizes)  # of what is there nothing is played again
    whole, part = ([row.claim for row in one.ledger] for one in (report, small))
    assert [claim for claim in whole if claim not in part] == [
        "With ids and nothing told, it collects a twentieth more clicks than LinMED with the best guess",
        "Greedy ridge regression earns as much on the news page without ids",
    ]
    assert not small.findings[0].has(IDS)


def call(*words):
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers(dest="command"))
    return command.run(parser.parse_args(["reproduce", *words]))


def test_the_command_keeps_it_apart_and_names_a_wrong_interpreter(tmp_path, capsys):
    assert call("clicks", "robustness", "--out", str(tmp_path / "new")) == 2
    assert "has a ledger of its own" in " ".join(capsys.readouterr().err.split())
    assert call("clicks", "--vowpal-wabbit", str(tmp_path / "no"), "--out", str(tmp_path / "new")) == 2
    assert "cannot be run" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "new").exists()


def test_the_command_runs_it(tmp_path, capsys, monkeypatch, report):
    asked = {}

    def ours(*words, **named):
        asked.update(named, scale=words[0], out=words[1])
        return report

    monkeypatch.setattr(command.clicks, "run", ours)
    assert call("clicks", "--scale", "paper", "--open-bandit", "there", "--out", str(tmp_path)) == 0
    assert (asked["scale"], asked["open_bandit"], asked["out"]) == ("paper", "there", str(tmp_path))
    assert "10 claims" in capsys.readouterr().out
