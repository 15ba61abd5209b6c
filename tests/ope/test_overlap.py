"""Targets of which the log says nothing, and requests that are none: who is named, and what stands."""

import math

import numpy as np
import pytest

from linmed.ope import (
    DecisionLog,
    OPEWarning,
    Replay,
    diagnose,
    difference,
    evaluate,
    sequence,
)
from linmed.policies.linmed import LinMED
from linmed.validation import BadType, BadValue
from tests.blame import blames

pytestmark = pytest.mark.filterwarnings(
    "ignore:target 'uniform'. the mean weight is 0.6667:linmed.ope.OPEWarning"
)
SILENT = r"target 'arm 2' never agrees with table: every weight is zero"


def columns(n: int = 60, arm_count: int | None = 3, **more) -> dict:
    """Decisions among the first two of three arms, each with probability one half."""
    rng = np.random.default_rng(5)
    found = {"arm": rng.integers(2, size=n), "probability": np.full(n, 0.5), "reward": rng.random(n).round()}
    return found | ({} if arm_count is None else {"arm_count": np.full(n, arm_count)}) | more


def log(*args, **more) -> DecisionLog:
    return DecisionLog.from_table(columns(*args, **more))


@pytest.mark.parametrize("arm_count", [None, 3])
@pytest.mark.parametrize("interval", ["normal", "adaptive"])
def test_without_any_weight_there_is_no_interval_and_the_target_is_named(interval, arm_count):
    more = {"probabilities": [[0.5, 0.5, 0.0]] * 60} if interval == "adaptive" else {}
    with pytest.warns(OPEWarning, match=SILENT):
        rows = evaluate(
            log(60, arm_count, **more), [2, 0], ["ipw", "snipw", "clipped"], interval=interval
        ).to_pylist()
    for row in rows[:3]:
        assert math.isnan(row["lower"])
        assert math.isnan(row["upper"])
        assert (row["valid"], row["effective_n"]) == ("—", 0.0)
    assert (rows[0]["estimate"], rows[2]["estimate"]) == (0.0, 0.0)
    assert math.isnan(rows[1]["estimate"])
    for row in rows[3:]:
        assert row["lower"] < row["estimate"] < row["upper"]
        assert row["valid"] != "—"


@pytest.mark.parametrize("interval", ["normal", "adaptive"])
def test_a_model_alone_gives_doubly_robust_estimates_no_interval(interval):
    every = log(probabilities=[[0.5, 0.5, 0.0]] * 60)
    with pytest.warns(OPEWarning, match=SILENT):
        rows = evaluate(every, 2, ["dr", "sndr", "switch"], interval=interval).to_pylist()
    assert all(math.isnan(row["lower"]) and row["valid"] == "—" for row in rows)
    with pytest.warns(OPEWarning, match="not how wrong the model is"):  # and says nothing of weights
        (row,) = evaluate(log(), "uniform", "dm", interval="normal").to_pylist()
    assert row["lower"] < row["upper"]


def test_one_target_without_overlap_leaves_the_others_their_rows():
    with pytest.warns(OPEWarning, match=SILENT) as caught:
        rows = evaluate(log(), ["uniform", 0, 2]).to_pylist()
    assert sum("never agrees" in str(one.message) for one in caught) == 1
    assert rows[:6] == evaluate(log(), ["uniform", 0]).to_pylist()
    ipw, snipw, dr = rows[6:]
    assert (ipw["estimate"], ipw["lower"], ipw["upper"], ipw["valid"]) == (0.0, 0.0, 1.0, "any time")
    assert math.isnan(snipw["estimate"])
    assert (snipw["lower"], snipw["upper"]) == (0.0, 1.0)
    assert math.isfinite(dr["estimate"])


def test_sequences_and_differences_name_the_target_without_overlap():
    with pytest.warns(OPEWarning, match=SILENT):
        table = sequence(log(), 2)
    assert (table["lower"][-1].as_py(), table["upper"][-1].as_py()) == (0.0, 1.0)
    for pair in ((2, 0), (0, 2)):
        with pytest.warns(OPEWarning, match=SILENT) as caught:
            (row,) = difference(log(), *pair).to_pylist()
        assert len(caught) == 1
        assert row["lower"] < row["upper"]


