"""Targets that are items by their ids: one, a few, or whatever somebody says of each."""

import json
import re

import numpy as np
import pytest

from linmed import Agent, LinMED
from linmed.cli import main
from linmed.features import Catalogue
from linmed.log import LogWriter
from linmed.ope import DecisionLog, OPEWarning, diagnose, difference, evaluate, sequence
from linmed.ope.targets import as_target, as_targets
from linmed.validation import BadValue
from tests.blame import blames
from tests.ope.catalogues import columns, routed

pytestmark = pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")


def named(n=400, seed=0, **more):
    """A log of three named arms, drawn with probabilities that differ from row to row; no catalogue's."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3), n) * 0.7 + 0.1
    arm = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=2)
    rows = {
        "arm": arm,
        "arm_id": np.array(["blue", "green", "red"])[arm],
        "arm_count": np.full(n, 3),
        "probability": p[np.arange(n), arm],
        "reward": (rng.random(n) < 0.2 + 0.2 * arm).astype(float),
    }
    return DecisionLog.from_table({**rows, **more})


def estimate(log, target, estimator="ipw"):
    return evaluate(log, target, estimator, "none")["estimate"][0].as_py()


def test_an_item_is_its_arm_where_each_arm_has_one_id():
    log = named()
    for estimator in ("ipw", "snipw", "dr"):
        assert estimate(log, "item:green", estimator) == estimate(log, "arm:1", estimator)
    table = evaluate(log, "item:green")
    assert table["estimator"].to_pylist() == ["ipw", "snipw", "dr"]
    assert table["target"].to_pylist() == ["item:green"] * 3
    both = difference(log, "item:green", "arm:1", interval="betting").to_pylist()[0]
    assert (both["estimate"], both["lower"], both["upper"]) == (0.0, 0.0, 0.0)


def test_an_item_of_a_catalogue_is_known_where_it_was_played():
    log = routed(3_000, seed=1)
    assert estimate(log, "item:item-3") == pytest.approx(estimate(log, "arm:3"), abs=1e-15)
    assert evaluate(log, "item:item-3", interval="none")["estimator"].to_pylist() == ["ipw", "snipw"]


def test_a_few_items_are_one_target():
    log = routed(3_000, seed=2)
    law = {"item-0": 0.25, "item-4": 0.75}
    mixed = 0.25 * estimate(log, "item:item-0") + 0.75 * estimate(log, "item:item-4")
    assert estimate(log, law) == pytest.approx(mixed, abs=1e-12)
    assert [target.name for target in as_targets(law)] == ["2 items"]
    table = evaluate(log, {"mine": law, "first": "item:item-0", "arm": 4}, "ipw", "none")
    assert table["target"].to_pylist() == ["mine", "first", "arm"]
    assert table["estimate"][0].as_py() == pytest.approx(mixed, abs=1e-12)
    green = named()
    direct = 0.5 * estimate(green, "arm:0", "dr") + 0.5 * estimate(green, "arm:2", "dr")
    assert estimate(green, {"blue": 0.5, "red": 0.5}, "dr") == pytest.approx(direct, abs=1e-12)


def test_whole_numbers_are_arms_and_others_are_probabilities():
    assert [type(one).__name__ for one in as_targets({"a": 1, "b": 2})] == ["ArmTarget", "ArmTarget"]
    assert [type(one).__name__ for one in as_targets({"a": 1.0})] == ["ItemsTarget"]
    assert as_target({17: 1.0}).name == "item:17"


@pytest.mark.parametrize(
    ("law", "said"),
    [
        ({"a": 0.5, "b": 0.4}, "must sum to one, not to 0.9"),
        ({"a": 1.5, "b": -0.5}, r"item 'a' must lie in \[0, 1\], got 1.5"),
        ({"a": float("nan")}, "must lie in"),
        ({"a": "all"}, "got 'all'"),
        ({1: 0.5, "1": 0.5}, "ids must differ"),
        ({}, "must sum to one, not to 0"),
    ],
)
def test_what_is_no_law_is_refused(law, said):
    with blames("targets", said):
        as_target(law)


def test_an_unknown_id_is_an_error_that_names_some():
    said = r"'item:item-9': no decision of table played .*; it has ('item-\d', ){4}'item-\d', …"
    with blames("targets", said):
        evaluate(routed(200, seed=3), "item:item-9", "ipw")
    with pytest.raises(BadValue, match=r"it has '(blue|green|red)', '(blue|green|red)', '(blue|green|red)' "):
        diagnose(named(), "item:violet")
    with pytest.raises(BadValue, match="needs the column 'arm_id'"):
        evaluate(DecisionLog.from_table({"arm": [0], "probability": [1.0], "reward": [1.0]}), "item:a", "ipw")
    with pytest.raises(BadValue, match=r"target must be 'uniform', .*'item:ID'"):
        evaluate(named(), "item:", "ipw")


def test_items_that_were_never_played_are_a_doubt():
    log = routed(3_000, seed=4)
    with pytest.warns(OPEWarning, match="'mine': 0.3 of its probability lies on .* such as 'item-9'"):
        evaluate(log, {"mine": {"item-1": 0.7, "item-9": 0.3}}, "ipw")
    assert any("never played" in said for said in diagnose(log, {"item-1": 0.7, "item-9": 0.3}).warnings)


def test_an_id_at_two_places_of_a_decision_is_named_where_weights_show_it():
    rows = columns(3_000, 5)
    rows["arm_id"] = ["item-1" if name == "item-2" else name for name in rows["arm_id"]]
    said = (
        r"mean weight is (1\.9|2)\S* where .* one id stands at several places .*\('item-1' at 1, 2\), and no"
    )
    with pytest.warns(OPEWarning, match=said):
        evaluate(DecisionLog.from_table(rows), "item:item-1", "ipw")
    twice = named(arm_id=np.array(["blue", "green", "green"])[np.asarray(named().table()["arm"])])
    with pytest.warns(OPEWarning, match=r"one id stands at several places of a decision \('green' at 1, 2\)"):
        evaluate(twice, "item:green")


def test_an_item_that_was_not_always_on_offer_is_said_to_be_so():
    """On offer in 60 % of the decisions, at either of two places: no probability is wrong."""
    rng = np.random.default_rng(8)
    n = 3_000
    offered, place, arm = rng.random(n) < 0.6, rng.integers(2, size=n), rng.integers(2, size=n)
    rows = {
        "arm": arm, "arm_id": np.where(offered & (arm == place), "sale", "else"), "arm_count": np.full(n, 2),
        "probability": np.full(n, 0.5), "reward": (rng.random(n) < 0.5).astype(float),
    }  # fmt: skip
    with pytest.warns(OPEWarning) as caught:
        table = evaluate(DecisionLog.from_table(rows), "item:sale")
    (said,) = (str(one.message) for one in caught)
    assert re.search(
        r"the item was not on offer in about (3[6-9]|4[0-4])% of the decisions \(ipw counts", said
    )
    ipw, snipw = table.to_pylist()
    assert (ipw["estimate"], snipw["estimate"]) == pytest.approx((0.3, 0.5), abs=0.03)
    assert ipw["lower"] < 0.3 < 0.7 < ipw["upper"]  # whatever the others would have earned


def test_an_id_that_is_missing_is_named():
    names = [None if i == 7 else "blue" for i in range(400)]
    with pytest.raises(BadValue, match=r"arm_id must be given in every row.*: row 7 has none"):
        evaluate(named(arm_id=names), "item:blue", "ipw")


def shuffled(n=3_000, seed=6, **more):
    """The same three items, in an order that changes: an arm's number says nothing."""
    rng = np.random.default_rng(seed)
    order = rng.permuted(np.tile(np.arange(3), (n, 1)), axis=1)
    place = rng.integers(3, size=n)
    item = order[np.arange(n), place]
    rows = {
        "arm": place,
        "arm_id": np.array(["blue", "green", "red"])[item],
        "arm_count": np.full(n, 3),
        "probability": np.full(n, 1 / 3),
        "reward": (rng.random(n) < np.array([0.3, 0.9, 0.3])[item]).astype(float),
    }
    return DecisionLog.from_table(rows | more)


