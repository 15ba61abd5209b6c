"""Laws of noise: what is added to a mean, or turns it into a coin flip."""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from linmed import validation
from linmed.environments.base import Environment
from linmed.validation import Floats

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
        self._set("sigma", validation.between("sigma", self.sigma, 0.0, validation.LARGEST))
        validation.option("noise", self.noise, NAMES)
        self._set("degrees", validation.between("degrees", self.degrees, 2.0, validation.LARGEST))
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
