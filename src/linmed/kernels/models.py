"""A model for every item and one that all share: ridge regression on [z; e_m ⊗ x], without the zeros.

An arm is (m, z, x): the number of its model, shared features and features of its own. V of all models
together is an arrow: blocks A_m = λI + Σ x xᵀ, a border C_m = Σ z xᵀ, a corner A₀ = λI + Σ z zᵀ. Eliminating
the blocks leaves a small problem. Every model regresses the rewards *and* the shared features on its own,
φ = A⁻¹ Σ x y and W = C A⁻¹; with h = ‖x‖² in A⁻¹ and what is left over, w = z − Wx, what all models share is
ridge regression on

    w/√(1 + h)  with the reward  (y − ⟨φ,x⟩)/√(1 + h),      S = λI + Σ w wᵀ/(1 + h) = A₀ − Σ C A⁻¹ Cᵀ,

so one reward changes one model and S, whatever the number of models (this is Li et al.'s hybrid LinUCB; the
disjoint one has no z). Of V⁻¹ and θ̂ everything follows that a rule looks at:

    ⟨θ̂, a⟩ = ⟨φ,x⟩ + ⟨θ₀,w⟩      a·V⁻¹·a′ = w·S⁻¹·w′ + 1{m = m′} x·A⁻¹·x′      det V = det S · Π det A_m.

The numbers stay true as those of `ridge` do: sums in twice the working precision, V⁻¹ and θ̂ polished.
"""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels.blocks import block_room, held, pack, padded
from linmed.kernels.compile import deferred, inlined, kernel
from linmed.kernels.exchange import desk_room
from linmed.kernels.med import LOWEST, TINY, augmented_counts
from linmed.kernels.ridge import (
    NOTHING_NEW,
    REFRESH,
    STEEP,
    Ridge,
    absorb,
    add_direction,
    add_products,
    look_along,
    newton_step,
    refresh,
)

ALONE = -1  # stands for the arm that another one is seen from, where it is seen from nowhere


