"""What could mislead: a confident number must be right, or come with a warning that says why it is not."""

import math
import warnings
from datetime import timedelta

import numpy as np
import pyarrow.parquet as pq
import pytest

from linmed.ope import DecisionLog, OPEWarning, Replay, choose, diagnose, difference, evaluate, sequence
from linmed.ope.intervals import BETS, Weights, asymptotic_quantile, log_gains
from linmed.policies import Uniform
from linmed.validation import BadValue
from tests.blame import blames

# Each test asks for the warning it is about; others may come with it.
pytestmark = pytest.mark.filterwarnings("ignore::linmed.ope.OPEWarning")


def log(n: int, seed: int = 0, *, arms: int = 2, means=(0.5, 0.5), rng=None, **more) -> DecisionLog:
    """A uniform log over `arms` arms."""
    rng = rng or np.random.default_rng(seed)
    arm = rng.integers(arms, size=n)
    reward = (rng.random(n) < np.asarray(means)[arm]).astype(float)
    columns = {
        "arm": arm, "probability": np.full(n, 1 / arms), "reward": reward, "arm_count": np.full(n, arms)
    }  # fmt: skip
    return DecisionLog.from_table(columns | more)


def width(table) -> float:
    return table["upper"][0].as_py() - table["lower"][0].as_py()


# Wrong probabilities


def wrong(n: int = 2000) -> DecisionLog:
    """Played with probability 1/2, logged as 1/4; every reward is 1."""
    return log(n, probability=np.full(n, 0.25), reward=np.ones(n))


@pytest.mark.parametrize("interval", ["betting", "asymptotic", "normal"])
def test_probabilities_that_cannot_be_true_leave_no_interval_and_are_named_with_the_number(interval):
    said = r"target 'uniform': the mean weight is 2 where it should be 1, and by chance .* are wrong"
    with pytest.warns(OPEWarning, match=said):
        rows = evaluate(wrong(), "uniform", interval=interval).to_pylist()
    for row in rows:
        assert math.isnan(row["lower"])
        assert math.isnan(row["upper"])
        assert row["valid"] == "—"


def test_differences_and_diagnosis_find_wrong_probabilities_too():
    with pytest.warns(OPEWarning, match="target 'arm 1': the mean weight is 2"):
        row = difference(wrong(), 0, 1).to_pylist()[0]
    assert math.isnan(row["lower"])
    assert row["valid"] == "—"
    assert any("the mean weight is 2" in doubt for doubt in diagnose(wrong(), "uniform").warnings)
    with pytest.warns(OPEWarning, match="the mean weight is 2"):
        sequence(wrong(), "uniform")


def test_true_probabilities_are_hardly_ever_called_wrong_however_often_one_looks():
    """200 logs with heavy weights, looked at after every hundred decisions, level 1e-3: more than 3 has
    probability below 1e-4."""
    rng = np.random.default_rng(5)
    called = 0
    for _ in range(200):
        weights = Weights()
        p = rng.uniform(0.02, 0.5, size=1000)
        weight = np.where(rng.random(1000) < p, 1 / p, 0.0)
        for i in range(0, 1000, 100):
            weights.add(weight[i : i + 100], weight[i : i + 100])
            if weights.refuted:
                called += 1
                break
    assert called <= 3


def test_the_evidence_against_the_weights_is_no_more_than_its_e_process():
    rng = np.random.default_rng(6)
    for scale in (0.5, 1.0, 1.5, 3.0):
        weight = rng.exponential(scale, size=300)
        exact = (np.log1p(np.outer(BETS, weight)) - np.log1p(BETS)[:, None]).sum(axis=1)
        assert (log_gains(weight.sum(), (weight**2).sum(), 300) <= exact + 1e-9).all()


def test_weights_that_are_too_small_are_named():
    """True probabilities 1/4 logged as 1/2: sequences stay true, estimates are half of what is true."""
    with pytest.warns(OPEWarning, match=r"the mean weight is 0.5 ± .* where it should be 1"):
        row = evaluate(log(2000, arms=4, means=[0.6] * 4, probability=np.full(2000, 0.5)), "uniform", "ipw")
    assert row["lower"][0].as_py() < 0.6 < row["upper"][0].as_py()


