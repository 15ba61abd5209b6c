"""Forgetful around policies for clicks and counts: what is remembered, who decides, when an alarm comes."""

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from linmed import Agent
from linmed.insight.drift import drift_of
from linmed.policies import GLMMED, Forgetful, LinMED, LogisticMED, LogisticTS, Policy
from tests.policies.toy import learned, owners, whole

DAY = 86400.0


def world(count, change=None, seed=0, dim=3, arms=6, size=2.0, intercept=-1.0):
    """Rows drawn evenly of unit arms, and clicks; θ* of length `size` turns round at `change`."""
    rng = np.random.default_rng(seed)
    offered = rng.standard_normal((arms, dim))
    offered /= np.sqrt((offered**2).sum(axis=1))[:, None]
    theta = rng.standard_normal(dim)
    theta *= size / np.sqrt((theta**2).sum())
    rows = offered[rng.integers(arms, size=count)]
    sign = np.where(np.arange(count) < (count if change is None else change), 1.0, -1.0)
    rates = expit(intercept + sign * (rows * theta).sum(axis=1))
    return rows, (rng.random(count) < rates).astype(float)


def curvature(state, expert):
    """H with what it has lost to rounding, and H⁻¹, the intercept first."""
    H = whole(state.gram[0, expert] + state.gram_low[0, expert])
    inverse = np.empty_like(H)
    inverse[0, 0], inverse[1:, 1:] = state.corner[0, expert], state.inverse[0, expert]
    inverse[0, 1:] = inverse[1:, 0] = state.cross[0, expert]
    return H, inverse


# ---- one memory that never forgets


@pytest.mark.identity
@pytest.mark.parametrize(
    "inside",
    [
        LogisticMED(norm_bound=3.0),
        GLMMED(family="poisson", ridge=0.5),
        GLMMED(family="gaussian", norm_bound=1.0, intercept=False),
    ],
)
def test_with_one_memory_that_never_forgets_it_is_the_policy_inside_to_the_last_bit(inside):
    rows, rewards = world(1100)  # past a polish
    one = Forgetful(inside, half_lives=(math.inf,))
    apart, state = inside.start(1, 3), learned(one, rows, rewards)
    inside.learn(apart, rows, rewards, owners(1100))
    np.testing.assert_array_equal(state.theta, apart.theta)
    for name in ("gram", "gram_low", "inverse", "cross", "corner", "logdet", "intercept", "surprise"):
        own = state.arrays()[name][0, 0]
        np.testing.assert_array_equal(own, apart.arrays()[name][0, 0], err_msg=name)
    arms = rows[None, :6]
    np.testing.assert_array_equal(one.log_probabilities(state, arms), inside.log_probabilities(apart, arms))
    assert one.radius(state) == inside.radius(apart)
    np.testing.assert_array_equal(one.predict(state, rows[:6]).mean, inside.predict(apart, rows[:6]).mean)


def test_priors_are_weighed_by_what_they_foretold_and_the_likeliest_leads():
    rows, rewards = world(60)
    policy = Forgetful(LogisticMED(), half_lives=(math.inf,), share=1e-15)
    state, surprise = learned(policy, rows, rewards), []
    for lam in LogisticMED().priors:
        alone = LogisticMED(ridge=lam)
        apart = alone.start(1, 3)
        alone.learn(apart, rows, rewards, owners(60))
        surprise.append(apart.surprise[0, 0])
    likely = np.exp(min(surprise) - np.array(surprise))
    np.testing.assert_allclose(state.weight[0], likely / likely.sum(), rtol=1e-9)
    assert state.leader[0] == np.argmin(surprise)


# ---- the recursion, once more


