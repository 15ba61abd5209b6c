"""Rules and beliefs once more, as their papers have them: a few lines of plain NumPy for one replica.

Nothing here knows of ties within rounding, blocks of arms or updates in place. `theta` (d,) and `inverse`
(d,d) are an estimate and V⁻¹, `arms` is (K,d), `radius` is √β. A rule that plays one arm returns its index,
all others return probabilities.
"""

import math

import numpy as np
from scipy.special import logsumexp


def ridge(lam, features, rewards):
    """V = λI + Σ a aᵀ, θ̂ = V⁻¹ Σ a y."""
    V = lam * np.eye(features.shape[1]) + features.T @ features
    return V, np.linalg.solve(V, features.T @ rewards)


def ridge_with_intercept(lam, features, rewards):
    """The same for y = c + ⟨a,θ⟩ with a c that is not shrunk: all is compared with its mean."""
    return ridge(lam, features - features.mean(axis=0), rewards - rewards.mean())


def evidence(lam, features, rewards, sigma):
    """−log of the density of the rewards where θ ~ N(0, σ²/λ) and the noise is N(0, σ²)."""
    covariance = sigma**2 * (np.eye(len(rewards)) + features @ features.T / lam)
    _, logdet = np.linalg.slogdet(2.0 * math.pi * covariance)
    return 0.5 * (logdet + rewards @ np.linalg.solve(covariance, rewards))


def faded(lam, gamma, features, rewards):
    """D-LinUCB (Russac, Vernade & Cappé 2019): the reward of s rounds ago counts γˢ, λ does not fade.

    θ̂, and V⁻¹ṼV⁻¹ in which widths are measured.
    """
    weight = gamma ** np.arange(len(rewards) - 1.0, -1.0, -1.0)
    ridge_part = lam * np.eye(features.shape[1])
    V = ridge_part + (features.T * weight) @ features
    V_squared = ridge_part + (features.T * weight**2) @ features
    inverse = np.linalg.inv(V)
    return inverse @ (features.T @ (weight * rewards)), inverse @ V_squared @ inverse


def faded_radius(t, dim, sigma, delta, lam, norm, longest, gamma):
    """√λ S + σ √(2 log(1/δ) + d log(1 + L²(1 − γ^{2t}) / (λd(1 − γ²))))."""
    growth = longest**2 * (1.0 - gamma ** (2 * t)) / (lam * dim * (1.0 - gamma**2))
    return math.sqrt(lam) * norm + sigma * math.sqrt(
        2.0 * math.log(1.0 / delta) + dim * math.log(1.0 + growth)
    )


def windowed_radius(dim, sigma, delta, lam, norm, longest, window):
    """√λ S + σ √(d log((1 + wL²/λ)/δ))."""
    inside = dim * math.log((1.0 + window * longest**2 / lam) / delta)
    return math.sqrt(lam) * norm + sigma * math.sqrt(inside)


def widths(inverse, arms):
    """‖a‖ in V⁻¹."""
    return np.sqrt(np.einsum("kd,de,ke->k", arms, inverse, arms))


def oful(theta, inverse, radius, arms):
    """argmax of ⟨θ̂, a⟩ + √β ‖a‖."""
    return int(np.argmax(arms @ theta + radius * widths(inverse, arms)))


def greedy(theta, arms):
    """argmax of ⟨θ̂, a⟩."""
    return int(np.argmax(arms @ theta))


def imed_indices(mean, width, radius, version, C=30.0, log_horizon=0.0):
    """LinIMED's I(a) = D(a)² / (β‖a‖²) − log(β‖a‖²), capped for the leading arm by versions 2 and 3."""
    value = mean + radius * width if version == 3 else mean
    gap = value.max() - value
    beta_length = (radius * width) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        index = np.where(beta_length > 0.0, gap**2 / beta_length - np.log(beta_length), np.inf)
    best = int(np.argmax(value))
    if version == 2:
        index[best] = min(index[best], log_horizon)
    elif version == 3 and gap.max() > 0.0:
        index[best] = min(index[best], math.log(C / gap.max() ** 2))
    return index


def rand_ucb(theta, inverse, radius, arms, grid, weights):
    """One Z for all arms: each of its values plays the arm of the largest mean + Z·width."""
    mean, width = arms @ theta, widths(inverse, arms)
    p = np.zeros(len(arms))
    for value, weight in zip(grid, weights, strict=True):
        p[np.argmax(mean + value * radius * width)] += weight
    return p


def rand_ucb_uncoupled(theta, inverse, radius, arms, grid, weights):
    """A Z for every arm: p_i = Σ_m w_m Π_{j≠i} P(score_j < score_im), or ≤ for j > i."""
    score = (arms @ theta)[:, None] + radius * widths(inverse, arms)[:, None] * grid
    p = np.zeros(len(arms))
    for i in range(len(arms)):
        for m, weight in enumerate(weights):
            chance = weight
            for j in range(len(arms)):
                beaten = score[j] <= score[i, m] if j > i else score[j] < score[i, m]
                chance *= 1.0 if j == i else weights[beaten].sum()
            p[i] += chance
    return p


def square_cb(mean, gamma):
    """1/(K + γ gap), the rest for the best arm."""
    p = 1.0 / (len(mean) + gamma * (mean.max() - mean))
    best = int(np.argmax(mean))
    p[best] = 0.0
    p[best] = 1.0 - p.sum()
    return p


def square_cb_normalised(mean, gamma):
    """1/(λ + 2γ gap) with the λ between 1 and K that makes the sum 1, by bisection."""
    gap = mean.max() - mean
    low, high = 0.5, float(len(mean)) + 0.5
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if (1.0 / (middle + 2.0 * gamma * gap)).sum() > 1.0 else (low, middle)
    return 1.0 / (low + 2.0 * gamma * gap)


def maillard(means, pulls, sigma):
    """∝ exp(−N Δ̂² / (2σ²)); where arms have no pull, these alone, evenly."""
    if (pulls == 0).any():
        return (pulls == 0) / (pulls == 0).sum()
    log_f = -pulls * (means.max() - means) ** 2 / (2.0 * sigma**2)
    return np.exp(log_f - logsumexp(log_f))


def pinpoint(theta, inverse, radius, arms):
    """LinGapE's greedy rule: the arm whose reward makes ‖â − b‖ smallest, b the strongest rival of â."""
    best = greedy(theta, arms)
    rival = radius * widths(inverse, arms[best] - arms) - (arms[best] - arms) @ theta
    rival[best] = -np.inf
    y = arms[best] - arms[np.argmax(rival)]
    return int(np.argmax((arms @ inverse @ y) ** 2 / (1.0 + widths(inverse, arms) ** 2)))
