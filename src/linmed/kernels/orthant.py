"""Probabilities that an arm is the best one under a Gaussian draw: P(⟨b_i, z⟩ = max_j ⟨b_j, z⟩), z ~ N(m, I).

In two dimensions the best arm depends only on the angle of z, whose density is known: one integral over
the arm's normal cone. In more dimensions `rays` and `own_rays` are for all but very many arms; for these
all coordinates but one are averaged over a low-discrepancy set, and along the last one, where every arm's
value is a straight line, the answer is exact.

Coordinates stand in rows, B (r,K), so that loops run over the arms. Nothing goes to BLAS: the answer of
a replica is the same in any company, and a decision starts no threads.
"""

import math

import numpy as np

from linmed.kernels.compile import inlined, kernel
from linmed.kernels.gauss import lower_tail, mills_deficit
from linmed.kernels.simd import LANES, load, multiply_add, splat, store

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
REACH = 9.0  # beyond ±9 a standard normal has mass 2e-19
SQRT_TWO_PI = math.sqrt(2.0 * math.pi)
RANK_TOLERANCE = 1e-13  # axes shorter than this share of the longest are rounding
ORTHOGONAL = 1e-14  # cosine of two rows that need no further turn
NEARLY = 1e-7  # what is so near to orthogonal before its turn is orthogonal after it
NOISE = 1e-14  # a row so much shorter than the longest one is rounding
HELD = 1 << 16  # heights of arms above lines that are held at a time


@inlined
def angle_density(t, length):
    """Density of the angle between z and m, |m| = length, for z ~ N(m, I₂)."""
    along = length * math.cos(t)
    if along < 0.0:
        return math.exp(-0.5 * length * length) / (2.0 * math.pi) * mills_deficit(-along)
    across = length * math.sin(t)
    near = along * lower_tail(along) * math.exp(-0.5 * across * across) / SQRT_TWO_PI
    return near + math.exp(-0.5 * length * length) / (2.0 * math.pi)


@inlined
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


@inlined
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


@inlined
def turn(P, i, j, k):
    """Twice the area of the triangle i, j, k; positive if it turns to the left.  P (2,K)."""
    return (P[0, j] - P[0, i]) * (P[1, k] - P[1, i]) - (P[1, j] - P[1, i]) * (P[0, k] - P[0, i])


@inlined
def convex_hull(P, hull):
    """Indices of the hull's corners, counterclockwise, the lowest of equal points; returns how many.

    P (2,K), hull (2K,). Monotone chain: the lower hull from left to right, then the upper one back.
    """
    K = P.shape[1]
    order = np.argsort(P[1], kind="mergesort")
    order = order[np.argsort(P[0][order], kind="mergesort")]
    n = 0
    for half in range(2):
        floor = n
        for step in range(K):
            p = order[step] if half == 0 else order[K - 1 - step]
            if half == 1 and step == 0:
                continue
            if n > 0 and P[0, p] == P[0, hull[n - 1]] and P[1, p] == P[1, hull[n - 1]]:
                hull[n - 1] = min(hull[n - 1], p)
                continue
            while n - floor >= (2 - half) and n >= 2 and turn(P, hull[n - 2], hull[n - 1], p) <= 0.0:
                n -= 1
            hull[n] = p
            n += 1
    if n > 1 and P[0, hull[n - 1]] == P[0, hull[0]] and P[1, hull[n - 1]] == P[1, hull[0]]:
        hull[0] = min(hull[0], hull[n - 1])
        n -= 1
    return n


@kernel
def planar(B, m, out):
    """Probabilities by the angular integral.  B (2,K), m (2,), out (K,).

    A corner of the hull is best for the directions in its normal cone; every other arm has
    probability zero.
    """
    K = out.shape[0]
    hull = np.empty(2 * K + 2, np.int64)
    edges, normals = np.empty(256), np.empty(2 * K + 2)
    largest = 0.0
    for i in range(K):
        out[i] = 0.0
        largest = max(largest, abs(B[0, i]), abs(B[1, i]))
    P = B / largest if largest > 0.0 else B
    corners = convex_hull(P, hull)
    if corners == 1:
        out[hull[0]] = 1.0
        return
    length = math.hypot(m[0], m[1])
    towards = math.atan2(m[1], m[0])
    count = panel_edges(length, edges)
    for c in range(corners):  # outer normal of the edge from corner c to the next
        i, j = hull[c], hull[(c + 1) % corners]
        angle = math.atan2(P[0, i] - P[0, j], P[1, j] - P[1, i]) - towards
        normals[c] = angle - 2.0 * math.pi * math.floor((angle + math.pi) / (2.0 * math.pi))
    total = 0.0
    for c in range(corners):
        low, high = normals[c - 1 if c > 0 else corners - 1], normals[c]
        if low <= high:
            p = angle_integral(low, high, length, edges, count)
        else:  # the cone holds the direction opposite to m
            p = angle_integral(low, math.pi, length, edges, count)
            p += angle_integral(-math.pi, high, length, edges, count)
        out[hull[c]] = p
        total += p
    for i in range(K):
        out[i] /= total


