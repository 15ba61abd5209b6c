"""What a decision among a catalogue computes of single items, in the items' own space.

An arm is a = B e + c, where e (de,) is the encoded item and B, c depend on the context alone. So
Δ̂ = ⟨Bᵀθ̂, ê − e⟩ and ‖â − a‖² = (ê − e)ᵀ BᵀV⁻¹B (ê − e), and the leverage is eᵀMe + 2⟨BᵀV⁻¹c, e⟩ + cᵀV⁻¹c with
M = BᵀV⁻¹B. Sums are taken in one order, on every processor.
"""

import math

import numpy as np

from linmed.kernels.compile import inlined, kernel
from linmed.kernels.med import LOWEST, OPTIMAL_TOL, TINY
from linmed.kernels.optimal import optimal_design


@kernel
def see(theta, inverse, B, c, item_theta, item_inverse, cross):
    """Writes Bᵀθ̂ (de,), M = BᵀV⁻¹B (de,de) and BᵀV⁻¹c (de,); returns cᵀV⁻¹c.

    theta (d,), inverse (d,d), B (d,de), c (d,). Most of B is zero: that of outer products has d entries.
    """
    d, de = B.shape
    entries = 0
    for i in range(d):
        for k in range(de):
            entries += B[i, k] != 0.0
    rows, columns, values = np.empty(entries, np.int64), np.empty(entries, np.int64), np.empty(entries)
    n = 0
    for i in range(d):
        for k in range(de):
            if B[i, k] != 0.0:
                rows[n], columns[n], values[n] = i, k, B[i, k]
                n += 1
    item_theta[:], item_inverse[:], cross[:] = 0.0, 0.0, 0.0
    line = np.empty(de)
    constant, start = 0.0, 0
    for i in range(d):
        ahead = 0.0
        for j in range(d):
            ahead += inverse[i, j] * c[j]
        constant += c[i] * ahead
        end = start
        while end < entries and rows[end] == i:
            end += 1
        if end > start:
            line[:] = 0.0  # row i of V⁻¹B
            for m in range(entries):
                line[columns[m]] += inverse[i, rows[m]] * values[m]
        for m in range(start, end):
            k, value = columns[m], values[m]
            item_theta[k] += value * theta[i]
            cross[k] += value * ahead
            for l in range(de):
                item_inverse[k, l] += value * line[l]
        start = end
    return constant


@inlined
def squared_form(x, M, line):
    """xᵀ M x.  line (de,) is written."""
    de = x.shape[0]
    line[:] = 0.0
    for j in range(de):
        for k in range(de):
            line[k] += x[j] * M[j, k]
    total = 0.0
    for k in range(de):
        total += line[k] * x[k]
    return total


@kernel
def weigh_items(items, best, theta, M, sharpness, log_f, distance2):
    """log f = −Δ̂²/(β‖â − a‖²) of items (m,de), 0 where Δ̂ ≤ 0 and never −inf, and ‖â − a‖².  best (de,).

    sharpness = 1/√β. The ratio does not depend on the length of ê − e: where its square would vanish it is
    taken longer.
    """
    m, de = items.shape
    x, line = np.empty(de), np.empty(de)
    for i in range(m):
        gap, longest = 0.0, 0.0
        for k in range(de):
            x[k] = best[k] - items[i, k]
            gap += theta[k] * x[k]
            longest = max(longest, abs(x[k]))
        length2 = distance2[i] = squared_form(x, M, line)
        log_f[i] = 0.0
        if gap <= 0.0:
            continue
        if length2 <= TINY:
            gap = 0.0
            for k in range(de):
                x[k] /= longest
                gap += theta[k] * x[k]
            length2 = squared_form(x, M, line)
        if gap > 0.0 and length2 > TINY:
            log_f[i] = max(-((gap * sharpness) ** 2) / length2, LOWEST)


@kernel
def lever_items(items, best, M, cross, constant, distance2, leverage):
    """‖a‖² in V⁻¹ of items (m,de), from a = â + (a − â) and distance2 = ‖â − a‖².  best (de,)."""
    m, de = items.shape
    ahead = np.zeros(de)  # BᵀV⁻¹â
    length2 = constant
    for j in range(de):
        for k in range(de):
            ahead[k] += best[j] * M[j, k]
    for k in range(de):
        length2 += best[k] * (ahead[k] + 2.0 * cross[k])
        ahead[k] += cross[k]
    for i in range(m):
        product = 0.0
        for k in range(de):
            product += ahead[k] * (items[i, k] - best[k])
        leverage[i] = length2 + 2.0 * product + distance2[i]


@kernel
def take_out(P, x, line):
    """P projects onto the complement of some directions: take Px out of it too.  P (d,d), x, line (d,).

    Returns whether x had a part in that complement.
    """
    d = x.shape[0]
    length2, part2 = 0.0, 0.0
    for i in range(d):
        line[i] = 0.0
        for k in range(d):
            line[i] += P[i, k] * x[k]
        length2 += x[i] * x[i]
        part2 += line[i] * line[i]
    if not part2 > 1e-20 * length2:
        return False
    for i in range(d):
        for k in range(d):
            P[i, k] -= line[i] * line[k] / part2
    return True


@kernel
def optimal_of_scaled(rows, log_scale, weights):
    """The optimal design of exp(log_scale_i)·rows_i.  rows (m,d), log_scale, weights (m,)."""
    optimal_design(rows, log_scale, OPTIMAL_TOL, weights)


@kernel
def raise_item(item, B, c, arm):
    """arm = B e + c.  item (de,), B (d,de), c, arm (d,)."""
    for i in range(B.shape[0]):
        total = 0.0
        for k in range(B.shape[1]):
            total += B[i, k] * item[k]
        arm[i] = total + c[i]


@kernel
def kept(uniforms, log_f, which, out):
    """Whether each uniform is below f of the item it belongs to.  uniforms, which, out (n,), log_f (m,)."""
    for i in range(out.shape[0]):
        out[i] = uniforms[i] < math.exp(log_f[which[i]])


@kernel
def log_routes(q, log_f, halved, explored, out):
    """log(q f), or where `halved` log(½ q f + ½·explored).  All (n,) but `halved`."""
    for i in range(out.shape[0]):
        out[i] = math.log(q[i]) + log_f[i] if q[i] > 0.0 else -math.inf
        if halved:
            if explored[i]:
                out[i] = math.log1p(q[i] * math.exp(log_f[i]))
            out[i] += math.log(0.5)
