"""Confidence sets with nothing to guess: worked numbers, identities, and what each promises of itself."""

import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linmed import OFUL, Agent, LinMED, LinTS
from linmed.policies import LinIMED, RandUCB
from linmed.policies.ridge import LEARNED

TOY_ARMS = np.array([(1.0, 0.0), (0.6, 0.8), (0.0, 1.0), (1.0, 0.0)])
TOY_REWARDS = np.array([0.9, 1.3, 0.4, 1.2])


def toy(**told):
    return Agent(LinMED(**{"norm_bound": 2.0, "ridge": 0.25, "delta": 0.05, **told}), dim=2, seed=0)


def beta(agent):
    return agent.policy.radius(agent.state)[0] ** 2


@pytest.mark.parametrize(
    ("confidence", "expected"),
    [("paper", 6.78929015593), ("mixture", 3.57803688789), ("empirical", 3.80312135474)],
)
def test_the_radii_of_the_toy_problem(confidence, expected):
    agent = toy(sigma=0.5, confidence=confidence)
    agent.observe(TOY_ARMS, TOY_REWARDS)
    assert beta(agent) == pytest.approx(expected, abs=1e-10)


def one_scale(count, logdet, rss, c):
    """M of one prior scale as the sum over rewards has it, in 100-bit arithmetic."""
    with mpmath.workprec(100):
        half = mpmath.mpf(1) / 2
        n = mpmath.mpf(count)
        return (
            half * logdet
            + n / 2 * mpmath.log(mpmath.pi)
            + mpmath.loggamma(half)
            - mpmath.loggamma((n + 1) / 2)
            + (n + 1) / 2 * mpmath.log(mpmath.mpf(c) ** 2 + rss)
            - mpmath.log(c)
        )


def gaussian_beta(state, ridge, norm, delta, scale=1.0):
    """β of unknown σ from the sums of a state, in 100-bit arithmetic."""
    n, logdet, rss = int(state.count[0]), float(state.logdet[0]), float(state.rss[0])
    with mpmath.workprec(100):
        M = [one_scale(n, logdet, rss, scale * 10 ** (mpmath.mpf(g) / 2 - 3)) for g in range(13)]
        mixed = -mpmath.log(mpmath.fsum(mpmath.exp(-m) for m in M) / 13)
        R = mpmath.mpf(n) / (2 * mpmath.pi * mpmath.e) * mpmath.exp(2 * (mixed - mpmath.log(delta)) / n)
        beyond = max(mpmath.mpf(0), R - rss)
        if norm == "unknown":
            trace, length = np.trace(state.inverse[0]), math.sqrt(float(state.theta[0] @ state.theta[0]))
            c = ridge * trace
            if c >= 1:
                return math.inf
            norm = (length + mpmath.sqrt(c * length**2 + (1 - c) * trace * beyond)) / (1 - c)
        return float(ridge * norm**2 + beyond)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    dim=st.integers(1, 5),
    n=st.integers(1, 300),
    unit=st.sampled_from([1e-4, 0.1, 1.0, 50.0]),
    norm=st.sampled_from([0.5, "unknown"]),
)
def test_the_radius_of_unknown_noise_is_its_formula(seed, dim, n, unit, norm):
    rng = np.random.default_rng(seed)
    features, rewards = rng.normal(size=(n, dim)) / 2, unit * rng.normal(size=n)
    agent = Agent(LinMED(sigma="unknown", norm_bound=norm, delta=0.05), dim=dim, seed=0)
    agent.observe(features, rewards)
    assert beta(agent) == pytest.approx(gaussian_beta(agent.state, 0.01, norm, 0.05), rel=1e-9)


@pytest.mark.parametrize("told", [{"sigma": "unknown"}, {"norm_bound": "unknown"}])
def test_nothing_is_known_before_the_first_reward(told):
    policy = LinMED(**told)
    state = policy.start(2, 3)
    assert np.isinf(policy.radius(state)).all()
    arms = np.random.default_rng(0).normal(size=(1, 5, 3))
    p = np.exp(policy.log_probabilities(state, arms))
    even = np.exp(LinMED(**told, alpha_emp=0.5, alpha_opt=0.0, explore=False).log_probabilities(state, arms))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.sort(even[0]), [0.1, 0.1, 0.1, 0.1, 0.6], rtol=1e-12)  # p = q: f is 1


