"""An agent with a catalogue: contexts go in, ids come out, and the arms are those of the map."""

import copy
import math
import threading

import numpy as np
import pandas as pd
import polars as pl
import pytest

from linmed import Agent, Disjoint, Forgetful, Hybrid, LinMED, LinTS, LogisticMED
from linmed.features import Catalogue, Category, Features, Number
from linmed.log import DecisionLog, LogWriter
from linmed.ope import evaluate
from linmed.validation import BadType, BadValue

SHOES = [
    {"item_id": "a", "price": 1.0, "kind": "x"},
    {"item_id": "b", "price": 2.0, "kind": "y"},
    {"item_id": "c", "price": 4.0, "kind": "x"},
]
DEVICE = Category("device", ["phone", "desk"])
PHONE = {"device": "phone"}
PRICES = {"a": 10.0, "b": 20.0, "c": 30.0}


def made(policy=None, context=(DEVICE,), **options):
    return Agent(
        policy or LinMED(), catalogue=Catalogue.from_table(SHOES), context=context, seed=5, **options
    )


def test_decisions_are_those_of_the_map_and_carry_ids():
    agent, plain = made(), Agent(LinMED(), made().dim, seed=5)
    map = agent.features
    for device in ("phone", "desk", "tv", None) * 5:
        context = {"device": device}
        arms = map.arms(SHOES, context)
        decision, other = agent.decide(context=context), plain.decide(arms)
        assert decision.item == agent.items[decision.arm] == "abc"[decision.arm]
        assert (decision.arm, decision.log_probability) == (other.arm, other.log_probability)
        assert decision.features.tobytes() == other.features.tobytes()
        assert agent.arms(context).tobytes() == arms.tobytes()
        for one in (agent, plain):
            one.learn(decision if one is agent else other, 0.5)
        assert agent.probabilities(context=context).tobytes() == plain.probabilities(arms).tobytes()
        assert agent.mean(context=context).upper.tobytes() == plain.mean(arms).upper.tobytes()
        assert agent.probability_of("b", context) == plain.probabilities(arms)[1]
    assert repr(decision).count(f"item={decision.item!r}") == 1
    assert other.item is None


def test_candidates_restrict_the_choice():
    agent = made()
    assert {agent.decide(context=PHONE, items=["c", "b"]).item for _ in range(200)} == {"b", "c"}
    some = agent.probabilities(context=PHONE, items=["c", "b"])
    assert some.shape == (2,)
    assert some.tolist() == agent.probabilities(agent.arms(PHONE)[[2, 1]]).tolist()
    for wrong, message in ((["z"], "'z', which is not"), ([], "empty"), (["a", "a"], "twice")):
        with pytest.raises(BadValue, match=message):
            agent.decide(context=PHONE, items=wrong)
    with pytest.raises(BadType, match="items must be a list of ids, got 'a'"):
        agent.decide(context=PHONE, items="a")
    with pytest.raises(BadValue, match="item 'z' is not in the catalogue"):
        agent.probability_of("z", PHONE)


def test_items_come_and_go_and_late_rewards_count():
    agent = made()
    early = [agent.decide(context=PHONE, items=["a"]) for _ in range(3)]
    agent.catalogue.remove("a")
    agent.catalogue.add({"item_id": "d", "price": 3.0, "kind": "y"})
    assert agent.items == ("b", "c", "d")
    assert {agent.decide(context=PHONE).item for _ in range(60)} == {"b", "c", "d"}
    for decision in early:
        agent.learn(decision.id, 1.0)
    assert agent.count == 3
    other = Agent(LinMED(), agent.dim)
    other.observe(np.array([decision.features for decision in early]), np.ones(3))
    np.testing.assert_allclose(agent.theta, other.theta, rtol=1e-12, atol=1e-15)
    agent.catalogue.remove(["b", "c", "d"])
    with pytest.raises(BadValue, match="catalogue is empty: no item can be played"):
        agent.decide(context=PHONE)


