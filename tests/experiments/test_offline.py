"""Offline evaluation: the counting trick, the published means, scores that do not depend on batches."""

import numpy as np
import pytest
from scipy.special import ndtr

from linmed.experiments.offline import (
    LINMED_EXACT,
    LINTS_EXACT,
    ORACLE,
    SAMPLES,
    _counts,
    _log,
    evaluate_offline,
    floor_column,
    offline_setting,
    plus_one_column,
    scores,
)
from linmed.experiments.statistics import mean


@pytest.fixture(scope="module")
def as_run():
    return scores(offline_setting("as-run", 1_000, seed=0), tuple(range(400)))


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
    text = scores(offline_setting("text", 1_000, seed=0), tuple(range(100)))
    assert abs(mean(text[floor_column(1_000)]).value - ORACLE) < 0.03


@pytest.mark.identity
def test_a_score_depends_on_its_trial_alone():
    setting = offline_setting("as-run", 30, seed=5)
    whole = scores(setting, tuple(range(6)))
    parts = [scores(setting, (0, 1, 2)), scores(setting, (3,)), scores(setting, (4, 5))]
    for column in whole:
        if column != "seconds":
            np.testing.assert_array_equal(whole[column], np.concatenate([part[column] for part in parts]))


def test_counts_are_binomial():
    p = np.full((1, 40_000), 0.3)
    hits = _counts(0, (0,), 50, p)[0]
    assert abs(hits.mean() - 15.0) < 4 * np.sqrt(50 * 0.21 / 40_000)
    assert abs(hits.var() - 50 * 0.21) < 0.4


def test_logged_probabilities_of_thompson_sampling_are_the_normal_cdf():
    """Two arms: P(arm 1) = Φ(⟨θ̂, a₁ − a₂⟩ / (s ‖a₁ − a₂‖_{V⁻¹})), replayed from the logged rewards."""
    setting = offline_setting("as-run", 12, seed=1)
    reward, probability = _log(setting, setting.lints, (0,))
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


def test_finished_batches_are_not_computed_again_and_damaged_ones_are(tmp_path, monkeypatch):
    import linmed.experiments.offline as offline

    monkeypatch.setattr(offline, "BATCH", 3)
    setting = offline_setting("as-run", 20, seed=0)
    first = evaluate_offline(setting, 6, tmp_path)
    calls = []
    real = offline.scores
    monkeypatch.setattr(offline, "scores", lambda *a: calls.append(a[1]) or real(*a))
    assert evaluate_offline(setting, 6, tmp_path).equals(first)
    assert calls == []
    damaged = sorted(tmp_path.glob("*.parquet"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-5])
    again = evaluate_offline(setting, 6, tmp_path)
    assert calls == [(0, 1, 2)]
    for column in (LINMED_EXACT, floor_column(1_000)):
        assert again[column].equals(first[column])
    assert evaluate_offline(setting, 9, tmp_path).num_rows == 9
    assert calls == [(0, 1, 2), (6, 7, 8)]
