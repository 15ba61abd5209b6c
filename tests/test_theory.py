"""The bounds: their constants, by an independent transcription of the lemma, and their promises."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from linmed.environments import EndOfOptimism, FixedArms, LargeGap, UnitBall
from linmed.policies import EXP2, LinMED, SpannerIGW, Uniform
from linmed.simulation import simulate
from linmed.theory import (
    Problem,
    c_opt,
    design_leverage,
    exp2_exploration_bound,
    exp2_lower_bound,
    spanner_igw_lower_bound,
)


def lemma(n, d, sigma, sigma_star, S, S_star, lam, B, gap, a_emp, a_opt, leverage, L):
    """The lemma for one L, term by term, at 50 digits."""
    mp.dps = 50
    n, d, lam, B = mpf(n), mpf(d), mpf(lam), mpf(B)
    logdet = d * mp.log(1 + n / (d * lam))
    radius = mp.sqrt(logdet + 2 * mp.log(n + 1))
    beta = (mpf(sigma) * radius + mp.sqrt(lam) * S) ** 2
    beta_star = (mpf(sigma_star) * radius + mp.sqrt(lam) * S_star) ** 2
    before = mp.sqrt(d * mp.log(1 + (n - 1) / (d * lam)) + 2 * mp.log(n))
    ratios = [
        ((sigma_star * u + mp.sqrt(lam) * S_star) / (sigma * u + mp.sqrt(lam) * S)) ** 2
        for u in (mpf(0), before)
    ]
    H = mp.e ** max(ratios)
    w = mpf(2) ** -L
    return (
        6 * d * B * (3 + 1 / mpf(a_emp) ** 2) * mp.log(1 + 2 / lam)
        + 2 * B * mp.log(n + 1)
        + 192 * beta * mp.log(n) * d / (w * B) * (1 + 1 / mpf(a_emp) ** 2)
        * mp.log(1 + 32 * beta * mp.log(n) / (lam * w**2 * B**2))
        + 192 * beta_star * d / (B * w) * mp.log(1 + 32 * beta_star / (lam * B**2 * w**2))
        + 512 * H * leverage / (a_opt * B * w) * (lam * mpf(S_star) ** 2 / 2 + mpf(sigma_star) ** 2 * logdet)
        + (n * B * w if B * w > gap else 0)
        + 4 * B / a_emp
    )  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [
        dict(n=10_000, d=2, sigma=1.0, sigma_star=1.0, S=1.0, S_star=1.0, B=1.0, gap=1.0),
        dict(n=10**9, d=5, sigma=0.1, sigma_star=0.2, S=1.0, S_star=0.5, B=2.0, gap=0.01),
        dict(n=10**15, d=3, sigma=0.01, sigma_star=0.01, S=2.0, S_star=3.0, B=1.0, gap=1e-9),
        dict(n=1, d=1, sigma=2.0, sigma_star=0.5, S=1.0, S_star=1.0, B=2.0, gap=0.5),
    ],
)
def test_regret_bound_is_the_smallest_value_of_the_lemma(case):
    lam, a_emp, a_opt, leverage = 0.7, 0.5, 0.25, 4.0
    expected = min(
        lemma(**case, lam=lam, a_emp=a_emp, a_opt=a_opt, leverage=leverage, L=L) for L in range(1, 90)
    )
    problem = Problem(
        case["d"], case["sigma"], case["sigma_star"], case["S"], norm_star=case["S_star"], ridge=lam,
        max_gap=case["B"], gap=case["gap"], alpha_emp=a_emp, alpha_opt=a_opt, leverage=leverage,
    )  # fmt: skip
    trivial = case["B"] * case["n"]
    assert problem.regret_bound(case["n"]) == pytest.approx(min(float(expected), trivial), rel=1e-12)


problems = {
    "n": st.integers(2, 10**12),
    "d": st.integers(1, 50),
    "sigma": st.floats(0.01, 10),
    "ratio": st.floats(0.1, 3),
    "gap": st.floats(1e-4, 1),
}


@settings(max_examples=50, deadline=None)
@given(**problems)
def test_the_theorems_are_never_below_the_lemma_they_follow_from(n, d, sigma, ratio, gap):
    problem = Problem(d, sigma, sigma * ratio, gap=gap, max_gap=1.0)
    # The theorem has the worst L of an interval; the lemma's smallest value is below it.
    assert problem.instance_bound(n) >= problem.regret_bound(n) * (1 - 1e-12)
    if n > 4 * (sigma * d) ** 2 * math.log(n) ** 3:  # else it is the trivial bound
        gapless = Problem(d, sigma, sigma * ratio, max_gap=1.0)
        assert gapless.minimax_bound(n) >= gapless.regret_bound(n) * (1 - 1e-12)


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 10**6), d=st.integers(1, 50), sigma=st.floats(0.01, 10), B=st.floats(0.1, 4))
def test_in_the_proofs_short_case_the_minimax_bound_is_the_trivial_one(n, d, sigma, B):
    bound = Problem(d, sigma, sigma, max_gap=B).minimax_bound(n)
    if n == 1 or n <= 4 * (sigma * d / B) ** 2 * math.log(n) ** 3:
        assert bound == B * n
    else:
        assert bound >= min(2 * sigma * d * math.sqrt(n) * math.log(n) ** 1.5, B * n)


def test_no_bound_is_above_what_anyone_can_lose():
    n = np.arange(1, 2000)
    problem = Problem(2, 1.0, 1.0, gap=0.5)
    for bound in (problem.regret_bound, problem.minimax_bound, problem.instance_bound):
        assert (bound(n) <= 2.0 * n).all()
        assert (np.diff(bound(n)) >= 0).all()
    assert Problem(2, 0.01, 0.01, gap=0.5).regret_bound(10**6) < 2.0 * 10**6


@pytest.mark.parametrize(
    "extremes",
    [
        {"sigma": 1e100, "max_gap": 1e-99, "ridge": 1.0},
        {"sigma": 1e-100, "ridge": 1.0},
        {"norm_bound": 1e-100, "norm_star": 1e100, "ridge": 1e-100},
        {"d": 2**53, "ridge": 1e-100, "max_gap": 1e-99, "alpha_emp": 1e-100},
        {"sigma": 1e-50},
    ],
)
def test_extreme_parameters_have_a_bound_and_no_warning(extremes):
    problem = Problem(**{"d": 2, "sigma": 1.0, "sigma_star": 1.0, **extremes})
    problem = replace(problem, gap=problem.B / 2)
    for bound in (problem.regret_bound, problem.minimax_bound, problem.instance_bound):
        assert (bound([1, 1000, 1e100]) <= problem.B * np.array([1, 1000, 1e100])).all()
    assert problem.h_max(1000) > 0


@settings(max_examples=40, deadline=None)
@given(**problems)
def test_bounds_grow_with_rounds_noise_and_leverage(n, d, sigma, ratio, gap):
    problem = Problem(d, sigma, sigma * ratio, gap=gap, max_gap=1.0)
    base = problem.regret_bound(n)
    assert problem.regret_bound(2 * n) >= base
    assert replace(problem, sigma_star=1.5 * sigma * ratio).regret_bound(n) >= base
    assert replace(problem, leverage=3.0 * d).regret_bound(n) >= base
    assert replace(problem, gap=gap / 2).regret_bound(n) >= base * (1 - 1e-12)
    assert replace(problem, gap=None).regret_bound(n) >= base * (1 - 1e-12)


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 10**9), d=st.integers(1, 50), sigma=st.floats(0.01, 10), ratio=st.floats(0.05, 5))
def test_h_max_is_e_for_over_specified_noise_and_as_the_corollary_says_below(n, d, sigma, ratio):
    value = Problem(d, sigma, sigma * ratio).h_max(n)
    assert math.e * (1 - 1e-12) <= value  # of the first round, where both radii are the norms
    limit = math.e if ratio <= 1 else math.exp(ratio**2)
    assert value <= limit * (1 + 1e-9)


def test_h_max_covers_every_round():
    """Against the definition: the ratio at every t, for determinants anywhere below their largest value."""
    n, d, lam, sigma, star, S, S_star = 300, 3, 0.4, 0.5, 0.9, 2.0, 0.7
    largest = 0.0
    for t in range(1, n + 1):
        for share in np.linspace(0, 1, 7):
            u = math.sqrt(share * d * math.log1p((t - 1) / (d * lam)) + 2 * math.log(t))
            ratio = ((star * u + math.sqrt(lam) * S_star) / (sigma * u + math.sqrt(lam) * S)) ** 2
            largest = max(largest, math.exp(ratio))
    value = Problem(d, sigma, star, S, norm_star=S_star, ridge=lam).h_max(n)
    assert largest <= value * (1 + 1e-12)
    assert value == pytest.approx(largest)  # and it is attained


def test_hopeless_under_specification_leaves_the_trivial_bound():
    assert Problem(2, 0.01, 10.0).h_max(10**6) == math.inf
    assert Problem(2, 0.01, 10.0).regret_bound(10**6) == 2.0 * 10**6


def test_growth_is_logarithmic_with_a_gap_and_like_the_root_without():
    n = np.array([1e20, 1e24])
    with_gap = Problem(2, 1.0, 1.0, gap=0.5, max_gap=1.0).regret_bound(n)
    without = Problem(2, 1.0, 1.0, max_gap=1.0).regret_bound(n)
    assert with_gap[1] / with_gap[0] < (24 / 20) ** 2.2
    slope = math.log10(without[1] / without[0]) / 4
    assert 0.5 < slope < 0.56


def test_several_horizons_at_once_are_each_as_alone():
    n = [1, 10, 1000]
    problem = Problem(2, 1.0, 0.5, gap=0.1)
    for bound in (problem.regret_bound, problem.minimax_bound, problem.instance_bound, problem.h_max):
        np.testing.assert_allclose(bound(n), [bound(m) for m in n], rtol=1e-14)


def test_version_1_has_e_for_h_max_and_needs_over_specification():
    first, second = (Problem(2, 2.0, 1.0, version=version) for version in (0, 1))
    assert second.regret_bound(100) >= first.regret_bound(100)
    assert second.h_max(100) == math.e


def test_the_designs_leverage_is_measured():
    rng = np.random.default_rng(0)
    arms = rng.standard_normal((40, 4))
    assert design_leverage(arms, "optimal") == pytest.approx(4, rel=1e-5)
    assert 4 <= design_leverage(arms) <= 3 * 4
    flat = arms * [1, 1, 0, 0]
    assert design_leverage(flat, "optimal") == pytest.approx(2, rel=1e-5)
    assert c_opt(8.0, 4) == pytest.approx(8 / (4 * math.log(4)))
    assert c_opt(1.0, 1) == math.inf


# At the noise of the paper's experiments the bound exceeds n·B, which no policy can; so: little noise.
QUIET = [
    (LargeGap(sigma=0.01), 2, 2, 1.0, 1.0, 0.01),
    (LargeGap(sigma=0.001), 2, 2, 1.0, 1.0, 0.002),  # over-specified
    (LargeGap(sigma=0.002), 2, 2, 1.0, 1.0, 0.001),  # under-specified
    (EndOfOptimism(eps=0.4, sigma=0.001), 2, 3, 0.4, 1.0, 0.001),
    (UnitBall(arms=6, dim=3, sigma=0.001), 3, 6, None, 2.0, 0.001),
]


SHARES = [(0.99, 0.005), (0.9, 0.05), (0.5, 0.25)]


@pytest.mark.parametrize(
    ("environment", "d", "arms", "gap", "max_gap", "sigma", "shares"),
    [(*case, SHARES[place % 3]) for place, case in enumerate([*QUIET, QUIET[0]])],
)
def test_simulated_means_are_below_the_bound_and_below_what_anyone_can_lose(
    environment, d, arms, gap, max_gap, sigma, shares
):
    horizon = 20_000
    policy = LinMED(sigma=sigma, alpha_emp=shares[0], alpha_opt=shares[1])
    results = simulate(policy, environment, horizon, 10, progress=False)
    problem = Problem(
        d, sigma, environment.sigma, gap=gap, max_gap=max_gap,
        alpha_emp=shares[0], alpha_opt=shares[1], leverage=float(arms),  # K ≤ 2d: at most K
    )  # fmt: skip
    bound = problem.regret_bound(results.checkpoints)
    assert bound[-1] < 0.7 * max_gap * horizon
    assert (results.mean(policy.name) + 5 * results.standard_error(policy.name) < bound).all()


def test_a_policy_that_learns_nothing_breaks_the_bound():
    results = simulate(Uniform(), LargeGap(sigma=0.01), 20_000, 2, progress=False)
    problem = Problem(2, 0.01, 0.01, gap=1.0, max_gap=1.0, leverage=2.0)
    assert results.mean("Uniform")[-1] > problem.regret_bound(20_000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 0}, "n must be"),
        ({"n": 1.5}, "n must be"),
        ({"n": []}, "n must be"),
        ({"n": math.nan}, "n is nan"),
        ({"d": 0}, "d must be at least 1"),
        ({"d": 10**400}, "d must be finite"),
        ({"sigma": 1e-100, "norm_bound": 1e100}, "give a ridge σ²/S² that is not between"),
        ({"sigma": 1e100, "norm_bound": 1e-100}, "give a ridge σ²/S² that is not between"),
        ({"sigma": 0.0}, "sigma must be positive"),
        ({"sigma_star": -1.0}, "sigma_star must lie in"),
        ({"norm_bound": 0.0}, "norm_bound must be positive"),
        ({"norm_star": -1.0}, "norm_star must be positive"),
        ({"ridge": 0.0}, "ridge must be positive"),
        ({"max_gap": 0.0}, "max_gap must be positive"),
        ({"gap": 0.0}, "gap must be positive"),
        ({"gap": 3.0}, "gap must be at most max_gap=2"),
        ({"alpha_emp": 0.0}, "alpha_emp must be positive"),
        ({"alpha_emp": 0.99, "alpha_opt": 0.5}, "must be at most 1"),
        ({"leverage": -1.0}, "leverage must be positive"),
        ({"version": 2}, "version must be one of 0, 1"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {"d": 2, "sigma": 1.0, "sigma_star": 1.0, **change}
    rounds = arguments.pop("n", 10)
    with pytest.raises(ValueError, match=message):
        Problem(**arguments).regret_bound(rounds)


# ---- lower bounds


def expected_regret(policy, rounds, gap, dim, best=0):
    """Exact, without noise: other arms pay 0 and teach nothing, so pulls of the best are all the state."""
    arms, state, losing = np.eye(dim)[None], policy.start(1, dim), np.empty(rounds)
    for pulls in range(rounds):
        losing[pulls] = 1 - np.exp(policy.log_probabilities(state, arms))[0, best]
        features = policy.features(state, arms, np.array([best]))
        policy.learn(state, features, np.array([gap]), np.array([0]))
    reached, regret = np.zeros(rounds), 0.0
    reached[0] = 1.0
    for _ in range(rounds):
        regret += gap * float(reached @ losing)
        moving = reached * (1 - losing)
        reached -= moving
        reached[1:] += moving[:-1]
    return regret


@pytest.mark.parametrize("n", [1, 2, 7, 60, 1000])
@pytest.mark.parametrize(("dim", "gap", "best"), [(2, 1.0, 0), (2, 0.05, 1), (3, 5.0, 2), (7, 0.4, 0)])
def test_no_policy_beats_its_lower_bound(n, dim, gap, best):
    theta = gap * np.eye(dim)[best]
    exact = expected_regret(EXP2(horizon=n), n, gap, dim, best) * (1 + 1e-9)
    assert exp2_lower_bound(n, gap, dim) <= exact
    assert exp2_exploration_bound(n, np.eye(dim), theta) <= exact
    for options in ({}, {"C_opt": 1.0, "delta": 0.25}):
        for design in ("approx", "optimal"):
            policy = SpannerIGW(horizon=n, design=design, **options)
            exact = expected_regret(policy, n, gap, dim, best) * (1 + 1e-9)
            assert spanner_igw_lower_bound(n, gap, dim, **options) <= exact


def test_the_bound_of_spanner_igw_is_not_below_the_papers_proof():
    """With that proof's η (d = 2, δ = 1/4, C_opt = 1, c = d); the default's is smaller, its bound larger."""
    n = np.array([8, 100, 10**4, 10**6])
    eta = 0.5 * np.sqrt(2 * n / (2 * np.log(n) + 32 * math.log(2 / 0.25)))
    found = spanner_igw_lower_bound(n, C_opt=1.0, delta=0.25)
    each = 0.25 / (1 + eta)  # what the proof has for a round after both arms have been pulled
    assert (found >= n * each).all()
    assert found[-1] < 1.01 * n[-1] * each[-1]
    assert (spanner_igw_lower_bound(n) > found).all()
    by_default = math.sqrt(10**4 / (4 * 2 * (2 * math.log(10**4) + 32 * math.log(2 * (10**4 + 1)))))
    for options, expected in (({"C_opt": 1.0, "delta": 0.25}, eta[2]), ({}, by_default)):
        policy = SpannerIGW(horizon=10**4, **options)
        gamma = policy.exploration(policy.start(1, 2))[0]  # the policy itself has η = γ/(C_opt d)
        assert gamma / (2 * policy.C_opt) == pytest.approx(expected)


def test_on_the_papers_instance_the_lower_bounds_are_nearly_attained():
    n = 3000
    assert exp2_lower_bound(n) > 0.99 * expected_regret(EXP2(horizon=n), n, 1.0, 2)
    assert spanner_igw_lower_bound(n) > 0.99 * expected_regret(SpannerIGW(horizon=n), n, 1.0, 2)


def test_simulated_policies_agree_with_the_lower_bounds_over_longer_runs():
    n = 50_000
    rivals = [EXP2(horizon=n), SpannerIGW(horizon=n)]
    results = simulate(rivals, LargeGap(sigma=0.0), n, 20, progress=False)
    for policy, bound in zip(rivals, (exp2_lower_bound(n), spanner_igw_lower_bound(n)), strict=True):
        assert abs(results.mean(policy.name)[-1] - bound) < 5 * results.standard_error(policy.name)[-1]


def test_the_exploration_bound_holds_whatever_the_noise_and_the_arms():
    arms, theta, n = np.array([[1, 0], [0.6, 0.8], [-0.3, 0.1], [0, -1]]), np.array([0.9, -0.2]), 2000
    for sigma in (0.0, 2.0):
        environment = FixedArms(arms, theta, sigma=sigma)
        results = simulate(EXP2(horizon=n), environment, n, 20, progress=False)
        least = results.mean("EXP2")[-1] - 3 * results.standard_error("EXP2")[-1]
        assert exp2_exploration_bound(n, arms, theta) < least


def test_the_exploration_bound_is_the_papers_with_its_half():
    n = np.array([2, 100, 10**6])
    found = exp2_exploration_bound(n, np.eye(2), [3.0, 0.0])
    np.testing.assert_allclose(found, 3 * np.sqrt(n * math.log(2) / 6))
    assert exp2_exploration_bound(5, [[1.0, 2.0]], [1.0, 1.0]) == 0.0
    # Two arms on a line have rank 1, of which only the longer one carries the design.
    assert exp2_exploration_bound(12, [[2, 0], [1, 0]], [-1, 0]) == pytest.approx(math.sqrt(4 * math.log(2)))


@settings(max_examples=80, deadline=None)
@example(n=1, gap=1e-6, dim=16511, delta=1.0)
@given(
    n=st.integers(1, 10**12), gap=st.floats(1e-6, 1e3), dim=st.integers(2, 10**6), delta=st.floats(1e-9, 1)
)
def test_lower_bounds_grow_with_the_horizon_and_are_below_what_anyone_can_lose(n, gap, dim, delta):
    horizons = np.array([n, n + 1, 2 * n, 10 * n])
    for bound in (
        exp2_lower_bound(horizons, gap, dim),
        spanner_igw_lower_bound(horizons, gap, dim),
        spanner_igw_lower_bound(horizons, gap, dim, delta=delta, C_opt=1.0),
    ):
        assert (np.diff(bound) >= -1e-9 * bound[1:]).all()
        assert (bound > 0).all()
        assert (bound <= gap * horizons * (dim - 1) / dim * (1 + 1e-9)).all()


def test_lower_bounds_of_large_horizons_are_of_the_papers_order_and_need_no_gap():
    n = np.array([1e12, 1e14])
    for bound, power in ((exp2_lower_bound, 0.0), (spanner_igw_lower_bound, 0.5)):
        order = np.sqrt(n) * np.log(n) ** power
        assert bound(n)[1] / order[1] == pytest.approx(bound(n)[0] / order[0], rel=0.02)
        assert bound(n, 0.01)[1] == pytest.approx(bound(n)[1], rel=0.15)


@pytest.mark.parametrize("bound", [exp2_lower_bound, spanner_igw_lower_bound])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n": 0}, "n must be"),
        ({"n": [10, 2.5]}, "n must be"),
        ({"n": []}, "n must be"),
        ({"gap": 0.0}, "gap must be positive"),
        ({"gap": math.nan}, "gap must be finite"),
        ({"dim": 1}, "dim must be at least 2"),
        ({"dim": 2.0}, "dim must be a whole number"),
    ],
)
def test_bad_arguments_of_lower_bounds_are_named(bound, wrong, message):
    with pytest.raises((ValueError, TypeError), match=message):
        bound(**{"n": 10, **wrong})


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: spanner_igw_lower_bound(10, C_opt=0.0), "C_opt must be positive"),
        (lambda: spanner_igw_lower_bound(10, delta=0.0), "delta must lie in"),
        (lambda: exp2_exploration_bound(10, np.eye(2), [1, 0, 0]), "theta has shape"),
        (lambda: exp2_exploration_bound(0, np.eye(2), [1, 0]), "n must be"),
        (lambda: Problem(2, 1.0, 1.0).instance_bound(10), "gap must be given"),
        (lambda: Problem(2, 1.0, 2.0, version=1), "version 1 has a bound only where"),
    ],
)
def test_bad_arguments_of_single_bounds_are_named(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()
