"""Ridge regression stays exact after a million updates; rewards and features in any unit, on any level."""

import mpmath
import numpy as np
import pytest

from linmed import OFUL, Agent, LinMED, LinTS, simulate
from linmed.environments import FixedArms
from linmed.policies import Pinpoint
from linmed.policies.linmed import NOTHING_TOLD
from linmed.serve.schemas import UNTOLD

MILLION = 1_000_000


def exact_ridge(arms, rewards, repeats, ridge):
    """V⁻¹ and θ̂ in 200-bit arithmetic for `repeats` passes over the arms."""
    dim = arms.shape[1]
    with mpmath.workprec(max(200, 8 * int(np.log2(np.abs(arms).max() + 1.0)))):
        rows = [[mpmath.mpf(float(x)) for x in row] for row in arms]
        V = mpmath.matrix(dim, dim)
        b = mpmath.matrix(dim, 1)
        for i in range(dim):
            b[i] = repeats * mpmath.fsum(
                row[i] * mpmath.mpf(float(y)) for row, y in zip(rows, rewards, strict=True)
            )
            for j in range(i + 1):
                V[i, j] = V[j, i] = repeats * mpmath.fsum(row[i] * row[j] for row in rows)
            V[i, i] += ridge
        inverse = V**-1
        theta = inverse * b
        return (
            np.array([[float(inverse[i, j]) for j in range(dim)] for i in range(dim)]),
            np.array([float(theta[i]) for i in range(dim)]),
        )


