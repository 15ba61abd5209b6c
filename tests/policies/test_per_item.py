"""Models of items: the block model to 1e-10, models that come, what items share, what is forgotten."""

import math
from itertools import cycle

import numpy as np
import pytest

from linmed import Agent, Verdicts
from linmed.ope import DecisionLog, verdict
from linmed.policies import (
    E2D,
    EXP2,
    GLMMED,
    OFUL,
    CatalogueMED,
    Disjoint,
    Forgetful,
    Greedy,
    Hybrid,
    LinIMED,
    LinMED,
    LinMEDNoDesign,
    LinTS,
    LinUCB,
    LogisticMED,
    LogisticTS,
    LogisticUCB,
    MaillardSampling,
    Pinpoint,
    RandUCB,
    SpannerIGW,
    SquareCB,
    Uniform,
)
from linmed.policies.model_state import FIRST_ROOM, MOST_MODELS
from linmed.serve.bandit import Bandit
from linmed.serve.items import Catalogue
from tests.policies.block_model import around, compare, sets_of_items, written_out
from tests.reference.models import FadingModels

INSIDE = [
    LinMED(sigma=0.3),
    LinMED(sigma="unknown", version=1),
    LinMED(sigma=0.5, confidence="empirical", explore=False),
    LinMEDNoDesign(sigma=0.3),
    OFUL(sigma=0.3, floor=0.1),
    LinUCB(alpha=0.5),
    LinIMED(version=3, sigma=0.3, floor=0.2),
    RandUCB(sigma=0.3, spread=0.5),
    SquareCB(oracle="vaw"),
    Greedy(epsilon=0.1),
    Pinpoint(sigma=0.3),
    Uniform(),
    LinMED(sigma="unknown", ridge="learned"),
    OFUL(sigma=0.3, ridge="learned", floor=0.1),
    LogisticMED(),
    LogisticMED(norm_bound=2.0, confidence="certified", explore=True, intercept=False),
    LogisticUCB(intercept=False),
    GLMMED(family="poisson", norm_bound=1.0, version=1, floor=0.1),
]
both = pytest.mark.parametrize("shared", [0, 2], ids=["disjoint", "hybrid"])


@pytest.mark.parametrize(
    ("inside", "shared"),
    [*zip(INSIDE, cycle((0, 4))), *zip(INSIDE[::6], (4, 1, 0), strict=True)],
    ids=lambda one: getattr(one, "name", None),
)
def test_it_equals_the_block_model_along_400_rounds(inside, shared):
    assert (compare(inside, shared) <= 1e-10).all()


@both
def test_thompson_sampling_among_two_items_equals_that_of_the_block_model(shared):
    """Where its law has a closed form, also for one of two arms that are the same."""
    assert (compare(LinTS(sigma=0.3), shared, rounds=200, count=2) <= 1e-10).all()
    assert (compare(LinTS(scale="bayes", ridge="learned"), shared, rounds=100, count=2) <= 1e-10).all()
    assert (compare(LogisticTS(), shared, rounds=100, count=2) <= 1e-10).all()
    policy, twins = around(LinTS(), shared), np.ones((1, 2, 3 + shared))
    np.testing.assert_array_equal(
        policy.log_probabilities(policy.start(1, 3 + shared), twins), [[0.0, -np.inf]]
    )


@both
def test_thompson_sampling_has_the_law_of_the_block_model(shared):
    """Of two integrals the difference is within four of their standard errors."""
    rng = np.random.default_rng(12)
    inside, models, dim = LinTS(scale="bayes", sigma=0.5), 6, 3 + shared
    policy = around(inside, shared)
    state, block = policy.start(1, dim), inside.start(1, shared + models * 2)
    rows = sets_of_items(rng, 60, 1, models, dim)[:, 0, 0]
    rewards, owners = rng.normal(size=60), np.zeros(60, dtype=np.int64)
    policy.learn(state, rows, rewards, owners)
    inside.learn(block, written_out(rows, models, shared), rewards, owners)
    for distinct in (True, False):
        arms = sets_of_items(rng, 1, 6, models, dim, distinct)[0]
        zeros = written_out(arms, models, shared)
        mine, theirs = policy.log_probabilities(state, arms), inside.log_probabilities(block, zeros)
        error = inside.propensity_error(block, zeros)
        assert (np.abs(np.exp(mine) - np.exp(theirs)) <= 4.0 * np.sqrt(2.0) * np.maximum(error, 1e-6)).all()


