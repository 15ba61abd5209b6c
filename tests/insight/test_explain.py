"""Why this arm: what an explanation says must be what the policy believes, and asking must change nothing."""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from linmed import (
    EXP2,
    GLMMED,
    OFUL,
    Agent,
    CatalogueMED,
    Disjoint,
    DLinUCB,
    Explanation,
    Forgetful,
    Greedy,
    Hybrid,
    LinMED,
    LinTS,
    LinUCB,
    LogisticMED,
    Pinpoint,
    SWLinUCB,
    Uniform,
)
from linmed.features import Catalogue, Category

ARMS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.6, 0.8, 0.0], [0.3, 0.3, 0.3]])
THETA = np.array([0.7, 0.4, 0.1])
POLICIES = [
    LinMED(sigma=0.3), LinMED(sigma="unknown", norm_bound="unknown"), LinMED(design="warm", sigma=0.3),
    LinMED(ridge="learned"), LinTS(sigma=0.3), OFUL(sigma=0.3), LinUCB(alpha=0.5), Greedy(), Uniform(),
    DLinUCB(sigma=0.3), SWLinUCB(sigma=0.3), Forgetful(LinMED(sigma=0.3)), LogisticMED(), EXP2(),
    GLMMED(family="poisson", norm_bound=1.0),
]  # fmt: skip


