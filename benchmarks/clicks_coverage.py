"""How often the truth ever leaves the two confidence sets of a logistic model.

    python benchmarks/clicks_coverage.py --out results/clicks.csv

Each log is its own problem: six arms uniform on the unit sphere of R³, θ* uniform on the sphere of radius S,
the S that policies are told, and where there is an intercept one of −2, within the bound of 5. Arms are
chosen evenly, which explores most and so keeps the set smallest. After *every* one of 1,000 rewards the
distance of the truth from the estimate, in H, is compared with `policy.radius(state)`, δ = 0.05. A log counts
as left if the radius is exceeded once.

The rule, fixed before the first run: "certified" must be left in at most 5 % of the logs. "laplace", which
has no proof, is shown for information.
"""

import argparse
import csv
import sys
from pathlib import Path

import numpy as np

from linmed.policies import LogisticMED
from linmed.policies.glm import GlmState
from linmed.validation import Floats

ARMS, DIM, DELTA, BASE = 6, 3, 0.05, -2.0
NORMS = (1.0, 3.0, 6.0)


def distances(state: GlmState, intercept: Floats, theta: Floats) -> Floats:
    """‖(c*, θ*) − (c, θ̂)‖ in H (R,)."""
    low = state.gram[:, 0] + state.gram_low[:, 0]
    H = np.tril(low) + np.tril(low, -1).transpose(0, 2, 1)
    error = np.concatenate([(intercept - state.intercept)[:, None], theta - state.theta], axis=1)
    return np.sqrt(np.einsum("ri,rij,rj->r", error, H, error))


def left(policy: LogisticMED, norm: float, logs: int, rounds: int, seed: int) -> int:
    """In how many logs the set was left."""
    rng = np.random.default_rng([seed, int(10 * norm), policy.intercept])  # the same logs for both sets
    arms, theta = rng.standard_normal((logs, ARMS, DIM)), rng.standard_normal((logs, DIM))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    theta *= norm / np.linalg.norm(theta, axis=1, keepdims=True)
    intercept = np.full(logs, BASE if policy.intercept else 0.0)
    means = 1.0 / (1.0 + np.exp(-np.einsum("rkd,rd->rk", arms, theta) - intercept[:, None]))
    state, rows, outside = policy.start(logs, DIM), np.arange(logs), np.zeros(logs, dtype=bool)
    for _ in range(rounds):
        arm = rng.integers(ARMS, size=logs)
        clicks = (rng.random(logs) < means[rows, arm]).astype(float)
        policy.learn(state, arms[rows, arm], clicks, rows)
        outside |= distances(state, intercept, theta) > policy.radius(state)
    return int(outside.sum())


def main() -> int:
    """Play, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--logs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows, broken = [], False
    for intercept in (False, True):
        for norm in NORMS:
            for kind in ("certified", "laplace"):
                policy = LogisticMED(norm_bound=norm, confidence=kind, delta=DELTA, intercept=intercept)
                share = left(policy, norm, args.logs, args.rounds, args.seed) / args.logs
                base = BASE if intercept else 0.0
                rows.append({"set": kind, "S": norm, "intercept": base, "logs": args.logs, "left": share})
                print(f"{kind:9}  S = {norm:g}, intercept {base:4g}: left {100 * share:5.2f} %", flush=True)
                broken |= kind == "certified" and share > DELTA
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        with args.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
