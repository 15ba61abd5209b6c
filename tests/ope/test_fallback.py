"""Decisions without a probability in an evaluation: they count, and weigh nothing."""

import dataclasses
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from linmed import LinMED
from linmed.log import LogWriter
from linmed.ope import (
    DecisionLog,
    OPEWarning,
    Ridge,
    choose,
    diagnose,
    difference,
    evaluate,
    learn_from,
)  # fmt: skip
from linmed.ope.intervals import Played
from linmed.ope.log_facts import has_some, of_catalogue
from linmed.validation import BadValue
from tests.ope.catalogues import columns, load_study, routed

pytestmark = pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")


@pytest.fixture(scope="module")
def study():
    return load_study()


def few(**more):
    """Four decisions, the third a fallback."""
    return DecisionLog.from_table(
        {
            "arm": [0, 1, 0, 2],
            "arm_id": ["a", "b", "a", "c"],
            "arm_count": [4] * 4,
            "probability": [0.5, 0.1, None, 0.05],
            "fallback": [False, False, True, False],
            "reward": [1.0, 0.0, 1.0, 1.0],
            **more,
        }
    )


def rows(table):
    return {row["estimator"]: row for row in table.to_pylist()}


def test_a_fallback_counts_as_a_decision_without_a_weight():
    found = rows(evaluate(few(), "uniform", ["ipw", "snipw", "clipped"], interval="none"))
    weight = np.array([0.25 / 0.5, 0.25 / 0.1, 0.0, 0.25 / 0.05])
    reward = np.array([1.0, 0.0, 1.0, 1.0])
    assert found["ipw"]["estimate"] == pytest.approx((weight * reward).mean(), abs=1e-15)
    assert found["snipw"]["estimate"] == pytest.approx((weight * reward).sum() / weight.sum(), abs=1e-15)
    assert found["ipw"]["n"] == 4
    assert found["ipw"]["effective_n"] == pytest.approx(weight.sum() ** 2 / (weight**2).sum())


def test_the_policy_that_wrote_the_log_earned_what_it_earned():
    found = rows(evaluate(few(), "logged", ["ipw", "snipw"], interval="none"))
    assert found["ipw"]["estimate"] == found["snipw"]["estimate"] == 0.75
    assert found["ipw"]["effective_n"] == 4.0


def test_the_toy_of_the_routes_has_weights_of_mean_one():
    """Over all routes, each as probable as it is, the mean weight is 1 and the mean of w r is the value."""
    f = np.array([1.0, 0.99730095, 0.3753111, 0.0269843, 0.22182148])
    q = np.array([0.926666667, 0.01, 0.026666667, 0.026666667, 0.01])
    accepted = q * f
    np.testing.assert_allclose(accepted[2], 0.0100082960, rtol=1e-7)
    np.testing.assert_allclose(1.0 - accepted.sum(), 0.050414231696, rtol=1e-6)
    log = DecisionLog.from_table(
        {
            "arm": [0, 1, 2, 3, 4, 0],
            "arm_count": [5] * 6,
            "probability": [*accepted, None],
            "fallback": [False] * 5 + [True],
            "reward": [0.1, 0.2, 0.3, 0.4, 0.5, 0.1],
        }
    )
    chance = np.append(accepted, 1.0 - accepted.sum())
    for reward, value in ((np.ones(6), 1.0), (np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.1]), 0.3)):
        table = log.table().set_column(log.columns.index("reward"), "reward", pa.array(reward))
        one_by_one = [
            evaluate(DecisionLog.from_table(table.slice(i, 1)), "uniform", "ipw", "none")["estimate"][
                0
            ].as_py()
            for i in range(6)
        ]
        assert float(chance @ one_by_one) == pytest.approx(value, abs=1e-12)


def test_estimates_of_a_policy_that_learned_are_unbiased_and_intervals_hold(study):
    """50 logs of 80 decisions. z > 4.5 has a probability below 7e-6 for each of 8 means; more misses than the
    99.99 % quantile of Binomial(50, 5 %) one of 1e-4 for each of 4 targets. Weights have a long tail: where
    the largest have not come, all means are too small, and the deviation with them.
    """
    rng = np.random.default_rng(5)
    world = study.World.drawn(rng, 40, 4)
    played = study.play(world, rng, 50, 80, keep=False)
    assert 0.005 < np.isnan(played.probability).mean() < 0.2
    asked = {**world.targets(), "first": ({"item-0": 0.5, "item-1": 0.5}, world.means[:2].mean())}
    targets = {name: target for name, (target, _) in asked.items()}
    errors, weights, misses = (
        {name: [] for name in asked},
        {name: [] for name in asked},
        dict.fromkeys(asked, 0),
    )
    for i in range(50):
        log = played.log(i, 40)
        for row in evaluate(log, targets, "ipw").to_pylist():
            name, truth = row["target"], asked[row["target"]][1]
            errors[name].append(row["estimate"] - truth)
            misses[name] += not row["lower"] <= truth <= row["upper"]
            weights[name].append(diagnose(log, targets[name]).mean_weight - 1.0)
    for found in (errors, weights):
        for values in found.values():
            z = np.mean(values) / (np.std(values, ddof=1) / np.sqrt(len(values)))
            assert z < 4.5
    assert max(misses.values()) <= binom.ppf(0.9999, 50, 0.05)


