"""The core's models of items, catalogue decisions and verdicts against a few lines of NumPy."""

import numpy as np
import pytest

from linmed.catalogue_sampler import CatalogueSampler
from linmed.design import approx_design
from linmed.features import Catalogue
from linmed.insight.best_arm import judge, look
from linmed.policies import OFUL, CatalogueMED, Disjoint, Hybrid, LinMED
from tests.reference import models
from tests.reference.rules import oful, ridge


def situation(inside, shared, own, count, rewards=80):
    """A policy around models of items after rewards; its arms, also written out, and θ̂, V⁻¹ of the latter."""
    rng = np.random.default_rng(count)
    policy = Hybrid(inside, shared=shared) if shared else Disjoint(inside)
    features = rng.normal(size=(rewards, 1 + shared + own)) / np.sqrt(shared + own)
    features[:, 0] = rng.integers(count, size=rewards)
    paid, arms = rng.normal(size=rewards), rng.normal(size=(count, 1 + shared + own))
    arms[:, 0] = rng.integers(count, size=count)
    state = policy.start(1, arms.shape[1])
    policy.learn(state, features, paid, np.zeros(rewards, dtype=np.int64))
    V, theta = ridge(inside.lam, models.written_out(features, count, shared), paid)
    return policy, state, arms, models.written_out(arms, count, shared), theta, V


@pytest.mark.parametrize("shared", [0, 2])
@pytest.mark.parametrize(("own", "count"), [(1, 3), (3, 9), (5, 20)])
def test_models_of_items_are_one_ridge_regression_with_the_zeros_written_out(shared, own, count):
    policy, state, arms, written, theta, V = situation(LinMED(sigma=0.5), shared, own, count)
    inverse = np.linalg.inv(V)
    mean, gram = policy.look(state, arms[None], distances=True)
    assert np.allclose(mean[0], written @ theta, rtol=1e-10, atol=1e-12)
    assert np.allclose(gram[0], written @ inverse @ written.T, rtol=1e-10, atol=1e-12)
    logdet = np.linalg.slogdet(V / policy.asked.lam)[1]
    assert state.arrays()["logdet"][0] == pytest.approx(logdet, rel=1e-10)
    shares = policy.asked.alpha_emp, policy.asked.design_share
    radius = float(policy.radius(state)[0])
    # The design is made among the models that are offered, and scaled by √f.
    offered = written[:, written.any(axis=0)]
    best = int(np.argmax(written @ theta))
    scaled = np.exp(0.5 * models.log_f(theta, inverse, radius, written, best))[:, None] * offered
    design = approx_design(scaled)
    expected = models.linmed(theta, inverse, radius, written, design, *shares)
    assert np.allclose(
        np.exp(policy.log_probabilities(state, arms[None])[0]), expected, rtol=1e-9, atol=1e-13
    )


@pytest.mark.parametrize("shared", [0, 2])
def test_an_optimist_plays_the_same_item(shared):
    policy, state, arms, written, theta, V = situation(OFUL(sigma=0.5), shared, 3, 12)
    played = policy.choose(state, arms[None], np.zeros((1, 1)))[0]
    assert played == oful(theta, np.linalg.inv(V), float(policy.radius(state)[0]), written)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rewards", [3, 200])
def test_decisions_among_a_catalogue(dtype, rewards):
    """Contexts are multiplied with items; the design stands on the coreset and â alone."""
    rng = np.random.default_rng(rewards)
    rows = rng.normal(size=(60, 3)).astype(dtype)
    context = np.array([0.4, -1.1])
    B = np.kron(context[:, None], np.eye(3))
    policy = CatalogueMED(sigma=0.5)
    state = policy.start(1, 6)
    features, paid = rng.normal(size=(rewards, 6)) / 2.0, rng.normal(size=rewards)
    policy.learn(state, features, paid, np.zeros(rewards, dtype=np.int64))
    made = CatalogueSampler(policy, Catalogue(range(60), rows), lift=lambda _: (B, np.zeros(6)))
    law = made.law(state)

    arms, radius = rows.astype(np.float64) @ B.T, float(policy.radius(state)[0])
    V, theta = ridge(policy.lam, features, paid)
    inverse, best = np.linalg.inv(V), int(np.argmax(arms @ theta))
    assert law.best == best
    log_f = models.log_f(theta, inverse, radius, arms, best)
    assert np.allclose(law.log_f(np.arange(60)), log_f, rtol=1e-9, atol=1e-12)
    design = np.zeros(60)
    design[law.support] = approx_design(np.exp(0.5 * log_f[law.support])[:, None] * rows[law.support])
    leverage = np.zeros(60)
    leverage[law.support] = models.leverages(inverse, arms[law.support])
    q = models.proposal(theta, arms, design, policy.alpha_emp, policy.design_share)
    expected = models.explored(q * np.exp(log_f), leverage)
    assert np.allclose(np.exp(law.log_probabilities(np.arange(60))), expected, rtol=1e-9, atol=1e-13)
    every = law.complete()
    assert every.sum() == pytest.approx(1.0, abs=1e-12)
    assert every[best] == pytest.approx(1.0 - expected.sum() + expected[best], rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_the_best_items_by_inner_product(dtype):
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(3000, 7)).astype(dtype)
    rows[2000] = rows[10]  # of equal ones the first
    queries = np.concatenate([rng.normal(size=(4, 7)), rows[10:11].astype(np.float64)])
    routes = CatalogueSampler(CatalogueMED(), Catalogue(range(3000), rows))
    routes.follow()
    scores = queries @ rows.astype(np.float64).T
    assert routes.index.top(queries, 4).tolist() == np.argsort(-scores, axis=1, kind="stable")[:, :4].tolist()


@pytest.mark.parametrize(("count", "dim"), [(2, 2), (6, 3), (15, 5)])
@pytest.mark.parametrize("rewards", [5, 60, 2000])
def test_verdicts(count, dim, rewards):
    rng = np.random.default_rng(count)
    arms, theta_star = rng.normal(size=(count, dim)), rng.normal(size=dim)
    theta_star *= 2.0 / np.linalg.norm(theta_star)  # within norm_bound, or rewards refute it
    features = arms[rng.integers(count, size=rewards)]
    paid = features @ theta_star + 0.3 * rng.normal(size=rewards)
    by = judge(LinMED(sigma=0.3, norm_bound=3.0), 0.05)
    state = by.start(1, dim)
    by.learn(state, features, paid, np.zeros(rewards, dtype=np.int64))
    V, theta = ridge(by.lam, features, paid)
    found, inverse, radius = look(by, state, arms), np.linalg.inv(V), float(by.radius(state)[0])
    assert found.best == int(np.argmax(arms @ theta))
    assert found.candidates == models.candidates(theta, inverse, radius, arms)
    assert found.margin == pytest.approx(models.margin(theta, inverse, radius, arms), rel=1e-9, abs=1e-12)
    gap = found.difference(0, 1)
    apart = arms[0] - arms[1]
    width = radius * np.sqrt(apart @ inverse @ apart)
    assert gap == pytest.approx((theta @ apart, theta @ apart - width, theta @ apart + width), rel=1e-9)
