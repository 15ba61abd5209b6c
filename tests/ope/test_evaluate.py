"""`evaluate` end to end: targets, intervals, warnings, and every kind of bad input named with its rows."""

from concurrent.futures import ThreadPoolExecutor
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest

from linmed.ope import (
    DecisionLog,
    Frozen,
    OPEWarning,
    as_target,
    difference,
    evaluate,
)
from linmed.policies.linmed import LinMED
from linmed.validation import BadValue
from tests.blame import blames
from tests.ope.conftest import synthetic


def table(**columns) -> DecisionLog:
    base = {
        "arm": [0, 1, 0, 1],
        "probability": [0.5, 0.25, 0.5, 0.25],
        "reward": [1.0, 0.0, 0.0, 1.0],
        "arm_count": [2, 2, 2, 2],
    }
    return DecisionLog.from_table(base | columns)


def test_one_row_per_target_and_estimator_with_the_promised_columns(small):
    result = evaluate(small.log, ["uniform", 2], ["ipw", "dr"], reward_range=(0, 1))
    names = ["target", "estimator", "estimate", "lower", "upper", "n", "effective_n", "valid"]
    assert result.column_names == names
    rows = result.select(["target", "estimator", "n", "valid"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (target, estimator, 500, "any time") for target in ("uniform", "arm 2") for estimator in ("ipw", "dr")
    ]


@pytest.mark.parametrize("interval", ["betting", "normal", "adaptive"])
def test_intervals_contain_the_truth_on_an_easy_log(interval):
    """99.9 % intervals on 5,000 independent decisions with fixed seed."""
    one = synthetic(5000, seed=11)
    truths = [one.value(np.full((5000, 4), 0.25)), one.means[:, 1].mean()]
    result = evaluate(
        one.log,
        ["uniform", 1],
        ["ipw", "snipw", "dr"],
        interval=interval,
        confidence=0.999,
        reward_range=(0, 1),
    )
    for row in result.to_pylist():
        truth = truths[row["target"] != "uniform"]
        assert row["lower"] <= truth <= row["upper"]
        assert row["upper"] - row["lower"] < 0.5


def test_the_normal_interval_is_the_textbook_one(small):
    weight = 0.25 / small.columns["probability"]
    x = weight * small.columns["reward"]
    row = evaluate(small.log, "uniform", "ipw", interval="normal", confidence=0.9).to_pylist()[0]
    half = NormalDist().inv_cdf(0.95) * x.std(ddof=1) / np.sqrt(500)
    assert (row["lower"], row["upper"]) == pytest.approx((x.mean() - half, x.mean() + half), abs=1e-12)
    ratio = x.sum() / weight.sum()
    half = NormalDist().inv_cdf(0.95) * np.std(x - ratio * weight, ddof=1) / weight.mean() / np.sqrt(500)
    row = evaluate(small.log, "uniform", "snipw", interval="normal", confidence=0.9).to_pylist()[0]
    assert (row["lower"], row["upper"]) == pytest.approx((ratio - half, ratio + half), abs=1e-12)


def stabilised(score, proxy):
    """Q̂ and its interval, written out."""
    average, h = 1.0, []
    for one in proxy:
        h.append(average**-0.5)
        average += (one - average) * max(1 / (len(h) + 1), 0.01)
    h = np.array(h)
    q = (h * score).sum() / h.sum()
    half = NormalDist().inv_cdf(0.975) * np.sqrt((h**2 * (score - q) ** 2).sum()) / h.sum()
    return pytest.approx((q, q - half, q + half), abs=1e-12)


def test_the_stabilised_interval_is_its_formula_written_out(small):
    """Also where IPW is asked alone: its weights are made of every arm's probability, not of its own w²."""
    p = small.columns["probabilities"]
    score = 0.25 / small.columns["probability"] * small.columns["reward"]
    expected = stabilised(score, (0.0625 / p).sum(axis=1))
    for asked in ("ipw", ["ipw", "dr"]):
        row = evaluate(small.log, "uniform", asked, interval="adaptive").to_pylist()[0]
        assert (row["estimate"], row["lower"], row["upper"]) == expected


def test_stabilised_weights_need_every_arms_probability(small):
    """w² of the played arm alone says too little of Σ π²/p."""
    bare = DecisionLog.from_table({k: v for k, v in small.columns.items() if k != "probabilities"})
    told = r"^interval='adaptive' weighs decisions by every arm's probability, and table .*: use 'betting'$"
    with blames("interval", told):
        evaluate(bare, "uniform", "ipw", interval="adaptive")
    with pytest.raises(BadValue, match=told):
        evaluate(
            DecisionLog.from_table(small.columns | {"pi": np.full(500, 0.25)}), "column:pi", "ipw", "adaptive"
        )
    even = {"arm": [0, 1] * 50, "probability": [0.5] * 100, "reward": [0.0, 0.0, 1.0, 1.0] * 25}
    shared = DecisionLog.from_table(even | {"arm_count": [2] * 100})  # an experiment's shares are known
    row = evaluate(shared, "arm:1", "ipw", interval="adaptive").to_pylist()[0]
    assert row["lower"] < 0.5 < row["upper"]
    assert row["valid"] == "adaptive"


def test_biased_estimators_carry_the_interval_of_their_unbiased_form(small):
    names = ["ipw", "snipw", "clipped", "dr", "sndr", "dm", "switch", "dros"]
    result = evaluate(small.log, "uniform", names, reward_range=(0, 1))
    rows = {row["estimator"]: row for row in result.to_pylist()}
    for name in ("snipw", "clipped"):
        assert rows[name]["lower"] == rows["ipw"]["lower"]
    for name in ("sndr", "dm", "switch", "dros"):
        assert rows[name]["upper"] == rows["dr"]["upper"]
    assert rows["ipw"]["lower"] != rows["dr"]["lower"]


def test_without_all_logged_probabilities_dr_has_the_ipw_sequence(small):
    columns = {name: small.columns[name] for name in ("arm", "probability", "reward", "arms")}
    result = evaluate(DecisionLog.from_table(columns), "uniform", ["ipw", "dr"], reward_range=(0, 1))
    assert result["lower"][0] == result["lower"][1]
    assert result["estimate"][0] != result["estimate"][1]


@pytest.mark.parametrize("interval", ["normal"])
def test_intervals_for_independent_decisions_warn_on_adaptive_logs(interval):
    learned = table(version=[0, 1, 2, 3])
    with pytest.warns(OPEWarning, match=f"'{interval}' holds for independent decisions.*changed along"):
        evaluate(learned, "uniform", "ipw", interval=interval)
    evaluate(learned, "uniform", "ipw", interval=interval, adaptive=False)
    with pytest.warns(OPEWarning, match="independent"):
        evaluate(table(), "uniform", "ipw", interval=interval, adaptive=True)
    with pytest.warns(OPEWarning, match="independent"):
        evaluate(table(policy=["a", "a", "b", "b"]), "uniform", "ipw", interval=interval)
    evaluate(table(version=[3] * 4, policy=["a"] * 4), "uniform", "ipw", interval=interval)
    evaluate(learned, "uniform", "ipw", reward_range=(0, 1))
    whole = table(version=[0, 1, 2, 3], probability=[0.5] * 4, probabilities=[[0.5, 0.5]] * 4)
    evaluate(whole, "uniform", "ipw", interval="adaptive")
    for log, also in ((learned, ""), (whole, ", or 'adaptive' if it learned slowly")):
        with pytest.warns(OPEWarning, match=f"use 'betting' with a reward_range{also}$"):
            evaluate(log, "uniform", "ipw", interval=interval)


def test_every_way_of_naming_a_target(small):
    policy = LinMED()
    state = policy.start(1, 3)
    state_wide = policy.start(2, 3)

    def soft(arms):
        score = np.exp(arms.sum(axis=1))
        return score / score.sum()

    frozen = as_target((policy, state))
    targets = ["uniform", 1, soft, (policy, state), "logged", frozen, np.int64(0)]
    named = dict(zip("abcdefg", targets, strict=True))
    result = evaluate(small.log, named, ["ipw", "dr"], reward_range=(0, 1))
    assert result["target"].to_pylist()[::2] == list("abcdefg")
    estimate = dict(zip("abcdefg", result["estimate"].to_pylist()[::2], strict=True))
    p, arms = small.columns["probability"], small.columns["arms"]
    chances = np.array([soft(x)[a] for x, a in zip(arms, small.columns["arm"], strict=True)])
    assert estimate["c"] == pytest.approx(np.mean(chances / p * small.columns["reward"]), abs=1e-12)
    own = np.array([np.exp(policy.log_probabilities(state, x[None]))[0] for x in arms])
    own = own[np.arange(500), small.columns["arm"]]
    assert estimate["d"] == pytest.approx(np.mean(own / p * small.columns["reward"]), abs=1e-10)
    assert estimate["e"] == pytest.approx(small.columns["reward"].mean(), abs=1e-12)
    assert estimate["d"] == estimate["f"]
    with pytest.raises(ValueError, match="one replica, got 2"):
        Frozen(policy, state_wide)


def test_a_frozen_policy_does_not_follow_its_state():
    policy = LinMED()
    state = policy.start(1, 2)
    target = as_target((policy, state))
    policy.learn(state, np.ones((1, 2)), np.ones(1), np.zeros(1, dtype=np.int64))
    assert target.state.count[0] == 0


@pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")
def test_a_frozen_policy_answers_every_round_as_it_would_alone(monkeypatch):
    """Sets of several sizes, in pieces smaller than the log, at one state that is handed on as it is."""
    rng = np.random.default_rng(2)
    n, d = 90, 3
    sizes = rng.integers(2, 5, size=n)
    arms = [rng.normal(size=(k, d)) for k in sizes]
    table = pa.table(
        {
            "arm": np.zeros(n, dtype=int),
            "probability": np.full(n, 0.5),
            "reward": rng.random(n),
            "arms": [one.tolist() for one in arms],
        }
    )
    policy = LinMED()
    state = policy.start(1, d)
    policy.learn(state, rng.normal(size=(20, d)), rng.normal(size=20), np.zeros(20, dtype=np.int64))
    target = as_target((policy, state))
    seen = []
    alone = [float(np.exp(policy.log_probabilities(state, one[None])[0, 0])) for one in arms]
    ask = LinMED.log_probabilities
    monkeypatch.setattr(LinMED, "log_probabilities", lambda *args: seen.append(args) or ask(*args))
    monkeypatch.setattr("linmed.ope.targets.CHUNK", 50)
    estimate = evaluate(DecisionLog.from_table(table), target, "ipw")["estimate"][0].as_py()
    assert estimate == pytest.approx(np.mean(2 * np.array(alone) * table["reward"].to_numpy()), rel=1e-12)
    assert all(handed is target.state for _, handed, _ in seen)
    assert max(sets.size for _, _, sets in seen) <= 50


def test_a_policy_that_answers_for_one_set_only_is_refused(monkeypatch):
    monkeypatch.setattr(LinMED, "log_probabilities", lambda *_: np.log(np.full((1, 2), 0.5)))
    log = table(arms=[[[1.0], [2.0 + i]] for i in range(4)])
    with pytest.raises(ValueError, match=r"one replica with \(n, K\): \(4, 2\) is expected, got \(1, 2\)"):
        evaluate(log, [(LinMED(), LinMED().start(1, 1))], "ipw")


def test_a_column_of_the_log_can_be_the_target():
    log = table(other=[0.5, 0.5, 1.0, 0.0], whole=[[0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [1.0, 0.0]])
    result = evaluate(log, ["column:other", "column:whole"], "ipw", interval="none")
    assert result["estimate"].to_pylist() == pytest.approx([1 / 4, 1 / 4], abs=1e-12)
    assert evaluate(log, "column:whole", "dm", interval="none")["n"][0].as_py() == 4
    with pytest.raises(ValueError, match="only the played arm's probability"):
        evaluate(log, "column:other", "dr", interval="none")
    with pytest.raises(ValueError, match="needs the column 'nowhere'"):
        evaluate(log, "column:nowhere", "ipw", interval="none")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"probability": [0.5, 0.0, 1.5, 0.25]}, r"must lie in \(0, 1\]: row 1 has 0.0 \(2 rows in all\)"),
        ({"probability": [0.5, float("nan"), 0.5, 0.25]}, r"must lie in \(0, 1\]: row 1 has nan \(1 row in"),
        (
            {"probability": [0.5, None, 0.5, 0.25]},
            r"^probability must be given in every row: row 1 has none \(1",
        ),
        ({"arm": [0, 1, None, None]}, r"^arm must be given in every row: row 2 has none \(2 rows in all\)$"),
        (
            {"arm_count": [None, 2, 2, 2]},
            r"^arm_count must be given in every row: row 0 has none \(1 row[^;]*$",
        ),
        ({"reward": [1.0, 0.0, float("nan"), 0.0]}, r"reward_range \[0, 1\]: row 2 has nan \(1 row"),
        ({"reward": [1.0, 2.0, -1.0, 3.0]}, r"reward_range \[0, 1\]: row 1 has 2.0 \(3 rows"),
        ({"arm": [0, -1, 0, 1]}, r"arm must be a non-negative index: row 1 has -1 \(1 row"),
        ({"arm": [0, 1, 0, 2]}, r"arm must be smaller than arm_count: row 3 has 2 \(1 row"),
        ({"reward": [None] * 4}, "has no rewards yet: none of its 4 decisions"),
    ],
)
@pytest.mark.parametrize("batch", [100, 1])
def test_wrong_rows_are_named_and_counted_over_the_whole_log(columns, message, batch):
    columns = {name: pa.array(values) for name, values in columns.items()}
    if "reward" in columns and columns["reward"].null_count == 4:
        columns["reward"] = columns["reward"].cast(pa.float64())
    with pytest.raises(ValueError, match=message):
        evaluate(table(**columns), "uniform", "ipw", reward_range=(0, 1), batch=batch)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"arms": [[[1.0], [2.0]]] * 3 + [[[1.0, 2.0], [1.0, 2.0]]]}, "have dimension 1: row 3 has 2"),
        ({"arms": [[[1.0], [2.0]]] * 3 + [[[1.0]]]}, r"one entry per arm \(arm_count\): row 3 has 1"),
        ({"arms": [[[1.0], [2.0]]] * 3 + [None]}, "arms must be given in every row: row 3 has none"),
        ({"arms": [[[1.0], [2.0]]] * 3 + [[[1.0], [float("inf")]]]}, "arms must be finite: row 3"),
        (
            {"probabilities": [[0.5, 0.5], [0.75, 0.25], [0.5, 0.6], [0.75, 0.25]]},
            r"to one, within 0.001 \(divide.*row 2 has a sum of 1.1 \(1 row",
        ),
        ({"probabilities": [[0.5, 0.5], [0.75, 0.25], [0.7, 0.3], [0.75, 0.25]]}, "entry.*row 2 has 0.7"),
        ({"probabilities": [[0.5, 0.5], [0.75, 0.25], [0.5, 0.5], [1.25, -0.25]]}, "non-negative: row 3"),
    ],
)
@pytest.mark.parametrize("batch", [100, 1])
def test_wrong_lists_are_named(columns, message, batch):
    with pytest.raises(ValueError, match=message):
        evaluate(table(**columns), "uniform", "dr", reward_range=(0, 1), batch=batch)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda arms: np.full(len(arms), 0.4), r"sum to one, .*row 0 has a sum of 0.8 \(4 rows"),
        (lambda arms: np.array([1.5, -0.5]), "must be non-negative: row 0"),
        (lambda arms: np.full(len(arms), np.nan), "must be non-negative: row 0"),
        (lambda arms: np.ones(3) / 3, r"per arm: row 0 has 2 arms but an answer of shape \(3,\)"),
    ],
)
def test_targets_that_answer_nonsense_are_named(function, message):
    log = table(arms=[[[1.0], [2.0]]] * 4)
    with blames("targets", message):
        evaluate(log, function, "ipw", interval="none")


