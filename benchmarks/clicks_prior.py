"""Whether `LogisticMED()`, told nothing, ever unlearns its features, and whether its intervals cover.

    python benchmarks/clicks_prior.py news --decisions 25000 --timeout 500
    python benchmarks/clicks_prior.py intervals

news: a world of 80 items of which 40 are live; every 200 decisions one goes and another comes. A reader is of
one of four kinds, an item about one of six topics: the log-odds of a click are −3.2 plus N(0, 0.8²) for the
pair of kind and topic plus N(0, 0.8²) for the item. Arms are one-hot for both, d = 104. Clicks are known at
once, that there was none after `--timeout` decisions. Expected clicks are counted in two halves of the run.

The rule, fixed before seeds 100 to 119 were played (but for 300 decisions of three of them):
a seed *collapses* if in the second half it earns less than two thirds of what `LogisticMED(norm_bound=3)`
earns there, in the same world. None of 20 may, with a timeout of 0 or 500. `LogisticMED(norm_bound=1)` shows
how often the rule speaks without a reason.

intervals: the first example of docs/clicks.md (eight banners, three features) with other banners and clicks,
at its base rate (log-odds −3) and at one of 2 % (−3.9). After 100, 600 and 3,000 rewards: the share of runs
in which *some* banner's true rate is outside its `agent.mean` interval. The rule: at most 7 % of 200 runs.
"""

import argparse
import sys
from collections import deque

import numpy as np

from linmed.policies import LogisticMED
from linmed.validation import Floats, Ints

ITEMS, LIVE, SWAP, KINDS, TOPICS = 80, 40, 200, 4, 6
BASE, SPREAD = -3.2, 0.8
LOOKS = (100, 600, 3000)


def rates_of(z: Floats) -> Floats:
    """Click rates at these log-odds."""
    rates: Floats = 1.0 / (1.0 + np.exp(-z))
    return rates


class World:
    """Items that come and go, in as many worlds as there are seeds."""

    def __init__(self, seeds: range) -> None:
        self.streams = [np.random.default_rng([28, seed]) for seed in seeds]
        self.topic = np.stack([rng.integers(TOPICS, size=ITEMS) for rng in self.streams])
        self.appeal = np.stack([rng.normal(0.0, SPREAD, ITEMS) for rng in self.streams])
        self.taste = np.stack([rng.normal(0.0, SPREAD, (KINDS, TOPICS)) for rng in self.streams])
        order = np.stack([rng.permutation(ITEMS) for rng in self.streams])
        self.live, self.resting = order[:, :LIVE].copy(), order[:, LIVE:].copy()

    def next(self, t: int) -> tuple[Floats, Floats, Floats]:
        """Arms (R,K,d), their click rates (R,K) and uniforms (R,) of decision t."""
        rows = np.arange(len(self.streams))[:, None]
        if t > 0 and t % SWAP == 0:
            for r, rng in enumerate(self.streams):
                goes, comes = rng.integers(LIVE), rng.integers(ITEMS - LIVE)
                self.live[r, goes], self.resting[r, comes] = self.resting[r, comes], self.live[r, goes]
        kind = np.array([[rng.integers(KINDS)] for rng in self.streams])
        topic = self.topic[rows, self.live]
        arms = np.zeros((len(rows), LIVE, KINDS * TOPICS + ITEMS))
        np.put_along_axis(arms, (kind * TOPICS + topic)[..., None], 1.0, axis=2)
        np.put_along_axis(arms, (KINDS * TOPICS + self.live)[..., None], 1.0, axis=2)
        rates = rates_of(BASE + self.appeal[rows, self.live] + self.taste[rows, kind, topic])
        return arms, rates, np.array([rng.random() for rng in self.streams])


