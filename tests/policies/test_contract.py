"""The contract of every exported policy. A policy joins by being exported from linmed.policies.

Here at one small shape; `test_shapes.py` holds what is asked at every shape.
"""

import copy
import dataclasses
import json

import numpy as np
import pytest
from scipy.stats import chi2

from linmed import Agent
from linmed.policies import LinIMED, LinTS, Policy
from linmed.policies.wrapper import Around, Wrapper
from tests.policies.configurations import (
    CONFIGURATIONS,
    DEFAULTS,
    FEW,
    SOME,
    acceptable,
    estimates_propensity,
    make_arms,
    noise_for,
    short,
    taken,
    takes_one_hot,
    warmed_up,
)

DIM, ARMS = FEW.dim, FEW.arms

every_policy = pytest.mark.parametrize("policy", DEFAULTS, ids=short)
every_configuration = pytest.mark.parametrize("policy", CONFIGURATIONS, ids=short)
some_configurations = pytest.mark.parametrize("policy", SOME, ids=short)


@some_configurations
def test_stated_probabilities_are_the_frequencies_of_decisions(policy):
    """Chi-square with a false-alarm rate of 1e-6; cells with expectation below 5 are pooled.

    Twelve arms, which fill more than one vector. A shift of 1.3 % between two arms of 10 %, or an arm of
    0.32 % that is played twice as often, is noticed with probability 0.95 or more. What differs by less is
    compared exactly, in tests/reference and in test_linmed.py.
    """
    draws, arms_offered = 20_000, 12
    rng = np.random.default_rng(3)
    arms = make_arms(policy, rng, arms=arms_offered)
    one = warmed_up(policy, arms, rng, rounds=12)
    p = np.exp(policy.log_probabilities(one, arms)[0])
    noise = noise_for(policy, arms.shape[2], rng, draws)
    counts = np.zeros(arms_offered, dtype=np.int64)
    for part in np.split(noise, 2):  # a state may hold a window of rewards
        many = policy.start(len(part), arms.shape[2])
        many.restore({name: np.repeat(array, len(part), axis=0) for name, array in one.arrays().items()})
        counts += np.bincount(policy.choose(many, arms, part), minlength=arms_offered)
    assert not counts[p == 0].any(), "an arm of probability zero was played"
    expected = p * draws
    small = expected < 5
    cells = [(counts[i], expected[i]) for i in np.flatnonzero(~small)]
    if expected[small].sum() > 0:
        pooled = counts[small].sum(), expected[small].sum()
        if pooled[1] < 5 and cells:
            last = cells.pop()
            pooled = pooled[0] + last[0], pooled[1] + last[1]
        cells.append(pooled)
    statistic = sum((seen - due) ** 2 / due for seen, due in cells)
    assert statistic <= chi2.isf(1e-6, max(len(cells) - 1, 1))


@some_configurations
def test_the_probabilities_of_a_decision_sum_to_one(policy):
    """The played arm's among them is the one that is logged."""
    for arms, dim in ((ARMS, DIM), (30, 4), (5, 2)):
        offered = make_arms(policy, np.random.default_rng(15), 1, arms, dim)[0]
        agent = Agent(policy, dim=offered.shape[1], seed=2)
        for _ in range(20):
            decision = agent.decide(offered)
            agent.learn(decision, float(acceptable(policy, offered[decision.arm, 0])))
            assert 0.0 < decision.probability <= 1.0 + 1e-12
            if estimates_propensity(policy):
                assert decision.probabilities is None  # an estimate for the played arm alone
                continue
            assert abs(decision.probabilities.sum() - 1.0) <= 1e-12
            assert decision.probability == pytest.approx(decision.probabilities[decision.arm], rel=1e-14)


def test_a_decision_for_an_arm_too_rare_to_be_seen_sums_to_one():
    """The fifth arm is best only where four others nearly vanish: no line of the integral comes across it."""
    arms = np.array([[[1.0, 0, 0], [-1.0, 0, 0], [0, 0, 1.0], [0, 0, -1.0], [0, 1e-6, 0]]])
    policy = LinTS(scale=1.0)
    choice = policy.decide(policy.start(1, 3), arms, np.array([[0.0, 1.0, 0.0]]))
    assert choice.arm[0] == 4
    assert np.isfinite(choice.log_probability[0])
    assert choice.log_probability[0] == choice.log_probabilities[0, 4]
    assert abs(np.exp(choice.log_probabilities[0]).sum() - 1.0) <= 1e-12


