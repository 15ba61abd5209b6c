"""Designs, and the rules that are made of designs, once more as their papers have them, in plain NumPy.

Nothing here knows of blocks, updates of an inverse or spans: arms (K,d) are well conditioned and span the
space. A design is weights (K,), counts of which are those of Algorithm 5.
"""

import math

import numpy as np


def leverages(arms, weights):
    """‖a‖² in V⁻¹ for V = Σ w_a a aᵀ."""
    inverse = np.linalg.inv((arms.T * weights) @ arms)
    return np.array([a @ inverse @ a for a in arms])


def certificate(arms, weights):
    """The largest leverage, in units of what it is at least (Kiefer and Wolfowitz)."""
    return leverages(arms, weights).max() / np.linalg.matrix_rank(arms)


def betke_henk(arms):
    """Algorithm 4: for every axis, what the directions so far leave of it, and its two extreme arms."""
    K, d = arms.shape
    if 2 * d >= K:
        return set(range(K))
    chosen, directions = set(), np.empty((0, d))
    for axis in np.eye(d):
        b = axis - directions.T @ (directions @ axis)
        top, bottom = int(np.argmax(arms @ b)), int(np.argmin(arms @ b))
        chosen |= {top, bottom}
        v = arms[top] - arms[bottom]
        v = v - directions.T @ (directions @ v)
        directions = np.vstack([directions, v / np.linalg.norm(v)])
    return chosen


def greedily(arms, counts):
    """The loop of Algorithm 5: the arm of the largest leverage once more, until none exceeds 1."""
    counts = counts.copy()
    while leverages(arms, counts).max() > 1.0 + 1e-9:
        counts[np.argmax(leverages(arms, counts))] += 1.0
    return counts


def approx_counts(arms):
    """Algorithm 5, as counts; up to 2d arms are all taken, and their leverages then are at most 1."""
    counts = np.zeros(len(arms))
    counts[list(betke_henk(arms))] = 1.0
    return greedily(arms, counts) if len(arms) > 2 * arms.shape[1] else counts


def approx_design(arms):
    """Algorithm 5."""
    counts = approx_counts(arms)
    return counts / counts.sum()


def wolfe_atwood(arms, tol):
    """The G-optimal design: towards the arm of the largest leverage, or away from that of the smallest.

    Rules are compared with the core's own, because designs that differ by √tol have one certificate.
    """
    d, weights = arms.shape[1], approx_design(arms)
    while True:
        leverage = leverages(arms, weights)
        high = int(np.argmax(leverage))
        low = int(np.argmin(np.where(weights > 0.0, leverage, np.inf)))
        over, under = leverage[high] / d - 1.0, 1.0 - leverage[low] / d
        if max(over, under) <= tol:
            return weights
        if over >= under:
            arm, step = high, over / (leverage[high] - 1.0)
        else:
            arm, step = low, -weights[low] / (1.0 - weights[low])
            if leverage[low] > 1.0:
                step = max(step, -under / (leverage[low] - 1.0))
        weights = (1.0 - step) * weights + step * np.eye(len(arms))[arm]
        weights[weights < 1e-15] = 0.0


def augmented_design(arms, f, version, design):
    """Algorithm 2: a design of the arms times √f, or of those with f ≥ 1/e."""
    if version == 0:
        return design(arms * np.sqrt(f)[:, None])
    kept, weights = f >= math.exp(-1.0), np.zeros(len(arms))
    weights[kept] = design(arms[kept])
    return weights


def warm_design(arms, f, support):
    """A design of the arms times √f that starts from those in `support`."""
    counts = np.zeros(len(arms))
    counts[support] = 1.0
    counts = greedily(arms * np.sqrt(f)[:, None], counts)
    return counts / counts.sum()


def divergences(theta, inverse, beta, arms):
    """â and f = exp(−Δ̂² / (β ‖â − a‖²)), norms in V⁻¹."""
    mean = arms @ theta
    best = int(np.argmax(mean))
    f = np.ones(len(arms))
    for i, a in enumerate(arms):
        x = arms[best] - a
        if mean[best] > mean[i]:
            f[i] = math.exp(-((x @ theta) ** 2) / (beta * (x @ inverse @ x)))
    return best, f


def linmed(best, f, leverage, alpha_emp, alpha_opt, design):
    """Algorithm 1: p ∝ q f; while a leverage exceeds 1, half of the mass on the arm of the largest."""
    q = alpha_opt * design + (1.0 - alpha_emp - alpha_opt) / len(f)
    q[best] += alpha_emp
    p = q * f / (q @ f)
    if leverage.max() > 1.0 + 1e-9:
        p = 0.5 * p + 0.5 * np.eye(len(f))[np.argmax(leverage)]
    return p


def spanner_igw(theta, arms, gamma, C_opt, design):
    """p = q/(λ + η gap), q half on the best arm, half on a design of a/√(1 + η gap); λ by bisection."""
    mean = arms @ theta
    eta_gap = gamma / (C_opt * arms.shape[1]) * (mean.max() - mean)
    q = 0.5 * design(arms / np.sqrt(1.0 + eta_gap)[:, None])
    q[np.argmax(mean)] += 0.5
    low, high = 0.5, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if (q / (middle + eta_gap)).sum() > 1.0 else (low, middle)
    return q / (low + eta_gap)


def exp2(total, arms, eta, gamma, design):
    """P = γ π + (1 − γ) softmax(η⟨Θ, a⟩)."""
    weight = np.exp(eta * (arms @ total) - (eta * (arms @ total)).max())
    return gamma * design + (1.0 - gamma) * weight / weight.sum()


def exp2_rates(t, horizon, rank, K):
    """η = √(log K / (3 r n)), at most 1/(2r), and γ = r η; without a horizon n is t + 2 after t rewards."""
    eta = min(math.sqrt(math.log(K) / (3.0 * rank * (horizon or t + 2.0))), 0.5 / rank)
    return eta, min(rank * eta, 0.5)


def exp2_estimate(P, arms, arm):
    """Q⁺a with Q = Σ P(a) a aᵀ."""
    return np.linalg.pinv((arms.T * P) @ arms) @ arms[arm]


def centred_design(arms):
    """That of the authors' public code: in the axes of the centred arms, with a list that is off by one."""
    variances, axes = np.linalg.eig(np.cov(arms, rowvar=False))
    X = np.real(arms @ axes[:, np.abs(variances) > 1e-6])
    chosen = sorted(betke_henk(X))
    counts = np.bincount(chosen, minlength=len(X)).astype(float)
    listed, known = list(chosen), leverages(X, counts)
    while known.max() > 1.0 + 1e-9:
        counts[np.argmax(known)] += 1.0
        known = leverages(X, counts)
        listed.append(int(np.argmax(known)))  # the next one, not the one that was added
    return np.bincount(listed, minlength=len(X)) / len(listed)
