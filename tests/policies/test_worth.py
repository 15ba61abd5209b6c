"""Values and costs: laws against NumPy, draws against laws, what is learned, and what is refused."""

import re

import numpy as np
import pytest
from scipy.stats import chi2, norm

from linmed import Agent
from linmed.features import Catalogue, Category
from linmed.policies import (
    E2D,
    EXP2,
    OFUL,
    CatalogueMED,
    Disjoint,
    DLinUCB,
    Forgetful,
    Greedy,
    Hybrid,
    Limits,
    LinIMED,
    LinMED,
    LinMEDNoDesign,
    LinTS,
    LogisticMED,
    LogisticTS,
    LogisticUCB,
    MaillardSampling,
    Pinpoint,
    Policy,
    RandUCB,
    SpannerIGW,
    SquareCB,
    Uniform,
)
from linmed.policies.worth import priced
from tests.reference import worth

ARMS = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]])
VALUES, COSTS = np.array([1.0, 1.2, 2.0, 0.5]), np.array([0.5, 0.1, 0.2, 0.0])
TOYS = [  # values, costs and p of spec/value.md §7
    (1.0, 0.0, [0.9635517953305, 0.02597165181897, 0.009773829273128, 0.0007027235774054]),
    (1.0, [0.5, 0.1, 0, 0], [0.01006512668262, 0.9879876856792, 0.001928277892929, 1.890974526078e-5]),
    (VALUES, COSTS, [0.005355542018538, 0.9802584022420, 0.01437622105523, 9.834684238973e-6]),
]


class Two(LinMED):
    """LinMED with β = 2."""

    def squared_radius(self, state):
        return np.full(len(state.count), 2.0)


@pytest.mark.parametrize(("values", "costs", "expected"), TOYS)
def test_toys(values, costs, expected):
    policy = Two(alpha_emp=0.9, alpha_opt=0.05)
    state, inverse = policy.start(1, 2), np.diag([0.05, 0.2])
    state.theta[:], state.inverse[:], state.gram[:] = [1.0, 0.3], inverse, np.linalg.inv(inverse)
    law = np.exp(policy.log_probabilities(state, priced(ARMS, values, costs)[None]))[0]
    np.testing.assert_allclose(law, expected, rtol=0, atol=1e-10)


def situation(policy, arms=ARMS, rewards=40, clicks=False):
    """A state that has learned from these arms."""
    rng = np.random.default_rng(3)
    d = arms.shape[1]
    state, rows = policy.start(1, d), arms[rng.integers(len(arms), size=rewards)]
    paid = 0.3 + rows[:, -2:] @ [0.5, 0.2] + 0.2 * rng.standard_normal(rewards)
    paid = (rng.random(rewards) < np.clip(paid, 0, 1)).astype(float) if clicks else paid
    policy.learn(state, rows, paid, np.zeros(rewards, dtype=np.int64))
    return state


def law_of(policy, state, arms=ARMS, values=VALUES, costs=COSTS):
    return np.exp(policy.log_probabilities(state, priced(arms, values, costs)[None]))[0]


