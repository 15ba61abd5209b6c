"""The core's E2D against `tests.reference.e2d`."""

import math

import numpy as np
import pytest

from linmed.policies import E2D
from tests.reference import e2d


def situation(policy, K, d, rewards=40, replicas=1):
    """Arms (K,d) in a ball, and a state that has learned from some of them."""
    rng = np.random.default_rng([K, d])
    arms = rng.standard_normal((K, d))
    arms *= rng.uniform(0.3, 1.0, (K, 1)) / np.linalg.norm(arms, axis=1, keepdims=True)
    truth, state = rng.standard_normal(d) / math.sqrt(d), policy.start(replicas, d)
    for r in range(replicas):
        features = arms[rng.integers(K, size=rewards)]
        paid = features @ truth + 0.3 * rng.standard_normal(rewards)
        policy.learn(state, features, paid, np.full(rewards, r))
    return arms, state


@pytest.mark.parametrize(("K", "d"), [(2, 3), (4, 3), (6, 9)])
@pytest.mark.parametrize("gamma", [0.3, 20.0, 1e6])
def test_affinely_independent_arms_are_weighed_by_inverse_gaps(K, d, gamma):
    policy = E2D(gamma=gamma)
    arms, state = situation(policy, K, d)
    expected = e2d.inverse_gaps(np.ones(K), e2d.costs(arms, state.theta[0], gamma))
    np.testing.assert_allclose(policy.probabilities(state, arms[None])[0], expected, atol=1e-11)


@pytest.mark.parametrize(("K", "d"), [(5, 2), (9, 2), (12, 3), (8, 1)])
@pytest.mark.parametrize("gamma", [0.5, 5.0])
def test_the_design_is_the_one_that_its_equations_have(K, d, gamma):
    policy = E2D(gamma=gamma, tol=1e-12)
    arms, state = situation(policy, K, d)
    expected = e2d.design(arms, state.theta[0], gamma)
    assert (expected >= 0.0).all()
    assert e2d.excess(expected, arms, state.theta[0], gamma) <= 1e-10
    p = policy.probabilities(state, arms[None])[0]
    np.testing.assert_allclose(p, expected, atol=1e-9)
    assert e2d.worst_case(p, arms, state.theta[0], gamma) <= d / (4.0 * gamma) * (1.0 + 1e-9)


@pytest.mark.parametrize(("K", "d"), [(40, 3), (120, 8), (90, 12)])
@pytest.mark.parametrize("policy", [E2D(), E2D(horizon=500), E2D(gamma=30.0)])
def test_no_arm_could_gain_from_more_mass(K, d, policy):
    arms, state = situation(policy, K, d)
    gamma = policy.exploration(state)[0]
    p = policy.probabilities(state, arms[None])[0]
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert (p >= 0.0).all()
    assert e2d.excess(p, arms, state.theta[0], gamma) <= 2e-9 * d
    assert e2d.worst_case(p, arms, state.theta[0], gamma) <= d / (4.0 * gamma) * (1.0 + 1e-8)


def test_gamma_is_what_the_formula_says():
    d, options = 3, {"sigma": 0.5, "norm_bound": 2.0}
    _, state = situation(E2D(**options), 10, d, rewards=25)
    lam = (0.5 / 2.0) ** 2
    assert E2D(**options).exploration(state)[0] == pytest.approx(
        e2d.exploration(d, 26, lam, 0.5, 2.0, state.logdet[0]), rel=1e-13
    )
    assert E2D(horizon=700, **options).exploration(state)[0] == pytest.approx(
        e2d.exploration(d, 700, lam, 0.5, 2.0, d * math.log1p(700 / (d * lam))), rel=1e-13
    )
    assert E2D(gamma=7.0, **options).exploration(state)[0] == 7.0


def test_rounds_draw_from_the_design_and_learn():
    """Rounds in the core against the same rounds one by one, every draw by inverting the floored law."""
    policy, T, R = E2D(floor=0.1), 12, 3
    arms, state = situation(policy, 7, 2, rewards=5, replicas=R)
    rng = np.random.default_rng(5)
    paid, noise = rng.standard_normal((T, R, 7)), rng.random((T, R, 1))
    played, own = np.empty((T, R), dtype=np.int64), state.copy()
    policy.play(state, arms[None, None], paid, noise, played)
    for t in range(T):
        for r in range(R):
            law = 0.9 * policy.probabilities(own, arms[None])[r] + 0.1 / 7
            arm = int((np.cumsum(law) <= noise[t, r, 0]).sum())
            assert played[t, r] == arm
        features = arms[played[t]]
        policy.learn(own, features, paid[t, np.arange(R), played[t]], np.arange(R))
    np.testing.assert_array_equal(state.theta, own.theta)
