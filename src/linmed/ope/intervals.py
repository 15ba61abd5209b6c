"""Intervals by limit theorems. What makes each valid is said with it; `sequences` needs no limit."""

import math
import warnings
from statistics import NormalDist

import numpy as np

from linmed.core import core
from linmed.ope.sums import Moments
from linmed.streams import stream
from linmed.validation import Floats


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


VALID = {
    "normal": "independent",
    "bootstrap": "independent",
    "adaptive": "adaptive",
    "betting": "any time",
    "bernstein": "any time",
    "mixture": "any time",
    "asymptotic": "asymptotic",
    "none": "—",
}
"""Interval → when it holds, as the `valid` column says."""
PLANNED = 100_000
"""Decisions at which the asymptotic sequence is narrowest."""


BLOCK = 4096
"""Decisions that a bootstrap resamples together."""
CERTAINTY = 1e-5
"""Of its ends: an interval narrower than this is rounding, not knowledge."""


def honest(low: float, high: float) -> tuple[float, float]:
    """The interval, or NaN where nothing varied but the last digits."""
    return (low, high) if high - low > CERTAINTY * max(abs(low), abs(high)) else (math.nan, math.nan)


def quantile(confidence: float) -> float:
    """z with P(|N(0,1)| ≤ z) = confidence."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def asymptotic_quantile(n: int, confidence: float) -> float:
    """z_n with |mean − truth| ≤ z_n SE at every large n at once, with probability `confidence`.

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
    """estimate ± z·SE by the central limit theorem.

    Valid for independent decisions (a logging policy that did not learn) and many of them; not for a
    number of decisions chosen by looking at the results.
    """
    half = quantile(confidence) * moments.standard_error
    return moments.estimate - half, moments.estimate + half


class Bootstrap:
    """Percentiles over resampled logs; each decision gets a Poisson(1) multiplicity in each, so it streams.

    Valid as `normal` is, without its symmetry. Efron (1979); Chamandy et al. (2012) for the streaming form.
    """

    def __init__(self, samples: int, seed: int):
        self._sums = np.zeros((samples, 4))  # Σ x, Σ y, Σ z and the number of decisions, of each resample
        self._ratio = False  # whether there are y and z
        self._rng = stream(seed, "bootstrap")
        self._rest = np.zeros((0, 4))  # decisions that do not fill a block yet

    def add(self, x: Floats | None, y: Floats | None, z: Floats | None) -> None:
        """Absorb n decisions."""
        self._ratio |= z is not None
        size = next(column.size for column in (x, y, z) if column is not None)
        columns = [np.zeros(size) if column is None else column for column in (x, y, z)]
        values = np.concatenate([self._rest, np.stack([*columns, np.ones(size)], axis=1)])
        whole = len(values) - len(values) % BLOCK  # blocks of the log's own, however it comes in batches
        for start in range(0, whole, BLOCK):
            self._sums += self._resampled(values[start : start + BLOCK])
        self._rest = values[whole:]

    def _resampled(self, block: Floats) -> Floats:
        multiplicity = self._rng.poisson(1.0, (self._sums.shape[0], len(block)))
        # Not a BLAS product: its last digits would depend on the processor.
        sums: Floats = np.einsum("sn,nk->sk", multiplicity.astype(np.float64), block)
        return sums

    def interval(self, confidence: float) -> tuple[float, float]:
        """Percentiles of the resampled estimates; resamples without any weight do not count."""
        self._sums += self._resampled(self._rest)
        self._rest = self._rest[:0]
        x, y, z, n = self._sums.T
        ratio = np.divide(y, z, out=np.zeros_like(y), where=z != 0)
        usable = (z != 0) if self._ratio else (n > 0)
        estimates = (x / np.maximum(n, 1) + ratio)[usable]
        if estimates.size == 0:
            return float("nan"), float("nan")
        tail = (1 - confidence) / 2
        low, high = np.quantile(estimates, [tail, 1 - tail])
        return float(low), float(high)


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
        """Q̂ ± z √(Σ h²(Γ − Q̂)²) / Σ h."""
        total, _, h2, h2g, h2g2 = self._sums
        q = self.estimate
        variance = max(h2g2 - 2 * q * h2g + q * q * h2, 0.0)
        half = quantile(confidence) * float(np.sqrt(variance) / total)
        return q - half, q + half


def warn(message: str) -> None:
    """One warning, blamed on the caller of the public function."""
    warnings.warn(message, OPEWarning, stacklevel=3)
