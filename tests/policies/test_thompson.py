"""Linear Thompson sampling: its scales, its draws and above all its marginal probabilities."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom, qmc

from linmed.core import core
from linmed.policies import LinTS, LogisticTS, thompson
from tests.policies.toy import ARMS, probabilities, random_state, sphere, state_of, with_more_points


@pytest.mark.parametrize("x", [-1e3, -40.0, -25.0, -24.99, -10.0, -3.0, 0.0, 2.0, 9.0])
def test_the_logarithm_of_the_normal_cdf_is_accurate_in_the_tail(x):
    with mpmath.workdps(60):
        exact = mpmath.log(mpmath.erfc(-mpmath.mpf(x) / mpmath.sqrt(2)) / 2)
        ours = core.normal.log_cdf(x)
        assert abs(ours / exact - 1) < 1e-13 if x <= 0 else abs(ours - exact) < 1e-16
        if x <= 0:
            ratio = mpmath.exp(exact) * mpmath.sqrt(2 * mpmath.pi) * mpmath.exp(mpmath.mpf(x) ** 2 / 2)
            assert abs(core.normal.mills_deficit(-x) / (1 + x * ratio) - 1) < 1e-10


def test_an_affine_plane_off_the_origin_is_integrated_as_a_plane():
    """Under V = λI only the differences and the part of θ̂ along them matter: two dimensions say the same."""
    flat = sphere(30, 2, seed=1)
    rng = np.random.default_rng(5)
    turn = np.linalg.qr(rng.standard_normal((5, 5)))[0][:2]
    policy = LinTS(scale="bayes")
    small, large = policy.start(1, 2), policy.start(1, 5)
    large.theta[:] = rng.standard_normal(5)
    small.theta[:] = turn @ large.theta[0]
    arms = flat @ turn + 10 * rng.standard_normal(5)
    np.testing.assert_allclose(
        probabilities(policy, arms, large), probabilities(policy, flat, small), atol=1e-9
    )
    np.testing.assert_array_equal(policy.propensity_error(large, arms), np.full((1, 30), 1e-9))


@pytest.mark.linux
def test_very_many_arms_are_decided_in_bounded_memory():
    """A table of all pairs would take 800 MB."""
    import resource  # not on Windows

    arms = sphere(10_000, 8)
    policy = LinTS()
    state = random_state(policy, arms, 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    choice = policy.decide(state, arms, np.random.default_rng(0).standard_normal((1, 8)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB
    assert np.exp(choice.log_probabilities).sum() == pytest.approx(1.0, abs=1e-12)


def distinct(arms):
    rows = np.empty(len(arms), dtype=np.int64)
    return rows[: core.normal.distinct(arms, rows)]


def test_duplicates_among_very_many_arms_are_found_at_once():
    rng = np.random.default_rng(0)
    arms = rng.integers(-3, 4, size=(100_000, 4)).astype(float)
    arms[arms == 0] *= rng.choice([-1.0, 1.0], size=(arms == 0).sum())  # minus zero is zero
    expected = np.sort(np.unique(arms + 0.0, axis=0, return_index=True)[1])
    np.testing.assert_array_equal(distinct(arms), expected)
    np.testing.assert_array_equal(distinct(np.ones((100_000, 4))), [0])
    np.testing.assert_array_equal(distinct(rng.standard_normal((50, 3))), np.arange(50))


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_only_corners_of_the_hull_are_possible(d):
    rng = np.random.default_rng(4)
    corners = sphere(6, d, seed=d)[0]
    inside = rng.dirichlet(np.ones(6), size=5) @ corners
    policy = LinTS(scale="bayes")
    arms = np.concatenate([inside, corners])[None]
    state = random_state(policy, arms, 20)
    p = probabilities(policy, arms, state)
    assert not p[:5].any()
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    if d == 1:
        assert np.count_nonzero(p) == 2


@pytest.mark.parametrize("d", [1, 2, 3])
def test_of_duplicates_only_the_first_is_possible(d):
    arms = sphere(4, d, seed=1) * np.array([0.7, 0.8, 0.9, 1.0])[:, None]
    policy = LinTS(scale="bayes")
    state = random_state(policy, arms, 12)
    p = probabilities(policy, arms, state)
    order = [2, 0, 1, 2, 3, 0, 2]
    doubled = probabilities(policy, arms[:, order], state)
    assert not doubled[[3, 5, 6]].any()
    np.testing.assert_allclose(doubled[[1, 2, 0, 4]], p[:4], atol=1e-3 if d > 2 else 1e-9)
    np.testing.assert_array_equal(probabilities(policy, np.zeros((1, 5, d)), state), [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(probabilities(policy, np.ones((1, 2, d)), state), [1, 0])


@pytest.mark.parametrize("floor", [0.0, 0.2])
def test_monte_carlo_propensities_count_the_played_draw_itself(floor):
    """X ~ Binomial(M, p): the mean of (X+1)/(M+1) over 20,000 replicas within 5 standard errors."""
    M, R = 50, 20_000
    policy = LinTS(scale="bayes", propensity=M, floor=floor)
    exact = LinTS(scale="bayes", floor=floor)
    many = policy.start(R, 2)
    many.restore({name: np.repeat(a, R, axis=0) for name, a in state_of(policy).arrays().items()})
    noise = np.random.default_rng(0).standard_normal((R, policy.noise_size(2)))
    choice = policy.decide(many, ARMS, noise)
    assert choice.log_probabilities is None
    p = probabilities(exact)
    hits = np.exp(choice.log_probability) * (M + 1) - 1
    np.testing.assert_allclose(hits, np.round(hits), atol=1e-9)
    for arm in range(3):
        mine = hits[choice.arm == arm]
        assert abs(mine.mean() - M * p[arm]) < 5 * math.sqrt(M * p[arm] * (1 - p[arm]) / len(mine))
        assert mine.var() == pytest.approx(binom.var(M, p[arm]), rel=0.15)
    again = policy.decide(many, ARMS, noise)
    np.testing.assert_array_equal(again.log_probability, choice.log_probability)


def test_without_propensities_nothing_is_claimed():
    policy = LinTS(propensity="none")
    choice = policy.decide(state_of(policy), ARMS, np.zeros((1, 2)))
    assert np.isnan(choice.log_probability).all()
    assert choice.log_probabilities is None


def test_an_arm_too_rare_to_be_met_is_still_reported_as_possible():
    """Drawn on purpose: 8 standard deviations towards an arm that the leader leaves no chance."""
    arms = np.concatenate([sphere(5, 4, seed=0), 1e-3 * np.ones((1, 1, 4))], axis=1)
    policy = LinTS(scale="bayes")
    state = policy.start(1, 4)
    state.theta[:] = 40 * arms[0, 0]
    z = -200 * arms[0, 0] + 150 * arms[0, 1]
    choice = policy.decide(state, arms, z[None])
    assert choice.arm[0] != 0
    assert np.isfinite(choice.log_probability).all()
    assert choice.log_probability[0] == choice.log_probabilities[0, choice.arm[0]]
    assert np.exp(choice.log_probabilities).sum() == pytest.approx(1.0, abs=1e-12)
    assert choice.error[0] == pytest.approx(np.exp(choice.log_probability[0]))


@pytest.mark.parametrize("unit", [1e-45, 1e-9, 1e9, 1e45])
def test_the_unit_of_the_arms_does_not_matter(unit):
    """With λ in proportion to the arms' squares the problem is the same."""
    for d in (2, 3):
        arms = sphere(5, d)
        plain, scaled = LinTS(scale=1.0, ridge=1.0), LinTS(scale=1.0, ridge=unit**2)
        np.testing.assert_allclose(
            probabilities(scaled, unit * arms, scaled.start(1, d)),
            probabilities(plain, arms, plain.start(1, d)),
            atol=1e-9,
        )


