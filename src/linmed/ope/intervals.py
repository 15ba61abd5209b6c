"""Sum up a log of any length by sums that merge, and make intervals of them by limit theorems.

What makes each interval valid is said with it; `sequences` needs no limit.
"""

import math
import warnings
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from linmed.core import core
from linmed.validation import Floats, Ints

Terms = tuple[Floats | None, Floats | None, Floats | None]
"""(x, y, z) of n decisions, each (n,), None for zero."""


class Moments:
    """Count, means and centred second moments of (x, y, z): merges exactly, streams in one pass."""

    def __init__(self) -> None:
        self.n = 0
        self.ratio = False  # whether there are y and z
        self.mean = np.zeros(3)
        self.scatter = np.zeros((3, 3))

    def add(self, x: Floats | None, y: Floats | None = None, z: Floats | None = None) -> None:
        """Absorb n decisions."""
        there = [(i, column) for i, column in enumerate((x, y, z)) if column is not None]
        other = Moments()
        other.n, other.ratio = there[0][1].size, z is not None
        if x is not None and len(there) == 1:
            other.mean[0], other.scatter[0, 0] = core.moments(x)
        else:
            for i, column in there:
                other.mean[i] = np.mean(column)
            centred = [(i, column - other.mean[i]) for i, column in there]
            for a, left in centred:
                for b, right in centred:
                    # Not a BLAS product: its threads cost more than this sum.
                    other.scatter[a, b] = np.einsum("i,i->", left, right)
        self.merge(other)

    def merge(self, other: "Moments") -> None:
        """Absorb another summary (Chan, Golub & LeVeque 1983)."""
        if other.n == 0:
            return
        self.ratio |= other.ratio
        total = self.n + other.n
        step = other.mean - self.mean
        self.scatter += other.scatter + np.outer(step, step) * (self.n * other.n / total)
        self.mean = self.mean + step * (other.n / total)
        self.n = total

    @property
    def estimate(self) -> float:
        """mean(x) + Σ y / Σ z; NaN where Σ z is zero, as where a target never agrees with the log."""
        x, y, z = map(float, self.mean)
        if self.ratio:
            return x + y / z if z else math.nan
        return x

    @property
    def standard_error(self) -> float:
        """By the delta method: the term of decision t is x_t + (y_t − R z_t)/mean(z), R = Σ y / Σ z."""
        direction = np.array([1.0, 0.0, 0.0])
        if self.ratio:
            _, y, z = map(float, self.mean)
            direction[1:] = (1.0 / z, -y / z / z) if z else math.nan
        variance = float(direction @ self.scatter @ direction) / max(self.n - 1, 1)
        return float(np.sqrt(max(variance, 0.0) / self.n))

    @property
    def effective(self) -> float:
        """(Σx)²/Σx²: of weights, how many decisions of the target's own these are worth."""
        squares = self.scatter[0, 0] + self.n * self.mean[0] ** 2
        return float((self.n * self.mean[0]) ** 2 / squares) if squares else 0.0


BETS = 4.0 * 0.5 ** np.arange(24.0)
REFUTED = 1e-3
"""How probable it is, ever, that true probabilities are called wrong."""


def log_gains(total: float | Floats, squares: float | Floats, n: float) -> Floats:
    """Bound log Π_i (1 + γ w_i)/(1 + γ) of every bet γ from below by Σ w, Σ w² and n.  (24, …)

    The mean over bets is an e-value against weights with conditional means of at most one, as with true
    probabilities: it exceeds 1/α ever with probability at most α (Ville). log(1 + x) ≥ x − x²/2 for x ≥ 0.
    """
    cost = n * np.log1p(BETS).reshape(-1, *[1] * np.ndim(total))
    gains: Floats = np.multiply.outer(BETS, total) - np.multiply.outer(0.5 * BETS**2, squares) - cost
    return gains


def refutes(gains: Floats) -> bool:
    """Whether the e-value that is the mean of these gains is too large for chance."""
    return float(np.logaddexp.reduce(gains, axis=None)) - math.log(gains.size) >= -math.log(REFUTED)


@dataclass
class Extremes:
    """How many rewards lie at the lowest and at the highest that was seen; merges."""

    count: int = 0
    low: float = math.inf
    at_low: int = 0
    high: float = -math.inf
    at_high: int = 0

    def merge(self, other: "Extremes") -> None:
        """Absorb another summary."""
        self.count += other.count
        if other.low <= self.low:
            self.at_low = other.at_low + (self.at_low if other.low == self.low else 0)
            self.low = other.low
        if other.high >= self.high:
            self.at_high = other.at_high + (self.at_high if other.high == self.high else 0)
            self.high = other.high

    @property
    def telling(self) -> int:
        """Count those that differ from the more frequent of the two ends: of clicks, the fewer kind."""
        return self.count - max(self.at_low, self.at_high)


