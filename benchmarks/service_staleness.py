"""Regret against staleness: what it costs that rewards taken elsewhere are folded a little later.

    python benchmarks/service_staleness.py docs/images/staleness.png

The worst case for a server: every reward, its own too, becomes known D decisions late (at 100 decisions a
second a staleness of 1 s is D = 100). K = 10 arms drawn anew in each round, d = 5, noise 1, 5000 rounds.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from linmed import LinMED, simulate
from linmed.environments import Delayed, UnitBall
from linmed.policies import OFUL

DELAYS = (0, 10, 30, 100, 300, 1000)
HORIZON, TRIALS = 5000, 40


def main(path: str) -> None:
    environment = UnitBall(arms=10, dim=5, sigma=1.0)
    policies = [LinMED(), OFUL()]
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for policy, style in zip(policies, ("o-", "s--"), strict=True):
        means, errors = [], []
        for delay in DELAYS:
            faced = Delayed(environment, rounds=delay) if delay else environment
            results = simulate([policy], faced, horizon=HORIZON, trials=TRIALS, seed=0, progress=False)
            final = results.regret(policy.name)[:, -1]
            means.append(final.mean())
            errors.append(1.96 * final.std(ddof=1) / np.sqrt(TRIALS))
            print(f"{policy.name:10s} D = {delay:4d}   regret {means[-1]:7.1f} ± {errors[-1]:.1f}")
        axes.errorbar(np.array(DELAYS) + 1, means, errors, fmt=style, capsize=3, label=policy.name)
    axes.set_xscale("log")
    axes.set_xticks([delay + 1 for delay in DELAYS], [str(delay) for delay in DELAYS])
    axes.set_xlabel("staleness in decisions, D")
    axes.set_ylabel(f"regret after {HORIZON} decisions")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "staleness.png")