@pytest.mark.parametrize(
    "policy", [one for one in CONFIGURATIONS if one.index_free and one.learns_from_arms], ids=short
)
def test_permuting_the_arms_permutes_the_probabilities(policy):
    rng = np.random.default_rng(8)
    arms = make_arms(policy, rng, arms=6)  # up to 2·dim arms: beyond that BH may choose by position
    state = warmed_up(policy, arms, rng)
    order = rng.permutation(6)
    p = np.exp(policy.log_probabilities(state, arms))
    np.testing.assert_allclose(
        np.exp(policy.log_probabilities(state, arms[:, order])), p[:, order], atol=1e-9
    )


def in_units(policy, factor):
    """The policy, or the one inside it, with all that has the unit of a reward times `factor`."""
    if isinstance(policy, (Wrapper, Around)):
        return dataclasses.replace(policy, base=in_units(policy.base, factor))
    units = {"sigma": factor, "norm_bound": factor, "reward_scale": factor, "scale": factor}
    units["gamma"] = 1.0 / factor
    if getattr(policy, "ridge", None) == "learned":  # which says how large θ* is
        del units["norm_bound"]
    if getattr(policy, "sigma", None) != "unknown":  # which says how large rewards are
        del units["reward_scale"]
    given = {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy) if f.name in units}
    return dataclasses.replace(
        policy, **{name: units[name] * value for name, value in given.items() if isinstance(value, float)}
    )


def in_any_unit(policy):
    """Whether its decisions do not depend on the unit of rewards."""
    squared = isinstance(policy, LinTS) and policy.scale == "squared-radius"
    return policy.scale_free and not squared and not (isinstance(policy, LinIMED) and policy.version == 2)


@pytest.mark.parametrize("policy", [one for one in CONFIGURATIONS if in_any_unit(one)], ids=short)
def test_scaling_rewards_sigma_and_norm_bound_changes_no_decision(policy):
    """Every parameter in units of reward is scaled with them, γ against them."""
    arms = make_arms(policy, np.random.default_rng(9), replicas=20)
    if not takes_one_hot(policy):  # bonuses of one size are ties but for rounding
        arms = taken(policy, arms * np.random.default_rng(9).uniform(0.5, 1.0, (20, ARMS, 1)))
    found = []
    for factor in (1.0, 1e-3, 7.0, 1e4):
        rule, rng = in_units(policy, factor), np.random.default_rng(10)
        state = rule.start(20, arms.shape[2])
        for _ in range(30):
            played = rule.choose(state, arms, noise_for(rule, arms.shape[2], rng, 20))
            features = rule.features(state, arms, played)
            rule.learn(state, features, factor * rng.standard_normal(20), np.arange(20))
        found.append(np.exp(rule.log_probabilities(state, arms)))
        np.testing.assert_allclose(found[-1], found[0], atol=1e-7)


@every_configuration
def test_a_policy_travels_as_its_configuration_alone(policy):
    """As JSON and as pickle would carry it; what it made for itself is made again elsewhere."""
    arms = make_arms(policy, np.random.default_rng(16))
    policy.log_probabilities(policy.start(1, arms.shape[2]), arms)
    arrived = copy.copy(policy)  # what pickle would carry, also for a class that only this process knows
    assert set(vars(arrived)) == {field.name for field in dataclasses.fields(policy)}
    for one in (arrived, Policy.from_dict(json.loads(json.dumps(policy.to_dict())))):
        assert one == policy
        assert hash(one) == hash(policy)
        assert one.name == policy.name != ""


@pytest.mark.identity
@some_configurations
def test_a_saved_agent_continues_identically(policy, tmp_path):
    rng = np.random.default_rng(11)
    arms = make_arms(policy, rng)[0]
    agent = Agent(policy, dim=arms.shape[1], seed=5)
    waiting = [agent.decide(arms) for _ in range(300)]
    for decision in waiting[::2]:
        agent.learn(decision, float(acceptable(policy, rng.standard_normal())))
    agent.save(tmp_path / "agent")
    twin = Agent.load(tmp_path / "agent")
    assert twin.pending == agent.pending
    for late in waiting[1:40:2]:
        for one in (agent, twin):
            one.learn(late.id, 1.0)
    for _ in range(50):
        a, b = agent.decide(arms), twin.decide(arms)
        assert a.arm == b.arm
        np.testing.assert_array_equal(a.log_probability, b.log_probability)
        for one, decision in ((agent, a), (twin, b)):
            one.learn(decision, 1.0)
    for name, array in agent.state.arrays().items():
        np.testing.assert_array_equal(twin.state.arrays()[name], array)


BAD_ARMS = [
    *(np.full((ARMS, DIM), number) for number in (np.nan, np.inf, 1e200)),
    np.ones((ARMS, DIM + 1)),
    np.ones(DIM),
    np.empty((0, DIM)),
    [[1.0] * DIM, [1.0] * (DIM - 1)],
    [["a"] * DIM],
    np.ones((2, DIM), dtype=complex),
]


