"""A part of θ that all items share: the block model to 1e-10, also after many rewards."""

import numpy as np
import pytest

from linmed.policies import GLMMED, OFUL, Hybrid, LinMED, LogisticMED, RandUCB
from tests.policies.block_model import compare, sets_of_items, written_out


@pytest.mark.parametrize(
    "inside",
    [
        LinMED(sigma=0.3),
        LinMED(sigma="unknown", version=1),
        LinMED(sigma=0.3, confidence="empirical"),
        OFUL(sigma=0.3, floor=0.1),
        RandUCB(sigma=0.3, spread=0.5),
        LinMED(sigma="unknown", ridge="learned"),
        LogisticMED(),
        LogisticMED(norm_bound=2.0, confidence="certified", intercept=False),
        GLMMED(family="poisson", norm_bound=1.0, floor=0.1),
    ],
    ids=lambda policy: policy.name,
)
@pytest.mark.parametrize("shared", [1, 4])
def test_it_equals_the_block_model_along_2000_rounds(inside, shared):
    assert (compare(inside, shared) <= 1e-10).all()


def test_what_one_item_teaches_about_shared_features_all_know():
    policy = Hybrid(LinMED(), shared=1)
    state, rows = policy.start(1, 3), np.zeros((50, 3))
    rows[:, 1] = 1.0
    policy.learn(state, rows, np.ones(50), np.zeros(50, dtype=np.int64))
    unseen = np.array([[7.0, 1.0, 0.0], [7.0, 0.0, 1.0]])
    np.testing.assert_allclose(policy.expected(state, unseen), [50 / 51, 0.0], rtol=1e-12)


def test_nothing_drifts_in_300000_rewards():
    """Of features of which the shared one is nearly the item's own, with an item that is seldom seen."""
    rng = np.random.default_rng(1)
    shared, own, models, count = 2, 2, 4, 300_000
    inside = LinMED(sigma=0.3)
    policy, state = Hybrid(inside, shared=shared), None
    rows = sets_of_items(rng, count, 1, models, 1 + shared + own)[:, 0, 0]
    rows[:, 1] = rows[:, 3] + 0.01 * rows[:, 1]
    rows[:, 0] = np.where(rng.random(count) < 1e-3, 3, rows[:, 0] % 3)
    zeros = written_out(rows, models, shared)
    rewards = zeros @ rng.normal(size=zeros.shape[1]) + 0.3 * rng.normal(size=count)
    owners = np.zeros(count, dtype=np.int64)
    state, block = policy.start(1, rows.shape[1]), inside.start(1, zeros.shape[1])
    policy.learn(state, rows, rewards, owners)
    inside.learn(block, zeros, rewards, owners)
    np.testing.assert_allclose(state.theta, block.theta, rtol=0, atol=1e-10)
    arms = sets_of_items(rng, 1, 4, models, rows.shape[1])[0]
    offered = written_out(arms, models, shared)
    mean, gram = policy.look(state, arms, distances=True)
    expected = np.einsum("id,de,je->ij", offered[0], block.inverse[0], offered[0])
    np.testing.assert_allclose(gram[0], expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    np.testing.assert_allclose(mean[0], offered[0] @ block.theta[0], rtol=0, atol=1e-10)
    for mine, theirs in zip(policy.radius(state), inside.radius(block), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-10)


@pytest.mark.parametrize("size", [1e-8, 1.0, 100.0])
def test_features_of_any_size_equal_the_block_model(size):
    """Each arm three times: what rounding leaves of z − Wx is no knowledge."""
    rng = np.random.default_rng(9)
    inside, shared, models = LinMED(sigma=0.3), 2, 3
    policy = Hybrid(inside, shared=shared)
    rows = size * sets_of_items(rng, 12, 1, models, 5)[:, 0, 0]
    rows[:, 0] = np.arange(12) % models
    rows = np.repeat(rows, 3, axis=0)
    zeros, rewards = written_out(rows, models, shared), rng.normal(size=36)
    owners = np.zeros(36, dtype=np.int64)
    state, block = policy.start(1, 5), inside.start(1, zeros.shape[1])
    policy.learn(state, rows, rewards, owners)
    inside.learn(block, zeros, rewards, owners)
    np.testing.assert_allclose(policy.radius(state), inside.radius(block), rtol=1e-9)
    mine, theirs = (
        policy.log_probabilities(state, rows[None, :3].copy()),
        inside.log_probabilities(block, zeros[None, :3].copy()),
    )
    np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9)
