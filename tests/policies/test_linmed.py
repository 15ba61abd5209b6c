"""LinMED against the golden vectors, the paper's formulas, and its promises about small probabilities."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linmed import Agent, LinMED, LinMEDNoDesign, MaillardSampling
from linmed.core import core
from linmed.design import certificate
from tests.policies.toy import random_state, sphere

GOLDEN = json.loads((Path(__file__).parent.parent / "data" / "linmed.json").read_text())
TOY_ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])


def state_after(policy, features, rewards, dim):
    state = policy.start(1, dim)
    features = np.asarray(features, dtype=float).reshape(-1, dim)
    policy.learn(state, features, np.asarray(rewards, dtype=float), np.zeros(len(rewards), dtype=np.int64))
    return state


def padded(arms):
    """Zeros for every arm, in whole blocks."""
    return np.zeros(-(-len(arms) // 8) * 8)


@pytest.mark.parametrize("case", GOLDEN["steps"], ids=lambda case: str(np.shape(case["arms"])))
def test_golden_step(case):
    keys = ("sigma", "norm_bound", "ridge", "delta", "alpha_emp", "alpha_opt", "version", "explore")
    policy = LinMED(**{key: case[key] for key in keys})
    arms = np.array(case["arms"])
    state = state_after(policy, case["features"], case["rewards"], arms.shape[1])
    want = case["expect"]
    np.testing.assert_allclose(state.theta[0], want["theta"], atol=1e-8)
    beta = policy.radius(state)[0] ** 2
    np.testing.assert_allclose(beta, want["beta"], rtol=1e-8)
    log_f, root, count = np.empty((3, len(arms)))
    best = core.designs.weigh(arms, state.theta[0], state.inverse[0], beta, True, log_f, root)
    assert best == want["best"]
    q = count / core.designs.augmented_counts(arms, log_f, root, policy.version, count)
    np.testing.assert_allclose(np.exp(log_f), want["weights"], rtol=1e-8)
    np.testing.assert_allclose(root**2, want["weights"], rtol=1e-8)
    survivors = np.exp(log_f) >= np.exp(-1) if policy.version == 1 else np.full(len(arms), True)
    np.testing.assert_allclose(q[survivors], want["design"], atol=1e-8)
    assert not q[~survivors].any()
    log_p = policy.log_probabilities(state, arms[None])[0]
    np.testing.assert_allclose(np.exp(log_p), want["probabilities"], rtol=1e-8, atol=1e-300)


@pytest.mark.parametrize(("K", "d"), [(3, 2), (100, 3), (200, 7), (300, 40)])
def test_blocks_and_rows_are_computed_alike(K, d):
    """Arms held in blocks and arms read where they stand are two routes to the same weights and design."""
    rng = np.random.default_rng(K)
    arms = rng.standard_normal((K, d))
    state = state_after(LinMED(), rng.standard_normal((30, d)), rng.standard_normal(30), d)
    found = []
    for held in (True, False):
        log_f, root = np.empty((2, K))
        best = core.designs.weigh(arms, state.theta[0], state.inverse[0], 5.0, held, log_f, root)
        scale, count = padded(arms), padded(arms)
        scale[:K] = root
        total = core.designs.approx_counts(arms, scale, held, count) if K > 2 * d else 1.0
        assert total > 0.0
        found.append((best, total, log_f, root, count))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_log_probability_is_finite_however_small_the_weight():
    """A tiny σ makes f underflow by thousands of orders of magnitude; the logarithm must not."""
    rng = np.random.default_rng(1)
    arms = rng.standard_normal((40, 3))
    for version in (0, 1):
        agent = Agent(LinMED(sigma=1e-6, ridge=1.0, version=version), dim=3, seed=0)
        agent.observe(np.repeat(arms, 50, axis=0), np.repeat(arms @ [1.0, -2.0, 0.5], 50))
        log_p = agent.policy.log_probabilities(agent.state, arms[None])[0]
        assert np.isfinite(log_p).all()
        assert log_p.min() < -5e3
        np.testing.assert_allclose(np.exp(log_p).sum(), 1.0, atol=1e-12)


def test_arms_a_hair_apart_keep_the_weight_of_their_direction():
    """Δ̂²/‖â − a‖² does not depend on the length of â − a, even where its square underflows."""
    policy = LinMEDNoDesign(delta=0.1)
    state = state_after(policy, TOY_ARMS[[0, 1, 0]], [1.0, 0.2, 0.6], 2)
    ratios = []
    for step in (1e-3, 1e-100, 1e-200, 1e-300):
        arms = np.array([[0.0, 0.0], [-step, 0.0]])
        p = np.exp(policy.log_probabilities(state, arms[None])[0])
        ratios.append(p[1] / p[0])
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-9)


def test_without_a_uniform_part_only_the_design_and_the_best_arm_are_played():
    rng = np.random.default_rng(2)
    arms = rng.standard_normal((50, 2))
    agent = Agent(LinMED(alpha_emp=0.5, alpha_opt=0.5, explore=False), dim=2, seed=0)
    agent.observe(arms, arms @ [1.0, 0.0])
    p = agent.probabilities(arms)
    assert 0 < (p == 0).sum() < 50
    np.testing.assert_allclose(p.sum(), 1.0, atol=1e-12)


def test_design_alone_still_sums_to_one_when_the_best_arm_is_zero():
    """α_opt = 1 and a zero best arm: every arm of positive q has a vanishing f, which must not give 0/0."""
    arms = np.vstack([np.zeros(2), -np.eye(2), -0.5 * np.ones((3, 2))])
    agent = Agent(LinMED(sigma=1e-4, ridge=1.0, alpha_emp=0.0, alpha_opt=1.0, explore=False), dim=2, seed=0)
    agent.observe(np.repeat(-np.eye(2), 1000, axis=0), -np.ones(2000))
    np.testing.assert_allclose(agent.probabilities(arms).sum(), 1.0, atol=1e-12)


def test_half_of_the_mass_explores_while_a_leverage_exceeds_one():
    arms = np.array([[0.5, 0.0], [0.0, 0.9], [0.3, 0.3]])
    agent = Agent(LinMED(sigma=0.1), dim=2, seed=0)  # λ = 0.01: leverages 25, 81, 18
    quiet = Agent(LinMED(sigma=0.1, explore=False), dim=2, seed=0)
    np.testing.assert_allclose(
        agent.probabilities(arms), 0.5 * quiet.probabilities(arms) + [0.0, 0.5, 0.0], atol=1e-15
    )
    agent.observe(np.repeat(np.eye(2), 100, axis=0), np.zeros(200))
    quiet.observe(np.repeat(np.eye(2), 100, axis=0), np.zeros(200))
    np.testing.assert_array_equal(agent.probabilities(arms), quiet.probabilities(arms))


def test_unit_arms_with_unit_ridge_do_not_explore_by_rounding():
    """‖a‖² = 1 up to its last bit is not > 1."""
    rng = np.random.default_rng(3)
    arms = rng.standard_normal((200, 4))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    with_step, without = (Agent(LinMED(explore=e), dim=4, seed=0) for e in (True, False))
    np.testing.assert_array_equal(with_step.probabilities(arms), without.probabilities(arms))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    arms=st.integers(1, 40),
    dim=st.integers(1, 6),
    scale=st.floats(-8, 8),
    version=st.sampled_from([0, 1]),
    design=st.sampled_from(["approx", "optimal"]),
)
def test_probabilities_are_a_distribution_for_any_history(seed, arms, dim, scale, version, design):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((arms, dim)) * 10.0**scale
    matrix[rng.random(arms) < 0.2] = 0.0
    matrix[rng.random(arms) < 0.2] = matrix[0]
    agent = Agent(LinMED(version=version, design=design), dim=dim, seed=seed)
    agent.observe(rng.standard_normal((20, dim)), rng.standard_normal(20))
    log_p = agent.policy.log_probabilities(agent.state, matrix[None])[0]
    assert np.isfinite(log_p).all()
    np.testing.assert_allclose(np.exp(log_p).sum(), 1.0, atol=1e-12)


def test_maillard_sampling_refuses_features():
    agent = Agent(MaillardSampling(), dim=2, seed=0)
    with pytest.raises(ValueError, match="one-hot"):
        agent.decide([[0.5, 0.5], [1.0, 0.0]])


def test_ties_that_are_even_favour_no_arm():
    arms = np.eye(3)[None]
    for ties, expected in (("even", [1 / 3] * 3), ("first", None)):
        policy = LinMED(ties=ties, explore=False)
        law = np.exp(policy.log_probabilities(policy.start(1, 3), arms))[0]
        if expected is None:
            assert law[0] > 0.9
        else:
            np.testing.assert_allclose(law, expected, rtol=1e-12)


def rounds(policy, arms, n, seed=0):
    """The state after n rounds of play, and the arms played."""
    rng = np.random.default_rng(seed)
    state = policy.start(1, arms.shape[2])
    theta = rng.standard_normal(arms.shape[2])
    rewards = np.einsum("kd,d->k", arms[0], theta)[None, None] + rng.standard_normal((n, 1, 1))
    played = np.empty((n, 1), dtype=np.int64)
    policy.play(state, arms[None], rewards, rng.random((n, 1, 1)), played)
    return state, played[:, 0]


@pytest.mark.parametrize(("K", "d"), [(40, 3), (300, 8), (500, 20), (20_000, 14)])
def test_the_design_of_every_round_is_an_approximate_design(K, d):
    """The largest leverage of the arms times √f in V(q) is at most τ, and τ is O(d)."""
    policy = LinMED(design="warm")
    arms = sphere(K, d)
    state, _ = rounds(policy, arms, 12 if K > 1000 else 60)
    size = policy.optimality(state)[0] * d * np.log(d)
    assert d <= size <= 4 * d
    before = state.copy()
    beta = policy.radius(state)[0] ** 2
    log_f, root = np.empty((2, K))
    core.designs.weigh(arms[0], state.theta[0], state.inverse[0], beta, True, log_f, root)
    policy.decide(state, arms, np.array([[0.5]]))
    q = np.exp(policy.log_probabilities(before, arms)[0])
    assert q.sum() == pytest.approx(1.0, abs=1e-12)
    support = state.support[0][state.support[0] >= 0]
    assert len(set(support.tolist())) == len(support) >= d
    weights = np.zeros(K)
    weights[support] = 1.0 / len(support)
    scaled = arms[0] * root[:, None]
    assert certificate(scaled, weights) * d <= 4 * d * (1 + 1e-6)


def test_the_law_is_close_to_that_of_the_cold_design():
    """Only the design differs, and its share of q is 5 %: p may differ by that share at most, before 1/Z."""
    arms = sphere(200, 6)
    warm, cold = LinMED(design="warm"), LinMED()
    state, _ = rounds(warm, arms, 200)
    p = np.exp(warm.log_probabilities(state, arms)[0])
    plain = cold.start(1, 6)
    plain.restore({name: array for name, array in state.arrays().items() if name in plain.arrays()})
    other = np.exp(cold.log_probabilities(plain, arms)[0])
    assert np.abs(p - other).sum() <= 2 * 0.05 / 0.95


def test_other_arms_than_before_are_no_trouble():
    """A remembered place may lie beyond the arms or hold another: a set that does not span is made anew."""
    agent = Agent(LinMED(design="warm"), dim=4, seed=3)
    rng = np.random.default_rng(5)
    for K in (200, 30, 9, 3, 60, 1, 500):
        arms = rng.standard_normal((K, 4))
        decision = agent.decide(arms)
        assert np.exp(decision.log_probabilities).sum() == pytest.approx(1.0, abs=1e-12)
        agent.learn(decision, 0.3)
    flat = np.zeros((40, 4))
    flat[:, :2] = rng.standard_normal((40, 2))
    assert agent.decide(flat).probability > 0


def test_what_cannot_be_warm_says_so():
    with pytest.raises(ValueError, match="design must be 'approx' or 'optimal' with version=1"):
        LinMED(design="warm", version=1)
    with pytest.raises(ValueError, match="design must be 'warm' for this"):
        LinMED().optimality(random_state(LinMED(), sphere(5, 2)))
    assert np.isnan(LinMED(design="warm").optimality(LinMED(design="warm").start(2, 3))).all()


@pytest.mark.parametrize(("K", "d"), [(6, 3), (8, 4), (3, 2)])
def test_few_arms_are_drawn_in_registers_as_the_stated_law_has_them(K, d):
    """`choose` states no law, and needs no design for so few arms: another route to the same arms."""
    rng, policy = np.random.default_rng(4), LinMED(sigma=0.3)
    arms, noise = sphere(K, d), rng.random((2000, 1))
    state, sets = random_state(policy, arms), np.repeat(arms, 2000, axis=0)
    played = policy.choose(state, sets, noise)
    np.testing.assert_array_equal(played, policy.decide(state, sets, noise).arm)
    assert len(np.unique(played)) > 1