@pytest.mark.parametrize(
    "policy",
    [OFUL, LinIMED, RandUCB, LinTS, LinMED],
    ids=lambda cls: cls.__name__,
)
def test_before_the_first_reward_rules_look_at_leverage_alone(policy):
    """As they would with a radius beyond all bounds; no infinity reaches a number."""
    made = policy(sigma="unknown")
    arms = np.array([[[0.1, 0.0], [0.0, 0.9], [0.3, 0.3]]])
    log_p = made.log_probabilities(made.start(1, 2), arms)
    assert not np.isnan(log_p).any()
    assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-9)
    assert np.exp(log_p[0]).argmax() == 1


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), sigma=st.floats(0.01, 10), norm=st.floats(0.1, 10))
def test_mixture_is_never_larger_than_the_papers(seed, sigma, norm):
    rng = np.random.default_rng(seed)
    agents = [
        Agent(LinMED(sigma=sigma, norm_bound=norm, confidence=confidence), dim=3, seed=0)
        for confidence in ("paper", "mixture")
    ]
    for _ in range(20):
        features, reward = rng.normal(size=3), rng.normal()
        for agent in agents:
            agent.observe(features, reward)
        paper, mixture = map(beta, agents)
        assert mixture <= paper * (1 + 1e-12)


def test_strict_tails_follow_their_formula():
    rng = np.random.default_rng(3)
    features, rewards = rng.normal(size=(400, 2)), rng.uniform(-1, 1, 400)
    agent = Agent(LinMED(sigma="unknown", tails="strict", delta=0.05), dim=2, seed=0)
    agent.observe(features, rewards)
    n, logdet, rss, ell = 400, agent.state.logdet[0], agent.state.rss[0], math.log(2 / 0.05)
    u = np.geomspace(0.005, 4, 32)
    c = np.max((n * (u - 1.5 * u**2) - ell - math.log(32)) / u)
    expected = 0.01 + rss / (c - logdet - 2 * ell) * (logdet + 2 * ell)
    assert beta(agent) == pytest.approx(expected, rel=1e-12)
    fresh = Agent(LinMED(sigma="unknown", tails="strict", delta=0.05), dim=2, seed=0)
    fresh.observe(features[:20], rewards[:20])
    assert math.isinf(beta(fresh))  # too few to bound the noise


def test_a_small_fourth_moment_is_not_enough_for_strict_tails():
    """docs/nothing-to-guess.md: E η⁴/σ⁴, and the least sub-Gaussian proxy over the variance, of four laws."""
    u = np.concatenate([np.linspace(-30, -0.01, 3000), np.linspace(0.01, 30, 3000)])

    def figures(values, chances):
        variance = chances @ values**2
        assert chances @ values == pytest.approx(0.0, abs=1e-12)
        proxy = np.max(2 * np.log(np.exp(np.outer(u, values)) @ chances) / u**2)
        return chances @ values**4 / variance**2, proxy / variance

    coin = figures(np.array([-0.25, 0.75]), np.array([0.75, 0.25]))
    assert coin == pytest.approx((7 / 3, 0.5 / (2 * math.log(3)) / (3 / 16)), rel=1e-5)
    rare = figures(np.array([-1.0, 0.0, 1.0]), np.array([0.05, 0.9, 0.05]))
    grid = np.linspace(-1, 1, 2001)
    for strict in (([-1.0, 1.0], [0.5, 0.5]), (grid, np.full(2001, 1 / 2001))):
        kurtosis, proxy = figures(*map(np.array, strict))
        assert kurtosis < 3
        assert proxy <= 1 + 1e-9
    page = (Path(__file__).parents[2] / "docs" / "nothing-to-guess.md").read_text(encoding="utf-8")
    assert f"E η⁴ = {coin[0]:.2f} σ⁴ and needs a σ² of {coin[1]:.2f} times" in page
    assert f"E η⁴ = {rare[0]:.0f} σ⁴" in page
    assert rare[1] > 1


@pytest.mark.parametrize("tails", ["gaussian", "strict"])
def test_rewards_that_are_all_alike_leave_some_doubt(tails):
    agent = Agent(LinMED(sigma="unknown", norm_bound="unknown", tails=tails, delta=0.05), dim=2, seed=0)
    agent.observe(np.tile(np.eye(2), (200, 1)), np.zeros(400))
    assert 0.0 < beta(agent) < 1.0