def test_leaving_fallbacks_out_is_seen_by_the_weights():
    """With a quarter of fallbacks the weights of the others have the mean 4/3, ± 0.025."""
    log = routed(20_000, seed=1, keep=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OPEWarning)
        evaluate(log, "uniform", "ipw")
    with pytest.warns(OPEWarning, match=r"mean weight is 1\.[234].* no interval holds"):
        table = evaluate(log.where(fallback=False), "uniform", "ipw")
    assert np.isnan(table["lower"][0].as_py())


def test_differences_and_choices():
    log = routed(20_000, seed=4, keep=0.5)
    row = difference(log, "item:item-4", "uniform", confidence=0.999).to_pylist()[0]
    assert row["lower"] <= 0.2 <= row["upper"]
    assert 0.0 < row["lower"]
    same = difference(log, "uniform", {"again": "uniform"}["again"]).to_pylist()[0]
    assert same["estimate"] == 0.0
    candidates = {"first": "item:item-0", "last": "item:item-4", "uniform": "uniform"}
    found = choose(log, candidates)
    assert found.leader == "last"
    assert "first" in found.dropped


# Where every arm is listed


def listed(n=6_000, seed=6, keep=0.5, **more):
    """The same log with the features of every item in each row."""
    return routed(n, seed, keep, arms=np.tile(np.eye(5), (n, 1, 1)), **more)


def test_dr_keeps_its_model_on_fallback_rows():
    """By hand: each item's shrunken mean so far, from all rows, the fallbacks among them."""
    log = listed(40, keep=0.3)
    table = log.table().to_pylist()
    sums, counts, terms = np.zeros(5), np.zeros(5), []
    for row in table:
        model = sums / (counts + 1.0)
        weight = 0.0 if row["fallback"] else 0.2 / row["probability"]
        terms.append(model.mean() + weight * (row["reward"] - model[row["arm"]]))
        sums[row["arm"]] += row["reward"]
        counts[row["arm"]] += 1.0
    assert any(row["fallback"] for row in table)

    class Means(Ridge):
        """Of each arm, though the log has features."""

        def predict_learn(self, rounds):
            return super().predict_learn(dataclasses.replace(rounds, arms=None))

    estimate = evaluate(log, "uniform", "dr", "none", regressor=Means(1.0))["estimate"][0].as_py()
    assert estimate == pytest.approx(np.mean(terms), abs=1e-12)


def test_what_is_learned_from_a_log_is_learned_from_fallbacks_too():
    log = routed(50, seed=7, keep=0.1, features=np.eye(5)[np.asarray(columns(50, 7, 0.1)["arm"])])
    agent = learn_from(log, LinMED(), seed=1)
    assert agent.count == 50
    table = log.table().drop_columns(["fallback", "probability"])
    certain = DecisionLog.from_table(table.append_column("probability", pa.array(np.ones(50))))
    alone = learn_from(certain, LinMED(), seed=1)
    np.testing.assert_array_equal(agent.theta, alone.theta)


# What a log is held to


def test_what_contradicts_itself_is_named():
    with pytest.raises(BadValue, match=r"probability must be null where fallback is true.*row 2 has 0.25"):
        evaluate(few(probability=[0.5, 0.1, 0.25, 0.05]), "uniform", "ipw")
    with pytest.raises(
        BadValue, match=r"probability must be given in every row: row 2 has none \(1 row in all\)"
    ):
        evaluate(few(fallback=[False, False, None, False]), "uniform", "ipw")
    with pytest.raises(BadValue, match=r"probability must lie in \(0, 1\]: row 1 has 1.5"):
        evaluate(few(probability=[0.5, 1.5, None, 0.05]), "uniform", "ipw")


@pytest.mark.parametrize("estimator", ["dr", "dm", "sndr", "switch", "dros"])
def test_models_need_every_item(estimator):
    with pytest.raises(BadValue, match=f"{estimator} needs the features of every arm .* lists no items"):
        evaluate(few(), "uniform", estimator)


def test_places_may_exceed_the_items_that_are_left():
    arms = {"arm": [0, 1, 0, 7]}
    assert evaluate(few(**arms), "arm:7", "ipw", "none")["estimate"][0].as_py() == pytest.approx(5.0)
    with pytest.raises(BadValue, match="arm must be smaller than arm_count: row 3 has 7"):
        evaluate(few(**arms, fallback=[None, None, True, None]), "uniform", "ipw")
    with pytest.raises(BadValue, match="'arm 7' needs at least 8 arms"):
        evaluate(few(fallback=[None, None, True, None]), "arm:7", "ipw")


