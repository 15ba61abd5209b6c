"""A time-uniform confidence sequence: with probability 1 − α it contains the value at *every* n at once.

So a log may be looked at after every decision and stopped whenever one likes. It needs the range of the
rewards and exact probabilities; nothing is assumed of how the logging policy learned, nor of how large
weights become. The terms have two sides: a lower bound at level α/2 for each of them is an interval. It ends
at values against which a gambler has not multiplied his stake by 2/α. Where the target plays arms the log
never could, both means shrink and the bounds stay true. Contexts, items and tastes drift, so what is bounded
is the average of the values so far. Waudby-Smith, Wu, Ramdas, Karampatziakis & Mineiro (2022).

Terms. With rewards r in [0, 1], a target's weight w = π(a_t)/p_t and any q(a) known before the draw,

    w (r − q(a_t)) + Σ_a π(a) q(a)

has the value as its mean: q = 0 is inverse-probability weighting, and a q near the rewards makes it vary
less. The upper side is the lower side of 1 − r. The difference of two targets is one of δ(a) = π₁(a) − π₂(a):
where δ is negative 1 − r stands for r, 1 − q for q, |δ| for π, and Σ_{δ<0} |δ|, the share of decisions in
which the two differ, is taken off. Then equal targets differ by zero, and nearby ones have small terms.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from linmed.core import core
from linmed.report.tables import Table
from linmed.validation import Floats, Ints

CONSTANTS = (0.0, 0.5, 1.0)
"""Reward models that need no data: good for rare rewards, for middling ones and for frequent ones."""
SHARES = (0.4, 0.2, 0.4)
"""What of the stake goes to each of them, where there are no others."""

Model = Floats | float
"""q(a) of every arm of every decision, flat (ΣK,), or the same for all; rewards scaled to [0, 1]."""


class Arms(NamedTuple):
    """What cutting a reward model needs to know of every arm."""

    guard: Floats  # (ΣK,) at most the logged probability, zero where that is zero
    probability: Floats  # (n,) of the arm played
    offsets: Ints  # (n+1,)
    chosen: Ints  # (n,) places of the arms played in flat arrays


class Side(NamedTuple):
    """Terms x − shift, bounded below by −shift, with the mean in question."""

    x: Floats  # (n,) ≥ 0
    shift: Floats  # (n,) in [0, 1]
    masses: tuple[Floats | None, ...] = (None,)  # π q flat (ΣK,), one for each model; None for none
    arms: Arms | None = None

    def part(self, begin: int, end: int) -> "Side":
        """Take the decisions from `begin` to `end`; flat arrays stay whole, and offsets point into them."""
        arms = self.arms
        if arms is not None:
            arms = Arms(
                arms.guard, arms.probability[begin:end], arms.offsets[begin : end + 1], arms.chosen[begin:end]
            )
        return Side(self.x[begin:end], self.shift[begin:end], self.masses, arms)


def value_sides(
    weight: Floats, reward: Floats, chance: Floats | None = None,
    models: Sequence[Model] = (0.0,), arms: Arms | None = None,
) -> tuple[Side, Side]:  # fmt: skip
    """Terms with means ν and 1 − ν.  weight, reward (n,), chance π (ΣK,), `models` as `Side.masses`."""
    none = np.zeros(weight.size)
    sides = []
    for r, reflected in ((reward, False), (1.0 - reward, True)):
        masses: list[Floats | None] = []
        for q in models:
            if isinstance(q, float):  # constants are the same set seen from either side
                masses.append(None if q == 0.0 or chance is None else chance * q)
            else:
                assert chance is not None
                masses.append(chance * (1.0 - q if reflected else q))
        sides.append(Side(weight * r, none, tuple(masses), arms))
    return sides[0], sides[1]


def difference_sides(
    ours: Floats, theirs: Floats, reward: Floats, probability: Floats, offsets: Ints, chosen: Ints,
    models: Sequence[Model] = (), guard: Floats | None = None,
) -> tuple[Side, Side]:  # fmt: skip
    """Terms with means Δ and −Δ.  ours, theirs π₁, π₂ (ΣK,); without `guard` there are no models."""
    gap = ours - theirs
    mass = np.abs(gap)
    weight = mass[chosen] / probability
    arms = None if guard is None else Arms(guard, probability, offsets, chosen)
    sides = []
    for sign in (1.0, -1.0):
        better = sign * gap > 0.0
        shift = np.add.reduceat(np.where(better, 0.0, mass), offsets[:-1])
        x = weight * np.where(better[chosen], reward, 1.0 - reward)
        masses = tuple(mass * np.where(better, q, 1.0 - q) for q in models) if arms is not None else (None,)
        sides.append(Side(x, np.minimum(shift, 1.0), masses, arms))
    return sides[0], sides[1]


def unpaired_sides(weight: Floats, other: Floats, reward: Floats) -> tuple[Side, Side]:
    """Make them of the played arm's probabilities alone: w r + v (1 − r) − 1, and its reflection."""
    one = np.ones(reward.size)
    rest = 1.0 - reward
    return Side(weight * reward + other * rest, one), Side(other * reward + weight * rest, one)