@pytest.mark.parametrize("intercept", [True, False])
def test_many_updates_at_a_half_life_of_50_leave_a_true_inverse(intercept):
    """Of twelve directions three are played: in the others there is only what is given back of the priors."""
    rng = np.random.default_rng(3)
    arms = rng.standard_normal((3, 12))
    arms /= np.sqrt((arms**2).sum(axis=1))[:, None]
    policy = Forgetful(LogisticMED(norm_bound=2.0, intercept=intercept), half_lives=(50,))
    state = policy.start(1, 12)
    for _ in range(10):
        clicks = (rng.random(10_000) < 0.3).astype(float)
        learned(policy, arms[rng.integers(3, size=10_000)], clicks, state=state)
    H, inverse = curvature(state, 0)
    exact = np.linalg.inv(H)
    assert np.abs(inverse - exact).max() <= 1e-9 * np.abs(exact).max()
    assert state.logdet[0, 0] == pytest.approx(
        np.linalg.slogdet(H)[1] + 12 * math.log(4.0) + intercept * math.log(25.0), abs=1e-8
    )
    features = np.linalg.eigvalsh(H[1:, 1:]).min()
    assert features > 0.25 * 2.0 ** (-13 / 50) * 0.99  # H ⪰ λγ^D
    assert state.arrays()["count"][0, 0] == pytest.approx(1.0 / (1.0 - 2.0 ** (-1 / 50)), rel=1e-9)


# ---- durations


