"""The news world: rates, ids, articles that come and go, and clicks that are known late."""

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest

from linmed.environments import Block, Delayed, Environment, LargeGap, News
from linmed.policies import LinMED, Uniform
from linmed.simulation import attainable, simulate

SMALL = News(articles=12, live=5, swap_every=40)


def rounds(environment, count, seed=0):
    """Arms, rates and uniforms of so many rounds."""
    blocks = islice(environment.blocks(np.random.default_rng(seed)), -(-count // environment.block_rounds))
    parts = zip(*((b.arms, b.means, b.noise, b.delays) for b in blocks), strict=True)
    return [np.concatenate(part)[:count] for part in parts]


def articles_of(arms):
    """Which article every arm is, from its id."""
    return arms[..., 72:].argmax(axis=-1)


def test_rates_lie_between_two_and_eight_per_cent_and_are_the_shares_of_clicks():
    _, rates, uniforms, _ = rounds(News(), 3000)
    assert 0.02 <= rates.min() < 0.03
    assert 0.06 < rates.max() <= 0.08
    clicks = News().rewards(rates, uniforms[:, None])
    assert set(np.unique(clicks)) == {0.0, 1.0}
    # 3,000 rounds, of which all arms share the uniform: the share's standard error is below 0.0036.
    assert abs(clicks.mean() - rates.mean()) < 5 * 0.0036


def test_with_ids_the_rate_is_linear_in_the_arm_and_without_them_it_is_not():
    for ids, dim in ((True, 192), (False, 72)):
        arms, rates, *_ = rounds(News(ids=ids, swap_every=1), 400)
        assert arms.shape == (400, 50, dim)
        flat = arms.reshape(-1, dim)
        theta = np.linalg.lstsq(flat, rates.ravel(), rcond=None)[0]
        wrong = np.abs(flat @ theta - rates.ravel()).max()
        assert wrong < 1e-10 if ids else wrong > 1e-3
        assert np.linalg.norm(flat, axis=1).max() <= 1 + 1e-12


def test_one_live_article_is_swapped_for_a_resting_one_at_a_time():
    shown = articles_of(rounds(News(ids=True, articles=12, live=5, swap_every=40), 2000)[0])
    assert all(len(set(row)) == 5 for row in shown)
    changed = np.flatnonzero((shown[1:] != shown[:-1]).any(axis=1)) + 1
    np.testing.assert_array_equal(changed, np.arange(40, 2000, 40))
    assert ((shown[changed] != shown[changed - 1]).sum(axis=1) == 1).all()
    assert set(np.unique(shown)) == set(range(12))


def test_articles_that_are_all_live_stay():
    shown = articles_of(rounds(News(ids=True, articles=6, live=6, swap_every=1), 500)[0])
    assert (shown == shown[0]).all()


def test_lateness_leaves_readers_articles_and_clicks_as_they_were():
    late = rounds(SMALL, 500)
    block = next(News(articles=12, live=5, swap_every=40, timeout=0).blocks(np.random.default_rng(0)))
    assert block.delays is None
    for one, other in zip(late[:3], block[:3], strict=True):
        np.testing.assert_array_equal(one[: len(other)], other[: len(one)])


def test_a_click_is_known_when_it_was_made_and_a_non_click_after_the_timeout():
    delays = rounds(SMALL, 4000)[3]
    assert 1 <= delays.min() <= delays.max() <= 500
    # Geometric with mean 50, hardly ever beyond 500: the standard error of 4,000 is 0.8.
    assert abs(delays.mean() - 50) < 5 * 0.8
    known = SMALL.known_after(np.array([1.0, 0.0]), np.array([7, 7]))
    np.testing.assert_array_equal(known, [7, 500])
    assert Delayed(SMALL, rounds=3).known_after(np.zeros(1), np.array([3])) == 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"live": 121}, "live must be at most articles=120"),
        ({"live": 0}, "live must be at least 1"),
        ({"timeout": -1}, "timeout must be at least 0"),
        ({"ids": "yes"}, "ids must be True or False"),
    ],
)
def test_bad_parameters_are_named(wrong, message):
    with pytest.raises((ValueError, TypeError), match=message):
        News(**wrong)


@dataclass(frozen=True)
class Echo(Environment):
    """One arm that pays 1 in even rounds and 0 in odd ones; a 1 is known at once, a 0 after three rounds."""

    block_rounds = 8

    def blocks(self, rng):
        while True:
            noise = (np.arange(8) % 2 == 0).astype(float)
            yield Block(np.ones((1, 1)), np.zeros(1), noise, np.zeros(8, dtype=np.int64))

    def known_after(self, rewards, delays):
        return np.where(rewards > 0, delays, 3)


def test_what_has_been_learned_when_depends_on_the_reward():
    seen = []

    @dataclass(frozen=True)
    class Noting(Uniform):
        def learn(self, state, features, rewards, replicas):
            seen.append(rewards.tolist())
            super().learn(state, features, rewards, replicas)

    simulate([Noting()], Echo(), 8, 1, progress=False)
    # Rounds 0, 2, 4 and 6 pay 1 at once; the zeros of 1 and 3 are known after rounds 4 and 6.
    assert seen == [[1.0], [1.0], [0.0], [1.0], [0.0], [1.0]]


@dataclass(frozen=True)
class Wrong(Echo):
    def known_after(self, rewards, delays):
        return delays - 1


def test_delays_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"Wrong\.known_after gave delays that are not whole numbers"):
        simulate([Uniform()], Wrong(), 8, 1, progress=False)


def test_attainable_is_what_the_best_arms_pay():
    assert attainable(LargeGap(), 2500, 2).tolist() == [2500.0, 2500.0]
    best = attainable(SMALL, 700, 3, seed=4)
    results = simulate([Uniform(), LinMED(sigma=0.2, norm_bound=0.3)], SMALL, 700, 3, 4, progress=False)
    for name in results.names:
        clicks = best - results.final(name)
        assert (0.02 * 700 <= clicks).all()
        assert (clicks <= best).all()
    with pytest.raises(TypeError, match="environment must be an Environment"):
        attainable("News", 10, 1)
