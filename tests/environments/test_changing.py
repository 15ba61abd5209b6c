"""Worlds that change: how θ* moves, and that regret is against the best arm of each round."""

from itertools import islice

import numpy as np
import pytest

from linmed import Uniform, simulate
from linmed.environments import (
    Block,
    ChangeEvery,
    Delayed,
    Environment,
    OneChange,
    Pricing,
    RandomWalk,
    Season,
    UnitBall,
)
from linmed.policies import LinMED
from linmed.simulation import Decided, attainable
from linmed.streams import stream

MOVING = [
    OneChange(at=700),
    OneChange(at=1024, distance=1.0),
    ChangeEvery(every=300),
    ChangeEvery(every=2000, distance=0.3),
    RandomWalk(step=0.05),
    Season(period=200, distance=1.5),
]


def trial(environment, blocks=3, seed=4):
    return list(islice(environment.blocks(np.random.default_rng(seed)), blocks))


def path(environment, blocks=3, seed=4):
    """θ* of every round, found from the means."""
    found = []
    for block in trial(environment, blocks, seed):
        means = np.broadcast_to(block.means, (environment.block_rounds, block.arms.shape[0]))
        found.append(np.linalg.lstsq(block.arms, means.T, rcond=None)[0].T)
    return np.concatenate(found)


@pytest.mark.parametrize("environment", MOVING, ids=lambda e: e.name)
def test_arms_noise_and_the_first_theta_are_those_of_the_unit_ball(environment):
    still = trial(UnitBall())
    for moving, resting in zip(trial(environment), still, strict=True):
        np.testing.assert_array_equal(moving.arms, resting.arms)
        np.testing.assert_array_equal(moving.noise, resting.noise)
        assert moving.arms.shape == (10, 5)  # never one set a round
    np.testing.assert_allclose(np.atleast_2d(trial(environment)[0].means)[0], still[0].means, rtol=1e-12)


@pytest.mark.parametrize("environment", MOVING, ids=lambda e: e.name)
def test_theta_stays_on_the_sphere(environment):
    np.testing.assert_allclose(np.linalg.norm(path(environment), axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize(
    ("environment", "jumps"),
    [
        (OneChange(at=700), [700]),
        (OneChange(at=1024), [1024]),
        (OneChange(at=1500, distance=0.5), [1500]),
        (ChangeEvery(every=500), [500, 1000, 1500, 2000, 2500, 3000]),
        (ChangeEvery(every=1000, distance=2.0), [1000, 2000, 3000]),
    ],
)
def test_theta_jumps_when_it_should_and_rests_between(environment, jumps):
    steps = np.linalg.norm(np.diff(path(environment), axis=0), axis=1)
    assert np.flatnonzero(steps > 1e-6).tolist() == [jump - 1 for jump in jumps]
    if environment.distance is not None:
        np.testing.assert_allclose(steps[steps > 1e-6], environment.distance, rtol=1e-9)


def test_a_resting_theta_keeps_its_array_of_means():
    first, second, third, fourth = trial(OneChange(at=1500), blocks=4)
    assert first.means.shape == third.means.shape == (10,)
    assert second.means.shape == (1024, 10)
    np.testing.assert_allclose(third.means, second.means[-1], rtol=1e-12)
    assert fourth.means is third.means


def test_the_walk_has_the_steps_it_was_told():
    steps = np.diff(path(RandomWalk(step=0.01, dim=5), blocks=20), axis=0)
    # Along the sphere d − 1 coordinates move: mean ‖Δ‖² is 4 step², within 5 standard errors of the mean.
    lengths2 = (steps**2).sum(axis=1)
    error = 5 * lengths2.std() / np.sqrt(len(lengths2))
    assert abs(lengths2.mean() - 4e-4) < error


def test_a_season_comes_back_and_reaches_its_width():
    thetas = path(Season(period=256, distance=1.2))
    np.testing.assert_allclose(thetas[256:512], thetas[:256], atol=1e-9)
    assert np.linalg.norm(thetas[64] - thetas[192]) == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda: OneChange(at=0), "at"),
        (lambda: OneChange(distance=2.5), "distance"),
        (lambda: ChangeEvery(distance=0), "distance"),
        (lambda: ChangeEvery(every=0), "every"),
        (lambda: RandomWalk(step=0), "step"),
        (lambda: Season(period=1), "period"),
        (lambda: Season(dim=1), "dim"),
    ],
)
def test_wrong_parameters_are_named(made, name):
    with pytest.raises(ValueError, match=name):
        made()