# Drift


# No certainty without cause


@pytest.mark.parametrize(
    ("interval", "estimator", "n"),
    [("normal", "ipw", 1), ("adaptive", "snipw", 2), ("asymptotic", "ipw", 2)],
)
def test_what_does_not_vary_gives_no_interval_and_says_what_to_use(interval, estimator, n):
    silent = log(n, reward=np.zeros(n), probability=np.full(n, 0.5), probabilities=np.full((n, 2), 0.5))
    with pytest.warns(OPEWarning, match=f"does not vary, from which interval='{interval}'.*use 'betting'"):
        row = evaluate(silent, "logged", estimator, interval=interval)
    assert math.isnan(row["lower"][0].as_py())
    assert row["valid"][0].as_py() == "—"
    low, high = (evaluate(silent, "logged", "ipw")[name][0].as_py() for name in ("lower", "upper"))
    assert low == 0.0 < high


def test_few_rewards_and_low_effective_samples_are_named():
    rng = np.random.default_rng(1)
    n = 10_000
    reward = np.zeros(n)
    reward[rng.choice(n, 26, replace=False)] = 1.0
    with pytest.warns(OPEWarning, match=r"only 26 of the 10,000 rewards that count differ from 0"):
        evaluate(log(n, reward=reward), "uniform")
    arm = (rng.random(n) < 0.001).astype(int)
    p = np.where(arm == 1, 0.001, 0.999)
    rare = log(n, arm=arm, probability=p)
    with pytest.warns(OPEWarning, match=r"target 'arm 1': the 10,000 decisions are worth only \d+\.\d of"):
        evaluate(rare, 1, "ipw")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(log(n), "uniform")


def test_fast_fading_exploration_is_named_where_stabilised_weights_are_chosen():
    rng = np.random.default_rng(2)
    n = 1000
    rare = np.minimum(0.5, 2.0 / (1 + np.arange(n)) ** 0.7)
    arm = (rng.random(n) < rare).astype(int)
    p = np.stack([1 - rare, rare], axis=1)
    one = log(n, arm=arm, probability=p[np.arange(n), arm], probabilities=p, rng=rng)
    with pytest.warns(OPEWarning, match="too fast for interval='adaptive' to hold its level: use 'betting'"):
        evaluate(one, 1, ["ipw", "dr"], interval="adaptive")


def test_asymptotic_sequences_say_that_a_policy_that_learned_is_not_for_them():
    learned = log(2000, version=np.arange(2000))
    with pytest.warns(
        OPEWarning, match="'asymptotic' holds .* while weights stay bounded, but the logging policy"
    ):
        evaluate(learned, 1, "ipw", interval="asymptotic")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(learned, 1, "ipw", interval="asymptotic", adaptive=False)


# Late rewards


