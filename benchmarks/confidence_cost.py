"""What a reward and a decision cost with each confidence set, as a ratio to the paper's in the same run.

    python benchmarks/confidence_cost.py

The goal: learning with unknown noise takes at most 1.15 times what it takes with the paper's set.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from linmed import Agent, LinMED
from linmed.decider import Decider

SHAPES = ((3, 2), (10, 4), (10, 50), (100, 20))
SETS = {
    "paper": LinMED(),
    "mixture": LinMED(confidence="mixture"),
    "unknown": LinMED(sigma="unknown"),
    "unknown, no S": LinMED(sigma="unknown", norm_bound="unknown"),
    "strict": LinMED(sigma="unknown", tails="strict"),
    "learned": LinMED(sigma="unknown", ridge="learned"),
}
CALLS, REPEATS = 300, 25


def seconds(work: Callable[[int], object]) -> float:
    """Processor time of one call: the least of many repeats."""
    best = np.inf
    for _ in range(REPEATS):
        began = time.thread_time()
        for i in range(CALLS):
            work(i)
        best = min(best, time.thread_time() - began)
    return best / CALLS


def learn(decider: Decider, features: np.ndarray, rewards: np.ndarray, i: int) -> None:
    decider.learn(features[i].tobytes(), rewards[i])


def decide(agent: Agent, arms: np.ndarray, i: int) -> None:
    agent.decide(arms)


def main() -> None:
    print("| arms, features | " + " | ".join(f"{name}: learn, decide" for name in SETS) + " |")
    print("| --- |" + " --- |" * len(SETS))
    for K, d in SHAPES:
        rng = np.random.default_rng(0)
        features, rewards = rng.normal(size=(CALLS, d)) / np.sqrt(d), rng.normal(size=CALLS)
        arms = rng.normal(size=(K, d)) / np.sqrt(d)
        cells, base = [], (1.0, 1.0)
        for name, policy in SETS.items():
            agent = Agent(policy, dim=d, seed=0)
            agent.observe(features, rewards)
            took = (
                seconds(partial(learn, agent._decider, features, rewards)),
                seconds(partial(decide, agent, arms)),
            )
            if name == "paper":
                base = took
                cells.append(f"{1e6 * took[0]:.1f} µs, {1e6 * took[1]:.1f} µs")
            else:
                cells.append(f"{took[0] / base[0]:.2f}, {took[1] / base[1]:.2f}")
        print(f"| {K}, {d} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
