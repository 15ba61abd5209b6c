"""Inverse gap weighting: SquareCB, SpannerIGW and the number that normalises them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linmed.core import core
from linmed.design import certificate
from linmed.policies import SpannerIGW, SquareCB
from tests.policies.toy import ARMS, probabilities, random_state, sphere, state_of


def test_square_cb_gives_every_arm_a_probability():
    arms = sphere(40, 3)
    policy = SquareCB(gamma=1e4)
    state = random_state(policy, arms)
    gaps = (arms[0] @ state.theta[0]).max() - arms[0] @ state.theta[0]
    assert (probabilities(policy, arms, state) >= 1 / (40 + 1e4 * gaps) - 1e-15).all()
    for form in ("rest", "normalised"):
        np.testing.assert_allclose(probabilities(SquareCB(form=form), np.zeros((1, 5, 2))), [0.2] * 5)
        np.testing.assert_array_equal(probabilities(SquareCB(form=form), ARMS[:, :1]), [1])


def test_spanner_igw_explores_by_its_formula():
    fixed = SpannerIGW(horizon=1000, delta=0.01)
    state = state_of(fixed)
    expected = np.sqrt(4 * 2 * 1000 / (2 * np.log(1000) + 32 * np.log(200)))
    assert fixed.exploration(state)[0] == pytest.approx(expected)
    assert SpannerIGW(delta=0.01).exploration(state)[0] == pytest.approx(
        np.sqrt(4 * 2 * 4 / (2 * np.log(4) + 32 * np.log(200)))
    )
    assert SpannerIGW(horizon=9, delta=0.01, regression_regret=5.0).exploration(state)[0] == pytest.approx(
        np.sqrt(4 * 2 * 9 / (5 + 32 * np.log(200)))
    )
    assert np.isfinite(SpannerIGW().exploration(fixed.start(1, 2))).all()
    assert SpannerIGW().name == "SpannerIGW-AT"
    assert fixed.name == "SpannerIGW (delta=0.01)"


@pytest.mark.parametrize("design", ["approx", "optimal"])
@pytest.mark.parametrize(("K", "d", "gamma"), [(3, 2, 8.0), (30, 4, 50.0), (200, 6, 3000.0)])
def test_spanner_igw_keeps_the_information_its_proof_needs(design, K, d, gamma):
    """‖a‖² in V(p)⁻¹ ≤ 2(1 + η gap) C_opt d for every arm, with the C_opt that the design reaches."""
    arms = sphere(K, d)
    policy = SpannerIGW(gamma=gamma, C_opt=1.0, design=design)
    state = random_state(policy, arms)
    mean = arms[0] @ state.theta[0]
    eta_gap = gamma / d * (mean.max() - mean)
    scaled = arms[0] / np.sqrt(1 + eta_gap)[:, None]
    q = np.empty(K)
    if design == "optimal":
        core.optimal_design(arms[0], -0.5 * np.log1p(eta_gap), 1e-6, q)
    else:
        core.approx_design(arms[0], -0.5 * np.log1p(eta_gap), q)
    p = probabilities(policy, arms, state)
    leverage = np.einsum("ij,jk,ik->i", arms[0], np.linalg.inv((arms[0].T * p) @ arms[0]), arms[0])
    assert (leverage <= 2 * (1 + eta_gap) * certificate(scaled, q) * d * (1 + 1e-9)).all()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1e12), st.floats(0, 1)), min_size=1, max_size=30),
)
def test_the_normaliser_of_spanner_igw_lies_between_a_half_and_one(pairs):
    gap = np.array([0.0] + [g for g, _ in pairs])
    design = np.array([0.0] + [w for _, w in pairs])
    design = design / design.sum() if design.sum() > 0 else np.eye(len(gap))[0]
    q = 0.5 * design
    q[0] += 0.5
    lam = core.simplex.normaliser(q, gap)
    assert 0.5 - 1e-12 <= lam <= 1 + 1e-12
    assert (q / (lam + gap)).sum() == pytest.approx(1.0, abs=1e-12)