class ItemModels(NamedTuple):
    """The shared part as a `Ridge` of m features, then n models of c features in each of R replicas.

    Row r·n is the prior, which every model has that was never learned from; model i is row r·n + 1 + i, if
    there is one. Kernels take it as a plain tuple.
    """

    theta: Floats  # (R,m) θ₀
    count: Ints  # type: ignore[assignment]  # (R,) rewards absorbed, of all models
    gram: Floats  # (R,m,m) S, lower triangle
    gram_low: Floats
    inverse: Floats  # (R,m,m) S⁻¹
    moment: Floats  # (R,m)
    moment_low: Floats
    logdet: Floats  # (R,) log(det V / det V₀), of all models
    rss: Floats  # (R,) as those of `Ridge`, of all models
    leveraged: Floats
    pulls: Ints  # (R·n,) rewards absorbed
    own: Floats  # (R·n,1+m,c) φ, then the rows of W
    own_gram: Floats  # (R·n,c,c) A, lower triangle
    own_gram_low: Floats
    own_inverse: Floats  # (R·n,c,c) A⁻¹
    own_moment: Floats  # (R·n,1+m,c) Σ x y, then the rows of C
    own_moment_low: Floats

    def replicas(self):
        """R."""
        return self.count.shape[0]

    def dimension(self, d):
        """All but the number of the model."""
        return d - 1

    def absorb(self, r, features, i, reward, u):
        """One observation of replica r, whose model has a row; u (1 + m + c,) is scratch."""
        m, c = self.theta.shape[1], self.own.shape[2]
        model, at = place(self, r, features[i, 0]), i * features.shape[1] + 1 + m
        M = model * c * c
        h = look_along(features, at, self.own_inverse, M, c, u)
        shrink = 1.0 / (1.0 + h)
        shared, scratch = np.empty((1, m)), np.empty(m)
        error = 0.0
        for o in range(m + 1):
            target = reward if o == 0 else features[i, o]
            left = left_over(self, model, o, target, features, at)
            if o == 0:
                error = left
            else:
                shared[0, o - 1] = left * math.sqrt(shrink)
            for k in range(c):
                self.own[model, o, k] += left * shrink * u[k]
            add_products(
                self.own_moment, self.own_moment_low, (model * (m + 1) + o) * c, c, features, at, target
            )
        add_direction(self.own_gram, self.own_gram_low, self.own_inverse, M, c, features, at, u, shrink)
        self.pulls[model] += 1
        if self.pulls[model] % REFRESH == 0 or h > STEEP:
            rows = self.own.shape[0] * (m + 1)
            newton_step(
                self.own_gram, self.own_gram_low, self.own_inverse, self.own_moment.reshape((rows, c)),
                self.own_moment_low.reshape((rows, c)), self.own.reshape((rows, c)), model,
            )  # fmt: skip
        common = shared_part(self)
        # What this reward adds to the two sums: e²/(1 + q) is that of the shared part, and with its
        # leverage g, 1 + q = (1 + h)(1 + g) is that of the arm.
        rss, leveraged = self.rss[r], self.leveraged[r]
        self.rss[r], self.leveraged[r] = 0.0, 0.0
        if absorb(common, r, shared, 0, error * math.sqrt(shrink), scratch) and m > 0:
            refresh(common, r)
        self.leveraged[r] = leveraged + (self.rss[r] * h + self.leveraged[r] * (1.0 + h))
        self.rss[r] += rss
        self.logdet[r] += math.log1p(h)
        return False

    def expect(self, s, arms, p, blocks, n, mean):
        """⟨θ̂, a⟩ of every arm, as `optimism.expect`."""
        x, w = np.empty(self.own.shape[2]), np.empty(self.theta.shape[1])
        for i in range(mean.shape[0]):
            mean[i] = project(self, s, arms, p, i, ALONE, 1.0, x, w)[0]

    def look_at(self, s, arms, p, blocks, n, mean, leverage, scratch):
        """⟨θ̂, a⟩ and ‖a‖² in V⁻¹ of every arm, as `optimism.look_at`."""
        x, w = np.empty(self.own.shape[2]), np.empty(self.theta.shape[1])
        for i in range(mean.shape[0]):
            mean[i], own = project(self, s, arms, p, i, ALONE, 1.0, x, w)
            leverage[i] = own + quadratic(self.inverse, s, w)

    def weigh_all(self, s, arms, p, blocks, n, sharpness, scratch):
        """‖a‖², log f and √f of every arm, as `med.weigh_all`."""
        K, m = arms.shape[1], self.theta.shape[1]
        log_f, root, leverage, mean, own = (
            scratch.log_f, scratch.root, scratch.leverage, scratch.weight, scratch.q,
        )  # fmt: skip
        x, w, center = np.empty(self.own.shape[2]), np.empty(m), np.empty(m)
        best, largest = 0, 0.0
        for i in range(K):
            mean[i], own[i] = project(self, s, arms, p, i, ALONE, 1.0, x, w)
            leverage[i] = own[i] + quadratic(self.inverse, s, w)
            largest = max(largest, leverage[i])
            if mean[i] > mean[best]:
                best = i
        project(self, s, arms, p, best, ALONE, 1.0, x, center)
        for i in range(K):
            if arms[p, i, 0] == arms[p, best, 0]:
                gap, distance2 = project(self, s, arms, p, i, best, 1.0, x, w)
                gap = -gap
                distance2 += quadratic(self.inverse, s, w)
            else:
                gap, distance2 = mean[best] - mean[i], own[best] + own[i]
                if m > 0:
                    project(self, s, arms, p, i, ALONE, 1.0, x, w)
                    for k in range(m):
                        w[k] -= center[k]
                    distance2 += quadratic(self.inverse, s, w)
            if gap > 0.0 and not distance2 > TINY:
                gap, distance2 = seen_closely(self, s, arms, p, i, best, x, w, center)
                project(self, s, arms, p, best, ALONE, 1.0, x, center)
            log_f[i] = 0.0
            if gap > 0.0 and distance2 > TINY:
                log_f[i] = max(-((gap * sharpness) ** 2) / distance2, LOWEST)
            root[i] = math.exp(0.5 * log_f[i])
        for i in range(K, padded(K)):  # places past the last arm
            leverage[i], log_f[i], root[i] = 0.0, 0.0, 0.0
        return best, largest

    def design_counts(self, s, arms, p, blocks, n, version, optimal, scratch):
        """The design as counts, as `med.design_counts`, in the space of the models that are offered."""
        return counts_of_models(
            arms, p, self.theta.shape[1], scratch.log_f, scratch.root, version, optimal, scratch.scale,
            scratch.design, scratch.weight,
        )  # fmt: skip


@inlined
def shared_part(belief):
    """The shared part of `ItemModels`; its sums are those of all models."""
    return Ridge(
        belief.theta, belief.count, belief.gram, belief.gram_low, belief.inverse, belief.moment,
        belief.moment_low, belief.logdet, belief.rss, belief.leveraged,
    )  # fmt: skip


