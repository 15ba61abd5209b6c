"""Reward models on the log of a catalogue: by the target's items, or by items drawn for each decision."""

import json
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from linmed import Agent, CatalogueMED, cli
from linmed.features import Catalogue, Number
from linmed.log import LogWriter
from linmed.ope import DR, DecisionLog, Ridge, complete, evaluate
from linmed.validation import BadType, BadValue
from tests.features.items import add, of_rows, on_sphere

pytestmark = pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")

FEW = {"0": 0.5, "4": 0.3, "9": 0.2}


def logged(place, rounds=120, seed=0, items=12, change=True):
    """An agent that played among items that come and go, with a context, and its log in several files."""
    rng = np.random.default_rng(seed)
    catalogue = of_rows(on_sphere(np.random.default_rng(1), items, 3))
    writer = LogWriter(place, flush_rows=50)
    policy = CatalogueMED(sigma=0.1, alpha_emp=0.4)
    agent = Agent(policy, catalogue=catalogue, context=[Number("age", scale=(0, 1))], seed=seed, log=writer)
    for t in range(rounds):
        if change and t == rounds // 2:
            catalogue.remove(9)
            add(catalogue, on_sphere(rng, 2, 3))
        decision = agent.decide(context={"age": rng.standard_normal()})
        agent.learn(decision, float(rng.random() < 0.5 + 0.4 * catalogue.matrix[decision.arm, 0]))
    writer.close()
    return DecisionLog.open(place), agent


def by_hand(log, agent, target, penalty=1.0):
    """The terms of DR with every item's arm, from the definition."""
    d = agent.dim + 1
    V, b, terms = penalty * np.eye(d), np.zeros(d), []
    for row in log.table().to_pylist():
        items = agent.catalogue.at(row["catalogue_version"])
        arms = agent.features.products.join(np.asarray(items.matrix, dtype=float), np.array(row["context"]))
        model = np.column_stack([arms, np.ones(len(arms))]) @ np.linalg.solve(V, b)
        if target == "uniform":
            law = items.live / items.count
        else:
            law = np.array([target.get(str(name), 0.0) for name in items.ids[: len(arms)]]) * items.live
        weight = 0.0 if row["fallback"] else law[row["arm"]] / row["probability"]
        terms.append(law @ model + weight * (row["reward"] - model[row["arm"]]))
        x = np.append(row["features"], 1.0)
        V, b = V + np.outer(x, x), b + row["reward"] * x
    return np.array(terms)


def estimate(log, target, agent, estimator="dr", **options):
    found = evaluate(log, {"t": target}, estimator, "none", catalogue=agent, **options)
    return found["estimate"][0].as_py()


def test_a_few_items_are_all_that_a_model_is_asked_for(tmp_path):
    """An item that was taken out has no share from then on, and the rest is as the definition says."""
    log, agent = logged(tmp_path / "log")
    terms = by_hand(log, agent, FEW)
    assert estimate(log, FEW, agent) == pytest.approx(terms.mean(), rel=1e-9)
    assert estimate(log, FEW, agent, "dm") != estimate(log, FEW, agent, "ipw")
    since = evaluate(log, {"t": FEW}, "dr", "none", catalogue=agent, since=60)["estimate"][0].as_py()
    assert since == pytest.approx(terms[60:].mean(), rel=1e-9)


def test_drawn_items_have_the_mean_of_all(tmp_path):
    """12 seeds on one log: their mean is that with all items; |z| > 4.5 has probability 7e-6."""
    log, agent = logged(tmp_path / "log")
    truth = by_hand(log, agent, "uniform").mean()
    found = np.array([estimate(log, "uniform", agent, seed=seed) for seed in range(12)])
    assert found.std() > 0.0
    assert abs(found.mean() - truth) < 4.5 * found.std(ddof=1) / math.sqrt(12)
    assert found.std() < 0.01


def test_workers_and_batches_make_no_difference(tmp_path):
    log, agent = logged(tmp_path / "log")
    assert len(log.pieces()) > 1
    one = evaluate(log, ["uniform", FEW], ["dr", "dm"], "normal", catalogue=agent, seed=3)
    other = evaluate(log, ["uniform", FEW], ["dr", "dm"], "normal", catalogue=agent, seed=3, batch=7)
    with ThreadPoolExecutor(2) as pool:
        spread = evaluate(
            log, ["uniform", FEW], ["dr", "dm"], "normal", catalogue=agent, seed=3, executor=pool
        )
    for column in ("estimate", "lower", "upper"):
        assert spread[column].to_pylist() == one[column].to_pylist()
        np.testing.assert_allclose(other[column].to_numpy(), one[column].to_numpy(), rtol=1e-12)


