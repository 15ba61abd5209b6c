"""How often a verdict is wrong, and how long each sampler takes to get one.

    python benchmarks/verdict_study.py --confidence paper

2,000 problems: K = 8 arms and θ*, uniform on the unit sphere in d = 4, drawn until the best arm is 0.1 better
than the second; Gaussian noise, σ = 0.3. Problem i is the same for every sampler and δ, and so is its noise.
Each is played until its verdict, which is looked at after every reward, all looks taken together; 50,000
rounds at most. Verdicts are by the confidence set of one ridge estimate (sigma=0.3, norm_bound=1) at the δ of
the row, whatever plays. Samplers: Uniform, LinMED-90, LinMED-50, and Pinpoint at the δ of the row; all with
sigma=0.3.

The rule, fixed before the first run. At δ = 0.05 and δ = 0.2, for each sampler:
- *wrong*, the share of all 2,000 problems whose verdict is not the best arm, is at most δ; a problem whose
  looks contradict each other (every arm ruled out) counts as wrong;
- for Pinpoint and Uniform, the ratio of the mean rounds to the verdict is at most 0.6. A problem without a
  verdict counts as 50,000 rounds, which favours Uniform where it is the slower one.
It prints a table and whether the rule is met, and writes every problem's rounds to a CSV file.
"""

import argparse
import csv
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from linmed import LinMED, Pinpoint, Uniform, simulate
from linmed.environments.base import Block, Environment
from linmed.insight.best_arm import CONTRADICTED
from linmed.simulation import Decided

ARMS, DIM, SIGMA, GAP = 8, 4, 0.3, 0.1
PROBLEMS, HORIZON, SEED = 2_000, 50_000, 20_260
DELTAS = (0.05, 0.2)
RATIO = 0.6


@dataclass(frozen=True)
class Problems(Environment):
    """A problem of its own for each trial: arms and θ* on the sphere, the best arm at least `gap` ahead."""

    gap: float = GAP

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """The same arms in every round."""
        while True:
            points = rng.standard_normal((ARMS + 1, DIM))
            points /= np.sqrt((points * points).sum(axis=1, keepdims=True))
            arms, theta = points[:-1].copy(), points[-1]
            means = (arms * theta).sum(axis=1)
            second, best = np.sort(means)[-2:]
            if best - second >= self.gap:
                break
        while True:
            yield Block(arms, means, SIGMA * rng.standard_normal(self.block_rounds))


def samplers(delta: float, confidence: dict[str, Any]) -> dict[str, Any]:
    """Who plays, by name."""
    return {
        "Uniform": Uniform(sigma=SIGMA, **confidence, label="Uniform"),
        "LinMED-90": LinMED(sigma=SIGMA, **confidence, label="LinMED-90"),
        "LinMED-50": LinMED(sigma=SIGMA, alpha_emp=0.5, **confidence, label="LinMED-50"),
        "Pinpoint": Pinpoint(sigma=SIGMA, delta=delta, **confidence, label="Pinpoint"),
    }


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--confidence", default="paper", help="whose set judges, and is played by")
    parser.add_argument("--problems", type=int, default=PROBLEMS)
    parser.add_argument("--horizon", type=int, default=HORIZON)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/verdict-study"))
    args = parser.parse_args(words)
    confidence = {"confidence": args.confidence}
    args.out.mkdir(parents=True, exist_ok=True)
    met = True
    print("| set | δ | sampler | decided | wrong | mean rounds | median | mean / Uniform |")
    print("|---|---|---|---|---|---|---|---|")
    with open(args.out / f"{args.confidence}.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["set", "delta", "sampler", "problem", "rounds", "winner", "right"])
        for delta in DELTAS:
            uniform = math.nan
            for name, policy in samplers(delta, confidence).items():
                until = Decided(delta, judge=LinMED(sigma=SIGMA, **confidence))
                results = simulate(
                    policy, Problems(), args.horizon, args.problems, SEED, until=until, workers=args.workers,
                    batch=100, points=2, progress=False,
                )  # fmt: skip
                decided, winner, right = results.decided(name), results.winner(name), results.right(name)
                for i, values in enumerate(zip(decided, winner, right, strict=True)):
                    rows.writerow([args.confidence, delta, name, i, *values])
                file.flush()
                rounds = np.where(np.isnan(decided), args.horizon, decided)
                wrong = float((((winner >= 0) & ~right) | (winner == CONTRADICTED)).mean())
                uniform = float(rounds.mean()) if name == "Uniform" else uniform
                ratio = float(rounds.mean()) / uniform
                fine = wrong <= delta and (name != "Pinpoint" or ratio <= RATIO)
                met &= fine
                print(
                    f"| {args.confidence} | {delta:g} | {name} | {100 * np.mean(winner >= 0):.1f} % "
                    f"| {100 * wrong:.2f} % | {rounds.mean():,.0f} | {np.median(rounds):,.0f} | {ratio:.2f} |"
                    + ("" if fine else " *"),
                    flush=True,
                )
    print(f"\nThe rule is {'met' if met else 'NOT met'}.")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