@inlined
def place(belief, s, number):
    """The row of a model in replica s."""
    rows = belief.own.shape[0] // belief.count.shape[0]
    return s * rows + (int(number) + 1 if number + 1.0 < rows else 0)


@inlined
def left_over(belief, model, o, target, x, at):
    """target − ⟨row o of φ and W, x⟩ for x (c,) at `at` of its array; 0 where that is but rounding."""
    c = belief.own.shape[2]
    flat = x.reshape(-1)
    predicted, size = 0.0, abs(target)
    for k in range(c):
        product = belief.own[model, o, k] * flat[at + k]
        predicted += product
        size += abs(product)
    left = target - predicted
    return left if o == 0 or abs(left) > NOTHING_NEW * (c + 1) * size else 0.0


@inlined
def project(belief, s, arms, p, i, other, unit, x, w):
    """The mean ⟨φ,x⟩ + ⟨θ₀,w⟩ and x·A⁻¹·x of arm i, in the given unit; x (c,) and w (m,) are written.

    Unless `other` is ALONE, that is of the arm's difference to another one of the same model.
    """
    m, c = w.shape[0], x.shape[0]
    model = place(belief, s, arms[p, i, 0])
    mean, own = 0.0, 0.0
    for k in range(c):
        x[k] = arms[p, i, 1 + m + k]
        if other != ALONE:
            x[k] -= arms[p, other, 1 + m + k]
        x[k] /= unit
        mean += belief.own[model, 0, k] * x[k]
        cross = 0.0
        for j in range(k):
            cross += belief.own_inverse[model, k, j] * x[j]
        own += x[k] * (2.0 * cross + belief.own_inverse[model, k, k] * x[k])
    for k in range(m):
        z = arms[p, i, 1 + k]
        if other != ALONE:
            z -= arms[p, other, 1 + k]
        w[k] = left_over(belief, model, 1 + k, z / unit, x, 0)
        mean += belief.theta[s, k] * w[k]
    return mean, max(own, 0.0)


@inlined
def quadratic(inverse, s, w):
    """w·S⁻¹·w."""
    total = 0.0
    for k in range(w.shape[0]):
        cross = 0.0
        for j in range(k):
            cross += inverse[s, k, j] * w[j]
        total += w[k] * (2.0 * cross + inverse[s, k, k] * w[k])
    return max(total, 0.0)


@inlined
def seen_closely(belief, s, arms, p, i, best, x, w, center):
    """Δ̂ and ‖â − a‖² of arms so short that the square vanishes, in a unit in which they are not.

    The ratio that matters does not depend on it.
    """
    unit, same = 0.0, arms[p, i, 0] == arms[p, best, 0]
    for k in range(1, arms.shape[2]):
        if same:
            unit = max(unit, abs(arms[p, best, k] - arms[p, i, k]))
        else:
            unit = max(unit, abs(arms[p, best, k]), abs(arms[p, i, k]))
    if unit == 0.0:
        return 0.0, 0.0
    if same:
        gap, distance2 = project(belief, s, arms, p, i, best, unit, x, w)
        return -gap, distance2 + quadratic(belief.inverse, s, w)
    ahead, distance2 = project(belief, s, arms, p, best, ALONE, unit, x, center)
    gap, own = project(belief, s, arms, p, i, ALONE, unit, x, w)
    for k in range(w.shape[0]):
        w[k] -= center[k]
    return ahead - gap, distance2 + own + quadratic(belief.inverse, s, w)


@deferred("f8(f8[:,:,::1], intp, intp, f8[::1], f8[::1], intp, b1, f8[::1], f8[::1], f8[::1])")
def counts_of_models(arms, p, m, log_f, root, version, optimal, scale, count, leverage):
    """`med.augmented_counts` of the arms [z; e ⊗ x] of set p, with as many blocks as models are offered.

    Up to twice as many arms as dimensions take part all alike, and so do linearly independent ones in a
    G-optimal design: where all models differ, no block is written.
    """
    K, c = arms.shape[1], arms.shape[2] - 1 - m
    numbers = np.empty(K)
    for i in range(K):
        numbers[i] = arms[p, i, 0]
    order = np.argsort(numbers, kind="mergesort")
    block, last = np.empty(K, np.int64), 0
    for j in range(K):
        if j > 0 and numbers[order[j]] != numbers[order[j - 1]]:
            last += 1
        block[order[j]] = last
    d = m + (last + 1) * c
    members = 0
    for i in range(K):
        count[i] = 1.0 if version == 0 or log_f[i] >= -1.0 else 0.0
        members += count[i] > 0.0
    independent = last + 1 == K
    for i in range(K):
        k = 1 + m
        while k < arms.shape[2] and arms[p, i, k] == 0.0:
            k += 1
        independent = independent and k < arms.shape[2]
    if (members <= 2 * d and not optimal) or independent:
        return float(members)
    written = np.zeros((1, K, d))
    for i in range(K):
        for k in range(m):
            written[0, i, k] = arms[p, i, 1 + k]
        for k in range(c):
            written[0, i, m + block[i] * c + k] = arms[p, i, 1 + m + k]
    blocks = np.empty((1, block_room(K, d) if held(K, d) else 0))
    if held(K, d):
        pack(written, 0, d, blocks, 0)
    return augmented_counts(
        written, 0, blocks, 0, log_f, root, version, optimal, scale, count, leverage, np.empty(desk_room(d))
    )


