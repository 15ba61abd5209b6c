"""Clicks and counts: the one-pass estimator, its two radii, the divergence, and what is refused."""

import dataclasses
import math

import numpy as np
import pytest

from linmed import GLMMED, Agent, LinMED, LogisticMED, LogisticTS, LogisticUCB
from linmed.core import core
from linmed.policies import CatalogueMED, Disjoint
from linmed.policies.glm import FAMILIES
from linmed.validation import BadValue

ROWS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [1.0, 0.0]])
CLICKS = np.array([1.0, 0.0, 0.0, 1.0])
TOY = {"norm_bound": 2.0, "ridge": 0.25, "delta": 0.05, "alpha_opt": 0.0, "intercept": False}
LOGISTIC, POISSON = FAMILIES["logistic"], FAMILIES["poisson"]


def observed(policy, rows=ROWS, rewards=CLICKS):
    agent = Agent(policy, dim=rows.shape[1], seed=0)
    agent.observe(rows, rewards)
    return agent


# Worked numbers, made by another implementation


def test_the_worked_numbers_of_four_clicks():
    policy = GLMMED(family="logistic", **TOY)
    agent = observed(policy)
    np.testing.assert_allclose(agent.theta, [1.135291235972, -1.696173352523], rtol=0, atol=1e-12)
    state = agent.state
    gram = np.tril(state.gram[0, 0][1:, 1:])
    np.testing.assert_allclose(gram, [[0.709525400497, 0], [0.110356868626, 0.537201853226]], atol=1e-12)
    assert state.logdet[0, 0] == pytest.approx(1.77557513079, abs=1e-11)
    assert policy.radius(state)[0] ** 2 == pytest.approx(8.767039677896, abs=1e-11)
    p = agent.probabilities([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    np.testing.assert_allclose(p, [0.948651100406, 0.027554682741, 0.023794216853], rtol=0, atol=1e-12)


def test_the_worked_numbers_of_the_certified_radius():
    policy = GLMMED(family="logistic", confidence="certified", **TOY)
    agent = Agent(policy, dim=2, seed=0)
    for row, y, excess in zip(
        ROWS, CLICKS, [0.510576652491, 1.03397096505, 1.34306734347, 1.64461070302], strict=True
    ):
        agent.observe(row, y)
        assert agent.state.excess[0, 0] == pytest.approx(excess, abs=1e-10)
    assert policy.radius(agent.state)[0] ** 2 == pytest.approx(8.636075250127, abs=1e-11)


@pytest.mark.parametrize(("sigma", "norm"), [(1.0, 1.0), (0.5, 3.0)])
def test_the_gaussian_family_is_linmed_with_the_mixture_set(sigma, norm):
    """Two thousand rounds; α_opt = 0, for a design may break a tie of its own by the last bit."""
    shared = {"norm_bound": norm, "delta": 0.05, "alpha_opt": 0.0, "explore": False}
    ours = GLMMED(family="gaussian", sigma=sigma, intercept=False, **shared)
    linear = LinMED(sigma=sigma, confidence="mixture", ties="even", **shared)
    rng = np.random.default_rng(1)
    one, other = Agent(ours, dim=4, seed=1), Agent(linear, dim=4, seed=1)
    theta = np.array([0.5, -0.5, 0.5, -0.5])
    for _ in range(2_000):
        arms = rng.normal(size=(10, 4)) / 2
        a, b = one.decide(arms), other.decide(arms)
        assert a.arm == b.arm
        np.testing.assert_allclose(a.log_probabilities, b.log_probabilities, rtol=1e-12, atol=1e-12)
        reward = float((arms[a.arm] * theta).sum() + sigma * rng.normal())
        one.learn(a, reward)
        other.learn(b, reward)
    np.testing.assert_allclose(one.theta, other.theta, rtol=1e-12)
    assert sigma * ours.radius(one.state)[0] == pytest.approx(linear.radius(other.state)[0], rel=1e-12)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-11, atol=1e-16)


def test_the_certified_radius_of_gaussian_rewards_is_the_mixture_set():
    rng = np.random.default_rng(2)
    rows, rewards = rng.normal(size=(200, 3)), rng.normal(size=200)
    told = {"norm_bound": 2.0, "delta": 0.05, "intercept": False}
    certified = GLMMED(family="gaussian", confidence="certified", **told)
    plain = GLMMED(family="gaussian", **told)
    assert certified.radius(observed(certified, rows, rewards).state)[0] == pytest.approx(
        plain.radius(observed(plain, rows, rewards).state)[0], rel=1e-12
    )


# The pieces


@pytest.mark.parametrize("family", [LOGISTIC, POISSON])
def test_where_one_reward_takes_z_is_the_root(family):
    rng = np.random.default_rng(3)
    n = 4000
    z, h = rng.uniform(-40, 40, n), 10.0 ** rng.uniform(-12, 12, n)
    y = rng.random(n).round(1) if family == LOGISTIC else rng.poisson(10.0 ** rng.uniform(0, 4, n)) * 1.0
    out = np.empty(n)
    core.link_settle(family, z, h, y, out)
    mean = 1.0 / (1.0 + np.exp(-out)) if family == LOGISTIC else np.exp(out)
    slope = mean * (1.0 - mean) if family == LOGISTIC else mean
    left = out - z + h * (mean - y)
    # as near as neighbouring numbers are, on either side of the root: 1e-14 of every term of the sum
    size = np.abs(out) + np.abs(z) + h * (mean + y) + (1.0 + h * slope) * np.maximum(1.0, np.abs(z))
    assert (np.abs(left) <= 1e-14 * size).all()


def exact_bend(family, z, gap):
    """2 kl / (μ′Δ²) in fifty digits."""
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 60
        z, gap = Decimal(float(z)), Decimal(float(gap))
        if family == POISSON:
            return float(2 * (gap.exp() - 1 - gap) / gap**2)
        log = lambda x: (1 + x.exp()).ln()  # noqa: E731
        mean = 1 / (1 + (-z).exp())
        return float(2 * (log(z + gap) - log(z) - mean * gap) / (mean * (1 - mean) * gap**2))


@pytest.mark.parametrize("family", [LOGISTIC, POISSON])
def test_the_divergence_is_exact_at_all_sizes(family):
    rng = np.random.default_rng(4)
    z = np.concatenate([rng.uniform(-45, 45, 300), rng.uniform(-3, 3, 300)])
    gap = 10.0 ** rng.uniform(-8, 1.9, 600) * rng.choice([-1.0, 1.0], 600)
    out = np.empty(600)
    core.link_bend(family, z, gap, out)
    exact = np.array([exact_bend(family, *pair) for pair in zip(z, gap, strict=True)])
    np.testing.assert_allclose(out, exact, rtol=3e-12)


def test_the_smallest_curvature_lies_at_an_end():
    """What the certified radius rests on: b(z, ·) is smallest at −B or B, wherever z is."""
    ends = np.linspace(-1.0, 1.0, 401)
    for family in (LOGISTIC, POISSON):
        for z in np.linspace(-12, 12, 49):
            for bound in (0.1, 1.0, 5.0, 12.0):
                gap = bound * ends - z
                out = np.empty(401)
                core.link_bend(family, np.full(401, z), np.where(gap == 0.0, 1e-9, gap), out)
                assert out.min() >= min(out[0], out[-1]) * (1.0 - 1e-12)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
@pytest.mark.parametrize("size", [1.0, 30.0, 800.0])
def test_log_probabilities_are_finite_however_far_z_is(family, size):
    policy = GLMMED(family=family, norm_bound=1.0, intercept=False)
    state = policy.start(1, 1)
    state.arrays()["theta"][...] = 1.0
    arms = np.linspace(-size, size, 41)[None, :, None].copy()
    log_p = policy.log_probabilities(state, arms)
    assert np.isfinite(log_p).all()
    assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-12)