class Weights:
    """What is to be known of a target's weights, and of the rewards that they fell on; merges."""

    def __init__(self) -> None:
        self.moments = Moments()
        self.largest = 0.0
        self.lost = 0.0  # Σ of the target's mass on arms that could not be played, as far as is known
        self.rewards = Extremes()

    def add(self, weight: Floats, reward: Floats) -> None:
        """Absorb n decisions."""
        self.moments.add(weight)
        largest, count, low, at_low, high, at_high = core.ends_of_rewards(weight, reward)
        self.largest = max(self.largest, largest)
        self.rewards.merge(Extremes(int(count), low, int(at_low), high, int(at_high)))

    def merge(self, other: "Weights") -> None:
        """Absorb another summary."""
        self.moments.merge(other.moments)
        self.largest = max(self.largest, other.largest)
        self.lost += other.lost
        self.rewards.merge(other.rewards)

    @property
    def mean(self) -> float:
        """Mean weight: one, less the target's mass on arms that could not be logged."""
        return float(self.moments.mean[0])

    @property
    def refuted(self) -> bool:
        """Whether the logged probabilities, or the target's own, cannot be true."""
        n = self.moments.n
        squares = float(self.moments.scatter[0, 0]) + n * self.mean * self.mean
        return n > 0 and refutes(log_gains(n * self.mean, squares, n))


class Played:
    """How often arms were played against how probable that was: Σ 1/p and Σ 1/p² of each; merges.

    With true probabilities 1{played}/p has mean one, or zero where the arm cannot be played, for every arm.
    """

    MOST = 1 << 17
    """Decisions of a part of a log that are looked at: wrong probabilities show in far fewer."""
    ARMS = 1 << 12
    """Arms that are told apart."""

    def __init__(self) -> None:
        self.decisions = 0
        self.sums = np.zeros((0, 2))
        self.again = np.zeros(3)  # of arms that follow themselves: Σ 1/p, Σ 1/p², and how many could have

    def add(self, arm: Ints, probability: Floats) -> None:
        """Absorb n decisions."""
        if self.decisions >= self.MOST or not arm.size:
            return
        inverse = 1.0 / probability  # 0 on fallback rows: what an arm's probability tells is its other routes
        counted, own = arm, inverse
        if int(arm.max()) >= self.ARMS:  # arms beyond are not looked at, but their decisions took place
            counted, own = arm[arm < self.ARMS], inverse[arm < self.ARMS]
        self._grow(int(counted.max(initial=-1)) + 1)
        columns = [np.bincount(counted, weights, len(self.sums)) for weights in (own, own * own)]
        self.sums += np.stack(columns, axis=1)
        self.decisions += arm.size
        same = inverse[1:][arm[1:] == arm[:-1]]
        self.again += same.sum(), (same * same).sum(), arm.size - 1

    def merge(self, other: "Played") -> None:
        """Absorb another summary."""
        self._grow(len(other.sums))
        self.sums[: len(other.sums)] += other.sums
        self.decisions += other.decisions
        self.again += other.again

    def _grow(self, size: int) -> None:
        if size > len(self.sums):
            self.sums = np.pad(self.sums, ((0, size - len(self.sums)), (0, 0)))

    @property
    def overplayed(self) -> tuple[int, float] | None:
        """Name an arm that was played too often, and how many times as often as its probabilities say."""
        gains = log_gains(self.sums[:, 0], self.sums[:, 1], self.decisions)
        if not gains.size or not refutes(gains):
            return None
        arm = int(np.argmax(gains.max(axis=0)))
        return arm, float(self.sums[arm, 0]) / self.decisions

    @property
    def clustered(self) -> float | None:
        """How many times as often as by their probabilities arms follow themselves, if too often; or None.

        1{the arm before is played again}/p has mean one, or zero, as well: more shows rows that are sorted.
        """
        total, squares, count = self.again
        return float(total / count) if refutes(log_gains(total, squares, count)) else None


class OPEWarning(UserWarning):
    """A number that should not be taken at its face: why, and what to do.

    >>> import warnings
    >>> from linmed.ope import DecisionLog, evaluate
    >>> played = {"arm": [0] * 99 + [1], "probability": [0.99] * 99 + [0.01], "reward": [1.0] * 100}
    >>> with warnings.catch_warnings(record=True) as doubts:
    ...     warnings.simplefilter("always", OPEWarning)
    ...     found = evaluate(DecisionLog.from_table(played), "arm:1", "ipw")
    >>> len(doubts) > 0, all(issubclass(doubt.category, OPEWarning) for doubt in doubts)
    (True, True)
    """


