"""Time-uniform confidence sequences: with probability 1 − α they contain the value at *every* n at once.

So a log may be looked at after every decision and stopped whenever one likes. They need the range of the
rewards and exact probabilities; nothing is assumed of how the logging policy learned, nor of how large
weights become. The terms have two sides: a lower bound at level α/2 for each of them is an interval. Where
the target plays arms the log never could, both means shrink and the bounds stay true. Waudby-Smith, Wu,
Ramdas, Karampatziakis & Mineiro (2022).

- betting: values against which a gambler has not multiplied his stake by 2/α. Usually the tightest.
- mixture: the empirical-Bernstein bound averaged over a gamma prior of bets (Howard, Ramdas, McAuliffe &
  Sekhon 2021), a closed form.
- bernstein: the empirical-Bernstein bound with predictable plug-in bets, also a closed form.

Contexts, items and tastes drift, so what betting and mixture bound is the average of the values so far. Who
knows that the value is one number (`drift=False`) may keep the largest lower and the smallest upper bound so
far: a bound once true stays true. `bernstein`, whose bets weigh decisions unequally, has that reading only.

Decisions may count unequally, by weights ω in [0, 1] that are known before their rewards: then betting and
mixture bound Σ ω ν / Σ ω. Betting, because E Z^ω ≤ (E Z)^ω = 1 for a factor Z of the wealth and ω ≤ 1, and
the logarithm is concave for these weights too; mixture, because ω (x − x̂) ≥ −1 is all that its bound asks of
a term. Weights by age belong to the log's end, and at another end they are others: this is proved for one
look. Betting pays for it: its bounds are as wide as if the variance were that of Σ ω terms, not of Σ ω².

Terms. With rewards r in [0, 1], a target's weight w = π(a_t)/p_t and any q(a) known before the draw,

    w (r − q(a_t)) + Σ_a π(a) q(a)

has the value as its mean: q = 0 is inverse-probability weighting, and a q near the rewards makes it vary
less. The upper side is the lower side of 1 − r. The difference of two targets is one of δ(a) = π₁(a) − π₂(a):
where δ is negative 1 − r stands for r, 1 − q for q, |δ| for π, and Σ_{δ<0} |δ|, the share of decisions in
which the two differ, is taken off. Then equal targets differ by zero, and nearby ones have small terms.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaln

from linmed import validation
from linmed.core import core
from linmed.report.tables import Table
from linmed.validation import BadValue, Floats, Ints

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


KINDS = ("betting", "bernstein", "mixture")
LARGEST_RATE = 0.5
TRACE_GROWTH = 1.1
"""Bounds are noted whenever n has grown by this factor."""
COUNT, SUM, SPREAD, WEIGHT, CENTRE, PENALTY, SQUARES = range(7)
FIELDS = 7
"""Places of the sums that the Bernstein and the mixture sequence keep, see `SequenceSums` in core/ope.hpp."""


class LowerSequence(ABC):
    """Lower confidence sequence for the mean of a side's terms."""

    def __init__(self, level: float):
        self.log_level = -math.log(level)
        self.count = 0
        self.mass = 0.0  # Σ ω, the count where all are one
        self._shift = 0.0

    def add(self, side: Side, weight: float = 1.0) -> None:
        """Absorb n decisions in order, each with the weight ω."""
        self.count += side.x.size
        self.mass += weight * side.x.size
        self._shift += weight * float(side.shift.sum())
        self._add(side, weight)

    @abstractmethod
    def _add(self, side: Side, weight: float) -> None: ...

    @property
    @abstractmethod
    def lower(self) -> float:
        """The bound now; above the largest possible mean where the terms are larger than they can be."""