def test_the_sums_do_not_drift_in_a_million_rewards():
    """A hundred arms ten thousand times, against 200-bit arithmetic."""
    rng = np.random.default_rng(5)
    arms, noise = rng.normal(size=(100, 4)) / 2, rng.normal(size=(1000, 100))
    means = np.einsum("kd,d->k", arms, [0.3, -0.2, 0.1, 0.4])
    policy = LinMED(sigma="unknown")
    state = policy.start(1, 4)
    features, rewards = np.tile(arms, (1000, 1)), (means + 0.05 * noise).reshape(-1)
    for _ in range(10):
        policy.learn(state, features, rewards, np.zeros(100_000, dtype=np.int64))
    with mpmath.workprec(200):
        total = 10 * math.fsum(rewards**2)
        V, b = mpmath.matrix(4, 4), mpmath.matrix(4, 1)
        sums = [math.fsum(rewards[k::100]) for k in range(100)]
        for i in range(4):
            b[i] = 10 * mpmath.fsum(mpmath.mpf(arms[k, i]) * sums[k] for k in range(100))
            for j in range(4):
                V[i, j] = 10_000 * mpmath.fsum(
                    mpmath.mpf(arms[k, i]) * mpmath.mpf(arms[k, j]) for k in range(100)
                )
            V[i, i] += mpmath.mpf(0.01)
        theta = V**-1 * b
        rss = float(total - mpmath.fsum(b[i] * theta[i] for i in range(4)))
        logdet = float(mpmath.log(mpmath.det(V)) - 4 * mpmath.log(mpmath.mpf(0.01)))
    assert state.count[0] == 1_000_000
    assert state.rss[0] == pytest.approx(rss, rel=1e-9)
    assert state.logdet[0] == pytest.approx(logdet, rel=1e-9)


@pytest.mark.parametrize("size", [0.003, 30.0])
def test_the_ridge_that_is_learned_fits_the_size_of_theta(size):
    """θ* of size ‖θ*‖ ≪ σ wants a strong prior, of size ≫ σ none: 60 dimensions, 600 rewards."""
    rng = np.random.default_rng(7)
    features = rng.normal(size=(600, 60)) / math.sqrt(60)
    theta = size * rng.normal(size=60)
    agent = Agent(LinMED(sigma="unknown", ridge="learned"), dim=60, seed=0)
    agent.observe(features, np.einsum("nd,d->n", features, theta) + rng.normal(size=600))
    assert LEARNED[agent.state.leader[0]] == (100.0 if size < 1 else 0.01)


def test_the_radius_of_a_learned_ridge_is_that_of_its_prior():
    """β = σ̂² (d + log det + 2ℓ), σ̂² the log-average over prior scales of (c² + RSS)/(n + 1)."""
    rng = np.random.default_rng(11)
    features, rewards = rng.normal(size=(30, 4)), 0.01 * rng.normal(size=30)
    for sigma in ("unknown", 0.3):
        scale = abs(rewards[0])  # the first reward's size is the unit
        agent = Agent(LinMED(sigma=sigma, ridge="learned", delta=0.1), dim=4, seed=0)
        agent.observe(features, rewards)
        model = agent.policy.estimate(agent.state)
        scales = scale * 10 ** (np.arange(13) / 2 - 3)
        log_weight = np.log(scales) - 15.5 * np.log(scales**2 + model.rss[0])
        weight = np.exp(log_weight - log_weight.max())
        guess = np.exp(np.sum(weight * np.log(scales**2 + model.rss[0])) / weight.sum()) / 31
        variance = guess if sigma == "unknown" else 0.09
        expected = variance * (4 + model.logdet[0] + 2 * math.log(10))
        assert beta(agent) == pytest.approx(expected, rel=1e-12)
        assert agent.policy.noise_level(agent.state)[0] ** 2 == pytest.approx(variance, rel=1e-12)
    assert guess == pytest.approx(model.rss[0] / 30, rel=0.1)


def test_the_covariance_of_unknown_noise_is_estimated():
    rng = np.random.default_rng(10)
    features = rng.normal(size=(5_000, 3))
    agent = Agent(LinMED(sigma="unknown", ridge="learned"), dim=3, seed=0)
    agent.observe(features, features[:, 0] + 0.2 * rng.normal(size=5_000))
    expected = 0.04 * np.linalg.inv(np.einsum("ni,nj->ij", features, features))
    np.testing.assert_allclose(agent.covariance, expected, rtol=0.1, atol=1e-6)
