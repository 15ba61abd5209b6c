"""What every exported policy must satisfy. A policy joins by being listed in linmed.policies.ALL."""

import dataclasses
import json

import numpy as np
import pytest
from scipy.stats import chi2

from linmed import Agent
from linmed.policies import ALL, Policy

DIM, ARMS = 3, 7
ONE_HOT = {"MaillardSampling"}
FIXED_SET = {"EXP2"}
CASES = [cls() for cls in ALL]


def names(policy):
    return type(policy).__name__


every_policy = pytest.mark.parametrize("policy", CASES, ids=names)


def make_arms(policy, rng, replicas=1, arms=ARMS, dim=DIM):
    """Arms this policy accepts, with at most 2·dim of them where a design would have to break ties."""
    if names(policy) in ONE_HOT:
        return np.broadcast_to(np.eye(arms), (replicas, arms, arms)).copy()
    sets = rng.standard_normal((replicas, arms, dim))
    return sets / np.linalg.norm(sets, axis=2, keepdims=True) * 0.9


def warmed_up(policy, arms, rng, rounds=25):
    """A state after some rounds of the policy's own decisions."""
    replicas, _, dim = arms.shape
    state = policy.start(replicas, dim)
    theta = rng.standard_normal(dim) / np.sqrt(dim)
    for _ in range(rounds):
        played = policy.choose(state, arms, noise_for(policy, dim, rng, replicas))
        features = policy.features(state, arms, played)
        rewards = arms[np.arange(replicas), played] @ theta + 0.5 * rng.standard_normal(replicas)
        policy.learn(state, features, rewards, np.arange(replicas))
    return state


def noise_for(policy, dim, rng, replicas):
    draw = rng.random if policy.noise == "uniform" else rng.standard_normal
    return draw((replicas, policy.noise_size(dim)))


@every_policy
def test_probabilities_have_the_right_shape_and_sum_to_one(policy):
    rng = np.random.default_rng(1)
    arms = make_arms(policy, rng, replicas=4)
    for rounds in (0, 1, 25):
        log_p = policy.log_probabilities(warmed_up(policy, arms, rng, rounds), arms)
        assert log_p.shape == (4, ARMS)
        assert (log_p <= 1e-12).all()
        np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, atol=1e-12)


@every_policy
def test_a_shared_arm_set_gives_the_same_as_copies_of_it(policy):
    rng = np.random.default_rng(2)
    arms = np.repeat(make_arms(policy, rng), 3, axis=0)
    state = warmed_up(policy, arms, rng)
    shared = policy.log_probabilities(state, arms[:1])
    np.testing.assert_array_equal(shared, policy.log_probabilities(state, arms))


@every_policy
def test_stated_probabilities_are_the_frequencies_of_200000_decisions(policy):
    """Chi-square with a false-alarm rate of 1e-6; cells with expectation below 5 are pooled."""
    draws = 200_000
    rng = np.random.default_rng(3)
    arms = make_arms(policy, rng)
    one = warmed_up(policy, arms, rng, rounds=12)
    many = policy.start(draws, arms.shape[2])
    many.restore({name: np.repeat(array, draws, axis=0) for name, array in one.arrays().items()})
    p = np.exp(policy.log_probabilities(one, arms)[0])
    arm = policy.choose(many, arms, noise_for(policy, arms.shape[2], rng, draws))
    counts = np.bincount(arm, minlength=ARMS)
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


@every_policy
def test_the_logged_probability_is_the_marginal_one(policy):
    rng = np.random.default_rng(4)
    arms = make_arms(policy, rng, replicas=50)
    state = warmed_up(policy, arms, rng)
    choice = policy.decide(state, arms, noise_for(policy, arms.shape[2], rng, 50))
    log_p = policy.log_probabilities(state, arms)
    np.testing.assert_allclose(choice.log_probability, log_p[np.arange(50), choice.arm], atol=1e-12)


@every_policy
def test_deciding_and_choosing_play_the_same_arm(policy):
    rng = np.random.default_rng(5)
    arms = make_arms(policy, rng, replicas=500)
    state = warmed_up(policy, arms, rng)
    noise = noise_for(policy, arms.shape[2], rng, 500)
    np.testing.assert_array_equal(policy.decide(state, arms, noise).arm, policy.choose(state, arms, noise))


