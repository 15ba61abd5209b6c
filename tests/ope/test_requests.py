"""What may be left out of a request, what its results are called, and rows that are not quite right."""

import pickle
from concurrent.futures import Executor, Future

import numpy as np
import pytest

from linmed.log import LogWriter
from linmed.ope import (
    ClippedIPW,
    DecisionLog,
    Replay,
    as_target,
    diagnose,
    difference,
    evaluate,
    sequence,
)
from linmed.policies.linmed import LinMED
from tests.blame import blames
from tests.ope.conftest import synthetic


def bare(reward=(1.0, 0.0, 0.0, 1.0), **columns) -> DecisionLog:
    base = {"arm": [0, 1, 0, 1], "probability": [0.5, 0.25, 0.5, 0.25], "reward": list(reward)}
    return DecisionLog.from_table(base | columns)


def test_a_target_is_all_that_must_be_said(small):
    given = evaluate(
        small.log,
        ["uniform"],
        ["ipw", "snipw", "dr"],
        interval="betting",
        confidence=0.95,
        reward_range=(0, 1),
    )
    assert evaluate(small.log, "uniform") == given
    last = sequence(small.log, "uniform").to_pylist()[-1]
    row = given.to_pylist()[0]
    assert [last[key] for key in ("n", "estimate", "lower", "upper")] == pytest.approx(
        [row[key] for key in ("n", "estimate", "lower", "upper")], abs=1e-12
    )
    assert difference(small.log, 1, "uniform")["valid"][0].as_py() == "any time"
    assert Replay(LinMED()).run(small.log).valid == "any time"


def test_without_knowledge_of_all_arms_the_estimators_are_those_that_need_none():
    assert evaluate(bare(), 1)["estimator"].to_pylist() == ["ipw", "snipw"]
    assert evaluate(bare(q=[0.5, 0.5, 1.0, 0.0], arm_count=[2] * 4), "column:q").num_rows == 2
    whole = bare(q=[[0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [1.0, 0.0]], arm_count=[2] * 4)
    assert evaluate(whole, "column:q")["estimator"].to_pylist() == ["ipw", "snipw", "dr"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda log: evaluate(log, 1, "ipw"),
        lambda log: evaluate(log, 1, "ipw", batch=1),
        lambda log: sequence(log, 1),
        lambda log: difference(log, 1, 0),
        lambda log: Replay(LinMED(), bound=4).run(log),
    ],
)
def test_a_range_of_rewards_is_assumed_only_where_every_reward_lies_in_it(ask):
    arms = [[[1.0, 0.0], [0.0, 1.0]]] * 4
    ask(bare(arms=arms))
    with blames("reward_range", r"reward_range must be given.*rewards from -2 to 3; give the lowest"):
        ask(bare(reward=(1.0, -2.0, 3.0, 0.0), arms=arms))


def test_intervals_that_need_no_range_take_any_reward():
    log = bare(reward=(1.0, -2.0, 3.0, 0.0))
    for interval in ("normal", "asymptotic", "none"):
        assert evaluate(log, 1, "ipw", interval=interval)["n"][0].as_py() == 4
    with pytest.raises(ValueError, match="reward must be finite: row 2 has inf"):
        evaluate(bare(reward=(1.0, -2.0, np.inf, 0.0)), 1, "ipw")


def test_one_row_that_sums_to_a_little_more_does_not_spoil_the_log(small):
    """As where a rare arm was played whose probability no integral had seen: 0.5/16384 on top of one."""
    p = small.columns["probabilities"].copy()
    rare = 0.5 / 16384
    i = int(np.flatnonzero(small.columns["arm"] == 0)[0])
    p[i] = [rare, 0.5, 0.25, 0.25]
    columns = small.columns | {"probabilities": p, "probability": p[np.arange(500), small.columns["arm"]]}
    assert p[i].sum() == pytest.approx(1.00003, abs=1e-6)
    log = DecisionLog.from_table(columns)
    scaled = p / p.sum(axis=1, keepdims=True)
    exact = DecisionLog.from_table(columns | {"probabilities": scaled})
    targets = ["logged", 2]
    for interval in ("betting", "adaptive"):
        ours, theirs = (
            evaluate(one, targets, ["ipw", "dr"], interval=interval, reward_range=(0, 1))
            for one in (log, exact)
        )
        for column in ("estimate", "lower", "upper"):
            np.testing.assert_allclose(ours[column], theirs[column], rtol=1e-12)
    assert diagnose(log, "uniform") == diagnose(exact, "uniform")
    asked = DecisionLog.from_table(columns | {"target": p})
    plain = DecisionLog.from_table(columns | {"target": scaled})
    np.testing.assert_allclose(
        evaluate(asked, "column:target")["estimate"], evaluate(plain, "column:target")["estimate"], rtol=1e-12
    )


