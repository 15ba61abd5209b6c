"""Our experiment on forgetting: its rules answer to the numbers they are about, its worlds are as named."""

import argparse
import dataclasses
import json

import numpy as np
import pytest

import linmed.cli.reproduce as command
from linmed.environments import ChangeEvery, OneChange, Pricing, RandomWalk, UnitBall
from linmed.paper import EXPERIMENTS
from linmed.paper.drift import Drift, figures, problems, run
from linmed.paper.drift.problems import (
    FIXED,
    NEVER,
    OFTEN,
    ONCE,
    OURS,
    PRICES,
    STILL,
    WALK,
    fixed,
    worlds,
)
from linmed.paper.drift.rules import claims
from linmed.paper.rules import claims as papers_claims
from linmed.policies import Forgetful, LinMED
from linmed.simulation import Results, Run, checkpoints
from linmed.simulation.trials import TrialBatch


def played(regret, trials=1_000):
    """Findings with mean final regret(policy, world); policies share their luck, so intervals are narrow."""
    plan = Drift().plan("paper", "text", trials=trials)
    luck = 1.0 + 0.01 * np.random.default_rng(0).standard_normal(trials)
    results = {}
    for setting in plan.settings:
        marks = checkpoints(setting.horizon)
        runs = {
            policy.name: Run(
                policy, np.arange(trials),
                np.outer(luck * regret(policy.name, setting.key[0]), marks / marks[-1]),
                np.ones((trials, 2), dtype=np.int64), 1.0,
            )
            for policy in setting.policies
        }  # fmt: skip
        results[setting.key] = Results(setting.environment, setting.horizon, 0, marks, runs)
    return dataclasses.replace(plan, results=results)


def verdicts(found, world):
    return [claim.judge(found).verdict for claim in claims(found) if claim.place == world]


def test_worlds_and_rivals_are_those_that_the_rules_name():
    found = worlds(3000)
    assert found[STILL] == UnitBall(arms=10, dim=5, sigma=0.3)
    assert found[ONCE] == OneChange(arms=10, dim=5, sigma=0.3, at=1500)
    assert found[OFTEN] == ChangeEvery(arms=10, dim=5, sigma=0.3, every=500)
    assert found[WALK] == RandomWalk(arms=10, dim=5, sigma=0.3, step=0.01)
    for setting in Drift().plan("paper", "text").settings:
        policies = {policy.name: policy for policy in setting.policies}
        assert policies[OURS].half_lives == (np.inf, 1000.0, 200.0, 50.0)
        assert isinstance(policies[NEVER], LinMED)
        for half_life in (1000.0, 200.0, 50.0):
            assert policies[fixed(half_life)].half_lives == (half_life,)
            assert policies[fixed(half_life)].base == policies[OURS].base
        told = (0.1, 2.0) if isinstance(setting.environment, Pricing) else (0.3, 1.0)
        assert (policies[NEVER].sigma, policies[NEVER].norm_bound) == told


def test_claims_are_about_what_is_played_and_all_borders_are_ours():
    plan = Drift().plan("quick", "text")
    there = {(setting.key, policy.name) for setting in plan.settings for policy in setting.policies}
    stated = claims(plan)
    assert len({claim.text for claim in stated}) == len(stated) == 4
    assert all(claim.cells <= there and claim.threshold == "ours" for claim in stated)
    assert papers_claims(plan) == []
    assert Drift.name not in EXPERIMENTS


@pytest.mark.parametrize(
    ("world", "most"),
    [(STILL, 1.2), (ONCE, 0.7), (OFTEN, 1.1), (WALK, 1.1)],
    ids=["still", "once", "often", "walk"],
)
def test_each_border_is_where_the_rule_says(world, most):
    for factor, expected in ((most - 0.05, "holds"), (most + 0.05, "fails")):
        found = played(lambda name, key, f=factor: 100.0 * f if name == OURS else 100.0)
        assert verdicts(found, world) == [expected]


@pytest.mark.parametrize("world", [ONCE, OFTEN, WALK])
@pytest.mark.parametrize("best", FIXED)
def test_one_fixed_half_life_that_is_better_is_enough_to_fail(world, best):
    found = played(lambda name, key: 30.0 if name == best else 60.0 if name == OURS else 200.0)
    assert verdicts(found, world) == ["fails"]


def test_the_table_marks_the_smallest_regret_and_tells_before_from_after():
    found = played(lambda name, key: 5.0 if name == "H = 200" and key == WALK else 10.0)
    finals, after = found.experiment.numbers(found)
    row = [cells[0] for cells in finals.rows].index("H = 200")
    assert (row, 1 + [setting.key[0] for setting in found.settings].index(WALK)) in finals.best
    assert after.columns[1:] == [f"{ONCE}: before", f"{ONCE}: after", f"{PRICES}: before", f"{PRICES}: after"]
    assert all(
        cells[1].startswith(("4.9", "5.0")) for cells in after.rows
    )  # half of it by half of the rounds


def test_weights_are_traced_in_the_trials_that_are_simulated():
    plan = Drift().plan("paper", "text", horizon=1200)
    setting = plan.setting(ONCE)
    policy = next(policy for policy in setting.policies if policy.name == OURS)
    rounds, weights = figures.trace(policy, setting, 3, 4)
    assert (rounds[0], rounds[-1]) == (0, 1200)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_allclose(weights[0], 0.25)
    assert len(rounds) == figures.STEPS + 1
    # The same trials played at once, as the simulation does, end with the same weights.
    batch = TrialBatch(policy, setting.environment, 1200, 3, (0, 1, 2, 3))
    for _, size, noise in batch.blocks():
        arms, means, errors = batch.environments.between(0, size)
        played = np.empty((size, 4), dtype=np.int64)
        policy.play_with_errors(batch.state, arms, means, errors, noise[:size], played)
    np.testing.assert_array_equal(batch.state.weight.mean(axis=0), weights[-1])


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    def few(sigma, norm_bound):
        """Two rules of eleven: the others take long to compile."""
        own = LinMED(sigma=sigma, norm_bound=norm_bound, confidence="mixture")
        return tuple(Forgetful(own, half_lives=(np.inf, 1000, 200, 50), label=name) for name in figures.LINES)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problems, "line_up", few)
        sizes = {"trials": 3, "horizon": 60, "workers": 1, "progress": False}
        yield run(out=tmp_path_factory.mktemp("drift") / "out", **sizes)


def test_the_report_has_its_own_ledger_figures_and_rules(report):
    folder = report.path.parent
    ledger = json.loads((folder / "ledger.json").read_text(encoding="utf-8"))
    assert ledger["command"] == "linmed reproduce drift --scale quick --trials 3 --horizon 60 --seed 0"
    assert len(ledger["rules_digest"]) == 12
    page = report.path.read_text(encoding="utf-8")
    for row in report.ledger:
        assert f'id="figure-{row.figure}"' in page
        assert (folder / "figures" / f"{row.figure}.png").stat().st_size > 0
    assert (folder / "figures" / "drift-memories.png").stat().st_size > 0
    assert "linmed/paper/drift/rules.py" in (folder / "ledger.md").read_text(encoding="utf-8")
    assert "<title>LinMED: what forgetting costs and gains" in page


def test_the_command_keeps_it_apart(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers(dest="command"))
    for words, message in (
        (["drift", "robustness"], "ledger of its own"),
        (["drift", "--variant", "both"], "leave"),
    ):
        asked = parser.parse_args(["reproduce", *words, "--out", str(tmp_path / "new")])
        assert command.run(asked) == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "new").exists()
