"""Rewards that are clicks: 1 or 0, and where they are late, a non-click is known only by a timeout."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from linmed import validation
from linmed.environments.base import LAST_ROUND, Environment
from linmed.validation import Floats, Ints


@dataclass(frozen=True)
class ClickEnvironment(Environment):
    """An environment whose means are click rates. Subclasses have the two fields below, where it suits them.

    Lateness has a stream of its own: `(waiting,) = rng.spawn(1)` before anything else leaves the rest of a
    trial as it is without.
    """

    @property
    @abstractmethod
    def clicks_after(self) -> int:
        """Rounds until a click is known, in the mean of a geometric law."""

    @property
    @abstractmethod
    def timeout(self) -> int:
        """Rounds after which no click is a non-click, and clicks are known at the latest; 0: all at once."""

    def __post_init__(self) -> None:
        self._set("clicks_after", validation.whole("clicks_after", self.clicks_after))
        self._set("timeout", validation.whole("timeout", self.timeout, at_least=0))
        validation.between("timeout", self.timeout, 0, LAST_ROUND)

    def rewards(self, means: Floats, noise: Floats) -> Floats:
        """1 for a click, 0 for none."""
        return (noise < means).astype(np.float64)

    def known_after(self, rewards: Floats, delays: Ints) -> Ints:
        """A click as soon as it was made, that there was none after the timeout."""
        return np.where(rewards > 0.0, delays, self.timeout)

    def _delays(self, waiting: np.random.Generator) -> Ints | None:
        """When the clicks of one block would be known."""
        if not self.timeout:
            return None
        return np.minimum(waiting.geometric(1.0 / self.clicks_after, self.block_rounds), self.timeout)
