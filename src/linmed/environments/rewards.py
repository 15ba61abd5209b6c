"""Turn an arm's mean into a reward: laws of noise, links, clicks."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from linmed import validation
from linmed.core import core
from linmed.environments.base import LAST_ROUND, Environment
from linmed.extras import Later
from linmed.validation import BadValue, Floats, Ints

NoiseName = Literal["gaussian", "student-t", "bernoulli", "uniform", "signs", "coins"]
NAMES = ("gaussian", "student-t", "bernoulli", "uniform", "signs", "coins")
FLIPS = ("bernoulli", "coins")
"""Laws of the reward itself, whose spread depends on the mean; the others are added to it."""


@dataclass(frozen=True)
class NoisyEnvironment(Environment):
    """An environment whose rewards are a mean plus noise of standard deviation σ*, or coin flips."""

    noise: NoiseName = field(default="gaussian", kw_only=True)
    """Added to the mean, with standard deviation σ*: "gaussian", "uniform", "signs" (−σ* or σ*), "student-t".
    Coin flips with the arm's mean: "bernoulli", rewards 0 or 1, σ* unused; "coins", rewards −σ* or σ*, of
    standard deviation √(σ*² − mean²), for means in [−σ*, σ*]. "student-t" alone is not sub-Gaussian; the
    others are with σ* ("bernoulli" with 1/2)."""
    degrees: float = field(default=5.0, kw_only=True)
    """Degrees of freedom of Student's t, above 2 so that the variance exists."""

    @property
    @abstractmethod
    def sigma(self) -> float:
        """σ*: the true noise level. Subclasses make it a field, in the place that suits them."""

    def __post_init__(self) -> None:
        sigma = validation.between("sigma", self.sigma, 0.0, validation.LARGEST)
        validation.option("noise", self.noise, NAMES)
        self._set(sigma=sigma, degrees=validation.between("degrees", self.degrees, 2.0, validation.LARGEST))
        if self.degrees <= 2.0:
            raise ValueError(f"degrees must be above 2 for the noise to have a variance, got {self.degrees}")

    @property
    def additive(self) -> bool:
        """All but coin flips."""
        return type(self).rewards is NoisyEnvironment.rewards and self._added

    @property
    def _added(self) -> bool:
        """Whether the noise is added to the mean."""
        return self.noise not in FLIPS

    def rewards(self, means: Floats, noise: Floats) -> Floats:
        """mean + noise; with coin flips the higher reward where a uniform falls below its probability."""
        if self.noise == "bernoulli":
            return (noise < means).astype(np.float64)
        if self.noise == "coins":
            # σ(2u − 1) < mean has probability (1 + mean/σ)/2, also where σ = 0.
            return np.where(self.sigma * (2.0 * noise - 1.0) < means, self.sigma, -self.sigma)
        return means + noise

    def _means(self, scores: Floats) -> Floats:
        """The mean rewards of arms with these ⟨a, θ*⟩."""
        return scores

    def _noise(self, rng: np.random.Generator) -> Floats:
        """The noise of one block (rounds,)."""
        rounds, sigma = self.block_rounds, self.sigma
        if self.noise in FLIPS:
            return rng.random(rounds)
        if self.noise == "student-t":
            scale = sigma * np.sqrt((self.degrees - 2.0) / self.degrees)
            return np.asarray(scale * rng.standard_t(self.degrees, rounds))
        if self.noise == "uniform":
            return np.asarray(math.sqrt(3.0) * sigma * (2.0 * rng.random(rounds) - 1.0))
        if self.noise == "signs":
            return np.asarray(sigma * np.where(rng.random(rounds) < 0.5, -1.0, 1.0))
        return sigma * rng.standard_normal(rounds)

    def _valid(self, means: Floats) -> Floats:
        """`means`, if they can be means of this noise."""
        self._check_means(float(means.min()), float(means.max()))
        return means

    def _check_means(self, lowest: float, highest: float) -> None:
        """Refuse coin flips that cannot have means between these."""
        if self.noise not in FLIPS:
            return
        least, most = (0.0, 1.0) if self.noise == "bernoulli" else (-self.sigma, self.sigma)
        if lowest < least or highest > most:
            whose, others = type(self).__name__, "noise that is added ('gaussian', …) fits all means"
            hint = f"; sigma={max(-lowest, highest):g} would do" if self.noise == "coins" else ""
            raise ValueError(
                f"noise={self.noise!r} needs mean rewards in [{least:g}, {most:g}], but {whose} has "
                f"means from {lowest:g} to {highest:g}{hint}; {others}"
            )


def expit(scores: ArrayLike) -> Floats:
    """μ(z) = 1/(1 + e⁻ᶻ), with the core's exp: the same bits on every machine.

    >>> expit([0.0, 800.0, -800.0])
    array([0.5, 1. , 0. ])
    """
    z = np.asarray(scores, dtype=np.float64)
    powers = np.empty(z.size)
    core.functions.exp(np.ravel(-z), powers)
    odds: Floats = 1.0 / (1.0 + powers.reshape(z.shape))
    return odds


def logit(rates: ArrayLike) -> Floats:
    """The inverse of `expit`.

    >>> float(logit(0.5))
    0.0
    """
    p = np.asarray(rates, dtype=np.float64)
    found = np.empty(p.size)
    core.functions.log((p / (1.0 - p)).ravel(), found)
    return found.reshape(p.shape)


