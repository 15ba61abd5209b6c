"""The design of the authors' public code: ApproxDesign in the principal axes of the *centred* arms.

Arms lose their components along axes whose variance is at most 1e-6, whatever their size, and with them the
certificate: leverages are looked at in what is left. {(1, 0), (−1, 0), (0, 1e-4)} becomes a line and gets
(1/2, 1/2, 0). The list from which the weights are counted is off by one: of the arms a₁ … a_m that the greedy
loop adds and the a_{m+1} that it would look at next, it holds a₂ … a_{m+1}.
"""

import math

import numpy as np

from linmed.kernels.blocks import Held, block_room, pack, padded, squared_lengths
from linmed.kernels.compile import deferred, kernel
from linmed.kernels.exchange import add_greedily, betke_henk, desk_room
from linmed.kernels.matrices import invert

THRESHOLD = 1e-6  # variances up to this one are taken for zero, whatever the scale of the arms
SWEEPS = 60  # of Jacobi's method, which needs about six


@deferred("f8(f8[:,:,::1], intp, f8[::1], f8[::1])")
def centred_counts(arms, p, scale, count):
    """The design of the vectors scale_i·a_i of set p as counts of every arm; returns their sum.

    arms (·,K,d), scale and count (≥ K,), of which the first K are read and written. Where no axis is left,
    and the public code ends with an error, the arms count alike.
    """
    K, d = arms.shape[1], arms.shape[2]
    if K == 1 or (d == 2 and K <= 2 * rank_in_plane(arms, p, scale)):
        rank = K
    else:
        coordinates = np.empty((1, K, d))
        rank = principal_coordinates(arms, p, scale, coordinates)
    if K <= 2 * rank or rank == 0:  # all arms, whose leverages then are at most 1
        for i in range(K):
            count[i] = 1.0
        return float(K)
    return exchange_in_axes(coordinates, rank, count)


@deferred("intp(f8[:,:,::1], intp, f8[::1])")
def rank_in_plane(arms, p, scale):
    """How many variances of vectors in a plane exceed the threshold: the common case, which needs no axes."""
    K = arms.shape[1]
    x, y = 0.0, 0.0
    for i in range(K):
        x += scale[i] * arms[p, i, 0] / K
        y += scale[i] * arms[p, i, 1] / K
    xx, xy, yy = 0.0, 0.0, 0.0
    for i in range(K):
        u, v = scale[i] * arms[p, i, 0] - x, scale[i] * arms[p, i, 1] - y
        xx += u * u / (K - 1)
        xy += u * v / (K - 1)
        yy += v * v / (K - 1)
    middle, spread = 0.5 * (xx + yy), math.hypot(0.5 * (xx - yy), xy)
    return int(middle + spread > THRESHOLD) + int(middle - spread > THRESHOLD)


@deferred("intp(f8[:,:,::1], intp, f8[::1], f8[:,:,::1])")
def principal_coordinates(arms, p, scale, coordinates):
    """The vectors, not centred, in the axes whose variance exceeds the threshold; returns how many those are.

    coordinates (1,K,d). BH depends on the order of the axes. Where there are fewer arms than dimensions, they
    come from the arms' products, which is much faster, and in an order that need not be LAPACK's.
    """
    K, d = arms.shape[1], arms.shape[2]
    V, X = np.empty((K, d)), np.empty((K, d))
    for k in range(d):
        mean = 0.0
        for i in range(K):
            V[i, k] = scale[i] * arms[p, i, k]
            mean += V[i, k]
        for i in range(K):
            X[i, k] = V[i, k] - mean / K  # a constant feature leaves exact zeros
    n = min(K, d)
    S, Q = np.zeros((n, n)), np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            for k in range(max(K, d)):
                S[i, j] += X[k, i] * X[k, j] if d <= K else X[i, k] * X[j, k]
            S[i, j] /= K - 1
            S[j, i] = S[i, j]
    if 2 < d <= K:
        diagonalise_as_lapack(S, Q)
    else:
        diagonalise(S, Q)
    rank, axis = 0, np.empty(d)
    for j in range(n):
        if S[j, j] > THRESHOLD:
            for k in range(d):
                axis[k] = 0.0
                if d <= K:
                    axis[k] = Q[k, j]
                else:
                    for i in range(K):
                        axis[k] += X[i, k] * Q[i, j] / math.sqrt(S[j, j] * (K - 1))
            for i in range(K):
                coordinates[0, i, rank] = 0.0
                for k in range(d):
                    coordinates[0, i, rank] += V[i, k] * axis[k]
            rank += 1
    return rank


