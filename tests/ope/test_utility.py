"""`reward="utility"`: value · reward − cost, against a log that has it for the reward."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linmed import Agent
from linmed.ope import DecisionLog, Ridge, choose, compare, difference, evaluate, sequence
from linmed.policies import LinMED
from tests.blame import blames
from tests.ope.conftest import command

pytestmark = pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")
RANGE = (-1.0, 3.0)
LISTS = ("values", "costs")


def columns(n=600):
    """Decisions among two arms; every third has no value, every fourth no cost, the last no reward."""
    rng, t = np.random.default_rng(0), np.arange(n)
    arm = rng.integers(0, 2, n)
    values, costs = rng.uniform(0.5, 2.5, (n, 2)), rng.uniform(0.0, 0.9, (n, 2))
    priced = {"value": (values, t % 3 > 0), "cost": (costs, t % 4 > 0)}
    found = {
        "time": pa.array((1e15 + 1e6 * t).astype(int), pa.timestamp("us", tz="UTC")),
        "arm": arm, "arm_count": np.full(n, 2), "probability": np.full(n, 0.5),
        "probabilities": [[0.5, 0.5]] * n, "reward": pa.array((rng.random(n) < 0.5) * 1.0, mask=t > n - 9),
        "control": arm == 1, "control_share": np.full(n, 0.5),
    }  # fmt: skip
    for name, (every, has) in priced.items():
        found[name] = pa.array(every[t, arm], mask=~has)
        found[f"{name}s"] = pa.array([row if there else None for row, there in zip(every, has, strict=True)])
    return found


def utility(found, missing=None):
    """The same columns with the utility for the reward."""
    value, cost = (found[name].to_pylist() for name in ("value", "cost"))
    told = [missing if y is None else y for y in found["reward"].to_pylist()]
    each = [
        None if y is None else (1.0 if v is None else v) * y - (0.0 if c is None else c)
        for y, v, c in zip(told, value, cost, strict=True)
    ]
    return {name: found[name] for name in found if name not in ("value", "cost", *LISTS)} | {"reward": each}


@pytest.mark.parametrize(
    "ask",
    [
        lambda log, **more: evaluate(log, ["uniform", 1], ("ipw", "snipw"), **more),
        lambda log, **more: evaluate(log, 1, "ipw", since=-100, **more),
        lambda log, **more: sequence(log, "uniform", **more),
        lambda log, **more: difference(log, 1, 0, **more),
        lambda log, **more: choose(log, [0, 1], **more).table,
        lambda log, **more: compare(log, by="control", **more),
    ],
)
def test_the_utility_is_judged_as_a_reward_is(ask):
    log, same = (DecisionLog.from_table(one) for one in (columns(), utility(columns())))
    more = {"reward_range": RANGE, "missing": "skip"}
    assert str(ask(log, reward="utility", **more).to_pydict()) == str(ask(same, **more).to_pydict())


def test_one_column_is_enough_and_a_number_for_missing_is_a_reward():
    """What no reward means is 0, and the cost was paid all the same."""
    one = {name: column for name, column in columns().items() if name not in ("value", *LISTS)}
    same = DecisionLog.from_table(utility(columns() | {"value": pa.nulls(600, pa.float64())}, missing=0.0))
    found = evaluate(
        DecisionLog.from_table(one), 1, "ipw", reward="utility", reward_range=RANGE, missing=0.0, mature=0
    )
    assert found.to_pydict() == evaluate(same, 1, "ipw", reward_range=RANGE).to_pydict()
    assert found["n"].to_pylist() == [600]


def test_reward_models_know_the_reward_and_every_arms_value_and_cost():
    """A model of arms' means: the value of arm k by it is the mean of v q̂ − c, over decisions."""
    found = columns() | {"reward": np.arange(600) % 2.0}
    log = DecisionLog.from_table(found)
    q = np.zeros((600, 2))
    sums, counts = np.zeros(2), np.zeros(2)
    for t, (arm, y) in enumerate(zip(found["arm"], found["reward"], strict=True)):
        q[t] = sums / (counts + 1.0)
        sums[arm], counts[arm] = sums[arm] + y, counts[arm] + 1
    v, c = (
        np.array([[one] * 2 if row is None else row for row in found[name].to_pylist()])
        for name, one in (("values", 1.0), ("costs", 0.0))
    )
    t, arm = np.arange(600), found["arm"]
    u, model = v[t, arm] * found["reward"] - c[t, arm], v * q - c
    expected = [model[:, 1].mean(), (model[:, 1] + 2.0 * (arm == 1) * (u - model[t, arm])).mean()]
    more = {"reward": "utility", "interval": "normal", "regressor": Ridge(), "adaptive": False}
    assert evaluate(log, 1, ("dm", "dr"), **more)["estimate"].to_pylist() == pytest.approx(
        expected, rel=1e-12
    )
    (table, plain) = (evaluate(log, 1, "dr", reward_range=RANGE, reward=one) for one in ("utility", None))
    assert table["lower"][0].as_py() < expected[1] < table["upper"][0].as_py()
    assert plain["estimate"][0].as_py() != table["estimate"][0].as_py()


