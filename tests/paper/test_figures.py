"""Figures of regret: the paper's axes, and numbers of which one trial makes the mean."""

import dataclasses

import numpy as np
import pytest

from linmed.paper import EXPERIMENTS
from linmed.paper.drawing import drawings, interval
from linmed.paper.large_gap import FAR
from linmed.paper.roster import MATCHED
from linmed.report.figures import POLICY
from linmed.simulation import Results, Run, checkpoints


def panels(found, name):
    """The axes of a figure."""
    (drawing,) = (drawing for drawing in drawings(found) if drawing.name == name)
    return drawing.figure.axes


def heavy(name="end-of-optimism"):
    """An experiment after the paper's rounds, where one trial in ten of OFUL is stuck."""
    plan = EXPERIMENTS[name].plan("paper", "text", trials=10)
    results = {}
    for setting in plan.settings:
        marks = checkpoints(setting.horizon)
        runs = {}
        for policy in setting.policies:
            regret = np.tile(10.0 * np.log1p(marks), (10, 1)) * np.linspace(0.9, 1.1, 10)[:, None]
            if policy.name == "OFUL":
                regret[3] = 0.5 * marks
            pulls = np.ones((10, 3), dtype=np.int64)
            runs[policy.name] = Run(policy, np.arange(10), regret, pulls, 0.0)
        results[setting.key] = Results(setting.environment, setting.horizon, 0, marks, runs)
    return dataclasses.replace(plan, results=results)


def test_regret_is_drawn_on_the_papers_linear_axes():
    gap, optimism = heavy("large-gap"), heavy()
    for found, count in ((gap, 2), (optimism, 4)):
        axes = panels(found, found.experiment.name)
        assert [(ax.get_xscale(), ax.get_yscale()) for ax in axes] == [("linear", "linear")] * count
    left, right = panels(gap, "large-gap")
    assert {line.get_label() for line in left.lines} >= set(FAR)
    assert not {line.get_label() for line in right.lines} & set(FAR)
    assert {ax.get_yscale() for ax in panels(optimism, "end-of-optimism-1-log")} == {"log"}


def test_a_mean_made_by_one_stuck_trial_is_shown_with_its_median_and_without_a_band():
    found = heavy()
    ax = panels(found, "end-of-optimism")[0]
    thin = [line for line in ax.lines if line.get_linewidth() < 1.0]
    assert [line.get_color() for line in thin] == [POLICY["OFUL"].light]
    assert len(ax.collections) == len(found.names(0.005, MATCHED)) - 1
    (note,) = ax.texts
    assert "OFUL 10 %" in note.get_text()


def test_tables_tell_medians_and_stuck_trials_with_their_interval():
    means, medians, stuck = EXPERIMENTS["end-of-optimism"].numbers(heavy())
    first = [list(numbers.table.to_pylist()[0].values()) for numbers in (means, medians, stuck)]
    assert [row[0] for row in first] == ["OFUL"] * 3
    assert float(first[0][1].split("\u00a0")[0].replace(",", "")) > 40_000
    assert float(first[1][1]) == pytest.approx(10 * np.log1p(1e6), rel=0.05)
    assert first[2][1] == "10.0 % (0.3 to 44.5 %)"


def test_bands_are_as_wide_as_so_few_trials_make_them_and_positive_on_logarithmic_axes():
    low, high = interval(np.array([5.0]), np.array([1.0]), False, trials=10)
    assert (high - low)[0] == pytest.approx(2 * 2.262, rel=1e-3)
    low, high = interval(np.array([0.0, 1.0, 5.0]), np.array([0.0, 2.0, 0.1]), True, trials=20)
    assert (low[1:] > 0).all()
    assert (high >= low).all()
    assert low[0] == high[0] == 0.0
