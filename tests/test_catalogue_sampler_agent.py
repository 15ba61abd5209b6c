"""An agent with CatalogueMED and a catalogue decides by route, logs fallbacks, and can be restarted."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from linmed import Agent, CatalogueMED, LinMED
from linmed.decision import NoProbability
from linmed.features import Catalogue, Features, Number, Scan, Vector
from linmed.features.usearch import USearch
from linmed.log import DecisionLog
from tests.features.items import add, of_rows, on_sphere

CONTEXT = [Number("age", scale=(0, 1)), Number("hour", scale=(0, 1))]


def made(**options):
    catalogue = of_rows(on_sphere(np.random.default_rng(0), 400, 5))
    return Agent(CatalogueMED(sigma=0.3), catalogue=catalogue, context=CONTEXT, seed=7, **options)


def contexts(count, seed=1):
    return [
        {"age": a, "hour": b} for a, b in np.random.default_rng(seed).standard_normal((count, 2)).tolist()
    ]


def played(agent, rounds, seed=2):
    """Decisions whose rewards are learned at once."""
    noise, found = np.random.default_rng(seed), []
    for context in contexts(rounds, seed):
        decision = agent.decide(context=context)
        agent.learn(decision, float(decision.features[0] + 0.3 * noise.standard_normal()))
        found.append(decision)
    return found


def told(decisions):
    return [(one.item, one.fallback, getattr(one, "log_probability", None)) for one in decisions]


def test_items_are_played_with_the_probability_that_the_law_says():
    agent = made()
    played(agent, 200)
    context = {"age": 0.5, "hour": -1.0}
    every, p = agent.items, agent.probabilities(context=context)
    assert abs(math.fsum(p) - 1.0) < 1e-12
    by_route = [agent.probability_of(item, context) for item in every]
    different = np.flatnonzero(~np.isclose(by_route, p, rtol=1e-12))
    assert len(different) == 1  # â, which the fallback plays too
    decision = agent.decide(context=context)
    if not decision.fallback:
        assert decision.probability == agent.probability_of(decision.item, context)
    np.testing.assert_array_equal(decision.features, agent.arms(context, [decision.item])[0])


def test_decisions_in_a_batch_are_those_one_by_one():
    one, other = made(), made()
    for agent in (one, other):
        played(agent, 100)
    several = contexts(40, seed=3)
    together = one.decide_batch(contexts=several)
    assert told(together) == told([other.decide(context=context) for context in several])
    assert len({decision.item for decision in together}) > 2


def test_the_log_has_fallbacks_without_a_probability(tmp_path):
    with made(log=tmp_path / "log") as agent:
        decisions = played(agent, 400)
    rows = DecisionLog.open(tmp_path / "log").table().to_pylist()
    assert len(rows) == 400
    assert {row["fallback"] for row in rows} == {False, True}
    for row, decision in zip(rows, decisions, strict=True):
        assert row["arm_id"] == str(decision.item)
        assert row["arm_count"] == 400
        assert row["fallback"] == decision.fallback
        assert row["probability"] == getattr(decision, "probability", None)
        assert (row["probability"] is None) == decision.fallback == (not decision.has_probability)
        if decision.fallback:
            with pytest.raises(NoProbability, match="a fallback has no probability"):
                getattr(decision, "log_probability")  # noqa: B009
        assert "fallback" in repr(decision) if decision.fallback else "probability=" in repr(decision)


def test_removed_items_are_not_played_and_their_late_rewards_count():
    agent = made()
    decisions = played(agent, 100)
    waiting = agent.decide(context={"age": 0.0, "hour": 0.0})
    gone = sorted({one.item for one in (*decisions, waiting)})
    agent.catalogue.remove(gone)
    add(agent.catalogue, on_sphere(np.random.default_rng(5), 3, 5))
    assert not {one.item for one in played(agent, 200, seed=4)} & set(gone)
    before = agent.count
    agent.learn(waiting, 1.0)
    assert agent.count == before + 1


def test_a_saved_agent_decides_as_it_would_have(tmp_path):
    """A few items have changed since the coreset was made: it is saved, not made anew."""
    agent = made()
    played(agent, 60)
    coreset = agent.sampler.coreset
    agent.catalogue.remove([int(coreset.places[0]), 17])
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    assert again.sampler.coreset.version == coreset.version < again.catalogue.version
    assert told(played(again, 60, seed=6)) == told(played(agent, 60, seed=6))


RESTARTED = """
import json, sys
from linmed import Agent
from tests.test_catalogue_sampler_agent import played, told
print(json.dumps(told(played(Agent.load(sys.argv[1]), 30, seed=8))))
"""


def test_a_killed_process_and_its_successor_decide_alike(tmp_path):
    agent = made()
    played(agent, 300)
    agent.save(tmp_path / "agent")
    run = subprocess.run(
        [sys.executable, "-c", RESTARTED, str(tmp_path / "agent")],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [tuple(one) for one in json.loads(run.stdout)] == told(played(agent, 30, seed=8))


def test_another_index_may_be_given_and_is_given_again(tmp_path):
    index = USearch()
    agent = made(index=index)
    played(agent, 50)
    index.save(tmp_path / "index")
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent", index=USearch.open(tmp_path / "index"))
    assert told(played(again, 30, seed=9)) == told(played(agent, 30, seed=9))


def test_chosen_items_and_arms_given_as_vectors_are_decided_as_by_any_policy():
    agent = made()
    context = {"age": 1.0, "hour": 2.0}
    among = agent.decide(context=context, items=[3, 5, 8])
    assert among.item in (3, 5, 8)
    assert among.fallback is None
    assert among.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert agent.decide(np.eye(agent.dim)).fallback is None


def test_an_index_needs_the_policy_and_a_catalogue():
    catalogue = Catalogue(range(3), np.eye(3), Features(item=[Vector("features", 3)]))
    for policy, given in ((LinMED(), {"catalogue": catalogue}), (CatalogueMED(), {"dim": 3})):
        with pytest.raises(ValueError, match="index"):
            Agent(policy, index=Scan(), **given)


def test_an_agent_whose_items_are_all_gone_can_be_saved_and_goes_on(tmp_path):
    agent = made()
    played(agent, 5)
    agent.catalogue.remove(list(agent.items))
    agent.save(tmp_path / "agent.npz")
    again = Agent.load(tmp_path / "agent.npz")
    for one in (agent, again):
        add(one.catalogue, on_sphere(np.random.default_rng(3), 4, 5))
    assert told(played(agent, 5)) == told(played(again, 5))


def test_items_that_come_while_an_agent_is_saved_do_no_harm(tmp_path):
    agent = made()
    agent.decide(context=contexts(1)[0])
    arrays = agent.catalogue.arrays

    def and_then_some_come():
        found = arrays()
        add(agent.catalogue, 9.0 * on_sphere(np.random.default_rng(3), 40, 5))
        return found

    agent.catalogue.arrays = and_then_some_come
    agent.save(tmp_path / "agent.npz")
    again = Agent.load(tmp_path / "agent.npz")
    assert again.decide(context=contexts(1)[0]).item in range(400)


@pytest.mark.parametrize("wrong", ["scan", Scan, 3])
def test_what_is_no_index_is_refused(wrong):
    with pytest.raises(TypeError, match=r"index must be .* such as linmed\.features\.Scan\(\)"):
        made(index=wrong)


@pytest.mark.parametrize("ask", ["decide", "probabilities"])
def test_products_that_are_too_large_are_refused_and_leave_the_agent_as_it_was(ask):
    items = 1e80 * np.random.default_rng(0).standard_normal((5, 2))
    agent = Agent(CatalogueMED(), catalogue=of_rows(items), context=[Number("h", scale=None)], seed=0)
    before = agent.probabilities(context={"h": 1.0})
    with pytest.raises(ValueError, match=r"context.* 1e\+100"):
        getattr(agent, ask)(context={"h": 1e80})
    assert agent.pending == ()
    assert (agent.probabilities(context={"h": 1.0}) == before).all()
