"""A budget: the price by hand, exact laws at a price, what is spent, and what is refused."""

import copy
import math

import numpy as np
import pytest
from scipy import stats

from linmed import EXP2, Agent, Budget, CatalogueMED, Disjoint, Limits, LinMED, LinTS
from linmed.policies.worth import priced

BASE = LinMED(sigma=0.2, explore=False)
ARMS = np.eye(3)
COSTS = [0.1, 1.0, 6.0]


def agent_with(seed=7, **options):
    return Agent(Budget(BASE, **{"per_decision": 1.0, **options}), dim=3, seed=seed)


def test_the_price_of_five_rounds_by_hand():
    policy = Budget(BASE, per_decision=2.0)
    state = policy.start(1, 2)
    factors = [1 / 1.02525, 1.0755, 1.0005, 1 / 1.05, 1.202]
    price = 0.5
    for consumed, factor in zip([1.0, 5.0, 2.0, 0.0, 10.0], factors, strict=True):
        policy.spend(state, np.array([consumed]))
        price *= factor
        assert state.price[0] == pytest.approx(price, rel=1e-12)
    assert policy.account(state)[:2] == (18.0, 10.0)
    policy.correct_spending(state, -4.0)
    assert state.price[0] == pytest.approx(price / 1.1, rel=1e-12)
    assert state.spent[0] == 14.0


def test_one_play_at_most_doubles_the_price_and_it_stays_within_bounds():
    policy = Budget(BASE, per_decision=1.0, scale=3.0)
    state = policy.start(2, 2)
    policy.spend(state, np.array([1e6, 1.0]))
    assert state.price.tolist() == [9.0, 3.0]  # 1 for the play and 1 for the debt
    for _ in range(200):
        policy.spend(state, np.array([1e6, 0.0]))
    assert state.price.tolist() == pytest.approx([300.0, 0.003])


@pytest.mark.parametrize("hard", [False, True])
def test_decisions_at_a_price_are_those_of_the_base_policy_with_priced_costs(hard):
    policy, rng = Budget(BASE, per_decision=1.0, hard=hard), np.random.default_rng(0)
    state, other = policy.start(1, 3), BASE.start(1, 3)
    features, rewards = ARMS[[0, 1, 2] * 4], np.array([0.6, 0.8, 0.9] * 4)
    replicas = np.zeros(12, dtype=np.int64)
    for one, kept in ((policy, state), (BASE, other)):
        one.learn(kept, features, rewards, replicas)
    state.price[...], state.spent[...] = 0.02, -47.0 if hard else 0.0
    shown = priced(ARMS, 1.0, COSTS)[None]
    law = np.exp(policy.log_probabilities(state, shown))[0]
    expected = BASE.log_probabilities(other, priced(ARMS, 1.0, 0.02 * np.array(COSTS))[None])
    np.testing.assert_array_equal(law, np.exp(expected)[0])
    assert law.min() > 1e-3
    before = {name: array.copy() for name, array in state.arrays().items()}
    choice = policy.decide(state, np.repeat(shown, 20_000, axis=0), policy.draw_noise(rng, (20_000,), 3))
    counts = np.bincount(choice.arm, minlength=3)
    assert stats.chisquare(counts, 20_000 * law).pvalue > 1e-4
    assert all((before[name] == array).all() for name, array in state.arrays().items())


def test_consumption_apart_from_costs_leaves_costs_in_full():
    agent = agent_with(per_decision=2.0)  # λ = 0.5
    agent.observe(np.repeat(ARMS, 5, axis=0), [0.5] * 15)
    plain = Agent(BASE, dim=3, seed=7)
    plain.observe(np.repeat(ARMS, 5, axis=0), [0.5] * 15)
    told = agent.decide(ARMS, values=2.0, costs=[0.0, 0.1, 0.2], consumption=[0.4, 0.0, 0.2])
    law = plain.probabilities(ARMS, values=2.0, costs=[0.2, 0.1, 0.3])
    np.testing.assert_allclose(told.probabilities, law, rtol=1e-14)
    assert agent.budget.spent == [0.4, 0.0, 0.2][told.arm]