def test_a_new_item_is_as_good_as_the_features_it_shares():
    map = Features(item=[Number("price", scale=None), Category("item_id", ["a", "b", "c", "d"])])
    agent = Agent(LinMED(), catalogue=Catalogue.from_table(SHOES, features=map), seed=0)
    agent.observe(agent.arms(items=["a", "b", "c"]).repeat(200, 0), np.repeat([1.0, 2.0, 4.0], 200))
    agent.catalogue.add([{"item_id": "d", "price": 3.0}, {"item_id": "new", "price": 3.0}])
    mean = agent.mean()
    # By the price alone, as if it had no feature of its own ("new" has none), of which nothing is known.
    assert mean.mean[1] < mean.mean[3] < mean.mean[2]
    assert abs(mean.mean[3] - mean.mean[4]) < 1e-12
    width = mean.upper - mean.lower
    assert width[3] > width[4]
    assert width[3] > width[:3].max()
    assert agent.probabilities()[3] > 0


@pytest.mark.parametrize("policy", [LinMED(), LinTS()])
def test_a_batch_of_contexts_is_as_many_decisions(policy):
    users = pd.DataFrame({"device": ["phone", "desk", None, "phone"], "name": list("uvwx")})
    one, batch = made(policy), made(policy)
    expected = [one.decide(context=user) for user in users.to_dict("records")]
    for given in (users, pl.from_pandas(users), users.to_dict("records")):
        found = copy.copy(batch).decide_batch(contexts=given)
        assert [decision.item for decision in found] == [decision.item for decision in expected]
        assert [d.log_probability for d in found] == [d.log_probability for d in expected]
    with pytest.raises(BadValue, match="contexts has no column 'device'"):
        batch.decide_batch(contexts=users[["name"]])
    with pytest.raises(BadType, match="contexts needs a catalogue"):
        Agent(LinMED(), 2).decide_batch(contexts=users)


def test_a_scale_is_learned_from_the_first_contexts_and_then_never_changes():
    agent = made(context=[Number("age", settle_after=4), DEVICE])
    assert agent.features.unknown == ("the scale of 'age'",)
    for age in (20, None, 40, math.nan, 60):
        decision = agent.decide(context={"age": age, **PHONE})
        assert agent.features.names[0] == "price×age"
        assert decision.features[0] == 0.0
    agent.probabilities(context={"age": 1000})  # asking is no decision
    with pytest.raises(BadType, match=r"context\['age'\] must be a number, got 'old'"):
        agent.decide(context={"age": "old"})
    agent.decide(context={"age": 80})
    assert agent.features.context[0].scale == (50.0, math.sqrt(500))
    assert agent.features.unknown == ()
    place = agent.features.names.index("age")
    for _ in range(10):
        assert agent.decide(context={"age": 50 + math.sqrt(500)}).features[place] == pytest.approx(1)
    assert agent.features.context[0].scale == (50.0, math.sqrt(500))


def test_a_batch_learns_a_scale_as_decisions_one_by_one_do():
    one, batch = (made(context=[Number("age", settle_after=3)]) for _ in range(2))
    ages = {"age": [30.0, 40.0, 50.0, 60.0, 35.0]}
    expected = [one.decide(context={"age": age}) for age in ages["age"]]
    found = batch.decide_batch(contexts=ages)
    assert [d.features.tobytes() for d in found] == [d.features.tobytes() for d in expected]
    assert batch.features == one.features


