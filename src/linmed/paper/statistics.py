"""Turn trials into verdicts: a statistic of weighted trials, its interval, and what that decides.

Regret is heavy-tailed and skewed, and some statistics (a median of policies' means) are not smooth. So
intervals come from the bootstrap: trials drawn again with replacement, corrected for bias and skewness (BCa,
Efron 1987) and widened as Student's t is for few trials. Trials are independent, and every policy and setting
meets trial i with the same random numbers; all samples of a statistic are therefore resampled by trial
together, which keeps the pairing.

A bootstrap knows nothing of what no trial has shown, and 2 % of LinMED-99's trials of large gap carry a third
of its mean. So every interval is widened by what n trials can have missed: with confidence 1 − level/2 that
has a probability of at most q = 1 − (level/2)^(1/n), and it is taken to be BEYOND times as large as the
largest value seen (or as large as `worst` says, if that is more). On 8,000 stored pairs of LinMED-99's and
OFUL's regrets the plain bootstrap of their ratio missed in 55, 36, 11, 8 % of the samples of 10, 20, 50, 100
trials. BEYOND is the whole number that brings this to 5 % at every number of trials with something to spare;
the study is `benchmarks/ledger_coverage.py`. It is measured, not proved: a law whose rare trials are more
than BEYOND times as large as all others can still be missed.
"""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri, stdtrit

from linmed.streams import stream
from linmed.validation import Bools, Floats, Ints

Verdict = Literal["holds", "fails", "undecided"]
LEVEL = 0.05
"""Share of claims, true or false, that may be judged wrongly: intervals are 95 % ones."""


def spent(look: int, most: int) -> float:
    """Give the share of LEVEL that the look of this number (from 1) has: all of it where there is only one.

    Otherwise LEVEL/(k(k + 1)), which adds up to LEVEL however many looks there are. So their number need not
    be fixed beforehand: a longer run decides more, and changes no verdict. It costs little: the sixth look,
    with 32 times the trials of the first, has an interval of 3.24 standard errors instead of 1.96.
    """
    return LEVEL if most == 1 else LEVEL / (look * (look + 1))


DRAWS = 10_000
BEYOND = 5.0
"""What was missed is as large as so many times the largest value seen."""
OUTER = 10
"""The outermost draws: where the bootstrap's own quantiles end."""
BLOCKS = 1_000
"""Trials, or blocks of them, that are drawn again at most."""
CHUNK = 1_000
"""Draws whose weights are in memory as floating-point numbers at once."""

Statistic = Callable[..., Floats]
"""From weights (draws, trials), whose rows sum to 1, and samples (trials, …) to values (draws,)."""


class Estimate(ABC):
    """A number and how sure it is."""

    value: float
    trials: int

    @abstractmethod
    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Give ends that miss the true value with probability `level`; infinite where nothing is known."""

    def within(self, low: float, high: float, level: float = LEVEL, parts: int = 1) -> Verdict:
        """Judge whether the true value lies between.

        "holds" is said of an interval of this level; "fails", of which one among `parts` is enough to refute
        a claim, of an interval of level/parts (Bonferroni).
        """
        below, above = self.interval(level)
        if below > low and above < high:
            return "holds"
        below, above = self.interval(level / parts)
        return "fails" if above <= low or below >= high else "undecided"

    def __str__(self) -> str:
        """value (low to high)."""
        low, high = self.interval()
        if not math.isfinite(low) or (low <= 0.0 and not math.isfinite(high)):
            return _digits(self.value, abs(self.value))
        size = max(abs(self.value), abs(high)) if math.isfinite(high) else abs(self.value)
        return f"{_digits(self.value, size)} ({_digits(low, size)} to {_digits(high, size)})"


def _digits(value: float, size: float) -> str:
    if not math.isfinite(value):
        return "∞"
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{round(value, digits) + 0.0:,.{digits}f}"  # + 0.0: no minus before zero


@dataclass(frozen=True)
class Normal(Estimate):
    """A mean with its standard error, by Student's t; for what is light-tailed."""

    value: float
    error: float
    trials: int

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """value ∓ t · error."""
        if self.trials < 2 or not math.isfinite(self.error):
            return -math.inf, math.inf
        margin = -float(stdtrit(self.trials - 1, level / 2)) * self.error
        return self.value - margin, self.value + margin


