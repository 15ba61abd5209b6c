"""LinMED's rule (Algorithm 1), from θ̂, V⁻¹ and β to a distribution over arms."""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats
from linmed.kernels.blocks import Held, best_arm, block, held, pack_block, padded, squared_length
from linmed.kernels.compile import borrowed, by_class, deferred, inlined
from linmed.kernels.design import approx_counts
from linmed.kernels.exchange import desk_room
from linmed.kernels.lanes import exponential, larger
from linmed.kernels.many import best_row
from linmed.kernels.matrices import combine_rows
from linmed.kernels.optimal import optimal_design
from linmed.kernels.simd import (
    LANES,
    add,
    divide,
    largest_lane,
    load,
    multiply,
    multiply_add,
    splat,
    spread,
    store,
    subtract,
    sum_lanes,
    where_greater,
)
from linmed.kernels.span import approx_counts_in_span

EXPLORE = 1.0 + 1e-9  # B_t: leverages above 1; ‖a‖² = 1 must not count because of its last bit
EQUAL = 1.0 + 1e-12  # leverages within this factor are equal
LOWEST = -1e300  # log f is never −inf: every arm keeps a finite log-probability
TINY = 1e-250  # squared distances below this have lost digits to underflow
VANISHED = 1.0  # marks such a weight: no log f is positive
OPTIMAL_TOL = 1e-6


class MedScratch(NamedTuple):
    """What a decision writes on its way, for every arm (padded to whole blocks) unless said otherwise."""

    log_f: Floats
    root: Floats  # √f
    leverage: Floats
    even: Floats  # what every arm gets of q, 0 past the last arm
    q: Floats
    weight: Floats  # q f
    sums: Floats  # (blocks,) of the weights
    design: Floats  # counts
    scale: Floats  # of the arms in the design
    desk: Floats  # for the design
    center: Floats  # (2d,) â and V⁻¹â
    difference: Floats  # (8d,) a − â of one block
    alpha_opt: float  # 0 where the design is uniform