def taught(policy, rounds=60, seed=3):
    agent, rng = Agent(policy, dim=3, seed=seed), np.random.default_rng(seed)
    for _ in range(rounds):
        decision = agent.decide(ARMS)
        mean = ARMS[decision.arm] @ THETA
        if getattr(policy, "family", None) == "poisson":
            reward = float(rng.poisson(mean))
        elif isinstance(policy, LogisticMED):
            reward = float(rng.random() < mean)
        else:
            reward = mean + 0.3 * rng.normal()
        agent.learn(decision, reward)
    return agent


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_every_policy_is_explained_and_no_bit_of_the_agent_changes(policy, tmp_path):
    agent, twin = taught(policy), taught(policy)
    agent._run = twin._run  # what ids begin with is drawn by nobody's seed
    twin.save(tmp_path / "before")
    explained = agent.explain(ARMS)
    assert explained.probabilities.tobytes() == agent.probabilities(ARMS).tobytes()
    assert explained.arm == explained.probabilities.argmax()
    assert len(str(explained).splitlines()) < 15
    assert "\n" not in repr(explained)
    assert "<table" in explained._repr_html_()
    axes = Figure().add_subplot()
    assert explained.plot(axes) is axes
    agent.save(tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()
    assert agent.decide(ARMS).arm == twin.decide(ARMS).arm
    if isinstance(policy, EXP2):
        assert explained.outlook is explained.best is None
        assert "probabilities only" in str(explained)
        return
    mean = agent.mean(ARMS)
    for ours, theirs in zip(explained.outlook[1:4], mean, strict=True):
        assert ours.tobytes() == theirs.tobytes()
    for i in range(len(ARMS)):
        total = math.fsum(one.amount for one in explained.contributions(i))
        if isinstance(policy, GLMMED):
            total = policy.mean(np.array(total))
        assert total == pytest.approx(mean.mean[i], abs=1e-12)


@pytest.mark.parametrize("policy", [LinMED(sigma=0.3, delta=0.05), LogisticMED(delta=0.05)])
def test_gains_are_those_of_the_verdict(policy):
    agent = taught(policy)
    explained, verdict = agent.explain(ARMS), agent.verdict(ARMS, delta=0.05)
    assert explained.best == verdict.best
    for i in range(len(ARMS)):
        gain = -verdict.difference(verdict.best, i).lower if i != verdict.best else 0.0
        if isinstance(policy, LogisticMED):  # in rates, from the best arm's own
            z = verdict.estimates[verdict.best] + agent.state.intercept[0]
            gain = policy.mean(np.array(z + gain)) - policy.mean(np.array(z))
        assert explained.outlook.gains[i] == pytest.approx(gain, abs=1e-12)
    possible = {i for i in range(len(ARMS)) if explained.outlook.gains[i] > 0.0} | {verdict.best}
    assert possible >= set(verdict.candidates)


@pytest.mark.parametrize("around", [Disjoint(LinMED(sigma=0.3, delta=0.05)), "hybrid"])
def test_models_of_items_are_explained_by_the_names_of_a_map(around):
    table = [{"item_id": f"s-{i}", "price": float(i)} for i in range(4)]
    shoes = Catalogue.from_table(table)
    context = [Category("device", ["phone", "desk"])]
    if around == "hybrid":
        size = Agent(LinMED(), catalogue=shoes, context=context).dim
        around = Hybrid(LinMED(sigma=0.3, delta=0.05), shared=size)
    agent, rng = Agent(around, catalogue=shoes, context=context, seed=1), np.random.default_rng(1)
    for t in range(80):
        decision = agent.decide(context={"device": ("phone", "desk")[t % 2]})
        agent.learn(decision, 0.3 * int(decision.item[2:]) + 0.3 * rng.normal())
    here = {"device": "phone"}
    explained = agent.explain(context=here)
    assert explained.names == ("s-0", "s-1", "s-2", "s-3")
    mean = agent.mean(context=here)
    for i in range(4):
        causes = explained.contributions(i)
        assert math.fsum(one.amount for one in causes) == pytest.approx(mean.mean[i], abs=1e-12)
        assert not {one.feature for one in causes} - set(agent._decider.encoder.names)
    assert any("device=phone" in one.feature for one in explained.contributions("s-3"))
    # The differences are those of the same arms with a coordinate for each.
    verdict = agent.verdict(agent.arms(here), delta=0.05)
    gains = [-verdict.difference(verdict.best, i).lower for i in range(4)]
    gains[verdict.best] = 0.0
    np.testing.assert_allclose(explained.outlook.gains, gains, atol=1e-10)
    asked = agent.explain(context=here, items=["s-2", "s-1"], arm="s-1")
    assert (asked.names, asked.arm) == (("s-2", "s-1"), 1)
    assert str(asked).startswith("s-1 would be played")


def test_a_catalogue_by_route_is_explained_with_the_probabilities_of_all_items():
    items = Catalogue.from_table([{"item_id": i, "price": 0.01 * i} for i in range(300)])
    agent = Agent(CatalogueMED(sigma=0.3), catalogue=items, seed=1)
    for _ in range(20):
        agent.learn(agent.decide(), 0.5)
    explained = agent.explain(arm=agent.decide(), top=5)
    assert explained.probabilities.tobytes() == agent.probabilities().tobytes()
    assert len(explained.table()) == 5
    assert "295 more arms" in str(explained)


def test_what_the_intervals_are_worth_is_said():
    def words(policy):
        return taught(policy, 5).explain(ARMS).assurance

    proved = words(LinMED(sigma=0.3, delta=0.05))
    assert (proved.confidence, proved.doubt) == (0.95, None)
    assert "95 % confidence" in proved.words
    assert "sigma=0.3" in proved.words
    assert words(LinMED(sigma=0.3)).confidence == 1 - 1 / 6
    assert "without proof" in words(LogisticMED()).words
    assert "without proof" in words(LinMED(ridge="learned")).words
    for policy in (LinUCB(alpha=0.5), Forgetful(LinMED()), DLinUCB(), EXP2()):
        assert words(policy).confidence is None
        assert words(policy).doubt is not None
    assert "same at every δ" in words(LinUCB(alpha=0.5)).words
    assert "standard errors" in str(taught(LinTS(sigma=0.3)).explain(ARMS))


def test_before_any_reward_everything_is_possible():
    explained = Agent(LinMED(norm_bound="unknown", sigma="unknown"), dim=3, seed=0).explain(ARMS)
    assert "by any amount" in str(explained)
    assert np.isinf(explained.outlook.gains[1:]).all()
    explained.plot(Figure().add_subplot())


def test_one_arm_and_two_arms_have_their_sentence():
    agent = taught(Pinpoint(sigma=0.3), 2000)
    assert "the only one" in str(agent.explain(ARMS[:1]))
    assert "surely worse" in agent.explain(ARMS[[0, 2]]).sentence()
    assert ", and is surely worse, by" in agent.explain(ARMS[[0, 2]], arm=1).sentence()


def test_names_are_escaped_and_checked():
    agent = taught(LinMED(sigma=0.3))
    names = ["<script>alert(1)</script>", "b & c", "$x$", 'd"', "e"]
    explained = agent.explain(ARMS, names=names, features=["<i>", "y", "z"], arm="b & c")
    page = explained._repr_html_()
    assert explained.arm == 1
    assert "<script>" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;" in page
    figure = Figure()
    explained.plot(figure.add_subplot())
    figure.canvas.draw()  # no mathematics is read into a name
    for bad in (
        {"names": ["a"]}, {"names": "abcde"}, {"features": ["a"]}, {"arm": 5}, {"arm": "f"}, {"arm": -1},
        {"top": 0}, {"context": {"x": 1}},
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError)) as raised:
            agent.explain(ARMS, **bad)
        assert raised.value.field in bad
    with pytest.raises(TypeError, match="ax must be"):
        explained.plot("nowhere")


def test_of_many_arms_the_likeliest_are_shown_and_the_one_that_was_asked_for():
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(50, 3))
    explained = taught(LinMED(sigma=0.3)).explain(arms, top=4, arm=7)
    assert len(explained.order) == 4
    assert 7 in explained.order
    others = [i for i in explained.order if i != 7]
    assert explained.probabilities[others].min() >= np.sort(explained.probabilities)[-4]
    axes = explained.plot(Figure().add_subplot())
    assert len(axes.get_yticklabels()) == 4
    assert "46 more arms" in axes.get_title(loc="left")


def test_an_agent_says_in_a_line_what_it_is():
    assert repr(taught(LinMED(sigma=0.3), 2)) == "Agent(LinMED-90 (sigma=0.3), dim=3, count=2)"
    assert isinstance(taught(LinMED(), 2).explain(ARMS), Explanation)