@pytest.mark.parametrize("intercept", [False, True])
def test_linear_rules(intercept):
    told = {"sigma": 0.3, "intercept": intercept}
    state = situation(LinMED(**told))
    theta, inverse, rows = state.theta[0], state.inverse[0], ARMS
    if intercept:  # (1, a − ā), whose V⁻¹ has 1/n for the 1
        rows = np.column_stack([np.ones(4), ARMS - state.middle[0]])
        theta, inverse = np.append(state.level[0], theta), np.pad(inverse, ((1, 0), (1, 0)))
        inverse[0, 0] = 1.0 / state.seen[0]
    gain, g = worth.utility(theta, rows, VALUES, COSTS)
    own = ARMS - state.middle[0] if intercept else ARMS
    leverage = np.einsum("ki,ij,kj->k", own, state.inverse[0], own)
    for policy in (LinMED(**told), LinMED(**told, alpha_emp=0.3)):
        beta = policy.radius(state)[0] ** 2
        expected = worth.med(gain, g, inverse, beta, policy.alpha_emp, leverage)
        np.testing.assert_allclose(law_of(policy, state), expected, rtol=1e-9)
    oful = OFUL(**told, floor=0.2)
    scaled = VALUES[:, None] * own
    arm = worth.ucb(gain, scaled, state.inverse[0], oful.radius(state)[0] ** 2)
    np.testing.assert_allclose(law_of(oful, state), 0.8 * np.eye(4)[arm] + 0.05, rtol=1e-12)
    square = SquareCB(**told, gamma=30.0)
    np.testing.assert_allclose(law_of(square, state), worth.inverse_gaps(gain, 30.0), rtol=1e-10)
    sampling = LinTS(**told, scale=2.0)
    drawn = worth.thompson(gain, g, 4.0 * inverse, 400_000, np.random.default_rng(0))
    np.testing.assert_allclose(law_of(sampling, state), drawn, atol=4e-3)
    pair = priced(ARMS[:2], VALUES[:2], COSTS[:2])[None]
    x = g[0] - g[1]
    two = norm.cdf((gain[0] - gain[1]) / (2.0 * np.sqrt(x @ inverse @ x)))
    np.testing.assert_allclose(np.exp(sampling.log_probabilities(state, pair))[0, 0], two, rtol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_clicks_by_the_delta_method(intercept):
    policy = LogisticMED(intercept=intercept, norm_bound=2.0)
    state = situation(policy, clicks=True)
    H = np.linalg.inv(np.tril(state.gram[0, 0]) + np.tril(state.gram[0, 0], -1).T)
    theta, rows, inverse = state.theta[0], ARMS, H[1:, 1:]
    if intercept:
        theta, rows, inverse = np.append(state.intercept[0], theta), np.column_stack([np.ones(4), ARMS]), H
    gain, g = worth.utility(theta, rows, VALUES, COSTS, worth.logistic)
    expected = worth.med(gain, g, inverse, policy.radius(state)[0] ** 2, policy.alpha_emp)
    np.testing.assert_allclose(law_of(policy, state), expected, rtol=1e-9)
    sampling = LogisticTS(intercept=intercept, norm_bound=2.0)
    drawn = worth.thompson(gain, g, inverse, 400_000, np.random.default_rng(0))
    np.testing.assert_allclose(law_of(sampling, state), drawn, atol=4e-3)


def test_items_with_models_that_are_one_model_each():
    """Models of items see arms as one model that has a block for every item does."""
    x = np.array([[1.0, 0.2], [1.0, -0.4], [1.0, 0.7]])
    own = np.column_stack([[0.0, 1.0, 1.0], x])
    wide = np.zeros((3, 4))
    wide[0, :2], wide[1, 2:], wide[2, 2:] = x
    values, costs = VALUES[:3], COSTS[:3]
    for one in (
        LinMED(sigma=0.3),
        OFUL(sigma=0.3, floor=0.1),
        LinTS(sigma=0.3),
        LogisticMED(intercept=False),
    ):
        clicks = isinstance(one, LogisticMED)
        items = Disjoint(one)
        rng = np.random.default_rng(1)
        state, other, zeros = items.start(1, 3), one.start(1, 4), np.zeros(30, dtype=np.int64)
        drawn = rng.integers(3, size=30)
        paid = rng.random(30)
        paid = (paid < 0.5).astype(float) if clicks else paid
        items.learn(state, own[drawn], paid, zeros)
        one.learn(other, wide[drawn], paid, zeros)
        expected = law_of(one, other, wide, values, costs)
        np.testing.assert_allclose(law_of(items, state, own, values, costs), expected, rtol=1e-6, atol=2e-4)


EVERY = [
    *(LinMED(sigma=0.3), LinMED(sigma="unknown", ridge="learned", intercept=True), LinMED(design="warm")),
    *(
        LinMED(design="optimal", alpha_emp=0.5, alpha_opt=0.3),
        LinMEDNoDesign(),
        CatalogueMED(),
        LinMED(floor=0.1),
    ),
    *(OFUL(floor=0.2), LinIMED(floor=0.2), RandUCB(), Pinpoint(floor=0.2), DLinUCB(floor=0.2)),
    *(SquareCB(), SquareCB(oracle="vaw"), SpannerIGW(), E2D(), Uniform(), Greedy(epsilon=0.2)),
    *(
        LinTS(),
        LinTS(floor=0.1, intercept=True),
        Forgetful(LinMED()),
        Forgetful(LinTS()),
        Forgetful(LinMED(), combine="mixture"),
    ),
    *(LogisticMED(), LogisticUCB(floor=0.2), LogisticTS(), Forgetful(LogisticMED())),
    *(Disjoint(LinMED()), Hybrid(LinMED(), shared=1), Disjoint(LogisticTS()), Disjoint(Forgetful(LinTS()))),
    *(Disjoint(Pinpoint(floor=0.2)), MaillardSampling()),
    *(Limits(LinMED(), floors=0.1), Limits(LinTS(), caps=0.6)),
]


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: policy.name)
def test_every_rule(policy):
    """Draws follow the law (one false alarm in 10⁶), rewards are learned as ever, 1 and 0 change nothing."""
    arms = policy.like(np.column_stack([np.arange(4), ARMS]) if policy.capabilities.per_item else ARMS)
    clicks = not policy.accepts(np.array([0.5, 2.0])).all()
    state = situation(policy, arms, 12, clicks)
    values, costs, n = VALUES[: len(arms)], COSTS[: len(arms)], 4000
    shown = priced(arms, values, costs)
    law = np.exp(policy.log_probabilities(state, shown[None]))[0]
    assert law.sum() == pytest.approx(1.0, abs=1e-9)
    if not policy.remembers:  # the warm design changes with every decision
        noise = policy.draw_noise(np.random.default_rng(5), (n,), state.dim)
        choice = policy.decide(state, np.tile(shown, (n, 1, 1)), noise)
        counts = np.bincount(choice.arm, minlength=len(arms))
        cells = law * n > 5.0
        statistic = ((counts - law * n)[cells] ** 2 / (law * n)[cells]).sum()
        assert statistic <= chi2.isf(1e-6, max(cells.sum() - 1, 1))
        assert choice.features.shape == (n, state.dim)
    plain = policy.log_probabilities(state, arms[None])
    free = policy.log_probabilities(state, priced(arms)[None])
    np.testing.assert_array_equal(free, plain)
    dear = law_of(policy, state, arms, values, costs + 1e6 * np.eye(len(arms))[1])
    assert isinstance(policy, Uniform) or dear[1] <= law[1] + 1e-12


