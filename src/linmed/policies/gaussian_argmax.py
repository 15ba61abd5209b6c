"""Which arm is best under θ̃ ~ N(θ̂, s² V⁻¹)? The probabilities behind linear Thompson sampling.

The best method that fits is taken: two arms by the normal CDF (exact, also in the tails), arms whose
differences span at most a plane by the angular integral, and the others by the chance that each has on its
own ray through the points of a Sobol set; very many arms by lines that all share. An arm that duplicates an
earlier one or lies inside the hull of the others has probability 0; so has, in more than two dimensions, one
that beats the leader with less than Φ(−9) = 1e-19, and among very many one too rare for any line to meet.
"""

import math
from functools import lru_cache
from typing import Protocol

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels import orthant, own_rays, rays, thompson

ANGULAR_ERROR = 1e-9
ENOUGH = 1e-4  # an error that asks for no more points
WORK = 100_000  # points are doubled up to so many times the arms …
MOST_POINTS = 8192  # … and to this number
FLAT, FEW = 6, 64  # up to so many dimensions and arms, an arm's points are its own
NEGLIGIBLE = 1e-5  # the arms that have so much together may be left out for more points on the others
MOST_ARMS = 2048  # beyond, lines that all arms share: the rays take the square of their number
BLOCKS, POINTS = 8, 2048  # consecutive parts of the Sobol set for the lines, and lines in each
RARE = 1.0 / 16384  # nothing is said with more certainty about an arm that has less …
SHARE = 0.1  # … nor than this part of a point


class Normal(Protocol):
    """A normal law of θ in every replica."""

    @property
    def theta(self) -> Floats:
        """Its means (R,d)."""

    @property
    def gram(self) -> Floats:
        """V, its precisions times s² (R,d,d)."""


def log_best_arm_probabilities(
    state: Normal, arms: Floats, lam: float, scale: Floats
) -> tuple[Floats, Floats]:
    """log P(arm is best) and the probability's standard error.  → (R,K) twice.

    arms (R,K,d) or (1,K,d); a state of one replica, with its scale, serves R sets.
    """
    replicas, (_, K, dim) = max(len(state.theta), len(arms)), arms.shape
    p, error = np.zeros((replicas, K)), np.zeros((replicas, K))
    if K == 1:
        return p, error
    if K == 2:
        thompson.two_arms(arms, state.theta, state.gram, lam, scale, p)
        return p, error
    if dim <= 2:
        thompson.planes(arms, state.theta, state.gram, lam, scale, p)
        error[:] = ANGULAR_ERROR
    else:
        for r in range(replicas):
            if r < len(arms):
                A = arms[r]
                rows = thompson.distinct(A)
            s = r if len(state.theta) > 1 else 0
            p[r], error[r] = _in_space(A, rows, state, s, lam, scale)
    with np.errstate(divide="ignore"):
        return np.log(p), error


def with_played(log_p: Floats, error: Floats, arm: Ints) -> None:
    """Turn log_p (R,K) into the law that a decision reports, in place.  error (R,K), arm (R,).

    An arm that was played is possible. Where its number is zero, it gets half of RARE; where that is below
    its own error, that error, half of RARE at the most; and the others that much less: a weight 1/p must not
    come from digits that nobody knows.
    """
    for r, played in enumerate(arm):
        p = math.exp(log_p[r, played])
        least = min(error[r, played], 0.5 * RARE) if p > 0.0 else 0.5 * RARE
        if p < least:
            log_p[r] += math.log1p(-least) - math.log1p(-p)
            log_p[r, played] = math.log(least)
            error[r, played] = max(error[r, played], least)


def _in_space(
    A: Floats, rows: Ints, state: Normal, s: int, lam: float, scale: Floats
) -> tuple[Floats, Floats]:
    """Probabilities and errors in more than two dimensions.  A (K,d), rows the distinct arms → (K,) twice."""
    p, error = np.zeros(len(A)), np.zeros(len(A))
    left, B, mean, m, bound = thompson.contenders(A, rows, state.theta, state.gram, s, lam, scale)
    p[left], error[left] = _of_contenders(B, mean, m, bound)
    return p, error


def _of_contenders(B: Floats, mean: Floats, m: Floats, bound: Floats) -> tuple[Floats, Floats]:
    """Probabilities and errors (n,) from what `thompson.contenders` says of the arms that are left."""
    n = B.shape[1]
    p, error = np.empty(n), np.full(n, ANGULAR_ERROR)
    rank = orthant.principal_axes(B, m)
    if rank <= 2:
        orthant.planar(B[:2], m[:2], p)
        return p, error
    B = B[:rank]
    rare = RARE
    if n > MOST_ARMS:
        estimates = np.empty((BLOCKS, n))
        normals = sobol_normals(rank - 1, BLOCKS * POINTS).T.reshape(BLOCKS, POINTS, rank - 1)
        orthant.line_average(mean, B, np.ascontiguousarray(normals), estimates)
        p, error = estimates.mean(axis=0), estimates.std(axis=0, ddof=1) / math.sqrt(BLOCKS)
        p /= p.sum()
    else:
        rare = max(rare, SHARE / _by_rays(B, mean, p, error))
    # What is hardly ever met may have as much as that, if the leader leaves it that.
    told = np.maximum(error, np.minimum(bound, rare - p))
    if error.max() > ENOUGH and 2 * np.count_nonzero(p > NEGLIGIBLE) <= n <= MOST_ARMS:
        left_out = np.empty(n, dtype=np.bool_)
        order = p.argsort(kind="stable")
        left_out[order] = p[order].cumsum() <= NEGLIGIBLE
        kept = ~left_out
        if 2 * np.count_nonzero(kept) <= n:  # their number of points at least doubles
            rest = p[left_out].sum()
            some = np.ascontiguousarray(B[:, kept])
            p[kept], told[kept] = _of_contenders(some, mean[kept], m[:rank], bound[kept])
            p[kept] *= 1.0 - rest
            told[kept] += rest + math.hypot(*error[left_out])
    return p, told


def _by_rays(B: Floats, mean: Floats, p: Floats, error: Floats) -> int:
    """Probabilities and errors (n,) of arms with coordinates B (rank,n), by points whose number fits n.

    Returns how many points were taken.
    """
    rank, n = B.shape
    shared = rank > FLAT or n > FEW
    most = least = rays.PILOT if shared else 2 * rays.PILOT
    while most < min(MOST_POINTS, WORK / n):
        most *= 2
    if shared:
        normals, start = sobol_normals(rank, most), max(least, min(most // 2, 512))
        return int(rays.shared_points(mean, B, normals, start, ENOUGH, p, error))
    pilot, normals = sobol_normals(rank, rays.PILOT), sobol_normals(rank - 1, most)
    return int(own_rays.own_points(mean, B, pilot, normals, max(least, most // 8), ENOUGH, p, error))


@lru_cache(maxsize=32)
def sobol_normals(dim: int, points: int) -> Floats:
    """Standard normals at a scrambled Sobol set (dim, points)."""
    from scipy.special import ndtri  # both take longer to import than all the rest together
    from scipy.stats import qmc

    uniforms = qmc.Sobol(dim, scramble=True, seed=np.random.default_rng(0)).random(points)
    normals: Floats = ndtri(uniforms + 2.0**-31)  # the points are multiples of 2⁻³⁰, zero among them
    return np.ascontiguousarray(normals.T)
