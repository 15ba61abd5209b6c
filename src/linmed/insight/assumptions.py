"""Whether rewards refute what a confidence set takes for granted (`Posterior.grounds`).

Three tests, each right at all times at once, whoever chose the arms. L(θ) is Σ(y − ⟨a,θ⟩)².
- S: by the confidence set L(θ*) ≤ RSS + Q. If no θ with ‖θ‖ ≤ S is there, S is refuted.
- σ: Ση² ≤ σ² min_u (log(1/δ) − (n/2) log(1 − 2u))/u for sub-Gaussian noise. If L(θ) is larger for every θ
  with ‖θ‖ ≤ S, σ is refuted.
- Lack of fit, where features repeat: each row's mean has its own posterior N(first reward, σ²) from the first
  reward on. Those predictions against the truth's are a supermartingale: over all rewards but the first of
  each row Ση² ≤ P + σ²(Σ log n_k + 2 log(1/δ)), P the sum of squares about the rows' means (pure error). If
  the best linear fit leaves more, rewards are not linear in the features. With σ unknown the predictions are
  Student's, and the bound is R of the set GAUSSIAN.
With an intercept L is that of the contrasts, which is no larger than Ση² either.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from linmed.core import core
from linmed.policies import Posterior
from linmed.validation import Floats


def refuted(seen: Posterior, delta: float) -> str | None:
    """Say why norm_bound or sigma cannot be right; None if they can.

    Where they are right this is said with probability `delta` at most, ever.
    """
    if seen.sums is None:
        return None
    (gram, moment, rss, lam, sigma, norm, radius), n, own = seen.sums, seen.count, seen.theta
    if radius is None or sigma == norm == 0.0:
        return None
    if lam <= 0.0 or not rss >= 0.0 or n == 0:  # nothing was seen
        return None
    noise = sigma**2 * _most_squares(n, delta / 2.0) if sigma > 0.0 else math.inf
    limit = rss + radius(delta / 2.0) ** 2 - lam * norm**2 if norm > 0.0 else math.inf
    length2 = float(np.vecdot(own, own))
    part = norm / math.sqrt(length2) if 0.0 < norm**2 < length2 else 1.0
    reached = rss + (1.0 - part) ** 2 * float(np.vecdot(moment, own)) - lam * part**2 * length2
    if reached <= min(noise, limit):
        return None  # θ̂, or what is left of it at length S: nothing speaks against it
    fits = _Fits(gram, moment, rss, lam)
    shortest = fits.least(norm if norm > 0.0 else math.inf)
    if shortest > limit + fits.rounding:
        given = f" with sigma={sigma:g}" if sigma > 0.0 else ""
        return (
            f"norm_bound={norm:g} is refuted: no theta of that length explains the rewards{given}, it is "
            f"at least {fits.length(limit):.3g} long. A larger norm_bound, ridge='learned' or, where rewards "
            "have a level of their own, intercept=True may be right"
        )
    if shortest > noise + fits.rounding:
        least = sigma * math.sqrt(shortest / noise)
        return (
            f"sigma={sigma:g} is refuted: beside any linear fit these rewards have a noise of {least:.3g} at "
            "least. A larger sigma, or sigma='unknown', may be right"
        )
    return None


@lru_cache(maxsize=1024)
def _most_squares(n: int, delta: float) -> float:
    """Ση² of n rewards in units of σ², at most, at all times with probability 1 − δ."""
    u = np.geomspace(0.005, 0.49, 32)
    return float(((math.log(32.0 / delta) - 0.5 * n * np.log1p(-2.0 * u)) / u).min())


class _Fits:
    """L(θ) along the θ that are best for their length, θ = (G + μI)⁻¹b."""

    def __init__(self, gram: Floats, moment: Floats, rss: float, lam: float) -> None:
        whole = np.tril(gram) + np.tril(gram, -1).T
        values, vectors = np.linalg.eigh(whole)
        self.along = np.maximum(values - lam, 0.0)
        self.along[self.along < 1e-12 * values[-1]] = 0.0
        self.moment = np.where(self.along > 0.0, moment @ vectors, 0.0)
        self.squares = rss + float(np.sum((moment @ vectors) ** 2 / values))  # Σy²
        self.rounding = 1e-9 * self.squares

    def at(self, mu: float) -> tuple[float, float]:
        """Compute L and ‖θ‖."""
        theta = np.divide(
            self.moment, self.along + mu, out=np.zeros_like(self.along), where=self.along + mu > 0.0
        )
        left = self.squares - 2.0 * float(self.moment @ theta) + float(self.along @ theta**2)
        return left, math.sqrt(float(theta @ theta))

    def least(self, length: float) -> float:
        """Find the smallest L of the θ that are no longer than this."""
        left, own = self.at(0.0)
        return left if own <= length else self.at(self._where(lambda found: found[1] <= length))[0]

    def length(self, squares: float) -> float:
        """Tell how long the shortest θ is whose L is no larger than this."""
        return self.at(1.0 / self._where(lambda found: found[0] <= squares, inverse=True))[1]

    def _where(self, holds: Any, inverse: bool = False) -> float:
        """Find the least μ (or 1/μ) from which on it holds."""
        low, high = -700.0, 700.0
        for _ in range(100):
            middle = 0.5 * (low + high)
            mu = math.exp(-middle if inverse else middle)
            low, high = (low, middle) if holds(self.at(mu)) else (middle, high)
        return math.exp(high)


def contradiction(seen: Posterior | None, delta: float, repeats: "Repeats | None") -> str | None:
    """Say what the rewards have against what a set assumes, or None; wrongly with probability δ at most."""
    if seen is None or seen.sums is None:
        return None
    found = None
    if repeats is not None:  # which says most: what is not linear looks like noise, or like a long theta
        found = repeats.lack_of_fit(seen.sums.sigma or None, delta / 2.0, seen.intercept)
    return refuted(seen, delta / 2.0) if found is None else found


_KEPT = "repeats_features", "repeats_sums"


class Repeats:
    """Rewards of features that come again: of each row its first reward, and of those after it three sums.

    The first 256 rows that come are kept.

    >>> import numpy as np
    >>> from linmed.insight.assumptions import Repeats
    >>> seen, arms = Repeats(), np.array([[1.0], [2.0], [3.0]])
    >>> for reward in [1.0, 2.0, 3.0, 2.0, 1.0, 3.0] * 50:
    ...     for arm, mean in zip(arms, [1.0, 4.0, 9.0]):
    ...         seen.add(arm, mean + reward)
    >>> seen.lack_of_fit(sigma=1.0, delta=0.05, intercept=False)[:46]
    'rewards are not linear in the features: 3 rows'
    """

    def __init__(self) -> None:
        self.rows: dict[bytes, list[float]] = {}  # first reward, others, Σ(y − first), Σ(y − first)²
        self._found: tuple[Any, str | None] = (None, None)

    def add(self, features: Floats, reward: float) -> None:
        """Note one reward of a row (d,)."""
        self.add_row(features.tobytes(), reward)

    def add_row(self, key: bytes, reward: float) -> None:
        """Note one reward of a row by its bytes."""
        core.note(self.rows, key, reward)

    def correct_row(self, key: bytes, before: float, after: float) -> None:
        """Take `after` for a reward of a row that was noted as `before`."""
        row = self.rows.get(key)
        if row is None:
            return
        if row[1] == 0.0:
            row[0] = after
            return
        row[2] += after - before
        row[3] += (after - row[0]) ** 2 - (before - row[0]) ** 2

    def lack_of_fit(self, sigma: float | None, delta: float, intercept: bool) -> str | None:
        """Say what shows that rewards are not linear in the features, or None; wrongly with probability δ.

        `sigma`: None where it is unknown, and the noise Gaussian.
        """
        rows = [(key, row) for key, row in self.rows.items() if row[1] > 0.0]
        if len(rows) < 2:
            return None
        asked = sigma, delta, intercept, len(rows), sum(row[1] for _, row in rows)
        if self._found[0] != asked:
            self._found = asked, self._lack_of_fit(rows, sigma, delta, intercept)
        return self._found[1]

    @staticmethod
    def _lack_of_fit(
        rows: list[tuple[bytes, list[float]]], sigma: float | None, delta: float, intercept: bool
    ) -> str | None:
        matrix = np.array([np.frombuffer(key) for key, _ in rows])
        first, others, total, squares = np.array([row for _, row in rows]).T
        if intercept:
            matrix = np.column_stack([matrix, np.ones(len(rows))])
        matrix = matrix / np.maximum(np.abs(matrix).max(axis=0), 1e-300)
        origin = float(first @ others) / float(others.sum()) if intercept else 0.0
        means, root = first - origin + total / others, np.sqrt(others)
        theta = np.linalg.lstsq(root[:, None] * matrix, root * means)[0]
        beside = float(np.sum(others * (means - np.einsum("kd,d->k", matrix, theta)) ** 2))
        left = beside + float(np.sum(squares - total**2 / others))
        pure = float(np.sum(np.maximum(squares - total**2 / (others + 1.0), 0.0)))
        known, n = float(np.log1p(others).sum()), float(others.sum())
        if sigma is not None:
            limit = pure + sigma**2 * (known - 2.0 * math.log(delta))
        else:
            limit = _largest_squares(n, known, pure, delta)
        if not left > limit + 1e-9 * float(np.sum(others * means**2)):
            return None
        missing = "A column" if intercept else "A constant (intercept=True) or a column"
        return (
            f"rewards are not linear in the features: {len(rows)} rows of features came again and again, and "
            f"the best linear fit leaves a sum of squares of {left:.4g} over {n:,.0f} rewards, where the "
            f"rows' means leave {pure:.4g} and chance explains {limit:.4g}. {missing} such as a square or a "
            "product may be missing"
        )

    def add_all(self, features: Floats, rewards: Floats) -> None:
        """Note one reward for each of the rows (n,d)."""
        for row, reward in zip(features, rewards.tolist(), strict=True):
            self.add(row, reward)

    def to_dict(self) -> dict[str, Floats]:
        """Give the sums as arrays, to be saved."""
        if not self.rows:
            return {}
        arrays = np.array([np.frombuffer(key) for key in self.rows]), np.array([*self.rows.values()])
        return dict(zip(_KEPT, arrays, strict=True))

    @classmethod
    def from_dict(cls, arrays: dict[str, Any], dim: int) -> "Repeats":
        """Take what `to_dict` wrote out of `arrays`; none where there is nothing."""
        nothing = np.empty((0, dim)), np.empty((0, 4))
        features, sums = (arrays.pop(name, no) for name, no in zip(_KEPT, nothing, strict=True))
        shapes = (len(features), dim), (len(features), 4)
        if (features.shape, sums.shape) != shapes or features.dtype != sums.dtype or features.dtype != float:
            raise ValueError(f"repeated rows of shapes {features.shape} and {sums.shape}")
        found = cls()
        found.rows = {row.tobytes(): own for row, own in zip(features, sums.tolist(), strict=True)}
        return found


def _largest_squares(n: float, known: float, pure: float, delta: float) -> float:
    """Ση² of n rewards of Gaussian noise, at most, by predictions that cost `known`/2 and left `pure`."""
    scales = np.log(10.0) * np.arange(-12.0, 12.5, 0.5)
    power = 0.5 * (n + 1.0)
    each = power * np.logaddexp(2.0 * scales, math.log(max(pure, 1e-300))) - scales
    surprise = 0.5 * known + power * math.log(math.pi) - math.lgamma(power)
    surprise += float(each.min()) - math.log(float(np.exp(each.min() - each).mean()))
    exponent = 2.0 / n * (surprise - math.log(delta)) + math.log(n / (2.0 * math.pi)) - 1.0
    return math.exp(min(exponent, 600.0))