def test_reward_models_need_every_arms_value_and_cost():
    played = DecisionLog.from_table({name: column for name, column in columns().items() if name not in LISTS})
    more = {"reward": "utility", "reward_range": RANGE, "missing": "skip"}
    with blames("estimators", "has only the played arm's value and cost"):
        evaluate(played, 1, "dr", **more)
    usual = evaluate(played, 1, **more)
    assert usual["estimator"].to_pylist() == ["ipw", "snipw"]
    assert b"only the played arm's value and cost" in usual.to_arrow().schema.metadata[b"left_out"]
    few = {key: column[:2] for key, column in columns().items() if key not in ("value", *LISTS)}
    for name, rows, said in (
        ("values", [None, [1.0, 2.0]], "values must be given where value is: row 0"),
        ("costs", [[0.1], [0.1]], "one entry per arm"),
        ("costs", [[0.1, np.inf]] * 2, "costs must be finite"),
    ):
        one = {
            "value": [1.0, 2.0],
            "values": [[1.0, 1.0]] * 2,
            "costs": [[0.1, 0.2]] * 2,
            name: pa.array(rows),
        }
        with blames("log", said):
            evaluate(DecisionLog.from_table(few | one), 1, "dr", reward="utility", reward_range=RANGE)


def test_what_cannot_be_asked_is_said():
    log, more = DecisionLog.from_table(columns()), {"missing": "skip", "reward": "utility"}
    with blames("reward_range", "reward_range must be given with reward='utility'"):
        evaluate(log, 1, "ipw", **more)
    with blames("reward_range", "reward_range must be given with reward='utility'"):
        compare(log, by="control", **more)
    with blames("log", r"value · reward − cost must lie in reward_range \[0, 1\]"):
        evaluate(log, 1, "ipw", reward_range=(0, 1), **more)
    with blames("reward", "needs a column 'value' or 'cost' .* neither"):
        evaluate(DecisionLog.from_table(utility(columns())), 1, "ipw", reward_range=RANGE, **more)
    with blames("reward", "leave out outcome"):
        evaluate(log, 1, "ipw", reward_range=RANGE, outcome="complaint", **more)
    with blames("reward", "reward must be"):
        evaluate(log, 1, "ipw", reward_range=RANGE, reward="profit")
    with blames("candidates", "are to learn would maximise the reward"):
        choose(log, [LinMED(), 1], reward_range=RANGE, **more)


def test_agents_logs_and_the_command(tmp_path, capsys):
    rng = np.random.default_rng(1)
    with Agent(LinMED(sigma=0.5), dim=2, seed=1, log=tmp_path / "log", log_arms=True) as agent:
        for _ in range(200):
            decision = agent.decide(np.eye(2), values=2.0, costs=[0.1, 0.7])
            agent.learn(decision, float(rng.random() < 0.5))
    log = DecisionLog.open(tmp_path / "log")
    table = evaluate(log, ["logged", "uniform"], reward="utility", reward_range=(-0.7, 1.9))
    asked = "--reward utility --json --reward-range"
    words = f"ope {{log}} --target logged --target uniform {asked} -0.7 1.9"
    _, told, _ = command(capsys, words, log=tmp_path / "log")
    assert [row["estimate"] for row in json.loads(told)["results"]] == table["estimate"].to_pylist()
    rows = log.table().to_pylist()
    mean = np.mean([row["value"] * row["reward"] - row["cost"] for row in rows])
    assert table["estimate"][0].as_py() == pytest.approx(mean, rel=1e-12)
    plain = {name: column for name, column in columns().items() if name not in LISTS}
    pq.write_table(pa.table(plain), tmp_path / "ab.parquet")
    words = f"compare {{log}} --by control --missing skip {asked} -1 3"
    _, told, _ = command(capsys, words, log=tmp_path / "ab.parquet")
    more = {"missing": "skip", "reward": "utility", "reward_range": RANGE}
    groups = compare(DecisionLog.from_table(plain), by="control", **more)
    assert json.loads(told)["groups"][0]["estimate"] == groups["estimate"][0].as_py()
