"""Pinpoint: the rule against its formula, by hand and at its edges."""

import math

import numpy as np
import pytest

from linmed import Agent, Pinpoint
from linmed.core import core
from tests.policies.configurations import warmed_up
from tests.policies.toy import ONE, probabilities, state_of


def formula(theta, inverse, radius, arms):
    """The arm c of the definition, without regard to ties."""
    best = int(np.argmax(arms @ theta))
    apart = arms[best] - arms
    width = np.sqrt(np.einsum("kd,de,ke->k", apart, inverse, apart))
    score = width if math.isinf(radius) else radius * width - apart @ theta
    score[best] = -math.inf
    y = arms[best] - arms[int(np.argmax(score))]
    gain = (arms @ inverse @ y) ** 2 / (1.0 + np.einsum("kd,de,ke->k", arms, inverse, arms))
    return int(np.argmax(gain))


def test_the_toy_by_hand():
    """V⁻¹ = diag(1/3, 1/2), θ̂ = (0.5333, 0.1), β of δ = 0.1.

    â = (1,0). Its rivals: (0,1) with √β √(1/3 + 1/2) − 0.4333 = 2.788, and (0.6,0.8) with
    √β √(0.16/3 + 0.32) − 0.1333 = 2.022. So y = (1,−1), V⁻¹y = (1/3, −1/2), and the arms' gains are
    (1/9)/(4/3) = 0.0833, (1/4)/(3/2) = 0.1667, (0.2−0.4)²/1.44 = 0.0278.
    """
    p = probabilities(Pinpoint(delta=0.1))
    np.testing.assert_allclose(p, [0.1 / 3, 0.9 + 0.1 / 3, 0.1 / 3], rtol=1e-14)
    assert Pinpoint(delta=0.1).radius(state_of(Pinpoint()))[0] == pytest.approx(3.5292152)


@pytest.mark.parametrize(("arms", "dim"), [(2, 1), (7, 3), (50, 4), (41, 17), ((1 << 14) + 7, 17)])
def test_it_is_the_formula_at_every_shape(arms, dim):
    rng = np.random.default_rng(arms)
    policy = Pinpoint(sigma=0.2, floor=0.0)
    offered = rng.standard_normal((1, arms, dim))
    offered *= rng.uniform(0.5, 0.9, (1, arms, 1)) / np.linalg.norm(offered, axis=2, keepdims=True)
    state = policy.start(1, dim)
    for _ in range(8 if arms > 1000 else 40):
        expected = formula(state.theta[0], state.inverse[0], policy.radius(state)[0], offered[0])
        arm = policy.choose(state, offered, ONE)
        assert state.count[0] < 3 or arm[0] == expected  # before, arms tie
        policy.learn(
            state, offered[0][arm], offered[0][arm, 0] + 0.2 * rng.standard_normal(1), np.zeros(1, int)
        )


def test_an_infinite_radius_is_a_very_large_one():
    rng = np.random.default_rng(1)
    arms = rng.standard_normal((1, 9, 3))
    policies = [Pinpoint(floor=0.0, label=str(beta)) for beta in (math.inf, 1e100, 1e12)]
    for policy, beta in zip(policies, (math.inf, 1e100, 1e12), strict=True):
        vars(policy)["confidence_set"] = core.FixedSet(beta)
    state = warmed_up(Pinpoint(), arms, rng)
    played = [int(policy.choose(state, arms, ONE)[0]) for policy in policies]
    assert played == [formula(state.theta[0], state.inverse[0], math.inf, arms[0])] * 3
    assert np.isfinite(policies[0].log_probabilities(state, arms)[0, played[0]])


@pytest.mark.parametrize(
    ("arms", "expected"),
    [
        ([[0.3, 0.4]], 0),
        ([[0.3, 0.4]] * 5, 0),
        (np.zeros((4, 2)), 0),
        ([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]], 1),
    ],
    ids=["one arm", "equal arms", "zero arms", "ties go to the lowest index"],
)
def test_edges(arms, expected):
    agent = Agent(Pinpoint(), dim=2, seed=0)
    p = agent.probabilities(arms)
    assert p.argmax() == expected
    np.testing.assert_allclose(np.delete(p, expected), 0.1 / len(arms), rtol=1e-12)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert (p > 0).all()


def test_rivals_that_cannot_be_told_apart_need_no_reward_of_theirs():
    """The arms e₁ and e₂ differ; what tells them apart is neither e₃ nor the average of the two."""
    arms = np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.9], [0.5, 0.5, 0.0]]])
    policy = Pinpoint(sigma=0.1, floor=0.0)
    state = policy.start(1, 3)
    policy.learn(state, arms[0][[0, 1, 2] * 20], np.tile([0.5, 0.48, -0.9], 20), np.zeros(60, dtype=np.int64))
    assert policy.choose(state, arms, ONE)[0] in (0, 1)
