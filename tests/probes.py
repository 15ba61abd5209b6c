"""Kernels that call pieces of the kernels, which Python cannot call by itself."""

import math

import numpy as np

from linmed.kernels import igw, optimal, optimism, simplex
from linmed.kernels.blocks import Held, best_arm, block, block_room, extreme_products, pack, padded
from linmed.kernels.compile import kernel
from linmed.kernels.design import approx_counts_of_blocks, approx_counts_of_many
from linmed.kernels.exchange import betke_henk, desk_room
from linmed.kernels.lanes import exponential
from linmed.kernels.many import Streamed, row_product, single_precision
from linmed.kernels.med import augmented_counts, centre, weigh, weigh_many
from linmed.kernels.ridge import Ridge
from linmed.kernels.simd import LANES, load, multiply, splat, store


@kernel
def betke_henk_set(arms, count):
    """Algorithm 4 over all arms.  arms (1,K,d), count (K,)."""
    K, d = arms.shape[1], arms.shape[2]
    blocks = np.empty((1, block_room(K, d)))
    pack(arms, 0, d, blocks, 0)
    scale = np.zeros(padded(K))
    scale[:K] = 1.0
    betke_henk(arms, 0, Held(blocks, 0, K, d), scale, count, np.empty(desk_room(d)))


@kernel
def weights_of_blocks(arms, theta, inverse, beta, log_f, root):
    """log f and √f of set 0 for one replica; returns the best arm.  log_f, root padded."""
    K, d = arms.shape[1], arms.shape[2]
    blocks = np.empty((1, block_room(K, d)))
    pack(arms, 0, d, blocks, 0)
    view = Held(blocks, 0, K, d)
    best = best_arm(view, theta, 0)
    center, difference = np.empty(2 * d), np.empty(LANES * d)
    length = centre(arms, 0, best, inverse, 0, center)
    for first in range(0, K, LANES):
        _, values = weigh(
            blocks,
            block(view, first),
            d,
            theta,
            inverse,
            0,
            1.0 / math.sqrt(beta),
            center,
            length,
            difference,
        )
        store(log_f, first, values)
        store(root, first, exponential(multiply(values, splat(0.5))))
    return best


@kernel
def weights_of_many(arms, theta, inverse, beta, log_f, root):
    """The same by the kernel for very many arms."""
    d = arms.shape[2]
    leverage = np.empty(log_f.shape[0])
    return weigh_many(
        arms,
        0,
        theta,
        inverse,
        0,
        1.0 / math.sqrt(beta),
        np.empty(2 * d),
        np.empty(LANES * d),
        log_f,
        root,
        leverage,
    )[0]


@kernel
def design_counts(arms, log_f, root, version, count):
    """ApproxDesignAugmented of set 0 as counts (padded); returns their sum."""
    K, d = arms.shape[1], arms.shape[2]
    blocks, scale, leverage = np.empty((1, block_room(K, d))), np.empty(padded(K)), np.empty(padded(K))
    pack(arms, 0, d, blocks, 0)
    desk = np.empty(desk_room(d))
    return augmented_counts(arms, 0, blocks, 0, log_f, root, version, False, scale, count, leverage, desk)


@kernel
def both_designs(arms, scale, held, streamed):
    """ApproxDesign as counts with the blocks held and with the arms read where they stand.  All padded."""
    K, d = arms.shape[1], arms.shape[2]
    blocks, leverage, desk = np.empty((1, block_room(K, d))), np.empty(padded(K)), np.empty(desk_room(d))
    pack(arms, 0, d, blocks, 0)
    total = approx_counts_of_blocks(arms, 0, blocks, 0, scale, held, leverage, desk)
    return total > 0.0 and approx_counts_of_many(arms, 0, scale, streamed, leverage, desk) == total