def timed(n: int, seed: int = 0, rate: float = 0.114, timeout: float = 3600.0) -> dict:
    """One decision a second; clicks are known at once, their absence after an hour."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(2, size=n)
    click = (rng.random(n) < rate).astype(float)
    time = np.arange(n) * 1_000_000
    due = time + np.where(click == 1, 1_000_000, int(timeout * 1e6))
    known = due <= time[-1]
    stamp = np.array(due, dtype="datetime64[us]")
    return {
        "arm": arm,
        "probability": np.full(n, 0.5),
        "arm_count": np.full(n, 2),
        "time": np.array(time, dtype="datetime64[us]"),
        "reward": [float(c) if k else None for c, k in zip(click, known, strict=True)],
        "reward_time": [s if k else None for s, k in zip(stamp.tolist(), known, strict=True)],
    }


def test_by_default_late_rewards_bias_nothing_and_the_share_that_waits_is_named():
    """6 logs, 95 %: more than 3 misses has probability below 1e-4. Left out, all of them miss."""
    missed = skipped = 0
    for seed in range(6):
        one = DecisionLog.from_table(timed(6000, seed))
        with pytest.warns(
            OPEWarning, match=r"decisions \(\d\d%\) were not judged: .* have no reward yet"
        ) as said:
            row = evaluate(one, "uniform", "ipw").to_pylist()[0]
        assert len(said) == 1
        assert 2350 < row["n"] < 2450
        missed += not row["lower"] <= 0.114 <= row["upper"]
        with pytest.warns(OPEWarning, match="harmless only if lateness has nothing to do with the reward"):
            row = evaluate(one, "uniform", "ipw", missing="skip").to_pylist()[0]
        skipped += not row["lower"] <= 0.114 <= row["upper"]
    assert missed <= 3
    assert skipped == 6


def test_no_reward_by_then_means_zero():
    columns = timed(6000)
    clicks = [1.0 if reward == 1.0 else None for reward in columns["reward"]]  # only clicks are ever reported
    only = DecisionLog.from_table(columns | {"reward": clicks})
    old = np.arange(6000) <= 5999 - 3600
    truth = np.mean([clicks[i] == 1.0 for i in np.flatnonzero(old)])
    for mature in (3600, 3600.0, timedelta(hours=1)):
        table = evaluate(only, "logged", "ipw", mature=mature, missing=0)
        assert table["n"][0].as_py() == old.sum()
        assert table["estimate"][0].as_py() == pytest.approx(truth)


def test_rewards_that_came_after_the_time_allowed_do_not_count():
    columns = timed(100, timeout=10.0)
    columns["reward"] = [1.0] * 100
    columns["reward_time"] = [
        stamp + np.timedelta64(2 if i % 2 else 30, "s") for i, stamp in enumerate(columns["time"])
    ]
    one = DecisionLog.from_table(columns)
    table = evaluate(one, "logged", "ipw", mature=10, missing=0.0)
    assert table["estimate"][0].as_py() == pytest.approx(0.5, abs=0.01)
    assert evaluate(one, "logged", "ipw", mature=10)["estimate"][0].as_py() == 1.0


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("mature", {"missing": 0.0}),
        ("mature", {"mature": -1}),
        ("mature", {"mature": "day"}),
        ("missing", {"missing": "guess"}),
        ("missing", {"missing": math.nan, "mature": 5}),
        ("reward_range", {"missing": 3.0, "mature": 5}),
        ("missing", {"missing": 3.0, "mature": 5, "reward_range": (0, 1)}),
        ("smallest_probability", {"smallest_probability": 0}),
        ("smallest_probability", {"smallest_probability": 0.6}),
        ("smallest_probability", {"smallest_probability": 2}),
    ],
)
def test_wrong_answers_to_late_rewards_are_blamed_by_name(field, options):
    one = DecisionLog.from_table(timed(200, timeout=10.0))
    for ask in (evaluate, sequence):
        with pytest.raises((BadValue, TypeError, ValueError)) as e:
            ask(one, "uniform", **options)
        assert e.value.field == field


def test_maturity_needs_times():
    with blames("mature", "mature needs the column 'time'"):
        evaluate(log(10), "uniform", mature=5)
    with pytest.raises(BadValue, match="all its 10 decisions are younger than mature"):
        evaluate(DecisionLog.from_table(timed(10, timeout=1.0)), "uniform", mature=5000)


def test_a_log_that_begins_with_a_gap_says_what_can_be_done():
    gap = log(4, reward=[None, 1.0, 0.0, 1.0])
    message = r"its decision 0 still waits for one, and missing='stop' goes no further; give mature"
    with pytest.raises(BadValue, match=message):
        evaluate(gap, "uniform")


# Narrow where it may be


def test_doubly_robust_sequences_are_hardly_wider_than_those_of_weights_alone():
    """Rare rewards, which a model can only spoil: averaged with plain bets it costs at most log 2."""
    rng = np.random.default_rng(4)
    n = 5000
    p = rng.dirichlet(np.ones(4) * 0.5, size=n) * 0.9 + 0.025
    arm = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=3)
    columns = {
        "arm": arm, "probability": p[np.arange(n), arm], "probabilities": p,
        "reward": (rng.random(n) < 0.01).astype(float), "arms": rng.normal(size=(n, 4, 3)),
    }  # fmt: skip
    table = evaluate(DecisionLog.from_table(columns), "uniform", ["ipw", "dr"])
    ipw, dr = (
        high - low for low, high in zip(table["lower"].to_pylist(), table["upper"].to_pylist(), strict=True)
    )
    assert dr < 1.15 * ipw


def test_equal_targets_differ_by_nothing_and_nearby_ones_narrowly():
    rng = np.random.default_rng(8)
    n, arms = 5000, 4
    near = np.tile(np.full(arms, 0.95 / arms) + 0.05 * np.eye(arms)[0], (n, 1))
    one = log(n, arms=arms, means=[0.3] * arms, rng=rng, near=near)
    row = difference(one, "uniform", "uniform").to_pylist()[0]
    assert (row["estimate"], row["lower"], row["upper"]) == (0.0, 0.0, 0.0)
    assert math.copysign(1.0, row["lower"]) == 1.0
    far = width(difference(one, 0, "uniform"))
    assert width(difference(one, "column:near", "uniform")) < 1.3 * 0.05 * far


def test_the_difference_in_a_randomised_test_is_within_twice_the_width_of_a_test_that_must_not_be_repeated():
    """Three groups, 5 % clicks, 60,000 visitors. The log holds only the played arm's probability."""
    n = 60_000
    one = log(n, seed=2, arms=3, means=(0.05, 0.055, 0.05))
    z = width(difference(one, 1, 0, interval="normal"))
    assert width(difference(one, 1, 0)) < 2.0 * z
    assert width(difference(one, 1, 0, interval="asymptotic")) < 1.75 * z
    assert difference(one, 1, 0, interval="asymptotic")["valid"][0].as_py() == "asymptotic"