@both
def test_an_optimal_design_equals_that_of_the_block_model(shared):
    """Arms of different models are linearly independent: the even design is optimal."""
    assert (compare(LinMED(sigma=0.3, design="optimal"), shared, rounds=100) <= 1e-10).all()


@both
def test_arms_of_one_model_equal_those_of_the_block_model(shared):
    assert (compare(LinMED(sigma=0.3), shared, rounds=300, count=6, models=2, distinct=False) <= 1e-10).all()


def test_one_model_alone_is_the_policy_inside_whatever_the_number_of_arms():
    """More than two arms for each dimension need a design: that of the features."""
    rng = np.random.default_rng(2)
    inside, policy = LinMED(sigma=0.3), Disjoint(LinMED(sigma=0.3))
    state, plain, one = policy.start(1, 4), inside.start(1, 3), np.zeros(1, dtype=np.int64)
    for _ in range(50):
        arms = rng.normal(size=(1, 20, 4))
        arms[:, :, 0] = 3.0
        mine = policy.decide(state, arms, rng.random((1, 1)))
        theirs = inside.log_probabilities(plain, np.ascontiguousarray(arms[:, :, 1:]))
        np.testing.assert_allclose(mine.log_probabilities, theirs, rtol=0, atol=1e-10)
        reward = rng.normal(size=1)
        policy.learn(state, mine.features, reward, one)
        inside.learn(plain, np.ascontiguousarray(mine.features[:, 1:]), reward, one)


@both
@pytest.mark.parametrize("version", [0, 1])
def test_more_arms_than_twice_the_dimensions_of_their_models_have_a_design(shared, version):
    """Ties between models may be settled otherwise than in the block model; what is promised stays true."""
    rng = np.random.default_rng(3)
    policy = around(LinMED(sigma=0.3, version=version), shared)
    state = policy.start(1, 3 + shared)
    arms = sets_of_items(rng, 1, 40, 3, 3 + shared, distinct=False)[0]
    policy.learn(state, arms[0], rng.normal(size=40), np.zeros(40, dtype=np.int64))
    log_p = policy.log_probabilities(state, arms)
    assert np.isfinite(log_p).all()
    assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-12)


@both
def test_models_grow_as_they_are_learned_from(shared):
    policy, dim = around(LinMED(), shared), 3 + shared
    state = policy.start(1, dim)
    assert state.theta.shape == (1, shared)
    arms = np.ones((1, 3, dim))
    arms[0, :, 0] = 2, 40, 99_999
    before = policy.log_probabilities(state, arms)
    assert state.room == FIRST_ROOM  # asking changes nothing
    assert before[0, 1] == before[0, 2]  # neither is known
    policy.learn(state, arms[0, [1]], np.ones(1), np.zeros(1, dtype=np.int64))
    assert (state.room, state.learned) == (64, 41)
    assert not state.thetas[0, :40].any()
    assert state.thetas[0, 40].any()
    policy.learn(state, arms[0, [2]], np.ones(1), np.zeros(1, dtype=np.int64))
    assert state.learned == 100_000
    assert state.theta.shape == (1, shared + 2 * 100_000)
    assert np.exp(policy.log_probabilities(state, arms)).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.identity
@both
def test_rounds_in_one_call_leave_the_state_of_rounds_one_by_one(shared):
    """Among models of which only a few are learned from, the last one never."""
    rng = np.random.default_rng(6)
    policy, dim = around(OFUL(sigma=0.3), shared), 3 + shared
    arms = sets_of_items(rng, 1, 50, 50, dim)
    arms[0, 0, np.argsort(arms[0, 0, :, 0])[30:], 1:] = 0.0  # nothing is to be had from these
    rewards, noise = rng.normal(size=(10, 1, 50)), rng.random((10, 1, 1))
    together, singly, played = policy.start(1, dim), policy.start(1, dim), np.empty((10, 1), dtype=np.int64)
    policy.play(together, arms, rewards, noise, played)
    for t in range(10):
        choice = policy.decide(singly, arms[0], noise[t])
        assert choice.arm[0] == played[t, 0]
        policy.learn(singly, choice.features, rewards[t, :, choice.arm[0]], np.zeros(1, dtype=np.int64))
    assert together.room < 64
    for name, array in singly.arrays().items():
        np.testing.assert_array_equal(together.arrays()[name], array, err_msg=name)