def test_the_same_features_dearer():
    state = situation(LinMED())
    assert law_of(LinMED(), state, ARMS[[0, 0]], 1.0, [0.1, 0.2]).tolist() == [1.0, 0.0]


def test_agents_decide_learn_and_log_with_costs(tmp_path):
    from linmed.ope import DecisionLog

    agent, other = (Agent(LinMED(sigma=0.3), dim=2, seed=1) for _ in range(2))
    with Agent(LinMED(sigma=0.3), dim=2, seed=1, log=tmp_path) as logged:
        for t in range(30):
            costs = 0.1 * ((np.arange(4) + t) % 3)
            mine, theirs = (
                agent.decide(ARMS, values=2, costs=costs),
                logged.decide(ARMS, values=2, costs=costs),
            )
            batch = other.decide_batch([ARMS], values=[2.0], costs=[costs])[0]
            assert mine.arm == theirs.arm == batch.arm
            assert mine.probability == theirs.probability
            for one, decision in ((agent, mine), (logged, theirs), (other, batch)):
                one.learn(decision, 0.5)
    np.testing.assert_array_equal(agent.theta, other.theta)
    plain = LinMED(sigma=0.3).start(1, 2)
    rows = DecisionLog.open(tmp_path).table().to_pylist()
    features = np.array([row["features"] for row in rows])
    LinMED(sigma=0.3).learn(plain, features, np.full(30, 0.5), np.zeros(30, dtype=np.int64))
    np.testing.assert_array_equal(plain.theta[0], agent.theta)
    for t, row in enumerate(rows):
        assert row["costs"] == pytest.approx(0.1 * ((np.arange(4) + t) % 3))
        assert (row["value"], row["cost"]) == (2.0, row["costs"][row["arm"]])
    law = agent.probabilities(ARMS, values=2.0, costs=COSTS)
    many = agent.decide_batch([ARMS] * 4000, values=[2.0] * 4000, costs=[COSTS] * 4000)
    counts = np.bincount([one.arm for one in many], minlength=4)
    assert ((counts - 4000 * law) ** 2 / (4000 * law + 1e-9)).sum() < chi2.isf(1e-6, 3)
    mean, seen = agent.mean(ARMS), agent.mean(ARMS, values=VALUES, costs=COSTS)
    np.testing.assert_allclose(seen.mean, VALUES * mean.mean - COSTS)


def test_verdicts_are_on_utility():
    agent = Agent(LinMED(sigma=0.1), dim=2)
    agent.observe(np.tile(np.eye(2), (40, 1)), [0.9, 0.4] * 40)
    assert agent.verdict(np.eye(2)).best == 0
    found = agent.verdict(np.eye(2), costs=[0.8, 0.0])
    assert found.best == 1
    assert found.decided
    assert agent.verdict(np.eye(2), values=[1.0, 4.0]).best == 1


