"""E2D: the program's value, the solver's certificate and the cases with a known answer."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linmed.policies import E2D
from tests.policies.toy import probabilities, random_state, sphere


def objective(p, arms, theta, gamma):
    """⟨θ̂, a − ā⟩ + ‖a − ā‖²/(4γ) in V(p)⁻¹ for every arm; its maximum is G(p).  arms (K,d)."""
    mean = p @ arms
    V = (arms.T * p) @ arms
    difference = arms - mean
    return difference @ theta + np.einsum("ij,ij->i", difference, difference @ np.linalg.pinv(V)) / (
        4 * gamma
    )


def exact_objective(p, arms, theta, gamma):
    """The largest entry of `objective` in rational arithmetic: V(p) may be singular but for 1e-8."""
    p, theta = [Fraction(x) for x in p], [Fraction(x) for x in theta]
    arms = [[Fraction(x) for x in arm] for arm in arms]
    d = len(theta)
    mean = [sum(w * a[k] for w, a in zip(p, arms, strict=True)) / sum(p) for k in range(d)]
    differences = [[x - m for x, m in zip(a, mean, strict=True)] for a in arms]
    # V next to all right-hand sides at once, reduced to echelon form; V spans every difference.
    table = [
        [sum(w * a[j] * a[k] for w, a in zip(p, arms, strict=True)) / sum(p) for k in range(d)]
        + [difference[j] for difference in differences]
        for j in range(d)
    ]
    pivots = []
    for k in range(d):
        row = next((i for i in range(len(pivots), d) if table[i][k] != 0), None)
        if row is None:
            continue
        here = len(pivots)
        table[here], table[row] = table[row], table[here]
        table[here] = [x / table[here][k] for x in table[here]]
        for i in range(d):
            if i != here:
                table[i] = [x - table[i][k] * y for x, y in zip(table[i], table[here], strict=True)]
        pivots.append(k)
    return float(
        max(
            sum(x * t for x, t in zip(difference, theta, strict=True))
            + sum(difference[k] * table[i][d + a] for i, k in enumerate(pivots)) / (4 * Fraction(gamma))
            for a, difference in enumerate(differences)
        )
    )


def spread(arms, theta):
    """The largest Σ_k |θ̂_k (a_k − b_k)|."""
    return (np.abs(arms[:, None] - arms[None]) @ np.abs(theta)).max()


@pytest.mark.parametrize(("K", "d"), [(4, 2), (10, 2), (50, 5), (100, 20), (6, 9)])
def test_the_certificate_holds(K, d):
    arms = sphere(K, d, seed=K)
    for gamma, tol in itertools.product((0.1, 10.0, 1000.0), (1e-3, 1e-9)):
        policy = E2D(gamma=gamma, tol=tol)
        state = random_state(policy, arms)
        p = probabilities(policy, arms, state)
        certificate = policy.certificate(state, arms)[0]
        value = objective(p, arms[0], state.theta[0], gamma).max() * 4 * gamma / d
        assert value <= certificate * (1 + 1e-9)
        assert certificate <= 1 + tol


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 5),
    st.integers(0, 10**6),
    st.sampled_from([0.01, 1.0, 100.0, 1e6, 1e8]),
)
def test_any_set_of_arms_has_a_certified_answer(K, d, seed, gamma):
    """Integer arms: duplicates, zeros and rank deficiency are common."""
    arms = np.random.default_rng(seed).integers(-1, 2, size=(1, K, d)).astype(float)
    policy = E2D(gamma=gamma)
    state = random_state(policy, arms, 10, seed)
    p = probabilities(policy, arms, state)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert (p >= 0).all()
    certificate = policy.certificate(state, arms)[0]
    assert certificate <= 1 + policy.tol + 1e-13 * gamma * spread(arms[0], state.theta[0])
    assert exact_objective(p, arms[0], state.theta[0], gamma) * 4 * gamma / d <= certificate


@pytest.mark.parametrize("gamma", [1e6, 1e8, 1e10])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_a_very_large_gamma_is_solved_and_certified_to_the_digits_there_are(gamma, offset):
    for seed in range(12):
        K, d = 4 + seed, 2 + seed % 4
        arms = sphere(K, d, seed) * np.linspace(0.2, 1.0, K)[:, None] + offset
        policy = E2D(gamma=gamma)
        state = random_state(policy, arms, 20, seed)
        value = exact_objective(probabilities(policy, arms, state), arms[0], state.theta[0], gamma)
        certificate = policy.certificate(state, arms)[0]
        assert value * 4 * gamma / d <= certificate
        assert certificate <= 1 + policy.tol + 1e-13 * gamma * spread(arms[0], state.theta[0])


def sets_with_many_optima():
    """Sets of which several designs are optimal, and sets of more arms than one model of the solver holds."""
    cube = np.array(list(itertools.product((-1.0, 1.0), repeat=7)))
    half = sphere(60, 6, seed=1)[0]
    return {
        "copies": np.repeat(sphere(20, 4, seed=2)[0], 30, axis=0),
        "near copies": np.repeat(half, 5, axis=0) + 1e-7 * sphere(300, 6, seed=3)[0],
        "opposite arms": np.concatenate([half, -half]),
        "corners of a cube": cube,
        "zeros among them": np.concatenate([half, np.zeros((20, 6))]),
        "all alike": np.ones((30, 5)),
        "a plane of nine": sphere(200, 2, seed=4)[0] @ sphere(2, 9, seed=5)[0],
        "many on a circle": sphere(2500, 2, seed=6)[0],
        "many in a ball": sphere(700, 3, seed=7)[0] * np.linspace(0.1, 1.0, 700)[:, None],
        "one": half[:1],
    }


@pytest.mark.parametrize("name", sets_with_many_optima())
def test_ties_and_large_sets_are_certified(name):
    arms = sets_with_many_optima()[name][None]
    for gamma in (1e-4, 3.0, 100.0, 1e8):
        policy = E2D(gamma=gamma)
        for state in (random_state(policy, arms, 20), policy.start(1, arms.shape[2])):
            p = probabilities(policy, arms, state)
            assert p.sum() == pytest.approx(1.0, abs=1e-12)
            assert (p >= 0).all()
            reach = 2.0 * (np.abs(arms[0]) @ np.abs(state.theta[0])).max()
            assert policy.certificate(state, arms)[0] <= 1 + policy.tol + 1e-13 * gamma * reach


@pytest.mark.parametrize("rounds", [0, 30, 300])
def test_a_thousand_arms_of_32_features_are_certified(rounds):
    arms = sphere(1000, 32, seed=1)
    policy = E2D()
    state = random_state(policy, arms, rounds) if rounds else policy.start(1, 32)
    p = probabilities(policy, arms, state)
    assert policy.certificate(state, arms)[0] <= 1 + 2 * policy.tol
    value = objective(p, arms[0], state.theta[0], policy.exploration(state)[0]).max()
    assert value * 4 * policy.exploration(state)[0] / 32 <= 1 + 1e-8
