"""Arms and θ* drawn uniformly on the unit sphere, anew in each trial."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from linmed import validation
from linmed.environments.base import Block, on_sphere
from linmed.environments.links import LinkedEnvironment


@dataclass(frozen=True)
class UnitBall(LinkedEnvironment):
    """K arms and θ* uniform on the unit sphere of R^d; they stay the same through a trial.

    >>> block = next(UnitBall(arms=3, dim=2).blocks(np.random.default_rng(0)))
    >>> (block.arms**2).sum(axis=1).round(6), bool(np.abs(block.means).max() <= 1)
    (array([1., 1., 1.]), True)
    """

    arms: int = 10
    """K."""
    dim: int = 5
    """d."""
    sigma: float = 1.0
    """σ*: the true noise level."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("arms", validation.whole("arms", self.arms))
        self._set("dim", validation.whole("dim", self.dim))
        self._valid(self._means(np.array([-1.0, 1.0])))

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """θ* and the arms first, then noise."""
        theta = on_sphere(rng, self.dim)
        arms = on_sphere(rng, self.arms, self.dim)
        means = self._means(arms @ theta)
        while True:
            yield Block(arms, means, self._noise(rng))