@pytest.mark.parametrize(("distinct", "scale"), [(1, 1.0), (200, 1.0), (1, 1000.0), (200, 1e-3)])
def test_a_million_updates_leave_no_drift(distinct, scale):
    rng = np.random.default_rng(distinct)
    dim = 20
    arms = rng.standard_normal((distinct, dim))
    arms *= scale / np.linalg.norm(arms, axis=1, keepdims=True)
    rewards = 1.0 + rng.standard_normal(distinct)
    policy = LinMED()
    state = policy.start(1, dim)
    block = 10_000
    features, targets = np.resize(arms, (block, dim)), np.resize(rewards, block)
    for _ in range(MILLION // block):
        policy.learn(state, features, targets, np.zeros(block, dtype=np.int64))
    inverse, theta = exact_ridge(arms, rewards, MILLION // distinct, 1)
    assert np.max(np.abs(state.inverse[0] - inverse) / np.abs(inverse)) <= 1e-9
    np.testing.assert_allclose(state.theta[0], theta, rtol=1e-9, atol=1e-9 * np.abs(theta).max())
    assert state.count[0] == MILLION


@pytest.mark.parametrize("size", [1e5, 1e7, 1e20, 1e100])
@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_arms_that_are_long_against_the_ridge_leave_a_true_inverse(size, ridge):
    """Sherman–Morrison would subtract 1/λ from 1/λ: what is left of it may be nothing, or negative."""
    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for arms in (size * np.eye(3), size * turned, size * np.diag([1.0, 1e-3, 1e-6]), size * np.eye(3)[:2]):
        agent = Agent(LinMED(ridge=ridge), dim=3, seed=0)
        agent.observe(arms, np.full(len(arms), 0.5))
        inverse = agent.covariance
        expected = exact_ridge(arms, np.full(len(arms), 0.5), 1, ridge)[0]
        diagonal = np.sqrt(np.diag(expected))
        np.testing.assert_allclose(
            inverse / np.outer(diagonal, diagonal), expected / np.outer(diagonal, diagonal), atol=1e-6
        )


ARMS = np.random.default_rng(0).normal(size=(6, 3))
THETA = np.array([0.5, -0.3, 0.2])


def rewards_of(count, seed=1, sigma=0.3):
    rng = np.random.default_rng(seed)
    features = ARMS[rng.integers(len(ARMS), size=count)]
    return features, np.einsum("nd,d->n", features, THETA) + sigma * rng.normal(size=count)


def play(policy, count, offset=0.0, unit=1.0, scale=1.0):
    """Arms and probabilities of an agent in one fixed world, rewards in other units and on another level."""
    agent, rng = Agent(policy, dim=3, seed=5), np.random.default_rng(6)
    arms, found = unit * ARMS, []
    for error in 0.3 * rng.normal(size=count):
        decision = agent.decide(arms)
        found.append((decision.arm, decision.probability))
        agent.learn(decision, scale * (offset + ARMS[decision.arm] @ THETA + error))
    return np.array(found)


@pytest.mark.parametrize("ridge", [0.3, "learned"])
def test_the_estimate_is_that_of_a_regression_with_a_free_constant(ridge):
    features, rewards = rewards_of(60)
    agent = Agent(LinMED(ridge=ridge, intercept=True, norm_bound=1.0), dim=3)
    agent.observe(features, rewards + 7.0)
    apart = np.sqrt(0.5) * (features[1:] - features[0])
    unit = next(length for length in np.sum(apart**2, axis=1) if length > 0)
    lam = ridge if ridge != "learned" else unit * (0.01, 0.1, 1.0, 10.0, 100.0)[agent.state.leader[0]]
    whole = np.column_stack([np.ones(60), features])
    gram = whole.T @ whole + lam * np.diag([0.0, 1.0, 1.0, 1.0])
    c, *theta = np.linalg.solve(gram, whole.T @ (rewards + 7.0))
    np.testing.assert_allclose(agent.theta, theta, rtol=1e-9)
    np.testing.assert_allclose(agent.policy.estimate(agent.state).inverse[0], np.linalg.inv(gram)[1:, 1:])
    expected = agent.mean(ARMS)
    np.testing.assert_allclose(expected.mean, c + ARMS @ theta, rtol=1e-9)
    residual = np.sum((rewards + 7.0 - whole @ [c, *theta]) ** 2) + lam * np.dot(theta, theta)
    assert agent.policy.estimate(agent.state).rss[0] == pytest.approx(residual)
    assert agent.count == 60
    root = np.sqrt(np.einsum("ki,ij,kj->k", whole[:6], np.linalg.inv(gram), whole[:6]))
    half = agent.policy.radius(agent.state)[0] * root
    np.testing.assert_allclose(agent.mean(features[:6]).upper - agent.mean(features[:6]).mean, half)
    why = agent.explain(ARMS)
    assert sum(one.amount for one in why.contributions(2)) == pytest.approx(expected.mean[2])
    np.testing.assert_allclose(agent.verdict(ARMS).estimates, expected.mean)


@pytest.mark.parametrize(
    "policy",
    [
        NOTHING_TOLD,
        LinMED(sigma=0.3, intercept=True),
        OFUL(sigma=0.3, intercept=True, floor=0.2),
        LinTS(scale="bayes", sigma="unknown", intercept=True, floor=0.1),
        Pinpoint(sigma=0.3, intercept=True),
    ],
    ids=lambda policy: policy.name,
)
def test_a_number_added_to_all_rewards_changes_no_decision(policy):
    plain, lifted = play(policy, 60), play(policy, 60, offset=100.0)
    np.testing.assert_array_equal(plain[:, 0], lifted[:, 0])
    np.testing.assert_allclose(plain[:, 1], lifted[:, 1], rtol=1e-6)


def test_features_and_rewards_in_other_units_change_no_decision():
    """With a learned ridge; a power of two is felt by no digit."""
    for policy in (NOTHING_TOLD, LinMED(sigma="unknown", ridge="learned")):
        plain = play(policy, 60)
        np.testing.assert_array_equal(plain, play(policy, 60, unit=2.0**-10))
        for unit, scale in ((1e-3, 1.0), (1e3, 1e6), (1.0, 1e-6)):
            found = play(policy, 60, unit=unit, scale=scale)
            np.testing.assert_array_equal(plain[:, 0], found[:, 0])
            np.testing.assert_allclose(plain[:, 1], found[:, 1], rtol=1e-6)


def test_a_constant_column_has_no_weight_beside_an_intercept():
    features, rewards = rewards_of(40)
    agent = Agent(NOTHING_TOLD, dim=4)
    agent.observe(np.column_stack([features, np.full(40, 0.1)]), rewards)
    assert agent.theta[3] == 0.0


def test_the_set_of_a_given_sigma_holds_whoever_chose_the_arms_and_whatever_the_noise():
    """Coins, arms chosen by whether the last reward was large: ‖θ* − θ̂‖² + n(ȳ-error)² ≤ β.

    300 logs of 100 rewards, looked at after each tenth; at δ = 0.05 more than 30 outside would be seen with
    probability 2e-4 at most.
    """
    policy, logs, n = LinMED(sigma=0.5, intercept=True, delta=0.05), 300, 100
    rng, outside = np.random.default_rng(3), np.zeros(300, dtype=bool)
    state, owners = policy.start(logs, 3), np.arange(logs)
    arms = ARMS / np.linalg.norm(ARMS, axis=1)[:, None]
    last, errors = np.zeros(logs), np.zeros(logs)
    for t in range(n):
        arm = np.where(last > 0.5, rng.integers(2, size=logs), rng.integers(6, size=logs))
        chance = 0.5 + arms[arm] @ (0.4 * THETA)
        last = (rng.random(logs) < chance).astype(float)
        errors += last - chance
        policy.learn(state, arms[arm], last, owners)
        if t % 10 == 9:
            model = policy.estimate(state)
            away = model.theta - 0.4 * THETA
            precision = np.tril(model.gram) + np.tril(model.gram, -1).transpose(0, 2, 1)
            inside = np.einsum("ri,rij,rj->r", away, precision, away) + errors**2 / (t + 1)
            outside |= inside > policy.radius(state) ** 2
    assert outside.sum() <= 30


def test_what_is_given_no_policy_needs_no_unit():
    assert Agent(dim=2).policy == NOTHING_TOLD == LinMED.from_dict(UNTOLD)
    found = simulate(NOTHING_TOLD, FixedArms(ARMS, THETA, sigma=0.1), horizon=200, trials=4, progress=False)
    means = ARMS @ THETA
    assert found.regret(NOTHING_TOLD.name)[..., -1].max() < 0.2 * 200 * (means.max() - means.mean())
