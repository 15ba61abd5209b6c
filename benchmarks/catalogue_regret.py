"""What one trial of the rejection costs: regret of CatalogueMED beside LinMED's on the same trials.

    python benchmarks/catalogue_regret.py [--trials 400] [--seed 0]

LinMED plays p ∝ q f, which is rejection sampling without end: propose a ~ q, keep it with probability f(a), else
propose again. CatalogueMED proposes once and plays â where that is not kept, so that q f is a probability without
a sum over the arms.

The rule, fixed before the first run. Problems: N = 2000 and N = 400 arms and θ* uniform on the unit sphere of R⁶,
the same through a trial, σ = σ* = 1, 1500 rounds; both policies as they are by default; 400 trials, the same arms
and noise for both. Measured is the ratio of mean regrets, CatalogueMED / LinMED, with its 99 % interval (delta
method over paired trials). Each N decides for itself:

    the whole interval is at most 1.2     the rule may be built on
    the whole interval is above 1.2       the rule is improved before anything is built on it
    1.2 lies within                       1600 further trials with another seed, whose ratio alone decides

Only N = 2000 is a condition; N = 400 is shown beside it. Decisions by route, where the design stands on a coreset,
are held to the same rule once they exist.
"""

import argparse

import numpy as np
from scipy.stats import norm

from linmed.environments import UnitBall
from linmed.policies import CatalogueMED, LinMED
from linmed.simulation import simulate

SIZES, DIM, HORIZON = (2000, 400), 6, 1500
GOAL, FURTHER = 1.2, 1600
QUANTILE = norm.ppf(0.995)  # of a 99 % interval


def ratio(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """Mean of one over mean of the other, over paired trials, and its standard error by the delta method."""
    value = above.mean() / below.mean()
    error = (above - value * below).std(ddof=1) / np.sqrt(len(above)) / below.mean()
    return float(value), float(error)


def verdict(value: float, error: float) -> str:
    if value + QUANTILE * error <= GOAL:
        return "may be built on"
    return "to be improved" if value - QUANTILE * error > GOAL else f"{FURTHER} further trials decide"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("| N | LinMED | CatalogueMED | ratio | 99 % interval | by the rule |\n|---:|---:|---:|---:|---|---|")
    for arms in SIZES:
        problem = UnitBall(arms=arms, dim=DIM)
        policies = LinMED(), CatalogueMED()
        results = simulate(
            policies, problem, horizon=HORIZON, trials=given.trials, seed=given.seed, progress=False, points=2
        )
        plain, once = (results.final(policy.name) for policy in policies)
        value, error = ratio(once, plain)
        ends = f"{value - QUANTILE * error:.3f} to {value + QUANTILE * error:.3f}"
        print(f"| {arms} | {plain.mean():.1f} | {once.mean():.1f} | {value:.3f} | {ends} | {verdict(value, error)} |")


if __name__ == "__main__":
    main()
