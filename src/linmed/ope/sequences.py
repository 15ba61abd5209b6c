"""Time-uniform confidence sequences: with probability 1 − α they contain the value at *every* n at once.

So a log may be looked at after every decision and stopped whenever one likes. They need the range of the
rewards and exact probabilities; nothing is assumed of how the logging policy learned, nor of how large
weights become. With rewards scaled to [0, 1], x_t = w_t r_t is non-negative with the value ν as
conditional mean, and w_t (1 − r_t) has mean 1 − ν: each gives a lower bound at level α/2, the second,
reflected, the upper one. Where the target plays arms the log never could, both means shrink and the
bounds stay true. Waudby-Smith, Wu, Ramdas, Karampatziakis & Mineiro (2022).

- betting: values against which a gambler has not multiplied his stake by 2/α. Usually the tightest.
- bernstein: the empirical-Bernstein bound with predictable plug-in bets, a closed form.
- mixture: the empirical-Bernstein bound averaged over a gamma prior of bets (Howard, Ramdas, McAuliffe &
  Sekhon 2021), also a closed form.

While the value is one number (arms and contexts of one distribution) a bound once true stays true, so the
largest lower and smallest upper bound so far are reported: intervals never widen. If contexts drift, the
bounds *at n* of betting (IPW terms) and mixture still hold, for the average of the values so far.
"""

import math
from abc import ABC, abstractmethod

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaln

from linmed import checks
from linmed.checks import BadValue, Floats
from linmed.kernels import sequences as kernels
from linmed.ope.rounds import Rounds
from linmed.tables import Table

KINDS = ("betting", "bernstein", "mixture")
LARGEST_RATE = 0.5
TRACE_GROWTH = 1.1
"""Bounds are noted whenever n has grown by this factor."""


class LowerSequence(ABC):
    """Lower confidence sequence for the mean ν ∈ [0, 1] of x_t ≥ −k_t."""

    def __init__(self, level: float):
        self.log_level = -math.log(level)
        self.count = 0
        self._state = np.zeros(kernels.FIELDS)

    def add(self, x: Floats, floor: float = 0.0) -> None:
        """Absorb x (n,) in order, all at least −floor."""
        self.count += x.size
        self._add(np.ascontiguousarray(x), floor)

    @abstractmethod
    def _add(self, x: Floats, floor: float) -> None: ...

    @property
    @abstractmethod
    def lower(self) -> float:
        """The bound now."""


class BettingLower(LowerSequence):
    """Wealth K_t(m) = Σ_j prior_j Π_i (1 + γ_j (x_i + k_i)) / (1 + γ_j (m + k_i)) against the mean m.

    Each factor is non-negative and has mean one if m = ν, so K_t(ν) is a martingale that starts at 1 and
    exceeds 1/α ever with probability at most α (Ville). It decreases in m: the bound is where it meets
    1/α. In the usual form the bet is λ = γ/(1 + γ(m + k)) of 1 + λ(x − m); with γ fixed the x_i enter
    through Σ log(1 + γ_j (x_i + k_i)) alone, so memory is J numbers and m needs no grid. By concavity of
    the logarithm, with k = 0, K_t(average of the values so far) is no larger than the martingale.
    """

    BETS = 16.0 * 1.6 ** -np.arange(32.0)
    """γ from 16 to 8e-6, equally likely on the logarithmic scale: the best bet shrinks like 1/√n."""

    def __init__(self, level: float):
        super().__init__(level)
        self._gains = np.zeros(self.BETS.size)
        self._log_prior = np.full(self.BETS.size, -math.log(self.BETS.size))
        self._seen: dict[float, int] = {}

    def _add(self, x: Floats, floor: float) -> None:
        kernels.betting(self._gains, self.BETS, x, floor)
        self._seen[floor] = self._seen.get(floor, 0) + x.size

    def _past(self) -> tuple[Floats, Floats]:
        counts, floors = self._seen.values(), self._seen
        return np.array(list(counts), dtype=np.float64), np.array(list(floors), dtype=np.float64)

    def log_wealth(self, mean: float) -> float:
        """log K_t(mean)."""
        return float(kernels.log_wealth(self._gains, self.BETS, self._log_prior, *self._past(), mean)[0])

    @property
    def lower(self) -> float:
        """Where the wealth is 1/α."""
        return float(
            kernels.betting_lower(self._gains, self.BETS, self._log_prior, *self._past(), self.log_level)
        )