@kernel
def held_extremes(arms, scale, x):
    """`extreme_products` over blocks.  arms (1,K,d), scale padded."""
    K, d = arms.shape[1], arms.shape[2]
    blocks = np.empty((1, block_room(K, d)))
    pack(arms, 0, d, blocks, 0)
    return extreme_products(Held(blocks, 0, K, d), scale, x, 0)


@kernel
def screened_extremes(arms, scale, x):
    """`extreme_products` by a look in single precision."""
    K, d = arms.shape[1], arms.shape[2]
    single, score = single_precision(arms, 0, scale), np.empty(K, np.float32)
    view = Streamed(arms, 0, np.empty((1, block_room(1, d))), single, score, K, d)
    return extreme_products(view, scale, x, 0)


@kernel
def row_extremes(arms, scale, x):
    """`extreme_products` row by row in double precision."""
    top, bottom, highest, lowest = 0, 0, -math.inf, math.inf
    for i in range(arms.shape[1]):
        product = scale[i] * row_product(arms, 0, i, x, 0)
        if product > highest:
            top, highest = i, product
        if product < lowest:
            bottom, lowest = i, product
    return top, bottom, highest, lowest


@kernel
def exponentials(x, out):
    """exp(x) lane by lane.  x, out (8n,)."""
    for i in range(0, x.shape[0], LANES):
        store(out, i, exponential(load(x, i)))


@kernel
def factor(L, inverse):
    """`simplex.factor`."""
    simplex.factor(L, inverse)


@kernel
def solve(L, inverse, start, x):
    """`simplex.solve`."""
    simplex.solve(L, inverse, start, x)


@kernel
def exchange(H, G, x, within, most):
    """`simplex.exchange`."""
    simplex.exchange(H, G, x, within, most)


@kernel
def climb_face(H, G, x):
    """`simplex.climb_face`."""
    simplex.climb_face(H, G, x)


@kernel
def means_and_leverages(arms, theta, inverse, mean, leverage):
    """⟨θ̂, a⟩ and ‖a‖² of set 0 for one replica.  mean, leverage (K,)."""
    K, d = arms.shape[1], arms.shape[2]
    blocks, m, w = np.empty((1, block_room(K, d))), optimism.per_arm(K), optimism.per_arm(K)
    pack(arms, 0, d, blocks, 0)
    optimism.means_and_leverages(arms, 0, blocks, 0, theta, inverse, 0, m, w)
    mean[:] = m
    leverage[:] = w


@kernel
def means_and_leverages_of_many(arms, theta, inverse, mean, leverage):
    """The same by the kernels for very many arms; mean and leverage padded."""
    optimism.means_and_leverages_of_many(arms, 0, theta, inverse, 0, mean, leverage)
    by_rows = np.empty(arms.shape[1])
    optimism.means_of_many(arms, 0, theta, 0, by_rows)
    return by_rows


@kernel
def upper_bounds(mean, leverage, radius, ucb):
    """`optimism.upper_bounds`."""
    return optimism.upper_bounds(mean, leverage, radius, ucb)


@kernel
def imed_indices(mean, leverage, radius, version, C, log_horizon, index):
    """`optimism.imed_indices`."""
    optimism.imed_indices(mean, leverage, radius, version, C, log_horizon, index)


@kernel
def normaliser(q, gap):
    """`igw.normaliser`."""
    return igw.normaliser(q, gap)


@kernel
def vaw_predictions(arms, state, mean):
    """`igw.predictions` of set 0 for one replica."""
    K, d = arms.shape[1], arms.shape[2]
    blocks, m = np.empty((1, block_room(K, d))), optimism.per_arm(K)
    pack(arms, 0, d, blocks, 0)
    igw.predictions(Ridge(*state), 0, arms, 0, blocks, 0, True, optimism.per_arm(K), optimism.per_arm(K), m)
    mean[:] = m


@kernel
def optimal_design(A, log_scale, tol, weights):
    """`optimal.optimal_design`."""
    return optimal.optimal_design(A, log_scale, tol, weights)
