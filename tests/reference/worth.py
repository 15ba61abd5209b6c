"""Utility as in docs/costs.md, in NumPy: û, and distances of g = v μ′(z)(1, a) in V⁻¹."""

import numpy as np


def logistic(z):
    mean = 1.0 / (1.0 + np.exp(-z))
    return mean, mean * (1.0 - mean)


def linear(z):
    return z, np.ones_like(z)


def utility(theta, rows, values, costs, link=linear):
    """û (K,) and g (K,d) of rows (K,d), in which an intercept is a column like any other."""
    mean, slope = link(rows @ theta)
    return values * mean - costs, (values * slope)[:, None] * rows


def med(gain, g, inverse, beta, alpha_emp, leverage=None):
    """MED's law where the design is uniform; `leverage` (K,) of the arms, if B_t is looked at."""
    K, best = len(gain), int(np.argmax(gain))
    x = g - g[best]
    distance2 = np.einsum("ki,ij,kj->k", x, inverse, x)
    gap = gain[best] - gain
    with np.errstate(divide="ignore", invalid="ignore"):
        f = np.where(gap > 0.0, np.exp(-(gap**2) / (beta * distance2)), 1.0)
    weight = ((1.0 - alpha_emp) / K + alpha_emp * (np.arange(K) == best)) * f
    if leverage is not None and leverage.max() > 1.0:
        weight[np.argmax(leverage)] += weight.sum()
    return weight / weight.sum()


def ucb(gain, g, inverse, beta):
    """OFUL's arm."""
    return int(np.argmax(gain + np.sqrt(beta * np.einsum("ki,ij,kj->k", g, inverse, g))))


def inverse_gaps(gain, gamma):
    """SquareCB's law, the rest to the best arm."""
    best = int(np.argmax(gain))
    p = 1.0 / (len(gain) + gamma * (gain[best] - gain))
    p[best] += 1.0 - p.sum()
    return p


def thompson(gain, g, covariance, draws, rng):
    """How often each arm is the best by û + ⟨g, θ̃ − θ̂⟩."""
    normals = rng.multivariate_normal(np.zeros(g.shape[1]), covariance, size=draws, method="cholesky")
    return np.bincount(np.argmax(gain + normals @ g.T, axis=1), minlength=len(gain)) / draws
