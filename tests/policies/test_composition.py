"""One model, one for each item, hybrid × what is forgotten × what is learned: each against another way."""

import math

import numpy as np
import pytest

from linmed import Agent
from linmed.policies import GLMMED, OFUL, Disjoint, Forgetful, LinMED, LogisticMED
from tests.policies.block_model import around, sets_of_items
from tests.reference.models import FadingModels

DAY = 86400.0
both = pytest.mark.parametrize("shared", [0, 2], ids=["disjoint", "hybrid"])


def rewarded(count, shared, items=5, own=3, seed=0):
    """Rows of items, the last of which is seldom seen, their rewards and owners."""
    rng = np.random.default_rng(seed)
    rows = sets_of_items(rng, count, 1, items, 1 + shared + own)[:, 0, 0]
    rows[:, 0] = np.where(rng.random(count) < 0.05, items - 1, rows[:, 0] % (items - 1))
    rows[:, 1:] /= 2.0
    theta = rng.normal(size=(items, own + shared))
    theta[:, :shared] = theta[0, :shared]
    paid = np.vecdot(rows[:, 1:], theta[rows[:, 0].astype(int)]) + 0.3 * rng.normal(size=count)
    return rows, paid, np.zeros(count, dtype=np.int64)


def naive(policy, half_lives, shared, on_clock=False):
    return [FadingModels(policy.lam, half_life, shared, 3, on_clock) for half_life in half_lives]