class BettingLower(LowerSequence):
    """Wealth K_t(m) = Σ_j prior_j Π_i (1 + γ_j y_i) / (1 + γ_j m) against the mean m of y ≥ −1/γ_j.

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
        super().__init__(level)
        self._gains = np.zeros((len(shares), self.BETS.size))
        self._prior = np.log(np.outer(shares, self.PRIOR / self.PRIOR.sum())).ravel()
        self._bets = np.tile(self.BETS, len(shares))

    def _add(self, side: Side, weight: float) -> None:
        if weight == 1.0:
            self._gain(self._gains, side)
        else:
            gained = np.zeros_like(self._gains)
            self._gain(gained, side)
            self._gains += weight * gained

    def _gain(self, into: Floats, side: Side) -> None:
        """Σ log(1 + γ y) of every gambler and bet."""
        for gains, mass in zip(into, side.masses, strict=True):
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
        self.mass += other.mass
        self._shift += other._shift
        self._gains += other._gains

    @property
    def _lowest(self) -> float:
        """No term is smaller than −shift."""
        return -self._shift / (self.mass or 1.0)

    def log_wealth(self, mean: float) -> float:
        """Compute log K_t(mean)."""
        return float(core.log_wealth(self._gains.ravel(), self._bets, self._prior, self.mass, mean))

    @property
    def lower(self) -> float:
        """Where the wealth is 1/α."""
        past = self._gains.ravel(), self._bets, self._prior, self.mass
        return float(core.betting_lower(*past, self.log_level, self._lowest))


class UnitLower(LowerSequence):
    """A sequence for x ≥ 0 with mean in [0, 1]; differences, at least −1, are moved and halved for it."""

    def __init__(self, level: float, difference: bool):
        super().__init__(level)
        self._difference = difference
        self._state = np.zeros(FIELDS)

    def _add(self, side: Side, weight: float) -> None:
        x = 0.5 * (side.x - side.shift + 1.0) if self._difference else np.ascontiguousarray(side.x)
        self._sum(x, weight)

    @property
    def lower(self) -> float:
        """The bound on the scale of the terms."""
        bound = self._unit_lower() if self.mass else 0.0
        if not self._difference:
            return bound
        return max(2.0 * bound - 1.0, -self._shift / self.mass) if self.mass else -1.0

    @abstractmethod
    def _sum(self, x: Floats, weight: float) -> None: ...

    @abstractmethod
    def _unit_lower(self) -> float: ...


class BernsteinLower(UnitLower):
    """L_t = (Σ λ x − log(1/α) − Σ ψ(λ)(x − x̂)²) / Σ λ,  ψ(λ) = −log(1 − λ) − λ.

    exp(λy − ψ(λ)y²) ≤ 1 + λy for y ≥ −1 and λ in [0, 1) (Fan, Grama & Liu 2015) makes
    exp(Σ λ(x − ν) − ψ(λ)(x − x̂)²) a supermartingale. Waudby-Smith & Ramdas (2024).
    """

    def _sum(self, x: Floats, weight: float) -> None:
        assert weight == 1.0
        core.bernstein(self._state, x, self.log_level, LARGEST_RATE)

    def _unit_lower(self) -> float:
        s = self._state
        bound = (s[CENTRE] - self.log_level - s[PENALTY]) / s[WEIGHT]
        return max(float(bound), 0.0)


class MixtureLower(UnitLower):
    """∫ exp(λS − ψ(λ)V) dF(λ) < 1/α with S = Σ (x_i − m), V = Σ (x_i − x̂_{i−1})², F a gamma density in 1 − λ.

    With weights S = Σ ω (x − m) and V = Σ ω² (x − x̂)². Howard, Ramdas, McAuliffe & Sekhon (2021), Prop. 9.
    """

    def __init__(self, level: float, difference: bool):
        super().__init__(level, difference)
        self._faded = np.zeros(2)  # what weights took away from Σ x and from Σ (x − x̂)²

    def _sum(self, x: Floats, weight: float) -> None:
        before = self._state.copy()
        core.mixture(self._state, x)
        if weight != 1.0:
            gained = (self._state - before)[[SUM, SQUARES]]
            self._faded += gained * (1.0 - weight, 1.0 - weight * weight)

    def _unit_lower(self) -> float:
        total, squares = map(float, self._state[[SUM, SQUARES]] - self._faded)

        def excess(mean: float) -> float:
            return log_mixture(total - self.mass * mean, squares) - self.log_level

        highest = total / self.mass
        if excess(0.0) <= 0:
            return 0.0
        if excess(highest) >= 0:
            return highest
        return float(brentq(excess, 0.0, highest, xtol=1e-14))


def log_mixture(s: float, v: float, rho: float = 1.0) -> float:
    """Compute log ∫ exp(λs − ψ(λ)v) dF(λ), F with density ∝ (1 − λ)^{ρ−1} e^{−ρ(1−λ)} on [0, 1); s ≥ 0.

    With a = v + ρ and b = a + s it is the logarithm of e^{b−ρ} b^{−a} γ(a, b), but for F's own constants. The
    three factors are huge and nearly cancel: their product is e^{a (u − log(1 + u)) − ρ} Γ(a) (e/a)^a P(a,
    b), u = s/a.
    """
    a = v + rho
    excess = a * _log_gap(s / a)
    if a > 1e3:
        # Γ(a) (e/a)^a by Stirling's series.
        gamma = 0.5 * math.log(2.0 * math.pi / a) + (1.0 - 1.0 / (30.0 * a * a)) / (12.0 * a)
    else:
        gamma = float(gammaln(a)) + a - a * math.log(a)
    own = math.log(gammainc(rho, rho)) + float(gammaln(rho)) - rho * math.log(rho)
    return excess - rho + gamma + math.log(gammainc(a, a + s)) - own


def _log_gap(u: float) -> float:
    """Compute u − log(1 + u) without cancellation."""
    if u > 0.1:
        return u - math.log1p(u)
    z = u / (2.0 + u)  # log(1 + u) = 2 (z + z³/3 + z⁵/5 + …), and u − 2z = u z
    return u * z - 2.0 * sum(z**k / k for k in range(3, 23, 2))


def runs(weight: Floats) -> Iterator[tuple[int, int]]:
    """Yield where decisions of one weight begin and end.  (n,)"""
    changes = np.flatnonzero(np.diff(weight)) + 1
    ends = [0, *changes.tolist(), weight.size]
    yield from pairwise(ends) if weight.size else ()


def lower_sequence(
    kind: str, level: float, shares: Sequence[float] = (1.0,), *, difference: bool = False
) -> LowerSequence:
    """Make the sequence of that name with error probability `level`."""
    validation.option("interval", kind, KINDS)
    if kind == "betting":
        return BettingLower(level, shares)
    return (MixtureLower if kind == "mixture" else BernsteinLower)(level, difference)


class ValueSequence:
    """Two-sided confidence sequence for a value, or for the difference of two.

    With `drift` it is about the average value so far, and only the bounds at n count; without, about one
    value, and the best bounds so far count. `trace` notes the bounds at growing n.
    """

    def __init__(
        self,
        kind: str,
        confidence: float,
        reward_range: tuple[float, float],
        *,
        shares: Sequence[float] = (1.0,),
        difference: bool = False,
        drift: bool = True,
        trace: bool = False,
    ):
        if drift and kind == "bernstein":
            message = "interval='bernstein' needs one value that does not change: use betting or mixture"
            raise BadValue("interval", message)
        level = (1.0 - confidence) / 2.0
        self._below, self._above = (
            lower_sequence(kind, level, shares, difference=difference) for _ in range(2)
        )
        self._range, self._difference, self._drift = reward_range, difference, drift
        self._top = 0.0 if difference else 1.0  # the means of the two sides add up to this
        self._best = (-math.inf, -math.inf)
        self._sum = 0.0
        self._watched = trace or not drift
        self._next = 1
        self._trace: list[tuple[int, float, float, float]] = []

    @property
    def count(self) -> int:
        """Decisions absorbed."""
        return self._below.count

    def add(self, value: Floats, below: Side, above: Side, weight: Floats | None = None) -> None:
        """Absorb n decisions in order.

        value: the estimator's terms, whose mean is the estimate; below, above: the two sides of the value;
        weight ω (n,): how much each counts, all alike where it is None.
        """
        if weight is not None:
            assert not self._watched
            for begin, end in runs(weight):
                if weight[begin] > 0.0:
                    self._below.add(below.part(begin, end), float(weight[begin]))
                    self._above.add(above.part(begin, end), float(weight[begin]))
            return
        if not self._watched:
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
        """Absorb another part of the log: a betting sequence under drift knows no order."""
        assert not self._watched
        for own, theirs in ((self._below, other._below), (self._above, other._above)):
            assert isinstance(own, BettingLower)
            assert isinstance(theirs, BettingLower)
            own.merge(theirs)
        self._sum += other._sum

    @property
    def estimate(self) -> float:
        """Mean of the estimator's terms."""
        return self._sum / max(self.count, 1)

    @property
    def bounds(self) -> tuple[float, float]:
        """(lower, upper) now; NaN where no value is compatible with the log."""
        now = self._below.lower, self._above.lower
        if not self._drift:
            self._best = now = max(self._best[0], now[0]), max(self._best[1], now[1])
        low, high = now[0], self._top - now[1]
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
