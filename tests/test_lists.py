"""Lists: their law, learning from them, and what waits for their rewards."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from linmed import EXP2, Agent, Forgetful, Limits, LinMED, LinTS, LogisticMED
from linmed.agent import UnknownDecision
from linmed.design import approx_design
from linmed.features import Catalogue
from linmed.lists import ListLaw, ListOptions
from tests.policies.configurations import (
    CONFIGURATIONS,
    FEW,
    SOME,
    Shape,
    acceptable,
    estimates_propensity,
    short,
    situation,
)

FRESH = LinMED()
FIVE = Shape("five", 5, 3)
MANY = Shape("more than 2d", 9, 3)
NAN = math.nan
ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])


def draws_lists(policy):
    able = policy.learns_from_arms and not policy.remembers and not policy.by_item
    return able and policy.capabilities.probability


def law_of(policy, shape, length, **options):
    state, arms = situation(policy, shape, 1)
    return ListLaw(policy, state, arms[0], ListOptions(length, **options)), arms[0]


def every_list(law, count, length):
    """The probability of each ordered list."""
    return {
        places: math.exp(sum(law.log_probabilities(places[:j])[arm] for j, arm in enumerate(places)))
        for places in itertools.permutations(range(count), length)
    }


@pytest.mark.parametrize("policy", [one for one in CONFIGURATIONS if draws_lists(one)], ids=short)
def test_probabilities_of_all_lists_sum_to_one(policy):
    law, _ = law_of(policy, FIVE, 3)
    total = sum(every_list(law, 5, 3).values())
    assert total == pytest.approx(1.0, abs=2e-2 if estimates_propensity(policy) else 1e-12)


class Toy(LinMED):
    def squared_radius(self, state):
        return np.full(len(state.count), 2.0)


TOY_ARMS = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]])


def toy():
    policy = Toy(alpha_emp=0.9, alpha_opt=0.0)
    state = policy.start(1, 2)
    state.theta[:] = [1.0, 0.3]
    state.inverse[:] = np.diag([0.05, 0.2])
    return policy, state


def test_toy():
    law = ListLaw(*toy(), TOY_ARMS, ListOptions(2))
    first = np.exp(law.log_probabilities(()))
    np.testing.assert_allclose(
        first, [0.963551795330, 0.0259716518, 0.00977382927, 0.000702723577], rtol=1e-8
    )
    every = every_list(law, 4, 2)
    assert every[0, 1] == pytest.approx(0.962616887845, abs=1e-12)
    assert every[2, 0] == pytest.approx(0.009428904702, abs=1e-12)
    there = [sum(p for places, p in every.items() if arm in places) for arm in range(4)]
    np.testing.assert_allclose(there, [0.999254369, 0.988948237, 0.0110536987, 0.000743694924], rtol=1e-8)


def by_formula(policy, state, arms, prefix):
    """Position len(prefix) of LinMED's law, from the paper's formulas and the stated rules for lists."""
    theta, inverse = state.theta[0], state.inverse[0]
    beta = policy.radius(state)[0] ** 2

    def log_f(places):
        best = max(places, key=lambda i: arms[i] @ theta)
        away = arms[best] - arms
        with np.errstate(all="ignore"):
            ratio = (away @ theta) ** 2 / (beta * np.einsum("id,de,ie->i", away, inverse, away))
        return best, np.where(np.arange(len(arms)) == best, 0.0, -ratio)

    left = [i for i in range(len(arms)) if i not in prefix]
    design = approx_design(arms * np.exp(0.5 * log_f(range(len(arms)))[1])[:, None])[left]
    best, own = log_f(left)
    even = 1.0 - policy.alpha_emp - policy.design_share
    q = np.full(len(left), even / len(left))
    share = policy.design_share
    q += share * design / design.sum() if design.sum() > 0.0 else share / len(left)
    q[left.index(best)] += policy.alpha_emp
    p = np.zeros(len(arms))
    p[left] = q * np.exp(own[left])
    return p / p.sum()


@pytest.mark.parametrize("policy", [LinMED(explore=False, sigma=0.3), LinMED(explore=False, alpha_emp=0.5)])
def test_positions_follow_the_formula_with_the_design_of_all_arms(policy):
    state, arms = situation(policy, MANY, 1)
    law = ListLaw(policy, state, arms[0], ListOptions(9))
    order = np.argsort(-law.log_probabilities(()))  # the design's arms are among the first: it is used up
    for length in range(9):
        prefix = order[:length].tolist()
        stated = np.exp(law.log_probabilities(prefix))
        np.testing.assert_allclose(stated, by_formula(policy, state, arms[0], prefix), rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("policy", [LinMED(explore=True), LogisticMED(explore=True)], ids=short)
def test_only_the_first_position_takes_the_half_step(policy):
    state, arms = policy.start(1, 3), 3.0 * situation(FRESH, FIVE, 1)[1][0]
    taken, without = (
        ListLaw(one, state, arms, ListOptions(2)) for one in (policy, replace(policy, explore=False))
    )
    assert not np.allclose(taken.log_probabilities(()), without.log_probabilities(()))
    np.testing.assert_array_equal(taken.log_probabilities((1,)), without.log_probabilities((1,)))


def test_arms_almost_equal_keep_their_digits():
    """|a − b|² of two arms far from the best one: by differences of large numbers it would be lost."""
    arms = np.array([[3.0, 0.0], [-3.0, 1.0], [-3.0, 1.0 + 1e-7], [-3.0 + 1e-9, 1.0]])
    policy, state = toy()
    law = ListLaw(policy, state, arms, ListOptions(2))
    alone = ListLaw(policy, state, arms[1:], ListOptions(1))
    np.testing.assert_allclose(law.log_probabilities((0,))[1:], alone.log_probabilities(()), rtol=1e-9)


@pytest.mark.parametrize("policy", [one for one in SOME if draws_lists(one)], ids=short)
def test_one_position_is_a_decision(policy):
    state, arms = situation(policy, FEW, 1)
    agents = [Agent(policy, dim=state.dim, seed=5) for _ in range(2)]
    for agent in agents:
        if state.dim == agent.dim and set(agent.state.arrays()) == set(state.arrays()):
            agent.observe(arms[0], acceptable(policy, arms[0][:, -1]))
    for _ in range(3):
        one, other = agents[0].decide(arms[0]), agents[1].decide_list(arms[0], length=1)
        assert one.arm == other.arms[0]
        assert one.log_probability == other.log_probability


def test_frequencies_of_whole_lists():
    """Chi-square with a false-alarm rate of 1e-6; lists with expectation below 5 are pooled."""
    agent = Agent(LinMED(sigma=2.0, alpha_emp=0.5), dim=2, seed=11)
    agent.observe(TOY_ARMS, [1.0, 0.8, 0.3, -0.4])
    draws = 1500
    law = ListLaw(agent.policy, agent.state, TOY_ARMS, ListOptions(2))
    expected = {places: draws * p for places, p in every_list(law, 4, 2).items()}
    counts = dict.fromkeys(expected, 0)
    for _ in range(draws):
        shown = agent.decide_list(TOY_ARMS, length=2)
        counts[tuple(shown.arms.tolist())] += 1
        assert shown.probability == pytest.approx(expected[tuple(shown.arms.tolist())] / draws, rel=1e-12)
    few = [places for places, number in expected.items() if number < 5]
    cells = [(counts[places], number) for places, number in expected.items() if number >= 5]
    if few:
        cells.append((sum(counts[p] for p in few), sum(expected[p] for p in few)))
    statistic = sum((seen - number) ** 2 / number for seen, number in cells)
    assert statistic < chi2.isf(1e-6, len(cells) - 1)


@pytest.mark.parametrize("policy", [LinMED(floor=0.1), LogisticMED(), LinTS()], ids=short)
def test_candidates_say_which_arms_may_stand_where(policy):
    def below(prefix):
        return [0, 1, 2] if not prefix else [arm for arm in range(5) if arm % 2 != prefix[-1] % 2]

    law, _ = law_of(policy, FIVE, 2, candidates=below)
    total = 0.0
    for first in range(5):
        chance = math.exp(law.log_probabilities(())[first])
        assert (chance > 0.0) == (first < 3)
        below_it = np.exp(law.log_probabilities((first,)))
        assert [arm for arm in range(5) if below_it[arm] > 0.0] == below((first,))
        total += chance * below_it.sum()
    assert total == pytest.approx(1.0, abs=1e-12)
    fixed, _ = law_of(policy, FIVE, 2, candidates=[[0, 1, 2], None])
    assert np.array_equal(fixed.log_probabilities(()), law.log_probabilities(()))


def test_only_the_last_positions_explore():
    law, arms = law_of(LinMED(alpha_emp=0.5), FIVE, 3, explore="last", floor=0.05)
    state, _ = situation(LinMED(alpha_emp=0.5), FIVE, 1)
    ranking = np.argsort(-arms @ state.theta[0], kind="stable")
    first, second = np.exp(law.log_probabilities(())), np.exp(law.log_probabilities(ranking[:1].tolist()))
    assert first[ranking[0]] == pytest.approx(0.96)
    assert second[ranking[1]] == pytest.approx(0.9625)
    assert sum(every_list(law, 5, 3).values()) == pytest.approx(1.0, abs=1e-12)
    agent = Agent(LinMED(), dim=3, seed=1)
    tops = [agent.decide_list(arms, length=3, explore="last", floor=0.5).arms[0] for _ in range(100)]
    assert 30 < tops.count(0) < 85  # 60 expected; outside with probability below 1e-6


def test_items_of_a_catalogue():
    teas = Catalogue.from_table([{"item_id": name, "price": i} for i, name in enumerate("abcd")])
    agent = Agent(catalogue=teas, seed=1)
    shown = agent.decide_list(length=2, candidates=lambda above: ["a", "b"] if not above else ["d"])
    assert shown.items in (("a", "d"), ("b", "d"))
    assert len(agent.decide_list(length=2, items=["a", "c"])) == 2
    with pytest.raises(ValueError, match="'e', which is not among"):
        agent.decide_list(length=1, candidates=[["e"]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 4}, "length must be at most the number of arms, 3, got 4"),
        ({"length": 0}, "length must be at least 1"),
        ({"length": 2, "candidates": [[0]]}, "one list for each of 2 positions, got 1"),
        ({"length": 2, "candidates": [[0, 0], None]}, "has an arm twice"),
        ({"length": 2, "candidates": [[0], [0]]}, "candidates of position 1 are all placed above it"),
        ({"length": 1, "candidates": [[3]]}, r"candidates\[0\] must be at most 2"),
        ({"length": 2, "explore": "first"}, "explore must be one of"),
        ({"length": 2, "slots": 3}, "slots must be at most 2"),
        ({"length": 2, "examination": [1.0]}, "examination must be a number from 0 to 1 for each of 2"),
        ({"length": 2, "examination": [1.0, 0.5], "seen": "dcm"}, "examination must be None with seen"),
        ({"length": 2, "seen": "all"}, "seen must be one of"),
    ],
)
def test_refusals_of_lists_change_nothing(options, message):
    agent, twin = (Agent(LinMED(), dim=2, seed=3) for _ in range(2))
    with pytest.raises(ValueError, match=message):
        agent.decide_list(ARMS, **options)
    assert agent.pending == ()
    assert agent.decide_list(ARMS, length=2).arms.tolist() == twin.decide_list(ARMS, length=2).arms.tolist()


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (Agent(LinMED(design="warm"), dim=2), "keeps something of every decision"),
        (Agent(EXP2(), dim=2), "keeps something of every decision"),
        (Agent(Limits(LinMED(), caps={0: 0.5}), dim=2), "limits of single arms are of one decision"),
        (Agent(LinTS(propensity="none"), dim=2), "carry no probability"),
        (Agent(LinMED(), dim=2, control=0.1), "without a group beside it"),
    ],
)
def test_policies_that_draw_no_lists_say_why(agent, message):
    with pytest.raises(ValueError, match=message):
        agent.decide_list(ARMS, length=2)


# ---- learning


def shown(**options):
    agent = Agent(LinMED(), dim=2, seed=3, **options.pop("agent", {}))
    return agent, agent.decide_list(ARMS, length=3, **options)


def learned(agent, *pairs):
    """Whether the agent has learned these (features, reward) in this order, and nothing else."""
    other = Agent(LinMED(), dim=2)
    for features, reward in pairs:
        other.observe(features, reward)
    return np.array_equal(agent.state.theta, other.state.theta) and agent.count == other.count


def test_rewards_of_positions_come_in_any_order():
    agent, one = shown()
    agent.learn_list(one, [NAN, 1.0, NAN])
    assert learned(agent, (one.features[1], 1.0))
    agent.learn_list(one.id, [0.5, None, NAN])
    assert one.id in agent.pending
    agent.learn_list(one, [0.5, 1.0, 0.0])  # what came already may come again
    assert learned(agent, (one.features[1], 1.0), (one.features[0], 0.5), (one.features[2], 0.0))
    assert agent.pending == ()
    with pytest.raises(UnknownDecision, match="has had its reward already"):
        agent.learn_list(one, [0.5, 1.0, 0.0])


def test_closing_a_list_leaves_out_what_never_came():
    agent, one = shown()
    agent.learn_list(one, [NAN, 1.0, NAN])
    agent.close_list(one)
    assert learned(agent, (one.features[1], 1.0))
    for late in (lambda: agent.learn_list(one, [1.0, 1.0, NAN]), lambda: agent.close_list(one)):
        with pytest.raises(UnknownDecision):
            late()


def test_one_reward_for_the_whole_list():
    agent, one = shown(examination=[1.0, 0.5, 0.0])
    agent.learn_list(one, 2.0)
    assert learned(agent, (one.features[0] + 0.5 * one.features[1], 2.0))
    assert agent.pending == ()


@pytest.mark.parametrize(
    ("clicks", "positions"), [([0, 1, 0], (1, 0)), ([1, 0, 1], (0, 2, 1)), ([0, 0, 0], (0, 1, 2))]
)
def test_dependent_clicks(clicks, positions):
    agent, one = shown(seen="dcm")
    agent.learn_list(one, [NAN if not click else 1.0 for click in clicks])
    assert agent.count == sum(clicks)
    agent.close_list(one)
    assert learned(agent, *((one.features[j], float(clicks[j])) for j in positions))


def test_a_complete_list_of_clicks_closes_by_itself():
    agent, one = shown()
    agent.learn_list(one, [0.0, 1.0, 0.0], seen="dcm")
    assert learned(agent, (one.features[0], 0.0), (one.features[1], 1.0))
    assert agent.pending == ()


def test_cascade():
    agent, one = shown(seen="cascade")
    agent.learn_list(one, [NAN, 1.0, NAN])
    assert learned(agent, (one.features[0], 0.0), (one.features[1], 1.0))
    assert agent.pending == ()
    with pytest.raises(ValueError, match="one click at most"):
        agent.learn_list(agent.decide_list(ARMS, length=2), [1.0, 1.0], seen="cascade")


def test_examination_scales_what_is_learned():
    agent, one = shown()
    agent.learn_list(one, [1.0, 1.0, 0.0], examination=[1.0, 0.5, 0.0])
    assert learned(agent, (one.features[0], 1.0), (0.5 * one.features[1], 1.0))


@pytest.mark.parametrize(
    ("rewards", "options", "message"),
    [
        ([1.0, 0.0], {}, "one number for each of 3 positions, got 2"),
        ([0.5, 0.0, "x"], {}, r"rewards\[2\] must be a number"),
        ([NAN, -1.0, 0.0], {"seen": "dcm"}, "must be a click"),
        (1.0, {"seen": "dcm"}, "a number for each position with seen"),
        ([1.0, NAN, NAN], {"examination": [0.0, 0.0, 0.0]}, "examination must be"),
        ([0.0, NAN, NAN], {}, "has come already"),
        (1.0, {}, "have come already, some by position"),
    ],
)
def test_refusals_of_rewards_change_nothing(rewards, options, message):
    agent, one = shown()
    agent.learn_list(one, [0.5, NAN, NAN])
    before = agent._lists.to_dict()[0]
    with pytest.raises((ValueError, TypeError), match=message):
        agent.learn_list(one, rewards, **options)
    assert agent._lists.to_dict()[0] == before
    assert agent.count == 1


def test_rewards_that_the_log_refuses_change_nothing(tmp_path, monkeypatch):
    agent, one = shown(agent={"log": tmp_path})

    def full(*_, **__):
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(agent.log, "reward_list", full)
        with pytest.raises(OSError, match="no space"):
            agent.learn_list(one, [1.0, NAN, NAN], seen="dcm")
    assert agent.count == 0
    agent.learn_list(one, [1.0, 0.0, 0.0])
    assert agent.count == 3


@pytest.mark.parametrize("policy", [LogisticMED(), Forgetful(LogisticMED())], ids=short)
def test_clicks_have_no_sum_and_no_share(policy):
    agent = Agent(policy, dim=2, seed=3)
    one = agent.decide_list(ARMS, length=2)
    for refused in (
        lambda: agent.learn_list(one, 1.0),
        lambda: agent.learn_list(one, [1, 0], examination=[1, 1]),
    ):
        with pytest.raises(ValueError, match="linear in the features"):
            refused()
    with pytest.raises(ValueError, match="between 0 and 1"):
        agent.learn_list(one, [0.0, 2.0])
    agent.learn_list(one, [0.0, 1.0])
    assert agent.count == 2


def test_deadlines_close_lists():
    agent, one = shown(agent={"wait": 10.0}, time=0.0)
    agent.learn_list(one, [1.0, NAN, NAN], time=1.0)
    assert agent.count == 0  # held
    clicks = agent.decide_list(ARMS, length=2, seen="dcm", time=5.0)
    assert agent.expire(10.0) == 1
    first = [(one.features[0], 1.0), (one.features[1], 0.0), (one.features[2], 0.0)]
    assert learned(agent, *first)
    agent.learn_list(clicks, [1.0, NAN], time=12.0)
    assert agent.expire(15.0) == 1
    assert learned(agent, *first, (clicks.features[0], 1.0))
    assert agent.deadlines["missed"] == 2
    with pytest.raises(UnknownDecision):
        agent.learn_list(clicks, [1.0, 1.0], time=16.0)


def test_lists_that_wait_are_saved(tmp_path):
    agent, one = shown(agent={"wait": 10.0, "early": "learn"}, time=0.0)
    other = agent.decide_list(ARMS, length=2, examination=[1.0, 0.5], time=1.0)
    agent.learn_list(one, [NAN, 1.0, NAN], seen="dcm", time=2.0)
    agent.save(tmp_path / "agent.npz")
    twin = Agent.load(tmp_path / "agent.npz")
    assert twin.pending == agent.pending == (one.id, other.id)
    for each in (agent, twin):
        each.learn_list(other, [NAN, 1.0], time=3.0)
        each.expire(20.0)
        assert each.decide_list(ARMS, length=3, time=30.0).arms.size == 3
    assert np.array_equal(agent.state.theta, twin.state.theta)
    assert agent.count == twin.count == 4


def test_the_oldest_lists_are_dropped():
    agent = Agent(LinMED(), dim=2, max_pending=2)
    made = [agent.decide_list(ARMS, length=2) for _ in range(3)]
    assert agent.pending == (made[1].id, made[2].id)
    assert agent.dropped == 1


def test_lists_and_decisions_are_not_mistaken_for_each_other():
    agent = Agent(LinMED(), dim=2, seed=3)
    with pytest.raises(UnknownDecision, match="is a list: learn_list takes its rewards"):
        agent.learn(agent.decide_list(ARMS, length=2), 1.0)
    with pytest.raises(UnknownDecision, match="for one arm, not for a list"):
        agent.learn_list(agent.decide(ARMS), [1.0, 0.0])
    assert agent.count == 0
