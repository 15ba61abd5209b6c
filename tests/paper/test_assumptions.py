"""What the text leaves open: every value is run, and the tables and the figure say what it does."""

import numpy as np
import pytest

from linmed.paper import EXPERIMENTS
from linmed.paper.arm_count import ARM_COUNTS
from linmed.paper.drawing import drawings
from linmed.paper.ledger import claims
from linmed.paper.output import Output
from linmed.paper.pool import workers_of
from linmed.paper.statistics import growth, resampled
from linmed.paper.unstated_choices import DELTAS, LARGE_GAP, SWEEPS, exponents
from linmed.report.progress import Bar
from linmed.simulation.trials import Task

ASSUMPTIONS = EXPERIMENTS["assumptions"]


def found_in(out, workers=1, trials=20, horizon=50):
    plan = ASSUMPTIONS.plan("quick", "text", horizon, trials)
    with workers_of(workers, None) as pool, Bar(False, "rounds", total=1) as bar:
        return ASSUMPTIONS.run(plan, Output(out), pool, bar)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return found_in(tmp_path_factory.mktemp("assumptions"))


def test_it_comes_last_and_claims_nothing(small):
    assert list(EXPERIMENTS)[-1] == "assumptions"
    assert claims(small) == []


def test_every_value_is_given_to_every_policy():
    settings = {setting.key: setting for setting in ASSUMPTIONS.settings("text", 100_000)}
    for sweep in SWEEPS:
        for value, given in sweep.values.items():
            setting = settings[sweep.key(value)]
            assert [policy.name for policy in setting.policies] == list(sweep.names)
            assert {getattr(policy, sweep.parameter) for policy in setting.policies} == {given}
            assert {policy.sigma for policy in setting.policies} == {setting.sigma}
            assert setting.horizon == sweep.longest
    assert set(DELTAS.values()) == {0.001, 0.01, 0.1, None}


def test_the_defaults_are_what_the_other_experiments_have():
    usual = {policy.name: policy for policy in EXPERIMENTS["large-gap"].settings("text", 10_000)[0].policies}
    settings = {setting.key: setting for setting in ASSUMPTIONS.settings("text", 10_000)}
    for sweep in SWEEPS:
        if sweep.problem == LARGE_GAP:
            for policy in settings[sweep.key(sweep.default)].policies:
                assert policy == usual[policy.name]


def test_as_run_has_the_public_codes_policies():
    freq = ASSUMPTIONS.settings("as-run", 100)[0].policies[1]
    assert (freq.name, freq.scale, freq.delta) == ("LinTS-Freq", "squared-radius", 0.001)


def test_tables_tell_the_regret_by_value_and_the_exponent_by_trials(small):
    *sweeps, trials = ASSUMPTIONS.numbers(small)
    for sweep, table in zip(SWEEPS, sweeps, strict=True):
        assert [row[0] for row in table.rows] == list(sweep.names)
        taken = table.columns.index(f"{sweep.symbol} = {sweep.default} (taken)")
        for row in table.rows:
            assert len(row) == len(table.columns)
            assert [("×" in cell) for cell in row[1:]] == [c != taken for c in range(1, len(row))]
    assert [row[0] for row in trials.rows] == ["the first 10", "all 20", "each 10 of them, 2 times"]


def test_exponents_are_those_of_the_trials_named(small):
    few, every, groups = exponents(small)
    finals = [small.final("LinMED-99", "K", K) for K in ARM_COUNTS]
    assert every.value == resampled(growth(ARM_COUNTS), *finals).value
    assert few.value == groups[0] == resampled(growth(ARM_COUNTS), *(final[:10] for final in finals)).value
    assert (few.trials, every.trials, len(groups)) == (10, 20, 2)


def test_the_figure_has_a_dot_for_every_policy_and_value(small):
    (drawing,) = drawings(small)
    drawn = sum(line.get_marker() != "None" for ax in drawing.figure.axes for line in ax.get_lines())
    assert drawn == sum(len(sweep.names) * len(sweep.values) for sweep in SWEEPS)


def test_one_trial_makes_tables_and_a_figure(tmp_path):
    single = found_in(tmp_path, trials=1)
    assert len(list(ASSUMPTIONS.numbers(single))) == len(SWEEPS) + 1
    assert drawings(single)[0].png().startswith(b"\x89PNG")


@pytest.mark.identity
def test_processes_give_the_same_regret_and_a_second_run_computes_nothing(small, tmp_path, monkeypatch):
    several = found_in(tmp_path, workers=2)
    monkeypatch.setattr(Task, "run", None)
    again = found_in(tmp_path)
    for found in (several, again):
        for setting in small.settings:
            for name in small.names(*setting.key):
                np.testing.assert_array_equal(
                    found.curves(name, *setting.key), small.curves(name, *setting.key), err_msg=name
                )