@inlined
def products(B, j, k, sums):
    """‖x‖², ⟨x, y⟩ and ‖y‖² of the rows x = B_j, y = B_k.  B (d,K), sums (3,LANES) is scratch.

    Eight partial sums each, which are added up in order: the same digits on every processor.
    """
    K = B.shape[1]
    whole = K - K % LANES
    xx = xy = yy = splat(0.0)
    for i in range(0, whole, LANES):
        x, y = load(B, j * K + i), load(B, k * K + i)
        xx, xy, yy = multiply_add(x, x, xx), multiply_add(x, y, xy), multiply_add(y, y, yy)
    store(sums, 0, xx)
    store(sums, LANES, xy)
    store(sums, 2 * LANES, yy)
    for lane in range(1, LANES):
        for n in range(3):
            sums[n, 0] += sums[n, lane]
    for i in range(whole, K):
        sums[0, 0] += B[j, i] * B[j, i]
        sums[1, 0] += B[j, i] * B[k, i]
        sums[2, 0] += B[k, i] * B[k, i]
    return sums[0, 0], sums[1, 0], sums[2, 0]


@kernel
def principal_axes(B, m):
    """See the arms from their mean, turned until they are uncorrelated, the widest first; returns the rank.

    One-sided Jacobi on the rows of B (d,K), which small rows keep their own accuracy through; m (d,) turns
    along. Rows beyond the rank, RANK_TOLERANCE of the longest, are set to zero.
    """
    d, K = B.shape
    longest, sums = 0.0, np.empty((3, LANES))
    for j in range(d):
        B[j] -= np.mean(B[j])
        longest = max(longest, products(B, j, j, sums)[0])
    turned = True
    sweep = 0
    while turned and sweep < 40:
        turned = False
        sweep += 1
        for j in range(d - 1):
            for k in range(j + 1, d):
                x, y = B[j], B[k]
                xx, xy, yy = products(B, j, k, sums)
                if abs(xy) <= ORTHOGONAL * math.sqrt(xx * yy) or min(xx, yy) <= NOISE * NOISE * longest:
                    continue
                turned = turned or abs(xy) > NEARLY * math.sqrt(xx * yy)
                half = 0.5 * (yy - xx) / xy
                tangent = math.copysign(1.0 / (abs(half) + math.hypot(1.0, half)), half)
                cosine = 1.0 / math.hypot(1.0, tangent)
                sine = cosine * tangent
                for i in range(K):
                    x[i], y[i] = cosine * x[i] - sine * y[i], sine * x[i] + cosine * y[i]
                m[j], m[k] = cosine * m[j] - sine * m[k], sine * m[j] + cosine * m[k]
    size = np.empty(d)
    for j in range(d):
        size[j] = math.sqrt(products(B, j, j, sums)[0])
    order = np.argsort(-size, kind="mergesort")
    B[:], m[:] = B[order], m[order]
    rank = 0
    while rank < min(d, K - 1) and size[order[rank]] > RANK_TOLERANCE * size[order[0]]:
        rank += 1
    B[rank:] = 0.0
    return rank


@inlined
def heights(mean, coordinates, normals, out):
    """out_{n,i} = mean_i + ⟨coordinates_i, normals_n⟩, eight arms above four lines at a time.

    mean (w,), coordinates (r,w), normals (n,r), out (n,w); w is a multiple of LANES, n of four.
    """
    lines, width = out.shape
    for i in range(0, width, LANES):
        for n in range(0, lines, 4):
            a = b = c = d = load(mean, i)
            for k in range(coordinates.shape[0]):
                column = load(coordinates, k * width + i)
                a = multiply_add(splat(normals[n, k]), column, a)
                b = multiply_add(splat(normals[n + 1, k]), column, b)
                c = multiply_add(splat(normals[n + 2, k]), column, c)
                d = multiply_add(splat(normals[n + 3, k]), column, d)
            store(out, n * width + i, a)
            store(out, (n + 1) * width + i, b)
            store(out, (n + 2) * width + i, c)
            store(out, (n + 3) * width + i, d)


