"""Clicks learned at once and silence after a timeout, against all rewards at the timeout (docs/delays.md).

python benchmarks/late_clicks.py [--world clicks|news] [--trials 40] [--horizon 6000] [--timeout 500]

Ten arms that stay, mean rate 5.5 %, the best about 22 %. Where clicks come first, one is known after 50
rounds in the mean, and that there was none after the timeout. Printed is the regret in clicks of each third
of the rounds and of all, ± standard error, and by how much learning clicks first is worse, trial by trial.

`--world news` plays `News`, without ids and with them, and decides the default of `Agent(early=…)`. The rule,
fixed before its first run (20 trials, 6,000 rounds, timeout 500): there are four cells, the two worlds times
LogisticMED and LinMED told nothing. In each, both ways have a mean regret over all rounds. Of each way the
worst cell counts: the largest ratio of its regret to the other way's. The way whose worst ratio is smaller
is the default; at a tie "hold", in which no estimate is biased at any time.
"""

import argparse
from typing import Any

import numpy as np

from linmed import LinMED, LogisticMED, simulate
from linmed.environments import Clicks, Delayed, Environment, News


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--world", choices=("clicks", "news"), default="clicks")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--horizon", type=int, default=6000)
    parser.add_argument("--timeout", type=int, default=500)
    args = parser.parse_args()
    policies = [
        LogisticMED(label="LogisticMED"),
        LinMED(sigma="unknown", norm_bound="unknown", ridge="learned", label="LinMED, nothing told"),
        LinMED(sigma=0.5, label="LinMED, σ = 0.5"),
    ]
    if args.world == "clicks":
        one = Clicks(rate=0.055, norm=4.0, timeout=args.timeout, clicks_after=50)
        both_ways(policies, one, Delayed(Clicks(rate=0.055, norm=4.0), rounds=args.timeout), args)
        return
    ratios: list[float] = []  # of regrets, clicks first to all at the timeout
    for ids in (False, True):
        print(f"\nNews(ids={ids})\n")
        late = Delayed(News(ids=ids, timeout=0), rounds=args.timeout)
        ratios += both_ways(policies[:2], News(ids=ids, timeout=args.timeout), late, args)
    worst = {"learn": max(ratios), "hold": max(1.0 / ratio for ratio in ratios)}
    default = "learn" if worst["learn"] < worst["hold"] else "hold"
    print(f"\nworst ratios {worst}: the default of early is {default!r}")


def both_ways(
    policies: list[Any], first: Environment, together: Environment, args: argparse.Namespace
) -> list[float]:
    """Print a table, and give the ratio of the regrets of each policy."""
    lost, ratios = [], []
    for world in (first, together):
        found = simulate(policies, world, horizon=args.horizon, trials=args.trials, seed=1, progress=False)
        thirds = np.searchsorted(found.checkpoints, [args.horizon * part / 3 for part in (1, 2, 3)])
        lost.append({policy.name: found.regret(policy.name)[:, thirds] for policy in policies})
    print("| policy | learned | 1st third | 2nd | 3rd | all |\n|---|---|---|---|---|---|")
    for policy in policies:
        told = [np.diff(one[policy.name], axis=1, prepend=0.0) for one in lost]
        ratios.append(float(told[0].sum() / told[1].sum()))
        rows = {"clicks first": told[0], "all at the timeout": told[1], "difference": told[0] - told[1]}
        for name, parts in rows.items():
            parts = np.column_stack([parts, parts.sum(axis=1)])
            errors = parts.std(axis=0, ddof=1) / np.sqrt(args.trials)
            means = parts.mean(axis=0)
            cells = [f"{mean:.1f} ± {error:.1f}" for mean, error in zip(means, errors, strict=True)]
            print(f"| {policy.name} | {name} | {' | '.join(cells)} |", flush=True)
    return ratios


if __name__ == "__main__":
    main()