@deferred("void(f8[:,::1], f8[:,::1])")
def diagonalise(S, Q):
    """Jacobi's method: the eigenvalues of S (n,n) to its diagonal, the eigenvectors to Q (n,n) as columns.

    Every rotation is the smaller of two, so an axis stays where it is if it can: in a plane that is also the
    order in which LAPACK's dgeev has them.
    """
    n = S.shape[0]
    for i in range(n):
        for j in range(n):
            Q[i, j] = 1.0 if i == j else 0.0
    for _ in range(SWEEPS):
        outside, whole = 0.0, 0.0
        for i in range(n):
            for j in range(n):
                whole += S[i, j] * S[i, j]
                outside += S[i, j] * S[i, j] if i != j else 0.0
        if outside <= 1e-32 * whole:
            break
        for i in range(n):
            for j in range(i + 1, n):
                if S[i, j] != 0.0:
                    rotate(S, Q, i, j)


@deferred("void(f8[:,::1], f8[:,::1])")
def diagonalise_as_lapack(S, Q):
    """`diagonalise` with the axes in the order in which the public code gets them, that of LAPACK's dgeev.

    Nothing tells that order but dgeev itself. Where rounding makes a pair of eigenvalues complex, which is
    more than numba's version takes, it is Jacobi's order.
    """
    n, found = S.shape[0], True
    values, vectors = np.empty(n), np.empty((n, n))
    try:
        eigenvalues, eigenvectors = np.linalg.eig(S)
        values[:] = eigenvalues
        vectors[:] = eigenvectors
    except Exception:
        found = False
    if not found:
        diagonalise(S, Q)
        return
    for i in range(n):
        for j in range(n):
            Q[i, j] = vectors[i, j]
            S[i, j] = values[i] if i == j else 0.0


@deferred("void(f8[:,::1], f8[:,::1], intp, intp)")
def rotate(S, Q, i, j):
    """One rotation, after which S[i, j] is zero."""
    n = S.shape[0]
    half = (S[j, j] - S[i, i]) / (2.0 * S[i, j])
    tangent = 1.0 / (abs(half) + math.hypot(half, 1.0))
    if half < 0.0:
        tangent = -tangent
    cosine = 1.0 / math.hypot(tangent, 1.0)
    sine = tangent * cosine
    for k in range(n):
        x, y = S[k, i], S[k, j]
        S[k, i], S[k, j] = cosine * x - sine * y, sine * x + cosine * y
        x, y = Q[k, i], Q[k, j]
        Q[k, i], Q[k, j] = cosine * x - sine * y, sine * x + cosine * y
    for k in range(n):
        x, y = S[i, k], S[j, k]
        S[i, k], S[j, k] = cosine * x - sine * y, sine * x + cosine * y
    S[i, j] = S[j, i] = 0.0


@deferred("f8(f8[:,:,::1], intp, f8[::1])")
def exchange_in_axes(coordinates, rank, count):
    """Algorithms 4 and 5 in the first `rank` coordinates (1,K,≥ rank), zero vectors among them, with the list
    that is off by one; returns the sum of the counts."""
    K, stride = coordinates.shape[1], padded(rank)
    blocks, desk = np.empty((1, block_room(K, rank))), np.empty(desk_room(rank))
    ones, leverage = np.zeros(padded(K)), np.empty(padded(K))
    for i in range(K):
        ones[i] = 1.0
    pack(coordinates, 0, rank, blocks, 0)
    view = Held(blocks, 0, K, rank)
    chosen = betke_henk(coordinates, 0, view, ones, count, desk)
    M, lines = rank * stride, 2 * rank * stride
    invert(desk, M, rank, stride, 0.0, lines + 2 * stride, lines + 3 * stride)
    first = squared_lengths(view, ones, desk, M, stride, leverage)
    added = add_greedily(coordinates, 0, view, ones, first, leverage, count, desk)
    if added > 0:
        following = 0
        for i in range(1, K):
            if leverage[i] > leverage[following]:
                following = i
        count[first] -= 1.0
        count[following] += 1.0
    return float(chosen + added)


@kernel
def centred_design(arms, weights):
    """The designs of whole sets.  arms (n,K,d), weights (n,K)."""
    ones, count = np.ones(arms.shape[1]), np.empty(arms.shape[1])
    for p in range(arms.shape[0]):
        total = centred_counts(arms, p, ones, count)
        for i in range(arms.shape[1]):
            weights[p, i] = count[i] / total
