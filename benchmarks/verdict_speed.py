"""How long a verdict takes, beside a decision of the same agent, in one run.

    python benchmarks/verdict_speed.py

An agent with LinMED(sigma=0.3) after 200 rewards, at several (K, d). Calls of `decide` and `verdict` take
turns in blocks, so that both meet the same machine; of each the median over the blocks is shown, in processor
time.
"""

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from linmed import Agent, LinMED

SHAPES = ((10, 4), (100, 10), (1000, 20))
BLOCKS, CALLS = 41, 100


def seconds(call: Callable[[], object]) -> float:
    """Of one call, in a block of many."""
    began = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - began) / CALLS


def main() -> int:
    print("| (K, d) | decide, µs | verdict, µs | verdict / decide |")
    print("|---|---|---|---|")
    for count, dim in SHAPES:
        rng = np.random.default_rng(count)
        arms = rng.standard_normal((count, dim)) / np.sqrt(dim)
        agent = Agent(LinMED(sigma=0.3), dim=dim, seed=0, max_pending=1)
        for _ in range(200):
            decision = agent.decide(arms)
            agent.learn(decision, float(decision.features[0] + 0.3 * rng.standard_normal()))
        agent.verdict(arms)
        times = [
            (seconds(lambda: agent.decide(arms)), seconds(lambda: agent.verdict(arms)))  # noqa: B023
            for _ in range(BLOCKS)
        ]
        decide, verdict = (1e6 * statistics.median(column) for column in zip(*times, strict=True))
        print(f"| ({count}, {dim}) | {decide:.1f} | {verdict:.1f} | {verdict / decide:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