def test_a_walk_leaves_the_asymptotic_sequence_ever_with_the_probability_it_says():
    """10,000 walks of a thousand million steps, looked at 400 times: a little less often."""
    looks = np.geomspace(1e3, 1e9, 400)
    steps = (
        np.random.default_rng(0).standard_normal((400, 10_000))
        * np.sqrt(np.diff(looks, prepend=0.0))[:, None]
    )
    sizes = np.abs(np.cumsum(steps, axis=0))
    edges = np.array([asymptotic_quantile(int(n), 0.95) * n**0.5 for n in looks])
    assert 0.02 < (sizes > edges[:, None]).any(axis=0).mean() < 0.05


def test_the_asymptotic_sequence_is_narrowest_where_it_is_planned():
    assert asymptotic_quantile(300_000, 0.95) / 1.959964 < 1.6
    assert asymptotic_quantile(100_000, 0.95) / 1.959964 < 1.56


def test_a_promised_smallest_probability_narrows_the_interval_of_rare_rewards():
    rng = np.random.default_rng(0)
    n = 20_000
    p = rng.uniform(0.1, 0.9, size=n)
    arm = (rng.random(n) < p).astype(int)
    one = log(n, arm=arm, probability=np.where(arm == 1, p, 1 - p), means=(0.004, 0.004))
    plain, promised = evaluate(one, 1, "ipw"), evaluate(one, 1, "ipw", smallest_probability=0.1)
    assert width(promised) < 0.5 * width(plain)
    assert promised["lower"][0].as_py() < 0.004 < promised["upper"][0].as_py()


def test_shares_that_are_always_the_same_are_as_good_as_every_arms_probability():
    one = log(3000, arms=3, means=(0.02, 0.02, 0.02))
    every = log(3000, arms=3, means=(0.02, 0.02, 0.02), probabilities=np.full((3000, 3), 1 / 3))
    for column in ("lower", "upper"):
        np.testing.assert_allclose(evaluate(one, 1)[column], evaluate(every, 1)[column], atol=1e-12)
    short = log(20, arms=3, means=(0.5, 0.5, 0.5))
    other = log(20, arms=3, means=(0.5, 0.5, 0.5), probabilities=np.full((20, 3), 1 / 3))
    assert width(evaluate(short, 1, "ipw")) != width(evaluate(other, 1, "ipw"))


