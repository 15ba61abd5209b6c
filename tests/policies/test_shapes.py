"""Each path of the kernels answers alike: what policies satisfy at every shape of arm sets.

Rewards are read off an arm's first feature, so that no sum of the tests' own enters an identity.
"""

import numpy as np
import pytest

from linmed.policies import LinTS
from tests.policies.configurations import (
    BEYOND,
    CASES,
    acceptable,
    estimates_propensity,
    noise_for,
    rows_of,
    shaped_arms,
    short,
    situation,
    warmed_up,
)

every_case = pytest.mark.parametrize(
    ("policy", "shape"), CASES, ids=lambda value: short(value) if hasattr(value, "name") else None
)


def same_arrays(one, other):
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(array, other.arrays()[name], err_msg=name)


@every_case
def test_probabilities_sum_to_one_and_the_one_of_the_played_arm_is_logged(policy, shape):
    state, arms = situation(policy, shape)
    for known in (policy.start(len(arms), arms.shape[2]), state):
        log_p = policy.log_probabilities(known, arms)
        assert log_p.shape == arms.shape[:2]
        assert (log_p <= 1e-12).all()
        np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, rtol=0, atol=1e-12)
    before = state.copy()
    np.testing.assert_array_equal(policy.log_probabilities(state, arms), log_p)
    same_arrays(before, state)  # to ask changes nothing
    noise = noise_for(policy, arms.shape[2], np.random.default_rng(4), len(arms))
    choice = policy.decide(state.copy(), arms, noise)
    np.testing.assert_array_equal(choice.arm, policy.choose(state.copy(), arms, noise))
    np.testing.assert_array_equal(choice.features, policy.features(state, arms, choice.arm))
    marginal = log_p[np.arange(len(arms)), choice.arm]
    if estimates_propensity(policy):
        p, draws = np.exp(marginal), getattr(policy, "base", policy).propensity
        off = np.abs(np.exp(choice.log_probability) - p)  # an estimate from so many draws
        assert (off <= 6.0 * np.sqrt(p / draws) + 10.0 / draws).all()
        return
    seen = np.isfinite(marginal)  # LinTS may play an arm that its integral did not see
    assert seen.all() or isinstance(policy, LinTS)
    np.testing.assert_allclose(choice.log_probability[seen], marginal[seen], rtol=0, atol=1e-12)
    assert np.isfinite(choice.log_probability).all()


@pytest.mark.identity
@every_case
def test_a_replica_answers_alike_alone_and_among_others(policy, shape):
    replicas, rounds = 4, 3 if shape is BEYOND else 12
    arms = shaped_arms(policy, shape, np.random.default_rng(6), replicas)
    dim = arms.shape[2]

    def run(rows):
        rng = np.random.default_rng(7)
        state = policy.start(len(rows), dim)
        for _ in range(rounds):
            noise = noise_for(policy, dim, rng, replicas)[rows]
            errors = rng.standard_normal(replicas)[rows]
            played = policy.choose(state, arms[rows], noise)
            features = policy.features(state, arms[rows], played)
            rewards = acceptable(policy, arms[rows, played, 0] + errors)
            policy.learn(state, features, rewards, np.arange(len(rows)))
        return state, policy.log_probabilities(state, arms[rows])

    together, every = run(np.arange(replicas))
    alone, p_alone = run(np.array([2]))
    np.testing.assert_array_equal(every[2], p_alone[0])
    same_arrays(rows_of(together, policy, [2]), alone)
    for r in range(replicas):
        taken_out = rows_of(together, policy, [r])
        np.testing.assert_array_equal(policy.log_probabilities(taken_out, arms[r : r + 1])[0], every[r])


@pytest.mark.identity
@every_case
def test_rounds_played_in_one_call_are_the_rounds_played_one_by_one(policy, shape):
    """With one set for all, and with sets that change if the policy can have those."""
    rng = np.random.default_rng(11)
    replicas, rounds = 3, 2 if shape is BEYOND else 9
    for shared in (True, False):
        changing = not shared and policy.learns_from_arms
        sets = rounds if changing else 1
        arms = np.stack([shaped_arms(policy, shape, rng, 1 if shared else replicas) for _ in range(sets)])
        dim = arms.shape[-1]
        rewards = acceptable(policy, rng.standard_normal((rounds, replicas, shape.arms)))
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
        same_arrays(singly, together)


@pytest.mark.identity
@every_case
def test_one_set_serves_many_replicas_and_one_state_many_sets(policy, shape):
    """To the last bit as copies would; a policy for one fixed set is given that set again and again."""
    state, arms = situation(policy, shape)
    copies = np.repeat(arms[:1], len(arms), axis=0)
    noise = noise_for(policy, arms.shape[2], np.random.default_rng(8), len(arms))
    same = warmed_up(policy, copies, np.random.default_rng(2), 2)
    shared = policy.log_probabilities(same, arms[:1])
    np.testing.assert_array_equal(shared, policy.log_probabilities(same, copies))
    decisions = [policy.decide(same.copy(), offered, noise) for offered in (arms[:1], copies)]
    for mine, theirs in zip(*decisions, strict=True):
        np.testing.assert_array_equal(mine, theirs)

    arms = arms if policy.learns_from_arms else copies
    one = rows_of(state, policy, [0])
    together = policy.decide(one.copy(), arms, noise)
    log_p = policy.log_probabilities(one, arms)
    chosen = policy.choose(one.copy(), arms, noise)
    features = policy.features(one, arms, chosen)
    deciding, choosing = one.copy(), one.copy()  # a decision may note something for the next
    for r in range(len(arms)):
        row, offered = [r], arms[r : r + 1]
        alone = policy.decide(deciding, offered, noise[row])
        for mine, theirs in zip(together, alone, strict=True):
            np.testing.assert_array_equal(mine if mine is None else mine[row], theirs)
        np.testing.assert_array_equal(log_p[row], policy.log_probabilities(one, offered))
        np.testing.assert_array_equal(chosen[row], policy.choose(choosing, offered, noise[row]))
        np.testing.assert_array_equal(features[row], policy.features(one, offered, chosen[row]))