class Own(LinMED):
    """A law in Python."""

    def log_probabilities(self, state, arms):
        return np.full(arms.shape[:2], -np.log(arms.shape[1]))


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"costs": [-1.0, 0, 0, 0]}, "costs must be 0 or more, got -1"),
        ({"costs": [np.nan, 0, 0, 0]}, "costs"),
        ({"values": [0.0, 1, 1, 1]}, "values must be above 0, what a unit of reward is worth, got 0"),
        ({"costs": [0.1]}, "costs must be one number, or one for each of 4 arms"),
        ({"costs": "dear"}, "costs"),
    ],
)
def test_bad_values_and_costs_change_nothing(told, said):
    agent, twin = (Agent(LinMED(), dim=2, seed=3) for _ in range(2))
    with pytest.raises((ValueError, TypeError), match=said):
        agent.decide(ARMS, **told)
    assert agent.pending == ()
    assert agent.decide(ARMS).arm == twin.decide(ARMS).arm


@pytest.mark.parametrize("policy", [EXP2(), Own()], ids=["EXP2", "own"])
def test_policies_that_take_no_costs_say_why(policy):
    with pytest.raises(ValueError, match="takes no values and costs: it"):
        Agent(policy, dim=2).decide(ARMS, costs=COSTS)
    assert isinstance(policy, Policy)


MODELS = [
    {"item_id": "small", "size": 1.0, "margin": 1.0, "price": 0.5},
    {"item_id": "medium", "size": 2.0, "margin": 1.2, "price": 0.1},
    {"item_id": "large", "size": 3.0, "margin": 2.0, "price": 0.0},
]
PRICED = {"value": "margin", "cost": "price"}


def test_a_catalogue_says_what_its_items_are_worth(tmp_path):
    from linmed.ope import DecisionLog

    plain = [{name: row[name] for name in ("item_id", "size")} for row in MODELS]
    catalogue = Catalogue.from_table(MODELS, **PRICED)
    assert catalogue.features.names == Catalogue.from_table(plain).features.names
    made = {"context": [Category("device", ["phone", "desk"])], "seed": 2}
    agent = Agent(LinMED(sigma=0.3), catalogue=catalogue, log=tmp_path / "log", **made)
    other = Agent(LinMED(sigma=0.3), catalogue=Catalogue.from_table(plain), **made)
    context, prices = {"device": "desk"}, {"values": [1.0, 1.2, 2.0], "costs": [0.5, 0.1, 0.0]}
    for step in range(12):
        if step == 6:
            catalogue.change({**MODELS[0], "price": 0.05})
            other.catalogue.change(plain[0])
            prices = {"values": [1.2, 2.0, 1.0], "costs": [0.1, 0.0, 0.05]}  # a changed item moves
        told = {"context": context, **prices}
        np.testing.assert_array_equal(agent.probabilities(context=context), other.probabilities(**told))
        np.testing.assert_array_equal(agent.mean(context=context).mean, other.mean(**told).mean)
        (one,) = agent.decide_batch(contexts=[context])
        twin = other.decide(**told)
        assert (one.item, one.probability) == (twin.item, twin.probability)
        agent.learn(one, 0.4)
        other.learn(twin, 0.4)
    assert agent.probability_of("large", context) == other.probabilities(**told)[1]
    assert agent.verdict(context=context).margin == other.verdict(**told).margin
    some = {"context": context, "items": ["large", "small"]}
    expected = other.probabilities(**some, values=[2.0, 1.0], costs=[0.0, 0.05])
    np.testing.assert_array_equal(agent.probabilities(**some), expected)
    expected = other.probabilities(
        **some, values=[2.0, 1.0], costs=0.7
    )  # costs that are given, and own values
    np.testing.assert_array_equal(agent.probabilities(**some, costs=0.7), expected)
    agent.close()
    rows = DecisionLog.open(tmp_path / "log").table().to_pylist()
    assert rows[-1]["costs"] == [0.1, 0.0, 0.05]
    agent.save(tmp_path / "agent")
    catalogue.save(tmp_path / "items")
    for again in (
        Agent.load(tmp_path / "agent"),
        Agent(catalogue=Catalogue.open(tmp_path / "items"), seed=1),
    ):
        assert (again.catalogue.value, again.catalogue.cost) == ("margin", "price")
        np.testing.assert_array_equal(again.catalogue.snapshot().worth, catalogue.snapshot().worth)
        again.catalogue.add({"item_id": "huge", "size": 4.0, "margin": 1.0, "price": 9.0})
        assert again.catalogue.snapshot().worth[-1].tolist() == [1.0, 9.0]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"margin": None}, r"items\['margin'\] of item 'medium' must be above 0, it is missing"),
        ({"margin": 0.0}, r"items\['margin'\] of item 'medium' must be above 0, got 0"),
        ({"price": -1}, r"items\['price'\] of item 'medium' must be 0 or more, got -1"),
        ({"price": "dear"}, r"items\['price'\] of item 'medium' must be a number, got 'dear'"),
    ],
)
def test_items_without_a_price_are_refused_by_name(told, said):
    catalogue = Catalogue.from_table(MODELS, **PRICED)
    wrong = {**MODELS[1], **told}
    with pytest.raises((ValueError, TypeError), match=said):
        Catalogue.from_table([MODELS[0], wrong], **PRICED)
    with pytest.raises((ValueError, TypeError), match=said):
        catalogue.change([wrong])
    assert (catalogue.version, catalogue.count) == (0, 3)