class MedRule(NamedTuple):
    """p_t ∝ q_t f_t with q_t = α_opt·(design) + α_emp·1{â} + (1 − α_opt − α_emp)/K."""

    alpha_emp: float
    alpha_opt: float
    version: int
    optimal: bool
    explore: bool
    even_ties: bool = False  # α_emp goes evenly to all arms while all look equally good; else to the first

    def workspace(self, K, d):
        """Scratch for sets of K arms in d dimensions."""
        alpha_opt = self.alpha_opt
        if K <= 2 * d and self.version == 0 and not self.optimal:
            alpha_opt = 0.0  # ApproxDesign is uniform
        spread = (1.0 - self.alpha_emp - alpha_opt) / K
        if spread < 1e-12:  # α_emp + α_opt = 1
            spread = 0.0
        n = padded(K)
        even = np.zeros(n)
        for i in range(K):
            even[i] = spread
        m, room = (n, desk_room(d)) if alpha_opt > 0.0 else (0, 0)
        return MedScratch(
            np.empty(n), np.empty(n), np.empty(n), even, np.empty(n), np.empty(n), np.empty(n // LANES),
            np.zeros(m), np.empty(m), np.empty(room), np.empty(2 * d), np.empty(LANES * d), alpha_opt,
        )  # fmt: skip

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """The arm that replica s draws from the p-th set by noise[t, r]; writes log_p[t, r] if there is one.

        While some leverage exceeds 1 (the event B_t), the arm of the largest gets as much mass again as all
        arms together.  arms (·,K,d), whose blocks are in blocks[n]; noise (T,R,1), log_p (T,R,K).
        """
        K = arms.shape[1]
        sharpness = 1.0 / math.sqrt(beta)
        log_f, root, leverage = scratch.log_f, scratch.root, scratch.leverage
        best, largest = weigh_all(belief, s, arms, p, blocks, n, sharpness, scratch)
        by_divergence(belief, s, arms, p, blocks, n, best, log_f, root, scratch.q[:K])
        share = 0.0
        if scratch.alpha_opt > 0.0:
            share = scratch.alpha_opt / counts(self, belief, s, arms, p, blocks, n, scratch)
        unnormalised(best, self.alpha_emp, share, self.even_ties and all_tied(log_f, K), K, scratch)
        total = settle_mass(self, best, K, scratch)
        extra = -1
        if self.explore and largest > EXPLORE:
            extra = 0
            while leverage[extra] * EQUAL < largest:
                extra += 1
            scratch.weight[extra] += total
            scratch.sums[extra // LANES] += total
            total += total
        if log_p.shape[0] > 0:
            logarithms(log_f, scratch.q, scratch.weight, total, extra, t, r, log_p)
        return draw(scratch.weight, scratch.sums, noise[t, r, 0] * total)

    def counts(self, belief, s, arms, p, blocks, n, scratch):
        """Writes the design as counts; returns their sum."""
        return design_counts(belief, s, arms, p, blocks, n, self.version, self.optimal, scratch)

    def settle_mass(self, best, K, scratch):
        """Z = Σ q f, by which all probabilities will be divided."""
        if scratch.q[best] == 0.0:
            return renormalise(K, scratch.log_f, scratch.q, scratch.weight, scratch.sums)
        return sum_of(scratch.sums)


@by_class
def weigh_all(belief, s, arms, p, blocks, n, sharpness, scratch):
    """Writes ‖a‖² in V⁻¹, log f_t and √f_t of every arm of set p; returns â and the largest ‖a‖².

    All lanes are written, those past the last arm too.  sharpness = 1/√β.
    """
    K, d = arms.shape[1], arms.shape[2]
    theta, inverse = belief.theta, belief.inverse
    log_f, root, leverage = scratch.log_f, scratch.root, scratch.leverage
    center, difference = scratch.center, scratch.difference
    if held(K, d):
        view = Held(blocks, n, K, d)
        best = best_arm(view, theta, s * d)
        length = centre(arms, p, best, inverse, s, center)
        widest, marked = splat(0.0), splat(LOWEST)
        for first in range(0, K, LANES):
            lengths, values = weigh(
                blocks, block(view, first), d, theta, inverse, s, sharpness, center, length, difference
            )
            widest, marked = larger(lengths, widest), larger(values, marked)
            note(first, lengths, values, leverage, log_f, root)
        largest, vanished = largest_lane(widest), largest_lane(marked) > 0.0
    else:
        best, largest, vanished = weigh_many(
            arms, p, theta, inverse, s, sharpness, center, difference, log_f, root, leverage
        )
    if vanished:
        repair(arms, p, theta, inverse, s, sharpness, best, log_f, root)
    return best, largest


@by_class
def design_counts(belief, s, arms, p, blocks, n, version, optimal, scratch):
    """Writes the design of `version` for set p as counts; returns their sum."""
    return augmented_counts(
        arms, p, blocks, n, scratch.log_f, scratch.root, version, optimal, scratch.scale,
        scratch.design, scratch.weight, scratch.desk,
    )  # fmt: skip


class OneTrialRule(MedRule):
    """q f as it stands, and what is missing to 1 for â: one trial of the rejection that p ∝ q f asks for.

    A proposal from q is played with probability f, and else â, whose own f is 1. So q f is the probability of
    every other arm, whatever the others are.
    """

    __slots__ = ()

    def settle_mass(self, best, K, scratch):
        """1, as far as numbers go."""
        rejected = max(0.0, 1.0 - sum_of(scratch.sums))
        scratch.q[best] += rejected
        scratch.weight[best] += rejected
        scratch.sums[best // LANES] += rejected
        return sum_of(scratch.sums)


@by_class
def settle_mass(rule, best, K, scratch):
    """The sum of the weights, when what the rule does about their being less than 1 is done."""


@by_class
def counts(rule, belief, s, arms, p, blocks, n, scratch):
    """Writes the design as counts; returns their sum."""


@by_class
def by_divergence(belief, s, arms, p, blocks, n, best, log_f, root, z):
    """Where rewards are not numbers with additive noise: replace the exponent Δ²/2 by a divergence.

    For a linear model they are the same.
    """


@inlined
def centre(arms, p, best, inverse, s, center):
    """Writes â and V⁻¹â to center (2d,); returns ‖â‖² in V⁻¹."""
    d = arms.shape[2]
    for k in range(d):
        center[k] = arms[p, best, k]
    combine_rows(center, 0, inverse, s * d * d, d, center, d)
    length = 0.0
    for k in range(d):
        length += center[k] * center[d + k]
    return length


@inlined
def seen_from(blocks, start, d, theta, inverse, s, center, length, difference):
    """‖a‖², Δ̂ = ⟨θ̂, â − a⟩ and ‖â − a‖², norms in V⁻¹, for the arms of the block at `start`; see `centre`.

    The lengths come from a = â + (a − â).
    """
    ahead, gap = splat(length), splat(0.0)
    for k in range(d):
        x = subtract(load(blocks, start + k * LANES), spread(center, k))
        store(difference, k * LANES, x)
        gap = multiply_add(x, splat(-theta[s, k]), gap)
        ahead = multiply_add(x, splat(2.0 * center[d + k]), ahead)
    distance2 = squared_length(difference, 0, d, inverse, s * d * d, d)
    return add(ahead, distance2), gap, distance2


@inlined
def weigh(blocks, start, d, theta, inverse, s, sharpness, center, length, difference):
    """‖a‖² in V⁻¹ and log f_t(a) of eq. (f_tm1) for the arms of the block at `start`; sharpness = 1/√β.

    With Δ̂ = ⟨θ̂, â − a⟩: log f = −Δ̂² / (β ‖â − a‖²) with 0/0 = 0, never −inf, and VANISHED where ‖â − a‖²
    is too small.
    """
    lengths, gap, distance2 = seen_from(blocks, start, d, theta, inverse, s, center, length, difference)
    ratio = multiply(gap, splat(sharpness))
    value = divide(multiply(ratio, ratio), multiply(distance2, splat(-1.0)))
    value = larger(value, splat(LOWEST))
    value = where_greater(distance2, splat(TINY), value, splat(VANISHED))
    return lengths, where_greater(gap, splat(0.0), value, splat(0.0))


@inlined
def note(first, lengths, values, leverage, log_f, root):
    """Write what `weigh` says of the arms from `first` on, and √f."""
    store(leverage, first, lengths)
    store(log_f, first, values)
    store(root, first, exponential(multiply(values, splat(0.5))))


@deferred(
    "Tuple((intp, f8, b1))(f8[:,:,::1], intp, f8[:,::1], f8[:,:,::1], intp, f8, f8[::1], f8[::1], f8[::1],"
    "f8[::1], f8[::1])"
)
def weigh_many(arms, p, theta, inverse, s, sharpness, center, difference, log_f, root, leverage):
    """`weigh` for very many arms: the best one, the largest length, and whether some log f vanished."""
    K, d = arms.shape[1], arms.shape[2]
    best = best_row(arms, p, theta.reshape(-1), s * d)
    length = centre(arms, p, best, inverse, s, center)
    one = np.empty((1, LANES * (d + 1)))
    widest, marked = splat(0.0), splat(LOWEST)
    for first in range(0, K, LANES):
        pack_block(arms, p, d, first, one, 0, 0)
        lengths, values = weigh(one, 0, d, theta, inverse, s, sharpness, center, length, difference)
        widest, marked = larger(lengths, widest), larger(values, marked)
        note(first, lengths, values, leverage, log_f, root)
    return best, largest_lane(widest), largest_lane(marked) > 0.0


@deferred("void(f8[:,:,::1], intp, f8[:,::1], f8[:,:,::1], intp, f8, intp, f8[::1], f8[::1])")
def repair(arms, p, theta, inverse, s, sharpness, best, log_f, root):
    """Replace the marks VANISHED: the ratio does not depend on the length of â − a, so take it longer."""
    K, d = arms.shape[1], arms.shape[2]
    x = np.empty(d)
    for i in range(K):
        if log_f[i] == VANISHED:
            longest = 0.0
            for k in range(d):
                longest = max(longest, abs(arms[p, best, k] - arms[p, i, k]))
            gap, distance2 = 0.0, 0.0
            for j in range(d):
                x[j] = (arms[p, best, j] - arms[p, i, j]) / longest
                gap += theta[s, j] * x[j]
                cross = 0.0
                for k in range(j):
                    cross += inverse[s, j, k] * x[k]
                distance2 += x[j] * (2.0 * cross + inverse[s, j, j] * x[j])
            log_f[i] = 0.0
            if gap > 0.0 and distance2 > TINY:
                log_f[i] = max(-((gap * sharpness) ** 2) / distance2, LOWEST)
            root[i] = math.exp(0.5 * log_f[i])


@deferred(
    "f8(f8[:,:,::1], intp, f8[:,::1], intp, f8[::1], f8[::1], intp, b1, f8[::1], f8[::1], f8[::1], f8[::1])"
)
def augmented_counts(arms, p, blocks, n, log_f, root, version, optimal, scale, count, leverage, desk):
    """ApproxDesignAugmented (Algorithm 2) as counts of every arm, and their sum.

    Version 0 rescales the arms by √f, version 1 drops those with f < 1/e.
    """
    arms, blocks, log_f, root = borrowed((arms, blocks, log_f, root))
    scale, count, leverage, desk = borrowed((scale, count, leverage, desk))
    K, d = arms.shape[1], arms.shape[2]
    members = K
    if version == 0:
        for first in range(0, K, LANES):
            store(scale, first, load(root, first))
    else:
        for i in range(K):
            scale[i] = 1.0 if log_f[i] >= -1.0 else 0.0
            members -= log_f[i] < -1.0
    for i in range(K, scale.shape[0]):  # places past the last arm
        scale[i] = 0.0
    total = -1.0
    if members <= 2 * d and not optimal:  # all of them
        for i in range(K):
            count[i] = 1.0 if version == 0 else scale[i]
        total = float(members)
    elif not optimal:
        total = approx_counts(arms, p, blocks, n, scale, count, leverage, desk)
    if total < 0.0:
        log_scale = np.empty(K)
        for i in range(K):
            log_scale[i] = 0.5 * log_f[i] if version == 0 else (0.0 if log_f[i] >= -1.0 else -math.inf)
        if optimal:
            optimal_design(arms[p], log_scale, OPTIMAL_TOL, count)
            return 1.0
        total = approx_counts_in_span(arms[p], log_scale, count)
    return total


@inlined
def all_tied(log_f, K):
    """Whether no arm is worse than â: every f is 1, whichever of them â is."""
    i = 0
    while i < K and log_f[i] == 0.0:
        i += 1
    return i == K


@inlined
def unnormalised(best, alpha_emp, share, tied, K, scratch):
    """Writes q_t = even + share·count + α_emp·1{best} and weight = q_t f_t, with sums of every eight.

    Where all arms are `tied`, every one gets α_emp/K: what it has in the mean over an â drawn among them.
    """
    q, weight, sums = scratch.q, scratch.weight, scratch.sums
    for first in range(0, K, LANES):
        part = load(scratch.even, first)
        if share > 0.0:
            part = multiply_add(splat(share), load(scratch.design, first), part)
        store(q, first, part)
        root = load(scratch.root, first)
        product = multiply(part, multiply(root, root))
        store(weight, first, product)
        sums[first // LANES] = sum_lanes(product)
    if tied:
        for i in range(K):
            q[i] += alpha_emp / K
            weight[i] = q[i]
        for first in range(0, K, LANES):
            sums[first // LANES] = sum_lanes(load(weight, first))
    else:
        q[best] += alpha_emp
        weight[best] = q[best] * (scratch.root[best] * scratch.root[best])
        sums[best // LANES] = sum_lanes(load(weight, best // LANES * LANES))


@inlined
def sum_of(sums):
    """Of all weights, by their sums of every eight."""
    total = 0.0
    for i in range(sums.shape[0]):
        total += sums[i]
    return total


@deferred("f8(intp, f8[::1], f8[::1], f8[::1], f8[::1])")
def renormalise(K, log_f, q, weight, sums):
    """Where q is 0 at the arm with f = 1, shift log f so that the sum of q f cannot vanish; returns it."""
    largest = -math.inf
    for i in range(K):
        if q[i] > 0.0:
            largest = max(largest, log_f[i])
    total = 0.0
    for first in range(0, K, LANES):
        part = 0.0
        for i in range(first, min(first + LANES, K)):
            log_f[i] -= largest
            weight[i] = q[i] * math.exp(log_f[i]) if q[i] > 0.0 else 0.0
            part += weight[i]
        sums[first // LANES] = part
        total += part
    return total


@inlined
def logarithms(log_f, q, weight, total, extra, t, r, out):
    """out[t, r] = log p_t; `extra` is the arm of the half-step, −1 without one.  out (T,R,K)."""
    log_total = math.log(total)
    for i in range(out.shape[2]):
        if i == extra:
            out[t, r, i] = math.log(weight[i]) - log_total
        elif q[i] > 0.0:
            out[t, r, i] = math.log(q[i]) + log_f[i] - log_total
        else:
            out[t, r, i] = -math.inf


@inlined
def draw(weight, sums, target):
    """The first arm whose running total exceeds `target`; arms of weight 0 are never drawn.

    weight padded with zeros, sums those of every eight.
    """
    running, i = 0.0, 0
    while i < sums.shape[0] - 1 and running + sums[i] <= target:
        running += sums[i]
        i += 1
    last = -1
    for j in range(LANES * i, LANES * i + LANES):
        if weight[j] > 0.0:
            running += weight[j]
            last = j
            if running > target:
                break
    while last < 0:  # rounding led past the last arm of positive weight
        i -= 1
        for j in range(LANES * i, LANES * i + LANES):
            if weight[j] > 0.0:
                last = j
    return last
