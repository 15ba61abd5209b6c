"""Concave quadratics on the simplex: the maximum, singular curvature, entries that leave."""

import numpy as np
import pytest

from linmed.core import core


def quadratic(n, rank, seed):
    """A curvature H (n,n) of the given rank, a gradient and a point of the simplex; n a multiple of eight."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((n, rank))
    weights = rng.random(n)
    return factor @ factor.T, rng.standard_normal(n), weights / weights.sum()


def excess(H, G, start, x):
    """max G − Σ x G at x, for the gradient G at the start: how far x may be from the maximum."""
    there = G - H @ (x - start)
    return there.max() - x @ there


def test_the_factor_solves():
    H, G, _ = quadratic(24, 24, seed=1)
    L, inverse, x = H.copy(), np.empty(24), G.copy()
    core.simplex.factor(L, inverse)
    np.testing.assert_allclose(1 / inverse, np.diag(np.linalg.cholesky(H)), rtol=1e-9)
    core.simplex.solve(L, inverse, 0, x)
    np.testing.assert_allclose(H @ x, G, atol=1e-8)
    unit = np.zeros(24)
    unit[13] = 1.0
    x = unit.copy()
    core.simplex.solve(L, inverse, 13, x)
    np.testing.assert_allclose(H @ x, unit, atol=1e-8)


def test_an_entry_without_a_pivot_is_left_at_zero():
    H, G, _ = quadratic(16, 5, seed=2)
    L, inverse = H.copy(), np.empty(16)
    core.simplex.factor(L, inverse)
    assert (inverse[:5] > 0).all()
    assert (inverse[5:] == 0).all()
    x = H @ G  # in the range of H, so the first five alone can solve
    b = x.copy()
    core.simplex.solve(L, inverse, 0, x)
    np.testing.assert_allclose(H @ x, b, atol=1e-8)
    assert (x[5:] == 0).all()


@pytest.mark.parametrize("rank", [3, 12, 40])
@pytest.mark.parametrize("seed", range(5))
def test_exchanges_and_equations_reach_the_maximum(rank, seed):
    H, G, start = quadratic(40, rank, seed)
    x, there = start.copy(), G.copy()
    for _ in range(20):
        core.simplex.exchange(H, there, x, 1e-3 * excess(H, G, start, x), 1000)
        core.simplex.climb_face(H, there, x)
        there = G - H @ (x - start)
    assert x.sum() == pytest.approx(1.0, abs=1e-12)
    assert (x >= 0).all()
    assert excess(H, G, start, x) <= 1e-9


def test_exchanges_keep_the_gradient():
    H, G, start = quadratic(32, 32, seed=3)
    x, there = start.copy(), G.copy()
    core.simplex.exchange(H, there, x, 0.0, 50)
    np.testing.assert_allclose(there, G - H @ (x - start), atol=1e-10)


def test_climbing_a_face_never_lowers_the_model():
    for seed in range(20):
        H, G, start = quadratic(24, 1 + seed % 8, seed)
        x = start.copy()
        core.simplex.climb_face(H, G, x)
        change = x - start
        assert G @ change - 0.5 * change @ H @ change >= 0.0
        assert x.sum() == pytest.approx(1.0, abs=1e-9)


def test_a_single_entry_keeps_everything():
    H, G, x = np.zeros((8, 8)), np.full(8, -1e300), np.zeros(8)
    H[0, 0], G[0], x[0] = 1.0, 0.0, 1.0
    core.simplex.exchange(H, G, x, 0.0, 10)
    core.simplex.climb_face(H, G, x)
    np.testing.assert_array_equal(x, [1, 0, 0, 0, 0, 0, 0, 0])
