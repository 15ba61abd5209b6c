"""What a policy and a confidence set of one's own cost in a simulation, beside the built-in ones.

    python benchmarks/own_python.py                                    # a minute
    python benchmarks/own_python.py --document docs/performance.md     # and puts the table there

Ten arms in four dimensions, 180 trials that share them: `simulate`, environment and book-keeping included.
Processor time, the least of several turns.
"""

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
from report import document, short, show, table

from linmed import OFUL, LinMED, simulate
from linmed.environments import FixedArms

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
from own_confidence import MixtureLinMED, MixtureOFUL
from own_policy import Boltzmann

POLICIES = {
    "`LinMED`, all of it compiled": LinMED(),
    "… with the set of `examples/own_confidence.py`": MixtureLinMED(),
    "`OFUL`, all of it compiled": OFUL(),
    "… with that set": MixtureOFUL(),
    "`Boltzmann` of `examples/own_policy.py`": Boltzmann(),
}
TRIALS, TURNS = 180, 5


def micros(policy: object, environment: FixedArms, horizon: int) -> float:
    """Processor time of one round of one trial, in µs."""
    began = time.process_time()
    simulate([policy], environment, horizon=horizon, trials=TRIALS, seed=0, progress=False)
    return (time.process_time() - began) / (horizon * TRIALS) * 1e6


def main() -> None:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--document", type=Path, help="a page with the marks <!-- own -->")
    page = parser.parse_args().document
    rng = np.random.default_rng(0)
    arms, theta = (
        x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (rng.normal(size=s) for s in ((10, 4), 4))
    )
    environment = FixedArms(arms, theta)
    found = [[micros(policy, environment, 400) for policy in POLICIES.values()] for _ in range(TURNS)]
    least = np.min(found, axis=0)
    ratio = [median(turn[i] / turn[0] for turn in found) for i in range(len(POLICIES))]
    rows = [[name, short(least[i]), f"{ratio[i]:.2f}"] for i, name in enumerate(POLICIES)]
    show(table("A round of a trial, (10,4), 180 trials", ["", "µs", "times LinMED's"], rows))
    if page is not None:
        document(page, "own")


if __name__ == "__main__":
    main()
