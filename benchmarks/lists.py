"""Lists: what they cost, what they earn, and whether their intervals hold (docs/lists.md).

python benchmarks/lists.py [--part time|regret|coverage] [--trials 50] [--rounds 2000]

time      one list of five among (1000, 32) against one decision, by processor time in turns
time      a list of five among (1000, 32) against one decision, by processor time in turns
          over trials ± standard error; every policy meets the same worlds
coverage  adaptive logs of lists (K = 8, m = 3; cascade and dependent clicks) judged by betting sequences on
          rips and sips at every n at once, targets uniform and a ranking; widths at the end

"Plackett–Luce" draws all positions by the first one's probabilities. "one-draw Thompson" sorts by one θ̃ from
N(θ̂, σ²V⁻¹), whose lists have no probability in closed form.
"""

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from linmed import Agent, Greedy, LinMED, LogisticMED
from linmed.environments import ListClicks
from linmed.log import ListLog
from linmed.ope import sequence

Show = Callable[[Agent, Any, int, np.random.Generator], Any]


def cost() -> None:
    """Print processor times."""
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(1000, 32)) / 6
    print("| policy | one decision, ms | a list of five, ms | ratio |\n|---|---|---|---|")
    for policy in (LinMED(), LinMED(sigma="unknown", ridge="learned", intercept=True), LogisticMED()):
        agent = Agent(policy, dim=32, seed=1)
        agent.observe(rng.normal(size=(500, 32)) / 6, (rng.random(500) < 0.5).astype(float))
        spent = np.zeros((100, 2))
        for row in spent:
            start = time.process_time()
            agent.decide(arms)
            between = time.process_time()
            agent.decide_list(arms, length=5)
            row[:] = between - start, time.process_time() - between
        one, several = 1e3 * np.median(spent, axis=0)
        print(f"| {policy.name} | {one:.3f} | {several:.3f} | {several / one:.2f} |")


def agents_list(agent: Agent, arms: Any, length: int, rng: np.random.Generator) -> Any:
    """Each position by the policy."""
    return agent.decide_list(arms, length=length).arms


def last_only(agent: Agent, arms: Any, length: int, rng: np.random.Generator) -> Any:
    """Only the last position explores."""
    return agent.decide_list(arms, length=length, explore="last").arms


def plackett_luce(agent: Agent, arms: Any, length: int, rng: np.random.Generator) -> Any:
    """Every position by the first one's probabilities, without replacement."""
    law = agent.probabilities(arms)
    return np.argsort(-(np.log(law) + rng.gumbel(size=len(law))))[:length]


def one_draw(agent: Agent, arms: Any, length: int, rng: np.random.Generator) -> Any:
    """Sorted by one draw of θ."""
    drawn = rng.multivariate_normal(agent.theta, agent.covariance)
    return np.argsort(-arms @ drawn, kind="stable")[:length]


WAYS: dict[str, tuple[Any, Show]] = {
    "LinMED, every position": (LinMED(sigma=0.5), agents_list),
    "LinMED-99, every position": (LinMED(sigma=0.5, alpha_emp=0.99), agents_list),
    "LinMED, last position": (LinMED(sigma=0.5), last_only),
    "Plackett–Luce on position 1": (LinMED(sigma=0.5), plackett_luce),
    "greedy top-k": (Greedy(), agents_list),
    "ε-greedy, ε = .05": (Greedy(epsilon=0.05), agents_list),
    "one-draw Thompson top-k": (LinMED(sigma=0.5), one_draw),
}


def world_of(seed: int, model: Any, arms: int, dim: int, length: int) -> ListClicks:
    """A world with click rates from 0 to about .5."""
    rng = np.random.default_rng(seed)
    sets = rng.dirichlet(np.ones(dim), size=arms)
    seen = None if model == "cascade" else 0.7 ** np.arange(length)
    return ListClicks(sets, 0.6 * rng.random(dim) ** 2, model, seen)


def regret(trials: int, rounds: int) -> None:
    """Print regrets."""
    for model in ("cascade", "position"):
        print(f"\n{model}\n\n| policy | clicks lost in {rounds:,} lists | at random |\n|---|---|---|")
        for name, (policy, show) in WAYS.items():
            lost, random = np.zeros(trials), np.zeros(trials)
            for trial in range(trials):
                world = world_of(trial, model, 20, 6, 5)
                agent, rng = Agent(policy, dim=6, seed=trial), np.random.default_rng((trial, 1))
                best = world.value(world.best(5))
                for _ in range(rounds):
                    shown = show(agent, world.arms, 5, rng)
                    clicks = world.clicks(shown, rng)
                    rows, last = world.arms[shown], np.flatnonzero(clicks)
                    if model == "position":
                        agent.observe(rows * world.examination[:, None], clicks)
                    else:
                        seen = last[0] + 1 if last.size else 5
                        agent.observe(rows[:seen], clicks[:seen])
                    lost[trial] += best - world.value(shown)
                others = [world.value(rng.permutation(20)[:5]) for _ in range(200)]
                random[trial] = rounds * (best - np.mean(others))
            error = lost.std(ddof=1) / np.sqrt(trials)
            print(f"| {name} | {lost.mean():.1f} ± {error:.1f} | {random.mean():.0f} |", flush=True)


def coverage(trials: int, rounds: int) -> None:
    """Print how often sequences held, and their widths."""
    print("| clicks | target | estimator | held at every n | width at the end |\n|---|---|---|---|---|")
    for model in ("cascade", "dcm"):
        held: dict[tuple[str, str], list[bool]] = {}
        widths: dict[tuple[str, str], list[float]] = {}
        for trial in range(trials):
            world = world_of(trial, model, 8, 3, 3)
            agent = Agent(LinMED(sigma=0.5, alpha_emp=0.5), dim=3, seed=trial)
            rng = np.random.default_rng((trial, 2))
            rows: dict[str, list[Any]] = {"arms": [], "probabilities": [], "rewards": [], "arm_count": []}
            for _ in range(rounds):
                shown = agent.decide_list(world.arms, length=3)
                clicks = world.clicks(shown.arms, rng)
                agent.learn_list(shown, clicks, seen=model)
                for column, value in zip(rows, (shown.arms, shown.probabilities, clicks, 8), strict=True):
                    rows[column].append(value)
            log = ListLog.from_table(rows)
            ranking = world.best(3).tolist()
            values = {"uniform": uniform_value(world, 8, 3), f"ranking:{ranking}": world.value(ranking)}
            for target, value in values.items():
                for name in ("rips", "sips"):
                    course = sequence(log, target, name)
                    low, high = course["lower"].to_numpy(), course["upper"].to_numpy()
                    key = target.partition(":")[0], name
                    held.setdefault(key, []).append(bool(((low <= value) & (value <= high)).all()))
                    widths.setdefault(key, []).append(float(high[-1] - low[-1]))
        for (target, name), one in held.items():
            share, width = np.mean(one), np.mean(widths[target, name])
            print(f"| {model} | {target} | {name} | {share:.3f} of {trials} | {width:.3f} |", flush=True)


def uniform_value(world: ListClicks, count: int, length: int) -> float:
    """The mean value of all lists."""
    return float(np.mean([world.value(shown) for shown in itertools.permutations(range(count), length)]))


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("time", "regret", "coverage"), default="time")
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2000)
    args = parser.parse_args()
    if args.part == "time":
        cost()
    elif args.part == "regret":
        regret(args.trials, args.rounds)
    else:
        coverage(args.trials, args.rounds)


if __name__ == "__main__":
    main()
