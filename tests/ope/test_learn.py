"""Agents that begin with what a log has to teach."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linmed import Agent
from linmed.log import LogWriter
from linmed.ope import DecisionLog, learn_from
from linmed.policies import EXP2, OFUL, LinMED, LinTS, MaillardSampling
from linmed.validation import BadType, BadValue
from tests.blame import blames


def played(one) -> np.ndarray:
    """(n, d) the vectors of the arms played."""
    return one.columns["arms"][np.arange(len(one.columns["arm"])), one.columns["arm"]]


def columns(n: int = 60, **more) -> dict:
    rng = np.random.default_rng(3)
    reward = rng.random(n).round(3)
    return {"arm": [0] * n, "probability": [0.5] * n, "reward": reward, "features": rng.random((n, 2))} | more


def log(**more) -> DecisionLog:
    return DecisionLog.from_table(columns(**more))


def assert_same(one: Agent, other: Agent) -> None:
    assert one.dim == other.dim
    for name, array in one.state.arrays().items():
        np.testing.assert_array_equal(array, other.state.arrays()[name])


@pytest.mark.parametrize("policy", [LinMED(sigma=0.5), OFUL(), LinTS()])
@pytest.mark.parametrize("batch", [1, 7, 65_536])
def test_the_agent_is_the_one_that_observed_every_row_in_order(small, policy, batch):
    expected = Agent(policy, 3, seed=4)
    for features, reward in zip(played(small), small.columns["reward"], strict=True):
        expected.observe(features, reward)
    found = learn_from(small.log, policy, seed=4, batch=batch)
    assert_same(found, expected)
    assert found.count == 500
    arms = small.columns["arms"][0]
    assert [found.decide(arms).arm for _ in range(20)] == [expected.decide(arms).arm for _ in range(20)]


def test_features_and_arms_teach_the_same(small):
    plain = {name: small.columns[name] for name in ("arm", "probability", "reward")}
    own = DecisionLog.from_table(plain | {"features": played(small)})
    assert "arms" not in own.columns
    assert_same(learn_from(own, LinMED()), learn_from(small.log, LinMED()))


def test_an_agents_own_log_is_learned_from_with_its_late_rewards(tmp_path):
    rng = np.random.default_rng(0)
    pairs = []
    with Agent(LinMED(), 3, seed=0, log=tmp_path, log_arms=False) as agent:
        decisions = [agent.decide(rng.random((4, 3))) for _ in range(40)]
        agent.log.flush()
        for decision in decisions[:30]:
            pairs.append((decision.features, rng.random()))
            agent.learn(decision, pairs[-1][1])
    found = learn_from(tmp_path, LinMED())
    assert found.count == 30
    expected = Agent(LinMED(), 3)
    expected.observe(*map(np.array, zip(*pairs, strict=True)))
    assert_same(found, expected)
    assert_same(learn_from(str(tmp_path), LinMED()), found)


def test_a_log_without_features_in_its_rows_is_learned_from_by_its_arms(tmp_path, small):
    """A writer that was given the arms alone: the column `features` is there and empty."""
    with LogWriter(tmp_path) as writer:
        for i in range(20):
            arm, p = int(small.columns["arm"][i]), small.columns["probability"][i]
            writer.record(i, arm=arm, arm_count=4, log_probability=np.log(p), arms=small.columns["arms"][i])
            writer.reward(i, small.columns["reward"][i])
    expected = Agent(LinMED(), 3)
    expected.observe(played(small)[:20], small.columns["reward"][:20])
    assert_same(learn_from(tmp_path, LinMED()), expected)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float64(), 2)]
)
def test_lists_of_any_kind_are_features(tmp_path, kind):
    table = columns(features=pa.array(np.arange(120).reshape(60, 2).tolist(), kind))
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    assert_same(
        learn_from(tmp_path / "log.parquet", LinMED()),
        learn_from(log(features=np.arange(120.0).reshape(60, 2)), LinMED()),
    )


def test_decisions_without_a_reward_are_left_out_or_end_the_log():
    full = columns()
    reward = [None if i in (10, 40) else value for i, value in enumerate(full["reward"])]
    one, kept = log(reward=reward), np.delete(np.arange(60), [10, 40])
    expected = Agent(LinMED(), 2)
    expected.observe(full["features"][kept], full["reward"][kept])
    assert_same(learn_from(one, LinMED()), expected)
    assert learn_from(one, LinMED(), missing="stop").count == 10
    with blames("missing", "missing"):
        learn_from(one, LinMED(), missing="zero")


def test_no_reward_by_then_can_mean_a_number():
    """Only clicks are told, decisions are a second apart: all but the last ten are ten seconds old."""
    full = columns()
    clicks = [1.0 if reward > 0.7 else None for reward in full["reward"]]
    time = pa.array(np.arange(60) * 1_000_000, pa.timestamp("us", "UTC"))
    found = learn_from(log(reward=clicks, time=time), LinMED(), missing=0.0, mature=10)
    expected = Agent(LinMED(), 2)
    expected.observe(full["features"][:50], (full["reward"][:50] > 0.7).astype(float))
    assert_same(found, expected)
    with pytest.raises(BadValue, match="mature must be given where missing is a number"):
        learn_from(log(), LinMED(), missing=0.0)


def test_progress_is_told(small):
    seen = []
    learn_from(small.log, LinMED(), batch=200, progress=seen.append)
    assert seen == [200, 400, 500]


LATE = [[1.0, 2.0]] * 50


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"reward": [None] * 60}, r"^table has no rewards yet: none of its 60 decisions can be used$"),
        ({"reward": [1.0] * 58 + [np.inf, 0.0]}, r"reward must be finite: row 58 has inf"),
        (
            {"reward": [1.0] * 59 + [1e200]},
            r"reward must be finite and at most 1e\+100 in size: row 59 has 1e\+200",
        ),
        (
            {"features": LATE + [[1.0]] * 10},
            r"^features must have dimension 2: row 50 has 1 \(10 rows in all\)$",
        ),
        (
            {"features": LATE + [None] * 10},
            r"^features must be given in every row: row 50 has none \(10 rows",
        ),
        ({"features": [[]] * 60}, r"^features must have dimension 1: row 0 has 0 \(60 rows in all\)$"),
        (
            {"features": LATE + [[1.0, np.nan]] * 10},
            r"^features must be finite and at most 1e\+100.*: row 50 has nan",
        ),
        (
            {"features": LATE + [[1.0, -1e150]] * 10},
            r"features must be finite and at most .*: row 50 has 1e\+150",
        ),
        ({"features": [["a", "b"]] * 60}, r"column 'features' cannot be read"),
    ],
)
@pytest.mark.parametrize("batch", [20, 65_536])
def test_logs_that_teach_nothing_are_named(more, message, batch):
    with pytest.raises(ValueError, match=message):
        learn_from(log(**more), LinMED(), batch=batch)


def test_a_file_with_other_columns_or_none_at_all_is_named(tmp_path):
    bare = {name: columns()[name] for name in ("arm", "probability", "reward")}
    with pytest.raises(BadValue, match="learning without the column 'features' needs the column 'arms'"):
        learn_from(DecisionLog.from_table(bare), LinMED())
    for features in (["far"] * 60, [["a"]] * 60):
        pq.write_table(pa.table(bare | {"features": features}), tmp_path / "log.parquet")
        with pytest.raises(ValueError, match=r"row 0: column 'features' cannot be read as features"):
            learn_from(tmp_path / "log.parquet", LinMED())
    empty = pa.table(columns() | {"features": LATE + LATE[:10]}).slice(0, 0)
    pq.write_table(empty, tmp_path / "empty.parquet")
    with pytest.raises(BadValue, match=r"empty.parquet is empty: it holds no decisions"):
        learn_from(tmp_path / "empty.parquet", LinMED())


def test_a_dimension_that_was_given_is_kept_to(small):
    assert learn_from(log(), LinMED(), dim=2).dim == 2
    with pytest.raises(BadValue, match=r"^features must have dimension 3: row 0 has 2 \(60 rows in all\)$"):
        learn_from(log(), LinMED(), dim=3)
    with pytest.raises(BadValue, match=r"^arms must have dimension 2: row 0 has 3 \(500 rows in all\)$"):
        learn_from(small.log, LinMED(), dim=2)
    for name, wrong in (("dim", 0), ("dim", "two"), ("seed", -1), ("batch", 0)):
        with blames(name, name):
            learn_from(small.log, LinMED(), **{name: wrong})


def test_policies_that_learn_only_from_their_own_decisions_are_refused(small):
    with blames("policy", r"EXP2-AT cannot learn from another policy's decisions"):
        learn_from(small.log, EXP2())
    with pytest.raises(BadType, match="policy must be a Policy such as"):
        learn_from(small.log, "LinMED")
    with pytest.raises(
        BadValue, match=r"MaillardSampling.* cannot learn from table: features must be one-hot"
    ):
        learn_from(small.log, MaillardSampling())
    hot = np.eye(2)[[0, 1] * 30]
    assert learn_from(log(features=hot), MaillardSampling()).count == 60
