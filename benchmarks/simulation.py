"""What a round of `simulate` costs, and from which size on a second thread or process helps.

python benchmarks/simulation.py
"""

import time
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from linmed.environments import EndOfOptimism, Environment, UnitBall
from linmed.policies import LinMED, Policy
from linmed.simulation import processes, simulate


@dataclass(frozen=True)
class Idle(Policy):
    """Plays arm 0 and learns nothing: what is left is the loop and the random streams."""

    def start(self, replicas: int, dim: int) -> Any:
        return np.zeros(replicas, dtype=np.int64), np.zeros((replicas, dim))

    def log_probabilities(self, state: Any, arms: Any) -> Any:
        return np.zeros((len(state[0]), arms.shape[1]))

    def choose(self, state: Any, arms: Any, noise: Any) -> Any:
        return state[0]

    def features(self, state: Any, arms: Any, arm: Any) -> Any:
        return state[1]

    def learn(self, state: Any, features: Any, rewards: Any, replicas: Any) -> None:
        pass


def seconds(
    policies: list[Policy], environment: Environment, horizon: int, trials: int, **engine: Any
) -> float:
    began = time.perf_counter()
    simulate(policies, environment, horizon, trials, batch=trials, progress=False, **engine)
    return time.perf_counter() - began


def cost_of_a_round() -> None:
    print("µs per replica-round, one thread, EndOfOptimism (K=3, d=2)")
    for policy in (Idle(), LinMED(sigma=0.1, delta=0.01)):
        for replicas, horizon in ((1, 20_000), (20, 20_000), (180, 8_000)):
            seconds([policy], EndOfOptimism(), 100, replicas, workers=1)
            spent = min(seconds([policy], EndOfOptimism(), horizon, replicas, workers=1) for _ in range(3))
            print(f"  {policy.name:28} R={replicas:3}  {spent / horizon / replicas * 1e6:7.3f}")


def gain_of_a_second_worker(pool: Executor) -> None:
    print("two workers against one, two policies: R·K·d, threads, processes")
    pair: list[Policy] = [LinMED(sigma=0.1, label="one"), LinMED(sigma=0.1, label="two")]
    for environment, size in ((EndOfOptimism(), 6), (UnitBall(arms=10, dim=5), 50)):
        for replicas in (10, 40, 80, 160, 320):
            horizon = 200_000 // (replicas + 20)
            seconds(pair, environment, 100, replicas, executor=pool)
            one, two, far = (
                min(seconds(pair, environment, horizon, replicas, **engine) for _ in range(3))
                for engine in ({"workers": 1}, {"workers": 2}, {"executor": pool})
            )
            gains = f"{one / two:5.2f}  {one / far:5.2f}"
            print(f"  {environment.name:14} R={replicas:3}  {replicas * size:6}  {gains}")


if __name__ == "__main__":
    cost_of_a_round()
    with processes(2) as workers:
        gain_of_a_second_worker(workers)
