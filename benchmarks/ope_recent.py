"""Do intervals of recent decisions hold? Logs of a policy that learns, on a value that moves.

    python benchmarks/ope_recent.py --logs 500

For every way of asking: how often the interval missed what it is about (at most 5 % is promised), how often
it missed the value now (nothing is promised), and how wide it was. `since` is looked at after every 1.1 times
as many decisions, and a miss at any look counts; a half-life is looked at once, as promised.
"""

import argparse
import math
import warnings

import numpy as np

from linmed.ope import DecisionLog, evaluate, sequence
from linmed.ope.scan import Fading

DECISIONS, RECENT, HALF_LIFE = 1200, 300, 150
CONFIDENCE = 0.95
KINDS = ("betting", "mixture")


def world(rng):
    """Arm 0's value falls from 0.85 to 0.15; the policy leans to the arm that paid last."""
    value = 0.5 + 0.35 * np.cos(math.pi * np.arange(DECISIONS) / DECISIONS)
    arm, p, reward = np.empty(DECISIONS, dtype=int), np.empty(DECISIONS), np.empty(DECISIONS)
    leaning, chance, coin = 0.5, rng.random(DECISIONS), rng.random(DECISIONS)
    for t in range(DECISIONS):
        arm[t] = chance[t] >= leaning
        p[t] = leaning if arm[t] == 0 else 1.0 - leaning
        reward[t] = coin[t] < (value[t] if arm[t] == 0 else 0.4)
        leaning = min(max(leaning + 0.05 * (reward[t] - 0.45) * (1 - 2 * arm[t]), 0.2), 0.8)
    first = np.where(arm == 0, p, 1.0 - p)
    columns = {
        "arm": arm,
        "probability": p,
        "reward": reward,
        "probabilities": np.stack([first, 1 - first], 1),
    }
    return DecisionLog.from_table(columns), value


def faded(value):
    """The weighted average that a half-life is about."""
    weight = Fading(HALF_LIFE, len(value) - 1, False).weights(np.arange(len(value)))
    return float((weight * value).sum() / weight.sum())


def at_once(log, interval, **asked):
    row = evaluate(log, 0, "ipw", interval, CONFIDENCE, **asked).to_pylist()[0]
    return row["lower"], row["upper"]


def outside(bounds, truth):
    return not bounds[0] <= truth <= bounds[1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(args.seed)
    sums: dict[tuple[str, str], list[float]] = {}

    def note(kind, asked, missed, stale, width):
        row = sums.setdefault((kind, asked), [0.0, 0.0, 0.0])
        for place, number in enumerate((missed, stale, width)):
            row[place] += number / args.logs

    for _ in range(args.logs):
        log, value = world(rng)
        now = value[-1]
        since = value[-RECENT:].cumsum() / np.arange(1, RECENT + 1)
        for kind in KINDS:
            bounds = at_once(log, kind)
            note(kind, "all", outside(bounds, value.mean()), outside(bounds, now), bounds[1] - bounds[0])
            looks = sequence(log, 0, interval=kind, confidence=CONFIDENCE, since=-RECENT).to_pylist()
            ever = any(outside((row["lower"], row["upper"]), since[row["n"] - 1]) for row in looks)
            low, high = looks[-1]["lower"], looks[-1]["upper"]
            note(kind, f"since=-{RECENT}, all looks", ever, outside((low, high), now), high - low)
            bounds = at_once(log, kind, half_life=HALF_LIFE)
            missed = outside(bounds, faded(value))
            note(
                kind,
                f"half_life={HALF_LIFE}",
                missed,
                outside(bounds, now),
                bounds[1] - bounds[0],
            )
    print("| interval | asked | missed what it is about | missed the value now | width |")
    print("|---|---|---|---|---|")
    for (kind, asked), (missed, stale, width) in sums.items():
        print(f"| {kind} | {asked} | {100 * missed:.2f} % | {100 * stale:.1f} % | {width:.3f} |")


if __name__ == "__main__":
    main()
