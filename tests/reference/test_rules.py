"""The core's rules and beliefs against those of `tests.reference.rules`."""

import math

import numpy as np
import pytest

from linmed.core import core
from linmed.policies import (
    OFUL,
    DLinUCB,
    Greedy,
    LinIMED,
    LinMED,
    MaillardSampling,
    Pinpoint,
    RandUCB,
    SquareCB,
    SWLinUCB,
)
from tests.reference import rules

SHAPES = [(2, 1), (7, 3), (40, 4), (33, 17)]


def situation(policy, K, d, rewards=60):
    """A set of arms, features and rewards of which the policy's state has learned, and that state."""
    rng = np.random.default_rng([K, d])
    arms = rng.standard_normal((K, d))
    arms *= rng.uniform(0.5, 1.0, (K, 1)) / np.linalg.norm(arms, axis=1, keepdims=True)
    features = arms[rng.integers(K, size=rewards)]
    paid = features @ rng.standard_normal(d) / math.sqrt(d) + 0.3 * rng.standard_normal(rewards)
    state = policy.start(1, d)
    policy.learn(state, features, paid, np.zeros(rewards, dtype=np.int64))
    return arms, features, paid, state


def law(policy, state, arms):
    return np.exp(policy.log_probabilities(state, arms[None])[0])


def one(arm, K, share=0.0):
    return (1.0 - share) * np.eye(K)[arm] + share / K


@pytest.mark.parametrize(("K", "d"), SHAPES)
def test_rules_that_play_one_arm(K, d):
    for rewards in (5, 60):
        for policy, rule in [
            (OFUL(sigma=0.3, floor=0.1), rules.oful),
            (Pinpoint(sigma=0.3, floor=0.1), rules.pinpoint),
            (Greedy(sigma=0.3, epsilon=0.1), lambda theta, inverse, radius, arms: rules.greedy(theta, arms)),
            *((LinIMED(sigma=0.3, version=v, C=2.0, floor=0.1), imed(v, rewards)) for v in (1, 2, 3)),
        ]:
            arms, _, _, state = situation(policy, K, d, rewards)
            radius = policy.radius(state)[0]
            for offered in (arms, 0.01 * arms):  # of short arms all is known
                expected = one(rule(state.theta[0], state.inverse[0], radius, offered), K, 0.1)
                np.testing.assert_allclose(law(policy, state, offered), expected, rtol=1e-12)


def imed(version, rewards):
    def rule(theta, inverse, radius, arms):
        width = rules.widths(inverse, arms)
        index = rules.imed_indices(arms @ theta, width, radius, version, 2.0, math.log(rewards + 1))
        return int(np.argmin(index))

    return rule


