"""Probabilities that an arm is the best one under a Gaussian draw: P(⟨b_i, z⟩ = max_j ⟨b_j, z⟩), z ~ N(m, I).

In two dimensions the best arm depends only on the angle of z, whose density is known: one integral over
the arm's normal cone. In more dimensions all coordinates but one are averaged over a low-discrepancy
set, and along the last one, where every arm's value is a straight line, the answer is exact.
"""

import math

import numpy as np

from linmed.kernels.compile import kernel
from linmed.kernels.gauss import lower_tail, mills_deficit

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
SQRT_TWO_PI = math.sqrt(2.0 * math.pi)


@kernel
def angle_density(t, length):  # type: ignore[no-untyped-def]
    """Density of the angle between z and m, |m| = length, for z ~ N(m, I₂)."""
    along = length * math.cos(t)
    if along < 0.0:
        return math.exp(-0.5 * length * length) / (2.0 * math.pi) * mills_deficit(-along)
    across = length * math.sin(t)
    near = along * lower_tail(along) * math.exp(-0.5 * across * across) / SQRT_TWO_PI
    return near + math.exp(-0.5 * length * length) / (2.0 * math.pi)


@kernel
def panel_edges(length, edges):  # type: ignore[no-untyped-def]
    """Edges in [−π, π] between which the density is smooth enough for 16 Gauss–Legendre nodes; their number.

    The density peaks at 0 with a width of 1/length; beyond 40 widths it is zero in float64.
    """
    unit = min(1.0, 1.0 / length) if length > 0.0 else 1.0
    reach = min(math.pi, 40.0 * unit) if length > 40.0 else math.pi
    half = 0
    position = 0.0
    while position < reach:
        half += 1
        position += unit * (2.0 if position < 12.0 * unit else 0.3 * position / unit)
        edges[half] = min(position, reach)
    for i in range(half, 0, -1):
        edges[half + i] = edges[i]
    for i in range(half):
        edges[i] = -edges[2 * half - i]
    edges[half] = 0.0
    return 2 * half + 1


@kernel
def angle_integral(low, high, length, edges, count):  # type: ignore[no-untyped-def]
    """∫ of the density from low to high, both in [−π, π]."""
    total = 0.0
    for panel in range(count - 1):
        a, b = max(low, edges[panel]), min(high, edges[panel + 1])
        if b > a:
            part = 0.0
            for n in range(NODES.shape[0]):
                part += WEIGHTS[n] * angle_density(0.5 * (a + b) + 0.5 * (b - a) * NODES[n], length)
            total += 0.5 * (b - a) * part
    return total


@kernel
def turn(P, i, j, k):  # type: ignore[no-untyped-def]
    """Twice the area of the triangle i, j, k; positive if it turns to the left.  P (K,2)."""
    return (P[j, 0] - P[i, 0]) * (P[k, 1] - P[i, 1]) - (P[j, 1] - P[i, 1]) * (P[k, 0] - P[i, 0])


@kernel
def convex_hull(P, hull):  # type: ignore[no-untyped-def]
    """Indices of the hull's corners, counterclockwise, the lowest of equal points; returns how many.

    P (K,2), hull (2K,). Monotone chain: the lower hull from left to right, then the upper one back.
    """
    K = P.shape[0]
    order = np.argsort(P[:, 0], kind="mergesort")
    for start in range(K):  # equal first coordinates by the second, equal points by their index
        i = start
        while i > 0:
            a, b = order[i - 1], order[i]
            if P[a, 0] != P[b, 0] or P[a, 1] < P[b, 1] or (P[a, 1] == P[b, 1] and a < b):
                break
            order[i - 1], order[i] = b, a
            i -= 1
    n = 0
    for half in range(2):
        floor = n
        for step in range(K):
            p = order[step] if half == 0 else order[K - 1 - step]
            if half == 1 and step == 0:
                continue
            if n > 0 and P[p, 0] == P[hull[n - 1], 0] and P[p, 1] == P[hull[n - 1], 1]:
                hull[n - 1] = min(hull[n - 1], p)
                continue
            while n - floor >= (2 - half) and n >= 2 and turn(P, hull[n - 2], hull[n - 1], p) <= 0.0:
                n -= 1
            hull[n] = p
            n += 1
    if n > 1 and P[hull[n - 1], 0] == P[hull[0], 0] and P[hull[n - 1], 1] == P[hull[0], 1]:
        hull[0] = min(hull[0], hull[n - 1])
        n -= 1
    return n