ASK = [
    lambda one: evaluate(one, "uniform"),
    lambda one: sequence(one, "uniform"),
    lambda one: difference(one, 0, "uniform"),
    lambda one: diagnose(one, "uniform"),
    lambda one: Replay(LinMED(), bound=4.0).run(one),
]


@pytest.mark.parametrize("ask", ASK)
def test_a_log_may_be_named_by_its_path(ask, tmp_path):
    arms = np.random.default_rng(0).random((60, 3, 2))
    saved = log(arms=arms).save(tmp_path / "log")
    for path in (str(tmp_path / "log"), tmp_path / "log"):
        assert repr(ask(path)) == repr(ask(saved))
    with pytest.raises(FileNotFoundError, match="there is no log at"):
        ask(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("wrong", [None, "frame"])
def test_what_is_no_log_is_told_how_to_become_one(ask, wrong):
    if isinstance(wrong, str):
        wrong = pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(columns())
    kind = type(wrong).__name__
    with blames("log", rf"^log must be .*, got {kind}: DecisionLog\.from_table makes"):
        ask(wrong)


WRONG_TARGETS = [
    ((LinMED(), 5), r"a target must be .*\(policy, state\), an agent .*, got \(LinMED\(.*, 5\)"),
    ([(LinMED(), None)], "a target must be"),
    (3.5, "a target must be"),
    (-1, "a target's arm must be an index of at least 0, got -1"),
    ([], "targets is empty"),
    (["uniform", "uniform"], "occurs twice"),
    ("nobody", "target must be"),
    ("column:nowhere", "needs the column 'nowhere'"),
    (lambda arms: [1.0, 0.0, 0.0], "needs the column 'arms'"),
    (None, "a target must be"),
    ("arm:x", "target must be"),
    ("column:", "target must be"),
    ("column:word", r"'column:word' must be a column of numbers, got string"),
    ("column:gaps", r"^target 'column:gaps' must be given in every row: row 0 has none \(60 rows in all\)$"),
    ("column:large", r"'column:large' must lie in \[0, 1\]: row 0 has 2"),
    ("column:short", "must give one probability per arm: row 0 has 1 of them"),
]


@pytest.mark.parametrize(("targets", "message"), WRONG_TARGETS)
def test_wrong_targets_blame_targets(targets, message):
    more = {
        "word": ["x"] * 60, "gaps": np.ma.masked_all(60), "large": [2.0] * 60, "short": [[1.0]] * 60
    }  # fmt: skip
    with blames("targets", message):
        evaluate(log(**more), targets, "ipw", interval="none")


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("estimators", {"estimators": "magic"}),
        ("estimators", {"estimators": 5}),
        ("estimators", {"estimators": []}),
        ("estimators", {"estimators": {}}),
        ("estimators", {"estimators": ["ipw", "ipw"]}),
        ("interval", {"interval": "exact"}),
        ("interval", {"interval": 5}),
        ("missing", {"missing": "guess"}),
        ("adaptive", {"adaptive": "yes"}),
        ("confidence", {"confidence": float("nan")}),
        ("reward_range", {"reward_range": (0, 0)}),
        ("reward_range", {"reward_range": (0, 1, 2)}),
        ("reward_range", {"reward_range": (0, float("inf"))}),
        ("confidence", {"confidence": 1.0}),
        ("confidence", {"confidence": "high"}),
        ("reward_range", {"reward_range": (1, 0)}),
        ("reward_range", {"reward_range": 5}),
        ("reward_range", {"reward_range": (-1e308, 1e308)}),
        ("regressor", {"regressor": 5, "estimators": "dr"}),
    ],
)
def test_each_part_of_a_request_is_blamed_by_its_name(field, options):
    with pytest.raises((BadValue, BadType)) as e:
        evaluate(log(), "uniform", **options)
    assert e.value.field == field
    assert field in str(e.value)
