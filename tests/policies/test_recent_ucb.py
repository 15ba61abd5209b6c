"""D-LinUCB and SW-LinUCB: their sums, their radii, and what they forget."""

import math

import numpy as np
import pytest

from linmed import Agent, simulate
from linmed.environments import OneChange
from linmed.policies import OFUL, DLinUCB, SWLinUCB
from tests.policies.toy import sphere


def learned(policy, vectors, rewards):
    state = policy.start(1, vectors.shape[1])
    policy.learn(state, vectors, rewards, np.zeros(len(rewards), dtype=np.int64))
    return state


def observations(count, dim=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, dim)) / 2, rng.standard_normal(count)


@pytest.mark.parametrize("count", [1, 2, 37, 400])
def test_faded_sums_are_those_of_the_definition(count):
    policy = DLinUCB(sigma=0.5, norm_bound=2.0, half_life=20.0)
    vectors, rewards = observations(count)
    state = learned(policy, vectors, rewards)
    weight = 0.5 ** (np.arange(count)[::-1] / 20.0)
    lam = 0.5**2 / 2.0**2
    V = lam * np.eye(4) + (vectors.T * weight) @ vectors
    V2 = lam * np.eye(4) + (vectors.T * weight**2) @ vectors
    np.testing.assert_allclose(state.gram[0], V, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(state.gram_squared[0], V2, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(state.theta[0], np.linalg.solve(V, vectors.T @ (weight * rewards)), rtol=1e-9)
    inverse = np.linalg.inv(V)
    np.testing.assert_allclose(state.inverse[0], inverse @ V2 @ inverse, rtol=1e-9)
    assert state.count[0] == count


@pytest.mark.parametrize("count", [1, 6, 7, 8, 20, 21, 100])
def test_a_window_holds_the_last_rewards_alone(count):
    policy = SWLinUCB(ridge=0.7, window=7)
    vectors, rewards = observations(count)
    state = learned(policy, vectors, rewards)
    vectors, rewards = vectors[-7:], rewards[-7:]
    V = 0.7 * np.eye(4) + vectors.T @ vectors
    np.testing.assert_allclose(state.gram[0], V, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(state.inverse[0], np.linalg.inv(V), rtol=1e-9)
    np.testing.assert_allclose(state.theta[0], np.linalg.solve(V, vectors.T @ rewards), rtol=1e-9, atol=1e-12)
    assert state.count[0] == count


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


def test_the_radius_of_d_linucb_is_the_published_one():
    policy = DLinUCB(sigma=0.3, norm_bound=1.5, ridge=0.2, delta=0.05, half_life=30.0, arm_bound=1.2)
    vectors, rewards = observations(40)
    gamma, t, d = 0.5 ** (1 / 30), 40, 4
    inside = 1 + 1.2**2 * (1 - gamma ** (2 * t)) / (0.2 * d * (1 - gamma**2))
    root = math.sqrt(0.2) * 1.5 + 0.3 * math.sqrt(2 * math.log(1 / 0.05) + d * math.log(inside))
    assert policy.radius(learned(policy, vectors, rewards))[0] == pytest.approx(root, rel=1e-12)
    assert policy.gamma == gamma


def test_the_radius_of_sw_linucb_is_the_published_one():
    policy = SWLinUCB(sigma=0.3, norm_bound=1.5, ridge=0.2, delta=0.05, window=30, arm_bound=1.2)
    root = math.sqrt(0.2) * 1.5 + 0.3 * math.sqrt(4 * math.log((1 + 30 * 1.2**2 / 0.2) / 0.05))
    assert policy.radius(learned(policy, *observations(40)))[0] == pytest.approx(root, rel=1e-12)


@pytest.mark.parametrize("policy", [DLinUCB(half_life=15.0, delta=0.1), SWLinUCB(window=15, delta=0.1)])
def test_the_arm_of_the_largest_upper_bound_is_played(policy):
    arms = sphere(40, 4)[0]
    state = learned(policy, *observations(60))
    width = np.sqrt(np.einsum("ij,jk,ik->i", arms, state.inverse[0], arms))
    bound = arms @ state.theta[0] + policy.radius(state)[0] * width
    assert policy.choose(state, arms[None], np.zeros((1, 1)))[0] == bound.argmax()


def test_a_window_longer_than_the_log_and_endless_memory_have_the_ridge_estimate():
    vectors, rewards = observations(300)
    ridge = learned(OFUL(), vectors, rewards)
    window = learned(SWLinUCB(window=301), vectors, rewards)
    faded = learned(DLinUCB(half_life=1e15), vectors, rewards)
    for state in (window, faded):
        np.testing.assert_allclose(state.theta, ridge.theta, rtol=1e-9)
        np.testing.assert_allclose(state.inverse, ridge.inverse, rtol=1e-9)


@pytest.mark.parametrize("policy", [DLinUCB(half_life=3.0), SWLinUCB(window=3)])
def test_a_ridge_lost_to_rounding_leaves_finite_numbers(policy):
    vectors = np.tile([[1e9, 0.0, 0.0]], (10, 1))
    state = learned(policy, vectors, np.ones(10))
    for name, array in state.arrays().items():
        assert np.isfinite(array).all(), name
    state = learned(policy, np.tile([[1e9, 1e9, 0.0]], (10, 1)), np.ones(10))
    assert np.isfinite(state.theta).all()


def test_an_agent_saves_and_continues(tmp_path):
    arms = sphere(6, 3)[0]
    for policy in (DLinUCB(half_life=10.0, floor=0.2), SWLinUCB(window=5, floor=0.2)):
        agent = Agent(policy, dim=3, seed=1)
        for _ in range(12):
            decision = agent.decide(arms)
            agent.learn(decision, float(arms[decision.arm, 0]))
        agent.save(tmp_path / "agent")
        again = Agent.load(tmp_path / "agent")
        for _ in range(8):
            one, other = agent.decide(arms), again.decide(arms)
            assert one.arm == other.arm
            assert one.probability == other.probability
            agent.learn(one, float(arms[one.arm, 0]))
            again.learn(other, float(arms[other.arm, 0]))


def test_forgetting_pays_after_a_change():
    """θ* turns round; over 40 paired trials the mean gain is beyond 5 standard errors."""
    policies = [OFUL(sigma=0.3), DLinUCB(sigma=0.3, half_life=100.0), SWLinUCB(sigma=0.3, window=200)]
    world = OneChange(at=1500, sigma=0.3, distance=2.0)
    found = simulate(policies, world, 3000, trials=40, seed=3, progress=False)
    never, *forgetting = (found.final(policy.name) for policy in policies)
    for regret in forgetting:
        gain = never - regret
        assert gain.mean() > 5 * gain.std(ddof=1) / np.sqrt(40)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda: DLinUCB(half_life=0.0), "half_life"),
        (lambda: DLinUCB(half_life=math.inf), "half_life"),
        (lambda: DLinUCB(sigma="unknown"), "sigma"),
        (lambda: DLinUCB(arm_bound=-1.0), "arm_bound"),
        (lambda: DLinUCB(floor=1.5), "floor"),
        (lambda: SWLinUCB(window=0), "window"),
        (lambda: SWLinUCB(window=2.5), "window"),
        (lambda: SWLinUCB(delta=0.0), "delta"),
        (lambda: SWLinUCB(ridge=0.0), "ridge"),
    ],
)
def test_wrong_parameters_are_named(made, name):
    with pytest.raises((ValueError, TypeError), match=name):
        made()
