"""Ridge regression, one observation at a time: V, V⁻¹, b, θ̂, log(det V / det V₀) and the count.

Symbols follow the paper: V = λI + Σ a aᵀ, b = Σ a y, θ̂ = V⁻¹ b. Three things keep the numbers true
after millions of updates:
- V and b are summed in twice the working precision (a high and a low part). A million copies of one
  arm would otherwise leave an error of 1e-6 in the directions never played, where V is still λ.
- V⁻¹ follows by Sherman–Morrison and θ̂ by recursive least squares, both of which forget their own
  rounding errors in a direction as that direction is played again.
- Every `REFRESH` updates one Newton step, V⁻¹ ← V⁻¹ + V⁻¹(I − V V⁻¹), and one step of iterative
  refinement for θ̂ remove what is left, with residuals in twice the working precision. A fresh
  Cholesky factorisation, with its error of ε·cond(V), would be worse than what it replaces.
"""

import math

import numpy as np

from linmed.kernels.compile import kernel

REFRESH = 1024
ROUNDING = 8.9e-16  # four units in the last place
_SPLIT = 134217729.0  # 2²⁷ + 1 cuts a float64 into two halves whose products are exact


@kernel
def add_product(high, low, x, y):
    """high + low + x·y in twice the working precision: Dekker's product, Knuth's sum."""
    c = _SPLIT * x
    x1 = c - (c - x)
    x2 = x - x1
    c = _SPLIT * y
    y1 = c - (c - y)
    y2 = y - y1
    product = x * y
    lost = x2 * y2 - (((product - x1 * y1) - x2 * y1) - x1 * y2)
    total = high + product
    part = total - high
    lost += (high - (total - part)) + (product - part)
    return total, low + lost


@kernel
def refresh(V, V_low, inverse, b, b_low, theta):
    """One Newton step for V⁻¹ and one refinement of θ̂.  V, V_low, inverse (d,d); b, b_low, theta (d,).

    Only the lower triangle of V and V_low is read.
    """
    d = V.shape[0]
    residual = np.empty((d, d))
    norm2 = 0.0
    for i in range(d):
        for j in range(d):
            high, low = (1.0 if i == j else 0.0), 0.0
            for k in range(d):
                row, column = (i, k) if i >= k else (k, i)
                high, low = add_product(high, low, -V[row, column], inverse[k, j])
                low -= V_low[row, column] * inverse[k, j]
            residual[i, j] = high + low
            norm2 += residual[i, j] ** 2
    if norm2 > 0.25:  # Newton would not contract: V is singular to working precision, keep what we have
        return
    step = np.dot(inverse, residual)
    for i in range(d):
        for j in range(i + 1):
            inverse[i, j] += 0.5 * (step[i, j] + step[j, i])
            inverse[j, i] = inverse[i, j]
    r = residual[0]
    for i in range(d):
        high, low = b[i], b_low[i]
        for k in range(d):
            row, column = (i, k) if i >= k else (k, i)
            high, low = add_product(high, low, -V[row, column], theta[k])
            low -= V_low[row, column] * theta[k]
        r[i] = high + low
    for k in range(d):
        for i in range(d):
            theta[i] += inverse[k, i] * r[k]


@kernel
def radius(logdet, count, sigma, log_inverse_delta, bias):
    """√β of eq. (beta): σ √(log(det V/det V₀) + 2 log(1/δ)) + √λ S for one replica.

    A negative log(1/δ) stands for δ = 1/(t+1) after t = count rewards; bias = √λ S.
    """
    if log_inverse_delta < 0.0:
        log_inverse_delta = math.log(count + 1.0)
    return sigma * math.sqrt(logdet + 2.0 * log_inverse_delta) + bias


@kernel
def radii(logdet, count, sigma, log_inverse_delta, bias, out):
    """`radius` of every replica.  logdet, count, out (R,)."""
    for r in range(out.shape[0]):
        out[r] = radius(logdet[r], count[r], sigma, log_inverse_delta, bias)


@kernel
def observe(V, V_low, inverse, b, b_low, theta, logdet, count, features, rewards, replicas):
    """Absorb m observations; the i-th belongs to replica replicas[i].

    V, V_low (lower triangles), inverse (R,d,d); b, b_low, theta (R,d); logdet, count (R,);
    features (m,d); rewards (m,); replicas (m,).
    """
    d = b.shape[1]
    u = np.empty(d)
    for i in range(features.shape[0]):
        r = replicas[i]
        a = features[i]
        X = inverse[r]
        for k in range(d):
            u[k] = 0.0
        for k in range(d):
            for j in range(d):
                u[j] += a[k] * X[k, j]
        q = 0.0  # ‖a‖² in V⁻¹, before this observation
        predicted = 0.0
        rounding = 0.0
        for k in range(d):
            q += a[k] * u[k]
            predicted += a[k] * theta[r, k]
            rounding += a[k] * a[k] * X[k, k]
        if not q > ROUNDING * d * rounding:  # nothing but rounding: this direction is known already
            q = 0.0
            for k in range(d):
                u[k] = 0.0
        shrink = 1.0 / (1.0 + q)
        gain = (rewards[i] - predicted) * shrink
        for k in range(d):
            theta[r, k] += gain * u[k]
            b[r, k], b_low[r, k] = add_product(b[r, k], b_low[r, k], a[k], rewards[i])
        for j in range(d):
            for k in range(d):
                X[j, k] -= (u[j] * u[k]) * shrink  # in this order V⁻¹ stays symmetric to the last bit
            for k in range(j + 1):
                V[r, j, k], V_low[r, j, k] = add_product(V[r, j, k], V_low[r, j, k], a[j], a[k])
        logdet[r] += math.log1p(q)
        count[r] += 1
        if count[r] % REFRESH == 0:
            refresh(V[r], V_low[r], X, b[r], b_low[r], theta[r])