@pytest.mark.parametrize("share", [0.0, 0.9, 1.0])
def test_logs_of_none_of_nearly_all_and_of_only_fallbacks(share):
    rng = np.random.default_rng(8)
    hidden = rng.random(400) < share
    log = DecisionLog.from_table(
        {
            "arm": np.where(hidden, 0, rng.integers(4, size=400)),
            "arm_count": np.full(400, 4),
            "probability": [None if one else (1.0 - share) / 4 for one in hidden],
            "fallback": hidden,
            "reward": np.ones(400),
        }
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = evaluate(log, "uniform", "ipw")
    row = table.to_pylist()[0]
    said = " ".join(str(one.message) for one in caught)
    assert row["n"] == 400
    assert table.schema.metadata[b"fallbacks"] == str(hidden.sum()).encode()
    assert ("are fallbacks" in said) == (share > 0.5)
    assert ("never agrees" in said) == (share == 1.0)
    assert "wrong" not in said
    if share == 1.0:
        assert (row["estimate"], row["lower"], row["upper"]) == (0.0, 0.0, 1.0)
    else:
        assert row["lower"] <= 1.0 <= row["upper"] + 1e-12


def test_a_log_of_several_policies(tmp_path):
    """Decisions of an ordinary policy and of a catalogue's, in files of one log and of older ones."""
    with LogWriter(tmp_path / "log", flush_rows=30) as writer:
        for i, row in enumerate(routed(200, seed=9, keep=0.5).table().to_pylist()):
            chance = None if row["fallback"] else float(np.log(row["probability"]))
            writer.record(i, arm=row["arm"], arm_count=5, log_probability=chance, fallback=row["fallback"],
                          arm_id=row["arm_id"], policy="CatalogueMED")  # fmt: skip
            writer.reward(i, row["reward"])
        for i in range(200, 400):
            writer.record(i, arm=i % 4, arm_count=4, log_probability=float(np.log(0.25)), policy="Uniform")
            writer.reward(i, 0.0)
    log = DecisionLog.open(tmp_path / "log")
    assert of_catalogue(log)
    assert has_some(log[300:], "fallback")
    expected = evaluate(routed(200, seed=9, keep=0.5), "uniform", "ipw", "none")["estimate"][0].as_py() / 2
    with ThreadPoolExecutor(2) as pool:
        found = [evaluate(log, "uniform", "ipw", executor=one) for one in (None, pool)]
    for table in found:
        assert table["estimate"][0].as_py() == pytest.approx(expected, abs=1e-12)
        assert int(table.schema.metadata[b"fallbacks"]) == np.sum(columns(200, 9, 0.5)["fallback"])
    only = evaluate(log.where(policy="Uniform"), "uniform", "ipw", "none")
    assert only["estimate"][0].as_py() == 0.0


def test_how_often_arms_were_played_is_counted_without_fallbacks():
    """A fallback plays the best item, which its own probability does not tell; nothing is wrong with that."""
    log = routed(30_000, seed=11, keep=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OPEWarning)
        table = evaluate(log, "uniform", "ipw")
    assert np.isfinite(table["lower"][0].as_py())
    wrong = columns(30_000, 11, 0.1)
    wrong["probability"] = [None if p is None else min(1.0, p * (0.5 if a == 0 else 1.0))
                            for p, a in zip(wrong["probability"], wrong["arm"], strict=True)]  # fmt: skip
    with pytest.warns(OPEWarning, match="probabilities in table are wrong: arm 0 was played"):
        evaluate(DecisionLog.from_table(wrong), "arm:3", "ipw")


def test_arms_of_large_numbers_do_not_leave_out_their_batches():
    """The small arms of a batch with a large one count too: without them others would seem too frequent."""
    rng = np.random.default_rng(12)
    arm = rng.choice([0, Played.ARMS + 5], 1_000)
    log = {"arm": arm, "arm_count": np.full(1_000, 10_000), "probability": np.full(1_000, 0.5),
           "reward": rng.integers(2, size=1_000).astype(float)}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error", OPEWarning)
        evaluate(DecisionLog.from_table(log), "arm:0", "ipw", batch=2)
    with pytest.warns(OPEWarning, match="arm 0 was played"):
        evaluate(
            DecisionLog.from_table({**log, "probability": np.full(1_000, 0.25)}), "arm:1", "ipw", batch=2
        )


def test_a_target_of_a_column_may_be_silent_of_them():
    log = few(mine=[0.5, 0.1, None, 0.05])
    assert evaluate(log, "column:mine", "ipw", "none")["estimate"][0].as_py() == 0.5
