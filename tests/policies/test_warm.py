"""LinMED with a design that starts from the last one: valid, certified, and the same wherever it is asked."""

import numpy as np
import pytest

from linmed import Agent, LinMED
from linmed.core import core
from linmed.design import certificate
from tests.policies.toy import random_state, sphere


def rounds(policy, arms, n, seed=0):
    """The state after n rounds of play, and the arms played."""
    rng = np.random.default_rng(seed)
    state = policy.start(1, arms.shape[2])
    theta = rng.standard_normal(arms.shape[2])
    rewards = np.einsum("kd,d->k", arms[0], theta)[None, None] + rng.standard_normal((n, 1, 1))
    played = np.empty((n, 1), dtype=np.int64)
    policy.play(state, arms[None], rewards, rng.random((n, 1, 1)), played)
    return state, played[:, 0]


@pytest.mark.parametrize(("K", "d"), [(40, 3), (300, 8), (500, 20), (20_000, 14)])
def test_the_design_of_every_round_is_an_approximate_design(K, d):
    """The largest leverage of the arms times √f in V(q) is at most τ, and τ is O(d)."""
    policy = LinMED(design="warm")
    arms = sphere(K, d)
    state, _ = rounds(policy, arms, 12 if K > 1000 else 60)
    size = policy.optimality(state)[0] * d * np.log(d)
    assert d <= size <= 4 * d
    before = state.copy()
    beta = policy.radius(state)[0] ** 2
    log_f, root = np.empty((2, K))
    core.designs.weigh(arms[0], state.theta[0], state.inverse[0], beta, True, log_f, root)
    policy.decide(state, arms, np.array([[0.5]]))
    q = np.exp(policy.log_probabilities(before, arms)[0])
    assert q.sum() == pytest.approx(1.0, abs=1e-12)
    support = state.support[0][state.support[0] >= 0]
    assert len(set(support.tolist())) == len(support) >= d
    weights = np.zeros(K)
    weights[support] = 1.0 / len(support)
    scaled = arms[0] * root[:, None]
    assert certificate(scaled, weights) * d <= 4 * d * (1 + 1e-6)


def test_the_law_is_close_to_that_of_the_cold_design():
    """Only the design differs, and its share of q is 5 %: p may differ by that share at most, before 1/Z."""
    arms = sphere(200, 6)
    warm, cold = LinMED(design="warm"), LinMED()
    state, _ = rounds(warm, arms, 200)
    p = np.exp(warm.log_probabilities(state, arms)[0])
    plain = cold.start(1, 6)
    plain.restore({name: array for name, array in state.arrays().items() if name in plain.arrays()})
    other = np.exp(cold.log_probabilities(plain, arms)[0])
    assert np.abs(p - other).sum() <= 2 * 0.05 / 0.95


def test_other_arms_than_before_are_no_trouble():
    """A remembered place may lie beyond the arms or hold another: a set that does not span is made anew."""
    agent = Agent(LinMED(design="warm"), dim=4, seed=3)
    rng = np.random.default_rng(5)
    for K in (200, 30, 9, 3, 60, 1, 500):
        arms = rng.standard_normal((K, 4))
        decision = agent.decide(arms)
        assert np.exp(decision.log_probabilities).sum() == pytest.approx(1.0, abs=1e-12)
        agent.learn(decision, 0.3)
    flat = np.zeros((40, 4))
    flat[:, :2] = rng.standard_normal((40, 2))
    assert agent.decide(flat).probability > 0


def test_a_batch_of_sets_of_different_size_is_decided_in_order():
    rng = np.random.default_rng(1)
    sets = [rng.standard_normal((K, 3)) for K in (30, 40, 30, 7, 40)]
    one, other = (Agent(LinMED(design="warm"), dim=3, seed=2) for _ in range(2))
    batch = one.decide_batch(sets)
    single = [other.decide(arms) for arms in sets]
    for a, b in zip(batch, single, strict=True):
        np.testing.assert_array_equal(a.log_probabilities, b.log_probabilities)


def test_what_cannot_be_warm_says_so():
    with pytest.raises(ValueError, match="design must be 'approx' or 'optimal' with version=1"):
        LinMED(design="warm", version=1)
    with pytest.raises(ValueError, match="design must be 'warm' for this"):
        LinMED().optimality(random_state(LinMED(), sphere(5, 2)))
    assert np.isnan(LinMED(design="warm").optimality(LinMED(design="warm").start(2, 3))).all()
