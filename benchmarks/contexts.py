"""What a dictionary context costs: a decision over a catalogue beside one over the same arms as a matrix.

python benchmarks/contexts.py [--items 50] [--repeats 9]

Both agents have the same policy, map and random numbers, and decide in turns within one run, so the ratio
stands whatever else the machine is doing; the shortest of the repeats is reported, by the processor's clock.
"""

import argparse
import time

import numpy as np

from linmed import Agent, LinMED, LinMEDNoDesign
from linmed.features import Catalogue, Category, Features, Number

ROUNDS = 2000
DEVICES, COUNTRIES = ["phone", "desk", "tablet"], ["de", "fr", "kr", "us"]


def catalogue(items: int, features: Features, rng: np.random.Generator) -> Catalogue:
    kinds, price = rng.choice(["film", "book", "game"], items), rng.gamma(2.0, 10.0, items)
    return Catalogue.from_table({"item_id": range(items), "kind": kinds, "price": price}, features=features)


def maps() -> dict[str, Features]:
    context = [Category("device", DEVICES), Category("country", COUNTRIES), Number("age", scale=(40, 15))]
    item = [Category("kind"), Number("price")]
    pairs = [("age", "kind"), ("device", "price")]
    return {
        "plain": Features(context, item, "plain"),
        "pairs": Features(context, item, pairs),
        "outer": Features(context, item),
    }


def per_decision(one: Agent, decide) -> float:
    start = time.process_time()
    for i in range(ROUNDS):
        decide(i)
    spent = time.process_time() - start
    for waiting in one.pending:
        one.learn(waiting, 0.5)
    return spent / ROUNDS * 1e6


def compare(live: Agent, plain: Agent, sets: list, users: list) -> tuple[float, float, float]:
    return (
        per_decision(live, lambda i: live.decide(context=users[i % 256])),
        per_decision(plain, lambda i: plain.decide(sets[i % 256])),
        per_decision(live, lambda i: live.arms(users[i % 256])),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    users = [
        {
            "device": str(rng.choice(DEVICES)),
            "country": str(rng.choice(COUNTRIES)),
            "age": int(rng.integers(15, 80)),
        }
        for _ in range(256)
    ]
    print(f"{args.items} items, µs a decision (processor time, best of {args.repeats} × {ROUNDS})\n")
    print("| policy | map | d | context | matrix | ratio | encode + join |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for policy in (LinMED(), LinMEDNoDesign()):
        for name, features in maps().items():
            items = catalogue(args.items, features, rng)
            live = Agent(policy, catalogue=items, seed=1)
            plain = Agent(policy, live.dim, seed=1)
            sets = [live.arms(user) for user in users]
            times = [compare(live, plain, sets, users) for _ in range(args.repeats)]
            context, matrix, arms = map(min, zip(*times, strict=True))
            row = f"{context:.1f} | {matrix:.1f} | {context / matrix:.2f} | {arms:.1f}"
            print(f"| {policy.name} | {name} | {live.dim} | {row} |", flush=True)


if __name__ == "__main__":
    main()
