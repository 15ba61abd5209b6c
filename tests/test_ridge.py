"""Ridge regression stays exact: after a million updates, in any order, for any conditioning."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linmed import Agent, LinMED

MILLION = 1_000_000


def exact_ridge(arms, rewards, repeats, ridge):
    """V⁻¹ and θ̂ in 200-bit arithmetic for `repeats` passes over the arms."""
    dim = arms.shape[1]
    with mpmath.workprec(max(200, 8 * int(np.log2(np.abs(arms).max() + 1.0)))):
        rows = [[mpmath.mpf(float(x)) for x in row] for row in arms]
        V = mpmath.matrix(dim, dim)
        b = mpmath.matrix(dim, 1)
        for i in range(dim):
            b[i] = repeats * mpmath.fsum(
                row[i] * mpmath.mpf(float(y)) for row, y in zip(rows, rewards, strict=True)
            )
            for j in range(i + 1):
                V[i, j] = V[j, i] = repeats * mpmath.fsum(row[i] * row[j] for row in rows)
            V[i, i] += ridge
        inverse = V**-1
        theta = inverse * b
        return (
            np.array([[float(inverse[i, j]) for j in range(dim)] for i in range(dim)]),
            np.array([float(theta[i]) for i in range(dim)]),
        )


@pytest.mark.parametrize(("distinct", "scale"), [(1, 1.0), (200, 1.0), (1, 1000.0), (200, 1e-3)])
def test_a_million_updates_leave_no_drift(distinct, scale):
    rng = np.random.default_rng(distinct)
    dim = 20
    arms = rng.standard_normal((distinct, dim))
    arms *= scale / np.linalg.norm(arms, axis=1, keepdims=True)
    rewards = 1.0 + rng.standard_normal(distinct)
    policy = LinMED()
    state = policy.start(1, dim)
    block = 10_000
    features, targets = np.resize(arms, (block, dim)), np.resize(rewards, block)
    for _ in range(MILLION // block):
        policy.learn(state, features, targets, np.zeros(block, dtype=np.int64))
    inverse, theta = exact_ridge(arms, rewards, MILLION // distinct, 1)
    assert np.max(np.abs(state.inverse[0] - inverse) / np.abs(inverse)) <= 1e-9
    np.testing.assert_allclose(state.theta[0], theta, rtol=1e-9, atol=1e-9 * np.abs(theta).max())
    assert state.count[0] == MILLION


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), dim=st.integers(1, 8), n=st.integers(0, 60), ridge=st.floats(1e-3, 1e3))
def test_any_history_gives_the_closed_form(seed, dim, n, ridge):
    rng = np.random.default_rng(seed)
    features, rewards = rng.standard_normal((n, dim)), rng.standard_normal(n)
    agent = Agent(LinMED(ridge=ridge), dim=dim, seed=0)
    agent.observe(features, rewards)
    V = ridge * np.eye(dim) + features.T @ features
    np.testing.assert_allclose(agent.theta, np.linalg.solve(V, features.T @ rewards), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(agent.covariance, np.linalg.inv(V), rtol=1e-8, atol=1e-12)
    expected = np.linalg.slogdet(V)[1] - dim * np.log(ridge)
    np.testing.assert_allclose(agent.state.logdet[0], expected, rtol=1e-8, atol=1e-8)
    assert agent.count == n


@pytest.mark.parametrize("size", [1e5, 1e7, 1e20, 1e100])
@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_arms_that_are_long_against_the_ridge_leave_a_true_inverse(size, ridge):
    """Sherman–Morrison would subtract 1/λ from 1/λ: what is left of it may be nothing, or negative."""
    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for arms in (size * np.eye(3), size * turned, size * np.diag([1.0, 1e-3, 1e-6]), size * np.eye(3)[:2]):
        agent = Agent(LinMED(ridge=ridge), dim=3, seed=0)
        agent.observe(arms, np.full(len(arms), 0.5))
        inverse = agent.covariance
        expected = exact_ridge(arms, np.full(len(arms), 0.5), 1, ridge)[0]
        diagonal = np.sqrt(np.diag(expected))
        np.testing.assert_allclose(
            inverse / np.outer(diagonal, diagonal), expected / np.outer(diagonal, diagonal), atol=1e-6
        )


def test_the_order_of_rewards_does_not_matter():
    rng = np.random.default_rng(0)
    features, rewards = rng.standard_normal((500, 5)), rng.standard_normal(500)
    order = rng.permutation(500)
    one, other = (Agent(LinMED(), dim=5, seed=0) for _ in range(2))
    one.observe(features, rewards)
    other.observe(features[order], rewards[order])
    np.testing.assert_allclose(one.theta, other.theta, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-12, atol=1e-15)


@pytest.mark.identity
def test_replicas_learn_their_own_rewards_in_the_given_order():
    rng = np.random.default_rng(1)
    policy = LinMED()
    replicas = rng.integers(3, size=40)
    features, rewards = rng.standard_normal((40, 4)), rng.standard_normal(40)
    together = policy.start(3, 4)
    policy.learn(together, features, rewards, replicas)
    for r in range(3):
        alone = policy.start(1, 4)
        mine = replicas == r
        policy.learn(alone, features[mine], rewards[mine], np.zeros(mine.sum(), dtype=np.int64))
        np.testing.assert_array_equal(together.theta[r], alone.theta[0])
        np.testing.assert_array_equal(together.inverse[r], alone.inverse[0])