@pytest.mark.identity
@both
@pytest.mark.parametrize(
    "inside",
    [LinMED(), LogisticMED(), Forgetful(LinMED(sigma="unknown", ridge="learned")), Forgetful(LogisticMED())],
    ids=lambda policy: policy.name,
)
def test_a_saved_agent_and_a_bandit_of_the_service_continue_to_the_last_bit(shared, inside, tmp_path):
    rng, policy, dim = np.random.default_rng(7), around(inside, shared), 3 + shared
    agent = Agent(policy, dim=dim, seed=3)
    sets = sets_of_items(rng, 60, 6, 50, dim)[:, 0]
    for arms in sets[:30]:
        agent.learn(agent.decide(arms), float(rng.integers(2)))
    waiting = agent.decide(sets[30])
    agent.save(tmp_path / "agent")
    twin = Agent.load(tmp_path / "agent")
    for one in (agent, twin):
        one.learn(waiting.id, 0.5)
    for arms in sets[31:]:
        a, b = agent.decide(arms), twin.decide(arms)
        np.testing.assert_array_equal(a.log_probabilities, b.log_probabilities)
        agent.learn(a, 1.0)
        twin.learn(b, 1.0)
    bandits = [Bandit(id=0, name="b", dim=dim, policy=policy) for _ in range(2)]
    features, rewards, times = sets[:, 0].copy(), rng.integers(2, size=60).astype(float), np.zeros(60)
    bandits[0].fold(features, rewards, times)
    bandits[1].fold(features[:20], rewards[:20], times[:20])
    third = Bandit(id=0, name="b", dim=dim, policy=policy)
    third.load(bandits[1].save(), 20)
    third.make_ready()
    third.fold(features[20:], rewards[20:], times[20:])
    for name, array in bandits[0].state.arrays().items():
        np.testing.assert_array_equal(third.state.arrays()[name], array, err_msg=name)
    laws = [bandit.decider.log_probabilities(sets[0]) for bandit in (bandits[0], third)]
    np.testing.assert_array_equal(*laws)


def test_a_catalogue_has_the_number_of_each_item_as_its_first_feature():
    """With the map that joins an item's features and the context, the service offers what is wanted."""
    catalogue = Catalogue.of(("a", "b", "c"), np.array([[0.0], [1.0], [2.0]]))
    bandit = Bandit(id=0, name="b", dim=3, policy=Disjoint(), catalogue=catalogue)
    offered = bandit.offer(None, None, [0.5, 1.0], 100).vectors
    np.testing.assert_array_equal(offered, [[0, 0.5, 1], [1, 0.5, 1], [2, 0.5, 1]])


@both
@pytest.mark.parametrize("number", [-1.0, 0.5, 1e6, 1e12, 1e99])
def test_a_wrong_number_of_a_model_is_refused_and_changes_nothing(shared, number):
    agent = Agent(around(LinMED(), shared), dim=3 + shared, seed=0)
    good = np.ones((2, 3 + shared))
    good[:, 0] = 0, 1
    agent.learn(agent.decide(good), 1.0)
    before = {name: array.copy() for name, array in agent.state.arrays().items()}
    bad = good.copy()
    bad[1, 0] = number
    for ask in (
        agent.decide,
        agent.probabilities,
        agent.mean,
        agent.verdict,
        lambda arms: agent.decide_batch([arms]),
    ):
        with pytest.raises(ValueError, match=r"arms.*column 0 must be the number.*row 1"):
            ask(bad)
    with pytest.raises(ValueError, match="features: column 0 must be the number"):
        agent.observe(bad, [1.0, 2.0])
    for name, array in agent.state.arrays().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_number_that_would_take_too_much_memory_is_refused():
    policy = Disjoint()
    state = policy.start(1, 101)
    row = np.ones((1, 101))
    row[0, 0] = MOST_MODELS - 1
    with pytest.raises(ValueError, match=r"features: models up to number 999999 .* more than 4 GiB"):
        policy.learn(state, row, np.ones(1), np.zeros(1, dtype=np.int64))
    assert state.room == FIRST_ROOM
    assert state.count[0] == 0