def test_regret_is_against_the_best_arm_of_each_round():
    environment, horizon = OneChange(at=1500), 3000
    found = simulate(Uniform(), environment, horizon, trials=3, seed=2, progress=False)
    best = attainable(environment, horizon, 3, seed=2)
    pulls = found.pulls("Uniform")
    assert pulls.sum(axis=1).tolist() == [horizon] * 3
    # What uniform play is expected to earn, from the means of every round.
    for k in range(3):
        blocks = list(islice(environment.blocks(stream(2, "environment", k)), 3))
        means = np.concatenate([np.broadcast_to(b.means, (1024, 10)) for b in blocks])[:horizon]
        assert best[k] == pytest.approx(means.max(axis=1).sum())
        expected = (means.max(axis=1) - means.mean(axis=1)).sum()
        spread = np.sqrt(means.var(axis=1).sum())
        assert abs(found.final("Uniform")[k] - expected) < 5 * spread  # 5σ: a false alarm in 1.7 million


@pytest.mark.parametrize("environment", [RandomWalk(), Delayed(OneChange(at=300), rounds=0)])
def test_batches_and_delays_leave_the_numbers(environment):
    one = simulate(LinMED(), environment, 1200, trials=4, batch=4, progress=False).final("LinMED-90")
    other = simulate(LinMED(), environment, 1200, trials=4, batch=1, progress=False).final("LinMED-90")
    np.testing.assert_array_equal(one, other)


def test_trials_that_rest_and_trials_that_move_go_together():
    seen = set()

    class Some(OneChange):
        def blocks(self, rng):
            for block in super().blocks(rng):
                still = bool(block.arms[0, 0] > 0)  # in about half of the trials nothing moves
                seen.add((still, block.means.ndim))
                yield block._replace(means=block.means[0]) if still and block.means.ndim == 2 else block

    found = simulate(LinMED(), Some(at=1500), 2048, trials=8, batch=8, progress=False)
    assert {(True, 2), (False, 2)} <= seen
    alone = simulate(LinMED(), Some(at=1500), 2048, trials=8, batch=1, progress=False)
    np.testing.assert_array_equal(found.final("LinMED-90"), alone.final("LinMED-90"))


def test_means_of_another_shape_are_refused():
    class Wrong(Environment):
        def blocks(self, rng):
            while True:
                yield Block(np.eye(3), np.zeros((7, 3)), rng.random(1024))

    with pytest.raises(ValueError, match=r"means of shape \(7, 3\).*expected \(3,\) or \(1024, 3\)"):
        simulate(LinMED(), Wrong(), 10, trials=1, progress=False)


@pytest.mark.parametrize("environment", [OneChange(at=200), OneChange(at=1024), RandomWalk()])
def test_a_verdict_on_a_world_that_moves_is_refused(environment):
    with pytest.raises(ValueError, match=r"until.*θ"):
        simulate(LinMED(sigma=5.0), environment, 3000, trials=2, progress=False, until=Decided(delta=1e-9))


def test_prices_earn_what_demand_allows_and_demand_changes_once():
    first, second, third = trial(Pricing(prices=10, at=1500))
    price = first.arms[:, 0] * np.sqrt(2)
    np.testing.assert_allclose(price, np.arange(1, 11) / 10)
    for means in (first.means, second.means[0], second.means[-1], third.means):
        share = means / price  # of buyers who pay: falls evenly with the price, and nobody is paid to buy
        slope = np.diff(share) / np.diff(price)
        np.testing.assert_allclose(slope, slope[0])
        assert 1.0 <= -1.0 / slope[0] <= 2.0
        theta, *_ = np.linalg.lstsq(first.arms, means, rcond=None)
        assert np.linalg.norm(theta) <= 2.0 + 1e-9
        np.testing.assert_allclose(first.arms @ theta, means)
    np.testing.assert_array_equal(second.means[: 1500 - 1024], np.tile(first.means, (476, 1)))
    np.testing.assert_array_equal(second.means[476:], np.tile(third.means, (548, 1)))
    assert not np.allclose(first.means, third.means)


@pytest.mark.parametrize("kind", [OneChange, RandomWalk])
def test_a_link_is_between_what_moves_and_what_is_paid(kind):
    for linked, plain in zip(trial(kind(link="logistic", intercept=-1.0)), trial(kind()), strict=True):
        np.testing.assert_allclose(linked.means, 1.0 / (1.0 + np.exp(1.0 - plain.means)), rtol=1e-12)
        assert ((linked.noise >= 0.0) & (linked.noise < 1.0)).all()
