"""The logistic world: its rates are those asked for, its arms linear in the log-odds, its clicks late."""

from itertools import islice

import numpy as np
import pytest
from scipy.special import expit, logit

from linmed.environments import Clicks, ClicksChange
from linmed.policies import LinMED, Uniform
from linmed.simulation import simulate


def blocks(environment, count=1, seed=0):
    return list(islice(environment.blocks(np.random.default_rng(seed)), count))


@pytest.mark.parametrize(
    ("rate", "norm", "best"),
    [(0.055, 4.0, 0.225), (0.066, 1.9, 0.162), (0.519, 3.85, 0.921)],
)
def test_the_three_problems_have_the_rates_they_are_named_for(rate, norm, best):
    environment = Clicks(rate=rate, norm=norm, changing=True)
    means = np.concatenate([block.means for block in blocks(environment, 40)])
    # 409,600 arms, whose rates have a standard deviation below 0.3; 40,960 best ones, below 0.15.
    assert abs(means.mean() - rate) < 5 * 0.3 / np.sqrt(means.size)
    assert abs(means.max(axis=1).mean() - best) < 0.004


@pytest.mark.parametrize("dim", [1, 2, 3, 8, 60])
@pytest.mark.parametrize("rate", [0.01, 0.5])
def test_the_base_rate_is_the_mean_over_arms_in_any_dimension(dim, rate):
    environment = Clicks(rate=rate, norm=3.0, dim=dim, arms=500, changing=True)
    means = np.concatenate([block.means.ravel() for block in blocks(environment, 40)])
    assert abs(means.mean() - rate) < 5 * means.std() / np.sqrt(means.size)


@pytest.mark.parametrize("changing", [True, False])
def test_log_odds_are_linear_in_the_arm_and_theta_has_the_norm_it_says(changing):
    environment = Clicks(rate=0.03, norm=2.5, arms=40, changing=changing)
    (block,) = blocks(environment)
    arms, scores = block.arms.reshape(-1, 6), logit(block.means).ravel()
    np.testing.assert_allclose(np.linalg.norm(arms, axis=1), 1.0)
    theta = np.linalg.lstsq(arms, scores, rcond=None)[0]
    np.testing.assert_allclose(arms @ theta, scores, atol=1e-10)
    assert np.linalg.norm(theta) == pytest.approx(environment.theta_norm)
    bare = Clicks(rate=0.03, norm=2.5, arms=40, changing=changing, constant=False)
    (other,) = blocks(bare)
    np.testing.assert_array_equal(other.means, block.means)
    assert other.arms.shape[-1] == 5
    assert bare.theta_norm == 2.5


def test_arms_stay_through_a_trial_or_are_new_in_every_round():
    one, two = blocks(Clicks(), 2)
    assert one.arms is two.arms
    assert one.arms.shape == (10, 6)
    one, two = blocks(Clicks(changing=True), 2)
    assert one.arms.shape == (1024, 10, 6)
    assert len(np.unique(np.concatenate([one.means, two.means]))) == 20_480


def test_lateness_leaves_everything_else_as_it_was():
    plain, late = blocks(Clicks(changing=True), 2), blocks(Clicks(changing=True, timeout=300), 2)
    for one, other in zip(plain, late, strict=True):
        for a, b in zip(one[:3], other[:3], strict=True):
            np.testing.assert_array_equal(a, b)
        assert one.delays is None
        assert 1 <= other.delays.min() <= other.delays.max() <= 300
    known = Clicks(timeout=300).known_after(np.array([1.0, 0.0]), np.array([7, 7]))
    np.testing.assert_array_equal(known, [7, 300])


def test_features_that_do_not_matter_leave_the_base_rate():
    environment = Clicks(rate=0.2, norm=0.0)
    np.testing.assert_allclose(blocks(environment)[0].means, 0.2, rtol=1e-12)
    steep = Clicks(rate=0.01, norm=100.0)
    assert expit(steep.intercept + 100.0) > 0.9


def test_policies_learn_in_it():
    results = simulate([Uniform(), LinMED(sigma=0.5)], Clicks(rate=0.5, norm=4.0), 1000, 8, progress=False)
    assert results.final("LinMED").mean() < 0.5 * results.final("Uniform").mean()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rate": 0.0}, "rate must"),
        ({"rate": 1.5}, "rate must"),
        ({"norm": -1.0}, "norm must"),
        ({"dim": 0}, "dim must be at least 1"),
        ({"changing": 1}, "changing must be"),
        ({"clicks_after": 0}, "clicks_after must be at least 1"),
        ({"timeout": -1}, "timeout must be at least 0"),
    ],
)
def test_bad_parameters_are_named(wrong, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Clicks(**wrong)


@pytest.mark.parametrize("constant", [True, False])
def test_what_is_liked_changes_once_and_the_arms_stay(constant):
    told = {"rate": 0.1, "norm": 2.0, "constant": constant, "timeout": 30}
    still, moved = blocks(Clicks(**told), 3), blocks(ClicksChange(**told, at=1500), 3)
    for one, other in zip(still, moved, strict=True):
        np.testing.assert_array_equal(one.arms, other.arms)
        np.testing.assert_array_equal(one.noise, other.noise)
        np.testing.assert_array_equal(one.delays, other.delays)
    np.testing.assert_array_equal(moved[0].means, still[0].means)
    first, then = 1500 - 1024, moved[2].means
    np.testing.assert_array_equal(moved[1].means[:first], np.tile(still[1].means, (first, 1)))
    np.testing.assert_array_equal(moved[1].means[first:], np.tile(then, (1024 - first, 1)))
    x = moved[0].arms if not constant else np.sqrt(2.0) * moved[0].arms[:, :-1]
    odds = np.log(then / (1.0 - then)) - Clicks(**told).intercept
    w = np.linalg.lstsq(x, odds, rcond=None)[0]
    np.testing.assert_allclose(x @ w, odds, atol=1e-9)
    assert np.linalg.norm(w) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="changing"):
        ClicksChange(changing=True)
    with pytest.raises(ValueError, match="at"):
        ClicksChange(at=0)