def test_a_kl_index_of_one_hot_arms():
    """With one-hot arms log f is −N kl/(β/2) but for the best arm's own share of the distance."""
    policy = GLMMED(norm_bound=8.0, intercept=False, alpha_opt=0.0, delta=0.05)
    rng = np.random.default_rng(5)
    rows = np.eye(2)[np.repeat([0, 1], [100_000, 400])]
    rewards = (rng.random(len(rows)) < np.repeat([0.3, 0.2], [100_000, 400])).astype(float)
    agent = observed(policy, rows, rewards)
    p = agent.probabilities(np.eye(2))
    good, bad = rewards[:100_000].mean(), rewards[100_000:].mean()
    kl = bad * math.log(bad / good) + (1 - bad) * math.log((1 - bad) / (1 - good))
    log_f = math.log(p[1] / 0.05) - math.log(p[0] / 0.95)
    assert log_f == pytest.approx(-400 * kl * 2 / policy.radius(agent.state)[0] ** 2, rel=0.05)


# The estimate


def maximum_likelihood(rows, rewards, ridge, steps=50):
    """Newton's method on all data at once, the intercept last with a prior of its own."""
    X = np.c_[rows, np.ones(len(rows))]
    prior = np.diag([*np.full(rows.shape[1], ridge), 1 / 25])
    theta = np.zeros(X.shape[1])
    for _ in range(steps):
        mean = 1 / (1 + np.exp(-X @ theta))
        H = (X * (mean * (1 - mean))[:, None]).T @ X + prior
        theta -= np.linalg.solve(H, X.T @ (mean - rewards) + prior @ theta)
    return theta, H


