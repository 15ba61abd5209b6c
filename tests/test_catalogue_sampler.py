"""Decisions among a catalogue: the routes' probabilities are exact, and what is removed is never played."""

import hashlib
import json
import math

import numpy as np
import pytest
from scipy.stats import chisquare

from linmed import Agent, CatalogueMED, LinMED
from linmed.catalogue_sampler import (
    ROUTES,
    ActionDistribution,
    CatalogueSampler,
    Coreset,
    NthLive,
    find_coreset,
)
from linmed.decision import NoProbability
from linmed.features import Catalogue, Features, Number, Vector
from linmed.features.index import Scan
from linmed.features.usearch import USearch
from linmed.log import DecisionLog
from linmed.policies import CatalogueGLMMED
from tests.features.items import add, following, of_rows, on_sphere

FALSE_ALARM = 1e-3


def learned(policy, arms, rewards=200, seed=0):
    """One replica after rewards of arms drawn evenly; θ* is the first arm."""
    rng = np.random.default_rng(seed)
    state = policy.start(1, arms.shape[1])
    rows = arms[rng.integers(len(arms), size=rewards)]
    means = np.einsum("kd,d->k", rows, arms[0] / np.abs(arms[0]).max())
    paid = means + rng.standard_normal(rewards)
    paid = np.where(policy.accepts(paid), paid, (paid > 0.0).astype(float))
    policy.learn(state, rows, paid, np.zeros(rewards, dtype=np.int64))
    return state


def outer(dim):
    """The arm of item e in context x is x ⊗ e."""

    def lift(x):
        return np.kron(np.asarray(x)[:, None], np.eye(dim)), np.zeros(len(x) * dim)

    return lift


def plain(dim):
    """The arm of item e in context x is [e; x]."""

    def lift(x):
        return np.vstack([np.eye(dim), np.zeros((len(x), dim))]), np.concatenate([np.zeros(dim), x])

    return lift


def joined(items, lift, x):
    B, c = lift(x)
    return items.matrix @ B.T + c


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("scale", [1.0, 4.0], ids=["", "half-step"])
def test_with_every_item_in_the_coreset_it_is_the_policy_on_a_matrix(scale, version):
    policy = CatalogueMED(version=version)
    items = of_rows(scale * on_sphere(np.random.default_rng(0), 50, 4))
    state = learned(policy, items.matrix, rewards=5 if scale > 1.0 else 200)
    every = np.arange(50)
    routes = CatalogueSampler(policy, items, coreset=Coreset(every, 0, 50, 50))
    law = routes.law(state)
    assert (law.explored >= 0) == (scale > 1.0)
    p = np.exp(policy.log_probabilities(state, items.matrix[None])[0])
    accepted = np.exp(law.log_probabilities(every))
    others = every != law.best
    np.testing.assert_allclose(accepted[others], p[others], rtol=1e-10)
    assert p[law.best] >= accepted[law.best] * (1.0 - 1e-12)


@pytest.mark.parametrize(
    "policy",
    [
        CatalogueMED(sigma=0.3),
        CatalogueGLMMED(norm_bound=3.0, explore=True),
        CatalogueGLMMED(family="poisson", version=1, intercept=False),
        CatalogueGLMMED(family="gaussian", sigma=0.3),
    ],
    ids=lambda policy: policy.name,
)
@pytest.mark.parametrize("map_of", [outer, plain])
@pytest.mark.parametrize("scale", [1.0, 4.0], ids=["", "half-step"])
def test_a_context_gives_what_its_arms_would_give(map_of, scale, policy):
    """So few items that every design is even: it is then the same in the items' space and in the arms'."""
    dim, x = 4, np.array([1.0, -0.5, 0.25])
    items, lift = of_rows(scale * on_sphere(np.random.default_rng(1), 7, dim)), map_of(dim)
    arms = joined(items, lift, x)
    state = learned(policy, arms, rewards=4 if scale > 1.0 else 60)
    every = np.arange(7)
    law = CatalogueSampler(policy, items, None, lift, Coreset(every, 0, 7, 7)).law(state, x)
    p = np.exp(policy.log_probabilities(state, arms[None])[0])
    others = every != law.best
    np.testing.assert_allclose(np.exp(law.log_probabilities(every))[others], p[others], rtol=1e-9)
    for place in (0, 6):
        np.testing.assert_allclose(law.arm(place), arms[place], rtol=1e-15)
        assert law.probability_of(place) == math.exp(law.log_probabilities(every)[place])