@pytest.mark.parametrize("decided", [2, 7])
def test_a_saved_agent_continues_exactly(tmp_path, decided):
    agent = made(context=[Number("age", settle_after=5), DEVICE])
    agent.catalogue.change({"item_id": "b", "price": 9.0, "kind": "x"})
    agent.catalogue.remove("a")
    kept = [agent.decide(context={"age": 30 + i, **PHONE}) for i in range(decided)]
    agent.learn(kept[0], 1.0)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    assert again.features == agent.features
    assert again.items == agent.items == ("c", "b")
    assert (again.catalogue.version, again.catalogue.ids) == (2, ("a", "b", "c", "b"))
    assert again.catalogue.matrix.tobytes() == agent.catalogue.matrix.tobytes()
    for one in (agent, again):
        one.catalogue.add({"item_id": 17, "price": 3.0})
    for i in range(10):
        context = {"age": 20 + 3 * i, "device": "desk"}
        left, right = agent.decide(context=context), again.decide(context=context)
        assert (left.item, left.log_probability) == (right.item, right.log_probability)
        assert left.features.tobytes() == right.features.tobytes()
        for one in (agent, again):
            one.learn((left if one is agent else right).id, 0.1 * i)
    assert agent.theta.tobytes() == again.theta.tobytes()
    assert agent.features == again.features


def test_copies_go_their_own_ways():
    agent = made()
    other = copy.deepcopy(agent)
    other.catalogue.remove("a")
    assert (agent.items, other.items) == (("a", "b", "c"), ("b", "c"))


def test_a_damaged_catalogue_is_noticed(tmp_path):
    made().save(tmp_path / "agent")
    with np.load(tmp_path / "agent") as file:
        arrays = dict(file)
    for change in ({"catalogue_live": np.ones(2, bool)}, {"catalogue_matrix": np.ones((3, 1))}):
        with open(tmp_path / "agent", "wb") as file:
            np.savez(file, **{**arrays, **change})
        with pytest.raises(ValueError, match=r"live must be|matrix must have"):
            Agent.load(tmp_path / "agent")


def test_the_log_has_ids_and_says_what_its_features_are(tmp_path):
    with made(context=[Number("age", settle_after=3)], log=tmp_path / "log") as agent:
        decisions = [agent.decide(context={"age": age}) for age in (30, 40, 50, 60)]
        agent.learn(decisions[1], 1.0)
    log = DecisionLog.open(tmp_path / "log")
    assert log.table()["arm_id"].to_pylist() == [decision.item for decision in decisions]
    contexts = log.table()["context"].to_pylist()
    assert contexts[:3] == [[0.0]] * 3  # its scale was not known yet
    assert contexts[3] == agent.features.encode_context({"age": 60}).tolist()
    assert Features.from_dict(log.features) == agent.features
    assert log[1:].where(arm=0).features == log.features
    assert log.save(tmp_path / "copy").features == log.features
    with Agent(LinMED(), 2, log=tmp_path / "plain") as other:
        other.decide(np.eye(2))
    assert DecisionLog.open(tmp_path / "plain").features is None
    assert DecisionLog.open(tmp_path / "plain").table()["context"].to_pylist() == [None]
    # A log with a map goes on in files of its own, with or without one.
    with LogWriter(tmp_path / "log") as writer:
        writer.record("later", arm=0, arm_count=2, log_probability=math.log(0.5))
    assert len(DecisionLog.open(tmp_path / "log")) == 5


def test_whole_numbers_are_ids_too(tmp_path):
    table = pd.DataFrame({"item_id": [7, 8], "price": [1, 2]})
    with Agent(LinMED(), catalogue=Catalogue.from_table(table), seed=0, log=tmp_path / "log") as agent:
        decision = agent.decide(items=[np.int64(8)])
        assert decision.item == 8
        assert type(decision.item) is int
        assert agent.decide(items=["7"]).item == 7
    assert DecisionLog.open(tmp_path / "log").table()["arm_id"].to_pylist() == ["8", "7"]


