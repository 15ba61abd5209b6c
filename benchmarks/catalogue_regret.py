"""What one trial of the rejection costs: regret of CatalogueMED beside LinMED's on the same trials.

    python benchmarks/catalogue_regret.py [--trials 400] [--seed 0] [--routes]

LinMED plays p ∝ q f, which is rejection sampling without end: propose a ~ q, keep it with probability f(a),
else propose again. CatalogueMED proposes once and plays â where that is not kept: q f is then a probability
without a sum over the arms.

The rule, fixed before the first run. Problems: N = 2000 and N = 400 arms and θ* uniform on the unit sphere of
R⁶, the same through a trial, σ = σ* = 1, 1500 rounds; both policies as they are by default; 400 trials, the
same arms and noise for both. Measured is the ratio of mean regrets, CatalogueMED / LinMED, with its 99 %
interval (delta method over paired trials). Each N decides for itself:

    the whole interval is at most 1.2     the rule may be built on
    the whole interval is above 1.2       the rule is improved before anything is built on it
    1.2 lies within                       1600 further trials with another seed, whose ratio alone decides

Only N = 2000 is a condition; N = 400 is shown beside it. Decisions by route, where the design stands on a
coreset, are held to the same rule once they exist.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from linmed.catalogue_sampler import UNIFORMS, CatalogueSampler
from linmed.environments import UnitBall
from linmed.features import Catalogue
from linmed.policies import CatalogueMED, LinMED, RidgePolicy, RidgeState
from linmed.simulation import simulate

SIZES, DIM, HORIZON = (2000, 400), 6, 1500
GOAL, FURTHER = 1.2, 1600
QUANTILE = norm.ppf(0.995)  # of a 99 % interval


KNOWN: dict[tuple[int, bytes], CatalogueSampler] = {}
"""By the number and the first of a trial's arms."""


@dataclass(frozen=True)
class ByRoutes(RidgePolicy):
    """CatalogueMED with its design on a coreset, as `linmed.catalogue_sampler` decides."""

    def noise_size(self, dim: int) -> int:
        return UNIFORMS

    def log_probabilities(self, state: Any, arms: Any) -> Any:
        laws = [routes.law(one) for routes, one in self.each(state, arms)]
        p = np.exp([law.log_probabilities(np.arange(arms.shape[1])) for law in laws])
        p[np.arange(len(p)), [law.best for law in laws]] += 1.0 - p.sum(axis=1)
        return np.log(p)

    def choose(self, state: Any, arms: Any, noise: Any) -> Any:
        drawn = zip(self.each(state, arms), noise, strict=True)
        return np.array([routes.decide(one, row).arm for (routes, one), row in drawn])

    def each(self, state: Any, arms: Any) -> Iterator[tuple[CatalogueSampler, RidgeState]]:
        """What decides in every replica, and its state."""
        for r in range(len(state.count)):
            own = arms[r if len(arms) > 1 else 0]
            key = len(own), own[:8].tobytes()
            if key not in KNOWN:
                KNOWN[key] = CatalogueSampler(CatalogueMED(), Catalogue(range(len(own)), own))
            yield KNOWN[key], RidgeState(*(array[r : r + 1] for array in state))


def ratio(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """Mean of one over mean of the other, over paired trials, and its standard error by the delta method."""
    value = above.mean() / below.mean()
    error = (above - value * below).std(ddof=1) / np.sqrt(len(above)) / below.mean()
    return float(value), float(error)


def verdict(value: float, error: float) -> str:
    if value + QUANTILE * error <= GOAL:
        return "may be built on"
    return "to be improved" if value - QUANTILE * error > GOAL else f"{FURTHER} further trials decide"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--routes", action="store_true", help="decide by route, with the design on a coreset")
    given = parser.parse_args()
    other = ByRoutes() if given.routes else CatalogueMED()
    print(
        f"| N | LinMED | {other.name} | ratio | 99 % interval | by the rule |\n|---:|---:|---:|---:|---|---|"
    )
    for arms in SIZES:
        results = simulate(
            [LinMED(), other], UnitBall(arms=arms, dim=DIM), horizon=HORIZON, trials=given.trials,
            seed=given.seed, progress=False, points=2, workers=1,
        )  # fmt: skip
        plain, once = (results.final(name) for name in results.names)
        value, error = ratio(once, plain)
        ends = f"{value - QUANTILE * error:.3f} to {value + QUANTILE * error:.3f}"
        row = arms, f"{plain.mean():.1f}", f"{once.mean():.1f}", f"{value:.3f}", ends, verdict(value, error)
        print("|", " | ".join(map(str, row)), "|", flush=True)


if __name__ == "__main__":
    main()