PLANNED = 100_000
"""Decisions at which the asymptotic sequence is narrowest."""
CERTAINTY = 1e-5
"""Of its ends: an interval narrower than this is rounding, not knowledge."""


def honest(low: float, high: float) -> tuple[float, float]:
    """Give the interval, or NaN where nothing varied but the last digits."""
    return (low, high) if high - low > CERTAINTY * max(abs(low), abs(high)) else (math.nan, math.nan)


def quantile(confidence: float) -> float:
    """Find z with P(|N(0,1)| ≤ z) = confidence."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def asymptotic_quantile(n: int, confidence: float) -> float:
    """Find z_n with |mean − truth| ≤ z_n SE at every large n at once, with probability `confidence`.

    Robbins' mixture: a Brownian motion W leaves ±√((n + 1/ρ²)(log(1 + nρ²) + 2 log(1/α))) ever with
    probability α; the mean of the terms follows one as n grows. ρ² makes it narrowest at PLANNED.
    Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas (2021).
    """
    level = -2.0 * math.log(1.0 - confidence)
    rho2 = (level + math.log1p(level)) / PLANNED
    return math.sqrt((1.0 + 1.0 / (n * rho2)) * (math.log1p(n * rho2) + level))


def asymptotic(moments: Moments, confidence: float) -> tuple[float, float]:
    """estimate ± z_n·SE: for any n that is large, and all of them at once; also where the value drifts."""
    half = asymptotic_quantile(moments.n, confidence) * moments.standard_error
    return moments.estimate - half, moments.estimate + half


def normal(moments: Moments, confidence: float) -> tuple[float, float]:
    """Make estimate ± z·SE by the central limit theorem.

    Valid for independent decisions (a logging policy that did not learn) and many of them; not for a
    number of decisions chosen by looking at the results.
    """
    half = quantile(confidence) * moments.standard_error
    return moments.estimate - half, moments.estimate + half


def limit(kind: str, moments: Moments, confidence: float) -> tuple[float, float]:
    """Make the interval of that name of a mean, "normal" or "asymptotic"; of "none" NaN."""
    if kind == "none":
        return math.nan, math.nan
    return (asymptotic if kind == "asymptotic" else normal)(moments, confidence)


class StableVariance:
    """Variance-stabilised adaptive weighting: Q̂ = Σ h_t Γ_t / Σ h_t with h_t known before decision t.

    Γ_t are IPW or DR terms. h_t = m_t^{−1/2}, m_t a moving average over the past of Σ_a π(a)²/p(a), the
    size of Γ's conditional variance by every arm's logged probability. Then Σ h_t (Γ_t − ν) is a martingale
    with increments of stable variance and Q̂ is asymptotically normal though the logging policy learned. The
    decision's own Σ π²/p is left out: it depends on the context, and so would weigh contexts unequally, whose
    values differ (Zhan et al. 2021). Without contexts it would do as well, not better. Valid for adaptive
    logs whose logging policy changes slowly against about a hundred decisions, at a size fixed beforehand.
    Hadad, Hirshberg, Zhan, Wager & Athey (2021).
    """

    def __init__(self) -> None:
        self._state = np.array([0.0, 1.0, 1.0, 1.0])
        self._sums = np.zeros(5)

    def add(self, score: Floats, proxy: Floats) -> None:
        """Absorb n decisions in order.  score Γ (n,), proxy (n,)."""
        core.stable_sums(self._state, self._sums, score, proxy)

    @property
    def growth(self) -> float:
        """How many times larger than after a hundred decisions m_t became."""
        return float(self._state[3] / max(self._state[2], 1e-300))

    @property
    def estimate(self) -> float:
        """Q̂."""
        return float(self._sums[1] / self._sums[0])

    def interval(self, confidence: float) -> tuple[float, float]:
        """Give Q̂ ± z √(Σ h²(Γ − Q̂)²) / Σ h."""
        total, _, h2, h2g, h2g2 = self._sums
        q = self.estimate
        variance = max(h2g2 - 2 * q * h2g + q * q * h2, 0.0)
        half = quantile(confidence) * float(np.sqrt(variance) / total)
        return q - half, q + half


def warn(message: str) -> None:
    """Warn once, blamed on the caller of the public function."""
    warnings.warn(message, OPEWarning, stacklevel=3)