def test_a_map_of_ones_own():
    map = Features([DEVICE], [Number("price"), Category("kind")], [("device", "kind")])
    catalogue = Catalogue.from_table(SHOES, features=map)
    for agent in (
        Agent(LinMED(), catalogue=catalogue),
        Agent(LinMED(), catalogue=catalogue, features=map),
        Agent(LinMED(), catalogue=catalogue, features=catalogue.features, dim=10),
    ):
        assert agent.features == catalogue.features
        assert agent.dim == 10
    with pytest.raises(
        BadValue, match=r"features\.item must be the columns with which the catalogue was made"
    ):
        Agent(LinMED(), catalogue=catalogue, features=Features(item=[Number("price")]))
    scaled = Features([DEVICE], [Number("price", scale=(0, 1)), Category("kind")])
    with pytest.raises(BadValue, match=r"features\.item must be"):
        Agent(LinMED(), catalogue=catalogue, features=scaled)


def test_an_agent_is_judged_by_the_arms_that_the_log_has(tmp_path):
    candidate = made()
    with made(log=tmp_path / "log") as agent:
        for i in range(40):
            agent.learn(agent.decide(context=PHONE), float(i % 2))
    log = DecisionLog.open(tmp_path / "log")
    found, frozen = (
        evaluate(log, {"it": target}, estimators=["ipw"]).to_pylist()
        for target in (candidate, (candidate.policy, candidate.state))
    )
    assert found == frozen


def test_wrong_use_is_told():
    catalogue = Catalogue.from_table(SHOES)
    for arguments, message in [
        ({"catalogue": SHOES}, "catalogue must be a linmed.features.Catalogue"),
        ({"features": catalogue.features}, "features needs a catalogue"),
        ({"context": [DEVICE]}, "context needs a catalogue"),
        ({"catalogue": catalogue, "features": "outer"}, "features must be"),
        (
            {"catalogue": catalogue, "features": catalogue.features, "context": [DEVICE]},
            "context must be None",
        ),
        ({"catalogue": catalogue, "dim": 3}, "dim must be that of the map, 4"),
        ({"catalogue": catalogue, "context": [Category("city")]}, "categories of 'city' are not known"),
        ({"catalogue": catalogue, "context": ["city"]}, "got 'city' in it; write"),
        ({}, "dim must be given"),
    ]:
        with pytest.raises((BadValue, BadType), match=message):
            Agent(LinMED(), **arguments)
    agent = made()
    with pytest.raises(BadValue, match="context must be given: the map reads 'device' of it"):
        agent.decide()
    with pytest.raises(BadValue, match="context must be None where arms are given"):
        agent.decide(np.ones((2, agent.dim)), context=PHONE)
    with pytest.raises(BadValue, match="none of the fields 'device'; it has 'Device'"):
        agent.decide(context={"Device": "phone"})
    with pytest.raises(BadType, match="a context is told by name"):
        agent.decide(PHONE)
    with pytest.raises(BadType, match="arms must be given: this agent was made without"):
        Agent(LinMED(), 2).decide()
    with pytest.raises(BadType, match="context needs a catalogue"):
        Agent(LinMED(), 2).decide(context=PHONE)
    assert agent.pending == ()


