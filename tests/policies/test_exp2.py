"""EXP2: its distribution, its unbiased estimate, and its one fixed set of arms."""

import numpy as np
import pytest

from linmed import Agent
from linmed.policies import EXP2
from tests.policies.toy import ARMS, sphere


def started(policy, total, replicas=1):
    state = policy.start(replicas, len(total))
    state.total[:] = total
    return state


@pytest.mark.parametrize(("K", "d", "rank"), [(7, 3, 3), (12, 5, 2), (3, 6, 3), (40, 4, 4), (1, 3, 1)])
def test_the_estimate_is_unbiased_on_the_span(K, d, rank):
    """Σ_a P(a) Q⁻¹a aᵀ is the projection on the span of the arms, the identity where they span."""
    rng = np.random.default_rng(1)
    arms = rng.standard_normal((1, K, rank)) @ rng.standard_normal((rank, d))
    policy = EXP2(horizon=100)
    state = started(policy, rng.standard_normal(d))
    p = np.exp(policy.log_probabilities(state, arms))[0]
    total = sum(p[i] * np.outer(policy.features(state, arms, np.array([i]))[0], arms[0, i]) for i in range(K))
    W = np.linalg.svd(arms[0])[2][:rank]
    np.testing.assert_allclose(total, W.T @ W, atol=1e-9)


def test_ill_conditioned_arms_keep_the_estimate_unbiased():
    arms = sphere(6, 3) * np.array([1.0, 1e-4, 1e-8])
    policy = EXP2(horizon=100)
    state = started(policy, np.zeros(3))
    p = np.exp(policy.log_probabilities(state, arms))[0]
    total = sum(p[i] * np.outer(policy.features(state, arms, np.array([i]))[0], arms[0, i]) for i in range(6))
    unit = np.array([1.0, 1e-4, 1e-8])
    np.testing.assert_allclose(total * unit[:, None] / unit, np.eye(3), atol=1e-6)


def test_every_arm_has_a_probability_even_when_its_weight_underflows():
    arms = sphere(9, 2)
    policy = EXP2(horizon=50)
    state = started(policy, [1e7, -3e6])
    log_p = policy.log_probabilities(state, arms)
    assert np.isfinite(log_p).all()
    assert log_p.min() < -1000
    np.testing.assert_allclose(np.exp(log_p).sum(), 1.0, atol=1e-12)
    assert (EXP2().log_probabilities(EXP2().start(1, 5), sphere(30, 5)) > -np.inf).all()


def test_another_set_of_arms_is_refused_once_it_has_decided():
    agent = Agent(EXP2(), dim=2, seed=0)
    agent.probabilities(ARMS[0, :2])  # looking commits to nothing
    agent.learn(agent.decide(ARMS[0]), 1.0)
    before = {name: array.copy() for name, array in agent.state.arrays().items()}
    for other in (ARMS[0, :2], ARMS[0, [1, 0, 2]], ARMS[0] + 1e-9):
        with pytest.raises(ValueError, match="arms differ"):
            agent.decide(other)
    for name, array in agent.state.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    agent.decide(ARMS[0] * np.array([1.0, 1.0]) + -0.0)


def test_rounds_with_other_arms_are_refused_before_any_is_played():
    policy = EXP2()
    state, played = policy.start(2, 2), np.full((3, 2), -1)
    arms = np.stack([ARMS, ARMS, ARMS[:, ::-1]])
    with pytest.raises(ValueError, match="arms differ"):
        policy.play(state, arms, np.zeros((3, 2, 3)), np.zeros((3, 2, 1)), played)
    assert (played == -1).all()
    assert not state.count.any()
    assert not state.arm_set.any()
    policy.play(state, arms[:2], np.zeros((2, 2, 3)), np.zeros((2, 2, 1)), played[:2])
    assert state.count.tolist() == [2, 2]
    with pytest.raises(ValueError, match="arms differ"):
        policy.choose(state, arms[2], np.zeros((2, 1)))


@pytest.mark.identity
def test_a_restored_state_still_knows_its_arms():
    policy = EXP2()
    state = policy.start(1, 2)
    policy.features(state, ARMS, np.array([0]))
    twin = policy.start(1, 2)
    twin.restore(state.arrays())
    with pytest.raises(ValueError, match="arms differ"):
        policy.log_probabilities(twin, ARMS[:, ::-1].copy())
    np.testing.assert_array_equal(policy.log_probabilities(twin, ARMS), policy.log_probabilities(state, ARMS))
    assert "geometry" not in state.arrays()
    assert state.copy().geometry is state.geometry  # never changed, and dear to make


def test_late_rewards_use_the_estimate_of_their_decision():
    agent, twin = (Agent(EXP2(horizon=100), dim=2, seed=3) for _ in range(2))
    decisions = [agent.decide(ARMS[0]) for _ in range(4)]
    same = [twin.decide(ARMS[0]) for _ in range(4)]
    for decision, reward in zip(decisions, [1.0, -0.5, 0.3, 0.2], strict=True):
        agent.learn(decision, reward)
    for decision, reward in zip(same[::-1], [0.2, 0.3, -0.5, 1.0], strict=True):
        twin.learn(decision, reward)
    np.testing.assert_allclose(twin.state.total, agent.state.total, rtol=1e-12)
    assert agent.count == 4


def test_rewards_from_elsewhere_mean_nothing_to_it():
    agent = Agent(EXP2(), dim=2, seed=0)
    with pytest.raises(ValueError, match="EXP2 cannot observe"):
        agent.observe([1.0, 0.0], 1.0)
    assert agent.count == 0


def test_probabilities_sum_to_one_whatever_the_size_of_the_rewards():
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(6, 3))
    arms[3:] = arms[0]
    agent = Agent(EXP2(), dim=3, seed=0)
    for i in range(6):
        decision = agent.decide(arms)
        assert abs(decision.probabilities.sum() - 1.0) <= 1e-12
        agent.learn(decision, 1e17 * (i - 1))


def test_arms_without_a_direction_are_refused():
    with pytest.raises(ValueError, match="arms are all zero"):
        EXP2().log_probabilities(EXP2().start(1, 2), np.zeros((1, 3, 2)))
