"""Optimists, greed and uniform play, LinIMED's indices, RandUCB's law, Pinpoint."""

import math

import numpy as np
import pytest

from linmed import Agent, Pinpoint
from linmed.core import core
from linmed.policies import OFUL, Greedy, LinIMED, RandUCB, SquareCB, Uniform
from tests.policies.configurations import warmed_up
from tests.policies.toy import ARMS, ONE, chosen, probabilities, random_state, sphere, state_of
from tests.reference.rules import imed_indices


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
