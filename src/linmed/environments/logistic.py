"""What worlds with clicks compute, by NumPy and the core: the logistic function, a root, a quadrature."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from linmed.core import core
from linmed.validation import Floats


def expit(scores: ArrayLike) -> Floats:
    """μ(z) = 1/(1 + e⁻ᶻ), with the core's exp: the same bits on every machine.

    >>> expit([0.0, 800.0, -800.0])
    array([0.5, 1. , 0. ])
    """
    z = np.asarray(scores, dtype=np.float64)
    powers = np.empty(z.size)
    core.functions.exp(np.ravel(-z), powers)
    odds: Floats = 1.0 / (1.0 + powers.reshape(z.shape))
    return odds


def logit(rates: ArrayLike) -> Floats:
    """The inverse of `expit`.

    >>> float(logit(0.5))
    0.0
    """
    p = np.asarray(rates, dtype=np.float64)
    found = np.empty(p.size)
    core.functions.log((p / (1.0 - p)).ravel(), found)
    return found.reshape(p.shape)


def root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing function crosses zero between two numbers, to the last digit: by halving.

    >>> root(lambda x: x**3 - 8.0, 0.0, 10.0)
    2.0
    """
    while low < (middle := 0.5 * (low + high)) < high:
        if excess(middle) < 0.0:
            low = middle
        else:
            high = middle
    return high


def gegenbauer_nodes(count: int, order: float) -> tuple[Floats, Floats]:
    """Gauss's quadrature for the weight (1 − x²)^(order − 1/2) on [−1, 1]: nodes, and weights of sum 1.

    The nodes are the eigenvalues of the Jacobi matrix of Gegenbauer's polynomials (Golub & Welsch 1969), and
    the weights 1/Σₖ pₖ(x)² over those polynomials, scaled to norm 1, of degrees below `count`.

    >>> nodes, weights = gegenbauer_nodes(20, 1.5)
    >>> abs(float(weights @ nodes**2) - 0.2) < 1e-15
    True
    """
    k = np.arange(1.0, count)
    beside = 0.5 * np.sqrt(k * (k + 2.0 * order - 1.0) / ((k + order) * (k + order - 1.0)))
    nodes = np.linalg.eigvalsh(np.diag(beside, 1) + np.diag(beside, -1))
    nodes = 0.5 * (nodes - nodes[::-1])  # they are symmetric, to the last digit too
    before, here, total = np.zeros(count), np.ones(count), np.ones(count)
    for i in range(count - 1):
        before, here = here, (nodes * here - (beside[i - 1] if i else 0.0) * before) / beside[i]
        total += here * here
    return nodes, 1.0 / total
