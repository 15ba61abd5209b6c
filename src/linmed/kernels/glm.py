"""Generalised linear models, one reward at a time: an online Newton step that keeps no data.

With the loss ℓ of a family (`kernels.links`) and z = c + ⟨a,θ̂⟩, the reward y of arm a moves (c, θ̂) to where
½‖· − (c, θ̂)‖² in H plus ℓ is smallest. With h = ‖(1, a)‖² in H⁻¹ that is where z′ − z + h(μ(z′) − y) = 0, and

    (c, θ̂) −= s u,   s = μ(z′) − y,   u = H⁻¹(1, a),      H += w (1, a)(1, a)ᵀ.

The curvature w is μ′(z′), or the smaller one for which the radius has a proof: 2·min b(z′, ±B) with
b(z, z*) = kl(z, z*)/(z* − z)² and B ≥ |z*|, z* being the truth's. For Gaussian rewards all of this is ridge
regression.

The intercept c has a coordinate and a prior of its own. All rewards share it, and it is no feature among
others that are shrunk alike: at a click rate of 3 % it must reach −3.5. Rules compare arms, and in â − a it
cancels: they see θ̂ and the block of H⁻¹ that belongs to the features.

Several priors on θ, the weakest first, may stand beside each other. Fixed shares (Herbster & Warmuth 1998)
say how likely they are: a prior's weight is multiplied by the probability that it gave to the reward, and a
share of all weights is then spread evenly. So no prior's lead outlasts its reasons: one that did well while a
single arm was played, or while clicks alone were known, loses it soon after. The weakest prior that is not
refuted decides. A prior that is too strong hides what the features tell, and arms that would show it are not
played; one that is too weak costs exploration only.
"""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels.compile import deferred, inlined, kernel
from linmed.kernels.fading import add_to_diagonal, put_faded
from linmed.kernels.lanes import exponential
from linmed.kernels.links import (
    GAUSSIAN,
    bend,
    least_curvature,
    loss,
    predictive_loss,
    residual,
    settle,
    variance,
)
from linmed.kernels.matrices import combine_rows
from linmed.kernels.med import LOWEST
from linmed.kernels.optimism import means, means_and_leverages
from linmed.kernels.ridge import (
    NOTHING_NEW,
    REFRESH,
    STEEP,
    add_product,
    add_products,
    polish,
    subtract_outer_row,
)
from linmed.kernels.simd import LANES, load, multiply, splat, store
from linmed.kernels.thompson import ThompsonRule, factor

FAMILY, PRECISION, CONSTANT, CERTIFIED, NORM, REACH = range(6)
"""What an expert was told: its family, τ, 1 with an intercept and else 0, which w, S, and a bound on the
intercept. w is μ′(z′) by 0 and the certified one by 1. A larger number is ρ + 2 log 1/δ of the certified set
itself, outside which z* is not looked for: all w are proved together, with probability 1 − δ, each set by
those before it."""
SHARE = 1e-3  # of all weights, spread evenly over the priors with every reward
SINGULAR = 1e-15  # pivots smaller than this part of the least diagonal entry are rounding
REFUTED = math.log(20.0)  # how much less likely than the likeliest a prior is that no longer decides
UNIT = 4  # priors are in units of ‖a‖² of the first arm learned from, rounded to a power of 2^UNIT …
FURTHEST = 800  # … within 2^±FURTHEST


