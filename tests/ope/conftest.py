import shlex
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from linmed.cli import main
from linmed.ope import DecisionLog


@dataclass
class Synthetic:
    """A log of a fixed random policy on a linear problem with Bernoulli rewards, and its truth."""

    log: DecisionLog
    columns: dict[str, Any]
    means: np.ndarray  # (n, K) expected reward of every arm

    def value(self, target: np.ndarray) -> float:
        return float((target * self.means).sum(axis=1).mean())


def synthetic(n: int, arms: int = 4, dim: int = 3, seed: int = 0) -> Synthetic:
    rng = np.random.default_rng(seed)
    features = rng.uniform(0, 1 / dim, size=(n, arms, dim))
    theta = np.linspace(0.2, 1.0, dim)
    means = features @ theta
    p = 0.8 * rng.dirichlet(np.ones(arms), size=n) + 0.2 / arms
    arm = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=arms - 1)
    rows = np.arange(n)
    reward = (rng.random(n) < means[rows, arm]).astype(float)
    columns = {
        "arm": arm,
        "probability": p[rows, arm],
        "reward": reward,
        "probabilities": p,
        "arms": features,
    }
    return Synthetic(DecisionLog.from_table(columns), columns, means)


@pytest.fixture(scope="session")
def small() -> Synthetic:
    return synthetic(500)


def command(capsys: pytest.CaptureFixture[str], words: str, **places: object) -> tuple[int, str, str]:
    """What a command line answers: status, output, errors. {names} in it stand for places."""
    shown = {name: str(place) for name, place in places.items()}
    status = main([word.format(**shown) for word in shlex.split(words)])
    return (status, *capsys.readouterr())
