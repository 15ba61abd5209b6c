"""What an estimated propensity does to an importance weight on average: E[p / p̂(X)], X ~ Binomial(M, p).

A decision for arm a, of probability p, adds (π(a)/p̂) y to an IPW score. Given the history, its expectation
over arm, reward and count is Σ_a π(a) μ_a E[p_a / p̂(X_a)]: the factors here, which are 1 without a bias.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.interpolate import CubicSpline

from linmed.validation import Floats

STEP = 0.01
"""Of the table, in log p: its relative error is below 1e-9."""
RARE = 1e-5
"""Up to this Mp, E[1/max(X, ½)] = 2 − Mp with a relative error of (Mp)²/8 < 2e-11."""


def plus_one_factor(M: int, log_p: Floats) -> Floats:
    """E[p/p̂] of p̂ = (X + 1)/(M + 1): 1 − (1 − p)^(M+1)."""
    factor: Floats = -np.expm1((M + 1.0) * _log_complement(log_p))
    return factor


def zero_chance(M: int, log_p: Floats) -> Floats:
    """P(X = 0) = (1 − p)^M."""
    chance: Floats = np.exp(M * _log_complement(log_p))
    return chance


def floor_factor(M: int, log_p: Floats) -> Floats:
    """E[p/p̂] of p̂ = max(X, ½)/M: g(p) = p E[M/max(X, ½)], by a table of log g(p) over log p."""
    table = _table(M)
    factor: Floats = np.exp(table(np.clip(log_p, table.x[0], 0.0)))
    below = log_p < table.x[0]
    if below.any():
        hits = M * np.exp(log_p[below])
        factor[below] = hits * (2.0 - hits)
    return factor


def floor_factor_at(M: int, p: float) -> float:
    """g(p) for one p: the sum over those counts that have any weight.

    The weights w(k) ∝ P(X = k) follow from w(k+1)/w(k) = (M − k)/(k + 1) · p/(1 − p), and their sum makes
    them probabilities: no factorials, whose logarithms would cost the last six digits at M = 10⁵.
    """
    if p >= 1.0:
        return 1.0
    centre, reach = M * p, 12.0 * math.sqrt(M * p * (1.0 - p)) + 60.0
    counts = np.arange(max(math.floor(centre - reach), 0), min(math.ceil(centre + reach), M) + 1)
    weights = np.ones(len(counts))
    np.cumprod((M - counts[:-1]) / counts[1:] * (p / (1.0 - p)), out=weights[1:])
    return float(M * p * (weights / np.maximum(counts, 0.5)).sum() / weights.sum())


@lru_cache(maxsize=16)
def _table(M: int) -> CubicSpline:
    """log g(p) over log p, from Mp = RARE to p = 1."""
    lowest = math.log(RARE / M)
    nodes = np.linspace(lowest, 0.0, math.ceil(-lowest / STEP) + 1)
    return CubicSpline(nodes, np.log([floor_factor_at(M, math.exp(node)) for node in nodes]))


def _log_complement(log_p: Floats) -> Floats:
    """log(1 − p); −∞ for p = 1."""
    with np.errstate(divide="ignore"):
        complement: Floats = np.log1p(-np.exp(np.minimum(log_p, 0.0)))
    return complement
