"""RandUCB: a random width in place of the confidence radius, on a grid, so that its law can be summed."""

import math

import numpy as np

from linmed.kernels.compile import kernel
from linmed.kernels.optimism import TIE, first_largest, means_and_leverages


@kernel
def coupled(mean, width, grid, weights, score, out, r):
    """One Z for all arms: weight m goes to the arm of the largest mean + grid_m · width.  out (R,K)."""
    K = mean.shape[0]
    for i in range(K):
        out[r, i] = 0.0
    for m in range(grid.shape[0]):
        size = 0.0
        for i in range(K):
            bonus = grid[m] * width[i]
            score[i] = mean[i] + bonus
            size = max(size, abs(mean[i]) + abs(bonus))
        out[r, first_largest(score, TIE * size)] += weights[m]


@kernel
def uncoupled(mean, width, grid, weights, below, scores, beaten, out, r):
    """A Z of its own for each arm: p_i = Σ_m w_m Π_{j≠i} P(score_j < score_im), ≤ for j > i.  out (R,K).

    below (M+1,): the running totals of the weights, the last of them 1; scores (K,M), beaten (M,) scratch.
    Both score_im and the scores of arm j increase with m, so one pass over the two grids suffices.
    """
    K, M = scores.shape
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
        out[r, i] = total


@kernel
def probabilities(arms, theta, inverse, radius, grid, weights, is_coupled, out):
    """The probability of every arm.  arms (R,K,d) or (1,K,d), radius (R or 1,), out (R,K).

    Z takes the value grid_m · radius with probability weights_m; grid increasing (M,), weights (M,).
    """
    R, K = out.shape
    M = grid.shape[0]
    mean, width, score = np.empty(K), np.empty(K), np.empty(K)
    scores, beaten, below = np.empty((K, M)), np.empty(M), np.zeros(M + 1)
    for m in range(M):
        below[m + 1] = below[m] + weights[m]
    below[M] = 1.0
    for r in range(R):
        s = means_and_leverages(arms, r, theta, inverse, mean, width)
        for i in range(K):
            width[i] = radius[s] * math.sqrt(width[i])
        if is_coupled:
            coupled(mean, width, grid, weights, score, out, r)
        else:
            uncoupled(mean, width, grid, weights, below, scores, beaten, out, r)
