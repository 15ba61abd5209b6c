"""The paper's lemmas about LinMED, held against the probabilities and estimates of the policy.

f is worked out here from θ̂, V and β; q follows from p = q f / Σ q f and Σ q = 1. docs/paper.md says which
lemma is tested where, and which of them are misprinted.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linmed.design import approx_design
from linmed.policies import OFUL, LinMED, LinMEDNoDesign, Uniform

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


def gram(state, r=0):
    """V of a replica, of which the state keeps the lower half."""
    lower = np.tril(state.gram[r])
    return lower + np.tril(lower, -1).T


def quadratic(V, vectors):
    """‖v‖² in V⁻¹ of the rows."""
    return (vectors * np.linalg.solve(V, vectors.T).T).sum(axis=1)


def worked_out(policy, state, arms):
    """â, log f (K,) and the leverages (K,), from V itself: the inverse the policy keeps is not looked at."""
    A, V = arms[0], gram(state)
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


def within(vector, arms, weights):
    """‖vector‖² in V(w)⁻¹, as the least Σ c² with Σ c √w a = vector: that needs no inverse of V(w)."""
    found, *_ = np.linalg.lstsq((np.sqrt(weights)[:, None] * arms).T, vector, rcond=1e-14)
    return found @ found


@settings(max_examples=100, deadline=None)
@given(situations(), st.integers(0, 2**32))
def test_the_best_arm_has_the_leverage_that_its_design_promises(situation, seed):
    """Lemma sketch-lemma:leverage-score-lemma: ‖a*‖² in V(p)⁻¹ ≤ 2/α_opt e^{‖θ̂−θ*‖²/β} C_opt d log d, any θ*.

    Version 1 has e for the exponential, where a* is among the arms that are left. C_opt d log d is the
    largest leverage of the design that is played. And app-claim:confident-interval-equi-expectation-lemma.
    """
    policy, state, arms = situation
    _, log_f, _ = worked_out(policy, state, arms)
    A, V, rng = arms[0], gram(state), np.random.default_rng(seed)
    if log_f.min() < -25.0:
        return  # V(p) cannot be told from a singular matrix
    log_p = policy.log_probabilities(state, arms)[0]
    if policy.version == 0:
        left, designed = np.ones(len(A), dtype=bool), np.exp(0.5 * log_f)[:, None] * A
    else:
        left = log_f >= -1.0
        designed = A[left]
    q = approx_design(designed)
    largest = max(within(b, designed, q) for b in designed)
    beta = policy.radius(state)[0] ** 2
    for size in (0.1, 1.0, 3.0):
        theta = state.theta[0] + size * rng.standard_normal(A.shape[1])
        best, away = int(np.argmax(A @ theta)), theta - state.theta[0]
        stretch = np.exp(min(away @ V @ away / beta, 700.0)) if policy.version == 0 else np.e
        if left[best]:
            allowed = 2.0 / policy.alpha_opt * stretch * largest
            assert within(A[best], A, np.exp(log_p)) <= allowed * (1 + 1e-6)
        of_p = (np.exp(log_p)[:, None] * A).T @ A
        np.testing.assert_allclose(away @ of_p @ away, np.exp(log_p) @ (A @ away) ** 2, rtol=1e-9)


def test_without_the_design_the_best_arm_has_a_leverage_of_k():
    """The lemma is about the design: K − 1 equal arms and the best one (the paper's section 3)."""
    arms = np.repeat([[[0.0, 1.0]]], 1000, axis=1)
    arms[0, -1] = (1.0, 0.0)
    leverages = []
    for policy in (LinMED(), LinMEDNoDesign()):
        p = np.exp(policy.log_probabilities(policy.start(1, 2), arms)[0])
        leverages.append(within(arms[0, -1], arms[0], p))
    assert leverages[0] <= 2.0 / 0.05 * 2.0  # θ̂ = 0, f = 1, and the design of two directions
    assert leverages[1] == pytest.approx(1000.0)


@settings(max_examples=150, deadline=None)
@given(situations(), st.sampled_from([0.01, 0.1, 0.5, 1.0, 3.0]))
def test_the_empirically_best_arm_is_seldom_wider_than_the_arm_that_is_played(situation, level):
    """Claim app-lemma:epc-q1-abstract-lemma, round by round: 1{U(â)} ≤ P(U(A_t)) / α_emp for U = {‖a‖² ≥ ε}.

    The paper prints the complements of U, uses U, and proves either by p(â) ≥ α_emp. For U it holds in every
    round, because the arm of B_t has the largest leverage; for the complement only where B_t is empty.
    """
    policy, state, arms = situation
    best, _, leverage = worked_out(policy, state, arms)
    if np.abs(leverage - level).min() < 1e-6 or (policy.explore and abs(leverage.max() - 1.0) < 1e-6):
        return
    p, wide = np.exp(policy.log_probabilities(state, arms)[0]), leverage >= level
    assert wide[best] <= p[wide].sum() / policy.alpha_emp + 1e-12
    if not policy.explore or leverage.max() < 1.0:
        assert (not wide[best]) <= p[~wide].sum() / policy.alpha_emp + 1e-12


def test_the_claim_about_the_empirically_best_arm_is_false_as_printed():
    """One round, ε = 1: â is in the complement of U; the arm of B_t, which is not, has half of the play."""
    policy, arms = LinMED(ridge=0.01), np.array([[[0.05, 0.0], [0.0, 1.0]]])
    state = policy.start(1, 2)
    best, _, leverage = worked_out(policy, state, arms)
    p = np.exp(policy.log_probabilities(state, arms)[0])
    assert leverage[best] < 1.0 < leverage[1 - best]
    assert p[leverage < 1.0].sum() / policy.alpha_emp < 1.0


def played(policy, theta, rounds, replicas, sigma, seed):
    """Trials with ±σ noise: last state, A_t and θ̂_{t−1} (R,n,d), η_t and ‖A_t‖² in V_{t−1}⁻¹, V_t⁻¹ (R,n)."""
    rng = np.random.default_rng(seed)
    dim = len(theta)
    offered = in_the_ball(rng, 8, dim)[None]
    state = policy.start(replicas, dim)
    A, before = np.empty((replicas, rounds, dim)), np.empty((replicas, rounds, dim))
    eta = sigma * rng.choice([-1.0, 1.0], size=(replicas, rounds))
    earlier, later = np.empty((replicas, rounds)), np.empty((replicas, rounds))
    every = np.arange(replicas, dtype=np.int64)
    for t in range(rounds):
        a = offered[0, policy.choose(state, offered, rng.random((replicas, 1)))]
        A[:, t], before[:, t] = a, state.theta
        earlier[:, t] = np.einsum("ri,rij,rj->r", a, state.inverse, a)
        policy.learn(state, a, a @ theta + eta[:, t], every)
        later[:, t] = np.einsum("ri,rij,rj->r", a, state.inverse, a)
    return state, A, before, eta, earlier, later


THETA = np.array([0.6, -0.3, 0.2])


def test_the_regret_of_the_estimates_is_what_online_learning_says():
    """Lemmas sketch-lemma:regret-equality and -modified, for the estimates of a trial.

    The paper's F_t has λ‖θ‖² where θ̂ and the right-hand side have λ/2 ‖θ‖²: as printed there is no equality.
    """
    policy = LinMED(sigma=0.5, ridge=0.3)
    state, A, before, eta, _, later = played(policy, THETA, 60, 1, 0.5, seed=1)
    A, before, y, lam = A[0], before[0], A[0] @ THETA + eta[0], policy.lam
    estimates = [*before, state.theta[0]]  # θ̂_0 … θ̂_n

    def loss(s, theta):
        return 0.5 * (A[s] @ theta - y[s]) ** 2

    def F(t, theta, weight=lam / 2):  # F_t of the paper, t = 1 … n + 1
        return weight * theta @ theta + sum(loss(s, theta) for s in range(t - 1))

    n, other = len(y), np.array([-0.4, 0.9, 0.1])
    for t in (1, 20, n + 1):
        gradient = lam * estimates[t - 1] + A[: t - 1].T @ (A[: t - 1] @ estimates[t - 1] - y[: t - 1])
        np.testing.assert_allclose(gradient, 0.0, atol=1e-12)  # θ̂_{t−1} minimises F_t
    for theta in (THETA, other):
        regret = sum(loss(t, estimates[t]) - loss(t, theta) for t in range(n))
        steps = sum(
            F(t, estimates[t - 1]) - F(t + 1, estimates[t]) + loss(t - 1, estimates[t - 1])
            for t in range(1, n + 1)
        )
        first = lam / 2 * theta @ theta + steps + F(n + 1, estimates[n]) - F(n + 1, theta)
        error = estimates[n] - theta
        learned = sum(loss(t, estimates[t]) * later[0, t] for t in range(n))
        second = lam / 2 * theta @ theta + learned - 0.5 * error @ gram(state) @ error
        assert first == pytest.approx(regret, rel=1e-10)
        assert second == pytest.approx(regret, rel=1e-10)
        as_printed = F(n + 1, estimates[n], lam) - F(n + 1, theta, lam)
        assert abs(as_printed + 0.5 * error @ gram(state) @ error) > 1e-3


def test_the_estimates_err_as_little_as_online_learning_says():
    """Lemmas sketch-lemma:online-learning-lemma and -modified: Σ ⟨A_t, θ̂_{t−1} − θ*⟩² over 200 trials.

    Exactly, by trial, before expectations are taken: Σ r²(1 − D) is λ‖θ*‖² + Σ η²D + 2 Σ rη(1 − D) less
    ‖θ̂_n − θ*‖² in V_n. (The paper's proof has half of the third sum, whose mean is 0.) Each of the three
    statements about means would fail for a true policy with a probability below 1e-4.
    """
    policy, sigma, n, R = LinMED(sigma=0.5, ridge=0.05), 0.5, 150, 200
    state, A, before, eta, earlier, D = played(policy, THETA, n, R, sigma, seed=2)
    r = np.einsum("rti,rti->rt", A, before - THETA)
    noise, cross = (eta**2 * D).sum(axis=1), (r * eta * (1 - D)).sum(axis=1)
    error = state.theta - THETA
    last = np.array([error[i] @ gram(state, i) @ error[i] for i in range(R)])
    left, prior = (r**2 * (1 - D)).sum(axis=1), policy.lam * THETA @ THETA
    np.testing.assert_allclose(left, prior + noise + 2 * cross - last, rtol=1e-8, atol=1e-10)
    assert abs(cross.mean()) < 4 * cross.std() / np.sqrt(R)
    bound = prior + 2 * sigma**2 * len(THETA) * np.log1p(n / (len(THETA) * policy.lam))
    assert left.mean() + 4 * left.std() / np.sqrt(R) < bound
    assert left.mean() > 2 * prior  # which alone would be no bound
    narrow = (r**2 * (earlier <= 1.0)).sum(axis=1)
    assert 0 < (earlier > 1.0).sum() < earlier.size
    assert narrow.mean() + 4 * narrow.std() / np.sqrt(R) < 2 * bound
    assert (narrow <= 2 * left + 1e-12).all()


def test_a_leverage_is_at_most_one_before_a_reward_exactly_where_it_is_at_most_a_half_after():
    """Lemma sketch-lemma:matrix-inversion-lemma: ‖A‖² ≤ 1 in V_{t−1}⁻¹ ⟺ ‖A‖² ≤ 1/2 in V_t⁻¹ = u/(1 + u)."""
    *_, earlier, later = played(LinMED(ridge=0.05), THETA, 40, 20, 0.5, seed=3)
    np.testing.assert_allclose(later, earlier / (1.0 + earlier), rtol=1e-11)
    decided = np.abs(earlier - 1.0) > 1e-9
    assert ((earlier <= 1.0) == (later <= 0.5))[decided].all()
    assert 0 < (earlier > 1.0).sum() < earlier.size
