"""Which arm is best under θ̃ ~ N(θ̂, s² V⁻¹)? The probabilities behind linear Thompson sampling.

The best method that fits is taken: two arms by the normal CDF (exact, also in the tails), arms that span
at most a plane by the angular integral, and the others by line integration over a Sobol set.
"""

import math
from functools import lru_cache

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels import orthant, thompson
from linmed.policies.base import RidgeState

ANGULAR_ERROR = 1e-9
BLOCKS = 8  # consecutive parts of one Sobol set: their spread gives an error estimate on the safe side
POINTS = 2048  # lines in each
RANK_TOLERANCE = 1e-10
LOG_RARE = math.log(0.5 / (BLOCKS * POINTS))
"""What a decision reports for an arm that was played though no line came across it."""


def log_best_arm_probabilities(
    state: RidgeState, arms: Floats, lam: float, scale: Floats
) -> tuple[Floats, Floats]:
    """log P(arm is best) and the probability's standard error.  arms (R,K,d) or (1,K,d) → (R,K) twice."""
    replicas, dim = state.theta.shape
    K = arms.shape[1]
    if K == 1:
        return np.zeros((replicas, 1)), np.zeros((replicas, 1))
    if K == 2:
        log_p = np.empty((replicas, 2))
        thompson.two_arms(arms, state.theta, state.gram, lam, scale, log_p)
        return log_p, np.zeros_like(log_p)
    B, m = np.empty((replicas, K, dim)), np.empty((replicas, dim))
    thompson.whiten(arms, state.theta, state.gram, lam, scale, B, m)
    p, error = np.empty((replicas, K)), np.full((replicas, K), ANGULAR_ERROR)
    if dim <= 2:
        orthant.planar(_widen(B), _widen(m), p)
    else:
        same = np.empty((replicas, K), dtype=np.int64)
        thompson.first_of_equals(arms, same)
        U, sizes, W = np.linalg.svd(B, full_matrices=False)
        flat = sizes[:, 2] <= RANK_TOLERANCE * sizes[:, 0]
        if flat.any():
            plane = np.take_along_axis(U[flat, :, :2] * sizes[flat, None, :2], same[flat, :, None], axis=1)
            inside = np.einsum("rjk,rk->rj", W[flat, :2], m[flat])
            planar = np.empty((len(plane), K))
            orthant.planar(plane, inside, planar)
            p[flat] = planar
        if not flat.all():
            rest = ~flat
            mean = np.einsum("rkj,rj->rk", np.broadcast_to(arms, B.shape)[rest], state.theta[rest])
            p[rest], error[rest] = _by_lines(B[rest], mean, same[rest])
    with np.errstate(divide="ignore"):
        return np.log(p), error


def _widen(array: Floats) -> Floats:
    """Zeros as a second coordinate where there is only one.  (..., 1 or 2) → (..., 2)."""
    missing = 2 - array.shape[-1]
    return np.concatenate([array, np.zeros((*array.shape[:-1], missing))], axis=-1) if missing else array


def _by_lines(B: Floats, mean: Floats, same: Ints) -> tuple[Floats, Floats]:
    """Line integration and its standard error.  B (R,K,d), mean, same (R,K) → (R,K) twice.

    A term common to all arms changes no argmax, so the arms may be centred; the lines run along the
    direction in which they differ most.
    """
    replicas, K, _ = B.shape
    p, error = np.zeros((replicas, K)), np.zeros((replicas, K))
    for r in range(replicas):
        first = np.flatnonzero(same[r] == np.arange(K))  # a duplicate of an earlier arm is never played
        U, sizes, W = np.linalg.svd(B[r, first] - B[r, first].mean(axis=0), full_matrices=False)
        rank = max(int(np.count_nonzero(sizes > RANK_TOLERANCE * sizes[0])), 1)
        # A direction and its opposite are both singular vectors: take the same for any order of the arms.
        U *= np.sign(np.take_along_axis(W, np.abs(W).argmax(axis=1)[:, None], axis=1)).T
        order = np.argsort(U[:, 0], kind="stable")
        first = first[order]
        normals = sobol_normals(rank - 1)
        estimates = np.empty((len(normals), len(first)))
        coordinates = np.ascontiguousarray((U[order, :rank] * sizes[:rank]).T)
        orthant.line_average(mean[r, first], coordinates, normals, estimates)
        p[r, first] = estimates.mean(axis=0)
        if rank > 1:
            spread = estimates.std(axis=0, ddof=1) / math.sqrt(BLOCKS)
            error[r, first] = np.where(p[r, first] > 0.0, spread, 1.0 / (BLOCKS * POINTS))
    return p / p.sum(axis=1, keepdims=True), error


@lru_cache(maxsize=16)
def sobol_normals(dim: int) -> Floats:
    """Standard normals at a scrambled Sobol set (blocks, points, dim); in no dimension, one point."""
    if dim == 0:
        return np.zeros((1, 1, 0))
    from scipy.special import ndtri  # both take longer to import than all the rest together
    from scipy.stats import qmc

    uniforms = qmc.Sobol(dim, scramble=True, seed=np.random.default_rng(0)).random(BLOCKS * POINTS)
    normals: Floats = ndtri(uniforms + 2.0**-31)  # the points are multiples of 2⁻³⁰, zero among them
    return normals.reshape(BLOCKS, POINTS, dim)
