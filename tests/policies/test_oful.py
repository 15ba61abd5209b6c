"""OFUL, greed and uniform play."""

import numpy as np
import pytest

from linmed.policies import OFUL, Greedy, SquareCB, Uniform
from tests.policies.toy import ARMS, chosen, probabilities, random_state, sphere, state_of


def test_upper_confidence_bounds_of_the_toy_state():
    policy = OFUL(delta=0.1)
    state = state_of(policy)
    radius = policy.radius(state)
    assert radius[0] == pytest.approx(3.5292152, abs=5e-8)
    mean, lower, upper = policy.predict(state, ARMS[0])
    np.testing.assert_allclose(mean, [0.5333333, 0.1, 0.4], atol=5e-8)
    np.testing.assert_allclose(((upper - lower) / (2.0 * radius)) ** 2, [1 / 3, 1 / 2, 0.44], atol=1e-12)
    np.testing.assert_allclose(upper, [2.5709267, 2.5955320, 2.7410165], atol=5e-8)
    np.testing.assert_array_equal(probabilities(policy), [0, 0, 1])


@pytest.mark.parametrize("d", [2, 17, 31])
def test_very_many_arms_have_the_means_and_lengths_that_the_definition_gives(d):
    """More than 2^18 numbers are not held in blocks of eight arms: each block is filled when it is needed."""
    arms = sphere((1 << 18) // d + 5, d)
    state = random_state(OFUL(), arms, 40)
    mean = arms[0] @ state.theta[0]
    leverage = np.einsum("ij,jk,ik->i", arms[0], state.inverse[0], arms[0], optimize=True)
    assert chosen(OFUL(), state, arms)[0] == (mean + OFUL().radius(state)[0] * np.sqrt(leverage)).argmax()
    for oracle, seen in (("ridge", mean), ("vaw", mean / (1.0 + leverage))):
        p = 1.0 / (len(mean) + 1e5 * (seen.max() - seen))
        found = probabilities(SquareCB(oracle=oracle, gamma=1e5), arms, state)
        others = np.arange(len(p)) != seen.argmax()
        np.testing.assert_allclose(found[others], p[others], rtol=1e-9)


@pytest.mark.parametrize("policy", [OFUL(), Greedy()])
def test_equal_arms_go_to_the_lowest_index(policy):
    state = state_of(policy)
    best = chosen(policy, state, ARMS)[0]
    order = [0, best, 1, best, 2, best]
    assert chosen(policy, state, ARMS[:, order])[0] == order.index(best)


def test_before_any_reward_the_longest_arm_is_played_and_ties_go_first():
    policy = OFUL()
    state = policy.start(1, 2)
    assert chosen(policy, state, ARMS * [[[1.0], [2.0], [1.0]]])[0] == 1
    # All of norm 1, but for rounding.
    assert chosen(policy, state, sphere(50, 2))[0] == 0
    assert chosen(policy, state, np.zeros((1, 4, 2)))[0] == 0


def test_greed_plays_the_best_mean_and_explores_with_epsilon():
    np.testing.assert_array_equal(probabilities(Greedy()), [1, 0, 0])
    np.testing.assert_allclose(probabilities(Greedy(epsilon=0.3)), [0.8, 0.1, 0.1])
    assert chosen(Greedy(), Greedy().start(1, 2), ARMS)[0] == 0


def test_uniform_play_still_estimates():
    policy = Uniform()
    np.testing.assert_allclose(probabilities(policy), [1 / 3] * 3)
    np.testing.assert_allclose(state_of(policy).theta[0], [0.5333333, 0.1], atol=5e-8)
    assert policy.choose(state_of(policy), ARMS, np.array([[np.nextafter(1.0, 0.0)]]))[0] == 2
