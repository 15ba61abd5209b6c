"""Designs: golden sets, the Kiefer–Wolfowitz certificate, and an answer for every finite input."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linmed.core import core
from linmed.design import approx_design, certificate, optimal_design

GOLDEN = json.loads((Path(__file__).parent / "data" / "linmed.json").read_text())["designs"]
TOY = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]


def bh_set(arms):
    count = np.zeros(len(arms))
    core.designs.betke_henk(arms, count)
    return np.flatnonzero(count).tolist()


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: str(np.shape(case["arms"])))
def test_golden_design(case):
    arms = np.array(case["arms"])
    assert bh_set(arms) == case["bh"]
    np.testing.assert_allclose(approx_design(arms), case["approx"], atol=1e-8)
    weights = optimal_design(arms)
    logdet = np.linalg.slogdet(arms.T * weights @ arms)[1]
    assert abs(logdet - case["optimal_logdet"]) <= 1e-8
    assert certificate(arms, weights) <= 1 + 1e-6


def test_up_to_twice_the_dimension_all_arms_count_alike():
    rng = np.random.default_rng(0)
    for d in (1, 2, 5):
        for K in range(1, 2 * d + 1):
            np.testing.assert_allclose(approx_design(rng.standard_normal((K, d))), 1 / K)


@pytest.mark.parametrize("tiny", [1e-4, 1e-9, 1e-30, 1e-90])
def test_a_direction_seen_only_by_one_tiny_arm_is_not_lost(tiny):
    np.testing.assert_allclose(optimal_design([[1, 0], [-1, 0], [0, tiny]]), [0.25, 0.25, 0.5], atol=1e-6)
    arms = np.array([[1, 0], [-1, 0], [0.5, 0], [0.2, 0], [0, tiny]])
    assert approx_design(arms)[4] > 0
    assert certificate(arms, approx_design(arms)) <= 2


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (3.0, 0.2), (1e-5, 1e4)])
def test_two_orthogonal_arms_of_any_length_have_half_of_the_design_each(p, q):
    """Lemma app-lemma:lower-bound-lemma, whose V⁻¹ should read diag(2/p², 2/q²)."""
    arms = np.diag([p, q])
    for weights in (approx_design(arms), optimal_design(arms)):
        np.testing.assert_allclose(weights, 0.5, atol=1e-6)
        assert certificate(arms, weights) == pytest.approx(1.0, rel=1e-5)  # g(π) = d
    inverse = np.linalg.inv(arms.T * 0.5 @ arms)
    np.testing.assert_allclose(np.diag(inverse), [2 / p**2, 2 / q**2])


def test_arms_on_a_hyperplane_off_the_origin():
    arms = np.array(
        [[1, 10, 11], [1, 10, -3], [1, 4, -3], [1, 4, 10], [1, 4, 6], [1, 7, 2], [1, 5, 5]], dtype=float
    )
    assert certificate(arms, approx_design(arms)) < 2
    assert certificate(arms, optimal_design(arms)) <= 1 + 1e-6


@pytest.mark.parametrize(
    ("arms", "approx", "optimal"),
    [
        ([[3.0, 1.0]], [1.0], [1.0]),
        ([[0.0, 0.0]] * 7, [1 / 7] * 7, [1 / 7] * 7),
        ([[1.0, 2.0]] * 5, [1.0, 0, 0, 0, 0], [1.0, 0, 0, 0, 0]),
        ([[1.0, 0.0], [2.0, 0.0], [-3.0, 0.0], [0.0, 0.0], [1.5, 0.0]], None, [0, 0, 1.0, 0, 0]),
        ([[0.0, 0.0]] * 4 + [[1.0, 0.0], [0.0, 1.0]], [0] * 4 + [0.5] * 2, [0] * 4 + [0.5] * 2),
    ],
    ids=["one arm", "all zero", "all equal", "a line", "zeros beside a basis"],
)
def test_degenerate_sets(arms, approx, optimal):
    if approx is not None:
        np.testing.assert_allclose(approx_design(arms), approx)
    np.testing.assert_allclose(optimal_design(arms), optimal, atol=1e-9)
    assert certificate(arms, optimal_design(arms)) <= 1 + 1e-6


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    K=st.integers(1, 60),
    d=st.integers(1, 7),
    rank=st.integers(1, 7),
    spread=st.sampled_from([0, 3, 12, 95]),
    duplicates=st.booleans(),
    constant=st.booleans(),
)
def test_every_finite_set_gets_a_spanning_design(seed, K, d, rank, spread, duplicates, constant):
    """Rank deficiency, duplicates, zero rows, constant features, rows scaled over 190 orders of magnitude."""
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((K, min(rank, d))) @ rng.standard_normal((min(rank, d), d))
    if constant:
        arms[:, 0] = 1.0
    arms *= 10.0 ** rng.uniform(-spread, spread, (K, 1))
    arms[rng.random(K) < 0.1] = 0.0
    if duplicates:
        arms = arms[rng.integers(K, size=K)]
    for design, quality in ((approx_design, 40.0), (optimal_design, 1 + 1e-6)):
        weights = design(arms)
        assert (weights >= 0).all()
        assert weights.sum() == pytest.approx(1.0)
        assert 1 - 1e-6 <= certificate(arms, weights) <= quality * (1 + 1e-9)


def test_designs_do_not_change_under_a_common_scale():
    rng = np.random.default_rng(1)
    arms = rng.standard_normal((40, 4))
    for factor in (1e-90, 1e-5, 1e7, 1e90):
        np.testing.assert_allclose(approx_design(factor * arms), approx_design(arms))
        np.testing.assert_allclose(optimal_design(factor * arms), optimal_design(arms), atol=1e-6)


def test_the_greedy_loop_leaves_no_leverage_above_one():
    """τ·V(π) is the matrix the loop ends with, so the largest leverage is at most τ = 1 / smallest weight."""
    rng = np.random.default_rng(2)
    for K, d in ((50, 5), (500, 10), (2000, 20)):
        arms = rng.standard_normal((K, d))
        weights = approx_design(arms)
        tau = 1 / weights[weights > 0].min()
        assert certificate(arms, weights) * d <= tau * (1 + 1e-9)
        assert np.count_nonzero(weights) <= 4 * d


def test_sets_too_large_for_the_cache_are_streamed_alike():
    """More numbers than are held in blocks: the same design as when they are held."""
    rng = np.random.default_rng(3)
    arms = rng.standard_normal((30_000, 10))
    weights = approx_design(arms)
    rows = np.flatnonzero(weights)
    assert 10 <= len(rows) <= 40
    V = arms.T * weights @ arms
    leverages = np.einsum("ij,jk,ik->i", arms, np.linalg.inv(V), arms)
    assert certificate(arms, weights) == pytest.approx(leverages.max() / 10)


@given(
    seed=st.integers(0, 2**32 - 1),
    members=st.integers(1, 60),
    dim=st.integers(1, 70),
    spread=st.sampled_from([0.0, 1e-9, 1e-7, 1e-5, 1.0]),
    decades=st.sampled_from([0, 10, 200]),
    size=st.sampled_from([1e-90, 1.0, 1e90]),
)
@settings(deadline=None)
def test_a_look_in_single_precision_finds_the_extremes_of_double(seed, members, dim, spread, decades, size):
    """Arms that differ by less than single precision can tell, scales far apart, ties, any length."""
    rng = np.random.default_rng(seed)
    arms = size * (rng.standard_normal(dim) + spread * rng.integers(-3, 4, (members, dim)))
    scale = np.zeros(-(-members // 8) * 8)
    scale[:members] = 10.0 ** rng.uniform(-decades, 0, members)
    direction = rng.standard_normal(dim) * 10.0 ** rng.uniform(-8, 0)
    screened = core.designs.extremes(arms, scale, direction, False)
    assert screened == core.designs.extremes(arms, scale, direction, True)
    exact = scale[:members] * (arms @ direction)
    rounding = 1e-12 * (scale[:members] * (np.abs(arms) @ np.abs(direction))).max()
    np.testing.assert_allclose(screened[2:], [exact.max(), exact.min()], rtol=0, atol=rounding)


def test_a_design_that_misses_a_direction_has_an_infinite_certificate():
    assert certificate([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0]) == np.inf


@given(st.lists(st.floats(-5, 5) | st.sampled_from([0.0, 1.0]), min_size=1, max_size=40))
@settings(deadline=None)
def test_ties_go_to_the_lowest_index(values):
    array = np.array(values)
    scale = np.zeros(-(-len(values) // 8) * 8)
    scale[: len(values)] = 1.0
    top, bottom, highest, lowest = core.designs.extremes(array.reshape(-1, 1), scale, np.ones(1), True)
    assert (top, bottom) == (int(np.argmax(array)), int(np.argmin(array)))
    assert (highest, lowest) == (array.max(), array.min())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: approx_design([[1.0, np.nan]]), r"arms\[0, 1\] is nan"),
        (lambda: optimal_design([[1.0, np.inf]]), r"arms\[0, 1\] is inf"),
        (lambda: approx_design(np.empty((0, 2))), "arms is empty"),
        (lambda: approx_design([1.0, 2.0]), "arms must have shape"),
        (lambda: optimal_design(TOY, tol=0.0), "tol must be positive"),
        (lambda: certificate(TOY, [0.5, 0.5]), r"weights must have shape \(3,\)"),
        (lambda: certificate(TOY, [0.9, 0.9, -0.8]), "weights must be non-negative"),
        (lambda: certificate(TOY, [0.9, 0.9, 0.8]), "weights must be non-negative and sum to 1"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