def earned(policy: LogisticMED, seeds: range, decisions: int, timeout: int) -> tuple[Floats, Floats, Floats]:
    """Expected clicks by half and seed (2, R): of the policy, of the best items, of even play."""
    world, draws = World(seeds), np.random.default_rng([1, seeds.start])
    state = policy.start(len(seeds), KINDS * TOPICS + ITEMS)
    rows = np.arange(len(seeds))
    own, best, even = np.zeros((3, 2, len(seeds)))
    waiting: deque[tuple[Floats, Ints]] = deque()
    for t in range(decisions):
        arms, rates, clicks = world.next(t)
        arm = policy.choose(state, arms, draws.random((len(seeds), 1)))
        part = 2 * t // decisions
        own[part] += rates[rows, arm]
        best[part] += rates.max(axis=1)
        even[part] += rates.mean(axis=1)
        shown, clicked = arms[rows, arm], clicks < rates[rows, arm]
        policy.learn(state, shown[clicked], np.ones(clicked.sum()), rows[clicked])
        waiting.append((shown[~clicked], rows[~clicked]))
        if len(waiting) > timeout:
            silent, of = waiting.popleft()
            policy.learn(state, silent, np.zeros(len(of)), of)
    return own, best, even


def news(seeds: range, decisions: int, timeout: int) -> int:
    """Collapses of the policy that is told nothing."""
    told, best, even = earned(LogisticMED(norm_bound=3.0), seeds, decisions, timeout)
    print(f"seeds {seeds}, {decisions} decisions, timeout {timeout}; shares of what the best items earn")
    print(f"{'even play':32} {(even.sum(1) / best.sum(1)).round(2)}")
    collapses = -1
    for policy in (LogisticMED(norm_bound=3.0), LogisticMED(norm_bound=1.0), LogisticMED()):
        own = told if policy.norm_bound == 3.0 else earned(policy, seeds, decisions, timeout)[0]
        ratio = own[1] / told[1]
        collapses = int((ratio < 2 / 3).sum())
        share, worst = (own.sum(1) / best.sum(1)).round(3), (own / best).min(axis=1).round(3)
        text = f"{share}, worst seed {worst}, over told {ratio.min():.2f} or more, collapses {collapses}"
        print(f"{policy.name:32} {text}", flush=True)
    return collapses


def intervals(runs: int, seed: int) -> bool:
    """Whether some share of runs with a rate outside is above 7 %."""
    broken, policy, rows = False, LogisticMED(), np.arange(runs)
    for base in (-3.0, -3.9):
        rng = np.random.default_rng([seed, int(-10 * base)])
        arms = rng.normal(size=(runs, 8, 3)) / 2
        rates = rates_of(base + 2.0 * arms[:, :, 0])
        state = policy.start(runs, 3)
        for t in range(1, LOOKS[-1] + 1):
            arm = policy.choose(state, arms, rng.random((runs, 1)))
            clicks = (rng.random(runs) < rates[rows, arm]).astype(float)
            policy.learn(state, arms[rows, arm], clicks, rows)
            if t in LOOKS:
                found = [policy.predict(one_of(state, r), arms[r]) for r in range(runs)]
                outside = [((p.lower > rates[r]) | (rates[r] > p.upper)).any() for r, p in enumerate(found)]
                width = np.median([p.upper - p.lower for p in found])
                share = float(np.mean(outside))
                print(f"base {base}, n = {t}: outside in {100 * share:.1f} %, median width {width:.2f}")
                broken |= share > 0.07
    return broken


def one_of(state: object, r: int) -> object:
    """Replica r alone."""
    return type(state)(*(part[r : r + 1] for part in state))  # type: ignore[attr-defined]


def main() -> int:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("study", choices=("news", "intervals"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=100, help="the first")
    parser.add_argument("--decisions", type=int, default=8000)
    parser.add_argument("--timeout", type=int, default=0)
    parser.add_argument("--runs", type=int, default=200)
    args = parser.parse_args()
    if args.study == "news":
        return int(news(range(args.seed, args.seed + args.seeds), args.decisions, args.timeout) > 0)
    return int(intervals(args.runs, args.seed))


if __name__ == "__main__":
    sys.exit(main())
