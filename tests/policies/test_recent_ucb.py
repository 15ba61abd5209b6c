"""D-LinUCB and SW-LinUCB: their sums, their radii, and what they forget."""

import numpy as np
import pytest

from linmed import simulate
from linmed.environments import OneChange
from linmed.policies import OFUL, DLinUCB, SWLinUCB


def learned(policy, vectors, rewards):
    state = policy.start(1, vectors.shape[1])
    policy.learn(state, vectors, rewards, np.zeros(len(rewards), dtype=np.int64))
    return state


def observations(count, dim=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, dim)) / 2, rng.standard_normal(count)


@pytest.mark.parametrize("policy", [DLinUCB(half_life=50.0), SWLinUCB(window=50)])
def test_nothing_drifts_in_200000_rewards(policy):
    """Once in a while an arm is a million times longer than the others: what it leaves must go with it."""
    vectors, rewards = observations(200_000, dim=3)
    vectors[::997] *= 1e6
    vectors[-800:] /= np.linalg.norm(vectors[-800:], axis=1, keepdims=True)
    state = learned(policy, vectors, rewards)
    age = np.arange(len(rewards))[::-1]
    weight = 0.5 ** (age / 50.0) if isinstance(policy, DLinUCB) else (age < 50) * 1.0
    V = np.eye(3) + (vectors.T * weight) @ vectors
    theta = np.linalg.solve(V, vectors.T @ (weight * rewards))
    # A window keeps the rounding of at most as many additions as it holds; a faded V forgets as it fades.
    np.testing.assert_allclose(state.gram[0], V, rtol=1e-9, atol=1e-9 * V.max())
    np.testing.assert_allclose(state.theta[0], theta, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("policy", [DLinUCB(half_life=3.0), SWLinUCB(window=3)])
def test_a_ridge_lost_to_rounding_leaves_finite_numbers(policy):
    vectors = np.tile([[1e9, 0.0, 0.0]], (10, 1))
    state = learned(policy, vectors, np.ones(10))
    for name, array in state.arrays().items():
        assert np.isfinite(array).all(), name
    state = learned(policy, np.tile([[1e9, 1e9, 0.0]], (10, 1)), np.ones(10))
    assert np.isfinite(state.theta).all()


def test_forgetting_pays_after_a_change():
    """θ* turns round; over 40 paired trials the mean gain is beyond 5 standard errors."""
    policies = [OFUL(sigma=0.3), DLinUCB(sigma=0.3, half_life=100.0), SWLinUCB(sigma=0.3, window=200)]
    world = OneChange(at=1500, sigma=0.3, distance=2.0)
    found = simulate(policies, world, 3000, trials=40, seed=3, progress=False)
    never, *forgetting = (found.final(policy.name) for policy in policies)
    for regret in forgetting:
        gain = never - regret
        assert gain.mean() > 5 * gain.std(ddof=1) / np.sqrt(40)
