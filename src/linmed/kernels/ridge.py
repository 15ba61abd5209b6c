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

from linmed.kernels.compile import fma, inlined, kernel

REFRESH = 1024
ROUNDING = 8.9e-16  # four units in the last place


@kernel
def add_product(high, low, x, y):
    """high + low + x·y in twice the working precision: the product's rounding error, and Knuth's sum."""
    product = x * y
    lost = fma(x, y, -product)
    total = high + product
    part = total - high
    lost += (high - (total - part)) + (product - part)
    return total, low + lost


@kernel
def refresh(V, V_low, inverse, b, b_low, theta, r):
    """One Newton step for V⁻¹ and one refinement of θ̂ in replica r.

    V, V_low, inverse (R,d,d); b, b_low, theta (R,d). Only the lower triangle of V and V_low is read.
    """
    d = V.shape[1]
    X = inverse[r]
    residual = np.empty((d, d))
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
    if norm2 > 0.25:  # Newton would not contract: V is singular to working precision, keep what we have
        return
    step = np.dot(X, residual)
    for i in range(d):
        for j in range(i + 1):
            X[i, j] += 0.5 * (step[i, j] + step[j, i])
            X[j, i] = X[i, j]
    lost = residual[0]
    for i in range(d):
        high, low = b[r, i], b_low[r, i]
        for k in range(d):
            row, column = (i, k) if i >= k else (k, i)
            high, low = add_product(high, low, -V[r, row, column], theta[r, k])
            low -= V_low[r, row, column] * theta[r, k]
        lost[i] = high + low
    for k in range(d):
        for i in range(d):
            theta[r, i] += X[k, i] * lost[k]


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


@inlined
def absorb(V, V_low, inverse, b, b_low, theta, logdet, count, r, features, i, reward, u):
    """One observation of replica r: row i of features (m,d), a reward; u (d,) is scratch, the rest as below.

    Returns whether the replica is due for `refresh`.
    """
    d = u.shape[0]
    for k in range(d):
        u[k] = 0.0
    for k in range(d):
        for j in range(d):
            u[j] += features[i, k] * inverse[r, k, j]
    q = 0.0  # ‖a‖² in V⁻¹, before this observation
    predicted = 0.0
    rounding = 0.0
    for k in range(d):
        a = features[i, k]
        q += a * u[k]
        predicted += a * theta[r, k]
        rounding += a * a * inverse[r, k, k]
    if not q > ROUNDING * d * rounding:  # nothing but rounding: this direction is known already
        q = 0.0
        for k in range(d):
            u[k] = 0.0
    shrink = 1.0 / (1.0 + q)
    gain = (reward - predicted) * shrink
    for k in range(d):
        theta[r, k] += gain * u[k]
        b[r, k], b_low[r, k] = add_product(b[r, k], b_low[r, k], features[i, k], reward)
    for j in range(d):
        for k in range(d):
            inverse[r, j, k] -= (u[j] * u[k]) * shrink  # in this order V⁻¹ stays symmetric to the last bit
        for k in range(j + 1):
            V[r, j, k], V_low[r, j, k] = add_product(
                V[r, j, k], V_low[r, j, k], features[i, j], features[i, k]
            )
    logdet[r] += math.log1p(q)
    count[r] += 1
    return count[r] % REFRESH == 0


@kernel
def observe(V, V_low, inverse, b, b_low, theta, logdet, count, features, rewards, replicas):
    """Absorb m observations; the i-th belongs to replica replicas[i].

    V, V_low (lower triangles), inverse (R,d,d); b, b_low, theta (R,d); logdet, count (R,);
    features (m,d); rewards (m,); replicas (m,).
    """
    u = np.empty(b.shape[1])
    for i in range(features.shape[0]):
        r = replicas[i]
        if absorb(V, V_low, inverse, b, b_low, theta, logdet, count, r, features, i, rewards[i], u):
            refresh(V, V_low, inverse, b, b_low, theta, r)
