"""One decision of E2D: its time and its certificate, before any reward and after some.

python benchmarks/e2d.py [--quick]

Arms are drawn from the unit sphere; the rewards before the decision are those of a greedy policy that
explores three times in ten. The optimum of the program keeps the fewer arms the more is known.
"""

import sys
from statistics import median

import numpy as np
from report import CLOCKS, short, show, table

from linmed import E2D, Greedy
from linmed.policies.ridge import RidgeState

SHAPES = ((10, 4), (100, 20), (1000, 32))
REWARDS = (0, 30, 300, 3000)
POLICY = E2D()


def situation(arms: int, dim: int, rewards: int) -> tuple[RidgeState, np.ndarray]:
    """What is known after so many rewards, and the arms (1,K,d)."""
    rng = np.random.default_rng(1)
    offered = rng.standard_normal((1, arms, dim))
    offered /= np.linalg.norm(offered, axis=2, keepdims=True)
    theta = rng.standard_normal(dim)
    theta /= np.linalg.norm(theta)
    explorer = Greedy(epsilon=0.3)
    state = explorer.start(1, dim)
    for _ in range(rewards):
        arm = explorer.choose(state, offered, rng.random((1, 1)))
        features = offered[0, arm]
        explorer.learn(state, features, features @ theta + rng.standard_normal(1), np.zeros(1, np.int64))
    return state, offered


def milliseconds(state: RidgeState, arms: np.ndarray, seconds: float, clock: str) -> float:
    """Median time of a decision over so many seconds, three decisions at least."""
    now, spent = CLOCKS[clock], []
    while len(spent) < 3 or sum(spent) < seconds:
        began = now()
        POLICY.probabilities(state, arms)
        spent.append(now() - began)
    return 1e3 * median(spent)


def run(seconds: float, clock: str) -> None:
    """Measure and print."""
    rows = []
    for arms, dim in SHAPES:
        for rewards in REWARDS:
            state, offered = situation(arms, dim, rewards)
            used = int((POLICY.probabilities(state, offered) > 0.0).sum())
            time = milliseconds(state, offered, seconds, clock)
            over = float(POLICY.certificate(state, offered)[0]) - 1.0
            rows.append([f"({arms},{dim})", str(rewards), short(time), str(used), f"{over:.1e}"])
    header = ["(K,d)", "rewards", "ms", "arms in use", "certificate − 1"]
    show(table(f"One decision of E2D (median, {clock} clock)", header, rows))


if __name__ == "__main__":
    run(0.1 if "--quick" in sys.argv[1:] else 1.0, "cpu")
