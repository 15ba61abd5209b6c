"""RandUCB's law and the probabilities it implies."""

import numpy as np
import pytest

from linmed.policies import OFUL, RandUCB
from tests.policies.toy import probabilities, random_state, sphere


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


def test_one_point_is_oful():
    arms = sphere(30, 4)
    for coupled in (True, False):
        policy = RandUCB(points=1, low=1.0, coupled=coupled, delta=0.1)
        state = random_state(policy, arms)
        np.testing.assert_array_equal(
            probabilities(policy, arms, state), probabilities(OFUL(delta=0.1), arms, state)
        )


def test_of_equal_arms_with_a_width_each_the_first_wins_ties():
    policy = RandUCB(delta=0.1, coupled=False)
    arms = np.array([[[0.6, 0.8], [0.6, 0.8]]])
    _, weights = policy.law()
    tie = (weights**2).sum()
    np.testing.assert_allclose(
        probabilities(policy, arms, random_state(policy, arms)), [0.5 + tie / 2, 0.5 - tie / 2], rtol=1e-12
    )
