"""The click simulator from item statistics: what is read of the log, what is drawn, and what is refused."""

import csv
import json
import os
from itertools import islice

import numpy as np
import pytest
from scipy.special import expit, logit

from linmed.environments import Environment, OpenBanditClicks

SHOWS, CLICKS = (4000, 1000, 1000, 2000), (400, 10, 200, 20)
LEVELS = (2, 1, 2, 1)
PLACE = os.environ.get("LINMED_OPEN_BANDIT")


def write(folder, log="random", clicks=CLICKS, items=range(4), shown=SHOWS):
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
            for n in range(shown[item]):
                user = ["old" if n % 4 else "young", "a", f"level {n % 2}", "b"]
                rows.writerow([n, item, 1 + n % 3, int(n < clicks[item]), *user])
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("open-bandit"))


def blocks(environment, count=1, seed=0):
    return list(islice(environment.blocks(np.random.default_rng(seed)), count))


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
    np.testing.assert_allclose(expit(logit(as_logged.means[0]) + shift[0]), block.means[0])


def test_both_logs_are_counted(tmp_path):
    write(write(tmp_path), log="bts", clicks=(0, 10, 0, 0))
    assert OpenBanditClicks(tmp_path).overall == pytest.approx((630 + 10) / 16000)


def test_results_are_found_by_the_data_and_not_by_their_place(folder, tmp_path):
    here, there = OpenBanditClicks(folder), OpenBanditClicks(write(tmp_path / "elsewhere"))
    assert here == there
    assert here.identity() == there.identity()
    other = OpenBanditClicks(write(tmp_path / "other", clicks=(401, 10, 200, 20)))
    assert here.identity() != other.identity()
    assert here != other
    assert str(folder) not in here.name
    assert Environment.from_dict(json.loads(json.dumps(here.to_dict()))) == here


def test_lateness_leaves_users_and_clicks_as_they_were(folder):
    (plain,), (late,) = blocks(OpenBanditClicks(folder)), blocks(OpenBanditClicks(folder, timeout=9))
    for one, other in zip(plain[:3], late[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    assert late.delays.max() <= 9


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"shrink": 0.0}, "shrink must"),
        ({"taste": -1.0}, "taste must"),
        ({"rate": 1.0}, "rate must"),
        ({"campaign": "women"}, r"path must be a folder of the Open Bandit Dataset with .*women\.csv"),
    ],
)
def test_bad_parameters_are_named(folder, wrong, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        OpenBanditClicks(folder, **wrong)


def test_files_that_are_something_else_are_refused_by_name(tmp_path):
    write(tmp_path / "a", items=range(1, 4))
    with pytest.raises(ValueError, match=r"item_context\.csv: item_id must count the items from 0"):
        OpenBanditClicks(tmp_path / "a")
    write(tmp_path / "b", clicks=(0, 0, 0, 0))
    with pytest.raises(ValueError, match="the log has only one of them"):
        OpenBanditClicks(tmp_path / "b")
    (write(tmp_path / "c") / "random/men/men.csv").write_text("item_id,click\n0,1\n")
    with pytest.raises(ValueError, match=r"men\.csv cannot be read .* user_feature_0"):
        OpenBanditClicks(tmp_path / "c")
    (write(tmp_path / "d") / "random/men/men.csv").write_text(
        "item_id,click,user_feature_0,user_feature_1,user_feature_2,user_feature_3\n7,1,a,b,c,d\n"
    )
    with pytest.raises(ValueError, match="item_id below 4"):
        OpenBanditClicks(tmp_path / "d")


@pytest.mark.skipif(PLACE is None, reason="LINMED_OPEN_BANDIT is not set to the Open Bandit Dataset")
def test_the_real_log_has_34_items_and_a_rate_of_half_a_per_cent():
    environment = OpenBanditClicks(PLACE)
    assert environment.arms == 34
    assert environment.overall == pytest.approx(115 / 20_000)
    means = np.concatenate([block.means for block in blocks(environment, 5)])
    assert 0.003 < means.mean() < 0.012
