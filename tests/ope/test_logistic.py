"""Logistic regression as the reward model of dm, dr and the like: earlier decisions only, in one pass."""

import numpy as np
import pytest

from linmed import Agent, LogisticMED
from linmed.ope import DecisionLog, Logistic, evaluate
from linmed.validation import BadValue
from tests.blame import blames

pytestmark = pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")
K, D = 4, 3


def clicks(n: int, seed: int, base: float = -2.0):
    """A uniform log of clicks whose log-odds are linear in the arms, and the mean value of arm 0."""
    rng = np.random.default_rng(seed)
    arms = rng.normal(size=(n, K, D))
    rates = 1 / (1 + np.exp(-base - arms @ [1.5, -1.0, 0.5]))
    arm = rng.integers(K, size=n)
    columns = {
        "arm": arm, "probability": np.full(n, 1 / K), "probabilities": np.full((n, K), 1 / K),
        "reward": (rng.random(n) < rates[np.arange(n), arm]).astype(float), "arms": arms,
    }  # fmt: skip
    return columns, rates[:, 0].mean()


def estimate(columns, estimator, regressor=None):
    log = DecisionLog.from_table(columns)
    (row,) = evaluate(log, "arm:0", estimator, interval="none", regressor=regressor).to_pylist()
    return row["estimate"]


def test_a_prediction_knows_the_decisions_before_it_and_no_other():
    columns, _ = clicks(60, 0)
    agent = Agent(LogisticMED(ridge=1.0), dim=D, seed=0)
    predicted = []
    for arms, arm, reward in zip(columns["arms"], columns["arm"], columns["reward"], strict=True):
        predicted.append(agent.mean(arms[:1]).mean[0])
        agent.observe(arms[arm], reward)
    assert estimate(columns, "dm", "logistic") == pytest.approx(np.mean(predicted), rel=1e-12)


def test_it_predicts_clicks_better_than_a_line_does():
    """The direct method's error over twelve logs; arm 0's rates are far from linear at this base rate."""
    errors = {name: [] for name in ("ridge", "logistic")}
    for seed in range(12):
        columns, truth = clicks(1500, seed)
        for name, found in errors.items():
            found.append(estimate(columns, "dm", name) - truth)
    assert np.square(errors["logistic"]).mean() < np.square(errors["ridge"]).mean()


def test_without_features_each_arm_has_a_rate_drawn_to_that_of_all():
    columns = {
        "arm": [0, 0, 1], "probability": [0.5] * 3, "reward": [1.0, 0.0, 1.0], "arm_count": [2] * 3,
    }  # fmt: skip
    log = DecisionLog.from_table(columns)
    (row,) = evaluate(log, "arm:1", "dm", interval="none", regressor=Logistic(2.0)).to_pylist()
    bases = [0.5, 1.5 / 2, 1.5 / 3]  # of all arms before each decision; arm 1 has no rewards of its own yet
    assert row["estimate"] == pytest.approx(np.mean(bases))


def test_rewards_that_are_no_clicks_are_refused_by_name():
    columns, _ = clicks(40, 0)
    columns["reward"][7] = 1.5
    with blames("regressor", r"between 0 and 1, as clicks are, got 1\.5: use 'ridge'"):
        estimate(columns, "dr", "logistic")
    with pytest.raises(BadValue, match="regressor must be one of 'ridge', 'logistic'"):
        estimate(columns, "dr", "forest")
