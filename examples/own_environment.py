"""An environment of one's own: arms that change with the season.

Run it: python examples/own_environment.py
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from linmed.environments import Block, Environment
from linmed.policies import LinMED, LinMEDNoDesign
from linmed.simulation import simulate


@dataclass(frozen=True)
class Seasons(Environment):
    """Three products whose features turn through a circle once every `year` rounds; one fixed taste θ*."""

    year: int = 365
    sigma: float = 0.3

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        # What stays the same through a trial is drawn first ...
        angle = rng.uniform(0, 2 * np.pi)
        taste = np.array([np.cos(angle), np.sin(angle)])  # θ*, of norm 1
        shift = np.arange(3) * 2 * np.pi / 3
        first = 0
        while True:  # ... then rounds, block after block, for ever.
            t = np.arange(first, first + self.block_rounds)
            phase = 2 * np.pi * t[:, None] / self.year + shift  # (rounds, 3)
            arms = np.stack([np.cos(phase), np.sin(phase)], axis=-1)  # (rounds, 3, 2)
            noise = self.sigma * rng.standard_normal(self.block_rounds)
            yield Block(arms, arms @ taste, noise)
            first += self.block_rounds


if __name__ == "__main__":
    results = simulate([LinMED(sigma=0.3), LinMEDNoDesign(sigma=0.3)], Seasons(), horizon=2000, trials=20)
    print(results)