def test_a_late_reward_counts_by_the_age_of_its_decision_and_order_matters_little():
    """n is the sum of the weights in any order; estimates are a standard deviation off all data's at most."""
    rows, rewards = world(400)
    times = 1.7e9 + np.sort(np.random.default_rng(1).random(400)) * 3 * DAY
    policy = Forgetful(LogisticMED(norm_bound=3.0), half_lives=("inf", "20d", "9d"))
    ordered = learned(policy, rows, rewards, times)
    for e, days in enumerate((math.inf, 20, 9)):
        weights = 2.0 ** (-(times[-1] - times) / (days * DAY))
        assert ordered.arrays()["count"][0, e] == pytest.approx(weights.sum(), rel=1e-9)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(400)
        state = learned(policy, rows[order], rewards[order], times[order])
        np.testing.assert_allclose(state.arrays()["count"], ordered.arrays()["count"], rtol=1e-9)
        for e in range(3):
            spread = np.sqrt(np.diag(curvature(ordered, e)[1]))
            one, other = ([s.intercept[0, e], *s.arrays()["theta"][0, e]] for s in (ordered, state))
            assert (np.abs(np.subtract(one, other)) < 2.0 * spread).all()
            H, inverse = curvature(state, e)
            np.testing.assert_allclose(inverse, np.linalg.inv(H), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
def test_what_is_given_back_of_the_priors_follows_the_clock(intercept):
    """Before anything is played twice a direction, and after a silence of a thousand half-lives."""
    policy = Forgetful(LogisticMED(norm_bound=2.0, intercept=intercept), half_lives=("1h",))
    silent = np.zeros((1, 3))  # an arm that says nothing of the features
    state = learned(policy, silent, np.ones(1), np.array([1.7e9]))
    for later in (60.0, 1000.0, 3600.0, 3.6e6):
        learned(policy, silent, np.ones(1), np.array([1.7e9 + later]), state)
        H, inverse = curvature(state, 0)
        own = np.diag(H)[1:]
        assert (own <= 0.25 + 1e-12).all()
        assert (own >= 0.25 * 2.0 ** (-1 / 16) - 1e-12).all()
        np.testing.assert_allclose(inverse, np.linalg.inv(H), rtol=1e-9, atol=1e-12)
    assert state.arrays()["count"][0, 0] == pytest.approx(1.0, abs=1e-9)


# ---- changes


def replicas(policy, logs, count, draw, change=None, seed=0, norm=2.0, dim=3, arms=6):
    """States after so many rewards of uniform play, θ* of this norm turning at `change`, and Σℓ(z*)."""
    rng = np.random.default_rng(seed)
    offered = rng.standard_normal((logs, arms, dim))
    offered /= np.sqrt((offered**2).sum(axis=2, keepdims=True))
    theta = rng.standard_normal((logs, dim))
    theta *= norm / np.sqrt((theta**2).sum(axis=1, keepdims=True))
    state, own = policy.start(logs, dim), np.arange(logs)
    truth = np.zeros(logs)
    for t in range(count):
        rows = offered[own, rng.integers(arms, size=logs)]
        z = (rows * theta).sum(axis=1) * (1.0 if change is None or t < change else -1.0) - 1.0
        paid, loss = draw(z, rng)
        policy.learn(state, np.ascontiguousarray(rows), paid, own)
        truth += loss
    return state, truth


def clicks(z, rng):
    y = (rng.random(len(z)) < expit(z)).astype(float)
    return y, np.logaddexp(0.0, z) - y * z


def fractions(z, rng):
    y = rng.beta(2.0 * expit(z), 2.0 * expit(-z))
    return y, np.logaddexp(0.0, z) - y * z


def counts(z, rng):
    y = rng.poisson(np.exp(z)).astype(float)
    return y, np.exp(z) - y * z


@pytest.mark.parametrize(
    ("inside", "draw"),
    [
        (LogisticMED(norm_bound=2.0), clicks),
        (LogisticMED(), clicks),
        (LogisticMED(norm_bound=2.0), fractions),
        (GLMMED(family="poisson", norm_bound=2.0), counts),
    ],
    ids=["told", "nothing told", "fractions", "counts"],
)
def test_false_alarms_are_no_more_frequent_than_their_level(inside, draw):
    """At α = 0.3, 200 logs of 300 rewards: more than the level allows has a probability below 1e-6.

    And L, from which log E comes, is at most the loss of the truth, but in 3 % of the logs.
    """
    state, truth = replicas(Forgetful(inside, alarm=0.3), 200, 300, draw)
    assert (state.happened[:, 1] > 0).sum() <= binom.isf(1e-6, 200, 0.3)
    quiet = state.happened[:, 1] == 0
    least = state.evidence + state.loss - math.log(0.9)
    assert (least[quiet] > truth[quiet]).sum() <= binom.isf(1e-6, 200, 0.03)


@pytest.mark.parametrize("inside", [LogisticMED(norm_bound=3.0), LogisticMED()])
def test_a_change_is_noticed(inside):
    """θ* of length 2 turns round: in 9 of 10 worlds an alarm within 300 clicks and an adoption within 150.

    Fewer than 60 of 90 have a probability below 1e-6 if it is so.
    """
    assert binom.cdf(60, 90, 0.9) < 1e-6
    state, _ = replicas(Forgetful(inside), 90, 1800, clicks, change=1500, seed=1)
    first, began = state.alarms[:, 0, 0], state.adoptions[:, 0, 0]
    assert ((first > 1500) & (first <= 1800)).sum() > 60
    assert ((began > 1500) & (began <= 1650)).sum() > 60


def test_an_agent_says_whether_the_world_has_changed():
    rows, rewards = world(2000, change=1500)
    agent = Agent(Forgetful(LogisticMED()), dim=3, seed=0)
    agent.observe(rows[:1500], rewards[:1500])
    assert str(agent.drift()).startswith("No change in 1,500 rewards")
    agent.observe(rows[1500:], rewards[1500:])
    found = agent.drift()
    assert found.changed
    assert 1500 < found.alarms[0].reward <= 2000
    assert "log-odds" in found.assumes
    assert "at most 5 and one intercept of at most ±5" in found.assumes
    assert "at most 3," in drift_of(*_started(LogisticMED(norm_bound=3.0, intercept=False))).assumes
    assert "counts" in drift_of(*_started(GLMMED(family="poisson"))).assumes


def _started(inside):
    policy = Forgetful(inside)
    return policy, policy.start(1, 2)


# ---- what it is given


@pytest.mark.parametrize("half_lives", [(math.inf, 1000, 50), (1,)])
@pytest.mark.parametrize("size", [1.0, 1e8, 1e-8])
@pytest.mark.parametrize("paid", [0.0, 1.0, None])
def test_nothing_becomes_infinite(half_lives, size, paid):
    rows, rewards = world(3000)
    rewards = rewards if paid is None else np.full(3000, paid)
    policy = Forgetful(LogisticMED(), half_lives=half_lives)
    state = learned(policy, size * rows, rewards)
    for name, array in state.arrays().items():
        assert np.isfinite(array).all(), name
    log_p = policy.log_probabilities(state, size * rows[None, :6])
    assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-12)
    assert policy.radius(state)[0] > 1.0


