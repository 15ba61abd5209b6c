"""Clicks by a logistic model: a base rate, features that raise or lower it, nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from linmed import validation
from linmed.environments.base import Block, on_sphere
from linmed.environments.click_rewards import ClickEnvironment
from linmed.environments.logistic import expit, gegenbauer_nodes, logit, root
from linmed.validation import Floats

NODES = 200
"""Of the quadrature for the mean rate: enough for any `norm` below."""
STEEPEST = 100.0
"""Largest `norm`: e¹⁰⁰ to 1 are odds enough."""


@dataclass(frozen=True)
class Clicks(ClickEnvironment):
    """Reward 1 with probability μ(c + ⟨x, w⟩), for x on the unit sphere, ‖w‖ = `norm`, μ(z) = 1/(1 + e⁻ᶻ).

    x is uniform, and w is drawn once a trial. c follows from `rate`, the mean of μ(c + ⟨x, w⟩) over the
    sphere, which is the same for every w. An arm is (x, 1)/√2, so that its norm is 1 and linear policies can
    learn the base rate; θ* is then √2 (w, c), of norm `theta_norm`. An arm pays the same wherever it stands
    in the list.

    >>> problem = Clicks(rate=0.055, norm=4.0)
    >>> round(problem.intercept, 2), round(problem.theta_norm, 1)
    (-4.02, 8.0)

    >>> block = next(problem.blocks(np.random.default_rng(0)))
    >>> block.arms.shape, bool((block.means > 0).all())
    ((10, 6), True)
    """

    rate: float = 0.05
    """Mean click rate of a random arm."""
    norm: float = 3.0
    """‖w‖: how much the features matter; the log-odds of arms lie within c ± norm."""
    arms: int = 10
    """K."""
    dim: int = 5
    """Features of x."""
    changing: bool = False
    """Whether every round has arms of its own; otherwise they are drawn once a trial."""
    constant: bool = True
    """Whether arms have the constant feature; without it they are x alone."""
    clicks_after: int = 50
    """Rounds until a click is known, in the mean of a geometric law."""
    timeout: int = 0
    """Rounds after which no click is a non-click, and clicks are known at the latest; 0: all at once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("rate", validation.strictly_between("rate", self.rate, 0.0, 1.0))
        self._set("norm", validation.between("norm", self.norm, 0.0, STEEPEST))
        for name in ("arms", "dim"):
            self._set(name, validation.whole(name, getattr(self, name)))
        for name in ("changing", "constant"):
            self._set(name, validation.flag(name, getattr(self, name)))

    @property
    def block_rounds(self) -> int:  # type: ignore[override]
        """At most two megabytes of arms."""
        return max(1, min(1024, (1 << 18) // (self.arms * (self.dim + 1))))

    @cached_property
    def intercept(self) -> float:
        """c, at which a random arm is clicked with probability `rate`."""
        centre = float(logit(self.rate))
        if self.norm == 0.0:
            return centre
        scores, weights = self._scores

        def excess(c: float) -> float:
            return float(weights @ expit(c + scores)) - self.rate

        return root(excess, centre - self.norm, centre + self.norm)

    @property
    def theta_norm(self) -> float:
        """‖θ*‖ for arms as they are given."""
        return float(np.sqrt(2.0) * np.hypot(self.norm, self.intercept)) if self.constant else self.norm

    @property
    def _scores(self) -> tuple[Floats, Floats]:
        """⟨x, w⟩ of a random x as values with probabilities, a quadrature of (1 − t²)^((d−3)/2)."""
        if self.dim == 1:
            return self.norm * np.array([-1.0, 1.0]), np.array([0.5, 0.5])
        if self.dim == 2:  # the arcsine law: Chebyshev's nodes, which have equal weights
            nodes, weights = np.cos((np.arange(NODES) + 0.5) * np.pi / NODES), np.ones(NODES)
        else:
            nodes, weights = gegenbauer_nodes(NODES, (self.dim - 2) / 2.0)
        return self.norm * nodes, weights / weights.sum()

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """w first, then the arms, once or for every round, and clicks."""
        (waiting,) = rng.spawn(1)
        w = self.norm * on_sphere(rng, self.dim)
        shape = (self.block_rounds, self.arms) if self.changing else (self.arms,)
        arms, rates = self._drawn(rng, w, shape)
        while True:
            yield Block(arms, rates, rng.random(self.block_rounds), self._delays(waiting))
            if self.changing:
                arms, rates = self._drawn(rng, w, shape)

    def _drawn(self, rng: np.random.Generator, w: Floats, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Arms and their click rates."""
        x = on_sphere(rng, *shape, self.dim)
        rates: Floats = expit(self.intercept + x @ w)
        if not self.constant:
            return x, rates
        return np.sqrt(0.5) * np.concatenate([x, np.ones((*shape, 1))], axis=-1), rates


@dataclass(frozen=True)
class ClicksChange(Clicks):
    """`Clicks` whose w is drawn anew once: the rounds after the `at`-th have another one.

    Until then a trial is that of `Clicks` with the same parameters. Where arms are fixed they stay; the mean
    rate over all arms there could be stays the same, too.

    >>> block = next(ClicksChange(at=500).blocks(np.random.default_rng(0)))
    >>> bool((block.means[499] == block.means[0]).all()), bool((block.means[500] == block.means[0]).any())
    (True, False)
    """

    at: int = 1500
    """Rounds before the change."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("at", validation.whole("at", self.at))
        if self.changing:
            raise validation.BadValue(
                "changing", "changing must be False here: the arms stay, what is liked moves"
            )

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """As of `Clicks`, with other rates from the change on, which come from a stream of their own."""
        waiting, moved = rng.spawn(2)
        w, after = (self.norm * on_sphere(one, self.dim) for one in (rng, moved))
        arms, rates = self._drawn(rng, w, (self.arms,))
        x = arms if not self.constant else np.sqrt(2.0) * arms[:, :-1]
        other: Floats = expit(self.intercept + x @ after)
        first = 0
        while True:
            last = first + self.block_rounds
            own = rates if last <= self.at else other
            if first < self.at < last:
                own = np.where(np.arange(first, last)[:, None] < self.at, rates, other)
            yield Block(arms, own, rng.random(self.block_rounds), self._delays(waiting))
            first = last
