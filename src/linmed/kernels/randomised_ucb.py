"""RandUCB: a random width in place of the confidence radius, on a grid, so that its law can be summed."""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats
from linmed.kernels.compile import deferred, inlined
from linmed.kernels.optimism import TIE, first_largest, look_at, per_arm
from linmed.kernels.sampling import settle


class GridScratch(NamedTuple):
    """What a decision writes on its way."""

    mean: Floats  # (K,)
    width: Floats  # (K,)
    score: Floats  # (K,)
    p: Floats  # (K,)
    below: Floats  # (M+1,) the running totals of the weights, the last of them 1
    scores: Floats  # (K,M), or (0,M) where Z is coupled
    beaten: Floats  # (M,)


class RandomisedRule(NamedTuple):
    """argmax_a ⟨θ̂, a⟩ + Z‖a‖, where Z takes the value grid_m · √β with probability weights_m."""

    grid: Floats  # (M,) increasing
    weights: Floats  # (M,)
    coupled: bool
    floor: float

    def workspace(self, K, d):
        """Scratch for sets of K arms."""
        M = self.grid.shape[0]
        below = np.zeros(M + 1)
        for m in range(M):
            below[m + 1] = below[m] + self.weights[m]
        below[M] = 1.0
        return GridScratch(
            per_arm(K), per_arm(K), per_arm(K), np.empty(K),
            below, np.empty((0 if self.coupled else K, M)), np.empty(M),
        )  # fmt: skip

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        mean, width = scratch.mean, scratch.width
        look_at(belief, s, arms, p, blocks, n, mean, width, scratch.score)
        radius = math.sqrt(beta)
        for i in range(width.shape[0]):
            width[i] = radius * math.sqrt(width[i])
        if self.coupled:
            coupled(mean, width, self.grid, self.weights, scratch.score, scratch.p)
        else:
            uncoupled(
                mean, width, self.grid, self.weights, scratch.below, scratch.scores, scratch.beaten, scratch.p
            )
        return settle(scratch.p, self.floor, noise[t, r, 0], t, r, log_p)


@inlined
def coupled(mean, width, grid, weights, score, out):
    """One Z for all arms: weight m goes to the arm of the largest mean + grid_m · width.  out (K,)."""
    K = mean.shape[0]
    for i in range(K):
        out[i] = 0.0
    for m in range(grid.shape[0]):
        size = 0.0
        for i in range(K):
            bonus = grid[m] * width[i]
            score[i] = mean[i] + bonus
            size = max(size, abs(mean[i]) + abs(bonus))
        out[first_largest(score, TIE * size)] += weights[m]


@deferred("void(f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[:,::1], f8[::1], f8[::1])")
def uncoupled(mean, width, grid, weights, below, scores, beaten, out):
    """A Z of its own for each arm: p_i = Σ_m w_m Π_{j≠i} P(score_j < score_im), ≤ for j > i.  out (K,).

    below, scores and beaten as in `GridScratch`. Both score_im and the scores of arm j increase with m, so
    one pass over the two grids suffices.
    """
    K, M = scores.shape
    size = 0.0
    for i in range(K):
        size = max(size, abs(mean[i]) + width[i])
    for i in range(K):  # arms that differ by rounding alone tie exactly: the lowest index wins
        for j in range(i):
            if max(abs(mean[i] - mean[j]), abs(width[i] - width[j])) <= TIE * size:
                mean[i], width[i] = mean[j], width[j]
                break
    for i in range(K):
        for m in range(M):
            scores[i, m] = mean[i] + grid[m] * width[i]
    for i in range(K):
        for m in range(M):
            beaten[m] = weights[m]
        for j in range(K):
            if j == i or scores[i, 0] > scores[j, M - 1]:  # i beats j whatever happens
                continue
            n = 0
            for m in range(M):
                own = scores[i, m]
                while n < M and (scores[j, n] < own or (scores[j, n] == own and j > i)):
                    n += 1
                beaten[m] *= below[n]
        total = 0.0
        for m in range(M):
            total += beaten[m]
        out[i] = total