@every_policy
def test_bad_arms_and_rewards_are_refused_and_leave_the_agent_untouched(policy):
    arms = make_arms(policy, np.random.default_rng(12), arms=DIM if takes_one_hot(policy) else ARMS)[0]
    agents = [Agent(policy, dim=DIM, seed=1) for _ in range(2)]
    for agent in agents:
        agent.learn(agent.decide(arms), 1.0)
    before = {name: array.copy() for name, array in agents[0].state.arrays().items()}
    for bad in BAD_ARMS:
        with pytest.raises((ValueError, TypeError), match="arms"):
            agents[0].decide(bad)
        for name, array in agents[0].state.arrays().items():
            np.testing.assert_array_equal(array, before[name])
    first, second = (agent.decide(arms) for agent in agents)
    assert first.arm == second.arm
    np.testing.assert_array_equal(first.log_probability, second.log_probability)
    for reward in (np.nan, np.inf, -np.inf, 1e200, "good", [1.0, 2.0]):
        with pytest.raises((ValueError, TypeError), match="reward"):
            agents[0].learn(first, reward)
        assert agents[0].count == 1
    agents[0].learn(first, 1.0)
    assert agents[0].count == 2


@some_configurations
def test_awkward_arm_sets_have_an_answer(policy):
    """One arm, duplicates, zero arms, rank deficiency, tiny and huge scales: probabilities stay true."""
    if takes_one_hot(policy):
        sets = [np.eye(DIM)[:1], np.repeat(np.eye(DIM), 4, axis=0)]
    else:
        rng = np.random.default_rng(14)
        base = rng.standard_normal((12, DIM))
        flat = np.outer(rng.standard_normal(9), [1.0, 2.0, 3.0])
        off_origin = np.c_[np.ones(9), rng.standard_normal((9, DIM - 1))]
        graded = base * 10.0 ** np.arange(-60, 60, 10)[:, None]
        with_zeros = np.vstack([base, np.zeros((3, DIM))])
        duplicates = np.repeat(base[:2], 5, axis=0)
        sets = [base[:1], duplicates, np.zeros((9, DIM)), with_zeros, flat, off_origin]
        sets += [1e-90 * base, 1e90 * base, graded]
        sets = [policy.like(one) for one in sets]
    for arms in sets:
        agent = Agent(policy, dim=arms.shape[1], seed=1)
        if not policy.learns_from_arms and not arms.any():
            continue
        for _ in range(5):
            decision = agent.decide(arms)
            p = agent.probabilities(arms)
            assert (p >= 0).all()
            assert abs(p.sum() - 1) <= 1e-12
            assert -np.inf < decision.log_probability <= 1e-12
            agent.learn(decision, float(acceptable(policy, 0.3)))


@every_policy
def test_views_of_larger_arrays_are_taken_as_what_they_show(policy):
    rng = np.random.default_rng(4)
    arms = make_arms(policy, rng).astype("f4").astype(np.float64)
    dim = arms.shape[2]
    wide = rng.standard_normal((3, 2 * arms.shape[1], 2 * dim))
    wide[:1, ::2, :dim] = arms
    noise = noise_for(policy, dim, rng, 1)
    played = np.arange(arms.shape[1])
    rewards = acceptable(policy, rng.standard_normal(len(played)))
    state, other = policy.start(1, dim), policy.start(1, dim)
    for view in (wide[:1, ::2, :dim], np.asfortranarray(arms), arms.astype(">f8"), arms.astype("f4")):
        assert np.array_equal(policy.log_probabilities(state, view), policy.log_probabilities(other, arms))
        assert np.array_equal(policy.choose(state, view, noise), policy.choose(other, arms, noise))
        features = policy.features(other, arms, played[:1])
        assert np.array_equal(policy.features(state, view, played[:1]), features)
        lessons = np.broadcast_to(features, (len(played), dim)) if not policy.learns_from_arms else view[0]
        policy.learn(state, lessons, np.repeat(rewards, 2)[::2], np.zeros(2 * len(played), np.int64)[::2])
        policy.learn(other, lessons.astype(np.float64, order="C"), rewards, np.zeros(len(played), np.int64))
        for name, array in state.arrays().items():
            assert np.array_equal(array, other.arrays()[name])
    with pytest.raises(ValueError, match="replicas"):
        policy.learn(state, lessons, rewards, np.ones(len(played), np.int64))
    with pytest.raises(ValueError, match=r"features must be \(m, "):
        policy.learn(state, lessons[1:], rewards, np.zeros(len(played), np.int64))