@both
def test_a_reward_fades_with_those_of_its_item(shared):
    """A⁻¹, φ, W, S, n, log det and the weights of memories are those of sums over all rewards."""
    rows, paid, owners = rewarded(120, shared)
    inside, half_lives = LinMED(sigma=0.3), (20.0, 5.0)
    policy = around(Forgetful(inside, half_lives=half_lives), shared)
    state, slow = policy.start(1, rows.shape[1]), naive(inside, half_lives, shared)
    policy.learn(state, rows, paid, owners)
    arrays, weight = state.arrays(), np.full(2, 0.5)
    for row, reward in zip(rows, paid, strict=True):
        seen = np.array([model.learn(row, reward) for model in slow])
        variance = inside.sigma**2 * (1.0 + seen[:, 1])
        weight = weight * np.exp(-0.5 * (reward - seen[:, 0]) ** 2 / variance) / np.sqrt(variance)
        weight = (1.0 - policy.base.share) * weight / weight.sum() + policy.base.share / 2.0
    assert state.shared.happened[0, 0] == 0  # nothing was adopted
    np.testing.assert_allclose(state.weight[0], weight, rtol=1e-9)
    for expert, model in enumerate(slow):
        logdet = np.linalg.slogdet(model.S / inside.lam)[1] if shared else 0.0
        for item in range(5):
            A, outputs = model.model(item)
            logdet += np.linalg.slogdet(A / inside.lam)[1]
            np.testing.assert_allclose(
                arrays["own_inverse"][0, expert, 1 + item], np.linalg.inv(A), rtol=1e-9, atol=1e-11
            )
            np.testing.assert_allclose(arrays["own"][0, expert, 1 + item].T, outputs, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(np.tril(arrays["gram"][0, expert]), np.tril(model.S), rtol=1e-9)
        assert arrays["count"][0, expert] == pytest.approx(model.count, rel=1e-12)
        assert arrays["logdet"][0, expert] == pytest.approx(logdet, rel=1e-9)


def test_on_a_clock_items_fade_that_were_not_played_and_rewards_come_in_any_order():
    rows, paid, owners = rewarded(60, 0)
    rng = np.random.default_rng(5)
    times = np.sort(rng.uniform(0.0, 20.0 * DAY, 60))
    policy = Disjoint(Forgetful(LinMED(sigma=0.3), half_lives=("7d",)))
    slow = FadingModels(policy.asked.lam, 7.0 * DAY, 0, 3, on_clock=True)
    for row, reward, time in zip(rows, paid, times, strict=True):
        slow.learn(row, reward, time)
    arms = np.concatenate([[[item, 0.3, -0.2, 0.5], [item, 0.0, 1.0, 0.0]] for item in range(6)])
    expected = np.array([slow.look(arm)[:2] for arm in arms])
    for order in (np.arange(60), rng.permutation(60)):
        state = policy.start(1, 4)
        policy.learn_at(state, rows[order], paid[order], owners, times[order])
        before = {name: array.copy() for name, array in state.arrays().items()}
        mean, length2 = policy.look(state, arms[None])
        np.testing.assert_allclose(mean[0], expected[:, 0], rtol=0, atol=1e-10)
        np.testing.assert_allclose(length2[0, :, 0], expected[:, 1], rtol=1e-9)
        _, products = policy.look(state, arms[None], distances=True)
        np.testing.assert_allclose(products[0].diagonal(), expected[:, 1], rtol=1e-9)
        for name, array in before.items():  # looking changes nothing
            np.testing.assert_array_equal(state.arrays()[name], array)
    with pytest.raises(ValueError, match="half_lives are durations"):
        policy.learn(state, rows, paid, owners)


def test_after_a_long_silence_an_item_is_as_new():
    policy = Disjoint(Forgetful(LinMED(sigma=0.3), half_lives=("1d",)))
    state, one = policy.start(1, 2), np.zeros(1, dtype=np.int64)
    for item, day in ((0, 0.0), (1, 100.0)):
        policy.learn_at(state, np.array([[item, 1.0]]), np.ones(1), one, np.array([day * DAY]))
    mean, length2 = policy.look(state, np.array([[[0, 1.0], [1, 1.0], [2, 1.0]]]))
    np.testing.assert_allclose(length2[0, [0, 2], 0], 1.0 / policy.asked.lam, rtol=1e-12)
    np.testing.assert_allclose(mean[0, [0, 2]], 0.0, atol=1e-12)
    assert mean[0, 1] > 0.9


@both
@pytest.mark.parametrize("half_lives", [(math.inf,), (20.0, 5.0), ("5d",)], ids=str)
def test_gaussian_rewards_of_a_generalised_linear_model_are_those_of_ridge_regression(shared, half_lives):
    """They share nothing but what is linear: one follows its root, the other its closed form."""
    rows, paid, owners = rewarded(150, shared)
    ridge = around(
        Forgetful(LinMED(sigma=0.3, confidence="mixture", explore=False, ties="even"), half_lives=half_lives),
        shared,
    )
    inside = GLMMED(family="gaussian", sigma=0.3, norm_bound=1.0, intercept=False)
    glm = around(Forgetful(inside, half_lives=half_lives), shared)
    states = [policy.start(1, rows.shape[1]) for policy in (ridge, glm)]
    times = np.sort(np.random.default_rng(1).uniform(0.0, 30.0 * DAY, 150))
    for policy, state in zip((ridge, glm), states, strict=True):
        policy.learn_at(state, rows, paid, owners, times)
    np.testing.assert_allclose(states[1].weight, states[0].weight, rtol=1e-7)
    np.testing.assert_allclose(states[1].thetas, states[0].thetas, rtol=0, atol=1e-8)
    arms = sets_of_items(np.random.default_rng(2), 1, 6, 6, rows.shape[1])[0]
    mine, theirs = glm.log_probabilities(states[1], arms), ridge.log_probabilities(states[0], arms)
    np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(glm.radius(states[1]) * 0.3, ridge.radius(states[0]), rtol=1e-8)


@both
@pytest.mark.parametrize(
    "inside",
    [LinMED(sigma=0.3), LogisticMED(norm_bound=2.0), OFUL(sigma=0.3, floor=0.1)],
    ids=lambda one: one.name,
)
def test_a_memory_that_never_forgets_is_the_policy_inside(shared, inside):
    rows, paid, owners = rewarded(300, shared)
    paid = np.where(inside.accepts(paid), paid, (paid > 0.0).astype(float))
    plain, one = around(inside, shared), around(Forgetful(inside, half_lives=(math.inf,)), shared)
    apart, state = plain.start(1, rows.shape[1]), one.start(1, rows.shape[1])
    plain.learn(apart, rows, paid, owners)
    one.learn(state, rows, paid, owners)
    np.testing.assert_allclose(state.theta, apart.theta, rtol=0, atol=1e-12)
    arms = sets_of_items(np.random.default_rng(2), 1, 6, 6, rows.shape[1])[0]
    expected = plain.look(apart, arms, distances=True)
    for mine, theirs in zip(one.look(state, arms, distances=True), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-11)


@both
@pytest.mark.parametrize(
    "inside", [LinMED(sigma=0.3, norm_bound=4.0), LogisticMED()], ids=lambda one: one.name
)
def test_a_change_of_all_items_is_adopted_and_noticed(shared, inside):
    """θ of every item turns round: long memories go on from a short one, and of numbers there is an alarm."""
    rows, paid, _ = rewarded(6000, shared)
    paid = np.where(np.arange(6000) < 3000, paid, -paid)
    if not inside.accepts(paid).all():
        rows, paid = (
            rows * np.concatenate([[1.0], np.full(rows.shape[1] - 1, 4.0)]),
            (paid > 0.0).astype(float),
        )
    agent = Agent(around(Forgetful(inside), shared), dim=rows.shape[1], seed=0)
    agent.observe(rows[:3000], paid[:3000])
    assert not agent.drift().changed
    agent.observe(rows[3000:], paid[3000:])
    drift = agent.drift()
    assert drift.adoption_count > 0
    if inside.accepts(paid[:1] + 2.0).all():  # of clicks the test is weak: it gives much away for each item
        assert 3000 < drift.alarms[0].reward < 3200
    assert "for each item, all together" in drift.assumes
    expected = agent.mean(rows[:200]).mean > (0.5 if inside.accepts(np.array([2.0]))[0] == 0 else 0.0)
    assert (expected == (paid[:200] <= 0.0)).mean() > 0.7


def test_without_a_bound_on_what_nobody_has_seen_no_alarm_is_raised_and_drift_says_so():
    rows, paid, _ = rewarded(2000, 0)
    agent = Agent(Disjoint(Forgetful(LinMED(sigma="unknown", ridge="learned"))), dim=4, seed=0)
    agent.observe(rows, np.where(np.arange(2000) < 1000, paid, -paid))
    drift = agent.drift()
    assert (drift.changed, drift.adoption_count > 0) == (False, True)
    assert "no alarm can be raised" in drift.doubt