def test_targets_of_another_size_are_named():
    with pytest.raises(ValueError, match="'arm 5' needs at least 6 arms: row 0 has 2"):
        evaluate(table(), 5, "dm", interval="none")
    log = table(arms=[[[1.0], [2.0]]] * 4)
    with pytest.raises(ValueError, match="made for dim=3: row 0 has arms of dimension 1"):
        evaluate(log, [(LinMED(), LinMED().start(1, 3))], "ipw", interval="none")
    with pytest.raises(ValueError, match="must give one probability per arm: row 1 has 1 of them"):
        evaluate(table(q=[[0.5, 0.5], [1.0], [1.0, 0.0], [0.5, 0.5]]), "column:q", "ipw", interval="none")


def test_the_log_ends_at_the_first_waiting_decision_or_they_are_left_out():
    log = table(reward=[1.0, None, 1.0, None])
    with pytest.warns(
        OPEWarning, match=r"^3 of 4 decisions \(75%\) were not judged: 2 have .* is row 1 of table"
    ):
        stopped = evaluate(log, "logged", "ipw")
    assert stopped["n"][0].as_py() == 1
    assert (stopped.schema.metadata[b"waiting"], stopped.schema.metadata[b"judged"]) == (b"2", b"1")
    with pytest.warns(OPEWarning, match=r"2 have no reward, which is harmless only if"):
        skipped = evaluate(log, "logged", "ipw", missing="skip")
    assert skipped["n"][0].as_py() == 2
    assert skipped.schema.metadata[b"waiting"] == b"2"