def test_a_played_arms_probability_is_not_below_its_own_error():
    """60 arms in 20 dimensions: some play is of an arm that is rarer than its error."""
    rng = np.random.default_rng(9)
    arms = rng.normal(size=(60, 20))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    policy = LinTS(scale="bayes", sigma=0.5)
    state = policy.start(1, 20)
    policy.learn(state, rng.normal(size=(40, 20)), rng.normal(size=40), np.zeros(40, dtype=np.int64))
    p = np.exp(policy.log_probabilities(state, arms[None])[0])
    noise = policy.draw_noise(rng, (20_000,), 20)
    played = policy.choose(state, np.repeat(arms[None], 1, axis=0), noise)
    rarest = noise[p[played].argsort()[:1]]
    choice = policy.decide(state, arms[None], rarest)
    assert p[choice.arm[0]] < 3e-5 < choice.error[0]
    assert np.exp(choice.log_probability[0]) >= min(choice.error[0], 3e-5)
    assert abs(np.exp(choice.log_probabilities).sum() - 1.0) <= 1e-12


@pytest.mark.parametrize("ratio", [1e3, 1e9, 1e11])
def test_features_in_units_far_apart_leave_no_arm_out(ratio):
    """The first feature is so long that the others are small beside it; they decide between three arms."""
    arms = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [ratio, 0.0, 0.0]])
    policy = LinTS()
    p = np.exp(policy.log_probabilities(policy.start(1, 3), arms[None])[0])
    np.testing.assert_allclose(p, [0.1875, 0.1875, 0.125, 0.5], atol=2e-3)