class BernsteinLower(LowerSequence):
    """L_t = (Σ λ ξ − log(1/α) − Σ ψ(λ)(ξ − ξ̂)²) / Σ λ/(1 + k),  ψ(λ) = −log(1 − λ) − λ,  ξ = x/(1 + k).

    exp(λy − ψ(λ)y²) ≤ 1 + λy for y ≥ −1 and λ in [0, 1) (Fan, Grama & Liu 2015) makes
    exp(Σ λ(ξ − ν/(1 + k)) − ψ(λ)(ξ − ξ̂)²) a supermartingale. Waudby-Smith & Ramdas (2024).
    """

    def _add(self, x: Floats, floor: float) -> None:
        kernels.bernstein(self._state, x, floor, self.log_level, LARGEST_RATE)

    @property
    def lower(self) -> float:
        """L_t, cut to [0, 1]."""
        if self.count == 0:
            return 0.0
        s = self._state
        bound = (s[kernels.CENTRE] - self.log_level - s[kernels.PENALTY]) / s[kernels.WEIGHT]
        return float(min(max(bound, 0.0), 1.0))


class MixtureLower(LowerSequence):
    """∫ exp(λS − ψ(λ)V) dF(λ) < 1/α with S = Σ (x_i − m), V = Σ (x_i − x̂_{i−1})², F a gamma density in 1 − λ.

    For non-negative x only. Howard, Ramdas, McAuliffe & Sekhon (2021), Proposition 9.
    """

    def _add(self, x: Floats, floor: float) -> None:
        if floor != 0:
            raise ValueError("the mixture sequence is for non-negative terms: use betting or bernstein")
        kernels.mixture(self._state, x)

    @property
    def lower(self) -> float:
        """The smallest mean whose mixture is below 1/α."""
        if self.count == 0:
            return 0.0
        total, squares = float(self._state[kernels.SUM]), float(self._state[kernels.SQUARES])

        def excess(mean: float) -> float:
            return log_mixture(total - self.count * mean, squares) - self.log_level

        highest = min(1.0, total / self.count)
        if excess(0.0) <= 0:
            return 0.0
        if excess(highest) >= 0:
            return highest
        return float(brentq(excess, 0.0, highest, xtol=1e-14))


def log_mixture(s: float, v: float, rho: float = 1.0) -> float:
    """log ∫ exp(λs − ψ(λ)v) dF(λ), F with density ∝ (1 − λ)^{ρ−1} e^{−ρ(1−λ)} on [0, 1); s ≥ 0."""
    a, b = v + rho, s + v + rho
    normaliser = math.log(gammainc(rho, rho)) + gammaln(rho)
    return float(
        rho * math.log(rho) - normaliser + s + v - a * math.log(b) + math.log(gammainc(a, b)) + gammaln(a)
    )


def lower_sequence(kind: str, level: float) -> LowerSequence:
    """The sequence of that name with error probability `level`."""
    checks.option("interval", kind, KINDS)
    if kind == "mixture":
        return MixtureLower(level)
    return BettingLower(level) if kind == "betting" else BernsteinLower(level)


