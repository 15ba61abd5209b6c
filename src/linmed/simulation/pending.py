"""Rewards on their way: what was played, what it paid, and the round after which that is known."""

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from linmed.validation import Floats, Ints


class Observation(NamedTuple):
    """What `Policy.learn` takes."""

    features: Floats  # (m, d)
    rewards: Floats  # (m,)
    replicas: Ints  # (m,)


class Pending:
    """Observations by the round they arrive in; within a round, in the order they were made."""

    def __init__(self) -> None:
        self._due: defaultdict[int, list[Observation]] = defaultdict(list)

    def add(self, round_: int, delays: Ints, seen: Observation) -> None:
        """Keep what was observed in this round.  delays (1,) for all replicas, or (R,)."""
        if len(delays) == 1:
            self._due[round_ + int(delays[0])].append(seen)
            return
        for delay in np.unique(delays):
            late = np.flatnonzero(delays == delay)
            part = Observation(seen.features[late], seen.rewards[late], seen.replicas[late])
            self._due[round_ + int(delay)].append(part)

    def arrive(self, round_: int) -> list[Observation]:
        """What becomes known after this round."""
        return self._due.pop(round_, [])