@pytest.mark.parametrize("size", [4.0**-13, 4.0**13])  # 1.5e-8, 6.7e7: λ is in powers of four
@pytest.mark.parametrize(
    "policy", [LinTS(scale="bayes", sigma=0.5, ridge="learned"), LogisticTS()], ids=lambda one: one.name
)
def test_the_unit_of_features_changes_no_draw_where_the_ridge_is_learned(policy, size):
    """What rounding leaves of a pivot is small beside the diagonal, not beside a number of some unit."""
    rng = np.random.default_rng(0)
    arms = rng.standard_normal((1, 6, 4))
    arms[0, 3:, 3] = arms[0, 3:, 2] * (1.0 + 1e-6)  # two features that hardly differ
    played, noise = arms[0][rng.integers(0, 6, 60)], rng.standard_normal((500, 4))
    laws, draws = [], []
    for unit in (1.0, size):
        state = policy.start(1, 4)
        policy.learn(state, unit * played, (played[:, 0] > 0.0) * 1.0, np.zeros(60, dtype=np.int64))
        laws.append(np.exp(policy.log_probabilities(state, unit * arms))[0])
        draws.append(policy.choose(state, np.repeat(unit * arms, 500, axis=0), noise))
    np.testing.assert_allclose(laws[1], laws[0], atol=1e-3)
    assert (draws[0] != draws[1]).mean() < 0.01
    assert abs(np.bincount(draws[1], minlength=6) / 500 - laws[1]).max() < 0.1


def test_eight_tails_of_the_normal_distribution_at_once():
    x = np.linspace(-40.0, 37.0, 80_000)
    out = np.empty_like(x)
    core.normal.upper_tails(x, out)
    np.testing.assert_allclose(out, ndtr(-x), rtol=3e-8)
    ends = np.array([np.inf, 1e300, 38.0, 0.0, -0.0, -38.0, -1e300, -np.inf])
    out = np.empty(8)
    core.normal.upper_tails(ends, out)
    np.testing.assert_allclose(out, [0, 0, 0, 0.5, 0.5, 1, 1, 1], rtol=2e-8, atol=1e-299)