def test_a_state_of_other_shapes_is_refused():
    policy = Disjoint()
    state, other = policy.start(1, 4), policy.start(1, 5)
    with pytest.raises(ValueError, match="state array"):
        state.restore(other.arrays())
    with pytest.raises(ValueError, match="state array"):
        state.restore({**state.arrays(), "pulls": np.zeros((1, 3), dtype=np.int64)})
    with pytest.raises(ValueError, match="state array"):
        state.restore({})


@both
def test_means_and_verdicts_are_those_of_the_block_model(shared):
    rng = np.random.default_rng(8)
    inside, dim, models = LinMED(sigma=0.1), 3 + shared, 6
    agent, block = (
        Agent(around(inside, shared), dim=dim, seed=0),
        Agent(inside, dim=shared + models * 2, seed=0),
    )
    features = sets_of_items(rng, 400, 1, models, dim)[:, 0, 0]
    theta = rng.normal(size=shared + 2 * models) / 4
    zeros = written_out(features, models, shared)
    rewards = zeros @ theta + 0.1 * rng.normal(size=400)
    agent.observe(features, rewards)
    block.observe(zeros, rewards)
    arms = sets_of_items(rng, 1, 5, models, dim)[0, 0]
    offered = written_out(arms, models, shared)
    for mine, theirs in zip(agent.mean(arms), block.mean(offered), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-10)
    mine, theirs = agent.verdict(arms), block.verdict(offered)
    assert (mine.best, mine.candidates, mine.decided) == (theirs.best, theirs.candidates, theirs.decided)
    assert mine.margin == pytest.approx(theirs.margin, abs=1e-10)
    np.testing.assert_allclose(mine.estimates, theirs.estimates, rtol=0, atol=1e-10)
    np.testing.assert_allclose(mine.differences(), theirs.differences(), rtol=0, atol=1e-10)
    assert Verdicts(arms).look(agent).candidates == mine.candidates
    assert "length of theta is at most" in mine.assumes


def test_what_needs_one_model_of_all_arms_says_so():
    played = {"arm": [0, 1], "probability": [0.5, 0.5], "reward": [0.2, 0.6]}
    log = DecisionLog.from_table(played | {"features": [[0.0, 1.0], [1.0, 1.0]]})
    with pytest.raises(TypeError, match="not for Disjoint"):
        verdict(log, Disjoint())
    with pytest.raises(AttributeError, match="Disjoint keeps no covariance"):
        Agent(Disjoint(), dim=3).covariance  # noqa: B018
    with pytest.raises(ValueError, match="dim must be at least 2 for Disjoint"):
        Agent(Disjoint(), dim=1)
    with pytest.raises(ValueError, match="dim must be at least 5 for Hybrid"):
        Agent(Hybrid(shared=3), dim=4)


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        (E2D(), "base must be LinMED"),
        (SpannerIGW(), "base must be LinMED"),
        (EXP2(), "ridge estimate"),
        (MaillardSampling(), "ridge estimate"),
        (CatalogueMED(), "routes follow from one"),
        (LinMED(sigma=0.3, intercept=True), "a constant column"),
        (Forgetful(E2D()), "base must be LinMED"),
        (Disjoint(), "without another"),
        (LinMED(design="warm"), "whose rules need no more"),
        (LinMED(norm_bound="unknown"), "norm_bound must be a number"),
        (SquareCB(horizon=100), "from the number of features"),
        (LinTS(scale="agrawal-goyal"), "from the number of features"),
        ({"policy": "Disjoint", "base": {"policy": "LinMED"}}, "without another"),
        ({"policy": "LinMED", "colour": 1}, "has no parameter 'colour'"),
        (None, "must be a Policy"),
    ],
)
def test_policies_that_cannot_be_carried_over_are_refused(inside, why):
    for kind in (Disjoint, Hybrid):
        with pytest.raises((ValueError, TypeError), match=why):
            kind(inside)


def test_more_arms_than_there_is_memory_for_are_refused_by_name():
    huge = np.lib.stride_tricks.as_strided(np.ones(3), shape=(1 << 44, 3), strides=(0, 8))
    for policy in (Disjoint(LinMED()), LinMED()):
        agent = Agent(policy, dim=3)
        for call in (agent.decide, agent.probabilities, agent.mean):
            with pytest.raises(ValueError, match=r"^arms of shape \(17592186044416, 3\) takes 3.93e\+05 GiB"):
                call(huge)
        with pytest.raises(ValueError, match=r"^features of shape .* which cannot be had"):
            agent.observe(huge, np.broadcast_to(1.0, 1 << 44))
        assert agent.pending == ()
        assert agent.count == 0
    with pytest.raises(ValueError, match="compares each of 30000 arms with each other"):
        Agent(Disjoint(LinTS()), dim=2).decide(np.ones((30_000, 2)))


