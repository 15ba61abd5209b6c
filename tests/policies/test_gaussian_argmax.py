"""The integrals behind LinTS's probabilities: the methods agree, and the error they tell is honest."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from linmed.core import core
from linmed.policies import LinTS, thompson
from tests.policies.toy import probabilities, random_state, sphere, with_more_points


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
