"""The core's generalised linear models, and its forgetting, against those of `tests.reference.glm`."""

import math

import numpy as np
import pytest

from linmed.core import core
from linmed.policies import GLMMED, Forgetful, LinMED, LogisticMED, LogisticUCB
from linmed.policies.glm import FAMILIES, INTERCEPT
from linmed.policies.ridge import LEARNED
from tests.reference import glm

BASE = INTERCEPT**-2


def draw(family, rows, theta, rng):
    z = rows @ theta - 0.5
    if family == "logistic":
        return (rng.random(len(z)) < 1.0 / (1.0 + np.exp(-z))).astype(float)
    return rng.poisson(np.exp(z)).astype(float) if family == "poisson" else z + rng.standard_normal(len(z))


def with_one(rows, intercept=True):
    return np.insert(rows, 0, 1.0, axis=-1) if intercept else rows


def log_of_one(family, dim, count, seed=0):
    rng = np.random.default_rng([dim, seed])
    rows = rng.standard_normal((count, dim)) / math.sqrt(dim)
    return rows, draw(family, rows, rng.standard_normal(dim), rng), rng.standard_normal((9, dim))


def learn(policy, rows, rewards):
    state = policy.start(1, rows.shape[1])
    policy.learn(state, rows, rewards, np.zeros(len(rows), dtype=np.int64))
    return state


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dim", "intercept"), [(1, True), (3, True), (4, False), (9, True)])
def test_models_and_their_laws(family, dim, intercept):
    rows, rewards, arms = log_of_one(family, dim, 40)
    policy = GLMMED(
        family=family, norm_bound=2.0, delta=0.05, alpha_opt=0.0, intercept=intercept, ties="first"
    )
    state = learn(policy, rows, rewards)
    model = glm.Glm(family, [BASE] * intercept + [0.25] * dim)
    for row, reward in zip(with_one(rows, intercept), rewards, strict=True):
        model.learn(row, reward)
    np.testing.assert_allclose(state.theta[0], model.x[-dim:], rtol=1e-10, atol=1e-12)
    inverse = np.linalg.inv(model.H)[-dim:, -dim:]
    np.testing.assert_allclose(state.inverse[0, 0], inverse, rtol=1e-9, atol=1e-12)
    prior = np.diag([BASE] * intercept + [0.25] * dim)
    beta = 1.0 + intercept + 2.0 * math.log(20.0) + np.linalg.slogdet(np.linalg.solve(prior, model.H))[1]
    assert policy.radius(state)[0] ** 2 == pytest.approx(beta, rel=1e-11)
    expected = glm.law(model, with_one(arms, intercept), beta, 0.9)
    p = np.exp(policy.log_probabilities(state, arms[None])[0])
    np.testing.assert_allclose(p, expected, rtol=1e-9)
    if family == "logistic":
        ucb = LogisticUCB(norm_bound=2.0, delta=0.05, intercept=intercept)
        played = ucb.choose(learn(ucb, rows, rewards), arms[None], np.zeros((1, 1)))
        assert played[0] == glm.optimistic(model, with_one(arms, intercept), beta)


@pytest.mark.parametrize("family", FAMILIES)
def test_certified_radii(family):
    rows, rewards, _ = log_of_one(family, 3, 30)
    policy = GLMMED(family=family, norm_bound=2.0, delta=0.05, confidence="certified")
    within = 2.0 - 2.0 * math.log(1e-6)
    model = glm.CertifiedGlm(family, [BASE] + [0.25] * 3, 2.0, within)
    for row, reward in zip(with_one(rows), rewards, strict=True):
        model.learn(row, reward)
    beta = 2.0 + 2.0 * math.log(20.0) + model.excess
    assert policy.radius(learn(policy, rows, rewards))[0] ** 2 == pytest.approx(beta, rel=1e-9)