class Glm(NamedTuple):
    """E experts in every replica: row r·E + e is expert e of replica r. Kernels take it as a plain tuple."""

    theta: Floats  # (R·E,d) θ̂
    intercept: Floats  # (R·E,) c
    count: Ints  # type: ignore[assignment]  # (R·E,) rewards absorbed
    gram: Floats  # (R·E,d+1,d+1) H, lower triangle, the intercept first …
    gram_low: Floats  # … and what it has lost to rounding
    inverse: Floats  # (R·E,d,d) the features' block of H⁻¹
    cross: Floats  # (R·E,d) the intercept's row of it …
    corner: Floats  # (R·E,) … and its own entry
    logdet: Floats  # (R·E,) log(det H / det H₀)
    excess: Floats  # (R·E,) 2Σ(m − ℓ(z′)) − Σs²h: what the certified radius sums, m of `predictive_loss`
    surprise: Floats  # (R·E,) −log of the prior's weight; where there is one prior alone Σm
    told: Floats  # (R·E,6)
    leader: Ints  # (R,) the expert that decides, the first among equals

    def absorb(self, r, features, i, reward, u):
        """One observation of replica r: every expert learns, then they see who leads."""
        experts = self.count.shape[0] // self.leader.shape[0]
        first = r * experts
        if experts > 1 and self.count[first] == 0:
            take_unit(self, first, experts, features, i)
        for s in range(first, first + experts):
            learn_one(self, s, features, i, reward, u)
        if experts > 1:
            self.leader[r] = share_evidence(self.surprise, first, experts)
        return False

    def replicas(self):
        """R."""
        return self.leader.shape[0]

    def row(self, r):
        """Where the expert stands who decides in replica r."""
        return r * (self.count.shape[0] // self.leader.shape[0]) + self.leader[r]

    def by_divergence(self, s, arms, p, blocks, n, best, log_f, root, z):
        """Turn log f = −Δ²/(β‖â − a‖²) into −2 kl(z_a, z_â)/(β μ′(z_a) ‖â − a‖²), and root into its √f.

        z (K,) from `optimism.per_arm` is scratch.
        """
        family = int(self.told[s, FAMILY])
        if family == GAUSSIAN:
            return
        means(arms, p, blocks, n, self.theta, s, z)
        bend_all(family, self.told[s, CONSTANT] * self.intercept[s], best, z, log_f, root)

    def look_at(self, s, arms, p, blocks, n, mean, leverage, apart):
        """c + ⟨θ̂, a⟩ and ‖(1, a)‖² in H⁻¹ of every arm, as `optimism.look_at`."""
        means(arms, p, blocks, n, self.cross, s, leverage)
        constant = self.told[s, CONSTANT]
        for i in range(mean.shape[0]):
            mean[i] = constant * (2.0 * leverage[i] + constant * self.corner[s])
        means_and_leverages(arms, p, blocks, n, self.theta, self.inverse, s, apart, leverage)
        for i in range(mean.shape[0]):
            leverage[i] = max(leverage[i] + mean[i], 0.0)
            mean[i] = constant * self.intercept[s] + apart[i]

    def factor_precision(self, s, lam, L):
        """L Lᵀ is the inverse of the features' block of H⁻¹: H without what the intercept explains."""
        precision = np.empty((1, L.shape[0], L.shape[0]))
        features_precision(self.gram, s, precision, 0)
        if self.count.shape[0] > self.leader.shape[0]:  # several λ, in units of the features
            lam = math.inf
            for k in range(L.shape[0]):
                lam = min(lam, SINGULAR * precision[0, k, k])
        factor(precision, 0, lam, L)

    def fade(self, s, f):
        """The past of row s counts f times what it did; the priors too, until they are given back."""
        d, constant = self.theta.shape[1], self.told[s, CONSTANT] > 0.0
        D = d + 1
        for j in range(0 if constant else 1, D):
            for k in range(0 if constant else 1, j + 1):
                put_faded(self.gram, self.gram_low, (s * D + j) * D + k, f)
        for j in range(d):
            self.cross[s, j] /= f
            for k in range(d):
                self.inverse[s, j, k] /= f
        if constant:
            self.corner[s] /= f
        self.logdet[s] += (D if constant else d) * math.log(f)
        self.excess[s] *= f
        self.surprise[s] *= f
        self.count[s] *= f

    def give_back(self, s, k, c, u):
        """H += c along feature k, or the intercept for k = −1; whether that is too steep to be followed."""
        if k < 0:
            own, known = self.corner[s], self.intercept[s]
            for j in range(u.shape[0]):
                u[j] = self.cross[s, j]
        else:
            own, known = self.cross[s, k], self.theta[s, k]
            for j in range(u.shape[0]):
                u[j] = self.inverse[s, k, j]
        h = c * (own if k < 0 else u[k])
        shrink = c / (1.0 + h)
        move(self, s, u, own, known * shrink)
        self.logdet[s] += math.log1p(h)
        add_to_diagonal(self.gram, self.gram_low, s, k + 1, c)
        subtract_outer(self, s, u, own, shrink)
        return h > STEEP


@inlined
def take_unit(self, first, experts, features, i):
    """Before the first reward: λ in units of ‖a‖² of row i of features. Nothing is rounded."""
    d, length2 = features.shape[1], 0.0
    for k in range(d):
        length2 += features[i, k] * features[i, k]
    if length2 > 0.0:
        unit = math.ldexp(1.0, min(max(UNIT * round(math.log2(length2) / UNIT), -FURTHEST), FURTHEST))
        for s in range(first, first + experts):
            for k in range(d):
                self.gram[s, k + 1, k + 1] *= unit
                self.inverse[s, k, k] /= unit


@inlined
def share_evidence(surprise, first, experts):
    """Fixed shares, given −log of the weights after a reward; returns the first expert not refuted."""
    least = surprise[first]
    for s in range(first + 1, first + experts):
        least = min(least, surprise[s])
    total = 0.0
    for s in range(first, first + experts):
        total += math.exp(least - surprise[s])
    top = math.inf
    for s in range(first, first + experts):
        likely = math.exp(least - surprise[s]) / total
        surprise[s] = -math.log((1.0 - SHARE) * likely + SHARE / experts)
        top = min(top, surprise[s])
    leader = 0
    while surprise[first + leader] > top + REFUTED:
        leader += 1
    return leader


@inlined
def learn_one(self, s, features, i, reward, u):
    """One observation of expert s: row i of features (m,d), a reward; u (d,) is scratch."""
    z, h, own = consider(self, s, features, i, u)
    predicted = predictive_loss(int(self.told[s, FAMILY]), self.told[s, PRECISION], z, h, reward)
    steep = take_step(self, s, features, i, reward, 1.0, z, h, own, u, predicted)
    self.count[s] += 1
    if self.count[s] % REFRESH == 0 or steep:
        polish_parts(self.gram, self.gram_low, self.inverse, self.cross, self.corner, s)


@inlined
def consider(self, s, features, i, u):
    """z, h and the intercept's entry of H⁻¹(1, a), of which the others are written to u (d,).

    Where h is nothing but rounding, h and u are 0: this direction is known already.
    """
    inverse, cross, constant = self.inverse, self.cross, self.told[s, CONSTANT]
    d = u.shape[0]
    combine_rows(features, i * d, inverse, s * d * d, d, u, 0)
    z, own = constant * self.intercept[s], constant * self.corner[s]
    h, rounding = 0.0, 0.0
    for k in range(d):
        x = features[i, k]
        own += cross[s, k] * x
        u[k] += constant * cross[s, k]
        z += x * self.theta[s, k]
        h += x * u[k]
        rounding += x * x * abs(inverse[s, k, k])
    own *= constant
    h += own
    rounding += constant * abs(self.corner[s])
    if not h > NOTHING_NEW * d * rounding:
        h = own = 0.0
        for k in range(d):
            u[k] = 0.0
    return z, h, own


@inlined
def take_step(self, s, features, i, reward, times, z, h, own, u, predicted):
    """The step above, from what `consider` says, for a reward that counts so many times; all but n follows.

    `predicted` is the loss with which the reward was foreseen. Returns whether H⁻¹ has become too steep to be
    followed.
    """
    family, precision, constant = int(self.told[s, FAMILY]), self.told[s, PRECISION], self.told[s, CONSTANT]
    d = u.shape[0]
    after = settle(family, precision, z, times * h, reward)
    if family == GAUSSIAN:
        error = precision * (after - reward)
    else:
        error = residual(family, z, times * h, reward, after)
    move(self, s, u, own, times * error)
    if self.told[s, CERTIFIED] > 0.0:
        length2 = 0.0
        for k in range(d):
            length2 += features[i, k] * features[i, k]
        bound = self.told[s, NORM] * math.sqrt(length2) + constant * self.told[s, REACH]
        low, high = -bound, bound
        if self.told[s, CERTIFIED] > 1.0:
            reach = math.sqrt(max(self.told[s, CERTIFIED] + self.excess[s], 0.0) * h)
            low, high = min(max(z - reach, -bound), bound), max(min(z + reach, bound), -bound)
        weight = times * least_curvature(family, precision, after, low, high)
    else:
        weight = times * variance(family, precision, after)
    self.surprise[s] += predicted
    self.excess[s] += 2.0 * (predicted - loss(family, precision, after, reward)) - error * error * h
    self.logdet[s] += math.log1p(weight * h)
    at = s * (d + 1) * (d + 1)
    if constant > 0.0:
        add_to_diagonal(self.gram, self.gram_low, s, 0, weight)
    for j in range(d):
        part = weight * features[i, j]
        if constant > 0.0:
            high, low = add_product(self.gram[s, j + 1, 0], self.gram_low[s, j + 1, 0], part, 1.0)
            self.gram[s, j + 1, 0], self.gram_low[s, j + 1, 0] = high, low
        add_products(self.gram, self.gram_low, at + (j + 1) * (d + 1) + 1, j + 1, features, i * d, part)
    subtract_outer(self, s, u, own, weight / (1.0 + weight * h))
    return weight * h > STEEP


@inlined
def move(self, s, u, own, by):
    """(c, θ̂) −= by·(own, u)."""
    for k in range(u.shape[0]):
        self.theta[s, k] -= by * u[k]
    self.intercept[s] -= by * own


@inlined
def subtract_outer(self, s, u, own, shrink):
    """H⁻¹ −= shrink·(own, u)(own, u)ᵀ."""
    d = u.shape[0]
    self.corner[s] -= own * own * shrink
    for j in range(d):
        self.cross[s, j] -= own * u[j] * shrink
        subtract_outer_row(self.inverse, (s * d + j) * d, d, u, u[j], shrink)


@deferred("void(f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[::1], intp)")
def polish_parts(gram, gram_low, inverse, cross, corner, s):
    """Remove what rounding has left in H⁻¹ of expert s.

    `polish` looks at I − H H⁻¹ as a whole. The intercept's 1 may stand beside features of any size, so rows
    are brought to one size first, by powers of two: nothing is rounded.
    """
    D = gram.shape[1]
    H, low, size = np.empty((1, D, D)), np.empty((1, D, D)), np.empty(D)
    X, residual = np.empty((D, D)), np.empty((D, D))
    for j in range(D):
        size[j] = math.ldexp(1.0, math.frexp(gram[s, j, j])[1] // 2)
        for k in range(j + 1):
            H[0, j, k] = gram[s, j, k] / size[j] / size[k]
            low[0, j, k] = gram_low[s, j, k] / size[j] / size[k]
            if k > 0:
                X[j, k] = inverse[s, j - 1, k - 1] * size[j] * size[k]
            else:
                X[j, k] = (cross[s, j - 1] if j > 0 else corner[s]) * size[j] * size[k]
            X[k, j] = X[j, k]
    if polish(H, low, 0, X, residual) == 0:
        return
    corner[s] = X[0, 0] / size[0] / size[0]
    for j in range(1, D):
        cross[s, j - 1] = X[j, 0] / size[j] / size[0]
        for k in range(1, D):
            inverse[s, j - 1, k - 1] = X[j, k] / size[j] / size[k]


@deferred("void(intp, f8, intp, f8[::1], f8[::1], f8[::1])")
def bend_all(family, intercept, best, z, log_f, root):
    """`by_divergence` for all arms, given z without the intercept.  z (K,), log_f, root padded."""
    K = z.shape[0]
    top = z[best]
    for i in range(K):
        if log_f[i] < 0.0:
            factor = bend(family, intercept + z[i], max(top - z[i], 0.0))
            value = log_f[i] * factor
            log_f[i] = value if value > LOWEST else LOWEST
    for first in range(0, K, LANES):
        store(root, first, exponential(multiply(load(log_f, first), splat(0.5))))


@inlined
def features_precision(gram, s, out, to):
    """out[to] = H_xx − h hᵀ/H₀₀, lower triangle.  gram (·,d+1,d+1), out (·,d,d)."""
    for j in range(out.shape[1]):
        share = gram[s, j + 1, 0] / gram[s, 0, 0]
        for k in range(j + 1):
            out[to, j, k] = gram[s, j + 1, k + 1] - share * gram[s, k + 1, 0]


@kernel
def precisions(gram, out):
    """`features_precision` of all, both triangles."""
    for s in range(out.shape[0]):
        features_precision(gram, s, out, s)
        for j in range(out.shape[1]):
            for k in range(j):
                out[s, k, j] = out[s, j, k]


class GlmSet(NamedTuple):
    """How sure a `Glm` is: β = ρ + 2ℓ + log(det H/det H₀), or with its own sum in the place of the last.

    ρ is the prior's part: λS², and as much for the intercept where there is one. The first is the quadratic
    model of a likelihood ratio's set and has no proof; the second has one (docs/clicks.md).
    """

    certified: bool
    log_inverse_delta: float  # negative stands for δ = 1/(t+1) after t rewards
    prior: float

    def squared_radius(self, belief, r):
        """β of row r."""
        log_inverse_delta = self.log_inverse_delta
        if log_inverse_delta < 0.0:
            log_inverse_delta = math.log(belief.count[r] + 1.0)
        seen = belief.excess[r] if self.certified else max(belief.logdet[r], 0.0)
        return max(self.prior + 2.0 * log_inverse_delta + seen, 0.0)


class LaplaceRule(ThompsonRule):
    """A draw from N(θ̂, H⁻¹), whose curvature is in the units of the noise already."""

    __slots__ = ()

    def spread(self, belief, s, beta):
        """The number alone."""
        return self.size
