"""Estimates whose past fades: the steps that `Forgetting` (forgetting.py) is made of, for ridge estimates.

With a factor f < 1 for what is known and a weight w for what is new,
    V ← fV + w a aᵀ + c e_k e_kᵀ,    b ← fb + w y a,    n ← fn + w,    θ̂ = V⁻¹b.
The last term of V gives back a part of λ that has faded, in one direction at a time: V⁻¹ stays bounded where
nothing is played, and follows by two steps of Sherman–Morrison in one pass, where all of (1 − f)λI would take
O(d³). It is an observation of size √c along e_k that paid 0, and RSS counts it as one:
    RSS = min over θ of Σ w(y − ⟨a,θ⟩)² + θᵀΛθ, where Λ is what there is of λI; log det V/det V₀ likewise.
V and b stay in twice the working precision: f is multiplied into both parts, rounding errors kept.
"""

import math

from linmed.kernels.compile import by_class, fma, inlined
from linmed.kernels.matrices import combine_rows
from linmed.kernels.ridge import NOTHING_NEW, STEEP, add_product, add_products, subtract_outer_row
from linmed.kernels.simd import LANES, add, load, multiply, multiply_add, number, put, splat, store, subtract


@inlined
def look(model, s, features, i, u):
    """h = ‖a‖² in V⁻¹ and ⟨a,θ̂⟩ of row s for row i of features; u (d,) = V⁻¹a.

    Where h is nothing but rounding, h and u are 0: this direction is known already.
    """
    d = u.shape[0]
    combine_rows(features, i * d, model.inverse, s * d * d, d, u, 0)
    h, predicted, rounding = 0.0, 0.0, 0.0
    for k in range(d):
        x = features[i, k]
        h += x * u[k]
        predicted += x * model.theta[s, k]
        rounding += x * x * model.inverse[s, k, k]
    if not h > NOTHING_NEW * d * rounding:
        h = 0.0
        for k in range(d):
            u[k] = 0.0
    return h, predicted


@inlined
def forget_and_learn(model, s, features, i, reward, h, error, u, f, log_f, w, k, c):
    """The update above in row s, from `look`'s h and u and the error y − ⟨a,θ̂⟩; where f = 1, c must be 0.

    Returns whether V⁻¹ has become too steep to be followed, and must be made anew.
    """
    theta, inverse = model.theta, model.inverse
    d = u.shape[0]
    M = s * d * d
    leverage = w * h / f  # of the new observation, once the past has faded
    shrink = w / (f + w * h)
    gain = error * shrink
    for j in range(d):
        theta[s, j] += gain * u[j]
    fade_and_add_products(model.moment, model.moment_low, s * d, d, features, i * d, w * reward, f)
    for j in range(d):
        fade_and_add_products(
            model.gram, model.gram_low, M + j * d, j + 1, features, i * d, w * features[i, j], f
        )
    seen, given = error * gain * f, 0.0  # given: the leverage of what is given back
    if f == 1.0:
        for j in range(d):
            subtract_outer_row(inverse, M + j * d, d, u, u[j], shrink)
    else:
        row, known = M + k * d, theta[s, k]
        fade_row(inverse, row, d, u, u[k], shrink, 1.0 / f, row, 0.0, 0.0)
        given = c * inverse[s, k, k]
        back = c / (1.0 + given)
        for j in range(d):
            theta[s, j] -= known * back * inverse[s, k, j]
            if j != k:  # row k comes last: the others are made from it
                fade_row(inverse, M + j * d, d, u, u[j], shrink, 1.0 / f, row, inverse[s, k, j], back)
        subtract_row(inverse, row, d, row, inverse[s, k, k], back)
        add_to_diagonal(model.gram, model.gram_low, s, k, c)
        seen += c * known * known / (1.0 + given)
    model.logdet[s] += d * log_f + math.log1p(leverage + given + leverage * given)
    model.rss[s] = f * model.rss[s] + seen
    model.leveraged[s] = f * model.leveraged[s] + error * gain * w * h
    model.count[s] = f * model.count[s] + w
    return leverage > STEEP or given > STEEP


