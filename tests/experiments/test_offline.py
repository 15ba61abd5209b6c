"""Offline evaluation: the counting trick, the published means, scores that do not depend on batches."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from linmed.experiments.offline import (
    LINMED_EXACT,
    LINTS_EXACT,
    ORACLE,
    SAMPLES,
    Logs,
    floor_column,
    plus_one_column,
)
from linmed.experiments.statistics import mean
from linmed.simulation import Store, StoreWarning
from linmed.simulation.engine import compute


@pytest.fixture(scope="module")
def as_run():
    return Logs.of("as-run", 1_000, seed=0, trials=400).run()


def test_the_published_means_come_out_as_run(as_run):
    """Within 3.5 standard errors of 400 trials; five such checks raise a false alarm in one seed of 400."""
    expected = {1_000: 0.906, 10_000: 0.819, 100_000: 0.799}
    for M in SAMPLES:
        estimate = mean(as_run[floor_column(M)])
        assert abs(estimate.value - expected[M]) < 3.5 * estimate.error
    for column in (LINMED_EXACT, LINTS_EXACT):
        estimate = mean(as_run[column])
        assert abs(estimate.value - ORACLE) < 3.5 * estimate.error


def test_the_bias_is_the_floors_not_the_policys(as_run):
    bias = mean(as_run[floor_column(1_000)] - as_run[LINTS_EXACT])  # paired: the same decisions
    assert bias.above(0.03) == "holds"
    assert mean(as_run[plus_one_column(1_000)] - as_run[LINTS_EXACT]).below(0.0) == "holds"


def test_the_published_spread_is_a_variance(as_run):
    spread = as_run[floor_column(1_000)].std()
    assert spread > 0.2
    assert spread**2 == pytest.approx(0.099, abs=0.04)


def test_the_texts_noise_shows_no_such_bias():
    text = Logs.of("text", 1_000, seed=0, trials=100).run()
    assert abs(mean(text[floor_column(1_000)]).value - ORACLE) < 0.03


@pytest.mark.identity
def test_a_score_depends_on_its_trial_alone():
    job = Logs.of("as-run", 30, seed=5, trials=6)
    whole = job.run()
    parts = [replace(job, trials=trials).run() for trials in ((0, 1, 2), (3,), (4, 5))]
    for column in whole:
        if column != "seconds":
            np.testing.assert_array_equal(whole[column], np.concatenate([part[column] for part in parts]))


def test_counts_are_binomial():
    p = np.full((1, 40_000), 0.3)
    hits = Logs.of("text", 1, seed=0, trials=1).counts(50, p)[0]
    assert abs(hits.mean() - 15.0) < 4 * np.sqrt(50 * 0.21 / 40_000)
    assert abs(hits.var() - 50 * 0.21) < 0.4


def test_logged_probabilities_of_thompson_sampling_are_the_normal_cdf():
    """Two arms: P(arm 1) = Φ(⟨θ̂, a₁ − a₂⟩ / (s ‖a₁ − a₂‖_{V⁻¹})), replayed from the logged rewards."""
    setting = Logs.of("as-run", 12, seed=1, trials=1)
    reward, probability = setting.log(setting.lints)
    assert probability[0, 0] == pytest.approx(0.5)  # θ̂ = 0: the first round is uniform
    arms = np.array(setting.environment.arms)
    found = _replay(arms, reward[0], probability[0], setting)
    assert found, "no sequence of arms explains the logged probabilities"


def _replay(arms, reward, probability, setting):
    """Whether some sequence of arms has exactly these probabilities (arms are not logged)."""
    lam, sigma = setting.lints.lam, setting.lints.sigma
    paths = [(lam * np.eye(2), np.zeros(2))]
    for y, p in zip(reward, probability, strict=True):
        after = []
        for V, b in paths:
            theta = np.linalg.solve(V, b)
            radius = sigma * np.sqrt(np.log(np.linalg.det(V) / lam**2) + 2 * np.log(100.0)) + np.sqrt(lam)
            gap = arms[0] - arms[1]
            first = ndtr(gap @ theta / (radius**2 * np.sqrt(gap @ np.linalg.solve(V, gap))))
            for arm, q in ((0, first), (1, 1 - first)):
                if abs(q - p) < 1e-9:
                    after.append((V + np.outer(arms[arm], arms[arm]), b + y * arms[arm]))
        paths = after
    return bool(paths)


def test_finished_batches_are_not_computed_again_and_damaged_ones_are_set_aside(tmp_path, monkeypatch):
    calls = []
    real = Logs.run
    monkeypatch.setattr(Logs, "run", lambda self, *a: calls.append(self.trials) or real(self, *a))

    def scores(trials):
        (done,) = compute([Logs.of("as-run", 20, seed=0, trials=trials)], batch=3, store=Store(tmp_path))
        return done.arrays

    first = scores(6)
    assert calls == [(0, 1, 2), (3, 4, 5)]
    assert all(np.array_equal(again, first[column]) for column, again in scores(6).items())
    assert len(calls) == 2
    damaged = next(tmp_path.glob("trials/*-000000-*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-5])
    with pytest.warns(StoreWarning, match=damaged.name):
        again = scores(6)
    assert (tmp_path / f"_{damaged.stem}.damaged").exists()
    assert calls[2:] == [(0, 1, 2)]
    for column in (LINMED_EXACT, floor_column(1_000)):
        np.testing.assert_array_equal(again[column], first[column])
    assert len(scores(9)[LINMED_EXACT]) == 9
    assert calls[3:] == [(6, 7, 8)]
