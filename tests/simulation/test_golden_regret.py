"""Mean regret agrees with an independent simulator, which shares no code with this one."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest

import linmed.policies
from linmed.environments import EndOfOptimism, LargeGap, UnitBall
from linmed.simulation import simulate

ROWS = json.loads((Path(__file__).parents[1] / "data" / "regret.json").read_text())["rows"]
PROBLEMS = {
    "LargeGap, sigma=sigma_star=1": LargeGap(sigma=1.0),
    "EndOfOptimism(eps=0.05), sigma=sigma_star=0.1": EndOfOptimism(eps=0.05, sigma=0.1),
    "UnitBall(arms=10, dim=5), sigma=sigma_star=1": UnitBall(arms=10, dim=5, sigma=1.0),
}
TRIALS = 500


def policy(text, sigma, horizon):
    """`Name(parameters)`, then perhaps a remark; n is the horizon and a remark may hold delta."""
    call = ast.parse(text[: text.index(")") + 1].replace("=n", f"={horizon}"), mode="eval").body
    values = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    if "delta=0.01" in text:
        values["delta"] = 0.01
    if call.func.id != "EXP2":
        values["sigma"] = sigma
    return getattr(linmed.policies, call.func.id)(**values)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['problem']}-{row['policy']}")
def test_mean_regret_agrees(row):
    rule = policy(row["policy"], row["sigma"], row["horizon"])
    results = simulate(
        rule, PROBLEMS[row["problem"]], row["horizon"], TRIALS, seed=2, points=2, progress=False
    )
    mean, error = results.mean(rule.name)[-1], results.standard_error(rule.name)[-1]
    # 4.5 standard errors of the difference: chance passes them in fewer than one of 3,000 suites of 40 rows.
    assert abs(mean - row["mean_regret"]) < 4.5 * np.hypot(error, row["standard_error"])