def test_who_cannot_use_a_catalogues_prices_says_so():
    catalogue = Catalogue.from_table(MODELS, **PRICED)
    for policy in (EXP2(), CatalogueMED()):
        with pytest.raises(ValueError, match="values and costs"):
            Agent(policy, catalogue=catalogue)
    with pytest.raises(ValueError, match="lists know no values and costs"):
        Agent(LinMED(), catalogue=catalogue).decide_list(length=2)


@pytest.mark.parametrize("policy", [LinMED(sigma=0.1), LinMED(sigma=0.1, intercept=True), LogisticMED()])
def test_explanations_are_of_utility(policy):
    agent = Agent(policy, dim=2)
    agent.observe(np.tile(np.eye(2), (40, 1)), [1.0, 0.0] * 40)
    told = {"values": [1.0, 4.0], "costs": [1.5, 0.25]}
    why, seen = agent.explain(np.eye(2), names=["tea", "mint"], **told), agent.mean(np.eye(2), **told)
    rows = {row["arm"]: row for row in why.table().to_pylist()}
    assert why.best == seen.mean.argmax() == 1
    for i, name in enumerate(("tea", "mint")):
        row = rows[name]
        assert row["estimate"] == seen.mean[i]
        assert row["estimate"] == pytest.approx(row["value"] * row["reward"] - row["cost"])
        assert (row["value"], row["cost"]) == (told["values"][i], told["costs"][i])
        assert row["gain"] <= seen.upper[i] - seen.lower[1] + 1e-12
    assert "a utility of" in str(why)
    assert "value 4 · reward" in str(why)
    assert "What counts most for the reward" in str(why) or why.contributions() == []
    headings = re.findall("<th[^>]*>([^<]*)</th>", why._repr_html_())
    assert headings[3:7] == ["utility", "reward", "value", "cost"]
    axes = why.plot()
    assert "utility, value · reward − cost" in axes.get_xlabel() + axes.get_title()


@pytest.mark.parametrize(
    ("told", "said"), [([0.1, -1.0], "0 or more"), ({0: 0.1, 1: 0.1}, "one row for each")]
)
@pytest.mark.parametrize("policy", [LinMED(), LinMED(design="warm")], ids=lambda one: one.name)
def test_a_batch_with_bad_costs_decides_nothing(policy, told, said):
    agent = Agent(policy, dim=2, seed=3)
    for sets in ([ARMS, ARMS], iter([ARMS, ARMS])):
        with pytest.raises(ValueError, match=said):
            agent.decide_batch(sets, costs=told)
    assert agent.pending == ()


@pytest.mark.parametrize("cost", [2.0, 8.0])
def test_an_arm_inside_the_hull_can_be_the_best_where_it_is_cheap(cost):
    """θ̃ is N(0, 1): the free arm without features is best where |θ̃| ≤ the others' cost."""
    policy = LinTS(scale=1.0)
    arms = np.array([[0.0], [1.0], [-1.0]])
    law = law_of(policy, policy.start(1, 1), arms, 1.0, [0.0, cost, cost])
    np.testing.assert_allclose(law, [1 - 2 * norm.sf(cost), norm.sf(cost), norm.sf(cost)], atol=1e-3)


@pytest.mark.parametrize(
    "policy", [LinTS(), LogisticTS(), Limits(LinTS(), floors=0.1)], ids=lambda one: one.name
)
def test_arms_of_the_same_features_are_integrated_with_costs_too(policy):
    law = law_of(policy, policy.start(1, 2), ARMS[[0, 0, 0]], 1.0, [0.2, 0.1, 0.1])
    assert law.argmax() == 1
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
