"""LinIMED's three indices."""

import math

import numpy as np
import pytest

from linmed.policies import LinIMED
from tests.policies.toy import ARMS, chosen, probabilities, random_state, sphere, state_of
from tests.reference.rules import imed_indices

MEAN, LEVERAGE, RADIUS = np.array([1.6 / 3, 0.1, 0.4]), np.array([1 / 3, 1 / 2, 0.44]), 3.52921522


def indices(version, mean=MEAN, leverage=LEVERAGE, radius=RADIUS, C=30.0, log_horizon=6.907755278982137):
    return imed_indices(mean, np.sqrt(leverage), radius, version, C, log_horizon)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (1, [-1.4235388, -1.7988518, -1.6979266]),
        (2, [-1.4235388, -1.7988518, -1.6979266]),
        (3, [-1.4165706, -1.8256052, -1.7011705]),
    ],
)
def test_indices_of_the_toy_state(version, expected):
    np.testing.assert_allclose(indices(version), expected, atol=1.5e-7)
    np.testing.assert_array_equal(probabilities(LinIMED(version=version, horizon=1000, delta=0.1)), [0, 1, 0])


def test_version_3_caps_the_leader_by_the_widest_gap_between_upper_bounds():
    ucb = MEAN + RADIUS * np.sqrt(LEVERAGE)
    widest = (ucb.max() - ucb).max()
    np.testing.assert_allclose(ucb.max() - ucb, [0.1700899, 0.1454845, 0], atol=5e-8)
    assert math.log(30 / widest**2) == pytest.approx(6.9440543, abs=5e-7)
    assert indices(3, C=1e-9)[2] == pytest.approx(math.log(1e-9 / widest**2))


def test_versions_1_and_2_agree_while_the_horizon_is_long_enough():
    """log T ≥ −log(β‖â‖²): the cap does not bite."""
    arms = sphere(9, 4)
    for n in (1, 30, 400):
        one, two = LinIMED(delta=0.05), LinIMED(version=2, horizon=10**6, delta=0.05)
        state = random_state(one, arms, n)
        assert chosen(one, state, arms)[0] == chosen(two, state, arms)[0]
    np.testing.assert_array_equal(indices(2, log_horizon=-1.5)[0], -1.5)


def test_without_a_horizon_version_2_uses_the_current_round():
    anytime, fixed = LinIMED(version=2), LinIMED(version=2, horizon=31)
    arms = sphere(5, 3)
    state = random_state(anytime, arms, 30)
    assert chosen(anytime, state, arms)[0] == chosen(fixed, state, arms)[0]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_zero_arm_is_played_only_when_there_is_no_other(version):
    policy = LinIMED(version=version)
    state = state_of(policy)
    with_zero = np.concatenate([np.zeros((1, 2, 2)), -ARMS], axis=1)  # all means negative: zero looks best
    assert chosen(policy, state, with_zero)[0] >= 2
    assert chosen(policy, state, np.zeros((1, 3, 2)))[0] == 0
    assert chosen(policy, state, np.repeat(ARMS[:, :1], 4, axis=1))[0] == 0  # all gaps zero: no cap


def test_scaling_shifts_version_1_by_a_constant():
    c = 7.0
    np.testing.assert_allclose(
        indices(1, mean=c * MEAN, radius=c * RADIUS), indices(1) - 2 * math.log(c), atol=1e-12
    )