def test_priors_that_are_learned():
    """λ is in units of ‖a‖² of the first arm, rounded to a power of 16; the weakest not refuted decides."""
    rows, rewards, _ = log_of_one("logistic", 3, 120)
    rows = 5.0 * rows
    unit = 16.0 ** round(math.log2(rows[0] @ rows[0]) / 4.0)
    models = [glm.Glm("logistic", [BASE] + [lam * unit] * 3) for lam in LEARNED]
    weights, policy = np.full(5, 0.2), LogisticMED()
    for row, reward in zip(with_one(rows), rewards, strict=True):
        weights = glm.share(weights, [model.log_density(row, reward) for model in models], 1e-3)
        for model in models:
            model.learn(row, reward)
    state = learn(policy, rows, rewards)
    np.testing.assert_allclose(np.exp(-state.surprise[0]), weights, rtol=1e-9)
    assert state.leader[0] == glm.weakest(weights)
    np.testing.assert_allclose(state.theta[0], models[state.leader[0]].x[1:], rtol=1e-9)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_divergences_of_eight_arms_at_once(family):
    """Where one is out of the ordinary, it alone is computed by itself: equal arms have equal laws."""
    policy = GLMMED(family=family, norm_bound=1.0, intercept=False, alpha_opt=0.0)
    state = policy.start(1, 1)
    state.arrays()["theta"][...] = 1.0
    rng = np.random.default_rng(0)
    z = 2.0 - np.concatenate([[0.0], 10.0 ** rng.uniform(-3.0, 1.9, 60)])
    log_p = policy.log_probabilities(state, z[None, :, None])[0]
    factor = np.empty(len(z))
    core.link_bend(FAMILIES[family], z, 2.0 - z, factor)
    beta = policy.radius(state)[0] ** 2
    np.testing.assert_allclose((log_p - log_p[1])[1:] * -beta, factor[1:] - factor[1], rtol=1e-10, atol=1e-10)
    order = rng.permutation(len(z))
    shuffled = policy.log_probabilities(state, z[order][None, :, None].copy())[0]
    np.testing.assert_allclose(shuffled, log_p[order], rtol=1e-14)


