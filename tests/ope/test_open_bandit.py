"""Real production logs: the Open Bandit Dataset, where LINMED_OPEN_BANDIT says it is."""

import os
from pathlib import Path

import numpy as np
import pytest

from linmed.ope import DecisionLog, diagnose, evaluate

PLACE = os.environ.get("LINMED_OPEN_BANDIT")
pytestmark = pytest.mark.skipif(
    PLACE is None, reason="LINMED_OPEN_BANDIT is not set to the folder of the Open Bandit Dataset"
)


def log(policy: str) -> DecisionLog:
    return DecisionLog.from_open_bandit(Path(str(PLACE)) / policy / "men" / "men.csv")


def test_the_uniform_policys_value_from_the_thompson_sampling_log_agrees_with_its_own_log():
    """The interval that is valid for a policy that learns contains the uniform log's mean click."""
    truth = float(np.mean(log("random").table(["reward"])["reward"].to_numpy()))
    table = evaluate(log("bts"), "uniform", ["ipw", "snipw", "dr"], reward_range=(0, 1))
    for row in table.to_pylist():
        assert row["n"] == 10_000
        assert row["lower"] <= truth <= row["upper"]


def test_the_uniform_log_is_its_own_estimate_and_has_no_weights():
    rows = evaluate(log("random"), ["uniform", "logged"], ["ipw", "snipw"], reward_range=(0, 1)).to_pylist()
    for row in rows:
        assert row["estimate"] == pytest.approx(0.0046, abs=1e-9)
        assert row["effective_n"] == pytest.approx(10_000)


def test_the_logs_probabilities_are_calibrated():
    assert diagnose(log("bts"), "uniform").warnings == []