def situation(scale=1.0, removed=True):
    policy = CatalogueMED(sigma=0.5)
    items = of_rows(scale * on_sphere(np.random.default_rng(2), 1000, 5))
    state = learned(policy, items.matrix, rewards=6 if scale > 1.0 else 150)
    routes = CatalogueSampler(policy, items)
    if removed:
        law = routes.law(state)
        items.remove(np.unique([law.best, *law.support[:4], *range(100, 250)]).tolist())
    return routes, state, items


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("scale", [1.0, 5.0], ids=["", "half-step"])
def test_accepted_and_fallback_sum_to_one_over_a_thousand_items(scale, removed):
    routes, state, items = situation(scale, removed)
    law, every = routes.law(state), np.arange(1000)
    share = 0.5 if law.explored >= 0 else 1.0
    played = math.fsum(np.exp(law.log_probabilities(every)))
    fallback = share * math.fsum(law.proposed(every) * -np.expm1(law.log_f(every)))
    assert abs(played + fallback - 1.0) < 1e-12
    assert (np.isfinite(law.log_probabilities(every)) == items.live).all()


@pytest.mark.parametrize("scale", [1.0, 5.0], ids=["", "half-step"])
def test_a_million_draws_are_as_frequent_as_their_routes_say(scale):
    """Chi-square over (item, route); a right law fails with probability 1e-3, and the seed is fixed."""
    routes, state, items = situation(scale)
    law, every, draws = routes.law(state), np.arange(1000), 1_000_000
    places, taken = law.draw(np.random.default_rng(3).random((draws, 4)))
    assert items.live[places].all()
    share = 0.5 if law.explored >= 0 else 1.0
    accepted = share * law.proposed(every) * np.exp(law.log_f(every))
    rest = np.array([1.0 - share, share - accepted.sum()])
    expected = draws * np.concatenate([accepted, rest])
    seen = np.concatenate([np.bincount(places[taken == 0], minlength=1000), np.bincount(taken)[1:]])
    rare = expected < 10.0
    cells = [np.append(x[~rare], x[rare].sum()) for x in (seen, expected)]
    cells = [x[cells[1] > 0.0] for x in cells]
    assert chisquare(*cells).pvalue > FALSE_ALARM
    assert (places[taken == 2] == law.best).all()
    assert (places[taken == 1] == law.explored).all()


def test_a_decision_says_its_route_and_what_it_was_made_with():
    routes, state, items = situation()
    law, noise = routes.law(state), np.random.default_rng(4).random((300, 4))
    made = [routes.decide(state, row) for row in noise]
    assert {one.route for one in made} == {"accepted", "fallback"}
    for one in made:
        assert one.best == law.best
        assert one.catalogue_version == items.version
        np.testing.assert_array_equal(one.features, items.matrix[one.arm])
        if one.fallback:
            assert one.arm == law.best
            assert not one.has_probability
        else:
            assert one.probability == law.probability_of(one.arm)


def test_the_coreset_is_bhs_set_and_stays_until_one_percent_has_changed():
    items = of_rows(on_sphere(np.random.default_rng(6), 1000, 3))
    core = find_coreset(items.snapshot(), following(Scan(), items))
    products = items.matrix[:, 0]
    assert {products.argmax(), products.argmin()} <= set(core.places.tolist())
    assert 4 <= len(core.places) <= 12
    routes = CatalogueSampler(CatalogueMED(), items)
    first = routes.coreset
    items.remove(range(10))
    assert routes.coreset is first
    add(items, on_sphere(np.random.default_rng(7), 1, 3))
    assert routes.coreset is not first
    assert routes.coreset.version == items.version
    again = Coreset.from_dict(json.loads(json.dumps(first.to_dict())))
    np.testing.assert_array_equal(again.places, first.places)
    assert (again.version, again.rows, again.count) == (first.version, first.rows, first.count)


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((5, 3)),
        np.ones((5, 3)),
        np.eye(3)[:1],
        np.repeat(np.eye(3), 4, axis=0),
        on_sphere(np.random.default_rng(8), 40, 2) @ np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]),
    ],
    ids=["zeros", "all alike", "one item", "copies", "in a plane"],
)
def test_awkward_catalogues_have_an_answer(matrix):
    items, policy = of_rows(matrix.copy()), CatalogueMED()
    law = CatalogueSampler(policy, items).law(policy.start(1, 3))
    every = np.arange(len(matrix))
    total = np.exp(law.log_probabilities(every)).sum()
    assert 0.9 <= total <= 1.0 + 1e-12
    places, _ = law.draw(np.random.default_rng(9).random((100, 4)))
    assert items.live[places].all()


