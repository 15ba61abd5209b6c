"""E2D's program once more: a few lines of plain NumPy, for one replica.

Nothing here knows of working sets, models of second order or coordinates of a span. `arms` is (K,d), `theta`
(d,) the estimate.
"""

import math

import numpy as np
from scipy.optimize import brentq


def exploration(dim, n, lam, sigma, norm, information):
    """γ = √(d n/(4 Est)), Est = λS² + (σ² + S²)·information."""
    return math.sqrt(dim * n / (4.0 * (lam * norm**2 + (sigma**2 + norm**2) * information)))


def worst_case(p, arms, theta, gamma):
    """G(p) = max_a ⟨θ̂, a − ā⟩ + ‖a − ā‖²/(4γ) in V(p)⁻¹, what E2D minimises."""
    apart = arms - p @ arms
    inverse = np.linalg.pinv((arms.T * p) @ arms)
    return max(theta @ x + x @ inverse @ x / (4.0 * gamma) for x in apart)


def costs(arms, theta, gamma):
    """c_a = 4γ gap_a."""
    means = arms @ theta
    return 4.0 * gamma * (means.max() - means)


def leverages(p, arms):
    """w_a = ‖ã‖² in Ṽ(p)⁻¹ for ã = (1, a)."""
    lifted = np.column_stack([np.ones(len(arms)), arms])
    inverse = np.linalg.inv((lifted.T * p) @ lifted)
    return np.einsum("ij,jk,ik->i", lifted, inverse, lifted)


def excess(p, arms, theta, gamma):
    """max_a (w_a − c_a) − Σ p (w − c): 0 at the maximum of log det Ṽ(p) − Σ p c, and else positive."""
    slope = leverages(p, arms) - costs(arms, theta, gamma)
    return slope.max() - p @ slope


def inverse_gaps(weight, gap):
    """p_a = weight_a/(λ + gap_a) with the λ that makes the sum 1."""
    lam = brentq(lambda lam: (weight / (lam + gap)).sum() - 1.0, 1e-9, 2.0 * weight.sum(), xtol=1e-16)
    return weight / (lam + gap)


def design(arms, theta, gamma):
    """The p that maximises log det Ṽ(p) − Σ p c, where it is unique.

    Steps p_a ∝ p_a w_a/(κ + c_a) leave little to the arms that are not in use. On the others w_a − c_a = κ
    and Σ p = 1 are equations for Newton's method, as dw_a/dp_b = −(ã_aᵀ Ṽ⁻¹ ã_b)²; an arm that turns negative
    is not in use either.
    """
    c, p = costs(arms, theta, gamma), np.full(len(arms), 1.0 / len(arms))
    for _ in range(200):
        p = inverse_gaps(p * leverages(p, arms), c)
    for _ in range(20):
        used = np.flatnonzero(p > 1e-5)
        lifted, ones = np.column_stack([np.ones(len(used)), arms[used]]), np.ones((len(used), 1))
        products = lifted @ np.linalg.inv((lifted.T * p[used]) @ lifted) @ lifted.T
        system = np.block([[products**2, ones], [ones.T, np.zeros((1, 1))]])
        miss = np.append(np.diag(products) - c[used], 1.0 - p[used].sum())
        step, p = np.linalg.lstsq(system, miss, rcond=None)[0][:-1], np.where(p > 1e-5, p, 0.0)
        p[used] = np.maximum(p[used] + step, 0.0)
    return p