def test_an_item_that_was_never_learned_from_is_the_prior_whatever_its_number():
    agent = Agent(Disjoint(LinMED(sigma=0.3)), dim=3, seed=1)
    for _ in range(30):
        agent.observe([0, 1.0, 0.2], 1.0)
    laws = [agent.probabilities([[0, 1.0, 0.0], [number, 1.0, 0.3]]) for number in (7, 40, 1000)]
    np.testing.assert_array_equal(laws[1], laws[0])
    np.testing.assert_array_equal(laws[2], laws[0])


def test_what_one_item_teaches_about_shared_features_all_know():
    policy = Hybrid(LinMED(), shared=1)
    state, rows = policy.start(1, 3), np.zeros((50, 3))
    rows[:, 1] = 1.0
    policy.learn(state, rows, np.ones(50), np.zeros(50, dtype=np.int64))
    unseen = np.array([[7.0, 1.0, 0.0], [7.0, 0.0, 1.0]])
    np.testing.assert_allclose(policy.expected(state, unseen), [50 / 51, 0.0], rtol=1e-12)


def test_nothing_drifts_in_300000_rewards():
    """Of features of which the shared one is nearly the item's own, with an item that is seldom seen."""
    rng = np.random.default_rng(1)
    shared, own, models, count = 2, 2, 4, 300_000
    inside = LinMED(sigma=0.3)
    policy, state = Hybrid(inside, shared=shared), None
    rows = sets_of_items(rng, count, 1, models, 1 + shared + own)[:, 0, 0]
    rows[:, 1] = rows[:, 3] + 0.01 * rows[:, 1]
    rows[:, 0] = np.where(rng.random(count) < 1e-3, 3, rows[:, 0] % 3)
    zeros = written_out(rows, models, shared)
    rewards = zeros @ rng.normal(size=zeros.shape[1]) + 0.3 * rng.normal(size=count)
    owners = np.zeros(count, dtype=np.int64)
    state, block = policy.start(1, rows.shape[1]), inside.start(1, zeros.shape[1])
    policy.learn(state, rows, rewards, owners)
    inside.learn(block, zeros, rewards, owners)
    np.testing.assert_allclose(state.theta, block.theta, rtol=0, atol=1e-10)
    arms = sets_of_items(rng, 1, 4, models, rows.shape[1])[0]
    offered = written_out(arms, models, shared)
    mean, gram = policy.look(state, arms, distances=True)
    expected = np.einsum("id,de,je->ij", offered[0], block.inverse[0], offered[0])
    np.testing.assert_allclose(gram[0], expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    np.testing.assert_allclose(mean[0], offered[0] @ block.theta[0], rtol=0, atol=1e-10)
    for mine, theirs in zip(policy.radius(state), inside.radius(block), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-10)


@pytest.mark.parametrize("size", [1e-8, 1.0, 100.0])
def test_features_of_any_size_equal_the_block_model(size):
    """Each arm three times: what rounding leaves of z − Wx is no knowledge."""
    rng = np.random.default_rng(9)
    inside, shared, models = LinMED(sigma=0.3), 2, 3
    policy = Hybrid(inside, shared=shared)
    rows = size * sets_of_items(rng, 12, 1, models, 5)[:, 0, 0]
    rows[:, 0] = np.arange(12) % models
    rows = np.repeat(rows, 3, axis=0)
    zeros, rewards = written_out(rows, models, shared), rng.normal(size=36)
    owners = np.zeros(36, dtype=np.int64)
    state, block = policy.start(1, 5), inside.start(1, zeros.shape[1])
    policy.learn(state, rows, rewards, owners)
    inside.learn(block, zeros, rewards, owners)
    np.testing.assert_allclose(policy.radius(state), inside.radius(block), rtol=1e-9)
    mine, theirs = (
        policy.log_probabilities(state, rows[None, :3].copy()),
        inside.log_probabilities(block, zeros[None, :3].copy()),
    )
    np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9)


DAY = 86400.0


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
