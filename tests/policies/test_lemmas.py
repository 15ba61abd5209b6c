"""The paper's lemmas about LinMED, held against the probabilities that the policy states.

f is worked out here from θ̂, V and β; q follows from p = q f / Σ q f and Σ q = 1.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linmed.policies import OFUL, LinMED, Uniform

ALPHAS = [(0.9, 0.05), (0.99, 0.005), (0.5, 0.25), (0.2, 0.4)]


@st.composite
def situations(draw):
    """A LinMED, a state after a few rewards and a set of arms within the unit ball (1,K,d)."""
    alpha_emp, alpha_opt = draw(st.sampled_from(ALPHAS))
    policy = LinMED(
        alpha_emp=alpha_emp,
        alpha_opt=alpha_opt,
        version=draw(st.sampled_from([0, 1])),
        explore=draw(st.booleans()),
        sigma=draw(st.sampled_from([0.1, 1.0])),
        ridge=draw(st.sampled_from([0.05, 1.0, 3.0])),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    K, dim, rewards = draw(st.integers(1, 60)), draw(st.integers(1, 18)), draw(st.integers(0, 60))
    arms = in_the_ball(rng, K, dim)
    state = policy.start(1, dim)
    features = in_the_ball(rng, rewards, dim)
    noisy = features[:, 0] + 0.3 * rng.standard_normal(rewards)
    policy.learn(state, features, noisy, np.zeros(rewards, dtype=np.int64))
    return policy, state, arms[None]


def in_the_ball(rng, count, dim):
    points = rng.standard_normal((count, dim))
    return points / np.linalg.norm(points, axis=1, keepdims=True) * rng.random((count, 1))


def quadratic(V, vectors):
    """‖v‖² in V⁻¹ of the rows."""
    return (vectors * np.linalg.solve(V, vectors.T).T).sum(axis=1)


def worked_out(policy, state, arms):
    """â, log f (K,) and the leverages (K,), from V itself: the inverse the policy keeps is not looked at."""
    A, lower = arms[0], np.tril(state.gram[0])
    V = lower + np.tril(lower, -1).T
    mean = A @ np.linalg.solve(V, state.moment[0])
    best = int(np.argmax(mean))
    distance2, gap = quadratic(V, A[best] - A), mean[best] - mean
    beta = policy.radius(state)[0] ** 2
    log_f = np.where(gap > 0.0, -(gap**2) / (beta * np.where(gap > 0.0, distance2, 1.0)), 0.0)
    return best, log_f, quadratic(V, A)


@settings(max_examples=150, deadline=None)
@given(situations())
def test_the_weights_sum_to_between_alpha_emp_and_one(situation):
    """Lemma sketch-lemma:deno-lemma: α_emp ≤ Σ q f ≤ 1."""
    policy, state, arms = situation
    best, log_f, leverage = worked_out(policy, state, arms)
    if policy.explore and (leverage > 1.0 - 1e-6).any():
        return  # p is no longer p' = q f / Σ q f
    log_p = policy.log_probabilities(state, arms)[0]
    total = 1.0 / np.exp(log_p - log_f).sum()  # Σ p/f = Σ q / Σ q f
    assert policy.alpha_emp - 1e-7 <= total <= 1.0 + 1e-7
    q = total * np.exp(log_p - log_f)
    assert q[best] >= policy.alpha_emp - 1e-7
    even = (1.0 - policy.alpha_emp - policy.alpha_opt) / len(q)
    assert (q >= even * (1.0 - 1e-6)).all()


@settings(max_examples=150, deadline=None)
@given(situations())
def test_the_empirically_best_arm_keeps_its_share(situation):
    """Lemma sketch-lemma:emp-best-arm-prob-lemma: p(â) ≥ α_emp, where no leverage exceeds 1.

    The paper states it for every round, and proves it for p'. While B_t is not empty Algorithm 1 plays
    p'/2 and its arm of B_t with the other half: then p(â) ≥ α_emp/2 and no more can be said.
    """
    policy, state, arms = situation
    best, _, leverage = worked_out(policy, state, arms)
    p = np.exp(policy.log_probabilities(state, arms)[0])
    share = policy.alpha_emp
    if policy.explore and leverage.max() > 1.0 + 1e-6:
        share /= 2.0
        widest = leverage >= leverage.max() * (1.0 - 1e-9)
        assert p[widest].sum() >= 0.5 - 1e-12
    elif policy.explore and leverage.max() > 1.0 - 1e-6:
        return  # rounding decides whether there is a B_t
    assert p[best] >= share - 1e-12


def test_the_empirically_best_arm_may_have_only_half_its_share_while_an_arm_is_unexplored():
    """α_emp itself would be too much to promise: one long arm that was never played."""
    policy = LinMED(ridge=0.01)
    state = policy.start(1, 2)
    for _ in range(300):
        policy.learn(state, np.array([[1.0, 0.0]]), np.array([1.0]), np.zeros(1, dtype=np.int64))
    p = np.exp(policy.log_probabilities(state, np.array([[[1.0, 0.0], [0.0, 1.0]]]))[0])
    assert policy.alpha_emp / 2 <= p[0] < policy.alpha_emp
    assert p[1] >= 0.5


@settings(max_examples=100, deadline=None)
@given(situations())
def test_a_weight_is_at_most_what_the_two_leverages_allow(situation):
    """Lemma sketch-lemma:denominator-expansion-lemma: f ≤ exp(−Δ̂² / (2β(‖â‖² + ‖a‖²))).

    Seen in p(a)/p(â) = q(a) f(a)/q(â) with q(a) ≤ 1 − α_emp and q(â) ≥ α_emp.
    """
    policy, state, arms = situation
    best, _, leverage = worked_out(policy, state, arms)
    if policy.explore and leverage.max() > 1.0 - 1e-6:
        return
    log_p = policy.log_probabilities(state, arms)[0]
    gap = (arms[0, best] - arms[0]) @ state.theta[0]
    allowed = -(gap**2) / (2.0 * policy.radius(state)[0] ** 2 * np.maximum(leverage + leverage[best], 1e-300))
    others = np.arange(len(gap)) != best
    most = np.log((1.0 - policy.alpha_emp) / policy.alpha_emp) + allowed
    assert (log_p[others] - log_p[best] <= most[others] + 1e-7).all()


@pytest.mark.parametrize(
    "policy", [LinMED(ridge=0.01), LinMED(explore=False), OFUL(ridge=0.1), Uniform(ridge=0.01)]
)
@pytest.mark.parametrize(("arms", "dim"), [(4, 2), (40, 5), (30, 20)])
def test_few_rounds_play_an_arm_of_large_leverage(policy, arms, dim):
    """Lemma app-lemma:epc-lemma: at most 3 d/L² ln(1 + 2/(L² λ)) rounds with ‖A_t‖² ≥ L² in V_{t−1}⁻¹, L ≤ 1.

    And app-lemma:epl-lemma: Σ ‖A_t‖² in V_t⁻¹ is at most 2d log(1 + t/(dλ)).
    """
    rng = np.random.default_rng(arms)
    rounds = 400
    offered = in_the_ball(rng, arms, dim)[None]
    offered[0, : arms // 2] /= np.linalg.norm(offered[0, : arms // 2], axis=1, keepdims=True)
    state = policy.start(1, dim)
    before, after = np.empty(rounds), np.empty(rounds)
    for t in range(rounds):
        arm = policy.choose(state, offered, rng.random((1, 1)))
        a = offered[0, arm[0]]
        before[t] = a @ state.inverse[0] @ a
        policy.learn(state, a[None], a[:1] + rng.standard_normal(1), np.zeros(1, dtype=np.int64))
        after[t] = a @ state.inverse[0] @ a
    assert (before >= 1.0).sum() + (policy.lam >= 1.0) > 0  # the count is about something
    for level in (1.0, 0.5, 0.1, 0.01):
        most = 3.0 * dim / level * np.log1p(2.0 / (level * policy.lam))
        assert (before >= level).sum() <= most
    assert after.sum() <= 2.0 * dim * np.log1p(rounds / (dim * policy.lam))
    np.testing.assert_allclose(np.log1p(before).sum(), state.logdet[0], rtol=1e-9)