@pytest.mark.parametrize("name", ["expm1", "log1p"])
def test_functions_of_eight_numbers_are_those_of_one(name):
    x = np.concatenate([[0.0], 10.0 ** np.linspace(-300, 1.7, 3999)]) * np.resize([1.0, -1.0], 4000)
    x = x[x > -1.0] if name == "log1p" else x
    x = np.ascontiguousarray(x[: len(x) // 8 * 8])
    one, eight = np.empty_like(x), np.empty_like(x)
    getattr(core.functions, name)(x, one)
    getattr(core.functions, f"{name}_lanes")(x, eight)
    np.testing.assert_array_equal(one, eight)


def changing(dim, count, rng):
    rows = rng.standard_normal((count, dim)) / math.sqrt(dim)
    theta = rng.standard_normal(dim)
    theta *= math.sqrt(2.0 * dim) / np.linalg.norm(theta)  # long enough for the change to be noticed
    z = np.concatenate([rows[: count // 2] @ theta, rows[count // 2 :] @ -theta])
    return rows, z


def compare(state, other):
    assert state.happened[0].tolist() == [len(other.adoptions), len(other.alarms)]
    np.testing.assert_allclose(state.weight[0], other.weights, rtol=1e-8)
    assert state.leader[0] == np.argmax(other.weights)
    assert state.evidence[0] == pytest.approx(other.evidence, rel=1e-8, abs=1e-8)
    adopted = [tuple(row) for row in state.adoptions[0, : len(other.adoptions)][:, [0, 2, 3]].astype(int)]
    assert adopted == other.adoptions[:16]
    alarms = state.alarms[0, : len(other.alarms)][:, [0, 2]]
    np.testing.assert_allclose(alarms, np.array(other.alarms).reshape(-1, 2), rtol=1e-8)


@pytest.mark.parametrize("dim", [2, 9])
@pytest.mark.parametrize("learned", [False, True])
def test_ridge_estimates_that_forget(dim, learned):
    rng = np.random.default_rng(dim)
    rows, z = changing(dim, 160, rng)
    rewards = z + 0.3 * rng.standard_normal(160)
    spans, s = (math.inf, 20.0, 5.0), 1e-3
    inside = LinMED(sigma=0.3, ridge="learned") if learned else LinMED(sigma=0.3)
    state = learn(Forgetful(inside, half_lives=spans, share=s), rows, rewards)
    lams = LEARNED if learned else (0.09,)
    experts = [glm.Ridge(lam, dim, 0.3) for _ in spans for lam in lams]
    factors = [2.0 ** (-1.0 / span) for span in spans for _ in lams]
    monitor = glm.Ridge(lams[0], dim, 0.3)
    other = glm.RidgeForgetting(experts, factors, len(lams), monitor, s, math.log(20.0))
    if learned:  # nothing is known of ‖θ*‖: what is left of RSS is compared in the tests of policies
        other.level = math.inf
    for row, reward in zip(rows, rewards, strict=True):
        other.learn(row, reward)
    if learned:
        np.testing.assert_allclose(state.weight[0], other.weights, rtol=1e-8)
        assert state.happened[0, 0] == len(other.adoptions) > 0
    else:
        compare(state, other)
        assert min(len(other.adoptions), len(other.alarms)) > 0
    for row, expert in enumerate(other.experts):
        np.testing.assert_allclose(np.tril(state.gram[0, row]), np.tril(expert.V), rtol=1e-10)
        np.testing.assert_allclose(state[0][0, row], expert.theta, rtol=1e-8, atol=1e-11)


def test_a_noise_of_unknown_size_has_students_density():
    rng = np.random.default_rng(5)
    rows, rewards = rng.standard_normal((60, 3)), rng.standard_normal(60)
    state = learn(Forgetful(LinMED(sigma="unknown"), half_lives=(math.inf, 8.0)), rows, rewards)
    experts, factors = [glm.Ridge(0.01, 3) for _ in range(2)], (1.0, 2.0**-0.125)
    weights = np.full(2, 0.5)
    for t, (row, reward) in enumerate(zip(rows, rewards, strict=True)):
        weights = glm.share(weights, [expert.log_density(row, reward) for expert in experts], 1e-4)
        for expert, factor in zip(experts, factors, strict=True):
            expert.forget(factor)
            expert.learn(row, reward)
            expert.give_back(t % 3, 3.0 * (1.0 - factor) * 0.01)
    assert state.happened[0, 0] == 0
    np.testing.assert_allclose(state.weight[0], weights, rtol=1e-9)
    np.testing.assert_allclose(state.rss[0, :2], [expert.rss for expert in experts], rtol=1e-9)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_models_that_forget(family):
    rng = np.random.default_rng(7)
    rows, z = changing(2, 200, rng)
    if family == "logistic":
        rewards = (z > 0.0).astype(float)
    else:
        rewards = rng.poisson(np.exp(np.clip(3.0 * z, -4.0, 2.0))).astype(float)
    spans, s, alpha = (math.inf, 10.0), 1e-3, 0.3
    policy = Forgetful(GLMMED(family=family, norm_bound=2.0), half_lives=spans, share=s, alarm=alpha)
    state = learn(policy, rows, rewards)
    priors = [BASE, 0.25, 0.25]
    experts = [glm.Glm(family, priors) for _ in spans]
    monitor = glm.CertifiedGlm(family, priors, 2.0, 2.0 + 2.0 * math.log(1.0 / (0.1 * alpha)))
    factors = [2.0 ** (-1.0 / span) for span in spans]
    other = glm.GlmForgetting(experts, factors, 1, monitor, s, -math.log(alpha))
    other.paid = 2.0
    for row, reward in zip(with_one(rows), rewards, strict=True):
        other.learn(row, reward)
    compare(state, other)
    assert other.adoptions
    for row, expert in enumerate(other.experts):
        np.testing.assert_allclose(state[0][0, row], expert.x[1:], rtol=1e-8)


def test_half_lives_on_a_clock():
    rng = np.random.default_rng(3)
    rows, rewards = rng.standard_normal((40, 3)), rng.standard_normal(40)
    times = rng.permutation(1e9 + np.cumsum(rng.exponential(20_000.0, 40)))
    policy = Forgetful(LinMED(sigma=1.0), half_lives=("7d", "1d"))
    state = policy.start(1, 3)
    policy.learn_at(state, rows, rewards, np.zeros(40, dtype=np.int64), times)
    assert state.happened[0, 0] == 0
    for row, days in enumerate((7.0, 1.0)):
        V, b = glm.on_clock(1.0, days * 86_400.0, rows, rewards, times)
        np.testing.assert_allclose(np.tril(state.gram[0, row]), np.tril(V), rtol=1e-9)
        np.testing.assert_allclose(state[0][0, row], np.linalg.solve(V, b), rtol=1e-9)
