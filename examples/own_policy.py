"""A policy of one's own in one file: Boltzmann exploration that cools down.

Run it: python examples/own_policy.py
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from linmed import Agent, LinMED, simulate
from linmed.environments import UnitBall
from linmed.policies import Properties, RidgePolicy


@dataclass(frozen=True)
class Boltzmann(RidgePolicy):
    """p(a) ∝ exp(⟨θ̂, a⟩ / T) at the temperature T = heat · σ / √(t + 1) after t rewards."""

    heat: float = 2.0  # a parameter is a field with a default

    # What `linmed policies` would print.
    properties: ClassVar[Properties] = Properties(
        reference="folklore",
        minimax="unknown",
        instance="unknown",
        computable="closed form",
        all_arms="yes",
        randomised=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()  # checks sigma, norm_bound, ridge and delta
        if not self.heat > 0:
            raise ValueError(f"heat must be positive, got {self.heat!r}")

    # RidgePolicy keeps θ̂ and V up to date, so the rule is all that is left to say. Every array has a
    # leading axis of replicas: theta (R, d), count (R,), arms (R, K, d) or, where all share them, (1, K, d).
    def log_probabilities(self, state: Any, arms: NDArray[np.float64]) -> NDArray[np.float64]:
        temperature = self.heat * self.noise_level(state) / np.sqrt(state.count + 1.0)
        score = (arms @ state.theta[:, :, None])[:, :, 0] / temperature[:, None]
        score -= score.max(axis=1, keepdims=True)
        result: NDArray[np.float64] = score - np.log(np.exp(score).sum(axis=1, keepdims=True))
        return result


if __name__ == "__main__":
    agent = Agent(Boltzmann(sigma=0.1), dim=2, seed=0)
    decision = agent.decide([[1.0, 0.0], [0.6, 0.8]])
    agent.learn(decision, reward=1.0)
    print(f"arm {decision.arm}, chosen with probability {decision.probability:.3f}")

    results = simulate(
        [Boltzmann(), LinMED()], UnitBall(arms=10, dim=5), horizon=1000, trials=20, progress=False
    )
    print(results)