def test_progress_counts_the_decisions(small):
    seen = []
    evaluate(small.log, "uniform", "ipw", interval="none", batch=200, progress=seen.append)
    assert seen == [200, 400, 500]


@pytest.mark.identity
def test_an_executor_gives_the_same_table(tmp_path, small):
    from linmed.log import LogWriter

    c = small.columns
    with LogWriter(tmp_path, flush_rows=90) as writer:
        for i in range(500):
            writer.record(
                i,
                arm=int(c["arm"][i]),
                arm_count=4,
                log_probability=float(np.log(c["probability"][i])),
                log_probabilities=np.log(c["probabilities"][i]),
                arms=c["arms"][i],
                version=i,
            )
        for i in range(400):
            writer.reward(i, c["reward"][i])
    log = DecisionLog.open(tmp_path)
    assert len(log.pieces()) == 6
    options = {"targets": ["uniform", 2], "reward_range": (0, 1)}
    with ThreadPoolExecutor(2) as pool:
        for estimators in (["ipw", "snipw", "dr"], ["ipw", "snipw"]):
            for interval in ("betting", "asymptotic"):
                ask = options | {"estimators": estimators, "interval": interval, "adaptive": False}
                with pytest.warns(OPEWarning, match="100 of 500 decisions"):
                    spread = evaluate(log, **ask, executor=pool)
                with pytest.warns(OPEWarning, match="100 of 500 decisions"):
                    assert spread == evaluate(log, **ask)
                assert spread.schema.metadata[b"waiting"] == b"100"
                assert spread["n"][0].as_py() == 400
        with pytest.warns(OPEWarning, match="100 of 500 decisions"):
            apart = difference(log, 1, 0, executor=pool)
        with pytest.warns(OPEWarning, match="100 of 500 decisions"):
            assert apart == difference(log, 1, 0)
        with pytest.warns(OPEWarning) as caught:
            evaluate(log, "uniform", "ipw", interval="normal", missing="skip", executor=pool)
        words = [str(one.message) for one in caught]
        assert "100 have no reward, which is harmless only if" in words[0]
        assert "independent decisions" in words[1]
        with pytest.raises(ValueError, match=r"sum to one, .*row 0 has a sum of 0\.4"):
            evaluate(log, lambda arms: np.full(4, 0.1), "ipw", interval="none", executor=pool)
        with pytest.raises(ValueError, match=r"reward_range \[0, 0.5\]: row \d+ has 1.0"):
            evaluate(log, "uniform", "ipw", reward_range=(0, 0.5), executor=pool)