def test_what_a_log_of_changing_ids_cannot_have_is_refused_or_said(tmp_path, capsys):
    full = shuffled(probabilities=[[1 / 3] * 3] * 3_000, arms=[[[0.0], [1.0], [2.0]]] * 3_000)
    assert evaluate(full, ["item:green", "uniform"])["estimator"].to_pylist() == ["ipw", "snipw"] * 2
    with blames(
        "targets", r"'item:green' tells the probability of the item that was played, not of every arm"
    ):
        evaluate(full, "item:green", "dr", "none")
    with blames("estimator", r"every arm's probability.*use estimator='ipw'"):
        sequence(full, "item:green", "dr")
    shuffled(400, pi=np.full(400, 1 / 3)).save(tmp_path / "log")
    assert main(["ope", str(tmp_path / "log"), "--target", "column:pi", "--no-progress"]) == 0
    assert "note: dr is left out: target 'column:pi' does not tell" in " ".join(
        capsys.readouterr().out.split()
    )


def test_an_agent_with_a_catalogue_needs_the_arms_of_the_log_or_its_law_by_id():
    """By id it would play its own items alone, and three of the log's are none of them."""
    agent = Agent(LinMED(), catalogue=Catalogue(["item-0", "item-4"], np.eye(2)), seed=1)
    agent.observe(agent.arms()[[1] * 5], [1.0] * 5)
    law = dict(zip(agent.items, agent.probabilities().tolist(), strict=True))
    log = routed(2_000, seed=9)
    with pytest.raises(BadValue, match="needs the column 'arms'"):
        estimate(log, agent)
    rows = [row for row in log.table().to_pylist() if not row["fallback"]]
    earned = sum(law.get(row["arm_id"], 0.0) / row["probability"] * row["reward"] for row in rows) / 2_000
    assert estimate(log, {"law": law}) == pytest.approx(earned, abs=1e-12)