def test_threads_decide_while_items_come_and_go():
    agent = made(context=[Number("age", settle_after=50)])
    errors, decisions = [], []

    def decide(start):
        try:
            for i in range(100):
                decision = agent.decide(context={"age": start + i})
                decisions.append(decision)
                agent.learn(decision, 0.5)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=decide, args=(20 * k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for i in range(60):
        agent.catalogue.add({"item_id": f"n{i}", "price": float(i), "kind": "y"})
        agent.catalogue.remove(f"n{i}")
    for thread in threads:
        thread.join()
    assert errors == []
    assert agent.count == 300
    assert len({decision.id for decision in decisions}) == 300
    assert agent.features.unknown == ()


@pytest.mark.parametrize("ask", [lambda agent: agent.items, lambda agent: agent.decide_batch(contexts=[{}])])
def test_who_reads_the_catalogue_takes_turns_with_who_decides(ask):
    """Both keep what they made of it: one in the middle of the other would find items at others' places."""
    waited = []

    class Recorder:
        def record(self, *_, **__):
            if not waited:
                waited.append(threading.Thread(target=ask, args=(agent,)))
                waited[0].start()
                waited[0].join(0.2)
                waited.append(agent.catalogue.__dict__.get("asked"))

        def reward(self, *_): ...

        def flush(self): ...

    class Asked(Catalogue):
        def snapshot(self):
            if threading.current_thread() is not threading.main_thread():
                self.asked = True
            return super().snapshot()

    catalogue = Asked(["a", "b"], np.eye(2))
    agent = Agent(LinMED(), catalogue=catalogue, context=[], seed=0, log=Recorder())
    agent.decide(context={})
    waited[0].join()
    assert waited[1] is None
    assert catalogue.asked


def per_item(policy, catalogue):
    return Agent(policy, catalogue=catalogue, context=[Category("device", ["phone", "desk"])], seed=3)


def test_a_model_for_every_item_of_a_catalogue_is_the_block_model():
    catalogue = Catalogue.from_table([{"item_id": name, "price": price} for name, price in PRICES.items()])
    agent, block = per_item(Disjoint(LinMED(sigma=0.5)), catalogue), Agent(LinMED(sigma=0.5), dim=9, seed=3)
    rng = np.random.default_rng(0)
    for turn in range(60):
        x = np.array([turn % 2 == 0, turn % 2 == 1, 1.0])
        decision = agent.decide(context={"device": ["phone", "desk"][turn % 2]})
        same = block.decide(np.kron(np.eye(3), x))
        assert same.arm == decision.arm
        np.testing.assert_allclose(decision.log_probabilities, same.log_probabilities, atol=1e-10)
        reward = rng.random()
        agent.learn(decision, reward)
        block.learn(same, reward)


@pytest.mark.parametrize(
    "policy",
    [
        Disjoint(LinMED(sigma=0.5)),
        Hybrid(LinMED(sigma=0.5), shared=6),
        Disjoint(LogisticMED()),
        Hybrid(Forgetful(LinMED(sigma="unknown", ridge="learned")), shared=6),
        Disjoint(Forgetful(LogisticMED(), half_lives=(100, 20))),
    ],
    ids=lambda policy: policy.name,
)
def test_an_item_that_changes_or_comes_back_keeps_its_model(policy, tmp_path):
    catalogue = Catalogue.from_table([{"item_id": name, "price": price} for name, price in PRICES.items()])
    agent = per_item(policy, catalogue)
    for _ in range(40):
        decision = agent.decide(context={"device": "phone"})
        agent.learn(decision, 1.0 if decision.item == "b" else 0.0)
    numbers = agent.arms({"device": "phone"})[:, 0]
    assert numbers.tolist() == [0.0, 1.0, 2.0]
    catalogue.change({"item_id": "a", "price": 11.0})
    catalogue.remove("b")
    catalogue.add([{"item_id": "d", "price": 15.0}, {"item_id": "b", "price": 20.0}])
    assert dict(zip(agent.items, agent.arms({"device": "phone"})[:, 0], strict=True)) == {
        "c": 2.0, "a": 0.0, "d": 4.0, "b": 1.0,
    }  # fmt: skip
    mean = dict(zip(agent.items, agent.mean(context={"device": "phone"}).mean, strict=True))
    assert max(mean, key=mean.get) == "b"
    agent.save(tmp_path / "agent.npz")
    again = Agent.load(tmp_path / "agent.npz")
    for _ in range(20):
        one, other = agent.decide(context={"device": "desk"}), again.decide(context={"device": "desk"})
        assert (one.item, one.log_probability) == (other.item, other.log_probability)
        agent.learn(one, 0.5)
        again.learn(other, 0.5)


def test_hybrid_must_share_what_the_map_makes():
    catalogue = Catalogue.from_table([{"item_id": "a", "price": 1.0}, {"item_id": "b", "price": 2.0}])
    with pytest.raises(ValueError, match=r"policy must be Hybrid\(…, shared=6\).* got shared=2"):
        per_item(Hybrid(LinMED(), shared=2), catalogue)