def test_a_row_far_from_one_is_refused_with_its_number_its_sum_and_advice(small):
    p = small.columns["probabilities"].copy()
    p[7] *= 1.002
    columns = small.columns | {"probabilities": p, "probability": p[np.arange(500), small.columns["arm"]]}
    message = (
        r"sum to one, within 0.001 \(divide them by their sum.*row 7 has a sum of 1.002 \(1 row in all\)"
    )
    with pytest.raises(ValueError, match=message):
        evaluate(DecisionLog.from_table(columns), "uniform", "dr")
    with pytest.raises(ValueError, match=message):
        diagnose(DecisionLog.from_table(columns), "uniform")


def test_two_estimators_of_one_kind_have_distinct_labels(small):
    several = [ClippedIPW(2.0), "ipw", ClippedIPW()]
    labels = evaluate(small.log, "uniform", several)["estimator"].to_pylist()
    assert labels == [
        "clipped (limit=2.0)",
        "ipw",
        "clipped (limit=10.0)",
    ]
    named = evaluate(small.log, "uniform", {"tight": ClippedIPW(2.0), "wide": "clipped"})
    assert named["estimator"].to_pylist() == ["tight", "wide"]
    with pytest.raises(ValueError, match="estimators must differ, 'ipw' is given twice"):
        evaluate(small.log, "uniform", ["ipw", "dr", "ipw"])


class Watching(Executor):
    """Works at once, as another process would, and notes how much comes back."""

    def __init__(self):
        self.sizes = []

    def submit(self, work, *args):
        result = pickle.dumps(pickle.loads(pickle.dumps(work))(*args))
        self.sizes.append(len(result))
        future = Future()
        future.set_result(pickle.loads(result))
        return future


@pytest.mark.parametrize("interval", ["betting", "asymptotic", "normal", "none"])
def test_where_order_does_not_matter_workers_send_sums_instead_of_decisions(tmp_path, interval):
    one = synthetic(3000)
    c = one.columns
    with LogWriter(tmp_path, flush_rows=1000) as writer:
        for i in range(3000):
            p = np.log(c["probabilities"][i])
            writer.record(i, arm=int(c["arm"][i]), arm_count=4, log_probability=p[c["arm"][i]])
            writer.reward(i, c["reward"][i])
    log, watching, seen = DecisionLog.open(tmp_path), Watching(), []
    ask = {"targets": ["uniform", 2], "estimators": ["ipw", "snipw", "clipped"], "interval": interval}
    spread = evaluate(log, **ask, executor=watching, progress=seen.append)
    assert len(watching.sizes) == len(log.pieces()) > 2
    assert max(watching.sizes) < 8_000  # a thousand decisions take 24,000 bytes and more
    assert (len(seen), seen[-1]) == (len(log.pieces()), 3000)
    here = evaluate(log, **ask)
    assert spread == here if interval != "none" else spread["estimate"] == here["estimate"]
    assert spread.schema.metadata == here.schema.metadata


def test_targets_of_one_name_can_be_compared_with_each_other(small):
    row = difference(small.log, "uniform", as_target("uniform")).to_pylist()[0]
    assert row["target"] == "uniform − uniform (baseline)"
    assert (row["estimate"], row["lower"], row["upper"]) == (0.0, 0.0, 0.0)


def test_a_doubly_robust_sequence_is_refused_where_there_is_none(small):
    with pytest.raises(ValueError, match="estimator must be one"):
        sequence(small.log, "uniform", ["ipw", "dr"])
    with pytest.raises(ValueError, match="doubly robust sequence needs the column 'probabilities'"):
        sequence(bare(arm_count=[2] * 4), "uniform", "dr")
