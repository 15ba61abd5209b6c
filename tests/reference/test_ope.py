"""The core's sums, sequences and regressions against `tests.reference.ope`."""

import math

import numpy as np
import pytest

from linmed.core import core
from linmed.ope.intervals import StableVariance
from linmed.ope.sequences import BettingLower
from linmed.policies import LogisticMED
from linmed.policies.ridge import start_ridge
from tests.reference import ope

BETS = BettingLower.BETS
PRIOR = np.log(BettingLower.PRIOR / BettingLower.PRIOR.sum())


def decisions(n, arms, seed, dim=3):
    """Weights, rewards, and lists of one to `arms` arms: offsets, numbers and places of those played."""
    rng = np.random.default_rng(seed)
    count = rng.integers(1, arms + 1, size=n)
    offsets = np.concatenate([[0], np.cumsum(count)])
    arm = rng.integers(count)
    reward = (rng.random(n) < 0.4).astype(float)
    weight = np.where(rng.random(n) < 0.4, 0.0, rng.exponential(size=n))
    return rng, weight, reward, offsets, arm, offsets[:-1] + arm, rng.standard_normal((offsets[-1], dim))


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("n", [1, 9, 150])
def test_gains_of_bets_are_sums_of_logarithms(n, shifted):
    rng, weight, reward, offsets, _, chosen, _ = decisions(n, 4, seed=n)
    x, shift = weight * reward, rng.uniform(0.0, 0.2, size=n) * shifted
    found = np.zeros(32)
    core.betting(found, BETS, x, shift)
    np.testing.assert_allclose(found, ope.gains(BETS, x, shift), rtol=1e-12, atol=1e-12)
    guard = rng.uniform(0.1, 0.9, size=offsets[-1])
    mass, probability = rng.random(offsets[-1]), np.minimum(guard[chosen] * 1.1, 1.0)
    found = np.zeros(32)
    core.cut_betting(found, BETS, x, shift, mass, guard, probability, offsets, chosen)
    expected = ope.gains(BETS, x, shift, mass, guard, probability, offsets, chosen)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_the_betting_bound_is_where_the_wealth_is_one_over_alpha():
    _, weight, reward, *_ = decisions(400, 2, seed=1)
    gains = ope.gains(BETS, weight * reward, np.zeros(400))
    past = gains, BETS, PRIOR, 400.0
    assert core.log_wealth(*past, 0.3) == pytest.approx(ope.log_wealth(*past, 0.3), abs=1e-11)
    found = core.betting_lower(*past, math.log(20.0), 0.0)
    assert found == pytest.approx(ope.betting_lower(*past, math.log(20.0)), abs=1e-11)


def test_weights_of_stable_variance():
    rng = np.random.default_rng(3)
    score, proxy = rng.standard_normal(500), rng.exponential(size=500) * np.linspace(1.0, 9.0, 500)
    found = StableVariance()
    for part in np.split(np.arange(500), [1, 130]):
        found.add(score[part], proxy[part])
    estimate, scatter = ope.stable(score, proxy)
    assert found.estimate == pytest.approx(estimate, abs=1e-12)
    h2g2, h2g, h2 = found._sums[[4, 3, 2]]
    assert h2g2 - 2.0 * estimate * h2g + estimate**2 * h2 == pytest.approx(scatter, rel=1e-11)


def test_ridge_regression_predicts_by_what_came_before():
    _, weight, reward, offsets, _, chosen, arms = decisions(80, 5, seed=4)
    out = np.empty(len(arms))
    core.predict_learn(core.Ridge(*start_ridge(1, 3, 0.7)), arms, offsets, chosen, weight * reward, out)
    expected = ope.ridge_predictions(0.7, arms, offsets, chosen, weight * reward)
    np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-12)


def test_logistic_regression_predicts_by_what_came_before():
    _, _, reward, offsets, _, chosen, arms = decisions(40, 5, seed=5)
    policy, out = LogisticMED(ridge=0.7), np.empty(len(arms))
    state = policy.start(1, 3)
    precision = np.diag(state.parts()[3][0]).copy()
    core.predict_learn(core.Glm(*state.parts()), arms, offsets, chosen, reward, out)
    expected = ope.logistic_predictions(precision, arms, offsets, chosen, reward)
    np.testing.assert_allclose(out, expected, atol=1e-12)


@pytest.mark.parametrize("drawn", [False, True])
def test_means_of_arms_predict_by_what_came_before(drawn):
    _, _, reward, offsets, arm, _, _ = decisions(150, 11, seed=6)
    sums, counts, out = np.zeros(11), np.zeros(11), np.empty(offsets[-1])
    core.means_predict_learn(sums, counts, 1.3, drawn, offsets, arm, reward, out)
    np.testing.assert_allclose(out, ope.mean_predictions(1.3, offsets, arm, reward, drawn), atol=1e-14)


def test_lists_that_do_not_fit_are_refused():
    _, _, reward, offsets, arm, chosen, arms = decisions(10, 4, seed=7)
    belief, out = core.Ridge(*start_ridge(1, 3, 1.0)), np.empty(len(arms))
    for wrong in (offsets + 1, offsets[::-1].copy(), np.zeros(3, dtype=np.int64)):
        with pytest.raises(ValueError, match="offsets"):
            core.predict_learn(belief, arms, wrong, chosen, reward, out)
    for wrong in (chosen - 1000, chosen + len(arms)):
        with pytest.raises(ValueError, match="chosen"):
            core.predict_learn(belief, arms, offsets, wrong, reward, out)
    with pytest.raises(ValueError, match="chosen"):
        core.means_predict_learn(np.zeros(4), np.zeros(4), 1.0, False, offsets, arm + 4, reward, out)
    with pytest.raises(ValueError, match="offsets"):
        core.means_predict_learn(np.zeros(1), np.zeros(1), 1.0, False, offsets, arm * 0, reward, out)