@pytest.mark.parametrize("inside", [LinMED(sigma=0.3), LogisticMED()])
def test_where_hardly_anything_is_left_of_the_prior_there_still_is_a_radius(inside):
    """At a half-life of one reward log det V/det V₀ is far below 0 in twenty dimensions."""
    rows, rewards = world(200, dim=20)
    policy = Forgetful(inside, half_lives=(1,))
    state = learned(policy, rows, rewards)
    assert state.logdet[0, 0] < -30.0
    assert policy.radius(state)[0] > 0.2
    log_p = policy.log_probabilities(state, rows[None, :6])
    assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("step", [0.0, -3600.0, 1e9])
def test_any_clock_will_do(step):
    """One that stands still, runs backwards, or leaps: n is what is left, and H⁻¹ stays true."""
    rows, rewards = world(200)
    policy = Forgetful(LogisticMED(norm_bound=2.0), half_lives=("inf", "7d", "1h"))
    times = 1.7e9 + step * np.arange(200)
    state = learned(policy, rows, rewards, times)
    for e, seconds in enumerate((math.inf, 7 * DAY, 3600.0)):
        weights = 2.0 ** (-(times.max() - times) / seconds)
        assert state.arrays()["count"][0, e] == pytest.approx(weights.sum(), rel=1e-9)
        H, inverse = curvature(state, e)
        np.testing.assert_allclose(inverse, np.linalg.inv(H), rtol=1e-9, atol=1e-12)


def test_what_is_no_click_is_refused_and_nothing_changes():
    policy = Forgetful(LogisticMED(), half_lives=("inf", "1d"))
    state = policy.start(1, 3)
    before = {name: array.copy() for name, array in state.arrays().items()}
    with pytest.raises(ValueError, match="reward must be between 0 and 1"):
        policy.learn_at(state, np.ones((2, 3)), np.array([1.0, 2.0]), owners(2), np.zeros(2))
    with pytest.raises(ValueError, match="reward must be 0, 1, 2"):
        Agent(Forgetful(GLMMED(family="poisson")), dim=3).observe(np.ones(3), 0.5)
    for name, array in state.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    counted = Forgetful(LogisticMED())
    arms, noise, played = np.ones((1, 1, 2, 3)), np.full((1, 1, 1), 0.5), np.empty((1, 1), np.int64)
    with pytest.raises(ValueError, match="reward must be between 0 and 1"):
        counted.play(counted.start(1, 3), arms, np.full((1, 1, 2), 7.0), noise, played)
    with pytest.raises(ValueError, match="reward must be between 0 and 1"):
        counted.play_with_errors(
            counted.start(1, 3), arms, np.ones((1, 1, 2)), np.full((1, 1), 0.5), noise, played
        )


def test_a_certificate_is_refused_and_a_description_nests():
    with pytest.raises(ValueError, match="no radius is certified"):
        Forgetful(LogisticMED(norm_bound=3.0, confidence="certified"))
    with pytest.raises(ValueError, match="combine must be 'heaviest'"):
        Forgetful(LogisticTS(), combine="mixture")
    policy = Forgetful(LogisticMED(norm_bound=3.0), half_lives=("inf", "7d"))
    assert Policy.from_dict(policy.to_dict()) == policy
    assert policy.name == "Forgetful LogisticMED-90 (norm_bound=3.0) (half_lives=∞, 7d)"
