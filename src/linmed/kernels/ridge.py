"""Ridge regression, one observation at a time: V, V⁻¹, b, θ̂, log(det V / det V₀), two sums and the count.

Symbols follow the paper: V = λI + Σ a aᵀ, b = Σ a y, θ̂ = V⁻¹ b. Three things keep the numbers true
after millions of updates:
- V and b are summed in twice the working precision (a high and a low part). A million copies of one
  arm would otherwise leave an error of 1e-6 in the directions never played, where V is still λ.
- V⁻¹ follows by Sherman–Morrison and θ̂ by recursive least squares, both of which forget their own
  rounding errors in a direction as that direction is played again.
- Every `REFRESH` updates one Newton step, V⁻¹ ← V⁻¹ + V⁻¹(I − V V⁻¹), and one step of iterative
  refinement for θ̂ remove what is left, with residuals in twice the working precision. A fresh
  Cholesky factorisation, with its error of ε·cond(V), would be worse than what it replaces. Only where an
  arm is so long that Sherman–Morrison leaves nothing to polish (‖a‖² > 10⁸ in V⁻¹), V⁻¹ is made anew.
"""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels.compile import by_class, deferred, fma, inlined
from linmed.kernels.matrices import combine_rows
from linmed.kernels.simd import LANES, add, load, multiply, multiply_add, number, put, splat, store, subtract

REFRESH = 1024
STEEP = 1e8  # a leverage beyond which Sherman–Morrison leaves few digits of V⁻¹ along the arm
NOTHING_NEW = 8.9e-16  # four units in the last place: leverages below their rounding errors


class Ridge(NamedTuple):
    """What is believed of θ* in every replica. Kernels take it as a plain tuple."""

    theta: Floats  # (R,d) θ̂
    count: Ints  # type: ignore[assignment]  # (R,) rewards absorbed
    gram: Floats  # (R,d,d) V, lower triangle
    gram_low: Floats  # (R,d,d) what V has lost to rounding, lower triangle
    inverse: Floats  # (R,d,d) V⁻¹
    moment: Floats  # (R,d) b
    moment_low: Floats  # (R,d) what b has lost to rounding
    logdet: Floats  # (R,) log(det V / det V₀)
    rss: Floats  # (R,) min over θ of Σ(y − ⟨a,θ⟩)² + λ‖θ‖², which is Σ e²/(1 + h) …
    leveraged: Floats  # (R,) … and Σ e² h/(1 + h), with h = ‖a‖² in V⁻¹ and e = y − ⟨a,θ̂⟩ before each reward

    def absorb(self, r, features, i, reward, u):
        """One observation of replica r: row i of features (m,d), a reward; u (d,) is scratch.

        Returns whether the replica is due for `refresh`.
        """
        theta, inverse = self.theta, self.inverse
        d = u.shape[0]
        a, M = i * d, r * d * d
        q = look_along(features, a, inverse, M, d, u)
        predicted = 0.0
        for k in range(d):
            predicted += features[i, k] * theta[r, k]
        shrink = 1.0 / (1.0 + q)
        error = reward - predicted
        gain = error * shrink
        for k in range(d):
            theta[r, k] += gain * u[k]
        add_products(self.moment, self.moment_low, r * d, d, features, a, reward)
        add_direction(self.gram, self.gram_low, inverse, M, d, features, a, u, shrink)
        self.logdet[r] += math.log1p(q)
        self.rss[r] += error * gain
        self.leveraged[r] += error * gain * q
        self.count[r] += 1
        return self.count[r] % REFRESH == 0 or q > STEEP

    def refresh(self, r):
        """Remove what rounding has left in replica r."""
        newton_step(self.gram, self.gram_low, self.inverse, self.moment, self.moment_low, self.theta, r)


def start(replicas: int, dim: int, lam: float) -> Ridge:
    """V = λI in every replica."""
    identity = np.broadcast_to(np.eye(dim), (replicas, dim, dim))
    return Ridge(
        theta=np.zeros((replicas, dim)),
        count=np.zeros(replicas, dtype=np.int64),
        gram=lam * identity,
        gram_low=np.zeros((replicas, dim, dim)),
        inverse=identity / lam,
        moment=np.zeros((replicas, dim)),
        moment_low=np.zeros((replicas, dim)),
        logdet=np.zeros(replicas),
        rss=np.zeros(replicas),
        leveraged=np.zeros(replicas),
    )


@by_class
def absorb(belief, r, features, i, reward, u):
    """Learn from one observation; returns whether `refresh` is due."""


@by_class
def refresh(belief, r):
    """Remove what rounding has left in replica r."""


@inlined
def look_along(features, at, inverse, M, d, u):
    """u = V⁻¹a for the arm (d,) at `at`; returns ‖a‖² in V⁻¹, which stands at M.

    Both are 0 where there is nothing but rounding: this direction is known already.
    """
    combine_rows(features, at, inverse, M, d, u, 0)
    q = 0.0
    rounding = 0.0
    for k in range(d):
        x = number(features, at + k)
        q += x * u[k]
        rounding += x * x * number(inverse, M + k * d + k)
    if not q > NOTHING_NEW * d * rounding:
        q = 0.0
        for k in range(d):
            u[k] = 0.0
    return q


@inlined
def add_direction(gram, gram_low, inverse, M, d, features, at, u, shrink):
    """V += a aᵀ and V⁻¹ −= shrink u uᵀ, both at M, for the arm (d,) at `at` and u of `look_along`."""
    for j in range(d):
        subtract_outer_row(inverse, M + j * d, d, u, u[j], shrink)
        add_products(gram, gram_low, M + j * d, j + 1, features, at, number(features, at + j))


