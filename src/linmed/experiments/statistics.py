"""From trials to verdicts: a statistic, its standard error, and whether a statement about it is decided.

Trials are independent and every policy and setting meets trial i with the same random numbers, so all
samples are resampled by trial together: leaving out trial i everywhere (the jackknife) keeps the pairing.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import t as student

from linmed.checks import Floats, Ints

Verdict = Literal["holds", "fails", "undecided"]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number, its standard error (NaN with fewer than two trials) and the trials behind it."""

    value: float
    error: float
    trials: int

    @property
    def margin(self) -> float:
        """Half the width of the 95 % interval, by Student's t; infinite where nothing is known."""
        if self.trials < 2 or not math.isfinite(self.error):
            return math.inf
        return float(student.ppf(0.5 + CONFIDENCE / 2, self.trials - 1)) * self.error

    def above(self, limit: float) -> Verdict:
        """Is the true value above `limit`? Undecided while the interval contains it."""
        if self.value - self.margin > limit:
            return "holds"
        return "fails" if self.value + self.margin <= limit else "undecided"

    def below(self, limit: float) -> Verdict:
        """Is the true value below `limit`?"""
        return Estimate(-self.value, self.error, self.trials).above(-limit)

    def within(self, low: float, high: float) -> Verdict:
        """Does the true value lie between?"""
        return together([self.above(low), self.below(high)])

    def __str__(self) -> str:
        """value ± standard error."""
        digits = 0 if abs(self.value) >= 100 else 1 if abs(self.value) >= 10 else 2
        value = f"{round(self.value, digits) + 0.0:.{digits}f}"  # + 0.0: no minus before zero
        return value if not math.isfinite(self.error) else f"{value} ± {self.error:.{digits}f}"


def jackknife(statistic: Callable[..., float], *samples: Floats) -> Estimate:
    """The statistic of all trials, with its standard error from leaving each out in turn.

    `statistic` takes the samples, whose first axis is trials, and is smooth in their means. Samples with
    fewer trials than others (an interrupted run) are compared on the trials that all have.
    """
    trials = min(len(sample) for sample in samples)
    samples = tuple(sample[:trials] for sample in samples)
    if trials == 0:
        return Estimate(math.nan, math.nan, 0)
    # A regret of exactly zero has no logarithm: the statistic is then NaN, which decides nothing.
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(statistic(*samples))
        if trials == 1:
            return Estimate(value, math.nan, 1)
        keep = ~np.eye(trials, dtype=bool)
        left = np.array([statistic(*(sample[row] for sample in samples)) for row in keep])
        spread = float(((left - left.mean()) ** 2).sum())
    return Estimate(value, math.sqrt((trials - 1) / trials * spread), trials)


def mean(sample: Floats) -> Estimate:
    """The mean over trials."""
    trials = len(sample)
    error = float(sample.std(ddof=1)) / math.sqrt(trials) if trials > 1 else math.nan
    return Estimate(float(sample.mean()) if trials else math.nan, error, trials)


def ratio(a: Floats, b: Floats) -> Estimate:
    """mean(a) / mean(b) of paired trials."""
    return jackknife(lambda x, y: x.mean() / y.mean(), a, b)


def slope(rounds: Ints, curves: Floats, start: float) -> Estimate:
    """Exponent p of regret ∝ tᵖ from round `start` on: least squares on the logarithms of the mean curve."""
    late = rounds >= start
    x = np.log(rounds[late])

    return jackknife(lambda sample: _gradient(x, np.log(sample.mean(axis=0))), curves[:, late])


def growth(sizes: Iterable[float], *samples: Floats) -> Estimate:
    """Exponent p of mean ∝ sizeᵖ, one sample per size."""
    x = np.log(list(sizes))
    return jackknife(lambda *finals: _gradient(x, np.log([final.mean() for final in finals])), *samples)


def _gradient(x: Floats, y: Floats) -> float:
    """Slope of the least-squares line."""
    centred = x - x.mean()
    return float(centred @ y / (centred @ centred))


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Of statements that must all be true: one that fails fails the whole."""
    seen = set(verdicts)
    return "fails" if "fails" in seen else "undecided" if "undecided" in seen else "holds"


def deviation(sample: Floats) -> Estimate:
    """The standard deviation over trials; its error follows from that of the variance."""
    trials = len(sample)
    if trials < 2:
        return Estimate(math.nan, math.nan, trials)
    squares = (sample - sample.mean()) ** 2
    value = math.sqrt(float(squares.sum()) / (trials - 1))
    error = float(squares.std(ddof=1)) / math.sqrt(trials) / (2.0 * value) if value > 0.0 else 0.0
    return Estimate(value, error, trials)
