"""Optimal experimental design over a finite set of arms.

A design π puts weights on arms so that V(π) = Σ π_a a aᵀ makes every arm's leverage ‖a‖² in V(π)⁻¹
small. Kiefer and Wolfowitz: the largest leverage is at least the rank, with equality for the optimum.
"""

import numpy as np
from numpy.typing import ArrayLike

from linmed import validation
from linmed.core import core
from linmed.validation import Floats

__all__ = ["approx_design", "certificate", "optimal_design"]


def approx_design(arms: ArrayLike) -> Floats:
    """Compute the paper's ApproxDesign: the BH set (Algorithm 4), then greedy additions (Algorithm 5).

    arms (K, d) → weights (K,). Fast, supported on O(d log d) arms, largest leverage O(d log d).

    >>> approx_design([[1, 0], [0, 1], [0.6, 0.8]])
    array([0.33333333, 0.33333333, 0.33333333])
    """
    matrix = validation.arm_matrix(arms)
    weights = np.empty(len(matrix))
    core.approx_design(matrix, np.zeros(len(matrix)), weights)
    return weights


def optimal_design(arms: ArrayLike, tol: float = 1e-6) -> Floats:
    """Compute the G-optimal (equivalently D-optimal) design, to a certificate of at most 1 + tol.

    arms (K, d) → weights (K,). Frank–Wolfe with away steps (Todd 2016), stopped by the certificate.

    >>> optimal_design([[1, 0], [0, 1], [0.6, 0.8]])
    array([0.5, 0.5, 0. ])
    """
    matrix = validation.arm_matrix(arms)
    validation.positive("tol", tol)
    weights = np.empty(len(matrix))
    core.optimal_design(matrix, np.zeros(len(matrix)), tol, weights)
    return weights


def certificate(arms: ArrayLike, weights: ArrayLike) -> float:
    """Divide max_a ‖a‖² in V(π)⁻¹ by the rank of the arms: 1.0 is optimal, inf says π does not span them.

    arms (K, d), weights (K,) non-negative, summing to one.

    >>> round(certificate([[1, 0], [0, 1], [0.6, 0.8]], [1 / 3, 1 / 3, 1 / 3]), 12)
    1.23
    """
    matrix = validation.arm_matrix(arms)
    pi = validation.floats("weights", weights)
    if pi.shape != (len(matrix),):
        raise ValueError(f"weights must have shape ({len(matrix)},), one per arm, got {pi.shape}")
    if pi.min() < 0 or abs(pi.sum() - 1) > 1e-6:
        raise ValueError(f"weights must be non-negative and sum to 1, got minimum {pi.min()}, sum {pi.sum()}")
    return float(core.certificate(matrix, pi))
