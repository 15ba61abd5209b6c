"""Uniform exploration."""

from dataclasses import dataclass
from typing import Any, ClassVar

from linmed.core import core
from linmed.policies.base import Properties
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.ridge import RidgePolicy


@dataclass(frozen=True)
class Uniform(RidgePolicy, CompiledPolicy):
    """Play every arm with probability 1/K. θ̂ is kept up to date, so the estimate can be read off.

    The parameters are those of `RidgePolicy`.

    >>> from linmed import Agent, Uniform
    >>> agent = Agent(Uniform(), dim=2)
    >>> agent.probabilities([[1.0, 0.0], [0.0, 1.0]])
    array([0.5, 0.5])
    """

    properties: ClassVar[Properties] = Properties(
        reference="folklore",
        minimax="n",
        instance="n",
        computable="closed form",
        all_arms="yes",
        randomised=True,
    )

    @property
    def rule(self) -> Any:
        """1/K."""
        return core.UniformRule()
