"""Optimists, greed and uniform play, LinIMED's indices, RandUCB's law, Pinpoint."""

import math

import numpy as np
import pytest

from linmed import Agent, Pinpoint
from linmed.core import core
from linmed.policies import OFUL, Greedy, LinIMED, RandUCB, SquareCB
from tests.policies.configurations import warmed_up
from tests.policies.toy import ARMS, ONE, chosen, probabilities, random_state, sphere, state_of
from tests.reference.rules import pinpoint


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


def test_the_law_is_a_half_gaussian_with_a_little_mass_at_the_radius():
    grid, weights = RandUCB().law()
    np.testing.assert_allclose(grid, np.arange(20) / 19)
    np.testing.assert_allclose(weights[:4], [0.2876356, 0.2632362, 0.2017690, 0.1295297], atol=5e-8)
    assert weights[-1] == 1e-7
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)


def test_of_equal_arms_with_a_width_each_the_first_wins_ties():
    policy = RandUCB(delta=0.1, coupled=False)
    arms = np.array([[[0.6, 0.8], [0.6, 0.8]]])
    _, weights = policy.law()
    tie = (weights**2).sum()
    np.testing.assert_allclose(
        probabilities(policy, arms, random_state(policy, arms)), [0.5 + tie / 2, 0.5 - tie / 2], rtol=1e-12
    )


def test_an_infinite_radius_is_a_very_large_one():
    rng = np.random.default_rng(1)
    arms = rng.standard_normal((1, 9, 3))
    policies = [Pinpoint(floor=0.0, label=str(beta)) for beta in (math.inf, 1e100, 1e12)]
    for policy, beta in zip(policies, (math.inf, 1e100, 1e12), strict=True):
        vars(policy)["confidence_set"] = core.FixedSet(beta)
    state = warmed_up(Pinpoint(), arms, rng)
    played = [int(policy.choose(state, arms, ONE)[0]) for policy in policies]
    assert played == [pinpoint(state.theta[0], state.inverse[0], 1e50, arms[0])] * 3
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