@every_policy
@pytest.mark.parametrize("shared", [True, False], ids=["one set", "sets that change"])
def test_rounds_played_in_one_call_are_the_rounds_played_one_by_one(policy, shared):
    rng = np.random.default_rng(11)
    replicas, rounds = 3, 20
    changing = not shared and names(policy) not in FIXED_SET
    arms = np.stack(
        [make_arms(policy, rng, 1 if shared else replicas) for _ in range(rounds if changing else 1)]
    )
    dim = arms.shape[-1]
    rewards = rng.standard_normal((rounds, replicas, ARMS))
    noise = np.stack([noise_for(policy, dim, rng, replicas) for _ in range(rounds)])
    together, singly = policy.start(replicas, dim), policy.start(replicas, dim)
    played = np.empty((rounds, replicas), dtype=np.int64)
    policy.play(together, arms, rewards, noise, played)
    for t in range(rounds):
        offered = arms[t if changing else 0]
        arm = policy.choose(singly, offered, noise[t])
        np.testing.assert_array_equal(played[t], arm)
        features = policy.features(singly, offered, arm)
        policy.learn(singly, features, rewards[t, np.arange(replicas), arm], np.arange(replicas))
    for name, array in singly.arrays().items():
        np.testing.assert_array_equal(together.arrays()[name], array)


@every_policy
def test_a_replica_does_not_depend_on_the_others(policy):
    arms = make_arms(policy, np.random.default_rng(6), replicas=5)
    dim = arms.shape[2]

    def run(rows):
        rng = np.random.default_rng(7)
        theta = rng.standard_normal(dim)
        noise = [noise_for(policy, dim, rng, 5) for _ in range(40)]
        errors = rng.standard_normal((40, 5))
        state = policy.start(len(rows), dim)
        for t in range(40):
            played = policy.choose(state, arms[rows], noise[t][rows])
            rewards = arms[rows, played] @ theta + errors[t, rows]
            policy.learn(state, policy.features(state, arms[rows], played), rewards, np.arange(len(rows)))
        return state, policy.log_probabilities(state, arms[rows])

    together, p_together = run(np.arange(5))
    alone, p_alone = run(np.array([3]))
    np.testing.assert_array_equal(p_together[3], p_alone[0])
    for name, array in alone.arrays().items():
        np.testing.assert_array_equal(together.arrays()[name][3], array[0])


@every_policy
def test_permuting_the_arms_permutes_the_probabilities(policy):
    if not policy.index_free or names(policy) in FIXED_SET:
        pytest.skip(f"{names(policy)} has a step that depends on the order of the arms")
    rng = np.random.default_rng(8)
    arms = make_arms(policy, rng, arms=6)  # up to 2·dim arms: beyond that BH may choose by position
    state = warmed_up(policy, arms, rng)
    order = rng.permutation(6)
    p = np.exp(policy.log_probabilities(state, arms))
    np.testing.assert_allclose(
        np.exp(policy.log_probabilities(state, arms[:, order])), p[:, order], atol=1e-9
    )


@every_policy
@pytest.mark.parametrize("factor", [1e-3, 7.0, 1e4])
def test_scaling_rewards_sigma_and_norm_bound_changes_no_decision(policy, factor):
    if not policy.scale_free:
        pytest.skip(f"{names(policy)} works in absolute units of reward")
    fields = {f.name for f in dataclasses.fields(policy)} & {"sigma", "norm_bound"}
    scaled = dataclasses.replace(policy, **{name: factor * getattr(policy, name) for name in fields})
    arms = make_arms(policy, np.random.default_rng(9), replicas=20)
    states = []
    for rule, unit in ((policy, 1.0), (scaled, factor)):
        rng = np.random.default_rng(10)
        state = rule.start(20, arms.shape[2])
        for _ in range(30):
            played = rule.choose(state, arms, noise_for(rule, arms.shape[2], rng, 20))
            features = rule.features(state, arms, played)
            rule.learn(state, features, unit * rng.standard_normal(20), np.arange(20))
        states.append(rule.log_probabilities(state, arms))
    np.testing.assert_allclose(np.exp(states[0]), np.exp(states[1]), atol=1e-7)


