"""Prices: what a day earns at each, and a demand that changes once."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from linmed import validation
from linmed.environments.base import Block
from linmed.environments.noise import NoisyEnvironment


@dataclass(frozen=True)
class Pricing(NoisyEnvironment):
    """K prices p from 1/K to 1; buyers value the thing at up to v, evenly: a share 1 − p/v of them pays p.

    A day earns p − p²/v in the mean, which is linear in the arm (p, p²)/√2, with ‖θ*‖ ≤ 2. In every trial v
    is drawn evenly from [1, 2], and again after `at` rounds: the best price is v/2, from a half to one.

    >>> block = next(Pricing(prices=4).blocks(np.random.default_rng(0)))
    >>> prices = math.sqrt(2) * block.arms[:, 0]
    >>> prices.round(2), bool(prices[block.means.argmax()] >= 0.5)
    (array([0.25, 0.5 , 0.75, 1.  ]), True)
    """

    prices: int = 20
    """K."""
    at: int = 1500
    """Rounds before demand changes."""
    sigma: float = 0.1
    """σ*: the noise of what a day earns."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("prices", validation.whole("prices", self.prices, at_least=2))
        self._set("at", validation.whole("at", self.at))
        self._check_means(0.0, 0.5)

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """Both demands first, then noise."""
        price = np.arange(1, self.prices + 1) / self.prices
        arms = np.stack([price, price * price], axis=1) / math.sqrt(2.0)
        before, after = (price - price * price / value for value in rng.uniform(1.0, 2.0, 2))
        first = 0
        while True:
            last = first + self.block_rounds
            means = before if last <= self.at else after
            if first < self.at < last:
                means = np.where(np.arange(first, last)[:, None] < self.at, before, after)
            yield Block(arms, means, self._noise(rng))
            first = last
