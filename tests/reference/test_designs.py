"""The core's designs, and the rules made of them, against those of `tests.reference.designs`."""

import math

import numpy as np
import pytest

from linmed.core import core
from linmed.design import approx_design, certificate, optimal_design
from linmed.policies import EXP2, LinMED, SpannerIGW
from tests.reference import designs

SHAPES = [(3, 2), (30, 3), (60, 5), (40, 11)]
MADE = {"approx": designs.approx_design, "warm": designs.approx_design, "optimal": optimal_design}


def sets(K, d, n=3):
    rng = np.random.default_rng([K, d])
    return rng.standard_normal((n, K, d)) * rng.uniform(0.5, 1.0, (n, K, 1))


def situation(policy, arms, rewards=40):
    """The state after some rewards of these arms."""
    rng = np.random.default_rng(7)
    state, d = policy.start(1, arms.shape[1]), arms.shape[1]
    features = arms[rng.integers(len(arms), size=rewards)]
    paid = features @ rng.standard_normal(d) / math.sqrt(d) + 0.3 * rng.standard_normal(rewards)
    policy.learn(state, features, paid, np.zeros(rewards, dtype=np.int64))
    return state


def log_volume(arms, weights):
    return np.linalg.slogdet((arms.T * weights) @ arms)[1]


def law(policy, state, arms):
    return np.exp(policy.log_probabilities(state, arms[None])[0])


@pytest.mark.parametrize(("K", "d"), SHAPES)
def test_designs(K, d):
    for arms in sets(K, d):
        weights = designs.approx_design(arms)
        np.testing.assert_allclose(approx_design(arms), weights, atol=1e-12)
        assert certificate(arms, weights) == pytest.approx(designs.certificate(arms, weights), rel=1e-10)
        optimal, reference = optimal_design(arms), designs.wolfe_atwood(arms, 1e-10)
        assert designs.certificate(arms, optimal) <= 1 + 1e-6
        assert abs(log_volume(arms, optimal) - log_volume(arms, reference)) <= d * 1e-6
        np.testing.assert_allclose(optimal, reference, atol=2e-3)


@pytest.mark.parametrize(("K", "d"), [(30, 3), (60, 5), (12, 2), (10, 4)])
def test_the_design_of_the_public_code(K, d):
    given, weights = sets(K, d), np.empty((3, K))
    core.centred_design(given, weights)
    for arms, found in zip(given, weights, strict=True):
        np.testing.assert_allclose(found, designs.centred_design(arms), atol=1e-12)


@pytest.mark.parametrize(
    ("design", "version"), [("approx", 0), ("approx", 1), ("optimal", 0), ("optimal", 1), ("warm", 0)]
)
@pytest.mark.parametrize(("K", "d"), SHAPES)
def test_linmed(K, d, design, version):
    policy = LinMED(sigma=0.3, alpha_emp=0.5, version=version, design=design)
    for arms in sets(K, d):
        for rewards in (3, 40):
            state = situation(policy, arms, rewards)
            inverse, beta = state.inverse[0], policy.radius(state)[0] ** 2
            best, f = designs.divergences(state.theta[0], inverse, beta, arms)
            weights = designs.augmented_design(arms, f, version, MADE[design])
            leverage = np.array([a @ inverse @ a for a in arms])
            expected = designs.linmed(best, f, leverage, 0.5, 0.25, weights)
            np.testing.assert_allclose(law(policy, state, arms), expected, rtol=1e-9, atol=1e-12)
            for uniform in (
                0.03,
                0.31,
                0.57,
                0.83,
                0.99,
            ):  # the first arm at which the running total exceeds it
                arm = np.searchsorted(np.cumsum(expected), uniform, side="right")
                assert policy.choose(state.copy(), arms[None], np.array([[uniform]]))[0] == arm


def test_a_warm_design_goes_on_from_the_last():
    arms, policy = sets(60, 4)[0], LinMED(sigma=0.3, alpha_emp=0.5, design="warm")
    state = situation(policy, arms)
    for _ in range(3):
        policy.choose(state, arms[None], np.array([[0.5]]))
        support = state.support[0][state.support[0] >= 0]
        inverse, beta = state.inverse[0], policy.radius(state)[0] ** 2
        best, f = designs.divergences(state.theta[0], inverse, beta, arms)
        leverage = np.array([a @ inverse @ a for a in arms])
        weights = designs.warm_design(arms, f, support)
        expected = designs.linmed(best, f, leverage, 0.5, 0.25, weights)
        np.testing.assert_allclose(law(policy, state, arms), expected, rtol=1e-9)
        # Of a design that went on from another, the arms are remembered that carry it.
        scaled, following = arms * np.sqrt(f)[:, None], state.copy()
        policy.choose(following, arms[None], np.array([[0.5]]))
        carrying = (weights > 0) & (designs.leverages(scaled, following.size[0] * weights) >= 0.1)
        kept = following.support[0][following.support[0] >= 0]
        np.testing.assert_array_equal(kept, np.flatnonzero(carrying))
        policy.learn(state, arms[:5], np.array([0.3, 0.1, -0.2, 0.5, 0.0]), np.zeros(5, dtype=np.int64))


@pytest.mark.parametrize("design", ["approx", "optimal"])
@pytest.mark.parametrize(("K", "d"), SHAPES)
def test_spanner_igw(K, d, design):
    policy = SpannerIGW(gamma=40.0, C_opt=2.0, design=design, floor=0.1)
    for arms in sets(K, d):
        state = situation(policy, arms)
        p = designs.spanner_igw(state.theta[0], arms, 40.0, 2.0, MADE[design])
        np.testing.assert_allclose(law(policy, state, arms), 0.9 * p + 0.1 / K, rtol=1e-9)


@pytest.mark.parametrize("horizon", [None, 500])
@pytest.mark.parametrize(("K", "d"), SHAPES)
def test_exp2(K, d, horizon):
    policy, rng = EXP2(horizon=horizon), np.random.default_rng(5)
    for arms in sets(K, d):
        state, total = policy.start(1, d), np.zeros(d)
        design = optimal_design(arms, tol=1e-9)
        for t in range(4):
            P = designs.exp2(total, arms, *designs.exp2_rates(t, horizon, d, K), design)
            np.testing.assert_allclose(law(policy, state, arms), P, rtol=1e-9)
            arm, reward = rng.integers(K), rng.standard_normal()
            features = policy.features(state, arms[None], np.array([arm]))
            np.testing.assert_allclose(features[0], designs.exp2_estimate(P, arms, arm), rtol=1e-9, atol=1e-9)
            policy.learn(state, features, np.array([reward]), np.zeros(1, dtype=np.int64))
            total += features[0] * reward
            np.testing.assert_allclose(state.theta[0], total / (t + 1), rtol=1e-9, atol=1e-9)