@every_policy
def test_configuration_survives_json_and_is_hashable(policy):
    copy = Policy.from_dict(json.loads(json.dumps(policy.to_dict())))
    assert copy == policy
    assert hash(copy) == hash(policy)
    assert copy.name == policy.name
    assert policy.name


@every_policy
def test_a_saved_agent_continues_identically(policy, tmp_path):
    rng = np.random.default_rng(11)
    arms = make_arms(policy, rng)[0]
    agent = Agent(policy, dim=arms.shape[1], seed=5)
    waiting = [agent.decide(arms) for _ in range(300)]
    for decision in waiting[::2]:
        agent.learn(decision, float(rng.standard_normal()))
    agent.save(tmp_path / "agent")
    twin = Agent.load(tmp_path / "agent")
    assert twin.pending == agent.pending
    for late in waiting[1:40:2]:
        for one in (agent, twin):
            one.learn(late.id, 0.25)
    for _ in range(50):
        a, b = agent.decide(arms), twin.decide(arms)
        assert (a.id, a.arm) == (b.id, b.arm)
        np.testing.assert_array_equal(a.log_probability, b.log_probability)
        for one, decision in ((agent, a), (twin, b)):
            one.learn(decision, 1.0)
    for name, array in agent.state.arrays().items():
        np.testing.assert_array_equal(twin.state.arrays()[name], array)


@every_policy
@pytest.mark.parametrize(
    "bad",
    [
        np.full((ARMS, DIM), np.nan),
        np.full((ARMS, DIM), np.inf),
        np.full((ARMS, DIM), 1e200),
        np.ones((ARMS, DIM + 1)),
        np.ones(DIM),
        np.empty((0, DIM)),
        [[1.0] * DIM, [1.0] * (DIM - 1)],
        [["a"] * DIM],
        np.ones((2, DIM), dtype=complex),
    ],
    ids=["nan", "inf", "huge", "dim", "flat", "empty", "ragged", "text", "complex"],
)
def test_bad_arms_are_refused_and_leave_the_agent_untouched(policy, bad):
    rng = np.random.default_rng(12)
    arms = make_arms(policy, rng, arms=DIM if names(policy) in ONE_HOT else ARMS)[0]
    agents = [Agent(policy, dim=DIM, seed=1) for _ in range(2)]
    for agent in agents:
        agent.learn(agent.decide(arms), 0.5)
    before = {name: array.copy() for name, array in agents[0].state.arrays().items()}
    with pytest.raises((ValueError, TypeError), match="arms"):
        agents[0].decide(bad)
    for name, array in agents[0].state.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    first, second = (agent.decide(arms) for agent in agents)
    assert first.arm == second.arm
    np.testing.assert_array_equal(first.log_probability, second.log_probability)


@every_policy
@pytest.mark.parametrize("reward", [np.nan, np.inf, -np.inf, 1e200, "good", [1.0, 2.0]])
def test_bad_rewards_are_refused_and_can_be_sent_again(policy, reward):
    arms = make_arms(policy, np.random.default_rng(13))[0]
    agent = Agent(policy, dim=arms.shape[1], seed=1)
    decision = agent.decide(arms)
    with pytest.raises((ValueError, TypeError), match="reward"):
        agent.learn(decision, reward)
    assert agent.count == 0
    agent.learn(decision, 1.0)
    assert agent.count == 1


@every_policy
def test_awkward_arm_sets_have_an_answer(policy):
    """One arm, duplicates, zero arms, rank deficiency, tiny and huge scales: probabilities stay true."""
    if names(policy) in ONE_HOT:
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
    for arms in sets:
        agent = Agent(policy, dim=DIM, seed=1)
        if names(policy) in FIXED_SET and not arms.any():
            continue
        for _ in range(5):
            decision = agent.decide(arms)
            p = agent.probabilities(arms)
            assert (p >= 0).all()
            assert abs(p.sum() - 1) <= 1e-12
            assert -np.inf < decision.log_probability <= 1e-12
            agent.learn(decision, 0.3)
