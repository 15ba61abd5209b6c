"""Baselines: the empirically best arm with a share of exploration, and uniform play."""

from dataclasses import dataclass
from typing import Any, ClassVar

from linmed import validation
from linmed.core import core
from linmed.policies.base import Properties, parameter
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.ridge import RidgePolicy


@dataclass(frozen=True, kw_only=True)
class Greedy(RidgePolicy, CompiledPolicy):
    """Play argmax_a ⟨θ̂, a⟩ with probability 1 − ε and a uniformly drawn arm with probability ε.

    Ties go to the lowest index, so with ε = 0 it starts with arm 0 and may never leave it.

    `epsilon` is its own parameter; the others are those of `RidgePolicy`.

    >>> from linmed import Agent, Greedy
    >>> agent, arms = Agent(Greedy(epsilon=0.3), dim=2), [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    >>> agent.observe(arms * 5, [0.9, 0.1, 0.6] * 5)
    >>> agent.probabilities(arms).round(3)
    array([0.8, 0.1, 0.1])
    """

    epsilon: float = parameter(0.0, validation.between, 0.0, 1.0)
    """ε: share of uniform exploration."""

    without_floor: ClassVar[str] = "its epsilon is the share of uniform play, as in Greedy(epsilon=0.1)"
    properties: ClassVar[Properties] = Properties(
        "folklore", minimax="n", instance="n", all_arms="no (yes with epsilon > 0)"
    )

    @property
    def rule(self) -> Any:
        """The empirically best arm, and a share ε for all."""
        return core.GreedyRule(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class EpsilonGreedy(Greedy):
    """`Greedy` by the name most libraries give it, with a share of exploration to begin with.

    The parameters are those of `Greedy` and `RidgePolicy`.

    >>> EpsilonGreedy().epsilon, EpsilonGreedy(epsilon=0.05).name
    (0.1, 'EpsilonGreedy (epsilon=0.05)')
    """

    epsilon: float = 0.1
    """ε: share of uniform exploration."""

    properties: ClassVar[Properties] = Greedy.properties._replace(all_arms="yes")


@dataclass(frozen=True, kw_only=True)
class Uniform(RidgePolicy, CompiledPolicy):
    """Play every arm with probability 1/K. θ̂ is kept up to date, so the estimate can be read off.

    The parameters are those of `RidgePolicy`.

    >>> from linmed import Agent, Uniform
    >>> agent = Agent(Uniform(), dim=2)
    >>> agent.probabilities([[1.0, 0.0], [0.0, 1.0]])
    array([0.5, 0.5])
    """

    properties: ClassVar[Properties] = Properties("folklore", minimax="n", instance="n")

    @property
    def rule(self) -> Any:
        """1/K."""
        return core.UniformRule()
