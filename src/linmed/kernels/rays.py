"""Probabilities that an arm is the best one: each arm's own ray through every point of a low-discrepancy set.

The value of arm i is v_i(x) = mean_i + ⟨b_i, x⟩ with x ~ N(0, I_r). Through a point x we draw for every arm a
line in its own direction u_i = (b_i − c)/‖b_i − c‖, where c is the mean of the arm that is best. Along it all
values are straight lines, arm i is best between two crossings, and the probability of that piece given the
rest of x is exact: Φ(to) − Φ(from). It is the arm's chance to win wherever x lies, small but smooth, where a
single line for all arms says 0 to most of them; its mean over the points is the arm's probability.

Here all arms share the points; `own_rays` gives each arm points of its own, in one dimension less. Lanes are
points, and a replica's numbers depend on nothing but its own data.
"""

import math

import numpy as np

from linmed.kernels.compile import deferred, inlined, kernel
from linmed.kernels.lanes import larger
from linmed.kernels.normal import upper_tail
from linmed.kernels.simd import LANES, add, divide, load, multiply, multiply_add, splat, store, subtract

BLOCKS = 16  # consecutive parts of the points: their spread gives an error estimate on the safe side
TOGETHER = 16  # arms that share the points in a cache
HELD = 1 << 14  # values that such a cache holds
PILOT = BLOCKS * LANES  # points that tell which arm tends to be best
MANY = 1 << 15  # values that are computed at a time, if that is enough points
SKEW = 3.0  # a cell so many times its share, and so many times what it has beyond, counts as error
SMALL = 1e-14  # an arm so close to c, a mean of arms, is no corner of their hull


@deferred("void(f8[::1], f8[:,::1], f8[:,::1], intp, f8[:,:,::1])")
def values(mean, coordinates, normals, start, out):
    """out[g, i] = the values of arm i at the points start + LANES g, ….

    mean (n,), coordinates (r,n), normals (r,N), out (groups,n,LANES).
    """
    rank, points = normals.shape
    groups, n, _ = out.shape
    for i in range(n):
        for g in range(0, groups, 4):
            a = b = c = d = splat(mean[i])
            place = start + g * LANES
            for k in range(rank):
                share = splat(coordinates[k, i])
                a = multiply_add(share, load(normals, place), a)
                b = multiply_add(share, load(normals, place + LANES), b)
                c = multiply_add(share, load(normals, place + 2 * LANES), c)
                d = multiply_add(share, load(normals, place + 3 * LANES), d)
                place += points
            place = (g * n + i) * LANES
            store(out, place, a)
            store(out, place + n * LANES, b)
            store(out, place + 2 * n * LANES, c)
            store(out, place + 3 * n * LANES, d)


@deferred("void(f8[:,:,::1], f8[:,::1], f8[::1])")
def mean_winner(value, coordinates, centre):
    """centre = the mean of the best arm over the points, and of all arms with the weight of one point.

    value (groups,n,LANES), coordinates (r,n) with mean 0, centre (r,).
    """
    groups, n, some = value.shape
    best, winner = np.empty(some), np.empty(some, np.int64)
    wins = np.zeros(n)
    for g in range(groups):
        best[:] = -math.inf
        for i in range(n):
            row = value[g, i]
            for s in range(some):
                if row[s] > best[s]:
                    best[s] = row[s]
                    winner[s] = i
        for s in range(some):
            wins[winner[s]] += 1.0
    for k in range(centre.shape[0]):
        total = 0.0
        for i in range(n):
            total += wins[i] * coordinates[k, i]
        centre[k] = total / (groups * some + 1.0)


@deferred("void(f8[:,::1], f8[:,::1], intp, f8[:,::1])")
def gains(padded, across, row, rising):
    """How fast four arms gain on every other along their rays: rising[row + a, j] = 1/⟨u_a, b_a − b_j⟩.

    padded (r,w) are the coordinates with columns up to whole vectors, across (4,r+1) the u_a and, at the end,
    ⟨u_a, b_a⟩.
    """
    rank, width = padded.shape
    one = splat(1.0)
    for j in range(0, width, LANES):
        e, f, g, h = (
            splat(across[0, rank]),
            splat(across[1, rank]),
            splat(across[2, rank]),
            splat(across[3, rank]),
        )
        for k in range(rank):
            column = load(padded, k * width + j)
            e = multiply_add(splat(-across[0, k]), column, e)
            f = multiply_add(splat(-across[1, k]), column, f)
            g = multiply_add(splat(-across[2, k]), column, g)
            h = multiply_add(splat(-across[3, k]), column, h)
        place = row * width + j
        store(rising, place, divide(one, e))
        store(rising, place + width, divide(one, f))
        store(rising, place + 2 * width, divide(one, g))
        store(rising, place + 3 * width, divide(one, h))


@inlined
def overtaken(rising, a, n):
    """Whether another arm gains on that of row a."""
    negative = 0
    for j in range(n):
        negative += rising[a, j] < 0.0
    return negative > 0


