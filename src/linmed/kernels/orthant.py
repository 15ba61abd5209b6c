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
REACH = 9.0  # beyond ±9 a standard normal has mass 2e-19
SQRT_TWO_PI = math.sqrt(2.0 * math.pi)


@kernel
def angle_density(t, length):
    """Density of the angle between z and m, |m| = length, for z ~ N(m, I₂)."""
    along = length * math.cos(t)
    if along < 0.0:
        return math.exp(-0.5 * length * length) / (2.0 * math.pi) * mills_deficit(-along)
    across = length * math.sin(t)
    near = along * lower_tail(along) * math.exp(-0.5 * across * across) / SQRT_TWO_PI
    return near + math.exp(-0.5 * length * length) / (2.0 * math.pi)


@kernel
def panel_edges(length, edges):
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
def angle_integral(low, high, length, edges, count):
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
def turn(P, i, j, k):
    """Twice the area of the triangle i, j, k; positive if it turns to the left.  P (K,2)."""
    return (P[j, 0] - P[i, 0]) * (P[k, 1] - P[i, 1]) - (P[j, 1] - P[i, 1]) * (P[k, 0] - P[i, 0])


@kernel
def convex_hull(P, hull):
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
def planar(B, m, out):
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
def line_average(mean, coordinates, normals, out):
    """Probabilities by line integration, one estimate for each block of points.

    The value of arm i is mean_i + ⟨coordinates_i, x⟩ with x ~ N(0, I_r). Given all coordinates of x but the
    first it is a straight line: we walk along the highest line from one crossing to the next.
    mean (K,), coordinates (r,K) whose first row is in increasing order; normals (blocks, n, r−1);
    out (blocks,K).
    """
    blocks, K = out.shape
    points, outer = normals.shape[1], normals.shape[2]
    slope = coordinates[0]
    steeper = np.empty(K, np.int64)  # the first line with a larger slope
    run = np.zeros((K, K))  # 1 / difference of slopes
    for a in range(K - 1, -1, -1):
        steeper[a] = a + 1
        if a + 1 < K and slope[a + 1] == slope[a]:
            steeper[a] = steeper[a + 1]
        for b in range(steeper[a], K):
            run[a, b] = 1.0 / (slope[b] - slope[a])
    values = np.zeros((points, K))
    for block in range(blocks):
        if outer > 0:
            np.dot(normals[block], coordinates[1:], values)
        for i in range(K):
            out[block, i] = 0.0
        for n in range(points):
            a, highest = 0, -math.inf
            for i in range(K):
                values[n, i] += mean[i]
                height = values[n, i] - REACH * slope[i]
                if height > highest:
                    a, highest = i, height
            before, before_left = 0.0, True
            while True:
                here = values[n, a]
                x, b = REACH, -1
                for i in range(steeper[a], K):
                    crossing = (here - values[n, i]) * run[a, i]
                    if crossing < x:
                        x, b = crossing, i
                # A piece from x to y has probability Φ(y) − Φ(x), taken from the nearer tails.
                after = lower_tail(-abs(x)) if b >= 0 else 0.0
                after_left = b >= 0 and x < 0.0
                p = abs(after - before) if before_left == after_left else (1.0 - before) - after
                out[block, a] += p
                if b < 0:
                    break
                a, before, before_left = b, after, after_left
        for i in range(K):
            out[block, i] /= points
