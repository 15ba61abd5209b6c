"""What `Limits` adds to a decision: python benchmarks/limits.py [--document PAGE]

Both decide in turns within one process. Shown is the least processor time of 15 turns.
"""

import argparse
from pathlib import Path
from time import process_time

import numpy as np
from report import document, show, table

from linmed import Limits, LinMED
from linmed.core import core

CASES = {
    "nothing binds": lambda K: {},
    "floors for all": lambda K: {"floors": 0.5 / K},
    "floors for all, caps for half": lambda K: {
        "floors": 0.2 / K,
        "caps": {i: 2.0 / K for i in range(0, K, 2)},
    },
    "two groups, each at least .45": lambda K: {
        "groups": {"even": [*range(0, K, 2)], "odd": [*range(1, K, 2)]},
        "floors": {"even": 0.45, "odd": 0.45},
    },
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--document", type=Path, metavar="PAGE", help="write the table into this page")
    args = parser.parse_args()
    rows = [row(K, dim, case) for K, dim in ((10, 5), (1000, 5), (1000, 20)) for case in CASES]
    header = ("K, d", "limits", "LinMED, µs", "limits add, µs", "with limits / without")
    show(table("One decision", header, rows, words=2))
    if args.document:
        document(args.document, "limits")


def row(K: int, dim: int, case: str) -> tuple[str, ...]:
    """One line of the table."""
    rng = np.random.default_rng(0)
    arms, calls = rng.normal(size=(K, dim)) / 2.0, 20_000 // K
    noise, base = core.Noise(rng.random((1, 1, 1))), LinMED(sigma=0.3)
    live = []
    for policy in (base, Limits(base, **CASES[case](K))):
        state, seen = policy.start(1, dim), arms[:60]
        rewards = seen[:, 0] + 0.1 * np.random.default_rng(1).normal(size=len(seen))
        policy.learn(state, seen, rewards, np.zeros(len(seen), dtype=np.int64))
        live.append((policy.live(state), state))
    least = [np.inf, np.inf]
    for _ in range(15):
        for place, (one, _) in enumerate(live):
            start = process_time()
            for _ in range(calls):
                one.draw(arms, noise, 0)
            least[place] = min(least[place], (process_time() - start) / calls * 1e6)
    plain, limited = least
    return f"{K}, {dim}", case, f"{plain:.2f}", f"{limited - plain:.2f}", f"{limited / plain:.2f}"


if __name__ == "__main__":
    main()
