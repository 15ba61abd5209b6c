"""Simulate worlds that change: the arms stay, θ* moves. Regret is against the best arm of each round.

A trial has the arms, the first θ* and the noise of `UnitBall` with the same parameters: where θ* goes from
there comes from another stream. Everywhere ‖θ*‖ = 1. `Pricing` has a demand that changes once.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from linmed import validation
from linmed.environments.base import LAST_ROUND, Block, changed_once, on_sphere
from linmed.environments.rewards import NoisyEnvironment
from linmed.environments.synthetic import UnitBall
from linmed.validation import Floats


@dataclass(frozen=True)
class _MovingBall(UnitBall):
    """Arms uniform on the unit sphere, and a θ* on it that moves; a subclass says how."""

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """θ* and the arms first, then noise; where θ* goes is drawn apart."""
        (moves,) = rng.spawn(1)
        theta = on_sphere(rng, self.dim)
        arms = on_sphere(rng, self.arms, self.dim)
        at_rest = self._means(arms @ theta)
        for path in self._paths(theta, moves):
            if len(path) > 1:
                means = self._means(np.einsum("td,kd->tk", path, arms))
            else:
                if not np.array_equal(path[0], theta):  # otherwise the array that the simulation has already
                    theta, at_rest = path[0], self._means(arms @ path[0])
                means = at_rest
            yield Block(arms, means, self._noise(rng))

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_whole(dim=2)  # a sphere on which to move

    @abstractmethod
    def _paths(self, theta: Floats, rng: np.random.Generator) -> Iterator[Floats]:
        """θ* in the rounds of one block after the other: (rounds, d), or (1, d) where it rests."""


@dataclass(frozen=True)
class _Jumping(_MovingBall):
    """θ* jumps before some rounds and rests between."""

    distance: float | None = field(default=None, kw_only=True)
    """‖Δθ*‖ of a jump, up to 2; None: the new θ* is anywhere on the sphere."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distance is not None:
            self._set(distance=_distance(self.distance))

    @abstractmethod
    def _jumps(self) -> Iterator[int]:
        """Rounds, from 0, before which θ* jumps, in order."""

    def _paths(self, theta: Floats, rng: np.random.Generator) -> Iterator[Floats]:
        jumps, first = self._jumps(), 0
        jump = next(jumps, LAST_ROUND)
        while True:
            path, last = theta[None], first + self.block_rounds
            while jump < last:
                path = np.broadcast_to(path, (self.block_rounds, self.dim)).copy() if len(path) == 1 else path
                theta = self._elsewhere(theta, rng)
                path[jump - first :] = theta
                jump = next(jumps, LAST_ROUND)
            yield path
            first = last

    def _elsewhere(self, theta: Floats, rng: np.random.Generator) -> Floats:
        if self.distance is None:
            return on_sphere(rng, self.dim)
        return turned(theta, across(theta, rng), 2.0 * math.asin(self.distance / 2.0))


@dataclass(frozen=True)
class OneChange(_Jumping):
    """θ* changes once: the rounds after the `at`-th have another one.

    >>> OneChange(at=1500, sigma=0.3).name
    'OneChange(sigma=0.3)'

    >>> blocks = OneChange(at=1024, arms=4, dim=2).blocks(np.random.default_rng(0))
    >>> before, after = next(blocks), next(blocks)
    >>> bool((before.arms == after.arms).all()), bool((before.means == after.means).any())
    (True, False)
    """

    at: int = 1500
    """Rounds before the change."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_whole(at=1)

    def _jumps(self) -> Iterator[int]:
        yield self.at


@dataclass(frozen=True)
class ChangeEvery(_Jumping):
    """θ* changes again and again, after every so many rounds.

    >>> block = next(ChangeEvery(every=500).blocks(np.random.default_rng(0)))
    >>> [t for t in range(1, 1024) if (block.means[t] != block.means[t - 1]).any()]
    [500, 1000]
    """

    every: int = 500
    """Rounds from one change to the next."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_whole(every=1)

    def _jumps(self) -> Iterator[int]:
        yield from range(self.every, LAST_ROUND, self.every)


@dataclass(frozen=True)
class RandomWalk(_MovingBall):
    """θ* wanders: before every round step·N(0, I) is added to it, and it is put back onto the sphere.

    >>> block = next(RandomWalk(step=0.01).blocks(np.random.default_rng(0)))
    >>> bool(np.abs(np.diff(block.means, axis=0)).max() < 0.1)
    True
    """

    step: float = 0.01
    """Standard deviation of a step in each coordinate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(step=validation.positive("step", self.step))

    def _paths(self, theta: Floats, rng: np.random.Generator) -> Iterator[Floats]:
        theta, first = theta.copy(), True
        while True:
            path = self.step * rng.standard_normal((self.block_rounds, self.dim))
            for t in range(len(path)):
                if first:  # nothing comes before the first round
                    path[t], first = 0.0, False
                theta += path[t]
                theta /= math.sqrt((theta * theta).sum())
                path[t] = theta
            yield path


@dataclass(frozen=True)
class Season(_MovingBall):
    """θ* swings on an arc, there and back in every period: what comes has been there before.

    θ*_t = cos(φ_t) u + sin(φ_t) v with φ_t = φ sin(2πt/period), where u is the first θ* and v is across it.

    >>> block = next(Season(period=100).blocks(np.random.default_rng(0)))
    >>> bool(np.allclose(block.means[:100], block.means[100:200]))
    True
    """

    period: int = 1000
    """Rounds of a year."""
    distance: float = field(default=1.0, kw_only=True)
    """‖θ*(summer) − θ*(winter)‖ = 2 sin φ, up to 2."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_whole(period=2)
        self._set(distance=_distance(self.distance))

    def _paths(self, theta: Floats, rng: np.random.Generator) -> Iterator[Floats]:
        aside, widest, first = across(theta, rng), math.asin(self.distance / 2.0), 0
        while True:
            t = np.arange(first, first + self.block_rounds) % self.period
            angle = widest * np.sin(2.0 * math.pi * t / self.period)
            yield np.cos(angle)[:, None] * theta + np.sin(angle)[:, None] * aside
            first += self.block_rounds


def _distance(value: float) -> float:
    """A checked ‖Δθ*‖ on the unit sphere."""
    if validation.between("distance", value, 0.0, 2.0) == 0.0:
        raise validation.BadValue(
            "distance", "distance must be above 0, or nothing changes, and at most 2, got 0"
        )
    return float(value)


def across(theta: Floats, rng: np.random.Generator) -> Floats:
    """A unit vector at right angles to θ, in any direction."""
    aside = rng.standard_normal(len(theta))
    aside -= (aside * theta).sum() * theta
    aside /= math.sqrt((aside * aside).sum())
    return aside


def turned(theta: Floats, aside: Floats, angle: float) -> Floats:
    """θ turned by an angle towards a unit vector across it."""
    return math.cos(angle) * theta + math.sin(angle) * aside


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
        self._check_whole(prices=2, at=1)
        self._check_means(0.0, 0.5)

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """Both demands first, then noise."""
        price = np.arange(1, self.prices + 1) / self.prices
        arms = np.stack([price, price * price], axis=1) / math.sqrt(2.0)
        before, after = (price - price * price / value for value in rng.uniform(1.0, 2.0, 2))
        for means in changed_once(before, after, self.at, self.block_rounds):
            yield Block(arms, means, self._noise(rng))
