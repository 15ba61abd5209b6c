"""Environments: what they promise of arms, means, noise and configuration."""

import json
import os
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import poisson

from linmed.environments import (
    ChangeEvery,
    Classification,
    Clicks,
    ClicksChange,
    Delayed,
    EndOfOptimism,
    Environment,
    FixedArms,
    LargeGap,
    MovieLens,
    News,
    OneChange,
    Pricing,
    RandomWalk,
    RepeatedArms,
    Season,
    UnitBall,
)
from linmed.environments.rewards import counts
from linmed.policies import LinMED, Uniform
from linmed.simulation import simulate

ALL = [
    FixedArms([[1, 0], [0.6, 0.8]], [1, 0], sigma=0.1),
    LargeGap(sigma=2.0),
    EndOfOptimism(eps=0.02),
    RepeatedArms(arms=7),
    UnitBall(arms=4, dim=3),
    UnitBall(arms=4, dim=3, noise="student-t", degrees=3.0),
    UnitBall(arms=4, dim=3, noise="coins"),
    RepeatedArms(arms=7, sigma=0.1, noise="uniform"),
    EndOfOptimism(noise="signs"),
    MovieLens(arms=5),
    Classification("digits", components=2),
    News(ids=True, articles=9, live=4, swap_every=10),
    UnitBall(arms=4, dim=3, link="logistic", intercept=-2.0),
    FixedArms([[1, 0], [0.6, 0.8]], [1, 0], link="poisson", intercept=1),
    Clicks(arms=4, dim=3),
    Clicks(arms=4, dim=3, changing=True, constant=False, timeout=30),
    ClicksChange(arms=4, dim=3, at=1500),
    OneChange(arms=4, dim=3, at=1500),
    OneChange(arms=4, dim=3, at=1500, link="logistic", intercept=-1.0),
    ChangeEvery(arms=4, dim=3, every=100, distance=0.5),
    RandomWalk(arms=4, dim=3, step=0.02),
    Season(arms=4, dim=3, period=50),
    Pricing(prices=5, at=1100),
    Delayed(UnitBall(), rounds=3),
    Delayed(LargeGap(noise="bernoulli"), rounds=3, mode="batch"),
]


def first_blocks(environment, count=2, seed=0):
    return list(islice(environment.blocks(np.random.default_rng(seed)), count))


@pytest.mark.parametrize("environment", ALL, ids=lambda e: e.name)
class TestEveryEnvironment:
    def test_shapes_fit_together_and_arms_have_norm_at_most_one(self, environment):
        for block in first_blocks(environment):
            assert block.noise.shape == (environment.block_rounds,)
            rounds = environment.block_rounds
            assert block.means.shape in (block.arms.shape[:-1], (rounds, block.arms.shape[-2]))
            assert block.arms.ndim == 2 or len(block.arms) == environment.block_rounds
            assert np.linalg.norm(block.arms, axis=-1).max() <= 1 + 1e-12

    @pytest.mark.identity
    def test_a_trial_depends_on_its_generator_alone(self, environment):
        for one, other in zip(
            first_blocks(environment, seed=5), first_blocks(environment, seed=5), strict=True
        ):
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a, b)

    def test_configuration_survives_json(self, environment):
        again = Environment.from_dict(json.loads(json.dumps(environment.to_dict())))
        assert again == environment
        assert hash(again) == hash(environment)
        assert again.identity() == environment.identity()
        json.dumps(environment.identity())


def test_the_papers_arms_and_means():
    block = first_blocks(EndOfOptimism(eps=0.01))[0]
    np.testing.assert_allclose(block.arms, [[1, 0], [0, 1], [0.99, 0.02]])
    np.testing.assert_allclose(block.means, [1, 0, 0.99])
    block = first_blocks(RepeatedArms(arms=4))[0]
    np.testing.assert_array_equal(block.arms, [[1, 0], [0, 1], [0, 1], [0, 1]])
    np.testing.assert_array_equal(first_blocks(LargeGap())[0].means, [1, 0])


def test_unit_ball_draws_arms_and_theta_anew_in_each_trial_and_keeps_them_through_it():
    one, two = (first_blocks(UnitBall(arms=6, dim=4), seed=seed) for seed in (1, 2))
    assert one[0].arms is one[1].arms
    assert not np.array_equal(one[0].arms, two[0].arms)
    np.testing.assert_allclose(np.linalg.norm(one[0].arms, axis=1), 1.0)


