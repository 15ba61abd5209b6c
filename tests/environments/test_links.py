"""Links: what an arm's score becomes, and that problems without one are what they always were."""

import json
from itertools import islice

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import poisson

from linmed.environments import Environment, FixedArms, UnitBall
from linmed.environments.rewards import counts
from linmed.policies import LinMED, Uniform
from linmed.simulation import simulate

ARMS, THETA = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]], [1.5, -0.5]
SCORES = np.array([1.5, 0.5, -1.5])


def blocks(environment, count=1, seed=0):
    return list(islice(environment.blocks(np.random.default_rng(seed)), count))


@pytest.mark.parametrize(
    ("link", "mean"), [("identity", lambda z: z), ("logistic", expit), ("poisson", np.exp)]
)
def test_means_are_those_of_rewards(link, mean):
    (block,) = blocks(FixedArms(ARMS, THETA, link=link, intercept=-1.0))
    np.testing.assert_allclose(block.means, mean(SCORES - 1.0), rtol=1e-14)


@pytest.mark.parametrize(("link", "law"), [("logistic", lambda m: m * (1 - m)), ("poisson", lambda m: m)])
def test_rewards_have_these_means_and_the_laws_spread(link, law):
    # 204,800 draws: a mean five standard errors off comes about once in 10^6.
    environment = FixedArms(ARMS, THETA, link=link, intercept=-1.0)
    drawn = blocks(environment, 200)
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
def test_problems_without_a_link_keep_their_streams_and_their_identity():
    ball = UnitBall(arms=4, dim=3)
    assert ball.identity() == {
        "environment": "UnitBall", "arms": 4, "dim": 3, "sigma": 1.0, "noise": "gaussian", "degrees": 5.0,
    }  # fmt: skip
    assert set(FixedArms(ARMS, THETA).identity()) == {
        "environment", "arms", "theta", "sigma", "noise", "degrees",
    }  # fmt: skip
    assert UnitBall(link="logistic").identity()["link"] == "logistic"
    assert UnitBall(intercept=0.5).identity()["intercept"] == 0.5
    (block,) = blocks(ball, seed=3)
    rng = np.random.default_rng(3)
    theta, arms = rng.standard_normal(3), rng.standard_normal((4, 3))
    theta, arms = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (theta, arms))
    np.testing.assert_array_equal(block.arms, arms)
    np.testing.assert_array_equal(block.means, arms @ theta)
    np.testing.assert_array_equal(block.noise, rng.standard_normal(1024))
    assert ball.additive


def test_a_link_leaves_arms_and_theta_as_they_were():
    (plain,), (linked,) = blocks(UnitBall()), blocks(UnitBall(link="logistic", intercept=-2.0))
    np.testing.assert_array_equal(plain.arms, linked.arms)
    np.testing.assert_allclose(linked.means, expit(plain.means - 2.0), rtol=1e-14)


@pytest.mark.parametrize(
    "environment",
    [UnitBall(link="poisson", intercept=1.0), FixedArms(ARMS, THETA, link="logistic"), UnitBall(intercept=2)],
)
def test_configuration_survives_json(environment):
    again = Environment.from_dict(json.loads(json.dumps(environment.to_dict())))
    assert again == environment
    assert again.identity() == environment.identity()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UnitBall(link="logistic", noise="bernoulli"), "noise must be left at 'gaussian'"),
        (lambda: UnitBall(link="poisson", sigma=0.5), "sigma must be left at 1.0 with link='poisson'"),
        (lambda: UnitBall(link="poisson", degrees=3.0), "degrees must be left at 5.0"),
        (lambda: UnitBall(link="probit"), "link must be"),
        (lambda: UnitBall(intercept=np.nan), "intercept"),
        (lambda: UnitBall(link="poisson", intercept=30), r"means up to 2\.9\d*e\+13: lower them"),
        (lambda: FixedArms([[900.0]], [1.0], link="poisson"), "mean counts of at most 1e"),
        (lambda: UnitBall(noise="bernoulli", intercept=0.5), "means from -0.5 to 1.5"),
    ],
)
def test_what_says_nothing_or_cannot_be_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_regret_is_counted_in_rewards():
    environment = FixedArms(ARMS, THETA, link="logistic", intercept=-1.0)
    results = simulate([Uniform(), LinMED(sigma=0.5)], environment, 300, 4, progress=False)
    rates = expit(SCORES - 1.0)
    for name in results.names:
        gaps = results.pulls(name) @ (rates.max() - rates)
        np.testing.assert_allclose(results.final(name), gaps, rtol=1e-12)
