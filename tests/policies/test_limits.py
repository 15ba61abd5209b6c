"""Floors, caps and groups: the nearest law within them, at every decision, and what no law can keep."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2

from linmed import (
    EXP2,
    OFUL,
    Agent,
    CatalogueMED,
    Disjoint,
    Forgetful,
    Greedy,
    Limits,
    LinMED,
    LinTS,
    LogisticMED,
    Policy,
    Uniform,
    simulate,
)
from linmed.core import core
from linmed.environments import UnitBall
from linmed.features import Catalogue

TEAS = [{"item_id": name, "price": price} for name, price in (("oolong", 4.0), ("mint", 2.0), ("fig", 3.0))]


def limited(p, **limits):
    """The law that is nearest to p (K,), and its logarithms."""
    with np.errstate(divide="ignore"):
        log_p = np.log(np.array([p], dtype=np.float64))
    core.limit(Limits(LinMED(), **limits)._alone, log_p, np.empty_like(log_p))
    return np.exp(log_p[0])


@pytest.mark.parametrize(
    ("limits", "law"),
    [
        ({"floors": 0.05}, (0.678571428571, 0.193877551020, 0.077551020408, 0.05)),
        ({"floors": {2: 0.1, 3: 0.1}, "caps": {0: 0.6}}, (0.6, 0.2, 0.1, 0.1)),
        ({"floors": 0.05, "caps": {1: 0.1}}, (0.762820512821, 0.1, 0.087179487179, 0.05)),
        ({"caps": {0: 0.4, 1: 0.3, 2: 0.2, 3: 0.1}}, (0.4, 0.3, 0.2, 0.1)),
        ({"groups": {"new": [2, 3]}, "floors": {"new": 0.2}}, (28 / 45, 8 / 45, 0.16, 0.04)),
        # The cap of arm 0 leaves its group .7, which is above its own cap: arm 1 has what arm 0 may not have.
        ({"groups": {"a": [0, 1]}, "caps": {"a": 0.6, 0: 0.4}}, (0.4, 0.2, 0.32, 0.08)),
    ],
)
def test_laws_worked_by_hand(limits, law):
    np.testing.assert_allclose(limited((0.7, 0.2, 0.08, 0.02), **limits), law, rtol=0.0, atol=1e-10)


class Told(LinMED):
    """Plays four arms by the law of the worked examples, whatever it learns; written in Python."""

    def log_probabilities(self, state, arms):
        return np.broadcast_to(np.log([0.7, 0.2, 0.08, 0.02]), (len(arms), 4))


def test_limits_go_around_a_policy_of_ones_own_and_below_a_control_group():
    one = Agent(Limits(Told(), floors=0.05), dim=2, seed=1, control=0.1)
    law = (0.635714285714, 0.199489795918, 0.094795918367, 0.07)
    for _ in range(5):
        decision = one.decide(np.ones((4, 2)))
        np.testing.assert_allclose(decision.probabilities, law, rtol=0.0, atol=1e-10)
        one.learn(decision, 1.0)
    counts = np.bincount([one.decide(np.ones((4, 2))).arm for _ in range(5000)], minlength=4)
    expected = 5000 * np.array(law)
    assert ((counts - expected) ** 2 / expected).sum() <= chi2.isf(1e-6, 3)


def test_a_law_that_may_not_have_all_its_mass_leaves_the_rest_to_the_other_arms():
    np.testing.assert_allclose(limited((1, 0, 0, 0), caps=0.4), (0.4, 0.2, 0.2, 0.2), rtol=1e-15)
    np.testing.assert_allclose(limited((1, 0, 0), caps=0.4, floors={1: 0.35}), (0.4, 0.35, 0.25), rtol=1e-15)
    log_p = np.array([[0.0, -900.0, -900.0 - np.log(3.0), -2000.0]])  # beside which they underflow
    core.limit(Limits(LinMED(), caps=0.5)._alone, log_p, np.empty_like(log_p))
    np.testing.assert_allclose(np.exp(log_p[0]), (0.5, 0.375, 0.125, 0.0), rtol=1e-12)
    assert log_p[0, 3] == pytest.approx(-1100.0 + np.log(0.375))


def divergence(law, p):
    return float((law * np.log(np.maximum(law, 1e-300) / p)).sum())


@pytest.mark.parametrize("seed", range(30))
def test_no_law_within_the_limits_is_nearer(seed):
    """A general solver finds none, with limits of arms and of groups that bind together."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(3, 7))
    p = rng.dirichlet(np.full(K, 0.5)) * 0.999 + 0.001 / K
    inside = rng.dirichlet(np.ones(K))  # so that the limits are possible
    low, high = inside * rng.random(K), inside + (1.0 - inside) * rng.random(K) ** 2
    order = rng.permutation(K)
    groups = {"a": order[: K // 2].tolist(), "b": order[K // 2 : K - 1].tolist()}
    mass = {name: inside[some].sum() for name, some in groups.items()}
    floors = {name: one * rng.uniform(0.8, 1.0) for name, one in mass.items()}
    caps = {name: one + (1.0 - one) * rng.random() * 0.2 for name, one in mass.items()}
    floors |= dict(enumerate(low.tolist()))
    caps |= dict(enumerate(high.tolist()))
    law = limited(p, floors=floors, caps=caps, groups=groups)
    tiny = 1e-12
    assert abs(law.sum() - 1.0) <= tiny
    assert ((law >= low - tiny) & (law <= high + tiny)).all()
    constraints = [{"type": "eq", "fun": lambda x: x.sum() - 1.0}]
    for name, some in groups.items():
        assert floors[name] - tiny <= law[some].sum() <= caps[name] + tiny
        constraints += [
            {"type": "ineq", "fun": lambda x, some=some, name=name: x[some].sum() - floors[name]},
            {"type": "ineq", "fun": lambda x, some=some, name=name: caps[name] - x[some].sum()},
        ]
    bounds = list(zip(low, high, strict=True))
    best = minimize(
        divergence, inside, (p,), "SLSQP", bounds=bounds, constraints=constraints, options={"ftol": 1e-14}
    )
    assert divergence(law, p) <= divergence(best.x, p) + 1e-8
    np.testing.assert_allclose(law, best.x, atol=1e-4)


@pytest.mark.parametrize(
    "base",
    [LinMED(sigma=0.3), LinMED(design="warm"), OFUL(), LinTS(), Forgetful(LogisticMED()), Disjoint(LinMED())],
    ids=lambda one: one.name,
)
def test_every_decision_is_within_the_limits(base):
    rng = np.random.default_rng(3)
    limits = {"floors": {0: 0.05, "few": 0.3}, "caps": {1: 0.2, 2: 0.4}, "groups": {"few": [3, 4]}}
    one = None
    for K in (6, 9, 6, 5):
        arms = base.like(rng.normal(size=(K, 3)) / 2.0)
        one = one or Agent(Limits(base, **limits), dim=arms.shape[1], seed=3)
        for _ in range(10):
            decision = one.decide(arms)
            p = decision.probabilities
            assert abs(p.sum() - 1.0) <= 1e-12
            assert p[0] >= 0.05 - 1e-12
            assert p[1] <= 0.2 + 1e-12
            assert p[2] <= 0.4 + 1e-12
            assert p[3] + p[4] >= 0.3 - 1e-12
            one.learn(decision, float(decision.arm == 1))


def test_where_nothing_binds_decisions_are_those_without_limits():
    arms = np.random.default_rng(0).normal(size=(5, 3))
    one, other = (Agent(p, dim=3, seed=5) for p in (LinMED(), Limits(LinMED(), floors=1e-300, caps=0.999999)))
    for _ in range(50):
        a, b = one.decide(arms), other.decide(arms)
        assert a.arm == b.arm
        assert a.log_probabilities.tobytes() == b.log_probabilities.tobytes()
        one.learn(a, arms[a.arm, 0])
        other.learn(b, arms[b.arm, 0])


def test_rounds_of_the_core_are_decisions_one_by_one():
    policy, world = Limits(LinMED(sigma=0.5), floors=0.04, caps={0: 0.2}), UnitBall(arms=8, dim=3)
    results = simulate([policy, LinMED(sigma=0.5)], world, horizon=60, trials=3, seed=1, progress=False)
    assert policy.compiled_rounds
    assert (results.regret(policy.name)[:, -1] > results.regret("LinMED-90 (sigma=0.5)")[:, -1]).all()
    arms = np.random.default_rng(1).normal(size=(1, 8, 3))
    noise, rewards = np.random.default_rng(2).random((40, 1, 1)), arms[None, 0, :, 0].repeat(40, 0)[:, None]
    state, other = policy.start(1, 3), policy.start(1, 3)
    played = np.empty((40, 1), dtype=np.int64)
    policy.play(state, arms[None], rewards, noise, played)
    for t in range(40):
        choice = policy.decide(other, arms, noise[t])
        assert choice.arm == played[t]
        policy.learn(other, choice.features, rewards[t][:, choice.arm[0]], np.zeros(1, dtype=np.int64))
    assert state.theta.tobytes() == other.theta.tobytes()


@pytest.mark.parametrize("base", [LinMED(), LinTS()], ids=lambda one: one.name)
def test_a_set_that_leaves_no_law_is_refused_and_nothing_changes(base):
    one, twin = (Agent(Limits(base, floors=0.1, caps=0.4), dim=2, seed=1) for _ in range(2))
    arms = np.random.default_rng(0).normal(size=(11, 2))
    for agent in (one, twin):
        agent.learn(agent.decide(arms[:5]), 1.0)
    for wrong, text in (
        (arms, "floors of these 11 arms sum to 1.1: "),
        (arms[:2], "caps of .* sum to 0.8: "),
    ):
        for ask in (one.decide, one.probabilities, lambda set_: one.decide_batch([arms[:5], set_])):
            with pytest.raises(ValueError, match=text):
                ask(wrong)
    assert one.pending == ()
    for K in (5, 10, 3):
        a, b = one.decide(arms[:K]), twin.decide(arms[:K])
        assert (a.arm, a.log_probability) == (b.arm, b.log_probability)


def test_items_of_a_catalogue_keep_their_limits_wherever_they_stand(tmp_path):
    teas = Catalogue.from_table(TEAS)
    impossible = Limits(LinMED(), caps={"fig": 0.1, "hot": 0.7}, groups={"hot": ["oolong", "mint"]})
    with pytest.raises(ValueError, match=r"caps of these 3 arms sum to 0\.8"):
        Agent(impossible, catalogue=teas).decide()
    policy = Limits(LinMED(), floors={"mint": 0.2, "hot": 0.6}, caps={"fig": 0.1}, groups={"hot": ["oolong"]})
    one = Agent(policy, catalogue=teas, seed=3, shadow={"even": Limits(Uniform(), caps={"mint": 0.3})})
    for _ in range(20):
        decision = one.decide(items=["fig", "mint"])
        np.testing.assert_allclose(decision.probabilities, (0.1, 0.9), rtol=1e-12)
        assert decision.shadow["even"] == pytest.approx({"mint": 0.3, "fig": 0.7}[decision.item])
        one.learn(decision, float(decision.item == "fig"))
        one.learn(one.decide(), 0.5)
        p = one.probabilities()
        assert p[0] >= 0.6 - 1e-12
        assert p[1] >= 0.2 - 1e-12
        assert p[2] <= 0.1 + 1e-12
        assert one.probability_of("fig") == p[2]
    one.save(tmp_path / "agent.npz")
    twin = Agent.load(tmp_path / "agent.npz")
    assert twin.policy == policy
    several = twin.decide_batch(contexts=[{}] * 300)
    made = [one.decide(context={}) for _ in range(300)]
    assert [a.item for a in made] == [b.item for b in several]
    assert {a.log_probabilities.tobytes() for a in made + several} == {made[0].log_probabilities.tobytes()}
    teas.remove("fig")
    teas.add({"item_id": "sage", "price": 1.0})
    one.save(tmp_path / "agent.npz")
    for agent in (one, Agent.load(tmp_path / "agent.npz")):
        assert len(agent.probabilities()) == 3
        assert agent.probabilities()[1] >= 0.2 - 1e-12


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"floors": 1.5}, r"floors must lie in \[0, 1\]"),
        ({"floors": float("nan")}, "floors must be finite"),
        ({"caps": "much"}, "caps must be a number"),
        ({"caps": {"a": -1}}, r"caps\['a'\] must lie in \[0, 1\]"),
        ({"caps": {True: 0.1}}, "caps must name arms by an id or a number"),
        ({"caps": {0: 0.1, "0": 0.2}}, "caps must name every arm once"),
        ({"caps": [0.1, 0.2]}, "caps must be a dictionary"),
        ({"floors": 0.2, "caps": 0.1}, "floors must not be above caps"),
        ({"floors": {"a": 0.3}, "caps": 0.2}, "floors must not be above caps, got 0.3 and 0.2 for 'a'"),
        ({"floors": {"a": 0.7, "b": 0.6}}, "floors must sum to at most 1, got 1.3"),
        ({"groups": {"x": ["a"]}, "floors": {"x": 0.7, "b": 0.6}}, "floors must sum to at most 1, got 1.3"),
        ({"groups": ["x"]}, "groups must be a dictionary"),
        ({"groups": {"x": []}}, "must be a list of one or more arms"),
        ({"groups": {"x": ["a"], "y": ["a"]}}, "groups must have no arm in common, got 'a' twice"),
        ({"groups": {"1": ["a"]}}, "groups must have names that are no arm's"),
        ({"groups": {"x": ["a"]}, "floors": {"x": 0.5}, "caps": {"a": 0.1}}, "caps of group 'x' sum to 0.1"),
        (
            {"groups": {"x": ["a"]}, "caps": {"x": 0.1}, "floors": {"a": 0.5}},
            "floors of group 'x' sum to 0.5",
        ),
        ({"base": EXP2()}, "learns from the law by which it drew"),
        ({"base": CatalogueMED()}, "without a pass over all of them"),
        ({"base": Limits(LinMED())}, "base must have no limits"),
        ({"base": "LinMED"}, "base must be a Policy"),
    ],
)
def test_what_no_law_can_keep_is_refused(limits, named):
    with pytest.raises((ValueError, TypeError), match=named):
        Limits(**limits)


