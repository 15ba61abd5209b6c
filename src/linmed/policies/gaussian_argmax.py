"""Which arm is best under θ̃ ~ N(θ̂, s² V⁻¹)? The probabilities behind linear Thompson sampling.

The best method that fits is taken: two arms by the normal CDF (exact, also in the tails), arms whose
differences span at most a plane by the angular integral, and the others by line integration over a Sobol
set. An arm that duplicates an earlier one or lies inside the hull of the others has probability 0; so has,
in more than two dimensions, one that beats the leader with less than Φ(−9) = 1e-19. Line integration says 0,
with an error, also of an arm too rare for any of its lines to meet.
"""

import math
from functools import lru_cache

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels import orthant, thompson
from linmed.policies.base import RidgeState, decisions

ANGULAR_ERROR = 1e-9
BLOCKS = 8  # consecutive parts of one Sobol set: their spread gives an error estimate on the safe side
POINTS = 2048  # lines in each


def log_best_arm_probabilities(
    state: RidgeState, arms: Floats, lam: float, scale: Floats
) -> tuple[Floats, Floats]:
    """log P(arm is best) and the probability's standard error.  → (R,K) twice.

    arms (R,K,d) or (1,K,d); a state of one replica, with its scale, serves R sets.
    """
    replicas, (_, K, dim) = decisions(state, arms), arms.shape
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

    An arm that was played is possible. Where line integration has not seen it, it gets half a line's share;
    where its number is below its own error, that error, half a line's share at the most; and the others that
    much less: a weight 1/p must not come from digits that nobody knows.
    """
    half_a_line = 0.5 / (BLOCKS * POINTS)
    for r, played in enumerate(arm):
        p = math.exp(log_p[r, played])
        least = min(error[r, played], half_a_line) if p > 0.0 else half_a_line
        if p < least:
            log_p[r] += math.log1p(-least) - math.log1p(-p)
            log_p[r, played] = math.log(least)
            error[r, played] = max(error[r, played], least)


def _in_space(
    A: Floats, rows: Ints, state: RidgeState, s: int, lam: float, scale: Floats
) -> tuple[Floats, Floats]:
    """Probabilities and errors in more than two dimensions.  A (K,d), rows the distinct arms → (K,) twice."""
    p, error = np.zeros(len(A)), np.zeros(len(A))
    left, B, mean, m, rank, bound = thompson.contenders(A, rows, state.theta, state.gram, s, lam, scale)
    if rank <= 2:
        inside = np.empty(len(left))
        orthant.planar(B[:2], m[:2], inside)
        p[left], error[left] = inside, ANGULAR_ERROR
        return p, error
    estimates = np.empty((BLOCKS, len(left)))
    orthant.line_average(mean, B[:rank], sobol_normals(rank - 1), estimates)
    p[left] = estimates.mean(axis=0)
    error[left] = estimates.std(axis=0, ddof=1) / math.sqrt(BLOCKS)
    # What the lines have hardly met may have as much as one line's share, if the leader leaves it that.
    error[rows] = np.maximum(error[rows], np.minimum(bound, 1.0 / (BLOCKS * POINTS) - p[rows]))
    return p / p.sum(), error


@lru_cache(maxsize=16)
def sobol_normals(dim: int) -> Floats:
    """Standard normals at a scrambled Sobol set (blocks, points, dim)."""
    from scipy.special import ndtri  # both take longer to import than all the rest together
    from scipy.stats import qmc

    uniforms = qmc.Sobol(dim, scramble=True, seed=np.random.default_rng(0)).random(BLOCKS * POINTS)
    normals: Floats = ndtri(uniforms + 2.0**-31)  # the points are multiples of 2⁻³⁰, zero among them
    return normals.reshape(BLOCKS, POINTS, dim)
