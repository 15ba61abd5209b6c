"""A confidence set of one's own, in LinMED and in OFUL, compiled like the built-in ones.

Run it: python examples/own_confidence.py

A rule sees of its confidence set the number β alone: ‖θ* − θ̂‖² ≤ β in V. So a set is a small class with the
formula of β, and swapping it takes nothing of LinMED's rule or of OFUL's.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from linmed import OFUL, LinMED, simulate
from linmed.environments import UnitBall
from linmed.policies import RidgePolicy


class Mixture(NamedTuple):
    """β = λS² + σ²(log(det V/det V₀) + 2 log(1/δ)) with δ = 1/(t+1): never larger than the paper's."""

    bias: float  # λS²
    sigma: float

    def squared_radius(self, belief: Any, r: int) -> Any:  # belief.count, .logdet, .theta, … of replica r
        return self.bias + self.sigma**2 * (belief.logdet[r] + 2.0 * math.log(belief.count[r] + 1.0))


class WithMixture(RidgePolicy):
    @cached_property
    def confidence_set(self) -> Mixture:
        if isinstance(self.sigma, str) or isinstance(self.norm_bound, str):
            raise ValueError("this set needs numbers for sigma and norm_bound")
        return Mixture(self.lam * self.norm_bound**2, self.sigma)


@dataclass(frozen=True)
class MixtureLinMED(WithMixture, LinMED):
    """LinMED with the smaller set."""


@dataclass(frozen=True)
class MixtureOFUL(WithMixture, OFUL):
    """OFUL with the smaller set."""


if __name__ == "__main__":
    policies = [LinMED(), MixtureLinMED(label="LinMED, mixture"), OFUL(), MixtureOFUL(label="OFUL, mixture")]
    results = simulate(policies, UnitBall(arms=10, dim=5), horizon=1000, trials=20, progress=False)
    print(results)