def test_what_is_spent_comes_to_the_budget_and_money_goes_where_it_earns_most():
    """Sixteen replicas; a mixture of arms 1 and 2 would earn .62."""
    rounds, replicas = 1500, 16
    rng = np.random.default_rng(3)
    policy = Budget(BASE, per_decision=2.0)
    state = policy.start(replicas, 3)
    means = np.array([0.2, 0.6, 0.9]) * np.ones((rounds, replicas, 1))
    cost = np.array([0.1, 1.5, 8.0]) * rng.uniform(0.5, 1.5, (rounds, replicas, 1))
    arms = priced(np.broadcast_to(ARMS, (rounds, replicas, 3, 3)), 1.0, cost)
    played = np.empty((rounds, replicas), dtype=np.int64)
    noise = policy.draw_noise(rng, (rounds, replicas), 3)
    policy.play(state, arms, means + 0.1 * rng.standard_normal(means.shape), noise, played)
    spent = np.take_along_axis(cost, played[:, :, None], axis=2).sum(axis=(0, 2))
    np.testing.assert_allclose(state.spent, spent, rtol=1e-12)
    np.testing.assert_allclose(spent / (2.0 * rounds), 1.0, atol=0.02)
    assert np.take_along_axis(means, played[:, :, None], axis=2).mean() > 0.6


@pytest.mark.parametrize("base", [BASE, LinTS(sigma=0.2), Disjoint(BASE)], ids=lambda base: base.name)
def test_a_hard_budget_is_never_overdrawn(base):
    rng = np.random.default_rng(1)
    policy = Budget(base, per_decision=1.0, hard=True, allowance=3.0)
    features = policy.like(ARMS)
    state = policy.start(4, features.shape[1])
    left_out = False
    for t in range(1, 61):
        arms = priced(features, 1.0, np.array([0.5, 1.5, 4.0]) * rng.uniform(0.5, 1.5, (4, 1)))
        noise = policy.draw_noise(rng, (4,), features.shape[1])
        choice = policy.decide(state, arms, noise)
        affordable = arms[..., -1] <= t + 3.0 - state.spent[:, None]
        p = np.exp(choice.log_probabilities)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-3)
        assert (p[~affordable] == 0.0).all()
        left_out |= not affordable.all() and affordable.any(axis=1).all()
        policy.spend(state, arms[np.arange(4), choice.arm, -1])
        assert (state.spent <= t + 3.0 + 1e-12).all()
        policy.learn(state, choice.features, rng.random(4), np.arange(4))
    assert left_out


def test_a_hard_budget_that_no_arm_fits_names_the_cheapest_and_changes_nothing():
    agent = agent_with(hard=True, allowance=2.0)
    agent.learn(agent.decide(ARMS, costs=[2.5, 2.5, 2.5]), 0.5)
    before = {name: array.copy() for name, array in agent.state.arrays().items()}
    with pytest.raises(ValueError, match=r"overdraw the budget, of which 1\.5 is left; the cheapest, arm 1"):
        agent.decide(ARMS, costs=[3.0, 1.75, 2.0])
    assert all((before[name] == array).all() for name, array in agent.state.arrays().items())
    assert agent.pending == ()


def test_what_was_consumed_in_truth_corrects_what_was_expected():
    agent = agent_with()
    decision = agent.decide(ARMS, costs=COSTS)
    expected = COSTS[decision.arm]
    assert agent.budget.spent == expected
    price = agent.budget.price
    agent.learn(decision, 0.5, consumed=expected + 2.0)
    assert agent.budget == (expected + 2.0, 1.0, price * 1.1, 1)
    assert "Spent" in str(agent.budget)
    assert Agent(BASE, dim=3).budget is None


def test_a_batch_decides_as_single_calls_and_the_price_moves_between():
    one, other = agent_with(), agent_with()
    batch = one.decide_batch([ARMS] * 20, costs=[COSTS] * 20)
    assert [d.arm for d in batch] == [other.decide(ARMS, costs=COSTS).arm for _ in range(20)]
    assert one.budget == other.budget
    assert one.budget.decisions == 20