class BettingLower:
    """Bound the mean m of a side's terms y ≥ −1/γ_j from below, by the wealth of a gambler against m:

        K_t(m) = Σ_j prior_j Π_i (1 + γ_j y_i) / (1 + γ_j m)

    Each factor is non-negative and has mean one if m is the mean of y_i, so K_t is a martingale that starts
    at 1 and exceeds 1/α ever with probability at most α (Ville). It decreases in m: the bound is where it
    meets 1/α. In the usual form the bet is λ = γ/(1 + γm) of 1 + λ(y − m); with γ fixed the y_i enter through
    Σ log(1 + γ_j y_i) alone: memory is J numbers, m needs no grid, and parts of a log may be added up in any
    order. By concavity of the logarithm K_t at the *average* of means that differ is no larger than the
    martingale: that is why the sequence holds under drift.

    Several reward models (see `Side`) are as many gamblers; `shares` of the stake go to each, so the bound is
    never worse than the best one's by more than log(1/share) in log-wealth.
    """

    BETS = 16.0 * 1.6 ** -np.arange(32.0)
    """γ from 16 to 8e-6: the best bet shrinks like 1/√n."""
    PRIOR = 1.0 / (3.0 + np.abs(np.arange(32.0) - 15.0))
    """Most on bets that are good from a thousand to a million decisions; the extremes lose little by it."""

    def __init__(self, level: float, shares: Sequence[float] = (1.0,)):
        self.log_level = -math.log(level)
        self.count = 0
        self._shift = 0.0
        self._gains = np.zeros((len(shares), self.BETS.size))
        self._prior = np.log(np.outer(shares, self.PRIOR / self.PRIOR.sum())).ravel()
        self._bets = np.tile(self.BETS, len(shares))

    def add(self, side: Side) -> None:
        """Absorb n decisions: Σ log(1 + γ y) of every gambler and bet."""
        self.count += side.x.size
        self._shift += float(side.shift.sum())
        for gains, mass in zip(self._gains, side.masses, strict=True):
            if mass is None:
                core.betting(gains, self.BETS, side.x, side.shift)
            else:
                assert side.arms is not None
                guard, probability, offsets, chosen = side.arms
                core.cut_betting(
                    gains, self.BETS, side.x, side.shift, mass, guard, probability, offsets, chosen
                )

    def merge(self, other: "BettingLower") -> None:
        """Absorb what was seen elsewhere."""
        self.count += other.count
        self._shift += other._shift
        self._gains += other._gains

    def log_wealth(self, mean: float) -> float:
        """Compute log K_t(mean)."""
        return float(core.log_wealth(self._gains.ravel(), self._bets, self._prior, float(self.count), mean))

    @property
    def lower(self) -> float:
        """Where the wealth is 1/α; no term is smaller than −shift."""
        past = self._gains.ravel(), self._bets, self._prior, float(self.count)
        return float(core.betting_lower(*past, self.log_level, -self._shift / (self.count or 1)))


TRACE_GROWTH = 1.1
"""Bounds are noted whenever n has grown by this factor."""


class ValueSequence:
    """Two-sided confidence sequence for the average value so far, or the average difference of two.

    `trace` notes the bounds at growing n.
    """

    def __init__(
        self,
        confidence: float,
        reward_range: tuple[float, float],
        *,
        shares: Sequence[float] = (1.0,),
        difference: bool = False,
        trace: bool = False,
    ):
        self._below, self._above = (BettingLower((1.0 - confidence) / 2.0, shares) for _ in range(2))
        self._range, self._difference = reward_range, difference
        self._top = 0.0 if difference else 1.0  # the means of the two sides add up to this
        self._sum = 0.0
        self._traced = trace
        self._next = 1
        self._trace: list[tuple[int, float, float, float]] = []

    @property
    def count(self) -> int:
        """Decisions absorbed."""
        return self._below.count

    def add(self, value: Floats, below: Side, above: Side) -> None:
        """Absorb n decisions in order.

        value: the estimator's terms, whose mean is the estimate; below, above: the two sides of the value.
        """
        if not self._traced:
            self._below.add(below)
            self._above.add(above)
            self._sum += float(value.sum())
            return
        total = self._sum + np.cumsum(value)
        start, done = self.count, 0
        while done < value.size:
            stop = min(self._next - start, value.size)
            self._below.add(below.part(done, stop))
            self._above.add(above.part(done, stop))
            done = stop
            if self.count == self._next:
                self._trace.append((self.count, float(total[done - 1]) / self.count, *self.bounds))
                self._next = max(self._next + 1, int(self._next * TRACE_GROWTH))
        self._sum = float(total[-1])

    def merge(self, other: "ValueSequence") -> None:
        """Absorb another part of the log, in any order."""
        assert not self._traced
        self._below.merge(other._below)
        self._above.merge(other._above)
        self._sum += other._sum

    @property
    def estimate(self) -> float:
        """Mean of the estimator's terms."""
        return self._sum / max(self.count, 1)

    @property
    def bounds(self) -> tuple[float, float]:
        """(lower, upper) now; NaN where no value is compatible with the log."""
        low, high = self._below.lower, self._top - self._above.lower
        if self.count == 0:
            low, high = (-1.0, 1.0) if self._difference else (0.0, 1.0)
        if low > high:
            return math.nan, math.nan
        return self._scale(low), self._scale(high)

    def _scale(self, value: float) -> float:
        low, high = self._range
        # Adding zero makes of a negative zero a plain one.
        return value * (high - low) + 0.0 if self._difference else low + value * (high - low)

    def table(self) -> Table:
        """Tabulate n, estimate, lower, upper at growing n, and now."""
        rows = {row[0]: row for row in (*self._trace, (self.count, self.estimate, *self.bounds))}
        columns = zip(*rows.values(), strict=True)
        return Table(dict(zip(("n", "estimate", "lower", "upper"), columns, strict=True)))