def root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing function crosses zero between two numbers, to the last digit: by halving.

    >>> root(lambda x: x**3 - 8.0, 0.0, 10.0)
    2.0
    """
    while low < (middle := 0.5 * (low + high)) < high:
        if excess(middle) < 0.0:
            low = middle
        else:
            high = middle
    return high


def gegenbauer_nodes(count: int, order: float) -> tuple[Floats, Floats]:
    """Gauss's quadrature for the weight (1 − x²)^(order − 1/2) on [−1, 1]: nodes, and weights of sum 1.

    The nodes are the eigenvalues of the Jacobi matrix of Gegenbauer's polynomials (Golub & Welsch 1969), and
    the weights 1/Σₖ pₖ(x)² over those polynomials, scaled to norm 1, of degrees below `count`.

    >>> nodes, weights = gegenbauer_nodes(20, 1.5)
    >>> abs(float(weights @ nodes**2) - 0.2) < 1e-15
    True
    """
    k = np.arange(1.0, count)
    beside = 0.5 * np.sqrt(k * (k + 2.0 * order - 1.0) / ((k + order) * (k + order - 1.0)))
    nodes = np.linalg.eigvalsh(np.diag(beside, 1) + np.diag(beside, -1))
    nodes = 0.5 * (nodes - nodes[::-1])  # they are symmetric, to the last digit too
    before, here, total = np.zeros(count), np.ones(count), np.ones(count)
    for i in range(count - 1):
        before, here = here, (nodes * here - (beside[i - 1] if i else 0.0) * before) / beside[i]
        total += here * here
    return nodes, 1.0 / total


special = Later("scipy.special", "link='poisson'", "paper")

LinkName = Literal["identity", "logistic", "poisson"]
LINKS = ("identity", "logistic", "poisson")
LARGEST_COUNT = 1e9
"""Means of counts beyond are refused: there the inverse of Poisson's law is no longer exact."""


@dataclass(frozen=True)
class LinkedEnvironment(NoisyEnvironment):
    """An environment whose mean rewards are μ(⟨a, θ*⟩ + intercept)."""

    link: LinkName = field(default="identity", kw_only=True)
    """μ, and with it the law of rewards. "identity": the mean plus `noise`; "logistic": 1 with probability
    μ(z) = 1/(1 + e⁻ᶻ), otherwise 0; "poisson": counts of mean μ(z) = eᶻ. The last two are laws of their own:
    `noise`, `degrees` and `sigma` would say nothing and must be left at their defaults."""
    intercept: float = field(default=0.0, kw_only=True)
    """Added to ⟨a, θ*⟩ of every arm: the log-odds, or the logarithm, of what an arm at zero pays."""

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.option("link", self.link, LINKS)
        self._set(intercept=validation.real("intercept", self.intercept))
        if self.link == "identity":
            return
        for name in ("noise", "degrees", "sigma"):
            default = self.__dataclass_fields__[name].default
            if getattr(self, name) != default:
                raise BadValue(
                    name,
                    f"{name} must be left at {default!r} with link={self.link!r}, whose rewards have a "
                    f"spread of their own, got {getattr(self, name)!r}",
                )

    @property
    def additive(self) -> bool:
        """Only where the mean is the score itself."""
        plain = type(self).rewards is LinkedEnvironment.rewards and self.link == "identity"
        return plain and self._added

    def rewards(self, means: Floats, noise: Floats) -> Floats:
        """Clicks and counts from one uniform, whichever arm is played: the law's inverse at it."""
        if self.link == "logistic":
            return (noise < means).astype(np.float64)
        if self.link == "poisson":
            return counts(means, noise)
        return super().rewards(means, noise)

    def _means(self, scores: Floats) -> Floats:
        shifted = scores + self.intercept if self.intercept else scores
        if self.link == "logistic":
            rates: Floats = expit(shifted)
            return rates
        # A mean too large for floats is too large for counts, too, and is named there.
        return np.exp(np.minimum(shifted, 700.0)) if self.link == "poisson" else shifted

    def _noise(self, rng: np.random.Generator) -> Floats:
        return super()._noise(rng) if self.link == "identity" else rng.random(self.block_rounds)

    def _valid(self, means: Floats) -> Floats:
        if self.link == "poisson" and means.max() > LARGEST_COUNT:
            raise BadValue(
                "intercept",
                f"link='poisson' needs mean counts of at most {LARGEST_COUNT:g}, but "
                f"{type(self).__name__} has means up to {means.max():g}: lower them by theta or intercept",
            )
        return super()._valid(means)


def counts(means: Floats, uniforms: Floats) -> Floats:
    """The smallest k with P(Poisson(mean) ≤ k) > u; the two broadcast. It grows with the mean and with u."""
    above = np.maximum(uniforms, 2.0**-53)  # at 0 the inverse is not defined
    near = np.ceil(special.pdtrik(above, means))
    # The inverse is searched for, and its last digits may be off: the law itself settles it.
    near = np.where(special.pdtr(near, means) > above, near, near + 1.0)
    lower = np.maximum(near - 1.0, 0.0)
    found: Floats = np.where(special.pdtr(lower, means) > above, lower, near)
    return found


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
        self._check_whole(clicks_after=1, timeout=0)
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