@pytest.mark.parametrize(
    "policy", [Budget(Disjoint(BASE), per_decision=1.0), Limits(Budget(BASE), floors=0.05)]
)
def test_a_saved_budget_continues_bit_for_bit(policy, tmp_path):
    arms = policy.like(ARMS)
    agent = Agent(policy, dim=arms.shape[1], seed=7)
    decisions = [agent.decide(arms, costs=COSTS) for _ in range(30)]
    for decision in decisions[:20]:
        agent.learn(decision, 0.5)
    agent.save(tmp_path / "agent")
    twins = agent, Agent.load(tmp_path / "agent"), copy.deepcopy(agent)
    for decision in decisions[20:]:
        for twin in twins:
            twin.learn(decision.id, 0.7, consumed=3.0)
    found = [[twin.decide(arms, costs=COSTS).probabilities.tolist() for _ in range(5)] for twin in twins]
    assert found[0] == found[1] == found[2]
    assert twins[0].budget == twins[1].budget == twins[2].budget


def test_a_control_group_spends_what_it_draws():
    agent = Agent(Budget(BASE, per_decision=1.0), dim=3, seed=7, control=0.5, control_policy=2)
    arms = [agent.decide(ARMS, costs=COSTS).arm for _ in range(50)]
    assert agent.budget.spent == pytest.approx(sum(COSTS[arm] for arm in arms))
    assert arms.count(2) > 10


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Budget(EXP2()), "base must be a policy that takes costs"),
        (lambda: Budget(CatalogueMED()), "routes among a catalogue know no costs"),
        (lambda: Budget(Budget(BASE)), "base must have no budget"),
        (lambda: Budget(Limits(BASE, floors=0.1), hard=True), "only one of them can hold"),
        (lambda: Limits(Budget(BASE, hard=True), floors=0.1), "only one of them can hold"),
        (lambda: Budget(BASE, per_decision=0.0), "per_decision must be positive"),
        (lambda: Budget(BASE, per_decision=math.nan), "per_decision"),
        (lambda: Budget(BASE, allowance=1.0), "allowance goes with hard=True"),
        (lambda: Agent(Budget(BASE, hard=True), dim=3, control=0.1), "would overdraw the hard budget"),
        (lambda: Agent(BASE, dim=3, shadow={"b": Budget(BASE)}), "would not know what the decisions"),
    ],
)
def test_budgets_that_make_no_sense_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda agent, _: agent.decide(ARMS), "costs must be given"),
        (lambda agent, _: agent.probabilities(ARMS), "costs must be given"),
        (lambda agent, _: agent.decide(ARMS, costs=[0.1, -1.0, 0.2]), "costs must be 0 or more"),
        (lambda agent, _: agent.decide(ARMS, consumption=[0.1, math.nan, 0.2]), "consumption"),
        (lambda agent, _: agent.decide_list(ARMS, length=2), "decide_list takes no costs"),
        (lambda agent, decision: agent.learn(decision, 0.5, consumed=-1.0), "consumed must lie in"),
        (lambda agent, _: agent.learn("other", 0.5, consumed=1.0), "unknown to this agent"),
        (lambda agent, decision: agent.learn(decision, math.nan, consumed=1.0), "reward"),
    ],
)
def test_what_is_refused_changes_nothing(call, says):
    agent = agent_with()
    decision = agent.decide(ARMS, costs=COSTS)
    before, account = agent._decider.noise.to_dict(), agent.budget
    with pytest.raises(ValueError, match=says):
        call(agent, decision)
    assert (agent._decider.noise.to_dict(), agent.budget) == (before, account)
    assert agent.pending == (decision.id,)
    agent.learn(decision, 0.5, consumed=1.0)


def test_consumption_needs_a_budget():
    agent = Agent(BASE, dim=3)
    with pytest.raises(ValueError, match="consumption goes with a budget"):
        agent.decide(ARMS, consumption=1.0)
    with pytest.raises(ValueError, match="consumed goes with a budget"):
        agent.learn(agent.decide(ARMS), 0.5, consumed=1.0)
