"""Linear Thompson sampling once more: a draw, its scales, and the probability that an arm is best under it.

θ̃ ~ N(θ̂, s² V⁻¹), for one replica; `theta` (d,), `V` (d,d), `arms` (K,d). Integrals are sums over so many
points that no care is needed.
"""

import math

import numpy as np
from scipy.special import log_ndtr, ndtr


def play(theta, V, scale, arms, z):
    """argmax of ⟨θ̃, a⟩ with θ̃ = θ̂ + s L⁻ᵀ z, V = L Lᵀ."""
    draw = theta + scale * np.linalg.solve(np.linalg.cholesky(V).T, z)
    return int(np.argmax(arms @ draw))


def scale(name, dim, t, sigma, delta, radius, horizon=None):
    """s after t rewards; `radius` is √β."""
    if name == "agrawal-goyal" and horizon is not None:
        return sigma * math.sqrt(24.0 * dim * math.log(horizon) * math.log(1.0 / delta))
    by_name = {
        "frequentist": radius,
        "bayes": sigma,
        "squared-radius": radius**2,
        "agrawal-goyal": sigma * math.sqrt(9.0 * dim * math.log(max(t, 1) / delta)),
    }
    return by_name[name]


def two_arms(theta, V, scale, arms):
    """log Φ(±⟨θ̂, a₀ − a₁⟩ / (s ‖a₀ − a₁‖)), the norm in V⁻¹."""
    x = arms[0] - arms[1]
    ratio = theta @ x / (scale * math.sqrt(x @ np.linalg.solve(V, x)))
    return log_ndtr(np.array([ratio, -ratio]))


def plane(theta, V, scale, arms):
    """The angle of z ~ N(m, I₂) has the density e^{−‖m‖²/2}/(2π)·(1 + t Φ(t)/φ(t)), t = ⟨m, (cos, sin)⟩.

    Between two angles at which some arms tie, one arm is best: Gauss–Legendre, on ever smaller parts near m.
    """
    L = np.linalg.cholesky(V)
    b, m = scale * np.linalg.solve(L, arms.T), L.T @ theta / scale
    ahead = math.atan2(m[1], m[0])
    edges = [ahead + side * 2.0**-k for side in (-1.0, 1.0) for k in range(-1, 12)]
    for i in range(len(arms)):
        for x, y in (b[:, [i]] - b[:, :i]).T:
            edges += [math.atan2(y, x) + side * 0.5 * math.pi for side in (-1.0, 1.0)]
    edges = np.unique((np.array(edges) - ahead + math.pi) % (2.0 * math.pi))
    nodes, weights = np.polynomial.legendre.leggauss(50)
    p = np.zeros(len(arms))
    for low, high in zip(edges, [*edges[1:], edges[0] + 2.0 * math.pi], strict=True):
        angle = ahead - math.pi + 0.5 * (low + high) + 0.5 * (high - low) * nodes
        t = m[0] * np.cos(angle) + m[1] * np.sin(angle)
        far = math.exp(-0.5 * (m @ m)) / (2.0 * math.pi)
        density = far + t * ndtr(t) * np.exp(0.5 * (t * t - m @ m)) / math.sqrt(2.0 * math.pi)
        middle = ahead - math.pi + 0.5 * (low + high)
        best = (b.T @ [math.cos(middle), math.sin(middle)]).argmax()
        p[best] += 0.5 * (high - low) * weights @ density
    return p


def corners(mean, spread):
    """Arms with independent values N(mean_i, spread_i²): P(i is best) = ∫ φ_i(x) Π_{j≠i} Φ_j(x) dx."""
    x = np.linspace((mean - 12.0 * spread).min(), (mean + 12.0 * spread).max(), 20_001)
    z = (x - mean[:, None]) / spread[:, None]
    below, density = ndtr(z), np.exp(-0.5 * z * z) / spread[:, None]
    p = [(density[i] * np.delete(below, i, axis=0).prod(axis=0)).sum() for i in range(len(mean))]
    return np.array(p) / np.sum(p)


def rays(theta, V, scale, arms, normals, pilot):
    """Every arm's chance on a ray of its own through each point of `normals` (r,N).

    The arms' values are mean_i + ⟨b_i, x⟩, x ~ N(0, I_r), in the principal axes of the b_i; r of them, all.
    """
    b = scale * np.linalg.solve(np.linalg.cholesky(V), arms.T)
    b -= b.mean(axis=1, keepdims=True)
    turn, size, _ = np.linalg.svd(b, full_matrices=False)
    b = turn.T @ b
    assert (size > 1e-9 * size[0]).all()
    mean = arms @ theta
    winners = (mean[:, None] + b.T @ normals[:, :pilot]).argmax(axis=0)
    centre = b[:, winners].sum(axis=1) / (pilot + 1.0)
    p = np.zeros(len(arms))
    for i in range(len(arms)):
        others = np.delete(np.arange(len(arms)), i)
        u = (b[:, i] - centre) / np.linalg.norm(b[:, i] - centre)
        rest = normals - np.outer(u, u @ normals)
        gain = u @ (b[:, [i]] - b[:, others])  # along u, on every other arm
        crossing = ((mean[others] - mean[i])[:, None] + (b[:, others] - b[:, [i]]).T @ rest) / gain[:, None]
        low = crossing[gain > 0.0].max(axis=0, initial=-math.inf)
        high = crossing[gain < 0.0].min(axis=0, initial=math.inf)
        p[i] = np.maximum(ndtr(-low) - ndtr(-high), 0.0).sum()
    return p / p.sum()
