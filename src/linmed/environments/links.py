"""Rewards whose mean is a function of ⟨a, θ*⟩: clicks by the logistic link, counts by Poisson's."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from linmed import validation
from linmed.environments.logistic import expit
from linmed.environments.noise import NoisyEnvironment
from linmed.extras import Later
from linmed.validation import BadValue, Floats

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

    _later: ClassVar[tuple[str, ...]] = ("link", "intercept")
    """Parameters that problems did not have when their first results were stored."""

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.option("link", self.link, LINKS)
        self._set("intercept", validation.real("intercept", self.intercept))
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

    def identity(self) -> dict[str, Any]:
        """Without the parameters above where they are at their defaults: older results are still found."""
        fields = self.__dataclass_fields__
        unchanged = {name for name in self._later if getattr(self, name) == fields[name].default}
        return {name: value for name, value in super().identity().items() if name not in unchanged}


def counts(means: Floats, uniforms: Floats) -> Floats:
    """The smallest k with P(Poisson(mean) ≤ k) > u; the two broadcast. It grows with the mean and with u."""
    above = np.maximum(uniforms, 2.0**-53)  # at 0 the inverse is not defined
    near = np.ceil(special.pdtrik(above, means))
    # The inverse is searched for, and its last digits may be off: the law itself settles it.
    near = np.where(special.pdtr(near, means) > above, near, near + 1.0)
    lower = np.maximum(near - 1.0, 0.0)
    found: Floats = np.where(special.pdtr(lower, means) > above, lower, near)
    return found
