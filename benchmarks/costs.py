"""What known values and costs earn and take: python benchmarks/costs.py [--document PAGE]

Regret in utility, value · reward − cost, of LinMED that is told values and costs, and of one that learns
value · reward − cost as its reward: 100 trials of 2,000 rounds. Then the time of a decision and its reward,
all in turns within one process: the least of 15 turns.
"""

import argparse
from pathlib import Path
from time import process_time

import numpy as np
from report import document, show, table

from linmed import Agent, LinMED
from linmed.policies.worth import priced

TRIALS, ROUNDS, SIGMA = 100, 2000, 0.3


def prices_stay(rng, K=8):
    """Independent arms, each with a price of its own: what is learned directly is as simple."""
    arms, means = np.broadcast_to(np.eye(K), (TRIALS, K, K)), rng.uniform(0, 1, (TRIALS, K))
    costs = rng.uniform(0, 0.5, (TRIALS, K))
    while True:
        yield arms, means, np.ones((TRIALS, K)), costs


def prices_change(rng, K=8):
    """The same, but prices are drawn in every round."""
    arms, means = np.broadcast_to(np.eye(K), (TRIALS, K, K)), rng.uniform(0, 1, (TRIALS, K))
    while True:
        yield arms, means, np.ones((TRIALS, K)), rng.uniform(0, 0.5, (TRIALS, K))


def margins(rng, K=8, d=5):
    """Arms of five features that change, values from 0.5 to 2 and costs that no feature tells."""
    theta = rng.standard_normal((TRIALS, d))
    theta /= np.linalg.norm(theta, axis=1, keepdims=True)
    while True:
        arms = rng.standard_normal((TRIALS, K, d))
        arms /= np.linalg.norm(arms, axis=2, keepdims=True)
        means = np.einsum("rkd,rd->rk", arms, theta)
        yield arms, means, rng.uniform(0.5, 2.0, (TRIALS, K)), rng.uniform(0, 0.5, (TRIALS, K))


WORLDS = {
    "a price per arm, independent arms": (prices_stay, 8, 1.0),
    "prices that change every round": (prices_change, 8, 1.0),
    "features, values 0.5 to 2, costs": (margins, 5, 2.0),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--document", type=Path, metavar="PAGE", help="write the tables into this page")
    args = parser.parse_args()
    header = ("world", "told values and costs", "learning value · reward − cost")
    rows = [(name, *(interval(regret(*WORLDS[name], told)) for told in (True, False))) for name in WORLDS]
    show(table("Regret in utility after 2,000 rounds, mean of 100 trials ± 95 %", header, rows))
    header = ("K, d", "without, µs", "costs", "values and costs")
    show(table("A decision and its reward, and what it takes with … / without", header, [*map(speed, CASES)]))
    if args.document:
        document(args.document, "costs")


def regret(world, dim: int, largest: float, told: bool):
    """Regret of every trial, on the same arms, prices and noise for both."""
    rng, noise = np.random.default_rng(0), np.random.default_rng(1)
    sigma = SIGMA if told else SIGMA * largest  # of what is learned
    norm = np.sqrt(dim) if world is not margins else 1.0
    policy = LinMED(sigma=sigma, norm_bound=norm if told else largest * norm)
    state, replicas, total = policy.start(TRIALS, dim), np.arange(TRIALS), np.zeros(TRIALS)
    for _, (arms, means, values, costs) in zip(range(ROUNDS), world(rng), strict=False):
        utility = values * means - costs
        seen = priced(arms, values, costs) if told else arms
        arm = policy.choose(state, seen, noise.random((TRIALS, 1)))
        reward = means[replicas, arm] + SIGMA * noise.standard_normal(TRIALS)
        learned = reward if told else values[replicas, arm] * reward - costs[replicas, arm]
        policy.learn(state, np.ascontiguousarray(arms[replicas, arm]), learned, replicas)
        total += utility.max(axis=1) - utility[replicas, arm]
    return total


def interval(sample) -> str:
    """Mean and interval."""
    return f"{sample.mean():.1f} ± {1.96 * sample.std(ddof=1) / np.sqrt(len(sample)):.1f}"


CASES = ((10, 5), (100, 10), (1000, 10))


def speed(case: tuple[int, int]) -> tuple[str, ...]:
    """One line of the table."""
    K, dim = case
    arms = np.random.default_rng(0).normal(size=(K, dim)) / dim
    costs, values, calls = np.full(K, 0.1), np.full(K, 1.5), 30_000 // K + 200
    ways = ({}, {"costs": costs}, {"values": values, "costs": costs})
    policy = LinMED(sigma=10.0, norm_bound=10.0)  # the same reward every time refutes nothing
    agents, least = [Agent(policy, dim=dim, seed=1) for _ in ways], [np.inf] * 3
    for _ in range(15):
        for place, (agent, told) in enumerate(zip(agents, ways, strict=True)):
            start = process_time()
            for _ in range(calls):
                agent.learn(agent.decide(arms, **told), 0.3)
            least[place] = min(least[place], (process_time() - start) / calls * 1e6)
    return f"{K}, {dim}", f"{least[0]:.2f}", *(f"{one / least[0]:.2f}" for one in least[1:])


if __name__ == "__main__":
    main()
