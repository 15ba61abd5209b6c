"""What a log of any length is summarised by: sums that merge, whatever the order of its parts."""

import math

import numpy as np

from linmed.checks import Floats

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
        columns = [column for column in (x, y, z) if column is not None]
        present = [i for i, column in enumerate((x, y, z)) if column is not None]
        other = Moments()
        other.n = columns[0].size
        other.ratio = z is not None
        means = [float(np.mean(column)) for column in columns]
        other.mean[present] = means
        centred = [column - mean for column, mean in zip(columns, means, strict=True)]
        for a, left in zip(present, centred, strict=True):
            for b, right in zip(present, centred, strict=True):
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
