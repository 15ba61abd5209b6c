"""Which policy needs no unit: regret where rewards and features are not of order one.

    python benchmarks/units.py           # 50 trials of 2,000 rounds in each of 54 worlds, some minutes

A world: 10 arms in 4 dimensions, drawn evenly from the unit ball for every trial and the same in all rounds;
θ* drawn from the unit sphere; noise N(0, 0.3²). Rewards are m(offset + ⟨a,θ*⟩ + noise) with offset in 0, 1,
100 and m in 0.001, 1, 1000; policies see the features f·a with f in 0.001, 1, 1000, without or with a column
of ones behind them. That is 3 × 3 × 3 × 2 worlds. Everybody meets the same trials and the same noise.

The rule, fixed before the first run. Of every candidate the mean regret in a world is divided by that of
uniform play there. The candidate whose worst world is best is the policy of an `Agent` and of a service's
bandit that are given none. Candidates within 0.02 of the best worst world are equal, and of those the one
with the smallest mean over all worlds is taken. `LinMED()`, the paper's, is shown for information: it is told
σ = 1 and S = 1 and is no candidate.
"""

import argparse
import itertools
from typing import NamedTuple

import numpy as np

from linmed.policies import GLMMED, LinMED, Policy, Uniform

ARMS, DIM, NOISE = 10, 4, 0.3
OFFSETS, SCALES = (0.0, 1.0, 100.0), (0.001, 1.0, 1000.0)
PAPER = LinMED(label="LinMED() (told σ = S = 1)")
CANDIDATES: tuple[Policy, ...] = (
    LinMED(sigma="unknown"),
    LinMED(sigma="unknown", norm_bound="unknown"),
    LinMED(sigma="unknown", ridge="learned"),
    LinMED(sigma="unknown", intercept=True),
    LinMED(sigma="unknown", norm_bound="unknown", intercept=True),
    LinMED(sigma="unknown", ridge="learned", intercept=True),
    GLMMED(family="gaussian"),
)
EQUAL = 0.02


class World(NamedTuple):
    """Units of rewards and features."""

    offset: float
    rewards: float
    features: float
    constant: bool


def regret(policy: Policy, world: World, trials: int, rounds: int, seed: int) -> float:
    """Mean regret per trial, in units of the world's rewards."""
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((trials, ARMS, DIM))
    arms *= (rng.random((trials, ARMS)) ** (1 / DIM) / np.linalg.norm(arms, axis=2))[:, :, None]
    theta = rng.standard_normal((trials, DIM))
    theta /= np.linalg.norm(theta, axis=1)[:, None]
    means = np.einsum("rkd,rd->rk", arms, theta)
    seen = world.features * arms
    if world.constant:
        seen = np.concatenate([seen, np.ones((trials, ARMS, 1))], axis=2)
    noise = NOISE * rng.standard_normal((rounds, trials, 1))
    rewards = world.rewards * (world.offset + means + noise)
    draws = policy.draw_noise(rng, (rounds, trials), seen.shape[2])
    played = np.empty((rounds, trials), dtype=np.int64)
    policy.play(policy.start(trials, seen.shape[2]), np.ascontiguousarray(seen[None]), rewards, draws, played)
    paid = means[np.arange(trials), played]
    return float((means.max(axis=1) - paid).sum(axis=0).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    worlds = [World(*w) for w in itertools.product(OFFSETS, SCALES, SCALES, (False, True))]
    size = wanted.trials, wanted.rounds, wanted.seed
    evenly = [regret(Uniform(), world, *size) for world in worlds]
    print(f"{len(worlds)} worlds, {wanted.trials} trials of {wanted.rounds:,} rounds, seed {wanted.seed}\n")
    print("| policy | worst | mean | in order one, no offset | offset 100, no column | the worst world |")
    print("|---|---|---|---|---|---|")
    found = []
    for policy in (PAPER, *CANDIDATES):
        shares = np.array([regret(policy, w, *size) / even for w, even in zip(worlds, evenly, strict=True)])
        worst = worlds[int(shares.argmax())]
        plain, lifted = (shares[worlds.index(World(o, 1.0, 1.0, False))] for o in (0.0, 100.0))
        told = f"offset {worst.offset:g}, rewards × {worst.rewards:g}, features × {worst.features:g}"
        told += ", with a constant column" if worst.constant else ", without a constant"
        numbers = " | ".join(f"{x:.3f}" for x in (shares.max(), shares.mean(), plain, lifted))
        print(f"| `{policy.name}` | {numbers} | {told} |", flush=True)
        if policy is not PAPER:
            found.append((float(shares.max()), float(shares.mean()), policy.name))
    least = min(found)[0]
    chosen = min((one for one in found if one[0] <= least + EQUAL), key=lambda one: one[1])
    print(f"\nChosen by the rule: {chosen[2]}.")


if __name__ == "__main__":
    main()