@pytest.mark.parametrize("noise", ["gaussian", "student-t", "uniform", "signs"])
def test_noise_has_mean_zero_and_standard_deviation_sigma(noise):
    # 200 blocks of 1,024 draws of t with 12 degrees of freedom or lighter tails: the mean's standard error is
    # sigma/453, the deviation's below sigma/500; 5 of them are passed by chance less than once in 10^6.
    environment = LargeGap(sigma=0.5, noise=noise, degrees=12.0)
    draws = np.concatenate([block.noise for block in first_blocks(environment, 200)])
    assert abs(draws.mean()) < 5 * 0.5 / np.sqrt(draws.size)
    assert abs(draws.std() - 0.5) < 5 * 0.5 / 500


def test_bounded_noise_takes_the_values_it_is_named_for():
    # 20,480 uniforms: all within a share of 0.001 of the ends with probability 2 exp(-20).
    draws = {
        noise: np.concatenate([b.noise for b in first_blocks(LargeGap(sigma=0.5, noise=noise), 20)])
        for noise in ("uniform", "signs")
    }
    assert set(draws["signs"]) == {-0.5, 0.5}
    edge = 0.5 * np.sqrt(3.0)
    assert -edge <= draws["uniform"].min() < -0.999 * edge
    assert 0.999 * edge < draws["uniform"].max() <= edge


@pytest.mark.parametrize("mean", [-2.0, -0.6, 0.0, 1.5, 2.0])
def test_coins_are_two_rewards_with_the_right_mean(mean):
    # 102,400 flips: five standard errors are passed by chance less than once in 10^6; means at the ends are
    # the only reward there is.
    environment = FixedArms([[mean]], [1.0], sigma=2.0, noise="coins")
    draws = np.concatenate([block.noise for block in first_blocks(environment, 100)])
    rewards = environment.rewards(np.full(draws.size, mean), draws)
    assert set(np.unique(rewards)) <= {-2.0, 2.0}
    assert abs(rewards.mean() - mean) <= 5 * np.sqrt((4.0 - mean**2) / rewards.size)
    assert not environment.additive


@pytest.mark.identity
def test_gaussian_noise_is_the_stream_it_always_was():
    (block,) = first_blocks(LargeGap(sigma=0.5), 1, seed=3)
    np.testing.assert_array_equal(block.noise, 0.5 * np.random.default_rng(3).standard_normal(1024))


def test_bernoulli_rewards_are_zero_or_one_with_the_right_means():
    environment = FixedArms([[0.3, 0.0]], [1, 0], noise="bernoulli")
    draws = np.concatenate([block.noise for block in first_blocks(environment, 100)])
    rewards = environment.rewards(np.full(draws.size, 0.3), draws)
    assert set(np.unique(rewards)) == {0.0, 1.0}
    assert abs(rewards.mean() - 0.3) < 5 * np.sqrt(0.21 / rewards.size)


# ---- links

ARMS, THETA = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]], [1.5, -0.5]
SCORES = np.array([1.5, 0.5, -1.5])


@pytest.mark.parametrize(
    ("link", "mean"), [("identity", lambda z: z), ("logistic", expit), ("poisson", np.exp)]
)
def test_means_are_those_of_rewards(link, mean):
    (block,) = first_blocks(FixedArms(ARMS, THETA, link=link, intercept=-1.0), 1)
    np.testing.assert_allclose(block.means, mean(SCORES - 1.0), rtol=1e-14)


@pytest.mark.parametrize(("link", "law"), [("logistic", lambda m: m * (1 - m)), ("poisson", lambda m: m)])
def test_rewards_have_these_means_and_the_laws_spread(link, law):
    # 204,800 draws: a mean five standard errors off comes about once in 10^6.
    environment = FixedArms(ARMS, THETA, link=link, intercept=-1.0)
    drawn = first_blocks(environment, 200)
    rewards = environment.rewards(drawn[0].means[:, None], np.concatenate([b.noise for b in drawn]))
    means, size = drawn[0].means, rewards.shape[1]
    assert (np.abs(rewards.mean(axis=1) - means) < 5 * np.sqrt(law(means) / size)).all()
    np.testing.assert_allclose(rewards.var(axis=1), law(means), rtol=0.05)
    assert not environment.additive