def test_an_agent_with_a_catalogue_is_its_policy_where_the_log_lists_the_arms(tmp_path):
    items = Catalogue(["a", "b", "c"], np.eye(3))
    with Agent(LinMED(), catalogue=items, seed=2, log=tmp_path / "log") as agent:
        for _ in range(50):
            agent.learn(agent.decide(), 0.5)
    log = DecisionLog.open(tmp_path / "log")
    target = as_target(agent).settled(log)
    frozen = evaluate(log, (agent.policy, agent.state), interval="none").to_pylist()
    asked = evaluate(log, agent, interval="none").to_pylist()
    if log.table()["arms"].null_count == 0:
        assert type(target).__name__ == "Frozen"
        assert [row["estimate"] for row in asked] == [row["estimate"] for row in frozen]
    assert abs(estimate(log, "item:a") - estimate(log, "arm:0")) < 1e-12


# The command


@pytest.fixture
def folder(tmp_path):
    with LogWriter(tmp_path / "log") as writer:
        for i, row in enumerate(routed(500, seed=10, keep=0.5).table().to_pylist()):
            chance = None if row["fallback"] else float(np.log(row["probability"]))
            writer.record(i, arm=row["arm"], arm_count=5, log_probability=chance, fallback=row["fallback"],
                          arm_id="shoes-17" if row["arm"] == 0 else row["arm_id"])  # fmt: skip
            writer.reward(i, row["reward"])
    return tmp_path / "log"


def test_the_command_takes_an_item(folder, capsys):
    asked = ["ope", str(folder), "--target", "item:shoes-17", "--target", "all=uniform", "--diff", "uniform"]
    assert main([*asked, "--no-progress", "--diagnose", "--html", str(folder.parent / "page.html")]) == 0
    said = capsys.readouterr().out
    assert "item:shoes-17" in said
    assert "of them fallbacks without a weight" in said
    assert "fallbacks without a weight" in (folder.parent / "page.html").read_text()
    assert main([*asked, "--no-progress", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    table = DecisionLog.open(folder).table()
    assert told["fallbacks"] == sum(table["fallback"].to_pylist())
    first = told["results"][0]
    assert first["target"] == "item:shoes-17"
    assert first["estimate"] == pytest.approx(estimate(DecisionLog.open(folder), "item:shoes-17"))