def test_quantiles_of_the_normal_distribution():
    u = np.concatenate([np.linspace(1e-9, 1.0 - 1e-9, 2001), 2.0 ** -np.arange(2.0, 45.0)])
    x = [core.normal.quantile(one) for one in u]
    np.testing.assert_allclose(x, ndtri(u), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize(("dim", "points"), [(1, 64), (3, 8192), (40, 512), (161, 16)])
def test_sobol_points_are_those_of_scipy(dim, points):
    ours = np.empty((dim, points))
    core.normal.sobol_normals(ours)
    uniforms = qmc.Sobol(dim, seed=np.random.default_rng(0)).random(points)
    np.testing.assert_allclose(ours, ndtri(uniforms + 2.0**-31).T, rtol=1e-15, atol=1e-15)


def test_dimensions_past_the_table_of_directions_have_independent_normals():
    points = np.empty((500, 256))
    core.normal.sobol_normals(points)
    within = np.empty((161, 256))
    core.normal.sobol_normals(within)
    np.testing.assert_array_equal(points[:161], within)
    further = points[161:]
    assert abs(further.mean()) < 5 / np.sqrt(further.size)
    assert abs((further**2).mean() - 1.0) < 5 * np.sqrt(2 / further.size)
    assert np.abs(np.corrcoef(further) - np.eye(len(further))).max() < 7 / np.sqrt(256)


def learned(policy, K, d, rounds, seed=0):
    """Arms on the sphere and a state after so many rounds of the policy's own decisions."""
    rng = np.random.default_rng(seed)
    arms = sphere(K, d, seed)
    theta = sphere(1, d, seed + 1)[0, 0]
    state = policy.start(1, d)
    for noise in rng.standard_normal((rounds, 1, d)):
        row = arms[0, policy.choose(state, arms, noise)]
        policy.learn(state, row, row @ theta + rng.standard_normal(1), np.zeros(1, dtype=np.int64))
    return arms, state


@pytest.mark.parametrize("scale", ["frequentist", "bayes"])
@pytest.mark.parametrize("rounds", [10, 100, 1000])
@pytest.mark.parametrize(("K", "d", "accuracy"), [(10, 4, 3e-4), (100, 20, 6e-4), (400, 16, 6e-4)])
def test_the_error_is_small_and_honest_early_and_late(K, d, accuracy, rounds, scale, monkeypatch):
    policy = LinTS(scale=scale)
    arms, state = learned(policy, K, d, rounds)
    p, error = probabilities(policy, arms, state), policy.propensity_error(state, arms)[0]
    with_more_points(monkeypatch, 32)
    off = np.abs(p - probabilities(policy, arms, state))
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert (off > 3 * error + 1e-12).mean() <= 0.05
    assert (off <= 8 * error + 1e-12).all()
    assert np.sqrt((off**2).mean()) <= accuracy
    assert np.sqrt((error**2).mean()) <= 6e-4  # which is estimated: of few points, with a reserve


@pytest.mark.parametrize(("K", "d"), [(12, 4), (30, 6), (90, 12)])
def test_rays_and_lines_agree(K, d, monkeypatch):
    arms = sphere(K, d, seed=K) * np.linspace(0.6, 1.0, K)[:, None]
    policy = LinTS(scale="bayes")
    state = random_state(policy, arms, 60)
    with_more_points(monkeypatch, 8)
    monkeypatch.setattr(thompson, "POINTS", 8 * thompson.POINTS)
    laws = []
    for most_arms in (2048, 0):
        monkeypatch.setattr(thompson, "MOST_ARMS", most_arms)
        laws.append((probabilities(policy, arms, state), policy.propensity_error(state, arms)[0]))
    (by_rays, error), (by_lines, other) = laws
    np.testing.assert_allclose(by_lines, by_rays, atol=5e-4)
    assert (np.abs(by_lines - by_rays) <= 6 * np.hypot(error, other)).all()


def test_a_few_leading_arms_among_many_are_integrated_with_more_points():
    """203 arms of which three lead: a plane, once the rest, less than 1e-5 together, is left out."""
    arms = np.concatenate([sphere(3, 8, seed=1), 0.2 * sphere(200, 8, seed=2)], axis=1)
    policy = LinTS(scale=0.12, ridge=1.0)
    state = policy.start(1, 8)
    middle = arms[0, :3].sum(axis=0)
    state.theta[:] = middle / np.linalg.norm(middle)
    p, error = probabilities(policy, arms, state), policy.propensity_error(state, arms)[0]
    alone = probabilities(policy, arms[:, :3], state)
    rest = p[3:].sum()
    assert rest < 1e-5
    assert error[:3].max() < 1e-8
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(p[:3], (1.0 - rest) * alone, atol=1e-8)


def test_a_ray_through_the_mean_of_the_winners_is_no_corner():
    """An arm at the mean of all others has no direction of its own, and no chance."""
    corners = np.concatenate([np.eye(4), -np.eye(4)])[None]
    arms = np.concatenate([np.zeros((1, 1, 4)), corners], axis=1)
    policy = LinTS(scale=1.0)
    p = probabilities(policy, arms, policy.start(1, 4))
    assert p[0] == 0.0
    np.testing.assert_allclose(p[1:], 1 / 8, atol=5e-4)


def test_parallel_edges_are_no_trouble():
    """The corners of a cube tie along their rays in pairs; symmetry tells the answer."""
    arms = np.array([[[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]], dtype=float)
    policy = LinTS(scale=1.0)
    np.testing.assert_allclose(probabilities(policy, arms, policy.start(1, 3)), 1 / 8, atol=2e-4)