def test_counts_are_the_inverse_of_poissons_law_and_grow_with_the_mean():
    uniforms = np.concatenate([[0.0, 1.0 - 2.0**-53], np.random.default_rng(1).random(2000)])
    means = np.array([1e-300, 0.01, 0.7, 4.0, 900.0, 1e6])[:, None]
    drawn = counts(means, uniforms)
    assert (drawn[0] == 0.0).all()
    np.testing.assert_array_equal(drawn[:, 2:], poisson.ppf(uniforms[2:], means))
    assert (np.diff(drawn, axis=0) >= 0.0).all()
    at_a_jump = poisson.cdf(3, 4.0)  # u = P(X ≤ 3): with probability at most u the count is at most 3
    assert counts(np.array(4.0), np.array([np.nextafter(at_a_jump, 0), at_a_jump])).tolist() == [3.0, 4.0]


@pytest.mark.identity
def test_problems_without_a_link_keep_their_streams():
    ball = UnitBall(arms=4, dim=3)
    (block,) = first_blocks(ball, 1, seed=3)
    rng = np.random.default_rng(3)
    theta, arms = rng.standard_normal(3), rng.standard_normal((4, 3))
    theta, arms = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (theta, arms))
    np.testing.assert_array_equal(block.arms, arms)
    np.testing.assert_array_equal(block.means, arms @ theta)
    np.testing.assert_array_equal(block.noise, rng.standard_normal(1024))
    assert ball.additive


def test_a_link_leaves_arms_and_theta_as_they_were():
    plain, linked = (first_blocks(b, 1)[0] for b in (UnitBall(), UnitBall(link="logistic", intercept=-2.0)))
    np.testing.assert_array_equal(plain.arms, linked.arms)
    np.testing.assert_allclose(linked.means, expit(plain.means - 2.0), rtol=1e-14)


def test_regret_is_counted_in_rewards():
    environment = FixedArms(ARMS, THETA, link="logistic", intercept=-1.0)
    results = simulate([Uniform(), LinMED(sigma=0.5)], environment, 300, 4, progress=False)
    rates = expit(SCORES - 1.0)
    for name in results.names:
        gaps = results.pulls(name) @ (rates.max() - rates)
        np.testing.assert_allclose(results.final(name), gaps, rtol=1e-12)


# ---- delays and data


@pytest.mark.identity
def test_delay_leaves_arms_and_noise_as_they_were():
    plain, late = first_blocks(UnitBall()), first_blocks(Delayed(UnitBall(), rounds=4))
    for a, b in zip(plain, late, strict=True):
        np.testing.assert_array_equal(a.arms, b.arms)
        np.testing.assert_array_equal(a.noise, b.noise)
        assert (b.delays == 4).all()


def test_batch_delay_flushes_after_rounds_1_then_every_d():
    delays = first_blocks(Delayed(LargeGap(), rounds=20, mode="batch"))[0].delays
    arrival = np.arange(1, 1025) + delays
    assert arrival[0] == 1
    assert set(arrival[1:21]) == {21}
    assert set(arrival[21:41]) == {41}
    assert (first_blocks(Delayed(LargeGap(), rounds=1, mode="batch"))[0].delays == 0).all()


def geometric(rng, t, rounds):
    return rng.geometric(1 / rounds, size=len(t))


def test_a_delay_of_ones_own_is_drawn_per_round():
    delays = np.concatenate([b.delays for b in first_blocks(Delayed(LargeGap(), 10, geometric), 50)])
    assert abs(delays.mean() - 10) < 5 * np.sqrt(90 / delays.size)


def test_classification_pays_the_right_class_only():
    X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [0.5, 0.5]])
    environment = Classification((X, ["a", "b", "b", "a"]), components=None)
    block = first_blocks(environment, 1)[0]
    assert block.arms.shape[1:] == (2, 2 * 3)
    np.testing.assert_array_equal(block.means.sum(axis=1), 1.0)
    # Arm k has the row in slot k and nothing in the others.
    np.testing.assert_array_equal(block.arms[:, 0, 3:], 0.0)
    np.testing.assert_array_equal(block.arms[:, 1, :3], 0.0)
    np.testing.assert_array_equal(block.arms[:, 0, :3], block.arms[:, 1, 3:])


