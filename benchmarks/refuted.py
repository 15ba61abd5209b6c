"""How often a verdict that claims a proof is wrong where something that it assumes is not so.

    python benchmarks/refuted.py        # 100 problems of each kind, 2,000 rewards each; some minutes

Problems, as reviewers met them. "100 ± 1": six arms, four normal features and a column of ones, θ* of length
1, rewards 100 + ⟨a,θ*⟩ + N(0, 1), judged and played by LinMED(). "offset c": eight unit arms in four
dimensions, rewards c + ⟨a,θ*⟩ + N(0, 0.25), judged by LinMED(sigma=0.5), which has no constant.
"quadratic": the same with ⟨a,θ*⟩ + ½⟨a,θ*⟩² instead. "price": six prices p in [0, 1], features (1, p),
rewards p(1 − p)·4/3 + N(0, 0.01). "right": what is assumed is so. Each is also judged with intercept=True.

After every 50 rewards: is the best arm ruled out by what claims a proof? A problem counts once, at any look.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from linmed import LinMED, Verdicts
from linmed.validation import Floats

EVERY = 50


class Problem(NamedTuple):
    """Arms, what they pay and how noisy that is."""

    arms: Floats
    means: Floats
    sigma: float


def _unit(rng: np.random.Generator, count: int, dim: int) -> Floats:
    rows = rng.standard_normal((count, dim))
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def hundred(rng: np.random.Generator) -> Problem:
    """100 ± 1, with a constant column."""
    arms, theta = rng.standard_normal((6, 4)), _unit(rng, 1, 4)[0]
    return Problem(np.column_stack([arms, np.ones(6)]), 100.0 + np.einsum("kd,d->k", arms, theta), 1.0)


def curved(offset: float, square: float) -> Callable[[np.random.Generator], Problem]:
    """Unit arms with a constant or a square that nobody tells of."""

    def make(rng: np.random.Generator) -> Problem:
        arms = _unit(rng, 8, 4)
        plain = np.einsum("kd,d->k", arms, _unit(rng, 1, 4)[0])
        return Problem(arms, offset + plain + square * plain**2, 0.5)

    return make


def price(rng: np.random.Generator) -> Problem:
    """A best price in the middle."""
    prices = np.sort(rng.random(6))
    return Problem(np.column_stack([np.ones(6), prices]), 4 / 3 * prices * (1 - prices), 0.1)


PROBLEMS: dict[str, Callable[[np.random.Generator], Problem]] = {
    "100 ± 1": hundred,
    "offset 1": curved(1.0, 0.0),
    "offset 0.3": curved(0.3, 0.0),
    "quadratic": curved(0.0, 0.5),
    "price": price,
    "right": curved(0.0, 0.0),
}


def looks(
    problem: Problem, policy: LinMED, rewards: int, rng: np.random.Generator
) -> Iterator[tuple[bool, ...]]:
    """After every look: is it decided and wrong; is the best ruled out; is it decided; is it refuted."""
    arms, best = problem.arms, int(problem.means.argmax())
    paid = problem.means + problem.sigma * rng.standard_normal((rewards, 1, 1))
    played, dim = np.empty((rewards, 1), dtype=np.int64), arms.shape[1]
    noise = policy.draw_noise(rng, (rewards, 1), dim)
    policy.play(policy.start(1, dim), np.ascontiguousarray(arms[None, None]), paid, noise, played)
    arm = played[:, 0]
    features, seen = arms[arm], paid[np.arange(rewards), 0, arm]
    state, verdicts = policy.start(1, dim), Verdicts(arms)
    for first in range(0, rewards, EVERY):
        some = slice(first, first + EVERY)
        found = verdicts.learn(policy, state, np.ascontiguousarray(features[some]), seen[some])
        sure, gone = found.proved and found.decided, best not in found.candidates
        yield sure and found.best != best, found.proved and gone, sure, not found.proved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--rewards", type=int, default=2_000)
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| rewards | judged by | decided, wrongly | best ruled out | decided at last | refused at last |")
    print("|---|---|---|---|---|---|")
    for name, make in PROBLEMS.items():
        for intercept in (False, True):
            counts = np.zeros(4, dtype=int)
            for seed in range(wanted.problems):
                rng = np.random.default_rng([7, seed])
                problem = make(rng)
                sigma = problem.sigma
                policy = LinMED(sigma=sigma, intercept=intercept)
                seen = np.array([*looks(problem, policy, wanted.rewards, rng)])
                counts += [*seen[:, :2].any(axis=0), *seen[-1, 2:]]
            told = f"`LinMED(sigma={sigma:g}{', intercept=True' if intercept else ''})`"
            print(f"| {name} | {told} | " + " | ".join(map(str, counts)) + " |", flush=True)


if __name__ == "__main__":
    main()