# What the rows themselves say against a log


def test_probabilities_that_balance_out_are_held_against_every_arm():
    """Played 4 to 1, logged as even: each weight of the uniform policy is one, and every number is wrong."""
    rng = np.random.default_rng(0)
    arm = (rng.random(2000) < 0.2).astype(int)
    one = log(2000, arm=arm, reward=(rng.random(2000) < np.where(arm, 0.1, 0.3)).astype(float))
    with pytest.warns(
        OPEWarning, match=r"the probabilities in table are wrong: arm 0 was played 1\.\d+ times"
    ):
        rows = evaluate(one, ["uniform", 1]).to_pylist()
    assert all(math.isnan(row["lower"]) and row["valid"] == "—" for row in rows)
    with pytest.warns(OPEWarning, match="arm 0 was played"):
        assert math.isnan(difference(one, 0, 1)["lower"][0].as_py())
    assert any("arm 0 was played" in doubt for doubt in diagnose(one, "uniform").warnings)
    arms = np.tile(np.eye(2), (2000, 1, 1))
    replayed = DecisionLog.from_table({**one.table().to_pydict(), "arms": arms})
    with pytest.raises(BadValue, match="arm 0 was played"):
        Replay(Uniform(), bound=2).run(replayed)


def test_rows_sorted_by_arm_give_no_doubly_robust_interval():
    """What learns in the rows' order learns each arm from its own rewards; weights alone know no order."""
    rng = np.random.default_rng(0)
    n = 4000
    arm = rng.integers(4, size=n)
    reward = (rng.random(n) < np.array([0.05, 0.2, 0.4, 0.7])[arm]).astype(float)
    order = np.lexsort([arm, np.arange(n) // 400])
    one = log(n, arms=4, arm=arm[order], reward=reward[order], means=[0.5] * 4)
    with pytest.warns(OPEWarning, match="an arm follows itself 3.* times as often"):
        ipw, dr = evaluate(one, "uniform", ["ipw", "dr"]).to_pylist()
    assert ipw["lower"] < 0.3375 < ipw["upper"]
    assert math.isnan(dr["lower"])
    times = np.arange(n)[order].astype("datetime64[s]")
    timed_ = log(n, arms=4, arm=arm[order], reward=reward[order], means=[0.5] * 4, time=times)
    with pytest.warns(OPEWarning, match="was taken before the row above it"):
        evaluate(timed_, "uniform", "dr")
    for ask in (
        lambda log: sequence(log, "uniform"),
        lambda log: difference(log, 0, 1),
        lambda log: choose(log, [0, 1]),
        lambda log: evaluate(log, "uniform", "ipw"),
    ):
        with pytest.warns(
            OPEWarning, match=r"an arm follows itself 3.* sorted, .* or stand in it more than once"
        ):
            ask(one)
    for ask in (sequence, lambda log, target: difference(log, target, 0), choose):
        with pytest.warns(OPEWarning, match="was taken before the row above it: sequences"):
            ask(log(n, means=[0.5, 0.5], time=times), "uniform")


def copies(idx, columns=("arm", "probability", "reward", "arm_count"), seed=3) -> DecisionLog:
    """Rows of one log without ids, by their numbers."""
    rng = np.random.default_rng(seed)
    n = 500
    p = rng.dirichlet(np.ones(3), n) * 0.7 + 0.1
    arm = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=2)
    known = {
        "arm": arm, "probability": p[np.arange(n), arm], "reward": (rng.random(n) < 0.4).astype(float),
        "arm_count": np.full(n, 3), "probabilities": p, "time": np.arange(n) // 3 * 1.0,
        "decision_id": [f"d{i}" for i in range(n)],
    }  # fmt: skip
    return DecisionLog.from_table({name: np.asarray(known[name])[idx] for name in columns})


def test_rows_that_stand_in_a_log_more_than_once_are_named_without_ids():
    every = np.arange(500)
    bare, twice = ("arm", "probability", "reward"), np.tile(every, 2)
    with pytest.warns(
        OPEWarning, match="table more than once: rows 500 to 999 are those from row 0 on again"
    ):
        evaluate(copies(twice, bare), 1, "ipw")
    with pytest.warns(OPEWarning, match="or stand in it more than once"):
        evaluate(copies(np.repeat(every, 3), bare), 1, "ipw")
    mixed = np.random.default_rng(1).permutation(np.repeat(every, 3))
    for key in ("probabilities", "time"):
        said = rf"more than once: of 1,\d+ rows whose {key} an earlier row has, [\d,]+ also played its arm, "
        with pytest.warns(OPEWarning, match=said):
            difference(copies(mixed, (*bare, "arm_count", key)), 1, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(copies(every), 1, "ipw")
        evaluate(copies(every, (*bare, "decision_id")), 1, "ipw")
        for seed in range(12):  # three decisions a second, each drawn by itself
            evaluate(copies(every, (*bare, "arm_count", "time"), seed), 1, "ipw")


def test_a_constant_added_to_all_rewards_changes_no_difference():
    one = log(600, seed=39, means=(0.5, 0.6))
    reward = one.table()["reward"].to_numpy() + 100
    moved = DecisionLog.from_table({**one.table().to_pydict(), "reward": reward})
    plain = difference(one, 1, 0).to_pylist()[0]
    far = difference(moved, 1, 0, reward_range=(100, 101)).to_pylist()[0]
    for name in ("estimate", "lower", "upper"):
        assert far[name] == pytest.approx(plain[name], abs=1e-9)


def test_mass_that_could_not_be_logged_is_named_under_limit_theorems():
    rng = np.random.default_rng(1)
    n = 2000
    rare = np.where(rng.random(n) < 0.2, 0.0, 0.1)
    p = np.stack([1 - rare, rare], axis=1)
    arm = (rng.random(n) < rare).astype(int)
    one = log(n, arm=arm, probability=p[np.arange(n), arm], probabilities=p, means=(0.95, 0.95))
    with pytest.warns(
        OPEWarning, match=r"\d\d\.\d+% of the target's mass lies on arms that were never logged"
    ):
        evaluate(one, 1, "ipw", interval="normal")


@pytest.mark.parametrize("interval", ["normal", "asymptotic"])
def test_rounding_is_no_variation(interval):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.2, 0.8, 200)
        arm = (rng.random(200) > p).astype(int)
        one = log(200, arm=arm, probability=np.where(arm == 0, p, 1 - p), reward=np.full(200, 0.7))
        with pytest.warns(OPEWarning, match="does not vary"):
            row = evaluate(one, "uniform", "snipw", interval).to_pylist()[0]
        assert math.isnan(row["lower"])


def test_a_log_says_the_same_in_one_file_and_in_several(tmp_path):
    table = log(100, reward=[0.5] * 10 + [None] + [0.5] * 69 + [7.0] + [0.5] * 19).table()
    for size in (100, 40):
        folder = tmp_path / str(size)
        folder.mkdir()
        for start in range(0, 100, size):
            pq.write_table(table.slice(start, size), folder / f"decisions-{start:020d}-x.parquet")
    one, several = (evaluate(tmp_path / str(size), "uniform", "ipw").to_pylist() for size in (100, 40))
    assert one == several
    assert one[0]["n"] == 10


def test_a_doubly_robust_estimate_beyond_the_range_does_not_contradict_an_interval_that_is_cut_there():
    rng = np.random.default_rng(0)
    arm, target = rng.integers(8, size=30), np.array([0.65, *[0.05] * 7])
    columns = {
        "arm": arm, "arm_count": np.full(30, 8), "probability": np.full(30, 1 / 8), "reward": np.ones(30),
        "probabilities": np.full((30, 8), 1 / 8), "arms": np.tile(np.eye(8), (30, 1, 1)),
    }  # fmt: skip
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        (row,) = evaluate(DecisionLog.from_table(columns), lambda arms: target, "dr").to_pylist()
    assert row["estimate"] > row["upper"] == 1.0
    assert not any("outside its own interval" in str(one.message) for one in said)
