"""Offline evaluation: the counting trick, the published means, scores that do not depend on batches."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from linmed.paper import EXPERIMENTS
from linmed.paper.drawing import drawings
from linmed.paper.offline_evaluation import (
    LINMED_EXACT,
    LINTS_EXACT,
    OMITTED,
    ORACLE,
    SAMPLES,
    Logs,
    expected,
    floor_column,
    floor_factor,
    floor_factor_at,
    zero_any_column,
    zero_chance,
)
from linmed.paper.output import Output
from linmed.paper.statistics import mean
from linmed.report.progress import Bar
from linmed.simulation import Store, StoreWarning
from linmed.simulation.executors import workers_of
from linmed.simulation.run import compute


@pytest.fixture(scope="module")
def as_run():
    return Logs.of("as-run", 1_000, seed=0, trials=400).run()


def test_the_published_means_come_out_as_run(as_run):
    """Within 3.5 standard errors of 400 trials; five such checks raise a false alarm in one seed of 400."""
    published = {1_000: 0.906, 10_000: 0.819, 100_000: 0.799}
    for M in SAMPLES:
        estimate = mean(as_run[floor_column(M)])
        assert abs(estimate.value - published[M]) < 3.5 * estimate.error
    for column in (LINMED_EXACT, LINTS_EXACT):
        estimate = mean(as_run[column])
        assert abs(estimate.value - ORACLE) < 3.5 * estimate.error


def test_the_bias_is_the_floors_not_the_policys(as_run):
    bias = mean(as_run[floor_column(1_000)] - as_run[LINTS_EXACT])  # paired: the same decisions
    assert bias.within(0.03, math.inf) == "holds"


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
    reward, probability, log_law = setting.log(setting.lints)
    np.testing.assert_allclose(np.exp(log_law).sum(axis=-1), 1.0)
    assert np.isclose(np.exp(log_law), probability[..., None]).any(axis=-1).all()
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


# ---- expectations


def exactly(M, p):
    """p E[M/max(X, ½)], X ~ Binomial(M, p), from a sum of positive terms.

    h(M) = E[1/X; X ≥ 1] has h(M) = q h(M−1) + (1 − q^M)/M, so h(M) = Σ_j q^(M−j) (1 − q^j)/j.
    """
    j, log_q = np.arange(1, M + 1), math.log1p(-p)
    inverse = float((np.exp((M - j) * log_q) * -np.expm1(j * log_q) / j).sum())
    return p * M * (2.0 * math.exp(M * log_q) + inverse)


@pytest.mark.parametrize("p", [0.001, 0.02, 0.3, 0.5, 0.97])
def test_factors_of_few_samples_are_the_sums_over_counts(p):
    M, exact = 50, Fraction(p)
    chances = [math.comb(M, k) * exact**k * (1 - exact) ** (M - k) for k in range(M + 1)]
    floored = sum(w * exact * M / max(Fraction(k), Fraction(1, 2)) for k, w in enumerate(chances))
    log_p = np.log([p])
    assert floor_factor_at(M, p) == pytest.approx(float(floored), rel=1e-13)
    assert exactly(M, p) == pytest.approx(float(floored), rel=1e-12)
    assert floor_factor(M, log_p) == pytest.approx(float(floored), rel=1e-9)
    assert zero_chance(M, log_p) == pytest.approx(float(chances[0]), rel=1e-12)


@pytest.mark.parametrize("M", SAMPLES)
def test_the_tables_relative_error_is_below_one_in_a_billion(M):
    """At random places, within intervals, at both ends, and where the table gives way to a series."""
    lowest = math.log(1e-5 / M)
    places = [
        *np.random.default_rng(M).uniform(lowest - 5.0, 0.0, 200),
        *(lowest + np.array([-1e-6, 1e-6, 0.005, 0.015])),
        *np.array([-1e-6, -0.005, -0.015]),
        *np.log(np.array([0.5, 1.0, 2.41, 5.0, 20.0]) / M),
    ]
    due = np.array([exactly(M, math.exp(place)) for place in places])
    assert abs(floor_factor(M, np.array(places)) / due - 1.0).max() < 1e-9


def test_known_factors_of_the_floor():
    M = 100_000
    found = floor_factor(M, np.log(np.array([0.1, 1.0, 2.41, 10.0, 50.0]) / M))
    np.testing.assert_allclose(found, [0.190, 1.22, 1.556, 1.13, 1.02], atol=0.005)
    around = floor_factor(M, np.log(np.linspace(0.01, 100.0, 5_000) / M))
    assert around.max() == pytest.approx(1.556, abs=0.001)


def test_certain_and_impossible_arms_have_factors_too():
    log_p = np.array([0.0, -np.inf, -800.0])
    np.testing.assert_allclose(floor_factor(1_000, log_p), [1.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(zero_chance(1_000, log_p), [0.0, 1.0, 1.0])


def columns():
    return [LINMED_EXACT, LINTS_EXACT, *map(floor_column, SAMPLES)]


def test_expected_scores_have_the_raw_scores_mean(as_run):
    """The tower rule. Paired, within 4 standard errors."""
    for column in columns():
        difference = mean(as_run[column] - as_run[expected(column)])
        assert abs(difference.value) < 4.0 * difference.error, column


def test_expected_scores_vary_far_less(as_run):
    for column in columns():
        assert as_run[expected(column)].std() < 0.3 * as_run[column].std(), column


@pytest.mark.parametrize("variant", ["text", "as-run"])
def test_exact_propensities_have_no_bias_at_all(variant):
    found = Logs.of(variant, 200, seed=3, trials=20).run()
    for column in (LINMED_EXACT, LINTS_EXACT):
        np.testing.assert_allclose(found[expected(column)], ORACLE, rtol=0, atol=1e-12)


def test_zero_estimates_become_rare_with_more_samples(as_run):
    few, more, most = (as_run[zero_any_column(M)].mean() for M in SAMPLES)
    assert 0.05 < few < 0.2  # of the rounds, at M = 1,000
    assert few > more > most


def test_zero_estimates_of_either_arm_are_as_frequent_as_counted():
    """With two arms and one set of M draws, an arm has none of them if X = 0 or X = M."""
    job = Logs.of("as-run", 300, seed=2, trials=40)
    hits = job.counts(1_000, job.log(job.lints).probability)
    counted = ((hits == 0) | (hits == 1_000)).mean(axis=1)
    difference = mean(counted - job.run()[zero_any_column(1_000)])
    assert abs(difference.value) < 4.0 * difference.error


# ---- the experiment


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return whole_experiment(tmp_path_factory.mktemp("offline"), workers=1)


def whole_experiment(out, workers):
    experiment = EXPERIMENTS["offline-evaluation"]
    plan = experiment.plan("quick", "text", horizon=60, trials=6)
    with workers_of(workers, None) as pool, Bar(False, "rounds", total=1) as bar:
        return experiment.run(plan, Output(out), pool, bar)


def test_the_lints_that_is_left_out_is_scored_where_the_text_is_played(small):
    assert len(small.scores[OMITTED]) == 6
    text = Logs.of("text", 1_000, 0, 60).run()
    shown, omitted = (mean(text[name]) for name in (expected(floor_column(1_000)), OMITTED))
    assert shown.within(0.80, 0.81) == "holds"
    assert omitted.value < shown.value  # it plays one arm too seldom
    assert OMITTED not in Logs.of("as-run", 10, 0, 1).run()


def test_the_reports_table_shows_both_means(small):
    (scores,) = small.experiment.numbers(small)
    assert scores.table["by expectations"].to_pylist()[0] == "0.8000 ± 0.0000"
    assert scores.table["M"].to_pylist()[2:] == ["1,000", "10,000", "100,000"]


def test_the_propensity_figure_has_room_for_the_published_bias(small):
    ax = drawings(small)[1].figure.axes[0]
    low, high = ax.get_ylim()
    assert low <= 0.78
    assert high >= 0.92
    assert any("published" in label for label in ax.get_legend_handles_labels()[1])


@pytest.mark.identity
def test_processes_give_the_same_scores_and_a_second_run_computes_nothing(small, tmp_path, monkeypatch):
    several = whole_experiment(tmp_path, workers=2)
    monkeypatch.setattr(Logs, "run", None)
    again = whole_experiment(tmp_path, workers=1)
    for found in (several, again):
        assert set(found.scores) == set(small.scores)
        for column, score in small.scores.items():
            np.testing.assert_array_equal(found.scores[column], score, err_msg=column)
