"""The studies in benchmarks/ measure what they say: coverage of the sets, and what may be left untold."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from linmed.environments import Delayed, FixedArms, News, UnitBall
from linmed.policies import LinMED

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def module(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


coverage, defaults = module("confidence_coverage"), module("defaults")


def test_distances_are_those_of_the_whole_matrix():
    policy, rng = LinMED(norm_bound=2.0), np.random.default_rng(0)
    state = policy.start(4, 3)
    for _ in range(10):
        policy.learn(state, rng.standard_normal((4, 3)), rng.standard_normal(4), np.arange(4))
    theta = rng.standard_normal((4, 3))
    V = np.linalg.inv(state.inverse)
    error = theta - state.theta
    np.testing.assert_allclose(
        coverage.distances(policy.estimate(state), theta), np.sqrt(np.einsum("ri,rij,rj->r", error, V, error))
    )


def test_a_set_that_is_too_small_is_found_out_and_one_that_holds_is_not(monkeypatch):
    # σ told a third of what it is. The paper's set, left in 1 of 2,000 logs or less, is left in one of 40
    # with probability 0.02 at most.
    monkeypatch.setitem(coverage.SETS, "too small", {"sigma": 1 / 3})
    played = {
        name: coverage.play(coverage.Cell(name, "gaussian", 200, True), seed=0, logs=40)
        for name in ("paper", "too small", "σ and S unknown")
    }
    assert played["paper"].left == 0
    assert played["too small"].left > 20
    assert played["paper"].infinite == 0.0 < played["σ and S unknown"].infinite < 0.2


def test_coverage_is_promised_where_it_is_proved():
    promised = {(c.confidence, c.noise) for c in coverage.cells(10, 10) if c.proved}
    assert ("σ unknown", "gaussian") in promised
    assert ("σ unknown, strict", "signs") in promised
    assert ("mixture", "uniform") in promised
    assert not {("σ unknown", "signs"), ("σ unknown, ridge learned", "gaussian")} & promised
    assert not any(noise == "student-t" for _, noise in promised)


def test_the_best_guess_is_chosen_on_one_half_and_judged_on_the_other(monkeypatch, tmp_path):
    a, b = (LinMED(sigma=s, norm_bound=1.0, label=f"σ = {s}, S = 1.0") for s in (0.1, 1.0))
    monkeypatch.setattr(defaults, "GRID", [a, b])
    finals = {
        a.name: [1.0, 1.0, 9.0, 9.0],
        b.name: [2.0, 2.0, 2.0, 2.0],
        defaults.NOTHING.name: [0.0, 0.0, 10.0, 12.0],
        defaults.PROVED.name: [0.0, 0.0, 18.0, 18.0],
    }

    class Results:
        names = tuple(finals)

        def final(self, name):
            return np.array(finals[name])

    monkeypatch.setattr(defaults, "simulate", lambda *args, **kwargs: Results())
    cell = defaults.Cell("toy", "gaussian", UnitBall(), 10, 4)
    found = defaults.play(cell, 0, str(tmp_path))
    assert (found.best, found.oracle, found.nothing) == (a.name, 9.0, 11.0)
    assert (found.proved, found.truth) == (18.0, 2.0)
    assert found.within
    # own − ratio·other is ∓1: its standard error over two trials is 1, divided by 9.
    assert found.error == pytest.approx(1 / 9)
    assert "| σ = 0.1, S = 1.0 | 9 | 2 | 11 | 18 | 1.22 ± 0.11 | 5.50 |" in defaults.line(found)
    assert not found._replace(nothing=12.0).within
    news = found._replace(cell=cell._replace(environment=News()), oracle=100.0)
    assert news._replace(nothing=96.0).within
    assert not news._replace(nothing=94.0).within


def test_every_problem_meets_every_law_and_lists_its_best_arm_last():
    cells = list(defaults.cells(4, 4, 100))
    assert len(cells) == 8 * 6 + 2
    assert {cell.law for cell in cells} == {*defaults.LAWS, defaults.LATE}
    for cell in cells:
        inner = cell.environment.env if isinstance(cell.environment, Delayed) else cell.environment
        if isinstance(inner, FixedArms):
            means = np.array(inner.arms) @ np.array(inner.theta)
            assert means.argmax() == len(means) - 1
        assert defaults.truth(cell.environment) in {policy.name for policy in defaults.GRID}
