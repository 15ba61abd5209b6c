"""Decisions that count by their age: the weighted average, and intervals that hold for it."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pytest
from scipy.optimize import brentq

from linmed.cli import main
from linmed.ope import DecisionLog, difference, evaluate
from linmed.ope.plan import in_words
from linmed.ope.scan import Fading
from linmed.ope.sequences import BettingLower, MixtureLower, Side, log_mixture, runs
from linmed.question import Question
from tests.ope.test_recent import logged

pytestmark = pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")


def weights(n, half_life):
    return 2.0 ** (-np.floor(np.arange(n)[::-1] * 16 / half_life) / 16)


def one(log, target=0, estimator="ipw", interval="betting", **asked):
    return evaluate(log, target, estimator, interval, **asked).to_pylist()[0]


def test_weights_fall_by_half_in_sixteen_steps_and_end():
    fading = Fading(160.0, 10_000, False)
    age = np.array([0, 9, 10, 159, 160, 320, 9600, 9999, 10_001])
    found = fading.weights(10_000 - age)
    expected = [1.0, 1.0, 2 ** (-1 / 16), 2 ** (-15 / 16), 0.5, 0.25, 2.0**-60, 0.0, 0.0]
    np.testing.assert_allclose(found[:-1], expected[:-1])
    assert found[-1] == 0.0
    assert fading.weights(np.array([10_007]))[0] == 1.0  # nothing counts more than fully


def test_runs_are_the_stretches_of_one_weight():
    assert list(runs(np.array([0.5, 0.5, 1.0, 0.5]))) == [(0, 2), (2, 3), (3, 4)]
    assert list(runs(np.empty(0))) == []


@pytest.mark.parametrize("half_life", [40, 300, 1e9])
def test_estimates_are_weighted_means(half_life):
    columns = logged()
    log, w = DecisionLog.from_table(columns), weights(1200, half_life)
    weight = (columns["arm"] == 0) / columns["probability"]
    found = {
        row["estimator"]: row for row in evaluate(log, 0, ["ipw", "snipw"], half_life=half_life).to_pylist()
    }
    terms = weight * columns["reward"]
    assert found["ipw"]["estimate"] == pytest.approx((w * terms).sum() / w.sum(), rel=1e-12)
    assert found["snipw"]["estimate"] == pytest.approx((w * terms).sum() / (w * weight).sum(), rel=1e-12)
    effective = (w * weight).sum() ** 2 / ((w * weight) ** 2).sum()
    assert found["ipw"]["effective_n"] == pytest.approx(effective, rel=1e-9)
    assert {row["n"] for row in found.values()} == {1200}
    assert {row["valid"] for row in found.values()} == {"one look"}


def test_a_betting_bound_is_where_the_weighted_wealth_meets_its_level():
    rng = np.random.default_rng(1)
    x, w = 2.0 * rng.random(500) * (rng.random(500) < 0.5), weights(500, 70)
    bound = BettingLower(0.05)
    for begin, end in runs(w):
        bound.add(Side(x[begin:end], np.zeros(end - begin)), float(w[begin]))
    prior = BettingLower.PRIOR / BettingLower.PRIOR.sum()
    gains = (w * np.log1p(BettingLower.BETS[:, None] * x)).sum(axis=1)

    def excess(mean):
        return np.logaddexp.reduce(
            np.log(prior) + gains - w.sum() * np.log1p(BettingLower.BETS * mean)
        ) - np.log(20)

    assert bound.lower == pytest.approx(brentq(excess, 0.0, 1.0), abs=1e-9)
    assert bound.mass == pytest.approx(w.sum())


def test_a_mixture_bound_is_that_of_the_weighted_sums():
    rng = np.random.default_rng(2)
    x, w = 2.0 * rng.random(500) * (rng.random(500) < 0.5), weights(500, 70)
    bound = MixtureLower(0.05, difference=False)
    for begin, end in runs(w):
        bound.add(Side(x[begin:end], np.zeros(end - begin)), float(w[begin]))
    guess = np.minimum((0.5 + np.concatenate([[0.0], np.cumsum(x)[:-1]])) / (1.0 + np.arange(500)), 1.0)
    total, squares = (w * x).sum(), (w**2 * (x - guess) ** 2).sum()

    def excess(mean):
        return log_mixture(total - w.sum() * mean, squares) - np.log(20)

    assert bound.lower == pytest.approx(brentq(excess, 0.0, total / w.sum()), abs=1e-9)


@pytest.mark.parametrize("interval", ["betting", "mixture"])
def test_an_endless_half_life_gives_the_interval_of_the_average_so_far(interval):
    log = DecisionLog.from_table(logged())
    for ask in (one, lambda log, **asked: difference(log, 0, "uniform", **asked).to_pylist()[0]):
        plain, faded = ask(log, interval=interval), ask(log, interval=interval, half_life=1e12)
        for name in ("estimate", "lower", "upper"):
            assert faded[name] == pytest.approx(plain[name], abs=1e-9)


def world(n, rng):
    """Arm 0 pays less and less, in waves; two arms, and a logging policy that leans to what paid last."""
    value = 0.5 + 0.35 * np.cos(np.arange(n) / 130.0)
    arm, p, reward = np.empty(n, dtype=int), np.empty(n), np.empty(n)
    leaning = 0.5
    for t in range(n):
        arm[t] = rng.random() >= leaning
        p[t] = leaning if arm[t] == 0 else 1.0 - leaning
        reward[t] = rng.random() < (value[t] if arm[t] == 0 else 0.4)
        leaning = np.clip(leaning + 0.05 * (reward[t] - 0.45) * (1 - 2 * arm[t]), 0.2, 0.8)
    probabilities = np.where(arm == 0, p, 1 - p)
    columns = {
        "arm": arm,
        "probability": p,
        "reward": reward,
        "probabilities": np.stack([probabilities, 1 - probabilities], axis=1),
    }
    return DecisionLog.from_table(columns), value


@pytest.mark.parametrize("interval", ["betting", "mixture"])
def test_the_interval_covers_the_weighted_average_of_a_value_that_moves(interval):
    """20 logs of a learning policy, at 80 %: more than 11 misses have probability 1e-4 at a true 20 %.

    That it is another number than the average so far shows: the same bounds around that one would miss it.
    """
    missed = confused = 0
    rng = np.random.default_rng(5)
    w = weights(600, 60)
    for _ in range(20):
        log, value = world(600, rng)
        found = one(log, interval=interval, confidence=0.8, half_life=60)
        truth = (w * value).sum() / w.sum()
        missed += not found["lower"] <= truth <= found["upper"]
        plain = one(log, interval=interval, confidence=0.8)
        confused += not plain["lower"] <= truth <= plain["upper"]
    assert missed <= 11
    assert confused >= 10


def test_half_lives_in_time_and_in_decisions_agree_where_a_decision_is_taken_every_hour():
    log = DecisionLog.from_table(logged())
    by_number = one(log, half_life=48)
    assert one(log, half_life="2d") == pytest.approx(by_number)
    assert one(log, half_life=timedelta(hours=48)) == pytest.approx(by_number)


def test_ages_are_counted_from_the_end_of_what_is_old_enough():
    log = DecisionLog.from_table(logged())
    found = one(log, half_life="2d", mature=timedelta(hours=100))
    assert found == pytest.approx(one(log[:1100], half_life="2d"))


def test_since_and_half_life_go_together():
    log = DecisionLog.from_table(logged())
    for half_life in (100, "4d"):
        assert one(log, half_life=half_life, since=400) == pytest.approx(one(log[400:], half_life=half_life))


@pytest.mark.parametrize(("half_life", "interval"), [(100, "betting"), ("4d", "mixture"), ("4d", "none")])
def test_files_and_workers_change_nothing(tmp_path, half_life, interval):
    table = DecisionLog.from_table(logged())
    for number in range(4):
        table[300 * number : 300 * (number + 1)].save(tmp_path / f"{number}")
    (tmp_path / "all").mkdir()
    for number in range(4):
        (file,) = (tmp_path / f"{number}").glob("*.parquet")
        file.rename(tmp_path / "all" / f"decisions-{number:020d}-saved.parquet")
    log = DecisionLog.open(tmp_path / "all")
    expected = evaluate(table, [0, "uniform"], ["ipw", "dr"], interval, half_life=half_life).to_pydict()
    with ThreadPoolExecutor(2) as pool:
        for executor in (None, pool):
            found = evaluate(
                log, [0, "uniform"], ["ipw", "dr"], interval, half_life=half_life, executor=executor
            ).to_pydict()
            for name in ("estimate", "lower", "upper", "effective_n"):
                np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-12)


def test_old_decisions_count_nothing_at_all():
    columns = logged(5000)
    recent = DecisionLog.from_table(columns)
    columns = {**columns, "reward": np.where(np.arange(5000) < 4000, 1.0, columns["reward"])}
    assert one(DecisionLog.from_table(columns), half_life=10) == one(recent, half_life=10)


@pytest.mark.parametrize("interval", ["normal", "asymptotic", "bootstrap", "adaptive", "bernstein"])
def test_intervals_that_are_not_proved_for_it_are_refused(interval):
    with pytest.raises(ValueError, match=r"half_life.*betting.*mixture"):
        one(DecisionLog.from_table(logged(60)), interval=interval, half_life=20)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"half_life": 0.5}, "half_life"),
        ({"half_life": -3}, "half_life"),
        ({"half_life": float("inf")}, "half_life"),
        ({"half_life": "soon"}, "half_life"),
        ({"half_life": [3]}, "half_life"),
        ({"half_life": timedelta(0)}, "half_life"),
        ({"half_life": 20, "drift": False}, "drift"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(asked, name):
    with pytest.raises((ValueError, TypeError), match=name):
        one(DecisionLog.from_table(logged(60)), **asked)


def test_an_age_needs_times():
    log = DecisionLog.from_table({name: column for name, column in logged(60).items() if name != "time"})
    with pytest.raises(ValueError, match=r"half_life.*time"):
        one(log, half_life="7d")
    assert one(log, half_life=20)["n"] == 60


def test_it_is_said_what_the_average_is():
    assert in_words(Question(half_life="7d")) == "recent average, a decision counting half after every 7 days"
    assert (
        in_words(Question(since="30d", half_life=500))
        == "average of the last 30 days, a decision counting half after every 500 decisions"
    )


def test_the_command_takes_it_and_draws_no_sequence(tmp_path, capsys):
    DecisionLog.from_table(logged()).save(tmp_path / "log")
    words = ["ope", str(tmp_path / "log"), "--target", "arm:0", "--diff", "uniform", "--estimator", "ipw"]
    assert main([*words, "--half-life", "4d", "--json", "--html", str(tmp_path / "page.html")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["value"] == "recent average, a decision counting half after every 4 days"
    assert told["results"][0]["valid"] == told["differences"][0]["valid"] == "one look"
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "at this one look" in page
    assert main([*words, "--half-life", "96", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["results"][0]["lower"] == pytest.approx(told["results"][0]["lower"])
    for wrong in (["--plot", str(tmp_path / "plot.png")], ["--interval", "normal"], ["--no-drift"]):
        assert main([*words, "--half-life", "4d", *wrong]) == 2
        assert "half" in capsys.readouterr().err
