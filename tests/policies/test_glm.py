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
LOGISTIC, POISSON = FAMILIES["logistic"], FAMILIES["poisson"]


def observed(policy, rows=ROWS, rewards=CLICKS):
    agent = Agent(policy, dim=rows.shape[1], seed=0)
    agent.observe(rows, rewards)
    return agent


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


# The estimate


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
