"""Simulate the paper's problems: arms and θ* that stay the same through a trial."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from linmed import validation
from linmed.environments.base import Block, on_sphere
from linmed.environments.rewards import LinkedEnvironment, NoisyEnvironment
from linmed.validation import Floats


@dataclass(frozen=True)
class _Given(NoisyEnvironment):
    """Arms and θ* known from the parameters."""

    @abstractmethod
    def _problem(self) -> tuple[Floats, Floats]:
        """Arms (K, d) and θ* (d,)."""

    @cached_property
    def _block(self) -> tuple[Floats, Floats]:
        """Arms and means, the same arrays for every trial: the simulation sees that they are shared."""
        arms, theta = self._problem()
        return arms, self._valid(self._means(arms @ theta))

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """The given arms in every round."""
        arms, means = self._block
        while True:
            yield Block(arms, means, self._noise(rng))


@dataclass(frozen=True)
class FixedArms(LinkedEnvironment, _Given):
    """A set of arms and a θ* of one's own.

    >>> FixedArms([[1, 0], [0.6, 0.8]], theta=[1, 0], sigma=0.1).name
    'FixedArms(2 arms, dim=2, sigma=0.1)'
    >>> FixedArms([[1, 0], [0.6, 0.8]], theta=[1, 0], link="logistic", intercept=-3).name
    'FixedArms(2 arms, dim=2, link=logistic, intercept=-3.0)'

    >>> problem = FixedArms([[1, 0], [0.6, 0.8]], theta=[1, 0], sigma=0.1)
    >>> next(problem.blocks(np.random.default_rng(0))).means
    array([1. , 0.6])
    """

    arms: ArrayLike
    """(K, d)."""
    theta: ArrayLike
    """θ* (d,)."""
    sigma: float = 1.0
    """σ*: the true noise level."""

    def __post_init__(self) -> None:
        super().__post_init__()
        arms = validation.arm_matrix(self.arms)
        theta = validation.floats("theta", self.theta)
        if theta.shape != arms.shape[1:]:
            raise ValueError(
                f"theta has shape {theta.shape} but arms of shape {arms.shape} need {arms.shape[1:]}"
            )
        # Tuples, so that equal problems are equal, hashable and JSON-ready.
        self._set(arms=tuple(map(tuple, arms.tolist())), theta=tuple(theta.tolist()))
        self._block  # noqa: B018  (wrong means are refused here, not in the middle of a run)

    def _problem(self) -> tuple[Floats, Floats]:
        return np.array(self.arms), np.array(self.theta)

    @property
    def name(self) -> str:
        """How many arms and features, not each of them."""
        count, dim = np.shape(self.arms)
        law = f"sigma={self.sigma}" if self.link == "identity" else f"link={self.link}"
        beside = f", intercept={self.intercept}" if self.intercept else ""
        return f"FixedArms({count} arms, dim={dim}, {law}{beside})"


@dataclass(frozen=True)
class LargeGap(_Given):
    """Arms e₁, e₂ and θ* = e₁: one gap of 1, where √n regret is a waste.

    >>> next(LargeGap().blocks(np.random.default_rng(0))).means
    array([1., 0.])
    """

    sigma: float = 1.0
    """σ*: the true noise level."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_means(0.0, 1.0)

    def _problem(self) -> tuple[Floats, Floats]:
        return np.eye(2), np.array([1.0, 0.0])


@dataclass(frozen=True)
class EndOfOptimism(_Given):
    """Arms (1, 0), (0, 1), (1−ε, 2ε) and θ* = (1, 0): the bad arm (0, 1) is the informative one.

    Optimism stops playing (0, 1) long before ⟨θ*, e₂⟩ is known well enough to tell the other two
    apart (Lattimore and Szepesvári, The End of Optimism?, 2017).

    >>> block = next(EndOfOptimism(eps=0.1).blocks(np.random.default_rng(0)))
    >>> block.arms.tolist(), block.means
    ([[1.0, 0.0], [0.0, 1.0], [0.9, 0.2]], array([1. , 0. , 0.9]))
    """

    eps: float = 0.01
    """ε: the gap of the nearly optimal arm."""
    sigma: float = 0.1
    """σ*: the true noise level."""

    def __post_init__(self) -> None:
        super().__post_init__()
        eps = validation.real("eps", self.eps)
        if not 0.0 < eps <= 0.4:  # beyond 0.4 the third arm is longer than 1
            raise ValueError(
                f"eps must lie in (0, 0.4], so that every arm has norm at most 1, got {self.eps!r}"
            )
        self._set(eps=eps)
        self._check_means(0.0, 1.0)

    def _problem(self) -> tuple[Floats, Floats]:
        arms = np.array([[1.0, 0.0], [0.0, 1.0], [1.0 - self.eps, 2.0 * self.eps]])
        return arms, np.array([1.0, 0.0])


@dataclass(frozen=True)
class RepeatedArms(_Given):
    """The best arm (1, 0) = θ* and K − 1 copies of (0, 1): regret should not grow with K.

    >>> block = next(RepeatedArms(arms=4).blocks(np.random.default_rng(0)))
    >>> block.arms.tolist(), block.means
    ([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]], array([1., 0., 0., 0.]))
    """

    arms: int = 64
    """K."""
    sigma: float = 1.0
    """σ*: the true noise level."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_whole(arms=2)
        self._check_means(0.0, 1.0)

    def _problem(self) -> tuple[Floats, Floats]:
        arms = np.tile([0.0, 1.0], (self.arms, 1))
        arms[0] = 1.0, 0.0
        return arms, np.array([1.0, 0.0])


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
        self._check_whole(arms=1, dim=1)
        self._valid(self._means(np.array([-1.0, 1.0])))

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """θ* and the arms first, then noise."""
        theta = on_sphere(rng, self.dim)
        arms = on_sphere(rng, self.arms, self.dim)
        means = self._means(arms @ theta)
        while True:
            yield Block(arms, means, self._noise(rng))