@by_class
def give_back(model, s, k, c, u):
    """V += c e_k e_kᵀ in row s: a part of λ that has faded. u (d,) is scratch where a class needs it.

    Returns whether V⁻¹ has become too steep to be followed.
    """
    theta, inverse = model.theta, model.inverse
    d = theta.shape[1]
    M = s * d * d
    h = c * inverse[s, k, k]
    shrink = c / (1.0 + h)
    known = theta[s, k]
    for j in range(d):
        theta[s, j] -= known * shrink * inverse[s, k, j]
    model.logdet[s] += math.log1p(h)
    model.rss[s] += c * known * known / (1.0 + h)
    for j in range(d):
        if j != k:  # row k comes last: the others are made from it
            subtract_row(inverse, M + j * d, d, M + k * d, inverse[s, k, j], shrink)
    subtract_row(inverse, M + k * d, d, M + k * d, inverse[s, k, k], shrink)
    add_to_diagonal(model.gram, model.gram_low, s, k, c)
    return h > STEEP


@inlined
def add_to_diagonal(high, low, s, k, c):
    """c more at (k,k) of matrix s."""
    high[s, k, k], low[s, k, k] = add_product(high[s, k, k], low[s, k, k], c, 1.0)


@by_class
def fade(model, s, f):
    """The past of row s counts f times what it did; λ too, until it is given back."""
    d = model.theta.shape[1]
    for j in range(d):
        put_faded(model.moment, model.moment_low, s * d + j, f)
        for k in range(j + 1):
            put_faded(model.gram, model.gram_low, (s * d + j) * d + k, f)
        for k in range(d):
            model.inverse[s, j, k] /= f
    model.logdet[s] += d * math.log(f)
    model.rss[s] *= f
    model.leveraged[s] *= f
    model.count[s] *= f


@inlined
def put_faded(high, low, at, f):
    """(high + low)·f in twice the working precision."""
    whole, part = faded(number(high, at), number(low, at), f)
    put(high, at, whole)
    put(low, at, part)


@inlined
def faded(high, low, f):
    """The two parts of (high + low)·f."""
    product = high * f
    return product, fma(high, f, -product) + low * f


@inlined
def fade_and_add_products(high, low, at, n, x, there, y, f):
    """`faded`, and then `add_products`, of n numbers: one pass."""
    if f == 1.0:
        add_products(high, low, at, n, x, there, y)
        return
    whole, times, factor, minus = n - n % LANES, splat(y), splat(f), splat(-1.0)
    for k in range(0, whole, LANES):
        old = load(high, at + k)
        before = multiply(old, factor)
        lost = multiply_add(old, factor, multiply(before, minus))
        lost = multiply_add(load(low, at + k), factor, lost)
        numbers = load(x, there + k)
        product = multiply(numbers, times)
        lost = add(lost, multiply_add(numbers, times, multiply(product, minus)))
        total = add(before, product)
        part = subtract(total, before)
        lost = add(lost, add(subtract(before, subtract(total, part)), subtract(product, part)))
        store(high, at + k, total)
        store(low, at + k, lost)
    for k in range(whole, n):
        first, second = faded(number(high, at + k), number(low, at + k), f)
        first, second = add_product(first, second, number(x, there + k), y)
        put(high, at + k, first)
        put(low, at + k, second)


@inlined
def fade_row(M, at, d, u, own, shrink, factor, there, other, back):
    """The row of M at its place ← (row − shrink·own·u)·factor − back·other·(row at `there`)."""
    whole = d - d % LANES
    times, shrunk, less = splat(factor), splat(shrink), splat(back)
    for k in range(0, whole, LANES):
        product = multiply(multiply(splat(own), load(u, k)), shrunk)
        kept = multiply(subtract(load(M, at + k), product), times)
        store(M, at + k, subtract(kept, multiply(multiply(splat(other), load(M, there + k)), less)))
    for k in range(whole, d):
        kept = (number(M, at + k) - (own * u[k]) * shrink) * factor
        put(M, at + k, kept - (other * number(M, there + k)) * back)


@inlined
def subtract_row(M, at, d, there, own, shrink):
    """The row of M at its place −= shrink·own times the row at `there`."""
    whole = d - d % LANES
    for k in range(0, whole, LANES):
        product = multiply(multiply(splat(own), load(M, there + k)), splat(shrink))
        store(M, at + k, subtract(load(M, at + k), product))
    for k in range(whole, d):
        put(M, at + k, number(M, at + k) - (own * number(M, there + k)) * shrink)