def test_equal_data_make_equal_classification_problems_and_other_data_do_not():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3)), np.arange(20) % 2
    assert Classification((X, y)) == Classification((X.copy(), y.copy()))
    assert Classification((X, y)) != Classification((X, 1 - y))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedArms([[1, 0]], [1]), "theta has shape"),
        (lambda: FixedArms([], [1]), "arms"),
        (lambda: FixedArms([[np.nan, 0]], [1, 0]), r"arms\[0, 0\] is nan"),
        (lambda: FixedArms([[2.0]], [1.0], noise="bernoulli"), r"means from 2 to 2"),
        (lambda: LargeGap(sigma=-1.0), "sigma"),
        (lambda: LargeGap(sigma=np.inf), "sigma must be finite"),
        (lambda: LargeGap(noise="cauchy"), "noise must be one of"),
        (lambda: LargeGap(noise="student-t", degrees=2.0), "degrees must be above 2"),
        (lambda: EndOfOptimism(eps=0.0), r"eps must lie in \(0, 0.4\]"),
        (lambda: EndOfOptimism(eps=0.5), r"eps must lie in \(0, 0.4\]"),
        (lambda: RepeatedArms(arms=1), "arms must be at least 2"),
        (lambda: UnitBall(arms=0), "arms must be at least 1"),
        (lambda: UnitBall(dim=0), "dim must be at least 1"),
        (lambda: UnitBall(noise="bernoulli"), "means from -1 to 1"),
        (lambda: UnitBall(sigma=0.5, noise="coins"), r"in \[-0.5, 0.5\].*sigma=1 would do"),
        (lambda: LargeGap(sigma=0.9, noise="coins"), "means from 0 to 1; sigma=1 would do"),
        (lambda: UnitBall(link="logistic", noise="bernoulli"), "noise must be left at 'gaussian'"),
        (lambda: UnitBall(link="poisson", sigma=0.5), "sigma must be left at 1.0 with link='poisson'"),
        (lambda: UnitBall(link="poisson", degrees=3.0), "degrees must be left at 5.0"),
        (lambda: UnitBall(link="probit"), "link must be"),
        (lambda: UnitBall(intercept=np.nan), "intercept"),
        (lambda: UnitBall(link="poisson", intercept=30), r"means up to 2\.9\d*e\+13: lower them"),
        (lambda: FixedArms([[900.0]], [1.0], link="poisson"), "mean counts of at most 1e"),
        (lambda: UnitBall(noise="bernoulli", intercept=0.5), "means from -0.5 to 1.5"),
        (lambda: Delayed(LargeGap(), rounds=-1), "rounds must be at least 0"),
        (lambda: Delayed(LargeGap(), rounds=0, mode="batch"), "rounds must be at least 1"),
        (lambda: Delayed(LargeGap(), mode="sometimes"), "mode must be one of"),
        (lambda: Delayed(Delayed(LargeGap())), "already delayed"),
        (lambda: Delayed(LargeGap(), rounds=2**80), r"rounds must lie in \[0, 9"),
        (lambda: MovieLens(noise="bernoulli"), "means from -1 to 1"),
        (lambda: MovieLens(arms=2000), "arms must be at most 1682"),
        (lambda: Classification("irises"), "data must be one of"),
        (lambda: Classification(([[1.0], [2.0]], [0])), "one label for each of the 2 rows"),
        (lambda: Classification(([[1.0], [2.0]], [0, 0])), "at least two classes"),
        (lambda: Classification((np.empty((0, 2)), [])), "X must have shape"),
        (lambda: Environment.from_dict({"environment": "Mars"}), "unknown environment 'Mars'"),
        (lambda: Environment.from_dict({"environment": "LargeGap", "eps": 1}), "no parameter 'eps'"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_types_are_named():
    with pytest.raises(TypeError, match="env must be an environment"):
        Delayed("LargeGap")
    with pytest.raises(TypeError, match=r"pair \(X, y\)"):
        Classification(3)
    with pytest.raises(ValueError, match="one delay per round"):
        first_blocks(Delayed(LargeGap(), 1, lambda rng, t, rounds: -np.ones(len(t), int)))


def test_stored_results_of_a_data_set_are_found_however_many_threads_blas_has():
    program = (
        "from linmed.environments import Classification, MovieLens;"
        "print([one.identity() for one in (Classification('digits'), MovieLens())])"
    )
    seen = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Nehalem"},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert seen.strip() == str([one.identity() for one in (Classification("digits"), MovieLens())])
