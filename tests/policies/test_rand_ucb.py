"""RandUCB's law and the probabilities it implies."""

import itertools

import numpy as np
import pytest

from linmed.core import core
from linmed.policies import OFUL, RandUCB
from tests.policies.toy import ARMS, ONE, probabilities, random_state, sphere, state_of


def test_the_law_is_a_half_gaussian_with_a_little_mass_at_the_radius():
    grid, weights = RandUCB().law()
    np.testing.assert_allclose(grid, np.arange(20) / 19)
    np.testing.assert_allclose(weights[:4], [0.2876356, 0.2632362, 0.2017690, 0.1295297], atol=5e-8)
    assert weights[-1] == 1e-7
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)


def test_probabilities_of_the_toy_state():
    np.testing.assert_allclose(probabilities(RandUCB(delta=0.1)), [0.99973293, 0, 0.00026707], atol=5e-9)
    np.testing.assert_allclose(
        probabilities(RandUCB(delta=0.1, coupled=False)), [0.64819888, 0.04273672, 0.30906440], atol=5e-9
    )


@pytest.mark.parametrize(("coupled", "expected"), [(True, [0.6, 0, 0.4]), (False, [0.459, 0.198, 0.343])])
def test_probabilities_of_a_law_of_three_points(coupled, expected):
    state = state_of(RandUCB())
    rule = core.RandomisedRule(np.array([0, 0.5, 1]), np.array([0.6, 0.3, 0.1]), coupled, 0.0)
    beta, log_p, played = RandUCB(delta=0.1).radius(state)[0] ** 2, np.empty((1, 1, 3)), np.zeros((1, 1), int)
    nothing, none = np.empty((0, 0, 0)), np.empty((0, 0))
    belief, sure = core.Ridge(*state), core.FixedSet(beta)
    core.play(belief, sure, rule, ARMS[None], nothing, none, ONE[None], played, log_p)
    np.testing.assert_allclose(np.exp(log_p[0, 0]), expected, atol=1e-12)


def test_uncoupled_probabilities_are_the_sum_over_all_outcomes():
    """Every combination of points enumerated, with duplicates so that ties occur."""
    policy = RandUCB(coupled=False, points=4, spread=0.6, top=0.1, low=-0.5)
    arms = sphere(3, 2)[:, [0, 1, 0, 2]]
    state = random_state(policy, arms, 10)
    grid, weights = policy.law()
    width = policy.radius(state)[0] * np.sqrt(np.einsum("ij,jk,ik->i", arms[0], state.inverse[0], arms[0]))
    scores = (arms[0] @ state.theta[0])[:, None] + width[:, None] * grid
    scores[2] = scores[0]
    expected = np.zeros(4)
    for outcome in itertools.product(range(4), repeat=4):
        expected[scores[range(4), outcome].argmax()] += weights[list(outcome)].prod()
    np.testing.assert_allclose(probabilities(policy, arms, state), expected, atol=1e-12)


def test_one_point_is_oful():
    arms = sphere(30, 4)
    for coupled in (True, False):
        policy = RandUCB(points=1, low=1.0, coupled=coupled, delta=0.1)
        state = random_state(policy, arms)
        np.testing.assert_array_equal(
            probabilities(policy, arms, state), probabilities(OFUL(delta=0.1), arms, state)
        )


@pytest.mark.parametrize("coupled", [True, False])
def test_awkward_sets(coupled):
    policy = RandUCB(coupled=coupled)
    state = state_of(policy)
    np.testing.assert_array_equal(probabilities(policy, np.zeros((1, 3, 2)), state), [1, 0, 0])
    np.testing.assert_allclose(probabilities(policy, ARMS[:, [0, 0]], state).sum(), 1.0, atol=1e-12)
    np.testing.assert_array_equal(probabilities(policy, ARMS[:, :1], state), [1])


@pytest.mark.parametrize(
    "bad",
    [
        {"points": 0},
        {"points": 2.0},
        {"low": 1.0},
        {"low": -2.0},
        {"spread": 0.0},
        {"top": 1.5},
        {"coupled": 1},
    ],
)
def test_bad_parameters_are_named(bad):
    with pytest.raises((ValueError, TypeError), match=next(iter(bad))):
        RandUCB(**bad)
