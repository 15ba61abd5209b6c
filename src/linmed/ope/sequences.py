"""Time-uniform confidence sequences: with probability 1 − α they contain the value at *every* n at once.

So a log may be looked at after every decision and stopped whenever one likes. They need the range of the
rewards and exact probabilities; nothing is assumed of how the logging policy learned, nor of how large
weights become. With rewards scaled to [0, 1], x_t = w_t r_t is non-negative with the value ν as
conditional mean, and w_t (1 − r_t) has mean 1 − ν: each gives a lower bound at level α/2, the second,
reflected, the upper one. Where the target plays arms the log never could, both means shrink and the
bounds stay true. Waudby-Smith, Wu, Ramdas, Karampatziakis & Mineiro (2022).

- betting: ν such that a gambler betting against it has not multiplied his stake by 2/α. The tightest.
- bernstein: a closed form of the same bets, by exp(λy − ψ(λ)y²) ≤ 1 + λy.
- mixture: bets averaged over a gamma prior (Howard, Ramdas, McAuliffe & Sekhon 2021). Its statement
  is about the average of the conditional values so far, so it also holds where contexts drift; the
  other two are about one value that does not change.
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.optimize import brentq
from scipy.special import gammainc, gammaln

from linmed import checks
from linmed.checks import Floats
from linmed.kernels import sequences as kernels
from linmed.ope.rounds import Rounds

KINDS = ("betting", "bernstein", "mixture")
GRID = 512
CAP = 0.5
"""Largest share of the stake a bet may lose in one round."""
TRACE_GROWTH = 1.02


class LowerSequence:
    """Lower confidence sequence for the mean ν ∈ [0, 1] of x_t ≥ −k_t (k_t = 0 unless given)."""

    def __init__(self, kind: str, level: float, grid: int = GRID):
        self.kind = checks.option("interval", kind, KINDS)
        self.log_level = -math.log(level)
        self._state = np.zeros(kernels.FIELDS)
        points = grid if kind == "betting" else 0
        # Candidates are densest near 0 and 1, where intervals are narrow.
        self._grid = np.sin(0.5 * np.pi * np.arange(1, points + 1) / max(points, 1)) ** 2
        self._capital = np.zeros(points)
        self._factor = np.ones(points)

    @property
    def count(self) -> int:
        """How many x_t it has seen."""
        return int(self._state[kernels.COUNT])

    def add(self, x: Floats, floor: Floats | None = None, at: Any = None) -> Floats:
        """Absorb x (n,) in order; the bounds after each of them, or after those with index in `at` only."""
        k = np.zeros(x.size) if floor is None else floor
        x, k = np.ascontiguousarray(x), np.ascontiguousarray(k)
        chosen = np.arange(x.size) if at is None else np.asarray(at, dtype=np.int64)
        out = np.empty(x.size)
        if self.kind == "betting":
            kernels.betting(
                self._state, self._grid, self._capital, self._factor, x, k, self.log_level, CAP, out
            )
        elif self.kind == "bernstein":
            kernels.bernstein(self._state, x, k, self.log_level, CAP, out)
        else:
            if k.any():
                raise ValueError("the mixture sequence is for non-negative terms: use betting or bernstein")
            t0, squares = self.count, np.empty(x.size)
            kernels.mixture(self._state, x, out, squares)
            return np.array([mixture_lower(t0 + i + 1, out[i], squares[i], self.log_level) for i in chosen])
        return out[chosen]

    @property
    def lower(self) -> float:
        """The bound now."""
        s = self._state
        if self.kind == "mixture":
            return mixture_lower(int(s[kernels.COUNT]), s[kernels.SUM], s[kernels.SQUARES], self.log_level)
        return float(s[kernels.BEST])


def mixture_lower(t: int, total: float, squares: float, log_level: float, rho: float = 1.0) -> float:
    """The smallest mean whose gamma-exponential mixture wealth is below 1/α."""
    if t == 0:
        return 0.0

    def excess(mean: float) -> float:
        return log_mixture(total - t * mean, squares, rho) - log_level

    highest = min(1.0, total / t)
    if excess(0.0) <= 0:
        return 0.0
    if excess(highest) >= 0:
        return highest
    return float(brentq(excess, 0.0, highest, xtol=1e-14))


def log_mixture(s: float, v: float, rho: float) -> float:
    """log ∫ exp(λs − ψ(λ)v) dF(λ), F the gamma density of shape ρ in 1 − λ, normalised on [0, 1)."""
    a, b = v + rho, s + v + rho
    log_lower = math.log(gammainc(a, b)) + gammaln(a) if b > 0 else -math.inf
    return float(
        rho * math.log(rho)
        - math.log(gammainc(rho, rho))
        - gammaln(rho)
        + s
        + v
        - a * math.log(b)
        + log_lower
    )


class ValueSequence:
    """Two-sided confidence sequence for a value, or for the difference of two."""

    def __init__(self, kind: str, confidence: float, reward_range: tuple[float, float], difference: bool = False):
        level = (1.0 - confidence) / 2.0
        self._below = LowerSequence(kind, level)
        self._above = LowerSequence(kind, level)
        self._range = reward_range
        self._difference = difference
        self._sum = 0.0
        self._next = 1
        self.trace: list[tuple[int, float, float, float]] = []

    def floors(self, n: int) -> Floats:
        """k_t of the next n doubly robust terms: growing with t as bets shrink, so the model is cut ever less."""
        t = np.arange(self._below.count + 1, self._below.count + n + 1, dtype=np.float64)
        floor: Floats = CAP * np.sqrt(t * np.log1p(t) / (2.0 * self._below.log_level))
        return floor

    def add(self, below: Floats, above: Floats, floor: Floats | None = None) -> None:
        """Absorb terms with mean ν (`below`) and 1 − ν (`above`), both scaled to [0, 1] and ≥ −floor."""
        start = self._below.count
        at = []
        while self._next <= start + below.size:
            at.append(self._next - start - 1)
            self._next = max(self._next + 1, int(self._next * TRACE_GROWTH))
        low, high = self._below.add(below, floor, at), 1.0 - self._above.add(above, floor, at)
        mean = 0.5 * (1.0 + below - above)  # both sides' estimate of ν, averaged
        total = self._sum + np.cumsum(mean)
        self._sum = float(total[-1])
        for i, place in enumerate(at):
            n = start + place + 1
            self.trace.append((n, *(self._scale(v) for v in (total[place] / n, low[i], high[i]))))

    def _scale(self, value: float) -> float:
        low, high = self._range
        if self._difference:
            return float((2.0 * value - 1.0) * (high - low))
        return float(low + value * (high - low))

    @property
    def estimate(self) -> float:
        """Mean of the terms."""
        return self._scale(self._sum / max(self._below.count, 1))

    @property
    def bounds(self) -> tuple[float, float]:
        """(lower, upper) now; NaN where no value is compatible with the log."""
        low, high = self._below.lower, 1.0 - self._above.lower
        if low > high:
            return math.nan, math.nan
        return self._scale(low), self._scale(high)

    def table(self) -> pa.Table:
        """n, estimate, lower, upper at growing n."""
        columns = list(zip(*self.trace, strict=True)) or [(), (), (), ()]
        return pa.table(dict(zip(("n", "estimate", "lower", "upper"), columns, strict=True)))


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
    assert rounds.logged is not None and rounds.arm_count is not None
    # π(a) q(a) = min(π(a) q̂(a), k p(a)) needs no division, and is right where p(a) or π(a) is zero.
    cap = np.repeat(floor, rounds.arm_count) * rounds.logged
    terms = []
    for q, r in ((model, reward), (1.0 - model, 1.0 - reward)):
        expected = rounds.sum_over_arms(np.minimum(target * q, cap))
        played = np.minimum(weight * q[rounds.chosen], floor)
        terms.append(weight * r - played + expected)
    return terms[0], terms[1]