@pytest.mark.parametrize(("K", "d"), SHAPES)
@pytest.mark.parametrize("low", [0.0, -1.0])
def test_rand_ucb(K, d, low):
    for coupled, rule in ((True, rules.rand_ucb), (False, rules.rand_ucb_uncoupled)):
        policy = RandUCB(sigma=0.3, coupled=coupled, low=low, points=7, spread=0.5, top=0.05, floor=0.2)
        arms, _, _, state = situation(policy, K, d)
        expected = rule(state.theta[0], state.inverse[0], policy.radius(state)[0], arms, *policy.law())
        np.testing.assert_allclose(law(policy, state, arms), 0.8 * expected + 0.2 / K, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize(("K", "d"), SHAPES)
@pytest.mark.parametrize("oracle", ["ridge", "vaw"])
def test_square_cb(K, d, oracle):
    for form, rule in (("rest", rules.square_cb), ("normalised", rules.square_cb_normalised)):
        policy = SquareCB(sigma=0.3, oracle=oracle, form=form)
        arms, _, _, state = situation(policy, K, d)
        mean = arms @ state.theta[0]
        if oracle == "vaw":
            mean /= 1.0 + rules.widths(state.inverse[0], arms) ** 2
        regret = policy.lam + (0.3**2 + 1.0) * state.logdet[0]
        gamma = math.sqrt(K * 61 / (regret + math.log(2 * 62)))
        assert policy.exploration(state, K)[0] == pytest.approx(gamma, rel=1e-12)
        np.testing.assert_allclose(law(policy, state, arms), rule(mean, gamma), rtol=1e-10)


def test_maillard_sampling():
    rng, policy = np.random.default_rng(0), MaillardSampling(sigma=0.4)
    state = policy.start(1, 6)
    pulled, paid = rng.integers(5, size=40), rng.standard_normal(40)
    for some in (slice(0, 0), slice(0, 40)):
        policy.learn(state, np.eye(6)[pulled[some]], paid[some], np.zeros(len(paid[some]), dtype=np.int64))
        pulls = np.bincount(pulled[some], minlength=6)
        means = np.bincount(pulled[some], paid[some], minlength=6) / np.maximum(pulls, 1)
        for offered in ([0, 1, 2, 3, 4, 5], [4, 2, 0], [1, 1, 3]):
            expected = rules.maillard(means[offered], pulls[offered], 0.4)
            np.testing.assert_allclose(law(policy, state, np.eye(6)[offered]), expected, rtol=1e-12)


@pytest.mark.parametrize(("K", "d"), SHAPES)
@pytest.mark.parametrize("intercept", [False, True])
def test_ridge_estimates_and_the_likeliest_of_several(K, d, intercept):
    estimate = rules.ridge_with_intercept if intercept else rules.ridge
    policy = LinMED(sigma=0.3, ridge=0.7, intercept=intercept)
    _, features, paid, state = situation(policy, K, d)
    V, theta = estimate(0.7, features, paid)
    np.testing.assert_allclose(state.theta[0], theta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(state.inverse[0], np.linalg.inv(V), rtol=1e-9, atol=1e-11)

    policy = LinMED(sigma=0.3, ridge="learned", intercept=intercept)
    _, features, paid, state = situation(policy, K, d)
    if intercept:  # contrasts of noise of one size are independent, too
        n = np.arange(1.0, len(paid))[:, None]
        root = np.sqrt(n / (n + 1.0))
        features = root * (features[1:] - np.cumsum(features, axis=0)[:-1] / n)
        paid = root[:, 0] * (paid[1:] - np.cumsum(paid)[:-1] / n[:, 0])
    seen = np.flatnonzero((features**2).sum(axis=1) > 0.0)[0]
    lams = np.array([0.01, 0.1, 1.0, 10.0, 100.0]) * (features[seen] ** 2).sum()
    surprise = [rules.evidence(lam, features, paid, 0.3) for lam in lams]
    np.testing.assert_allclose(
        state.surprise[0] - state.surprise[0, 0], np.subtract(surprise, surprise[0]), atol=1e-8
    )
    assert state.leader[0] == int(np.argmin(surprise))
    V, theta = rules.ridge(lams[state.leader[0]], features, paid)
    np.testing.assert_allclose(state.theta[0], theta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(state.leading("inverse")[0], np.linalg.inv(V), rtol=1e-9, atol=1e-11)
    if intercept:
        np.testing.assert_allclose(state.count, len(paid) + 1)


@pytest.mark.parametrize(("K", "d"), SHAPES)
def test_estimates_that_forget(K, d):
    fading = DLinUCB(sigma=0.3, half_life=15.0, delta=0.1, arm_bound=0.9)
    arms, features, paid, state = situation(fading, K, d)
    theta, spread = rules.faded(fading.lam, fading.gamma, features, paid)
    np.testing.assert_allclose(state.theta[0], theta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(state.inverse[0], spread, rtol=1e-9, atol=1e-11)
    radius = rules.faded_radius(60, d, 0.3, 0.1, fading.lam, 1.0, 0.9, fading.gamma)
    assert fading.radius(state)[0] == pytest.approx(radius, rel=1e-12)
    np.testing.assert_array_equal(law(fading, state, arms), one(rules.oful(theta, spread, radius, arms), K))

    window = SWLinUCB(sigma=0.3, window=25, delta=0.1, arm_bound=0.9)
    arms, features, paid, state = situation(window, K, d)
    V, theta = rules.ridge(window.lam, features[-25:], paid[-25:])
    np.testing.assert_allclose(state.theta[0], theta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(state.inverse[0], np.linalg.inv(V), rtol=1e-9, atol=1e-11)
    radius = rules.windowed_radius(d, 0.3, 0.1, window.lam, 1.0, 0.9, 25)
    assert window.radius(state)[0] == pytest.approx(radius, rel=1e-12)
    np.testing.assert_array_equal(
        law(window, state, arms), one(rules.oful(theta, np.linalg.inv(V), radius, arms), K)
    )


def decided(belief, rule, K, uniform=0.3):
    """The arm and the law that a rule has among K one-hot arms."""
    played, log_p = np.zeros((1, 1), dtype=np.int64), np.empty((1, 1, K))
    nothing, none, noise = np.empty((0, 0, 0)), np.empty((0, 0)), np.full((1, 1, 1), uniform)
    core.play(belief, core.FixedSet(1.0), rule, np.eye(K)[None, None], nothing, none, noise, played, log_p)
    return int(played[0, 0]), np.exp(log_p[0, 0])


def test_an_opening_lasts_until_the_first_reward():
    policy = Greedy()
    state = policy.start(1, 3)
    rule = core.OpeningRule(core.UniformRule(), core.GreedyRule(0.0))
    np.testing.assert_allclose(decided(policy.bind(state), rule, 3)[1], 1.0 / 3.0)
    policy.learn(state, np.eye(3)[[1]], np.ones(1), np.zeros(1, dtype=np.int64))
    np.testing.assert_array_equal(decided(policy.bind(state), rule, 3)[1], [0, 1, 0])
    floored = core.FlooredRule(rule, 0.3)
    np.testing.assert_allclose(decided(policy.bind(state), floored, 3)[1], [0.1, 0.8, 0.1])
    assert [decided(policy.bind(state), floored, 3, u)[0] for u in (0.05, 0.15, 0.25, 0.3, 0.99)] == [
        0,
        1,
        2,
        1,
        1,
    ]


def test_what_does_not_fit_together_is_refused():
    pulls, ridge = (
        MaillardSampling().bind(MaillardSampling().start(1, 3)),
        Greedy().bind(Greedy().start(1, 3)),
    )
    for belief, rule, reason in [
        (ridge, core.MaillardRule(1.0), "by Pulls alone"),
        (pulls, core.PinpointRule(0.1), "this rule cannot decide"),
        (pulls, core.OfulRule(0.1), "no lengths of arms"),
        (pulls, LinMED().rule, "no lengths of arms"),
        (pulls, core.SquareRule(False, False, 0.0, 0.0, -1.0, 1.0, 1.0, 1.0, 1.0), "needs gamma"),
    ]:
        with pytest.raises(ValueError, match=reason):
            decided(belief, rule, 3)
    for share in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="share must be above 0"):
            core.FlooredRule(core.UniformRule(), share)
    for grid, weights in ((np.empty(0), np.empty(0)), (np.ones(2), np.ones(3))):
        with pytest.raises(ValueError, match="grid and weights must be"):
            core.RandomisedRule(grid, weights, True, 0.0)
    experts = LinMED(ridge="learned").start(1, 3).parts()
    with pytest.raises(ValueError, match="as many rows for every entry of leader"):
        core.RidgeExperts(*experts[:-1], np.zeros(2, dtype=np.int64))
    with pytest.raises(TypeError, match="leader is missing"):
        core.RidgeExperts(*experts[:-1])
    with pytest.raises(ValueError, match="surprise must have shape"):
        core.RidgeExperts(*experts[:-2], np.zeros(4), experts[-1])
    for kind in range(6):
        with pytest.raises(ValueError, match="of ridge estimates"):
            core.radii(pulls, core.RidgeSet(kind, 1.0, -1.0, 1.0, 1.0, 1.0, False), np.empty(1))
    window = SWLinUCB(window=2).start(1, 3)._replace(vectors=np.empty((1, 0, 3)), rewards=np.empty((1, 0)))
    with pytest.raises(ValueError, match="w at least 1"):
        core.Windowed(*window)


def test_numbers_that_no_state_has_lead_to_no_place_outside_an_array():
    policy = LinMED(ridge="learned")
    state = policy.start(1, 3)
    for leader in (99, -7):
        state.leader[:] = leader
        assert decided(policy.bind(state), policy.rule, 3)[1].sum() == pytest.approx(1.0)
    for uniform in (math.nan, -3.0, 1.0, 1e300, -math.inf):
        for rule in (core.UniformRule(), core.FlooredRule(core.UniformRule(), 0.4)):
            assert 0 <= decided(policy.bind(state), rule, 3, uniform)[0] < 3
    window = SWLinUCB(window=4)
    state = window.start(1, 3)
    state.count[:] = -2
    window.learn(state, np.eye(3), np.ones(3), np.zeros(3, dtype=np.int64))
    assert np.isfinite(state.theta).all()
