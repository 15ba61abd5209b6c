"""Parts of a real log: the Open Bandit Dataset, where LINMED_OPEN_BANDIT says it is."""

import os
from pathlib import Path

import pytest

from linmed.ope import DecisionLog

PLACE = os.environ.get("LINMED_OPEN_BANDIT")
pytestmark = pytest.mark.skipif(
    PLACE is None, reason="LINMED_OPEN_BANDIT is not set to the folder of the Open Bandit Dataset"
)


def log(policy: str) -> DecisionLog:
    return DecisionLog.from_open_bandit(Path(str(PLACE)) / policy / "men" / "men.csv")


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