class ValueSequence:
    """Two-sided confidence sequence for a value, or for the difference of two.

    With `drift` it is about the average value so far, and only the bounds at n count.
    """

    def __init__(
        self,
        kind: str,
        confidence: float,
        reward_range: tuple[float, float],
        *,
        difference: bool = False,
        drift: bool = False,
    ):
        if drift and kind == "bernstein":
            message = "interval='bernstein' needs one value that does not change: use betting or mixture"
            raise BadValue("interval", message)
        self._below, self._above = (lower_sequence(kind, (1.0 - confidence) / 2.0) for _ in range(2))
        self._range, self._difference, self._drift = reward_range, difference, drift
        self._best = (0.0, 0.0)
        self._sum = 0.0
        self._next = 1
        self._trace: list[tuple[int, float, float, float]] = []

    @property
    def count(self) -> int:
        """Decisions absorbed."""
        return self._below.count

    def floors(self, n: int) -> Floats:
        """k_t of the next n doubly robust terms, (n,).

        The reward model is cut where its weight exceeds k_t/q̂. k_t = 0.2 √(t log(1 + t) / 2 log(1/α)) grows
        as bets shrink, so the cut vanishes; it changes where t is a power of two, and is known beforehand.
        """
        t = 2.0 ** np.floor(np.log2(np.arange(self.count + 1, self.count + n + 1)))
        floor: Floats = 0.2 * np.sqrt(t * np.log1p(t) / (2.0 * self._below.log_level))
        return floor

    def add(self, value: Floats, below: Floats, above: Floats, floor: Floats | None = None) -> None:
        """Absorb n decisions in order.

        value: the estimator's terms, whose mean is the estimate; below, above: terms with means ν and
        1 − ν scaled to [0, 1], which are at least −floor.
        """
        k = np.zeros(below.size) if floor is None else floor
        total = self._sum + np.cumsum(value)
        start, done = self.count, 0
        while done < below.size:
            same = np.flatnonzero(k[done:] != k[done])
            stop = min(self._next - start, below.size, done + (int(same[0]) if same.size else below.size))
            self._below.add(below[done:stop], float(k[done]))
            self._above.add(above[done:stop], float(k[done]))
            done = stop
            if self.count == self._next:
                self._trace.append((self.count, float(total[done - 1]) / self.count, *self.bounds))
                self._next = max(self._next + 1, int(self._next * TRACE_GROWTH))
        self._sum = float(total[-1])

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
        low, high = now[0], 1.0 - now[1]
        if low > high:
            return math.nan, math.nan
        return self._scale(low), self._scale(high)

    def _scale(self, value: float) -> float:
        low, high = self._range
        if self._difference:
            return (2.0 * value - 1.0) * (high - low)
        return low + value * (high - low)

    def table(self) -> Table:
        """n, estimate, lower, upper at growing n, and now."""
        rows = {row[0]: row for row in (*self._trace, (self.count, self.estimate, *self.bounds))}
        columns = zip(*rows.values(), strict=True)
        return Table(dict(zip(("n", "estimate", "lower", "upper"), columns, strict=True)))


def ipw_terms(weight: Floats, reward: Floats) -> tuple[Floats, Floats]:
    """(w r, w (1 − r)) for rewards scaled to [0, 1]."""
    return weight * reward, weight * (1.0 - reward)


def dr_terms(
    rounds: Rounds, target: Floats, weight: Floats, reward: Floats, model: Floats, floor: Floats
) -> tuple[Floats, Floats]:
    """Doubly robust terms that never fall below −k_t, with means ν and 1 − ν.

    w (r − q) + Σ_a π(a) q(a) with the model q(a) = min(q̂(a), k/w(a)) cut where its weight is large; it is
    the same q in both places, so the mean does not change. Reflected: r → 1 − r, q̂ → 1 − q̂.
    reward and model are scaled to [0, 1]; target, model (ΣK,); weight, reward, floor (n,).
    """
    assert rounds.logged is not None
    assert rounds.arm_count is not None
    # π(a) q(a) = min(π(a) q̂(a), k p(a)) needs no division, and is right where p(a) or π(a) is zero.
    cap = np.repeat(floor, rounds.arm_count) * rounds.logged
    terms = []
    for q, r in ((model, reward), (1.0 - model, 1.0 - reward)):
        expected = rounds.sum_over_arms(np.minimum(target * q, cap))
        played = np.minimum(weight * q[rounds.chosen], floor)
        terms.append(weight * r - played + expected)
    return terms[0], terms[1]