@inlined
def add_product(high, low, x, y):
    """high + low + x·y in twice the working precision: the product's rounding error, and Knuth's sum."""
    product = x * y
    lost = fma(x, y, -product)
    total = high + product
    part = total - high
    lost += (high - (total - part)) + (product - part)
    return total, low + lost


@inlined
def add_products(high, low, at, n, x, there, y):
    """`add_product` of y and n numbers of x to those of high and low, which all stand at their places."""
    whole, times = n - n % LANES, splat(y)
    for k in range(0, whole, LANES):
        numbers, before = load(x, there + k), load(high, at + k)
        product = multiply(numbers, times)
        lost = multiply_add(numbers, times, multiply(product, splat(-1.0)))
        total = add(before, product)
        part = subtract(total, before)
        lost = add(lost, add(subtract(before, subtract(total, part)), subtract(product, part)))
        store(high, at + k, total)
        store(low, at + k, add(load(low, at + k), lost))
    for k in range(whole, n):
        total, lost = add_product(number(high, at + k), number(low, at + k), number(x, there + k), y)
        put(high, at + k, total)
        put(low, at + k, lost)


@inlined
def subtract_outer_row(M, at, d, u, factor, shrink):
    """The row of M −= shrink u uᵀ where u is `factor`: in this order M stays symmetric to the last bit."""
    whole = d - d % LANES
    for k in range(0, whole, LANES):
        product = multiply(multiply(splat(factor), load(u, k)), splat(shrink))
        store(M, at + k, subtract(load(M, at + k), product))
    for k in range(whole, d):
        put(M, at + k, number(M, at + k) - (factor * u[k]) * shrink)


@inlined
def invert(V, r, out):
    """out = V⁻¹ by Cholesky, from the lower triangle; False, and out unchanged, if V is singular.

    Rows of very different size do no harm: they are divided by their roots of the diagonal first.
    """
    d = V.shape[1]
    L, scale, columns = np.zeros((d, d)), np.empty(d), np.zeros((d, d))
    for j in range(d):
        scale[j] = math.sqrt(V[r, j, j])
    for j in range(d):
        pivot = 1.0
        for k in range(j):
            pivot -= L[j, k] * L[j, k]
        if not pivot > 1e-14:
            return False
        L[j, j] = math.sqrt(pivot)
        for i in range(j + 1, d):
            total = V[r, i, j] / scale[i] / scale[j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            L[i, j] = total / L[j, j]
    for j in range(d):  # L⁻¹, column by column
        for i in range(j, d):
            total = 1.0 if i == j else 0.0
            for k in range(j, i):
                total -= L[i, k] * columns[k, j]
            columns[i, j] = total / L[i, i]
    for i in range(d):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, d):
                total += columns[k, i] * columns[k, j]
            out[i, j] = out[j, i] = total / scale[i] / scale[j]
    return True


@inlined
def polish(V, V_low, r, X, residual):
    """Newton steps for X ≈ V[r]⁻¹, one unless it was far off. 0: nothing helps, 2: X was made anew, else 1.

    X, residual (d,d), the latter scratch.
    """
    d = V.shape[1]
    step = np.empty((d, d))
    outcome = 1
    for attempt in range(4):
        norm2 = 0.0
        for i in range(d):
            for j in range(d):
                high, low = (1.0 if i == j else 0.0), 0.0
                for k in range(d):
                    row, column = (i, k) if i >= k else (k, i)
                    high, low = add_product(high, low, -V[r, row, column], X[k, j])
                    low -= V_low[r, row, column] * X[k, j]
                residual[i, j] = high + low
                norm2 += residual[i, j] ** 2
        if not norm2 <= 0.25:  # Newton would not contract: make it anew, or keep what we have
            if attempt > 0 or not invert(V, r, X):
                return 0
            outcome = 2
            continue
        for i in range(d):
            for j in range(d):
                step[i, j] = 0.0
            for k in range(d):
                for j in range(d):
                    step[i, j] += X[i, k] * residual[k, j]
        for i in range(d):
            for j in range(i + 1):
                X[i, j] += 0.5 * (step[i, j] + step[j, i])
                X[j, i] = X[i, j]
        if norm2 <= 1e-16:
            break
    return outcome


@inlined
def refine(V, V_low, r, X, b, b_low, theta, row, anew, lost):
    """One refinement of θ = V[r]⁻¹b in this row of b and theta, where X is V[r]⁻¹; `anew` starts from X b.

    lost (d,) is scratch.
    """
    d = V.shape[1]
    if anew:
        for i in range(d):
            theta[row, i] = 0.0
            for k in range(d):
                theta[row, i] += X[i, k] * b[row, k]
    for i in range(d):
        high, low = b[row, i], b_low[row, i]
        for k in range(d):
            first, second = (i, k) if i >= k else (k, i)
            high, low = add_product(high, low, -V[r, first, second], theta[row, k])
            low -= V_low[r, first, second] * theta[row, k]
        lost[i] = high + low
    for k in range(d):
        for i in range(d):
            theta[row, i] += X[k, i] * lost[k]


@deferred("void(f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[:,::1], f8[:,::1], intp)")
def newton_step(V, V_low, inverse, b, b_low, theta, r):
    """One Newton step for V⁻¹ and one refinement in replica r of a `Ridge`; more if it was far off.

    Where b and theta (n·R,d) have n rows for each V, all of them are refined.
    """
    d = V.shape[1]
    X, residual = inverse[r], np.empty((d, d))
    outcome = polish(V, V_low, r, X, residual)
    if outcome == 0 or d == 0:
        return
    each = theta.shape[0] // V.shape[0]
    for row in range(r * each, r * each + each):
        refine(V, V_low, r, X, b, b_low, theta, row, outcome == 2, residual[0])
