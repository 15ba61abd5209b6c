"""What known values and costs earn and take: python benchmarks/costs.py [--document PAGE]

Regret in utility, value · reward − cost, of LinMED that is told values and costs, and of one that learns
value · reward − cost as its reward: 100 trials of 2,000 rounds. Then the time of a decision and its reward,
all in turns within one process: the least of 15 turns.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import ClassVar

import numpy as np
from report import document, show, table

from linmed import Agent, LinMED, simulate
from linmed.environments import Block, Environment, Priced
from linmed.environments.base import on_sphere

TRIALS, ROUNDS, SIGMA = 100, 2000, 0.3


@dataclass(frozen=True)
class Independent(Environment):
    """Independent arms, each with a mean of its own."""

    block_rounds: ClassVar[int] = 2048  # a trial is one block: prices drawn once for each stay

    def blocks(self, rng):
        """Means from 0 to 1."""
        arms, means = np.eye(8), rng.uniform(0, 1, 8)
        while True:
            yield Block(arms, means, SIGMA * rng.standard_normal(self.block_rounds))


@dataclass(frozen=True)
class Features(Environment):
    """Eight arms of five features, drawn in every round."""

    def blocks(self, rng):
        """Arms and θ* on the unit sphere."""
        theta = on_sphere(rng, 5)
        while True:
            arms = on_sphere(rng, self.block_rounds, 8, 5)
            yield Block(arms, arms @ theta, SIGMA * rng.standard_normal(self.block_rounds))


def changing(rng, rounds, count):
    """Prices that are drawn in every round."""
    return rng.uniform(0, 0.5, (rounds, count))


def staying(rng, rounds, count):
    """A price for each arm."""
    return np.broadcast_to(rng.uniform(0, 0.5, count), (rounds, count))


def margins(rng, rounds, count):
    """Values that no feature tells."""
    return rng.uniform(0.5, 2.0, (rounds, count))


WORLDS = {  # with values, costs, the norm of θ* and the largest value
    "a price per arm, independent arms": (Independent(), 1.0, staying, np.sqrt(8), 1.0),
    "prices that change every round": (Independent(), 1.0, changing, np.sqrt(8), 1.0),
    "features, values 0.5 to 2, costs": (Features(), margins, changing, 1.0, 2.0),
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


def regret(world, values, costs, norm: float, largest: float, told: bool):
    """Regret of every trial, on the same arms, prices and noise for both."""
    scale = 1.0 if told else largest  # of what is learned
    policy = LinMED(sigma=SIGMA * scale, norm_bound=norm * scale)
    priced = Priced(world, values, costs, told)
    return simulate(policy, priced, horizon=ROUNDS, trials=TRIALS, progress=False).final(policy.name)


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