def test_one_pass_is_close_to_what_all_data_say():
    """The estimate from one pass is within one standard error of the maximum of the posterior."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(20_000, 4)) / 2
    rate = 1 / (1 + np.exp(3.0 - rows @ [1.0, -1.0, 0.5, 0.0]))
    rewards = (rng.random(20_000) < rate).astype(float)
    policy = LogisticMED(norm_bound=2.0)
    agent = observed(policy, rows, rewards)
    best, H = maximum_likelihood(rows, rewards, 0.25)
    found = np.append(agent.theta, agent.state.intercept[0])
    errors = np.sqrt(np.diag(np.linalg.inv(H)))
    assert (np.abs(found - best) < errors).all()
    np.testing.assert_allclose(np.sqrt(np.diag(agent.covariance)), errors[:4], rtol=0.05)
    assert found[4] == pytest.approx(-3.0, abs=0.15)


def test_the_inverse_is_true_after_many_updates():
    rng = np.random.default_rng(7)
    policy = LogisticMED(norm_bound=1.0)
    state = policy.start(1, 6)
    for _ in range(100):
        rows = rng.normal(size=(1000, 6)) * np.array([1.0, 1e-3, 1.0, 10.0, 1.0, 0.0])
        policy.learn(state, rows, (rng.random(1000) < 0.04) * 1.0, np.zeros(1000, dtype=np.int64))
    H = state.gram[0, 0] + state.gram_low[0, 0]
    H = np.tril(H) + np.tril(H, -1).T
    direct = np.linalg.inv(H)
    np.testing.assert_allclose(state.inverse[0, 0], direct[1:, 1:], rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(state.cross[0, 0], direct[0, 1:], rtol=1e-9, atol=1e-13)
    assert state.corner[0, 0] == pytest.approx(direct[0, 0], rel=1e-9)
    assert state.logdet[0, 0] == pytest.approx(np.linalg.slogdet(H)[1] - math.log(1 / 25), rel=1e-9)


def test_a_base_rate_of_three_per_cent_is_learned_apart_from_the_features():
    """Five standard errors: a false alarm once in a million."""
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(5000, 3)) / 2
    rewards = (rng.random(5000) < 0.03).astype(float)
    predicted = observed(LogisticMED(), rows, rewards).mean(np.zeros((1, 3)))
    assert predicted.lower[0] < 0.03 < predicted.upper[0]
    assert abs(predicted.mean[0] - rewards.mean()) < 5 * math.sqrt(0.03 * 0.97 / 5000)


def test_priors_are_weighed_by_fixed_shares_and_the_weakest_that_is_not_refuted_decides():
    """Beside each prior alone, whose predictions do not depend on the others."""
    rng = np.random.default_rng(9)
    rows, rewards = np.eye(8)[rng.integers(8, size=400)], (rng.random(400) < 0.05) * 1.0
    policy = LogisticMED()
    alone = [Agent(LogisticMED(ridge=lam), dim=8) for lam in policy.priors]
    together, weight, leaders = Agent(policy, dim=8), np.full(5, 0.2), set()
    for row, y in zip(rows, rewards, strict=True):
        before = np.array([agent.state.surprise[0, 0] for agent in alone])
        for agent in (*alone, together):
            agent.observe(row, y)
        weight *= np.exp(before - [agent.state.surprise[0, 0] for agent in alone])
        weight = 0.999 * weight / weight.sum() + 0.001 / 5
        np.testing.assert_allclose(np.exp(-together.state.surprise[0]), weight, rtol=1e-9)
        leaders.add(int(together.state.leader[0]))
        assert together.state.leader[0] == np.argmax(20.0 * weight >= weight.max())
    assert leaders == {0, 1, 2}


def test_no_prior_leads_longer_than_it_has_reasons_to():
    """Clicks come first, silence later: strong priors foretell a world of clicks alone best, by 26 nats."""
    rng = np.random.default_rng(10)
    arms = np.eye(40)
    agent = Agent(LogisticMED(), dim=40)
    agent.observe(np.concatenate([arms, arms]), np.ones(80))
    assert agent.policy.priors[agent.state.leader[0]] >= 1.0
    shown = rng.integers(40, size=2000)
    agent.observe(arms[shown], (rng.random(2000) < np.where(shown < 20, 0.4, 0.02)) * 1.0)
    assert agent.policy.priors[agent.state.leader[0]] <= 0.1


def test_while_nothing_is_known_all_arms_have_the_share_of_the_best():
    """α_emp is spread as if â were drawn among the arms: the mean over all orders, in which each is first."""
    rng = np.random.default_rng(13)
    arms = rng.normal(size=(7, 4))
    for even in (LogisticMED(), LogisticMED(version=1), LinMED(ties="even"), CatalogueMED(ties="even")):
        first = dataclasses.replace(even, ties="first")
        turned = [Agent(first, dim=4).probabilities(np.roll(arms, -k, axis=0)) for k in range(7)]
        mean = np.mean([np.roll(p, k) for k, p in enumerate(turned)], axis=0)
        agent = Agent(even, dim=4, seed=1)
        np.testing.assert_allclose(agent.probabilities(arms), mean, rtol=1e-12)
        for log_p in (
            agent.decide(arms).log_probabilities,
            even.log_probabilities(agent.state, arms[None])[0],
        ):
            np.testing.assert_allclose(np.exp(log_p), mean, rtol=1e-12)
        agent.observe(arms[:2], [0.0, 1.0])
        same = observed(first, arms[:2], np.array([0.0, 1.0])).probabilities(arms)
        np.testing.assert_array_equal(agent.probabilities(arms), same)
    played = np.bincount(
        [agent.arm for agent in map(Agent(LogisticMED(), dim=4, seed=2).decide, [arms] * 1000)]
    )
    assert played.max() < 200  # one in seven each; 900 of the first before


def test_models_per_item_share_ties_too():
    arms = np.array([[0, 1.0], [1, 1.0], [2, 1.0], [3, 1.0]])
    agent = Agent(Disjoint(LinMED(sigma=0.5, explore=False, ties="even")), dim=2)
    np.testing.assert_allclose(agent.probabilities(arms), 0.25, rtol=1e-12)


def test_learned_priors_are_in_the_unit_of_the_features():
    """To the last bit for a power of two."""
    rng = np.random.default_rng(11)
    rows, clicks = rng.normal(size=(200, 3)), (rng.random(200) < 0.3) * 1.0
    for policy in (LogisticMED(), GLMMED(family="poisson")):
        agent, other = observed(policy, rows, clicks), observed(policy, rows / 1024, clicks)
        np.testing.assert_array_equal(agent.probabilities(rows[:9]), other.probabilities(rows[:9] / 1024))
        np.testing.assert_array_equal(agent.mean(rows[:9]).upper, other.mean(rows[:9] / 1024).upper)
    p = [observed(LogisticTS(), size * rows, clicks).probabilities(size * rows[:4]) for size in (1.0, 2**-10)]
    np.testing.assert_allclose(*p, rtol=1e-6)


@pytest.mark.parametrize("base", [-3.0, -3.9])
def test_intervals_cover_though_the_prior_was_chosen(base):
    """Some of eight rates is outside in at most 7 % of 200 runs; by the likeliest prior in 25 to 43 %."""
    rng, rows, policy = np.random.default_rng(12), np.arange(200), LogisticMED()
    arms = rng.normal(size=(200, 8, 3)) / 2
    rates = 1 / (1 + np.exp(-base - 2.0 * arms[:, :, 0]))
    state = policy.start(200, 3)
    for t in range(1, 601):
        arm = policy.choose(state, arms, rng.random((200, 1)))
        policy.learn(state, arms[rows, arm], (rng.random(200) < rates[rows, arm]) * 1.0, rows)
        if t in (100, 600):
            outside = 0
            for r in range(200):
                _, lower, upper = policy.predict(type(state)(*(part[r : r + 1] for part in state)), arms[r])
                outside += ((rates[r] < lower) | (rates[r] > upper)).any()
            assert outside <= 14


# Confidence


def ever_outside(policy, theta, intercept, logs, rounds, rng):
    """The share of logs in which the truth was outside the set after some reward."""
    dim = len(theta)
    arms = rng.normal(size=(logs, 6, dim))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    state = policy.start(logs, dim)
    left = np.zeros(logs, dtype=bool)
    rows = np.arange(logs)
    for _ in range(rounds):
        a = arms[rows, rng.integers(6, size=logs)]
        rate = 1 / (1 + np.exp(-(a * theta).sum(1) - intercept))
        policy.learn(state, a, (rng.random(logs) < rate) * 1.0, rows)
        H = state.gram[:, 0] + state.gram_low[:, 0]
        H = np.tril(H) + np.tril(H, -1).transpose(0, 2, 1)
        d = np.concatenate([state.intercept[:, None] - intercept, state.theta - theta], axis=1)
        if not policy.intercept:
            d[:, 0] = 0.0
        distance2 = np.einsum("ri,rij,rj->r", d, H, d)
        left |= distance2 > policy.radius(state) ** 2
    return left.mean()


@pytest.mark.parametrize("intercept", [0.0, -2.0])
def test_the_certified_set_is_left_as_seldom_as_promised(intercept):
    """δ = 0.2 over 300 logs; the share is at most 0.2 + 4.75 standard errors but once in a million."""
    policy = LogisticMED(norm_bound=3.0, confidence="certified", delta=0.2, intercept=intercept != 0.0)
    rng = np.random.default_rng(10)
    theta = np.array([3.0, 0.0, 0.0]) * 0.999
    assert ever_outside(policy, theta, intercept, 300, 150, rng) <= 0.2 + 4.75 * math.sqrt(0.2 * 0.8 / 300)


def test_the_certified_curvature_is_the_least_where_the_truth_can_be():
    """Over all that S = 3 and an intercept of 5 allow, H was a third of the curvature of the losses."""
    rng = np.random.default_rng(14)
    rows = np.eye(3)[rng.integers(3, size=3000)]
    clicks = (rng.random(3000) < 1 / (1 + np.exp(2.0 - rows @ [2.0, 0.0, -1.0]))) * 1.0
    proved = observed(LogisticMED(norm_bound=3.0, confidence="certified"), rows, clicks).state.gram[0, 0]
    plain = observed(LogisticMED(norm_bound=3.0), rows, clicks).state.gram[0, 0]
    assert (0.45 * plain.diagonal() < proved.diagonal()).all()
    assert proved[0, 0] < plain[0, 0]


def test_a_verdict_on_clicks_is_proved_by_the_certified_set_alone():
    arms = np.eye(3)
    rng = np.random.default_rng(11)
    rows = np.tile(arms, (4000, 1))
    rewards = (rng.random(len(rows)) < rows @ [0.75, 0.4, 0.3]).astype(float)
    proved = observed(LogisticMED(norm_bound=3.0, confidence="certified"), rows, rewards).verdict(arms)
    assert proved.decided
    assert proved.proved
    assert proved.candidates == (0,)
    assert str(proved).endswith("in log-odds at least.")
    assert "log-odds of a click are linear" in proved.assumes
    doubtful = observed(LogisticMED(norm_bound=3.0), rows, rewards).verdict(arms)
    assert doubtful.decided
    assert not doubtful.proved
    assert "quadratic model" in doubtful.doubt


# Rules


def test_optimism_on_the_same_set():
    policy = LogisticUCB(norm_bound=2.0)
    rng = np.random.default_rng(12)
    rows = rng.normal(size=(60, 2))
    agent = observed(policy, rows, (rng.random(60) < 0.3) * 1.0)
    state, arms = agent.state, rng.normal(size=(9, 2))
    H = state.gram[0, 0] + state.gram_low[0, 0]
    inverse = np.linalg.inv(np.tril(H) + np.tril(H, -1).T)
    wide = np.c_[np.ones(9), arms]
    bounds = wide @ np.append(state.intercept[0], state.theta[0])
    bounds += policy.radius(state)[0] * np.sqrt(np.einsum("ki,ij,kj->k", wide, inverse, wide))
    assert agent.probabilities(arms)[np.argmax(bounds)] == 1.0
    np.testing.assert_allclose(agent.mean(arms).upper, 1 / (1 + np.exp(-bounds)), rtol=1e-12)


def test_thompson_sampling_tells_how_often_its_draws_choose_each_arm():
    """100,000 draws of the compiled rule against the stated law: a chi-square beyond once in 10⁵."""
    policy = LogisticTS(norm_bound=2.0)
    rng = np.random.default_rng(13)
    rows = rng.normal(size=(50, 2))
    agent = observed(policy, rows, (rng.random(50) < 0.2) * 1.0)
    arms = rng.normal(size=(5, 2))
    p = agent.probabilities(arms)
    sets = np.broadcast_to(arms, (100_000, 5, 2)).copy()
    drawn = policy.choose(agent.state, sets, policy.draw_noise(rng, (100_000,), 2))
    seen = np.bincount(drawn, minlength=5)
    possible = p * 100_000 > 5
    assert ((seen - p * 100_000)[possible] ** 2 / (p * 100_000)[possible]).sum() < 30.0  # χ²(4) > 30: 5e-6
    assert seen[~possible].sum() <= 40


# What is refused


@pytest.mark.parametrize(
    ("family", "reward", "said"),
    [
        ("logistic", 1.5, "between 0 and 1, as clicks are"),
        ("logistic", -0.1, "between 0 and 1, as clicks are"),
        ("poisson", -1.0, "0, 1, 2, …, as counts are"),
        ("poisson", 0.5, "0, 1, 2, …, as counts are"),
    ],
)
def test_rewards_outside_the_family_are_refused_and_change_nothing(family, reward, said):
    agent = Agent(GLMMED(family=family, norm_bound=1.0), dim=2, seed=0)
    decision = agent.decide(np.eye(2))
    before = {name: array.copy() for name, array in agent.state.arrays().items()}
    owners = np.zeros(2, dtype=np.int64)
    for attempt in (
        lambda: agent.learn(decision, reward),
        lambda: agent.observe(np.eye(2), [1.0, reward]),
        lambda: agent.policy.learn(agent.state, np.eye(2), np.array([1.0, reward]), owners),
    ):
        with pytest.raises(BadValue, match=said) as refused:
            attempt()
        assert refused.value.field == "reward"
    for name, array in agent.state.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    agent.learn(decision, 1.0)


def test_fractions_of_a_click_are_taken():
    agent = observed(LogisticMED(), np.tile(np.eye(2), (200, 1)), np.tile([0.25, 0.75], 200))
    np.testing.assert_allclose(agent.mean(np.eye(2)).mean, [0.25, 0.75], atol=0.05)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"family": "binomial"}, "family"),
        ({"norm_bound": "large"}, "norm_bound"),
        ({"norm_bound": -1.0}, "norm_bound"),
        ({"ridge": "best"}, "ridge"),
        ({"ridge": "learned", "norm_bound": 2.0}, "norm_bound"),
        ({"confidence": "certified", "norm_bound": 2.0, "delta": 1e-7}, "delta"),
        ({"confidence": "certified"}, "norm_bound"),
        ({"confidence": "paper"}, "confidence"),
        ({"sigma": 0.5}, "sigma"),
        ({"design": "warm"}, "design"),
        ({"delta": 0.0}, "delta"),
    ],
)
def test_parameters_that_make_no_sense_are_named(parameters, field):
    with pytest.raises(BadValue) as refused:
        GLMMED(**parameters)
    assert refused.value.field == field


def test_the_short_names_are_for_clicks_alone():
    for kind in (LogisticMED, LogisticUCB, LogisticTS):
        with pytest.raises(BadValue, match="family must be"):
            kind(family="poisson")


# Counts


def test_counts_are_learned_by_their_rates():
    rng = np.random.default_rng(14)
    rows = np.tile(np.eye(3), (3000, 1))
    rates = np.array([0.3, 1.0, 4.0])
    rewards = rng.poisson(rows @ rates).astype(float)
    predicted = observed(GLMMED(family="poisson"), rows, rewards).mean(np.eye(3))
    assert ((predicted.lower < rates) & (rates < predicted.upper)).all()
    np.testing.assert_allclose(predicted.mean, rates, rtol=0.1)


# Features of any size


@pytest.mark.parametrize(("family", "reward"), [("logistic", 0.0), ("poisson", 0.0), ("logistic", 1.0)])
def test_the_certified_curvature_is_a_number_where_the_prediction_is_beyond_all_doubt(family, reward):
    """A small arm teaches −3 and more for one unit; the large one is then predicted at thousands below 0."""
    policy = GLMMED(family=family, norm_bound=3.0, delta=0.05, confidence="certified", intercept=False)
    agent = observed(policy, np.full((30, 1), 1.0), np.full(30, reward))
    agent.observe([[5000.0]], [reward])
    assert all(np.isfinite(array).all() for array in agent.state.arrays().values())
    assert np.isfinite(policy.radius(agent.state)).all()


def test_a_click_on_a_large_arm_teaches_as_much_as_none():
    """Of 1 − μ(z′) floating point leaves nothing; what it moves θ̂ by is log h all the same."""
    policy = GLMMED(family="logistic", norm_bound=1.0, intercept=False)
    for size in (1e6, 1e9, 1e20):
        row = np.array([[size, -2.0 * size]])
        click, none = observed(policy, row, np.ones(1)), observed(policy, row, np.zeros(1))
        np.testing.assert_allclose(click.theta, -none.theta, rtol=1e-12)
        assert (row @ click.theta)[0] > 20.0


@pytest.mark.parametrize("family", [LOGISTIC, POISSON])
def test_the_root_is_found_where_the_old_prediction_is_absurd(family):
    """z = 1e18 against h = 1e30: the root is −log(h/z) or so, wherever it is sought from."""
    z, h = np.array([1e18, 1e18, 1e12]), np.array([1e30, 1e25, 1e40])
    out = np.empty(3)
    core.link_settle(family, z, h, np.zeros(3), out)
    np.testing.assert_allclose(out, np.log(z) - np.log(h), rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-150, 1e8, 1e15, 1e30, 1e50])
@pytest.mark.parametrize("family", ["logistic", "poisson", "gaussian"])
def test_features_of_any_size_leave_numbers(family, scale):
    policy = GLMMED(family=family)
    arms = np.random.default_rng(0).normal(size=(6, 3)) * scale
    for seed in range(3):
        agent, rng = Agent(policy, dim=3, seed=seed), np.random.default_rng(seed)
        for _ in range(80):
            agent.learn(agent.decide(arms), float(rng.random() < 0.2))
        assert all(np.isfinite(array).all() for array in agent.state.arrays().values())
        for of_arms in agent.mean(arms):
            assert not np.isnan(of_arms).any()


def test_counts_of_any_size_leave_numbers():
    arms = np.random.default_rng(0).normal(size=(6, 3))
    agent = Agent(GLMMED(family="poisson"), dim=3, seed=0)
    for t in range(60):
        agent.learn(agent.decide(arms), 1e15 * (t % 2))
    assert np.isfinite(agent.theta).all()
    assert np.isfinite(agent.policy.radius(agent.state)).all()


def test_the_message_shows_how_a_reward_is_no_click():
    with pytest.raises(BadValue, match=r"got 1\.000000000000001"):
        observed(LogisticMED(), ROWS[:1], np.array([1.000000000000001]))
