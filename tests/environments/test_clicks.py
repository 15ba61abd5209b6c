"""Click simulators: the rates asked for, arms linear in the log-odds, clicks that are known late."""

import csv
import json
import os
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest
from scipy.special import expit, logit

from linmed.environments import (
    Block,
    Clicks,
    ClicksChange,
    Delayed,
    Environment,
    LargeGap,
    News,
    OpenBanditClicks,
)
from linmed.policies import LinMED, Uniform
from linmed.simulation import attainable, simulate

SMALL = News(articles=12, live=5, swap_every=40)
SHOWS, CLICKS = (4000, 1000, 1000, 2000), (400, 10, 200, 20)
PLACE = os.environ.get("LINMED_OPEN_BANDIT")


def blocks(environment, count=1, seed=0):
    return list(islice(environment.blocks(np.random.default_rng(seed)), count))


def rounds(environment, count):
    """Arms, rates, uniforms and delays of so many rounds."""
    parts = zip(*blocks(environment, -(-count // environment.block_rounds)), strict=True)
    return [np.concatenate(part)[:count] for part in parts if part[0] is not None]


def write(folder, log="random", clicks=CLICKS, items=range(4)):
    """A campaign of four items in two categories; users of two levels in the attributes 0 and 2."""
    place = folder / log / "men"
    place.mkdir(parents=True)
    with (place / "item_context.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["", "item_id", *(f"item_feature_{i}" for i in range(4))])
        for item in reversed(items):
            rows.writerow([item, item, 0.5, "x", "y", "shoes" if item < 2 else "hats"])
    with (place / "men.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["", "item_id", "position", "click", *(f"user_feature_{i}" for i in range(4))])
        for item in items:
            for n in range(SHOWS[item]):
                user = ["old" if n % 4 else "young", "a", f"level {n % 2}", "b"]
                rows.writerow([n, item, 1 + n % 3, int(n < clicks[item]), *user])
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("open-bandit"))


# ---- what all have in common


@pytest.mark.parametrize("kind", ["clicks", "news", "open bandit"])
def test_lateness_leaves_everything_else_as_it_was(kind, folder):
    def made(timeout):
        if kind == "clicks":
            return Clicks(changing=True, timeout=timeout)
        if kind == "news":
            return News(articles=12, live=5, swap_every=40, timeout=timeout)
        return OpenBanditClicks(folder, timeout=timeout)

    for plain, late in zip(blocks(made(0), 2), blocks(made(300), 2), strict=True):
        assert plain.delays is None
        assert 1 <= late.delays.min() <= late.delays.max() <= 300
        for one, other in zip(plain[:3], late[:3], strict=True):
            np.testing.assert_array_equal(one, other)
    known = made(300).known_after(np.array([1.0, 0.0]), np.array([7, 7]))
    np.testing.assert_array_equal(known, [7, 300])


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (Clicks, {"rate": 0.0}, "rate must"),
        (Clicks, {"rate": 1.5}, "rate must"),
        (Clicks, {"norm": -1.0}, "norm must"),
        (Clicks, {"dim": 0}, "dim must be at least 1"),
        (Clicks, {"changing": 1}, "changing must be"),
        (Clicks, {"clicks_after": 0}, "clicks_after must be at least 1"),
        (Clicks, {"timeout": -1}, "timeout must be at least 0"),
        (ClicksChange, {"changing": True}, "changing"),
        (ClicksChange, {"at": 0}, "at must"),
        (News, {"live": 121}, "live must be at most articles=120"),
        (News, {"live": 0}, "live must be at least 1"),
        (News, {"ids": "yes"}, "ids must be True or False"),
        (OpenBanditClicks, {"shrink": 0.0}, "shrink must"),
        (OpenBanditClicks, {"taste": -1.0}, "taste must"),
        (OpenBanditClicks, {"rate": 1.0}, "rate must"),
        (OpenBanditClicks, {"campaign": "women"}, r"path must be a folder of the Open .*women\.csv"),
    ],
)
def test_bad_parameters_are_named(kind, wrong, message, folder):
    path = {"path": folder} if kind is OpenBanditClicks else {}
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        kind(**path, **wrong)


# ---- the logistic model


@pytest.mark.parametrize(
    ("rate", "norm", "best"),
    [(0.055, 4.0, 0.225), (0.066, 1.9, 0.162), (0.519, 3.85, 0.921)],
)
def test_the_three_problems_have_the_rates_they_are_named_for(rate, norm, best):
    means = np.concatenate([block.means for block in blocks(Clicks(rate=rate, norm=norm, changing=True), 40)])
    # 409,600 arms, whose rates have a standard deviation below 0.3; 40,960 best ones, below 0.15.
    assert abs(means.mean() - rate) < 5 * 0.3 / np.sqrt(means.size)
    assert abs(means.max(axis=1).mean() - best) < 0.004


@pytest.mark.parametrize(("dim", "rate"), [(1, 0.5), (2, 0.01), (3, 0.5), (8, 0.01), (60, 0.5)])
def test_the_base_rate_is_the_mean_over_arms_in_any_dimension(dim, rate):
    environment = Clicks(rate=rate, norm=3.0, dim=dim, arms=500, changing=True)
    means = np.concatenate([block.means.ravel() for block in blocks(environment, 10)])
    assert abs(means.mean() - rate) < 5 * means.std() / np.sqrt(means.size)


@pytest.mark.parametrize("changing", [True, False])
def test_log_odds_are_linear_in_the_arm_and_theta_has_the_norm_it_says(changing):
    told = {"rate": 0.03, "norm": 2.5, "arms": 40, "changing": changing}
    (block,), (other,) = blocks(Clicks(**told)), blocks(Clicks(**told, constant=False))
    arms, scores = block.arms.reshape(-1, 6), logit(block.means).ravel()
    np.testing.assert_allclose(np.linalg.norm(arms, axis=1), 1.0)
    theta = np.linalg.lstsq(arms, scores, rcond=None)[0]
    np.testing.assert_allclose(arms @ theta, scores, atol=1e-10)
    assert np.linalg.norm(theta) == pytest.approx(Clicks(**told).theta_norm)
    np.testing.assert_array_equal(other.means, block.means)
    assert other.arms.shape[-1] == 5
    assert Clicks(**told, constant=False).theta_norm == 2.5


def test_arms_stay_through_a_trial_or_are_new_in_every_round():
    one, two = blocks(Clicks(), 2)
    assert one.arms is two.arms
    assert one.arms.shape == (10, 6)
    one, two = blocks(Clicks(changing=True), 2)
    assert one.arms.shape == (1024, 10, 6)
    assert len(np.unique(np.concatenate([one.means, two.means]))) == 20_480


def test_features_that_do_not_matter_leave_the_base_rate():
    np.testing.assert_allclose(blocks(Clicks(rate=0.2, norm=0.0))[0].means, 0.2, rtol=1e-12)
    steep = Clicks(rate=0.01, norm=100.0)
    assert expit(steep.intercept + 100.0) > 0.9


@pytest.mark.parametrize("constant", [True, False])
def test_what_is_liked_changes_once_and_the_arms_stay(constant):
    told = {"rate": 0.1, "norm": 2.0, "constant": constant, "timeout": 30}
    still, moved = blocks(Clicks(**told), 3), blocks(ClicksChange(**told, at=1500), 3)
    for one, other in zip(still, moved, strict=True):
        for part in ("arms", "noise", "delays"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
    np.testing.assert_array_equal(moved[0].means, still[0].means)
    first, then = 1500 - 1024, moved[2].means
    np.testing.assert_array_equal(moved[1].means[:first], np.tile(still[1].means, (first, 1)))
    np.testing.assert_array_equal(moved[1].means[first:], np.tile(then, (1024 - first, 1)))
    x = moved[0].arms if not constant else np.sqrt(2.0) * moved[0].arms[:, :-1]
    odds = logit(then) - Clicks(**told).intercept
    w = np.linalg.lstsq(x, odds, rcond=None)[0]
    np.testing.assert_allclose(x @ w, odds, atol=1e-9)
    assert np.linalg.norm(w) == pytest.approx(2.0)


# ---- readers and articles


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


@pytest.mark.parametrize(("ids", "dim"), [(True, 192), (False, 72)])
def test_with_ids_the_rate_is_linear_in_the_arm_and_without_them_it_is_not(ids, dim):
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
    shown = articles_of(rounds(News(ids=True, articles=6, live=6, swap_every=1), 500)[0])
    assert (shown == shown[0]).all()  # all are live, and stay


def test_a_click_is_known_after_a_geometric_time():
    delays = rounds(SMALL, 4000)[3]
    # Of mean 50, hardly ever beyond the timeout of 500: the standard error of 4,000 is 0.8.
    assert abs(delays.mean() - 50) < 5 * 0.8
    assert Delayed(SMALL, rounds=3).known_after(np.zeros(1), np.array([3])) == 3


@dataclass(frozen=True)
class Echo(Environment):
    """One arm that pays 1 in even rounds and 0 in odd ones; a 1 is known at once, a 0 after three rounds."""

    early: int = 0
    block_rounds = 8

    def blocks(self, rng):
        while True:
            noise = (np.arange(8) % 2 == 0).astype(float)
            yield Block(np.ones((1, 1)), np.zeros(1), noise, np.zeros(8, dtype=np.int64))

    def known_after(self, rewards, delays):
        return np.where(rewards > 0, delays, 3) - self.early


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
    with pytest.raises(ValueError, match=r"Echo\.known_after gave delays that are not whole numbers"):
        simulate([Uniform()], Echo(early=1), 8, 1, progress=False)


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


# ---- items of the Open Bandit Dataset


def test_rates_are_the_items_own_as_far_as_they_were_shown(folder):
    sure = OpenBanditClicks(folder, taste=0.0, shrink=1e-3)
    assert sure.overall == pytest.approx(630 / 8000)
    drawn = np.array([blocks(sure, seed=seed)[0].means[0] for seed in range(200)])
    posterior = np.array(CLICKS) / np.array(SHOWS)
    spread = np.sqrt(posterior * (1 - posterior) / np.array(SHOWS))
    np.testing.assert_allclose(drawn.mean(axis=0), posterior, atol=5 * spread.max() / np.sqrt(200))
    np.testing.assert_allclose(drawn.std(axis=0), spread, rtol=0.3)
    shrunk = OpenBanditClicks(folder, taste=0.0, shrink=1e9)
    np.testing.assert_allclose(blocks(shrunk)[0].means, 630 / 8000, rtol=1e-3)


def test_log_odds_are_linear_in_the_arm_and_users_are_the_logs(folder):
    environment = OpenBanditClicks(folder, taste=2.0)
    assert (environment.arms, environment.dim) == (4, 4 + 6 * 2 + 1)
    (block,) = blocks(environment)
    flat, scores = block.arms.reshape(-1, environment.dim), logit(block.means).ravel()
    theta = np.linalg.lstsq(flat, scores, rcond=None)[0]
    np.testing.assert_allclose(flat @ theta, scores, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(flat, axis=1), 1.0)
    # 1,024 users, a quarter of them young: the share's standard error is 0.0135.
    users = block.arms[:, 0, 4:-1].reshape(len(block.arms), 6, 2).sum(axis=2) > 0
    np.testing.assert_allclose(users.mean(axis=0), [0.75, 0.25, 1, 0.5, 0.5, 1], atol=5 * 0.0157)
    # The rates of items in one category differ by the same log-odds for every user, those of others do not.
    odds = logit(block.means)
    assert np.ptp(odds[:, 0] - odds[:, 1]) < 1e-9
    assert np.ptp(odds[:, 0] - odds[:, 2]) > 0.1


def test_a_base_rate_that_is_asked_for_is_the_items_mean(folder):
    (block,) = blocks(OpenBanditClicks(folder, taste=0.0, rate=0.3))
    np.testing.assert_allclose(block.means.mean(), 0.3, rtol=1e-12)
    (as_logged,) = blocks(OpenBanditClicks(folder, taste=0.0))
    shift = logit(block.means[0]) - logit(as_logged.means[0])
    np.testing.assert_allclose(shift, shift[0])


def test_results_are_found_by_the_data_and_not_by_their_place(folder, tmp_path):
    here, there = OpenBanditClicks(folder), OpenBanditClicks(write(tmp_path / "elsewhere"))
    assert here == there
    assert here.identity() == there.identity()
    assert str(folder) not in here.name
    assert Environment.from_dict(json.loads(json.dumps(here.to_dict()))) == here
    both = OpenBanditClicks(write(tmp_path / "elsewhere", log="bts", clicks=(0, 10, 0, 0)).resolve())
    assert both.overall == pytest.approx((630 + 10) / 16000)
    assert both != here
    assert both.identity() != here.identity()


def test_files_that_are_something_else_are_refused_by_name(tmp_path):
    header = "item_id,click,user_feature_0,user_feature_1,user_feature_2,user_feature_3\n"
    for name, written, content, message in [
        ("a", {"items": range(1, 4)}, None, r"item_context\.csv: item_id must count the items from 0"),
        ("b", {"clicks": (0, 0, 0, 0)}, None, "the log has only one of them"),
        ("c", {}, "item_id,click\n0,1\n", r"men\.csv cannot be read .* user_feature_0"),
        ("d", {}, f"{header}7,1,a,b,c,d\n", "item_id below 4"),
    ]:
        write(tmp_path / name, **written)
        if content is not None:
            (tmp_path / name / "random/men/men.csv").write_text(content)
        with pytest.raises(ValueError, match=message):
            OpenBanditClicks(tmp_path / name)


@pytest.mark.skipif(PLACE is None, reason="LINMED_OPEN_BANDIT is not set to the Open Bandit Dataset")
def test_the_real_log_has_34_items_and_a_rate_of_half_a_per_cent():
    environment = OpenBanditClicks(PLACE)
    assert environment.arms == 34
    assert environment.overall == pytest.approx(115 / 20_000)
    means = np.concatenate([block.means for block in blocks(environment, 5)])
    assert 0.003 < means.mean() < 0.012