@inlined
def split(rising, falling, a, n):
    """Move the negative rates in row a to `falling`: such arms end the piece. What is not there is NaN."""
    for j in range(n):
        rate = rising[a, j]
        falling[a, j] = -rate if rate < 0.0 else math.nan
        rising[a, j] = math.nan if rate < 0.0 else rate


@deferred(
    "void(f8[::1], f8[::1], f8[:,:,::1], f8[:,:,::1], intp, intp, intp, f8[:,::1], "
    "f8[:,::1], intp, i8[:,::1], intp, intp, intp, f8[:,:,::1])"
)
def chances(
    mean, length, value, inner, begin, end, i, rising, falling, a, ending, count, first, block, total
):
    """Add the chances of the arms i and i + 1 at the points of groups begin … end − 1 to `total`.

    Their rates are in rows a and a + 1; ending[a, :count] lists the arms that overtake one of them. If i is
    the last arm, row a + 1 is a copy and not added. first and block (see `gather`) tell where to.
    """
    n = value.shape[1]
    second = min(i + 1, n - 1)
    mean_0, mean_1 = splat(mean[i]), splat(mean[second])
    unit_0, unit_1 = splat(1.0 / length[i]), splat(1.0 / length[second])
    for g in range(begin, end):
        origin = g * n * LANES
        here_0, here_1 = load(value, origin + i * LANES), load(value, origin + second * LANES)
        low_0 = low_1 = splat(-math.inf)
        for j in range(n):  # the last crossing: max_j (v_j − v_i)/⟨u_i, b_i − b_j⟩
            column = load(value, origin + j * LANES)
            low_0 = larger(multiply(subtract(column, here_0), splat(rising[a, j])), low_0)
            low_1 = larger(multiply(subtract(column, here_1), splat(rising[a + 1, j])), low_1)
        across = load(inner, g * LANES)
        own_0 = multiply(subtract(subtract(here_0, mean_0), across), unit_0)  # ⟨u_i, x⟩
        own_1 = multiply(subtract(subtract(here_1, mean_1), across), unit_1)
        chance_0, chance_1 = upper_tail(add(low_0, own_0)), upper_tail(add(low_1, own_1))
        if count > 0:
            high_0 = high_1 = splat(-math.inf)  # minus the first crossing with an arm that overtakes
            for e in range(count):
                j = ending[a, e]
                column = load(value, origin + j * LANES)
                high_0 = larger(multiply(subtract(column, here_0), splat(falling[a, j])), high_0)
                high_1 = larger(multiply(subtract(column, here_1), splat(falling[a + 1, j])), high_1)
            chance_0 = larger(subtract(chance_0, upper_tail(subtract(own_0, high_0))), splat(0.0))
            chance_1 = larger(subtract(chance_1, upper_tail(subtract(own_1, high_1))), splat(0.0))
        place = (i * BLOCKS + (first + g * LANES) // block) * LANES
        store(total, place, add(chance_0, load(total, place)))
        if second > i:
            place += BLOCKS * LANES
            store(total, place, add(chance_1, load(total, place)))


@deferred("void(f8[::1], f8[:,::1], f8[::1], f8[:,:,::1], f8[:,:,::1], intp, intp, f8[:,:,::1])")
def gather(mean, coordinates, centre, value, inner, first, block, total):
    """Add every arm's chances at the points of `value` to `total` (n,BLOCKS,LANES).

    The points have the numbers first, first + 1, …, and a block has `block` of them. inner (·,1,LANES)
    is ⟨c, x⟩.
    """
    groups, n, _ = value.shape
    rank = coordinates.shape[0]
    width = (n + LANES - 1) // LANES * LANES
    padded = np.empty((rank, width))
    padded[:, :n] = coordinates
    padded[:, n:] = coordinates[:, n - 1 : n]
    rising, falling = np.empty((TOGETHER, width)), np.empty((TOGETHER, width))
    ending, count = np.empty((TOGETHER, n), np.int64), np.zeros(TOGETHER, np.int64)
    across, length = np.empty((4, rank + 1)), np.empty(n)
    for i in range(n):
        length[i] = 0.0
        for k in range(rank):
            length[i] += (coordinates[k, i] - centre[k]) ** 2
        length[i] = math.sqrt(length[i])
    shortest = SMALL * np.max(length)
    held = max(1, HELD // (n * LANES))
    for start in range(0, n, TOGETHER):
        some = min(TOGETHER, n - start)
        for a in range(0, some, 4):
            for b in range(4):
                i = min(start + a + b, n - 1)
                across[b, rank] = 0.0
                for k in range(rank):
                    across[b, k] = (coordinates[k, i] - centre[k]) / max(length[i], shortest)
                    across[b, rank] += across[b, k] * coordinates[k, i]
            gains(padded, across, a, rising)
        for a in range(0, some, 2):
            rising[a, start + a] = rising[a + 1, min(start + a + 1, n - 1)] = math.nan  # an arm and itself
            count[a] = 0
            if overtaken(rising, a, n) or overtaken(rising, a + 1, n):
                split(rising, falling, a, n)
                split(rising, falling, a + 1, n)
                for j in range(n):
                    ending[a, count[a]] = j
                    count[a] += falling[a, j] > 0.0 or falling[a + 1, j] > 0.0
        for begin in range(0, groups, held):
            end = min(begin + held, groups)
            for a in range(0, some, 2):
                chances(
                    mean, length, value, inner, begin, end, start + a,
                    rising, falling, a, ending, count[a], first, block, total,
                )  # fmt: skip
    for i in range(n):
        if length[i] <= shortest:
            total[i] = 0.0


@deferred("f8(f8[:,:,::1], intp, b1, f8[::1], f8[::1])")
def summary(total, points, again, p, error):
    """Probabilities and their standard errors from the sums of the blocks; returns the largest error.

    The chances are divided by their sum, which is 1 in the mean: what moves all of them alike cancels. What
    all blocks have in common their spread does not show: the error is no less than one point's share and, if
    p holds what half as many points said (`again`), than the change; nor less than what one cell of points
    has far beyond its share, for an arm that few points carry may have as much where no point is. Where half
    as many points have said nothing, smaller parts are compared, which leaves less of the points' evenness in
    each.
    """
    n = p.shape[0]
    cell, block, sums, everything = np.zeros((BLOCKS, LANES)), np.zeros(BLOCKS), np.zeros((n, BLOCKS)), 0.0
    for i in range(n):
        for b in range(BLOCKS):
            for lane in range(LANES):
                cell[b, lane] += total[i, b, lane]
                sums[i, b] += total[i, b, lane]
            block[b] += sums[i, b]
    for b in range(BLOCKS):
        everything += block[b]
    largest = 0.0
    for i in range(n):
        before, own, biggest = p[i], 0.0, 0.0
        for b in range(BLOCKS):
            own += sums[i, b]
            for lane in range(LANES):
                biggest = max(biggest, total[i, b, lane])
        p[i] = own / everything
        squares = 0.0
        if again:
            for b in range(BLOCKS):
                squares += (sums[i, b] - p[i] * block[b]) ** 2
            error[i] = math.sqrt(squares * BLOCKS / (BLOCKS - 1)) / everything
            error[i] = max(error[i], abs(p[i] - before))
        else:
            for b in range(BLOCKS):
                for lane in range(LANES):
                    squares += (total[i, b, lane] - p[i] * cell[b, lane]) ** 2
            error[i] = math.sqrt(squares * PILOT / (PILOT - 1)) / everything
        error[i] = max(error[i], p[i] * (1.0 - p[i]) / points)
        error[i] = max(error[i], SKEW * (biggest - SKEW * own / PILOT) / everything)
        largest = max(largest, error[i])
    return largest


@deferred("void(f8[:,:,::1])")
def merge(total):
    """Two blocks become one; the other half is for the points that come."""
    for i in range(total.shape[0]):
        for b in range(BLOCKS):
            for lane in range(LANES):
                both = total[i, 2 * b, lane] + total[i, 2 * b + 1, lane] if 2 * b < BLOCKS else 0.0
                total[i, b, lane] = both


@inlined
def centre_of(mean, coordinates, pilot):
    """The mean of the arm that is best, by the first PILOT points of `pilot` (r,·)."""
    rank, n = coordinates.shape
    value, centre = np.empty((PILOT // LANES, n, LANES)), np.empty(rank)
    values(mean, coordinates, pilot, 0, value)
    mean_winner(value, coordinates, centre)
    return centre


@kernel
def shared_points(mean, coordinates, normals, start, enough, p, error):
    """Probabilities and standard errors (n,) by points that all arms share; returns how many were taken.

    The points are doubled from `start`, once at least, until the largest error is at most `enough` or all are
    taken.
    mean (n,), coordinates (r,n) with mean 0, normals (r,N); start and N are PILOT times powers of two.
    """
    rank, n = coordinates.shape
    total, nothing = np.zeros((n, BLOCKS, LANES)), np.zeros(1)
    centre = centre_of(mean, coordinates, normals)
    batch = start
    while batch * n < MANY and 2 * batch <= normals.shape[1]:
        batch *= 2
    value, inner = np.empty((batch // LANES, n, LANES)), np.empty((batch // LANES, 1, LANES))
    taken, more = 0, start
    while True:
        for first in range(taken, taken + more, batch):
            groups = min(batch, more) // LANES
            values(mean, coordinates, normals, first, value[:groups])
            values(nothing, centre.reshape(rank, 1), normals, first, inner[:groups])
            gather(mean, coordinates, centre, value[:groups], inner, first, (taken + more) // BLOCKS, total)
        taken += more
        largest = summary(total, taken, taken > start, p, error)
        if (largest <= enough and taken > start) or 2 * taken > normals.shape[1]:
            return taken
        merge(total)
        more = taken
