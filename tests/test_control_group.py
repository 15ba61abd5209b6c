"""A control group and shadow policies: exact marginal probabilities, the log, files, and what is refused."""

import copy

import numpy as np
import pytest
from scipy.stats import chi2

from linmed import (
    EXP2,
    Agent,
    CatalogueMED,
    Disjoint,
    Forgetful,
    Greedy,
    Limits,
    LinMED,
    LinTS,
    LogisticMED,
    Uniform,
)
from linmed.core import core
from linmed.features import Catalogue
from linmed.log import DecisionLog
from linmed.policies.worth import priced

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
TEAS = [{"item_id": name, "price": price} for name, price in (("oolong", 4.0), ("mint", 2.0), ("fig", 3.0))]


def agent(policy=None, **options):
    return Agent(policy or LinMED(), dim=2, seed=3, **options)


def taught(one, rewards=30):
    rng = np.random.default_rng(5)
    for _ in range(rewards):
        decision = one.decide(ARMS)
        one.learn(decision, 0.2 * decision.arm + rng.normal(scale=0.3))
    return one


def test_a_uniform_tenth_of_a_law_worked_by_hand():
    law = np.log([0.678571428571, 0.193877551020, 0.077551020408, 0.05])
    core.mix(law, np.full(4, -np.log(4.0)), 0.1)
    np.testing.assert_allclose(
        np.exp(law), [0.635714285714, 0.199489795918, 0.094795918367, 0.07], rtol=1e-11
    )


def test_arms_that_neither_side_plays_keep_probability_zero():
    law = np.array([0.0, -np.inf, -np.inf])
    core.mix(law, np.array([-np.inf, 0.0, -np.inf]), 0.25)
    assert np.exp(law).tolist() == [0.75, 0.25, 0.0]


@pytest.mark.parametrize("policy", [LinMED(), Greedy(), LinTS(), LogisticMED()], ids=lambda one: one.name)
@pytest.mark.parametrize("law", ["uniform", 1, Uniform(), LinMED(sigma=3.0)], ids=str)
def test_the_probability_is_the_marginal_one_whichever_side_drew(policy, law):
    plain, one = agent(policy), agent(policy, control=0.2, control_policy=law)
    data = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], [1.0, 0.0, 1.0]
    for each in (plain, one):
        each.observe(*data)
    own = plain.probabilities(ARMS)
    theirs = np.full(3, 1 / 3) if law == "uniform" else np.eye(3)[1]
    if isinstance(law, LinMED):
        other = agent(law)
        other.observe(*data)
        theirs = other.probabilities(ARMS)
    elif isinstance(law, Uniform):
        theirs = np.full(3, 1 / 3)
    marginal = 0.2 * theirs + 0.8 * own
    np.testing.assert_allclose(one.probabilities(ARMS), marginal, rtol=1e-12, atol=1e-15)
    sides = set()
    for _ in range(40):
        decision = one.decide(ARMS)
        sides.add(decision.control)
        np.testing.assert_allclose(decision.probabilities, marginal, rtol=1e-12, atol=1e-15)
        assert decision.probability == decision.probabilities[decision.arm]
    assert sides == {True, False}


def test_decisions_and_sides_come_as_often_as_they_say():
    """Chi-square with a false-alarm rate of 1e-6."""
    one, draws = taught(agent(control=0.3)), 20_000
    own = agent()
    own.state.restore(one.state.arrays())
    law = np.outer([0.7, 0.3], np.ones(3)) * np.stack([own.probabilities(ARMS), np.full(3, 1 / 3)])
    made = one.decide_batch(np.broadcast_to(ARMS, (draws, 3, 2)).copy())
    counts = np.zeros((2, 3))
    for decision in made:
        counts[int(decision.control), decision.arm] += 1
    statistic = float(((counts - draws * law) ** 2 / (draws * law)).sum())
    assert statistic <= chi2.isf(1e-6, 5)


def test_a_batch_is_the_decisions_one_by_one_and_a_refused_one_draws_nothing():
    options = {"control": 0.4, "shadow": {"greedy": Greedy()}}
    one, other = agent(**options), agent(**options)
    several = [ARMS, ARMS[:2], ARMS] * 20
    for _ in range(2):
        with pytest.raises(ValueError, match="sets"):
            other.decide_batch([ARMS, [[np.nan, 0.0]]])
    for each in (one, other):  # up to the end of the random numbers that were drawn
        each.decide_batch([ARMS] * 250)
    refusing = agent(control=0.4, control_policy=2)
    expected = [refusing.decide(ARMS).arm for _ in range(270)][250:]
    refusing = agent(control=0.4, control_policy=2)
    refusing.decide_batch([ARMS] * 250)
    with pytest.raises(ValueError, match="row 2"):
        refusing.decide_batch([ARMS] * 15 + [ARMS[:2]])
    assert [refusing.decide(ARMS).arm for _ in range(20)] == expected
    for a, b in zip(map(one.decide, several), other.decide_batch(several), strict=True):
        assert (a.arm, a.log_probability, a.control, a.shadow) == (
            b.arm,
            b.log_probability,
            b.control,
            b.shadow,
        )