@kernel
def highest_model(arms, most):
    """The largest number of a model in column 0 of arms (n,d); −1 − i where row i has none below `most`."""
    highest = 0
    for i in range(arms.shape[0]):
        number = arms[i, 0]
        if not (0.0 <= number < most and number == math.floor(number)):
            return -1 - i
        highest = max(highest, int(number))
    return highest


@kernel
def look_at_models(state, arms, mean, gram):
    """⟨θ̂, a⟩ and a·V⁻¹·a′ of the arms of every set, (R,K) and (R,K,K); of the latter no more than (R,K,1) if
    that is its shape: the diagonal.

    state: `ItemModels` as a plain tuple; arms (R or 1,K,1 + m + c). A state of one replica serves R sets.
    """
    belief = ItemModels(*state)
    K, m, c = arms.shape[1], belief.theta.shape[1], belief.own.shape[2]
    x, w, u = np.empty((K, c)), np.empty((K, m)), np.empty((K, m))
    for r in range(mean.shape[0]):
        p, s = r if arms.shape[0] > 1 else 0, r if belief.count.shape[0] > 1 else 0
        for i in range(K):
            mean[r, i], own = project(belief, s, arms, p, i, ALONE, 1.0, x[i], w[i])
            if gram.shape[2] == 1:
                gram[r, i, 0] = own + quadratic(belief.inverse, s, w[i])
            for k in range(m):
                u[i, k] = 0.0
                for j in range(m):
                    u[i, k] += belief.inverse[s, k, j] * w[i, j]
        if gram.shape[2] == 1:
            continue
        for i in range(K):
            model = place(belief, s, arms[p, i, 0])
            for j in range(i + 1):
                total = 0.0
                for k in range(m):
                    total += w[i, k] * u[j, k]
                if arms[p, i, 0] == arms[p, j, 0]:
                    for k in range(c):
                        for e in range(c):
                            total += x[i, k] * belief.own_inverse[model, k, e] * x[j, e]
                gram[r, i, j] = gram[r, j, i] = total


@kernel
def coordinates(arms, mean, gram, lam, out, theta):
    """Arms with the same means and products where V = λI: out out′/λ = a·V⁻¹·a′ and ⟨theta, out⟩ = ⟨θ̂, a⟩.

    By Cholesky with the largest pivot first; what is left of an arm in the span of others is rounding.
    arms (R or 1,K,d), mean (R,K), gram (R,K,K), which is overwritten, out (R,K,K), theta (R,K).
    """
    R, K = mean.shape
    root = math.sqrt(lam)
    for r in range(R):
        p = r if arms.shape[0] > 1 else 0
        L, left, rest = out[r], gram[r], np.empty(K)
        L[:], theta[r] = 0.0, 0.0
        for i in range(K):
            rest[i] = mean[r, i]
        enough = 0.0
        for i in range(K):
            enough = max(enough, left[i, i])
        for step in range(K):
            best = 0
            for i in range(K):
                if left[i, i] > left[best, best]:
                    best = i
            if not left[best, best] > 1e-14 * enough:
                break
            pivot = math.sqrt(left[best, best])
            for i in range(K):
                L[i, step] = left[i, best] / pivot
            value = rest[best] / pivot
            for i in range(K):
                rest[i] -= value * L[i, step]
                for j in range(K):
                    left[i, j] -= L[i, step] * L[j, step]
            for i in range(K):
                L[i, step] *= root
            left[best, best] = 0.0
            theta[r, step] = value / root
        for i in range(K):  # equal arms are equal to the last bit: the first of them is played
            for j in range(i):
                if np.all(arms[p, i] == arms[p, j]):
                    L[i] = L[j]
                    break
