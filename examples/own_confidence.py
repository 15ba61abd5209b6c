"""A confidence set of your own, in LinMED and in OFUL: one method in NumPy.

Run it: python examples/own_confidence.py

A rule sees of its confidence set the number β alone: ‖θ* − θ̂‖² ≤ β in V. So a set is a method that computes β
from the state, once a round for all replicas; LinMED's rule and OFUL's stay as they are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linmed import OFUL, LinMED, simulate
from linmed.environments import UnitBall
from linmed.policies import RidgePolicy


class WithMixture(RidgePolicy):
    """β = λS² + σ²(log(det V/det V₀) + 2 log(1/δ)) with δ = 1/(t+1): never larger than the paper's."""

    def squared_radius(
        self, state: Any
    ) -> NDArray[np.float64]:  # state.count (R,), .logdet (R,), .theta (R, d)
        sigma, norm = self.numbers
        log_ratio = state.logdet + 2.0 * np.log(state.count + 1.0)
        beta: NDArray[np.float64] = self.lam * norm**2 + sigma**2 * log_ratio
        return beta


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
