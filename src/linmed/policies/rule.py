"""What the ridge policies with directly computed probabilities share, and the floor that makes logs usable.

A policy that never plays some arms leaves a log from which their rewards cannot be estimated.
`floor=ε` mixes in the uniform distribution: p ← (1 − ε)p + ε/K.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Policy
from linmed.policies.ridge import RidgePolicy, RidgeState
from linmed.validation import Floats, Ints


@dataclass(frozen=True)
class RulePolicy(RidgePolicy):
    """A ridge policy that computes the probability of every arm and draws from it."""

    def _refuse_intercept(self) -> None:
        raise validation.BadValue(
            "intercept",
            f"intercept must be False for {type(self).__name__}: add a constant column to the features",
        )

    @property
    def evenly(self) -> float:
        """Share of the mass that is spread evenly over the arms."""
        return 0.0

    @abstractmethod
    def probabilities(self, state: RidgeState, arms: Floats) -> Floats:
        """The rule's own probabilities, a new array.  arms (R,K,d) or (1,K,d) → (R,K)."""

    def log_probabilities(self, state: RidgeState, arms: Floats) -> Floats:
        """log of the probability of every arm; −inf where it is zero.  arms → (R,K)."""
        p = self.probabilities(state, arms)
        core.take_logs(p, self.evenly)
        return p

    def choose(self, state: RidgeState, arms: Floats, noise: Floats) -> Ints:
        """Draw without taking logarithms."""
        out = np.empty(len(noise), dtype=np.int64)
        core.draw(self.probabilities(state, arms), self.evenly, validation.for_kernels(noise), out)
        return out


@dataclass(frozen=True)
class Floor(Policy):
    """A policy that gives some arms little probability or none, unless `floor` does."""

    floor: float = field(default=0.0, kw_only=True)
    """ε: share of the mass that is spread evenly over the arms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("floor", validation.between("floor", self.floor, 0.0, 1.0))

    @property
    def evenly(self) -> float:
        """ε."""
        return self.floor


@dataclass(frozen=True)
class Mixed(Floor):
    """A compiled policy whose rule knows no floor: `CompiledPolicy` mixes in the uniform distribution."""

    @property
    def _mixed(self) -> float:
        return self.floor

    def to_dict(self) -> dict[str, Any]:
        """The configuration; without a floor as it was before there was one, by which results are found."""
        return {name: value for name, value in super().to_dict().items() if name != "floor" or value}


@dataclass(frozen=True)
class Floored(Floor, RidgePolicy):
    """Such a policy that believes in a ridge estimate."""
