"""How often the ledger's intervals miss the truth on regrets of LinMED-99, whose tail is heavy.

    python benchmarks/ledger_coverage.py [--trials 8000] [--samples 400] [--seed 77] [--looks 4]

Plays large gap (10,000 rounds, σ = 1), takes the whole for the truth, and draws samples of n trials from
it. Asked of each: does the 95 % interval of LinMED-99's mean regret, and of its ratio to OFUL's, contain the
truth? "bootstrap" is the interval without what n trials can have missed, "ledger" is the ledger's. Then the
same of sequences of looks that double the trials, each with its share of the level: is the truth outside at
any of them? The rule, fixed before the ledger was played: the ledger's interval misses in at most 5 % of the
samples at every n, and in at most 5 % of the sequences. With 200 samples it took 3.5 processor minutes.
"""

import argparse
import math

import numpy as np

from linmed.environments import LargeGap
from linmed.paper.roster import policies
from linmed.paper.statistics import Resampled, average, ratio, resampled, spent
from linmed.simulation import simulate

SIZES = (10, 20, 50, 100, 200, 400, 1_000)


def regrets(trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of LinMED-99 and OFUL, trial by trial."""
    made = policies(("LinMED-99", "OFUL"), 1.0, 10_000, "text")
    results = simulate(made, LargeGap(sigma=1.0), 10_000, trials, seed, progress=False)
    return results.final("LinMED-99"), results.final("OFUL")


def outside(interval: tuple[float, float], truth: float) -> bool:
    """Whether an interval misses."""
    return not interval[0] <= truth <= interval[1]


def bootstrap(estimate: Resampled, level: float = 0.05) -> tuple[float, float]:
    """The interval without what was missed."""
    ends = estimate._drawn(level)
    return (math.exp(ends[0]), math.exp(ends[1])) if estimate.positive else ends


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=8_000)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--seed", type=int, default=77)
    parser.add_argument("--looks", type=int, default=4)
    args = parser.parse_args()
    a, b = regrets(args.trials, args.seed)
    rng = np.random.default_rng(args.seed)
    mean, quotient = float(a.mean()), float(a.mean() / b.mean())
    error = a.std() / math.sqrt(len(a))
    print(f"{args.trials:,} trials: mean {mean:.1f} ± {error:.1f}, ratio {quotient:.3f}")
    print(f"{args.samples} samples of each n\n")
    print("| n | mean: bootstrap | ledger | ratio: bootstrap | ledger | its median interval |")
    print("|---|---|---|---|---|---|")
    for n in SIZES:
        misses, ends = np.zeros(4), []
        for _ in range(args.samples):
            drawn = rng.choice(len(a), n, replace=False)
            one, two = resampled(average, a[drawn]), resampled(ratio, a[drawn], b[drawn])
            assert isinstance(one, Resampled)
            assert isinstance(two, Resampled)
            ends.append(two.interval())
            misses += [
                outside(bootstrap(one), mean), outside(one.interval(), mean),
                outside(bootstrap(two), quotient), outside(ends[-1], quotient),
            ]  # fmt: skip
        shares = " | ".join(f"{100 * share:.1f} %" for share in misses / args.samples)
        low, high = np.median(ends, axis=0)
        print(f"| {n:,} | {shares} | {low:.2f} to {high:.2f} |", flush=True)
    print(f"\n| looks at n, 2n, … ({args.looks}) from n = | truth outside at some look |\n|---|---|")
    for first in (n for n in SIZES if n << (args.looks - 1) <= args.trials // 2):
        wrong = 0
        for _ in range(args.samples):
            drawn = rng.choice(len(a), first << (args.looks - 1), replace=False)
            wrong += any(
                outside(
                    resampled(ratio, a[drawn[: first << k]], b[drawn[: first << k]]).interval(
                        spent(k + 1, args.looks)
                    ),
                    quotient,
                )
                for k in range(args.looks)
            )
        print(f"| {first:,} | {100 * wrong / args.samples:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
