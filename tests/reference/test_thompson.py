"""The core's Thompson sampling against that of `tests.reference.thompson`."""

import math

import numpy as np
import pytest

from linmed.core import core
from linmed.policies import LinTS
from linmed.policies import thompson as policies_thompson
from tests.policies.toy import random_state, sphere
from tests.reference import thompson


def situation(policy, K, d, rewards=40):
    """Arms (K,d) and the state, with V as a whole matrix."""
    arms = sphere(K, d, seed=K + d) * np.linspace(0.5, 1.0, K)[:, None]
    state = random_state(policy, arms, rewards, seed=K)
    return arms[0], state, np.tril(state.gram[0]) + np.tril(state.gram[0], -1).T


@pytest.mark.parametrize(("K", "d"), [(2, 1), (7, 3), (40, 8), (33, 17)])
def test_draws(K, d):
    policy = LinTS(scale=0.7)
    arms, state, V = situation(policy, K, d)
    noise = np.random.default_rng(0).standard_normal((200, d))
    expected = [thompson.play(state.theta[0], V, 0.7, arms, z) for z in noise]
    np.testing.assert_array_equal(policy.choose(state, arms[None], noise), expected)


@pytest.mark.parametrize("name", ["frequentist", "bayes", "agrawal-goyal", "squared-radius"])
@pytest.mark.parametrize("horizon", [None, 500])
@pytest.mark.parametrize("rewards", [0, 40])
def test_scales(name, horizon, rewards):
    policy = LinTS(scale=name, sigma=0.3, delta=0.05, horizon=horizon)
    _, state, _ = situation(policy, 7, 3, rewards)
    expected = thompson.scale(name, 3, rewards, 0.3, 0.05, policy.radius(state)[0], horizon)
    assert policy.spread(state)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_two_arms(scale):
    policy = LinTS(scale=scale)
    for d in (1, 2, 9):
        arms, state, V = situation(policy, 2, d)
        expected = thompson.two_arms(state.theta[0], V, scale, arms)
        np.testing.assert_allclose(policy.log_probabilities(state, arms[None])[0], expected, rtol=1e-11)


@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
def test_a_plane(scale):
    policy = LinTS(scale=scale)
    arms, state, V = situation(policy, 12, 2)
    p = np.exp(policy.log_probabilities(state, arms[None])[0])
    np.testing.assert_allclose(p, thompson.plane(state.theta[0], V, scale, arms), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("d", [3, 5, 12, 100])
def test_independent_values(d):
    """Arms along the axes of V: rays are right within the error that they tell."""
    rng = np.random.default_rng(d)
    policy = LinTS(scale=1.0, ridge=0.1)
    state = policy.start(1, d)
    spread, state.theta[0] = rng.uniform(0.5, 2.0, d), 0.5 * rng.standard_normal(d)
    state.gram[0] = np.diag(spread**-2.0)
    p = np.exp(policy.log_probabilities(state, np.eye(d)[None])[0])
    error = policy.propensity_error(state, np.eye(d)[None])[0]
    expected = thompson.corners(state.theta[0], spread)
    assert (np.abs(p - expected) <= 4.0 * error).all()
    assert error.max() < 1.5e-3


@pytest.mark.parametrize(("K", "d"), [(9, 3), (20, 5), (40, 7)])
def test_shared_rays(K, d, monkeypatch):
    """The same points: what differs is the tails, good to 3e-8, and the signs of the axes."""
    for name, value in (("MOST_POINTS", 128), ("ENOUGH", 1.0)):
        monkeypatch.setattr(policies_thompson, name, value)
    policy = LinTS(scale=1.0)
    arms, state, V = situation(policy, K, d)
    normals = np.empty((d, 128))
    core.normal.sobol_normals(normals)
    p = np.exp(policy.log_probabilities(state, arms[None])[0])
    flips = [np.array([1.0 - 2.0 * (n >> k & 1) for k in range(d)])[:, None] for n in range(2**d)]
    expected = (thompson.rays(state.theta[0], V, 1.0, arms, flip * normals, 128) for flip in flips)
    assert min(np.abs(p - law).max() for law in expected) < 1e-7


def test_an_arm_that_was_played_is_possible():
    log_p, error = np.log([[0.5, 1.0 - 0.5 - 1e-7, 1e-7]]), np.array([[1e-3, 1e-3, 2e-5]])
    core.report_played(log_p, error, np.array([2]))
    np.testing.assert_allclose(np.exp(log_p[0, 2]), 2e-5, rtol=1e-12)
    assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-15)
    log_p = np.array([[0.0, -math.inf]])
    error = np.zeros((1, 2))
    core.report_played(log_p, error, np.array([1]))
    np.testing.assert_allclose(np.exp(log_p[0]), [1.0 - 0.5 / 16384, 0.5 / 16384], rtol=1e-12)
    assert error[0, 1] == 0.5 / 16384