def test_shadows_and_a_control_policy_learn_what_the_agent_does_and_decide_nothing():
    plain = agent()
    one = agent(control=0.5, control_policy=LogisticMED(), shadow={"wide": LinMED(sigma=2.0)})
    twin, clicks = agent(LinMED(sigma=2.0)), agent(LogisticMED())
    for arm in (0, 1, 1, 2):
        decision = one.decide(ARMS)
        assert decision.shadow == {"wide": twin.probabilities(ARMS)[decision.arm]}
        one.learn(decision, float(arm > 0))
        for each in (plain, twin, clicks):
            each.observe(decision.features, float(arm > 0))
    np.testing.assert_array_equal(one.theta, plain.theta)
    decider = one._decider
    np.testing.assert_array_equal(decider.shadows["wide"].state.theta, twin.state.theta)
    np.testing.assert_array_equal(decider.control.decider.state.theta, clicks.state.theta)


def test_a_saved_agent_as_control_stays_as_it_is(tmp_path):
    old = taught(agent())
    old.save(tmp_path / "old.npz")
    law = old.probabilities(ARMS)
    one = taught(agent(LinMED(sigma=9.0), control=0.9, control_policy=tmp_path / "old.npz"))
    new = agent(LinMED(sigma=9.0))
    new.state.restore(one.state.arrays())
    np.testing.assert_allclose(one.probabilities(ARMS), 0.9 * law + 0.1 * new.probabilities(ARMS), rtol=1e-12)
    same = agent(LinMED(sigma=9.0), control=0.9, control_policy=old)
    np.testing.assert_allclose(same._decider.control.law(ARMS, None), np.log(law), rtol=1e-12)


def test_files_and_copies_go_on_exactly(tmp_path):
    one = taught(agent(control=0.3, control_policy=LinMED(sigma=3.0), shadow={"a": Greedy(), "b": LinTS()}))
    one.save(tmp_path / "agent.npz")
    for other in (Agent.load(tmp_path / "agent.npz"), copy.deepcopy(one)):
        mine = copy.deepcopy(one)
        for _ in range(20):
            a, b = mine.decide(ARMS), other.decide(ARMS)
            assert (a.arm, a.log_probability, a.control, a.shadow) == (
                b.arm,
                b.log_probability,
                b.control,
                b.shadow,
            )
            mine.learn(a, 0.5)
            other.learn(b, 0.5)
    assert one.count == 30


def test_the_log_has_the_side_its_share_and_the_shadows(tmp_path):
    with agent(control=0.25, shadow={"greedy": Greedy()}, log=tmp_path) as one:
        made = [one.decide(ARMS) for _ in range(20)]
    rows = DecisionLog.open(tmp_path).table().to_pylist()
    assert [row["control"] for row in rows] == [decision.control for decision in made]
    assert {row["control_share"] for row in rows} == {0.25}
    assert [dict(row["shadow"]) for row in rows] == [decision.shadow for decision in made]
    assert [row["probability"] for row in rows] == [decision.probability for decision in made]


def test_a_probability_that_is_an_estimate_becomes_exact_under_control():
    """The error is that of the arm that was drawn, whoever drew it."""
    arms = np.random.default_rng(1).normal(size=(5, 3))
    exact, one = (Agent(LinTS(propensity=p), dim=3, seed=3, control=0.5) for p in ("exact", 500))
    costs = [0.0, 0.3, 0.0, 0.6, 0.0]
    errors = 0.5 * one.policy.propensity_error(one.state, priced(arms, 1.0, costs)[None])[0]
    for _ in range(20):
        a, b = exact.decide(arms, costs=costs), one.decide(arms, costs=costs)
        assert (a.arm, a.control) == (b.arm, b.control)
        np.testing.assert_allclose(b.probabilities, one.probabilities(arms, costs=costs), rtol=1e-12)
        assert b.probability_error == errors[b.arm]
        if a.control:
            assert a.probability_error == pytest.approx(errors[a.arm])