def test_estimates_are_unbiased_also_with_a_model_that_is_wrong(tmp_path):
    """12 logs of 80 decisions among 8 items; |z| > 4.5 has probability 7e-6 for each of four means."""
    stiff = DR(regressor=Ridge(1e4))
    rows = 0.5 + 0.4 * on_sphere(np.random.default_rng(1), 8, 3)[:, 0]
    few = {"0": 0.5, "4": 0.3, "7": 0.2}
    value = {"uniform": rows.mean(), "few": 0.5 * rows[0] + 0.3 * rows[4] + 0.2 * rows[7]}
    errors: dict[tuple[str, str], list[float]] = {}
    for seed in range(12):
        log, agent = logged(tmp_path / str(seed), 80, seed, items=8, change=False)
        done = complete(log, agent)
        table = evaluate(
            done, {"uniform": "uniform", "few": few}, {"dr": "dr", "stiff": stiff}, "none", catalogue=agent,
            seed=seed,
        )  # fmt: skip
        for row in table.to_pylist():
            error = row["estimate"] - value[row["target"]]
            errors.setdefault((row["target"], row["estimator"]), []).append(error)
    assert len(errors) == 4
    for found in errors.values():
        assert abs(np.mean(found)) < 4.5 * np.std(found, ddof=1) / math.sqrt(len(found))


def test_what_cannot_be_answered_is_named(tmp_path):
    log, agent = logged(tmp_path / "log")
    with pytest.raises(BadValue, match=r"lists no items .* or give the catalogue"):
        evaluate(log, "uniform", "dr")
    with pytest.raises(BadValue, match="mips needs the features of every arm"):
        evaluate(log, "uniform", "mips", catalogue=agent)
    with pytest.raises(BadValue, match="target 'logged' is not known over all items"):
        evaluate(log, "logged", "dr", catalogue=agent)
    with pytest.raises(BadType, match="catalogue must be a Catalogue, or an agent with one, got dict"):
        evaluate(log, "uniform", "dr", catalogue={})
    other = of_rows(on_sphere(np.random.default_rng(5), 12, 3))
    plain = Agent(CatalogueMED(), catalogue=other, context=[Number("age", scale=(0, 1))])
    with pytest.raises(
        BadValue, match="catalogue must be that of the log: the item that was played in row 0"
    ):
        evaluate(log, "uniform", "dr", catalogue=plain)
    with pytest.raises(BadValue, match="the 4 numbers of the catalogue's map: row 0 has"):
        evaluate(log, "uniform", "dr", catalogue=other)
    early = Catalogue(range(12), on_sphere(np.random.default_rng(1), 12, 3))
    known = Agent(CatalogueMED(), catalogue=early, context=[Number("age", scale=(0, 1))])
    with pytest.raises(BadValue, match="versions 0 to 0, and row 60 was decided among version 2"):
        evaluate(log, "uniform", "dr", catalogue=known)
    arms = {"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0], "arm_count": [2, 2]}
    with pytest.raises(BadValue, match="catalogue is for logs that list no items"):
        evaluate(DecisionLog.from_table(arms), "uniform", catalogue=agent)


def test_without_a_model_nothing_changes_and_dr_is_among_the_usual(tmp_path):
    log, agent = logged(tmp_path / "log")
    plain = evaluate(log, "uniform", ["ipw", "snipw"])
    same = evaluate(log, "uniform", ["ipw", "snipw"], catalogue=agent)
    assert same.to_pylist() == plain.to_pylist()
    usual = evaluate(log, "uniform", catalogue=agent).to_pylist()
    assert [row["estimator"] for row in usual] == ["ipw", "snipw", "dr"]
    assert (usual[2]["lower"], usual[2]["upper"]) == (usual[0]["lower"], usual[0]["upper"])


def test_the_command_takes_a_saved_agent(tmp_path, capsys):
    log, agent = logged(tmp_path / "log")
    agent.save(tmp_path / "agent.npz")
    file = str(tmp_path / "agent.npz")
    words = [
        "ope",
        str(tmp_path / "log"),
        "--estimator",
        "dr",
        "--complete",
        file,
        "--catalogue",
        file,
        "--json",
    ]
    assert cli.main(words) == 0
    told = json.loads(capsys.readouterr().out)["results"]
    here = evaluate(complete(log, agent), "uniform", "dr", catalogue=agent).to_pylist()
    assert [row["estimate"] for row in told] == [row["estimate"] for row in here]