@dataclass(frozen=True)
class Share(Estimate):
    """So many of the trials, with the exact interval of Clopper and Pearson."""

    count: int
    trials: int

    @classmethod
    def of(cls, happened: Bools) -> "Share":
        """Count the trials in which it happened."""
        return cls(int(happened.sum()), len(happened))

    @property
    def value(self) -> float:  # type: ignore[override]
        """count / trials."""
        return self.count / self.trials if self.trials else math.nan

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Give the shares that do not make this count improbable."""
        k, n = self.count, self.trials
        if n == 0:
            return -math.inf, math.inf
        low = float(betaincinv(k, n - k + 1, level / 2)) if k else 0.0
        high = 1.0 - float(betaincinv(n - k, k + 1, level / 2)) if k < n else 1.0
        return low, high

    def __str__(self) -> str:
        """In per cent."""
        low, high = self.interval()
        return f"{100 * self.value:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)"


@dataclass(frozen=True)
class Resampled(Estimate):
    """A statistic of all trials, and of trials drawn again."""

    value: float
    trials: int
    """Or blocks of trials."""
    draws: Floats = field(repr=False)
    """Ascending; empty where an interval cannot be had."""
    bias: float = 0.0
    """z₀: where the value lies among the draws, as a normal quantile."""
    skew: float = 0.0
    """a: the acceleration."""
    positive: bool = False
    """A ratio: its draws are logarithms, and so its interval has no negative end."""
    missed: Callable[[float], tuple[float, float]] = lambda level: (0.0, 0.0)
    """By level: how far down and up the statistic goes with what the trials can have missed, on the scale of
    the draws."""

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Give BCa's, at normal quantiles of Student's t, and beyond it what the trials can have missed."""
        if len(self.draws) == 0:
            return (0.0 if self.positive else -math.inf), math.inf
        below, above = self._drawn(level)
        down, up = self.missed(level)
        ends = below - down, above + up
        return (_exp(ends[0]), _exp(ends[1])) if self.positive else ends

    def _drawn(self, level: float) -> tuple[float, float]:
        n = self.trials
        reach = -math.sqrt(n / (n - 1)) * float(stdtrit(n - 1, level / 2))
        ends = []
        for z in (self.bias - reach, self.bias + reach):
            stretch = 1.0 - self.skew * z
            ends.append(
                self._quantile(self.bias + z / stretch if stretch > 0 else math.copysign(math.inf, z))
            )
        return ends[0], ends[1]

    def _quantile(self, z: float) -> float:
        """Of the draws, at a normal quantile.

        Ten thousand draws say little about levels below 1e-3, which many parts and looks ask for. Beyond the
        outermost OUTER of them the quantiles go straight on in z, as steeply as they do just inside or as
        they do on the whole, whichever is steeper.
        """
        count, side = len(self.draws), math.copysign(1.0, z)
        if not math.isfinite(z):
            return z
        edge, inside = (-float(ndtri(rank / (count + 1))) for rank in (OUTER, 10 * OUTER))
        if abs(z) <= edge:
            share = float(ndtr(z)) * (count + 1)
            rank = math.floor(share) if z < 0 else math.ceil(share)
            return float(self.draws[min(max(rank, 1), count) - 1])
        last, inner, middle = (
            float(self.draws[rank - 1 if side < 0 else count - rank])
            for rank in (OUTER, 10 * OUTER, count // 2)
        )
        if not math.isfinite(last):
            return last
        slope = max(abs(last - inner) / (edge - inside), abs(last - middle) / edge)
        return last + side * slope * (abs(z) - edge)


def resampled(
    statistic: Statistic,
    *samples: Floats,
    worst: Sequence[float] = (),
    groups: Sequence[Hashable] = (),
    beyond: float = BEYOND,
) -> Estimate:
    """Bootstrap the statistic.

    Samples with fewer trials than others are compared on the trials that all have. A statistic that is not a
    number for some draw (0/0) decides nothing; an infinite one (over a regret of 0) is above all others.

    worst: for each sample, a value that a trial which was not seen can have at least; BEYOND times the
        largest seen, if that is more. groups: samples with the same one are numbers of the same policy's
        trials, so that what is missed of one is missed of all; without it each is by itself. beyond: 1 for
        what has no heavy tail, as clicks collected.
    """
    trials = min(len(sample) for sample in samples)
    samples = tuple(np.asarray(sample[:trials], dtype=np.float64) for sample in samples)
    positive = statistic in RATIOS and all((sample >= 0.0).all() for sample in samples)
    with np.errstate(divide="ignore", invalid="ignore"):
        if trials == 0:
            return Resampled(math.nan, 0, np.empty(0), positive=positive)
        value = float(statistic(np.full((1, trials), 1.0 / trials), *samples)[0])
        if trials < 2 or not math.isfinite(value) or (positive and value <= 0.0):
            return Resampled(value, trials, np.empty(0), positive=positive)
        alone = range(len(samples))
        missed = _Missed(
            statistic,
            samples,
            tuple(worst) or (0.0,) * len(samples),
            tuple(groups) or (*alone,),
            positive,
            beyond,
        )
        samples = tuple(_blocks(sample) for sample in samples)
        trials = len(samples[0])
        counts = _counts(trials)
        parts = [statistic(counts[i : i + CHUNK] / trials, *samples) for i in range(0, DRAWS, CHUNK)]
        draws = np.concatenate(parts)
        left = statistic((1.0 - np.eye(trials)) / (trials - 1), *samples)
    if np.isnan(draws).any():
        return Resampled(value, trials, np.empty(0), positive=positive)
    # Trials that differ by common luck alone have a ratio without any spread, but for rounding.
    draws = np.where(np.isclose(draws, value, rtol=1e-12, atol=1e-12), value, draws)
    left = np.where(np.isclose(left, value, rtol=1e-12, atol=1e-12), value, left)
    below = (float((draws < value).sum()) + 0.5 * float((draws == value).sum())) / DRAWS
    left = left[np.isfinite(left)]
    centred = left.mean() - left if left.size else left
    spread = float((centred**2).sum())
    skew = float((centred**3).sum()) / (6.0 * spread**1.5) if spread > 0 else 0.0
    bias = float(ndtri(min(max(below, 0.5 / DRAWS), 1 - 0.5 / DRAWS)))
    if positive:
        with np.errstate(divide="ignore"):
            draws = np.log(draws)
    return Resampled(value, trials, np.sort(draws), bias, skew, positive, missed)


@dataclass(frozen=True)
class _Missed:
    """How far what was missed can move a statistic: one more row, in which some samples are large."""

    statistic: Statistic
    samples: tuple[Floats, ...]
    worst: tuple[float, ...]
    groups: tuple[Hashable, ...]
    positive: bool
    beyond: float

    def __call__(self, level: float) -> tuple[float, float]:
        """Down and up, by the worst row for each group of samples, all at once."""
        share = 1.0 - (level / 2.0) ** (1.0 / len(self.samples[0]))
        usual = [sample.mean(axis=0) for sample in self.samples]
        whole = np.ones((1, 1))  # a statistic is made of weighted means: the means are all it needs

        def value(rows: Mapping[int, Floats]) -> float:
            means = ((1.0 - share) * mean + share * rows.get(i, mean) for i, mean in enumerate(usual))
            with np.errstate(divide="ignore", invalid="ignore"):
                moved = float(self.statistic(whole, *(np.asarray(mean)[None] for mean in means))[0])
                return float(np.log(moved)) if self.positive else moved

        start = value({})
        low: dict[int, Floats] = {}
        high: dict[int, Floats] = {}
        for group in dict.fromkeys(self.groups):
            places = [place for place, name in enumerate(self.groups) if name == group]
            tried = [(value(rows) - start, rows) for rows in (self._large(p, places) for p in places)]
            down, up = min(tried, key=_move), max(tried, key=_move)
            low |= down[1] if down[0] < 0.0 else {}
            high |= up[1] if up[0] > 0.0 else {}
        ends = start - value(low), value(high) - start
        return max(_finite(ends[0]), 0.0), max(_finite(ends[1]), 0.0)

    def _large(self, leader: int, places: Sequence[int]) -> dict[int, Floats]:
        """For samples of the same trials: the trial in which one of them is (at last) largest, scaled."""
        sample = self.samples[leader]
        ends = sample if sample.ndim == 1 else sample[:, -1]
        row, most = int(ends.argmax()), float(ends.max())
        scale = max(self.beyond, self.worst[leader] / most) if most > 0.0 else self.beyond
        return {place: np.asarray(self.samples[place][row] * scale) for place in places}


def _move(tried: tuple[float, Mapping[int, Floats]]) -> float:
    return 0.0 if math.isnan(tried[0]) else tried[0]


def _finite(move: float) -> float:
    return math.inf if math.isnan(move) else move


def _exp(end: float) -> float:
    return math.exp(end) if end < 700.0 else math.inf


def _blocks(sample: Floats) -> Floats:
    """Many trials as the means of blocks of 2, 4, 8, …: as independent as they, and at most BLOCKS.

    A statistic is made of weighted means, so it cannot tell. Trials that fill no block are left out here.
    """
    size = 1 << max(math.ceil(math.log2(len(sample) / BLOCKS)), 0)
    count = len(sample) // size
    means: Floats = sample[: count * size].reshape(count, size, *sample.shape[1:]).mean(axis=1)
    return means


@functools.lru_cache(maxsize=8)
def _counts(trials: int) -> NDArray[np.uint16]:
    """How often each trial is drawn (draws, trials): the same for every statistic."""
    drawn = stream(0, "bootstrap", trials).multinomial(trials, np.full(trials, 1.0 / trials), DRAWS)
    return drawn.astype(np.uint16)


# ---- statistics: the first argument is the weights (draws, trials)


def average(w: Floats, x: Floats) -> Floats:
    """Take the mean."""
    means: Floats = w @ x
    return means


def ratio(w: Floats, a: Floats, b: Floats) -> Floats:
    """Take mean a / mean b."""
    quotient: Floats = (w @ a) / (w @ b)
    return quotient


def difference(w: Floats, a: Floats, b: Floats) -> Floats:
    """Take mean a − mean b."""
    return average(w, a - b)


@functools.lru_cache
def relative_to(scale: float) -> Statistic:
    """Take (mean a − mean b) / scale."""
    return lambda w, a, b: difference(w, a, b) / scale


def ratio_of_ratios(w: Floats, a: Floats, b: Floats, c: Floats, d: Floats) -> Floats:
    """Take (mean a / mean b) / (mean c / mean d)."""
    return ratio(w, a, b) / ratio(w, c, d)


def over_median(w: Floats, own: Floats, *others: Floats) -> Floats:
    """Take mean own / the median of the others' means."""
    values: Floats = (w @ own) / np.median([w @ other for other in others], axis=0)
    return values


def over_lowest(w: Floats, *samples: Floats) -> Floats:
    """Take the lowest mean of all but the last / the mean of the last."""
    *own, other = samples
    values: Floats = np.min([w @ x for x in own], axis=0) / (w @ other)
    return values


def change_over_median(w: Floats, *samples: Floats) -> Floats:
    """Take mean after / mean before over the median of others' factors; pairs after, before, own first."""
    factors = [ratio(w, after, before) for after, before in zip(samples[::2], samples[1::2], strict=True)]
    values: Floats = factors[0] / np.median(factors[1:], axis=0)
    return values


def worst_change_over_median(w: Floats, *samples: Floats) -> Floats:
    """Take the larger of two factors over the others' median; triples one, other, before, own first."""
    triples = zip(samples[::3], samples[1::3], samples[2::3], strict=True)
    worst = [np.maximum(ratio(w, one, before), ratio(w, other, before)) for one, other, before in triples]
    values: Floats = worst[0] / np.median(worst[1:], axis=0)
    return values


def change_of_change_over_median(w: Floats, *samples: Floats) -> Floats:
    """Take `change_over_median` of the first half of the samples over that of the second."""
    half = len(samples) // 2
    return change_over_median(w, *samples[:half]) / change_over_median(w, *samples[half:])


def typical_factor(w: Floats, *samples: Floats) -> Floats:
    """Take exp of the median of |log(mean after / mean before)| over the pairs after, before."""
    factors = [ratio(w, after, before) for after, before in zip(samples[::2], samples[1::2], strict=True)]
    values: Floats = np.exp(np.median(np.abs(np.log(factors)), axis=0))
    return values


def slope(rounds: Ints, start: float, end: float = math.inf) -> Statistic:
    """Fit p of regret ∝ tᵖ between two rounds: least squares on the logarithms of the mean curve."""
    chosen = (rounds >= start) & (rounds <= end)
    x = np.log(rounds[chosen])
    return lambda w, curves: _gradient(x, np.log(w @ curves[:, chosen]))


@functools.lru_cache
def growth(sizes: tuple[float, ...]) -> Statistic:
    """Fit p of mean ∝ sizeᵖ, one sample per size."""
    x = np.log(sizes)
    return lambda w, *finals: _gradient(x, np.log(np.stack([w @ final for final in finals], axis=1)))


def _gradient(x: Floats, y: Floats) -> Floats:
    """Slopes of the least-squares lines through (x, y[draw])."""
    centred = x - x.mean()
    slopes: Floats = y @ centred / (centred @ centred)
    return slopes


RATIOS = frozenset(
    {
        ratio, ratio_of_ratios, over_median, over_lowest, change_over_median, worst_change_over_median,
        change_of_change_over_median, typical_factor,
    }
)  # fmt: skip
"""Statistics that are never negative."""


# ---- of light-tailed samples


def mean(sample: Floats) -> Normal:
    """Estimate the mean over trials."""
    trials = len(sample)
    error = float(sample.std(ddof=1)) / math.sqrt(trials) if trials > 1 else math.nan
    return Normal(float(sample.mean()) if trials else math.nan, error, trials)


def deviation(sample: Floats) -> Normal:
    """Estimate the standard deviation over trials; its error follows from that of the variance."""
    trials = len(sample)
    if trials < 2:
        return Normal(math.nan, math.nan, trials)
    squares = (sample - sample.mean()) ** 2
    value = math.sqrt(float(squares.sum()) / (trials - 1))
    error = float(squares.std(ddof=1)) / math.sqrt(trials) / (2.0 * value) if value > 0.0 else 0.0
    return Normal(value, error, trials)


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Join the verdicts of statements that must all be true: one that fails fails the whole."""
    seen = set(verdicts)
    return "fails" if "fails" in seen else "undecided" if "undecided" in seen else "holds"
