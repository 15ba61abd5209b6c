"""Drift: what forgetting costs, how true the numbers stay, how often alarms are false, how soon one comes.

python benchmarks/drift.py [--logs 2000] [--clock cpu]

Speed is a ratio to LinMED within one run: a decision and a reward of a live agent, G = 4 half-lives. For the
alarms unit arms are drawn evenly (d = 3, K = 6), σ = 0.3; 2,500 quiet rewards, or 1,500 before θ*, of length
½, turns round (‖Δθ‖ = 1) or moves by ½.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from linmed import Agent
from linmed.policies import Forgetful, LinMED, Policy

SHAPES = ((2, 3), (5, 10), (10, 50), (20, 100))
NOISES: tuple[Any, ...] = (0.3, "unknown")
SIGMA, DIM, ARMS = 0.3, 3, 6


def fastest(
    works: dict[str, Callable[[], int]], repeats: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Seconds of one piece of each work, the least of so many, taken in turns."""
    best = dict.fromkeys(works, np.inf)
    for _ in range(repeats):
        for name, work in works.items():
            began = clock()
            pieces = work()
            best[name] = min(best[name], (clock() - began) / pieces)
    return best


def prepared(policy: Policy, arms: Any, theta: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """What decides, what learns one at a time and what learns at once, 1,000 times, after 300 rewards."""
    agent = Agent(policy, arms.shape[1], seed=0)
    rows = arms[rng.integers(len(arms), size=300)]
    agent.observe(rows, rows @ theta + SIGMA * rng.standard_normal(300))
    live, noise = agent._live, np.full((1, 1, 1), 0.5)
    played = arms[rng.integers(len(arms), size=1000)]
    paid = (played @ theta + SIGMA * rng.standard_normal(1000)).tolist()
    pairs = list(zip(list(played), paid, strict=True))

    def decide() -> int:
        for _ in range(1000):
            live.decide(arms, noise, 0)
        return 1000

    def learn_many() -> int:
        policy.learn(agent.state, played, np.array(paid), np.zeros(1000, dtype=np.int64))
        return 1000

    def learn() -> int:
        for vector, reward in pairs:
            live.learn(vector, reward)
        return 1000

    return decide, learn, learn_many


def speed(clock: Callable[[], float]) -> None:
    print("| d | K | σ | decide, µs | × LinMED | learn, µs | × LinMED | in one call, µs | × LinMED |")
    print("|---|---|---|---|---|---|---|---|---|")
    for dim, count in SHAPES:
        rng = np.random.default_rng(0)
        arms = rng.standard_normal((count, dim))
        arms /= np.linalg.norm(arms, axis=1)[:, None]
        theta = rng.standard_normal(dim) / np.sqrt(dim)
        for sigma in NOISES:
            plain, forgetful = (
                prepared(policy, arms, theta, rng)
                for policy in (LinMED(sigma=sigma), Forgetful(LinMED(sigma=sigma)))
            )
            took = [fastest({"plain": plain[i], "forgetful": forgetful[i]}, 15, clock) for i in range(3)]
            cells = [f"{1e6 * one['forgetful']:.2f} | {one['forgetful'] / one['plain']:.2f}" for one in took]
            print(f"| {dim} | {count} | {sigma} | {cells[0]} | {cells[1]} | {cells[2]} |", flush=True)


def accuracy(updates: int = 1_000_000) -> None:
    rng = np.random.default_rng(1)
    for dim, count in ((5, 10), (20, 3)):
        arms = rng.standard_normal((count, dim))
        arms /= np.linalg.norm(arms, axis=1)[:, None]
        policy = Forgetful(LinMED(sigma=SIGMA), half_lives=(50,))
        state = policy.start(1, dim)
        for _ in range(100):
            rows = arms[rng.integers(count, size=updates // 100)]
            policy.learn(state, rows, rng.standard_normal(len(rows)), np.zeros(len(rows), dtype=np.int64))
        gram = state.gram[0, 0] + state.gram_low[0, 0]
        exact = np.linalg.inv(np.tril(gram) + np.tril(gram, -1).T)
        off = np.abs(state.inverse[0, 0] - exact).max() / np.abs(exact).max()
        print(f"V⁻¹ after {updates:,} updates, half-life 50, d = {dim}, {count} arms: off by {off:.1e}")


def run(policy: Forgetful, logs: int, count: int, change: int, size: float, seed: int) -> Any:
    """The states after `count` rewards of as many worlds; θ* moves by `size` after `change`."""
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((logs, ARMS, DIM))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    before = rng.standard_normal((logs, DIM))
    before *= 0.5 / np.linalg.norm(before, axis=1, keepdims=True)
    towards = rng.standard_normal((logs, DIM))
    towards *= size / np.linalg.norm(towards, axis=1, keepdims=True)
    after = -before if size == 1.0 else before + towards
    state, own = policy.start(logs, DIM), np.arange(logs)
    for t in range(count):
        rows = arms[own, rng.integers(ARMS, size=logs)]
        paid = (rows * (before if t < change else after)).sum(axis=1) + SIGMA * rng.standard_normal(logs)
        policy.learn(state, rows, paid, own)
    return state


def alarms(logs: int) -> None:
    print("\n| told | quiet logs with an alarm | ‖Δθ‖ | alarm within 100 | median | adoption within 100 |")
    print("|---|---|---|---|---|---|")
    told = {
        "σ": LinMED(sigma=SIGMA),
        "S": LinMED(sigma="unknown"),
        "nothing": LinMED(sigma="unknown", norm_bound="unknown"),
    }
    for name, inside in told.items():
        policy = Forgetful(inside)
        quiet = run(policy, logs, 2500, 2500, 1.0, 10).happened[:, 1] > 0
        for size in (1.0, 0.5):
            state = run(policy, logs // 4, 1900, 1500, size, 11)
            first, began = state.alarms[:, 0, 0], state.adoptions[:, 0, 0]
            seen, moved = ((one > 1500) & (one <= 1600) for one in (first, began))
            delay = np.median(np.where(first > 1500, first - 1500, np.inf))
            print(
                f"| {name} | {quiet.sum()} of {logs} | {size:g} | {seen.mean():.1%} | {delay:g} | "
                f"{moved.mean():.1%} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=int, default=2000, help="quiet logs; a quarter as many with a change")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu on a busy machine")
    parser.add_argument("--only", choices=("speed", "accuracy", "alarms"))
    args = parser.parse_args()
    if args.only in (None, "speed"):
        speed(time.thread_time if args.clock == "cpu" else time.perf_counter)
    if args.only in (None, "accuracy"):
        accuracy()
    if args.only in (None, "alarms"):
        alarms(args.logs)


if __name__ == "__main__":
    main()
