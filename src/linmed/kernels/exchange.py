"""Algorithms 4 and 5 on a view of the arms: Betke and Henk's set, then greedy additions.

`view` says how the arms are gone through (`blocks.Held`, `many.Streamed`); its vectors are the arms times
`scale`. The working matrices share one array, the desk: P, then M, then four lines.
"""

import math

from linmed.kernels.blocks import extreme_products, lower_lengths, padded, squared_lengths
from linmed.kernels.compile import inlined
from linmed.kernels.matrices import add_outer, clear, dot, invert, times_line

NEGLIGIBLE = 1e-10  # a component this small relative to its own vector is rounding
LARGEST = 1e6  # leverages beyond this have lost the digits that additions to the set need
STOP = 1.0 + 1e-9  # the greedy loop ends when no leverage exceeds this


@inlined
def desk_room(d):
    """Numbers that a design works with: the matrices P and M, and four lines."""
    return (2 * d + 4) * padded(d)


@inlined
def join(arms, p, d, i, scale, count, desk, line):
    """Vector i to a line of the desk and, if it is new, into the set: count and M; returns 1 if it joined."""
    for k in range(d):
        desk[line + k] = scale[i] * arms[p, i, k]
    if count[i] > 0.0:
        return 0
    count[i] = 1.0
    add_outer(desk, d * padded(d), d, padded(d), desk, line, 1.0)
    return 1


@inlined
def betke_henk(arms, p, view, scale, count, desk):
    """Algorithm 4: sets count to 1 on the chosen arms, M = Σ v vᵀ over them; returns how many they are.

    Where all arms have the same inner product with the new direction (a hyperplane off the origin), the
    difference of the two extreme arms vanishes; one arm alone then takes its place.
    """
    K, d = view.K, view.d
    stride = padded(d)
    v, rest = 2 * d * stride, (2 * d + 1) * stride
    clear(desk, 0, desk_room(d))
    for i in range(K):
        count[i] = 0.0
    for k in range(d):
        desk[k * stride + k] = 1.0  # P projects onto the complement of the directions v⊥ found so far
    chosen = 0
    for axis in range(d):
        b = axis * stride
        if dot(desk, b, desk, b, stride) < NEGLIGIBLE * NEGLIGIBLE:
            continue  # the axis already lies in the span of the directions
        top, bottom, highest, lowest = extreme_products(view, scale, desk, b)
        if highest == -math.inf:
            break  # no arm takes part
        chosen += join(arms, p, d, top, scale, count, desk, v)
        if highest - lowest > NEGLIGIBLE * max(abs(highest), abs(lowest)):
            chosen += join(arms, p, d, bottom, scale, count, desk, rest)
            for k in range(d):
                desk[v + k] -= desk[rest + k]
        if axis < d - 1:
            times_line(desk, 0, d, stride, desk, v, desk, rest)
            length2 = dot(desk, rest, desk, rest, stride)
            if length2 > NEGLIGIBLE * NEGLIGIBLE * dot(desk, v, desk, v, stride):
                add_outer(desk, 0, d, stride, desk, rest, -1.0 / length2)
    return chosen


@inlined
def gather(arms, p, view, scale, support, s, count, desk):
    """Sets count to 1 on the arms in row s of `support` that take part, M = Σ v vᵀ; returns their number."""
    K, d = view.K, view.d
    clear(desk, 0, desk_room(d))
    for i in range(K):
        count[i] = 0.0
    chosen = 0
    for m in range(support.shape[1]):
        i = support[s, m]
        if 0 <= i < K and scale[i] > 0.0:
            chosen += join(arms, p, d, i, scale, count, desk, 2 * d * padded(d))
    return chosen


@inlined
def add_greedily(arms, p, view, scale, worst, leverage, count, desk):
    """The loop of Algorithm 5: add the arm of largest leverage, `worst`, until none exceeds 1.

    M = (Σ count_i v_i v_iᵀ)⁻¹, leverage_i = v_iᵀ M v_i. Each addition at least doubles det V, so it ends.
    Returns how many were added.
    """
    added = 0
    d = view.d
    stride = padded(d)
    M, v, u = d * stride, 2 * d * stride, (2 * d + 1) * stride
    while leverage[worst] > STOP:
        count[worst] += 1.0
        added += 1
        for k in range(d):
            desk[v + k] = scale[worst] * arms[p, worst, k]
        times_line(desk, M, d, stride, desk, v, desk, u)
        shrink = 1.0 / (1.0 + leverage[worst])
        add_outer(desk, M, d, stride, desk, u, -shrink)
        worst = lower_lengths(view, scale, desk, u, shrink, leverage)
    return added


@inlined
def complete(arms, p, view, scale, chosen, count, leverage, desk):
    """Greedy additions to a set of `chosen` vectors with M = Σ v vᵀ; returns how many they are in the end.

    Returns −1 where the set is too ill-conditioned for that.
    """
    d = view.d
    stride = padded(d)
    M = d * stride
    if not invert(desk, M, d, stride, 1e-7, (2 * d + 2) * stride, (2 * d + 3) * stride):
        return -1.0
    worst = squared_lengths(view, scale, desk, M, stride, leverage)
    if not leverage[worst] < LARGEST:
        return -1.0
    return float(chosen + add_greedily(arms, p, view, scale, worst, leverage, count, desk))


@inlined
def approx_counts_of(arms, p, view, scale, count, leverage, desk):
    """ApproxDesign of the vectors as counts; returns their sum, or −1 where they are ill-conditioned."""
    chosen = betke_henk(arms, p, view, scale, count, desk)
    return complete(arms, p, view, scale, chosen, count, leverage, desk)