@inlined
def thin_out(value, n, slope, chosen):
    """Lists all lines that may be the highest one within ±REACH, and some more; returns how many.

    Slopes are in increasing order. Of two lines that are highest somewhere, one lies below the other on
    either side of their crossing: a third with a slope in between that is not above them there is never
    the highest. The two at the ends, ±REACH, leave some, and the highest of those at their crossing
    leaves a few. value (·,K), slope, chosen (K,).
    """
    first, last = 0, 0
    left, right = -math.inf, -math.inf
    for i in range(slope.shape[0]):
        reach = REACH * slope[i]
        if value[n, i] - reach > left:
            first, left = i, value[n, i] - reach
        if value[n, i] + reach >= right:
            last, right = i, value[n, i] + reach
    x = (value[n, first] - value[n, last]) / (slope[last] - slope[first])
    middle, level = first, value[n, first] + x * slope[first]
    for i in range(first + 1, last):
        if value[n, i] + x * slope[i] > level:
            middle, level = i, value[n, i] + x * slope[i]
    count = 0
    low, high = first, middle
    for _ in range(2):
        if low < high:
            x = (value[n, low] - value[n, high]) / (slope[high] - slope[low])
            level = value[n, low] + x * slope[low]
            chosen[count] = low
            count += 1
            for i in range(low + 1, high):
                chosen[count] = i
                count += value[n, i] + x * slope[i] > level
        low, high = middle, last
    chosen[count] = last
    return count + 1


@inlined
def along_line(height, slope, run, index, count, out):
    """Add to out the probabilities that height_i + slope_i x is the highest line at x ~ N(0, 1).

    Lines 0 … count − 1 in increasing order of their slopes, which belong to out[index_i]: we walk along
    the highest one from one crossing to the next. run (count,) is scratch.
    """
    a, highest = 0, -math.inf
    for i in range(count):
        if height[i] - REACH * slope[i] > highest:
            a, highest = i, height[i] - REACH * slope[i]
    x, before, before_left = -REACH, 0.0, True
    while True:
        here = height[a]
        for i in range(a + 1, count):
            run[i] = 1.0 / (slope[i] - slope[a])
        start, x, b = x, REACH, -1
        for i in range(a + 1, count):
            crossing = (here - height[i]) * run[i]
            if crossing < x:
                x, b = crossing, i
        # A piece from x to y has probability Φ(y) − Φ(x), taken from the nearer tails.
        x = start if x < start else x
        after = lower_tail(-abs(x)) if b >= 0 else 0.0
        after_left = b >= 0 and x < 0.0
        p = abs(after - before) if before_left == after_left else (1.0 - before) - after
        out[index[a]] += p
        if b < 0:
            break
        a, before, before_left = b, after, after_left


@kernel
def line_average(mean, coordinates, normals, out):
    """Probabilities by line integration, one estimate for each block of points.

    The value of arm i is mean_i + ⟨coordinates_i, x⟩ with x ~ N(0, I_r). Given all coordinates of x but the
    first it is a straight line. mean (K,), coordinates (r,K), normals (blocks, n, r−1) with n a multiple of
    four, out (blocks,K).
    """
    blocks, K = out.shape
    points, rank = normals.shape[1], coordinates.shape[0]
    order = np.argsort(coordinates[0], kind="mergesort")
    slope = coordinates[0][order]
    width = (K + LANES - 1) // LANES * LANES
    base, across = np.zeros(width), np.zeros((normals.shape[2], width))
    base[:K] = mean[order]
    for k in range(1, rank):
        across[k - 1, :K] = coordinates[k][order]
    lines = min(points, max(HELD // K, 8) // 4 * 4)
    value, total = np.empty((lines, width)), np.empty(K)
    chosen, height, rise, run = np.empty(K, np.int64), np.empty(K), np.empty(K), np.empty(K)
    for block in range(blocks):
        total[:] = 0.0
        for start in range(0, points, lines):
            some = value[: min(lines, points - start)]
            heights(base, across, normals[block, start : start + some.shape[0]], some)
            for n in range(some.shape[0]):
                count = thin_out(value, n, slope, chosen)
                for c in range(count):
                    height[c], rise[c] = value[n, chosen[c]], slope[chosen[c]]
                along_line(height, rise, run, chosen, count, total)
        for i in range(K):
            out[block, order[i]] = total[i] / points
