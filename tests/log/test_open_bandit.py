"""Parts and features of a real log: the Open Bandit Dataset, where LINMED_OPEN_BANDIT says it is."""

import os
from pathlib import Path

import numpy as np
import pytest

from linmed import Agent, LinMED
from linmed.ope import DecisionLog, evaluate

PLACE = os.environ.get("LINMED_OPEN_BANDIT")
pytestmark = pytest.mark.skipif(
    PLACE is None, reason="LINMED_OPEN_BANDIT is not set to the folder of the Open Bandit Dataset"
)


def log(policy: str) -> DecisionLog:
    return DecisionLog.from_open_bandit(Path(str(PLACE)) / policy / "men" / "men.csv")


def test_a_policy_learned_from_one_log_is_judged_on_the_other():
    """Users' affinities are in every arm's features, and parts of a log are logs."""
    seen = log("random")
    agent = Agent(LinMED(sigma=0.5), dim=3, seed=0)
    for batch in seen.batches(["features", "reward"]):
        features = np.stack(batch.column("features").to_numpy(zero_copy_only=False))
        agent.observe(features, batch.column("reward").to_numpy())
    assert agent.count == len(seen) == 10_000
    first, second = log("bts").split(0.5, seed=1)
    assert len(first) + len(second) == 10_000
    for part in (first, second):
        row = evaluate(part, agent, "snipw", reward_range=(0, 1)).to_pylist()[0]
        assert 0 <= row["estimate"] < 0.05
        assert row["lower"] <= row["estimate"] <= row["upper"]


def test_a_real_log_is_cut_by_time_and_by_its_own_columns():
    day = log("bts").before("2019-11-25")
    rest = log("bts").after("2019-11-25")
    assert len(day) + len(rest) == 10_000
    top = log("bts").where(position=1)
    assert set(top.table(["position"])["position"].to_pylist()) == {1}
    names = {"time": "timestamp", "arm": "item_id", "reward": "click", "probability": "propensity_score"}
    plain = DecisionLog.from_csv(Path(str(PLACE)) / "bts" / "men" / "men.csv", names)
    for name in ("arm", "reward", "probability", "position", "user_feature_0"):
        assert plain.table([name]).equals(log("bts").table([name]))