def test_names_must_be_items_or_numbers_of_arms():
    teas = Catalogue.from_table(TEAS)
    with pytest.raises(ValueError, match="catalogue, which has no 'coffee'"):
        Agent(Limits(LinMED(), caps={"coffee": 0.1}), catalogue=teas)
    with pytest.raises(ValueError, match="'mint' is the name of a group and of an item"):
        Agent(Limits(LinMED(), groups={"mint": ["fig"]}), catalogue=teas)
    with pytest.raises(ValueError, match="'fig' is no arm's number; ids need a catalogue"):
        Agent(Limits(LinMED(), caps={"fig": 0.1}), dim=2)
    with pytest.raises(ValueError, match="must name every arm once"):
        Agent(Limits(LinMED(), caps={"7": 0.1, "07": 0.2}), dim=2)
    with pytest.raises(ValueError, match="base must be"):
        Disjoint(Limits(LinMED()))


def test_limits_travel_as_json_and_say_what_they_are():
    policy = Limits(Greedy(), floors={"b": 0.1, 7: 0.2}, groups={"g": ["b", 3]})
    assert Policy.from_dict(json.loads(json.dumps(policy.to_dict()))) == policy
    assert hash(policy) == hash(Limits(Greedy(), floors={7: 0.2, "b": 0.1}, groups={"g": ("b", "3")}))
    assert policy.name == "Limits Greedy (floors={'7': 0.2, 'b': 0.1}, groups={'g': ('b', '3')})"
    assert Limits(LinMED()).radius(LinMED().start(1, 2)) == LinMED().radius(LinMED().start(1, 2))


def test_errors_of_probabilities_that_are_integrals_go_with_the_law():
    policy, arms = Limits(LinTS(), floors={0: 0.3}), np.random.default_rng(0).normal(size=(1, 6, 3))
    state = policy.start(1, 3)
    error, own = (one.propensity_error(state, arms)[0] for one in (policy, LinTS()))
    p, before = (np.exp(one.log_probabilities(state, arms)[0]) for one in (policy, LinTS()))
    assert before[0] < 0.3
    assert error[0] == 0.0
    np.testing.assert_allclose(error[1:], (own * p / before)[1:], rtol=1e-9)