@kernel
def planar(B, m, out):  # type: ignore[no-untyped-def]
    """Probabilities by the angular integral.  B (R,K,2), m (R,2), out (R,K).

    A corner of the hull is best for the directions in its normal cone; every other arm has
    probability zero.
    """
    R, K = out.shape
    P = np.empty((K, 2))
    hull = np.empty(2 * K + 2, np.int64)
    edges = np.empty(256)
    normals = np.empty(2 * K + 2)
    for r in range(R):
        largest = 0.0
        for i in range(K):
            out[r, i] = 0.0
            largest = max(largest, abs(B[r, i, 0]), abs(B[r, i, 1]))
        for i in range(K):
            for k in range(2):
                P[i, k] = B[r, i, k] / largest if largest > 0.0 else 0.0
        corners = convex_hull(P, hull)
        if corners == 1:
            out[r, hull[0]] = 1.0
            continue
        length = math.hypot(m[r, 0], m[r, 1])
        towards = math.atan2(m[r, 1], m[r, 0])
        count = panel_edges(length, edges)
        for c in range(corners):  # outer normal of the edge from corner c to the next
            i, j = hull[c], hull[(c + 1) % corners]
            angle = math.atan2(P[i, 0] - P[j, 0], P[j, 1] - P[i, 1]) - towards
            normals[c] = angle - 2.0 * math.pi * math.floor((angle + math.pi) / (2.0 * math.pi))
        total = 0.0
        for c in range(corners):
            low, high = normals[c - 1 if c > 0 else corners - 1], normals[c]
            if low <= high:
                p = angle_integral(low, high, length, edges, count)
            else:  # the cone holds the direction opposite to m
                p = angle_integral(low, math.pi, length, edges, count)
                p += angle_integral(-math.pi, high, length, edges, count)
            out[r, hull[c]] = p
            total += p
        for i in range(K):
            out[r, i] /= total


@kernel
def envelope(intercept, slope, order, members, line, start):  # type: ignore[no-untyped-def]
    """The lines that are highest somewhere, by increasing slope; returns how many.

    intercept, slope (K,); order: the arms by slope, of which the first `members` count;
    line[n] is highest from start[n] to start[n+1].
    """
    n = 0
    for place in range(members):
        i = order[place]
        begin = -math.inf
        while n > 0:
            top = line[n - 1]
            rise = slope[i] - slope[top]
            if rise > 0.0:
                begin = (intercept[top] - intercept[i]) / rise
            elif intercept[i] > intercept[top] or (intercept[i] == intercept[top] and i < top):
                begin = -math.inf
            else:
                begin = math.inf
            if begin > start[n - 1]:
                break
            n -= 1
            begin = -math.inf
        if begin < math.inf:
            line[n] = i
            start[n] = begin
            n += 1
    return n


@kernel
def line_average(mean, coordinates, order, members, normals, out):  # type: ignore[no-untyped-def]
    """Probabilities by line integration, one estimate for each block of points.

    mean (R,K) = ⟨b_i, m⟩; coordinates (R,K,r): value of arm i = mean_i + ⟨coordinates_i, x⟩, x ~ N(0, I_r),
    the first coordinate being integrated exactly; order (R,K) the arms by that coordinate, of which the
    first members[r] count; normals (blocks, n, r−1); out (R,blocks,K).
    """
    R, blocks, K = out.shape
    points, outer = normals.shape[1], normals.shape[2]
    intercept, slope = np.empty(K), np.empty(K)
    line, start = np.empty(K, np.int64), np.empty(K)
    rank = np.empty(K, np.int64)
    for r in range(R):
        for i in range(K):
            slope[i] = coordinates[r, i, 0]
            rank[i] = order[r, i]
        for block in range(blocks):
            for i in range(K):
                out[r, block, i] = 0.0
            for n in range(points):
                for place in range(members[r]):
                    i = rank[place]
                    total = mean[r, i]
                    for k in range(outer):
                        total += coordinates[r, i, k + 1] * normals[block, n, k]
                    intercept[i] = total
                pieces = envelope(intercept, slope, rank, members[r], line, start)
                before = 0.0  # tail beyond the left end: Φ(x) if x < 0, 1 − Φ(x) otherwise
                before_left = True
                for piece in range(pieces):
                    after, after_left = 0.0, False
                    if piece + 1 < pieces:
                        x = start[piece + 1]
                        after_left = x < 0.0
                        after = lower_tail(x if after_left else -x)
                    if before_left == after_left:
                        p = abs(after - before)
                    else:
                        p = (1.0 - before) - after
                    out[r, block, line[piece]] += p
                    before, before_left = after, after_left
            for i in range(K):
                out[r, block, i] /= points
