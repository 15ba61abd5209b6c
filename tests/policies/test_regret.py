"""Mean regret against an independent simulator (tests/data/regret.json: 2,000 trials a row).

Here 300 trials a row; a difference of four combined standard errors raises the alarm, which 40 right
policies would do with probability 0.3 % for a random seed. `python -m tests.policies.test_regret 2000`
prints the comparison with as many trials as wanted.
"""

import dataclasses
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from linmed import policies
from linmed.environments import EndOfOptimism, LargeGap, UnitBall
from linmed.simulation import simulate

ROWS = json.loads((Path(__file__).parents[1] / "data" / "regret.json").read_text())["rows"]
SPELLED_OUT = {
    "RandUCB(delta=0.01) coupled, L=0, U=OFUL radius, M=20, s=U/8, eps=1e-7": "RandUCB(delta=0.01)",
    "SpannerIGW(horizon=n) with C_opt=4, Reg_Sq=d log n, delta=0.01, approx design": (
        "SpannerIGW(horizon=n, delta=0.01)"
    ),
    "EXP2(horizon=n): eta=sqrt(log K/(3 d n)), gamma=d*eta": "EXP2(horizon=n)",
}


def problem(row):
    name = row["problem"]
    sigma = row["sigma_star"]
    if name.startswith("LargeGap"):
        return LargeGap(sigma=sigma)
    if name.startswith("EndOfOptimism"):
        return EndOfOptimism(eps=float(re.search(r"eps=([\d.]+)", name)[1]), sigma=sigma)
    arms, dim = (int(re.search(rf"{key}=(\d+)", name)[1]) for key in ("arms", "dim"))
    return UnitBall(arms=arms, dim=dim, sigma=sigma)


def policy(row):
    """The row's policy with the row's σ; its text is a constructor call."""
    name, arguments = re.fullmatch(r"(\w+)\((.*)\)", SPELLED_OUT.get(row["policy"], row["policy"])).groups()
    values = {"n": row["horizon"], "None": None, "False": False}
    pairs = (pair.split("=") for pair in arguments.split(", "))
    parameters = {key: values[text] if text in values else json.loads(text) for key, text in pairs}
    made = getattr(policies, name)(**parameters)
    return dataclasses.replace(made, sigma=row["sigma"]) if hasattr(made, "sigma") else made


def compare(row, trials, seed):
    """Our mean and standard error, and the difference in combined standard errors."""
    results = simulate(policy(row), problem(row), row["horizon"], trials, seed=seed, progress=False)
    final = results.regret(policy(row).name)[:, -1]
    error = final.std(ddof=1) / np.sqrt(trials)
    return final.mean(), error, (final.mean() - row["mean_regret"]) / np.hypot(error, row["standard_error"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['problem'][:8]}-{policy(row).name}")
def test_mean_regret_agrees_with_an_independent_simulator(row):
    assert abs(compare(row, trials=300, seed=20)[2]) <= 4


if __name__ == "__main__":
    for row in ROWS:
        mean, error, z = compare(row, int(sys.argv[1]), seed=20)
        print(f"{row['problem'][:22]:22} {policy(row).name:48} {mean:9.3f} ± {error:.3f}  z = {z:+.2f}")