def test_removed_items_are_skipped_by_the_even_draw():
    live = np.random.default_rng(10).random(20_000) < 0.3
    count = int(live.sum())
    np.testing.assert_array_equal(NthLive(live, count)(np.arange(count)), np.flatnonzero(live))


def test_an_empty_catalogue_and_another_policy_are_refused():
    items = of_rows(np.eye(2))
    with pytest.raises(TypeError, match="CatalogueMED"):
        CatalogueSampler(LinMED(), items)
    items.remove([0, 1])
    policy = CatalogueMED()
    with pytest.raises(ValueError, match="empty"):
        CatalogueSampler(policy, items).law(policy.start(1, 2))


def test_an_approximate_index_makes_another_law_whose_probabilities_are_as_exact():
    """Whatever â is, no f exceeds 1 and everything sums to 1."""
    policy, items = CatalogueMED(sigma=0.2), of_rows(on_sphere(np.random.default_rng(11), 2000, 6))
    state = learned(policy, items.matrix)
    routes = CatalogueSampler(policy, items, USearch(search=1))
    exact = CatalogueSampler(policy, items, coreset=routes.coreset).law(state)
    every = np.arange(2000)
    for best in (routes.law(state).best, 17):
        law = ActionDistribution(
            policy,
            exact._sight,
            items.snapshot(),
            best,
            np.union1d(routes.coreset.places, [best]),
            exact._nth,
        )
        f, q = np.exp(law.log_f(every)), law.proposed(every)
        assert f.max() == 1.0
        assert abs(math.fsum(q) - 1.0) < 1e-12
        np.testing.assert_allclose(np.exp(law.log_probabilities(every)), q * f, rtol=1e-12)


class Forgetful(USearch):
    """An index that looks at the catalogue once."""

    def follow(self, items):
        if self._items is None:
            super().follow(items)


def test_an_index_that_does_not_know_of_a_removal_cannot_make_it_played():
    policy, items = CatalogueMED(), of_rows(on_sphere(np.random.default_rng(15), 400, 4))
    state = learned(policy, items.matrix)
    graph = Forgetful()
    routes = CatalogueSampler(policy, items, graph)
    routes.follow()
    items.remove(np.unique(graph.top(state.theta, 200)).tolist())
    places, _ = routes.law(state).draw(np.random.default_rng(16).random((2000, 4)))
    assert items.live[places].all()


def fingerprint():
    """Of a hundred decisions, half of them with an outer map."""
    sha = hashlib.sha256()
    for lift, dim in ((None, 9), (outer(3), 3)):
        policy, items = CatalogueMED(sigma=0.3), of_rows(on_sphere(np.random.default_rng(12), 700, dim))
        contexts = [None] * 50 if lift is None else np.random.default_rng(13).standard_normal((50, 3))
        arms = (
            items.matrix if lift is None else (contexts[0][:, None, None] * items.matrix).transpose(1, 0, 2)
        )
        arms = np.ascontiguousarray(arms).reshape(700, -1)
        state = policy.start(1, 9)
        policy.learn(state, arms[:40], arms[:40, 0].copy(), np.zeros(40, dtype=np.int64))
        noise = np.random.default_rng(14).random((50, 4))
        for one in CatalogueSampler(policy, items, lift=lift).decide_each(state, noise, contexts):
            sha.update(repr((one.arm, ROUTES.index(one.route), one.log_probability, one.best)).encode())
            sha.update(one.features.tobytes())
    return sha.hexdigest()


def test_while_all_items_look_equally_good_they_share_what_the_best_has():
    arms = np.random.default_rng(3).normal(size=(6, 3))
    policy = CatalogueMED(alpha_opt=0.0, explore=False, ties="even")
    law = CatalogueSampler(policy, of_rows(arms)).law(policy.start(1, 3))
    np.testing.assert_allclose(law.complete(), 1 / 6, rtol=1e-12)
    place, _ = law.draw(np.random.default_rng(4).random((6000, 4)))
    assert chisquare(np.bincount(place, minlength=6)).pvalue > FALSE_ALARM


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