def test_an_item_as_control_and_one_that_has_gone():
    teas = Catalogue.from_table(TEAS)
    one = Agent(LinMED(), catalogue=teas, seed=1, control=0.9, control_policy="mint")
    assert one.probabilities()[1] == pytest.approx(
        0.9 + 0.1 * one.probabilities(items=["mint", "fig"])[0], abs=0.1
    )
    assert one.probability_of("mint") == one.probabilities()[1]
    made = [one.decide() for _ in range(40)]
    assert all(decision.item == "mint" for decision in made if decision.control)
    used = one._decider.noise.used
    with pytest.raises(ValueError, match="arms must have the item 'mint'"):
        one.decide(items=["fig", "oolong"])
    assert one._decider.noise.used == used


def test_two_models_for_every_item_stand_beside_each_other():
    teas = Catalogue.from_table(TEAS)
    one = Agent(
        Disjoint(LinMED()), catalogue=teas, seed=1, control=0.2, shadow={"clicks": Disjoint(LogisticMED())}
    )
    for _ in range(10):
        one.learn(one.decide(), 1.0)
    assert sum(one.probabilities()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"control": 1.0}, "control must lie strictly between 0 and 1"),
        ({"control": -0.1}, "control must lie strictly between 0 and 1"),
        ({"control": "a tenth"}, "control must be a number"),
        ({"control_policy": 1}, "control_policy says what a control group plays"),
        ({"control": 0.1, "control_policy": "mint"}, "ids need a catalogue"),
        ({"control": 0.1, "control_policy": -1}, "control_policy must be at least 0"),
        ({"control": 0.1, "control_policy": EXP2()}, "learns from the law by which it drew"),
        ({"control": 0.1, "control_policy": Disjoint(LinMED())}, "arms of different form"),
        ({"control": 0.1, "control_policy": LinTS(propensity="none")}, "carry no probability"),
        ({"shadow": [Greedy()]}, "shadow must be policies by name"),
        ({"shadow": {"": Greedy()}}, "shadow must have names"),
        ({"shadow": {"a": "greedy"}}, "must be a Policy"),
        ({"shadow": {"a": EXP2()}}, "learns from the law by which it drew"),
    ],
)
def test_what_has_no_meaning_is_refused(options, named):
    with pytest.raises((ValueError, TypeError), match=named):
        agent(**options)


def test_policies_that_cannot_have_a_control_group_say_why():
    with pytest.raises(ValueError, match="learns from the law by which it drew"):
        agent(EXP2(), control=0.1)
    teas = Catalogue.from_table(TEAS)
    with pytest.raises(ValueError, match="without a pass over the catalogue"):
        Agent(CatalogueMED(), catalogue=teas, control=0.1)
    with pytest.raises(ValueError, match="without a pass over the catalogue"):
        Agent(CatalogueMED(), catalogue=teas, shadow={"greedy": Greedy()})
    with pytest.raises(ValueError, match="has no 'coffee'"):
        Agent(LinMED(), catalogue=teas, control=0.1, control_policy="coffee")
    other = Agent(LinMED(), dim=5)
    with pytest.raises(ValueError, match="dim=2"):
        agent(control=0.1, control_policy=other)


def test_a_reward_that_a_shadow_cannot_learn_is_refused_and_nothing_changes():
    one = agent(shadow={"clicks": LogisticMED()})
    decision = one.decide(ARMS)
    with pytest.raises(ValueError, match=r"between 0 and 1.*shadow\['clicks'\]"):
        one.learn(decision, 2.5)
    with pytest.raises(ValueError, match=r"between 0 and 1.*shadow\['clicks'\]"):
        one.observe(ARMS, [0.0, 1.0, 2.5])
    with pytest.raises(ValueError, match=r"missing: .*shadow\['clicks'\]"):
        agent(shadow={"clicks": LogisticMED()}, wait="1d", missing=2.5)
    assert one.count == 0
    assert one.pending == (decision.id,)
    one = agent(shadow={"forgets": Forgetful(LinMED(), half_lives=("1d",))})
    with pytest.raises(ValueError, match=r"time must be given: shadow\['forgets'\]"):
        one.observe(ARMS, [0.0, 1.0, 1.0])
    assert one.count == 0


def test_limits_of_items_and_integrals_go_with_a_control_group():
    policy = Limits(LinTS(), caps={"fig": 0.2})
    one = Agent(policy, catalogue=Catalogue.from_table(TEAS), seed=1, control=0.5)
    law = one.probabilities()
    assert law[2] <= 0.5 * 0.2 + 0.5 / 3 + 1e-12
    for decision in (one.decide() for _ in range(20)):
        assert decision.probability == pytest.approx(law[decision.arm], abs=1e-12)
