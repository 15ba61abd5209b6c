"""Confidence sequences: their arithmetic, and that they cover at every time at once."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from linmed.kernels import sequences as kernels
from linmed.ope import DecisionLog, difference, evaluate, sequence
from linmed.ope.rounds import Reader
from linmed.ope.sequences import (
    BernsteinLower,
    BettingLower,
    MixtureLower,
    ValueSequence,
    dr_terms,
    log_mixture,
    lower_sequence,
)

KINDS = ["betting", "bernstein", "mixture"]


def test_betting_wealth_is_the_average_of_products():
    x, mean = np.array([0.0, 3.0, 0.5, 1.0]), 0.4
    lower = BettingLower(0.05)
    lower.add(x[:2])
    lower.add(x[2:], floor=2.0)
    bets = BettingLower.BETS
    products = np.prod((1 + bets[:, None] * x[:2]) / (1 + bets[:, None] * mean), axis=1)
    products *= np.prod((1 + bets[:, None] * (x[2:] + 2)) / (1 + bets[:, None] * (mean + 2)), axis=1)
    assert lower.log_wealth(mean) == pytest.approx(math.log(products.mean()), abs=1e-10)


@pytest.mark.parametrize("floor", [0.0, 1.5])
def test_the_betting_bound_is_where_the_wealth_meets_the_level(floor):
    x = np.random.default_rng(0).exponential(size=300) * 0.6 - floor * 0.1
    lower = BettingLower(0.025)
    lower.add(x, floor)
    assert 0 < lower.lower < x.mean()
    assert lower.log_wealth(lower.lower) == pytest.approx(math.log(40), abs=1e-8)


def test_many_rounds_and_huge_terms_neither_overflow_nor_lose_digits():
    x = np.tile([0.0, 1e200, 1e-3, 5.0], 4000)
    lower = BettingLower(0.05)
    lower.add(np.minimum(x, 1e6))
    bets = BettingLower.BETS
    gains = np.log1p(bets[:, None] * np.minimum(x, 1e6)).sum(axis=1)
    np.testing.assert_allclose(lower._gains, gains, rtol=1e-12)
    huge = BettingLower(0.05)
    huge.add(x)
    assert huge.lower == 1.0


def test_bernstein_equals_its_formula_written_out():
    x, level = np.array([0.0, 2.0, 0.3, 0.9, 0.0]), 0.05
    for floor in (0.0, 1.0):
        top = bottom = penalty = 0.0
        for t in range(1, 6):
            past = x[: t - 1]
            means = [(0.5 + x[:i].sum()) / (1 + i) for i in range(1, t)]
            variance = (0.25 + sum((past[i] - means[i]) ** 2 for i in range(t - 1))) / t
            rate = math.sqrt(2 * math.log(1 / level) / (variance * t * math.log(1 + t)))
            rate = min(rate * (1 + floor), 0.5)
            guess = min((0.5 + past.sum()) / t, 1.0) / (1 + floor)
            xi = x[t - 1] / (1 + floor)
            top += rate * xi
            bottom += rate / (1 + floor)
            penalty += (-math.log(1 - rate) - rate) * (xi - guess) ** 2
        lower = BernsteinLower(level)
        lower.add(x, floor)
        expected = (top - math.log(1 / level) - penalty) / bottom
        assert lower.lower == pytest.approx(min(max(expected, 0), 1), abs=1e-10)
        state = lower._state
        assert state[kernels.CENTRE] == pytest.approx(top, abs=1e-12)
        assert state[kernels.PENALTY] == pytest.approx(penalty, abs=1e-12)


@pytest.mark.parametrize(("s", "v"), [(0.0, 1.0), (3.0, 2.0), (10.0, 40.0)])
def test_the_gamma_mixture_equals_its_integral(s, v):
    """∫ exp(λs − ψ(λ)v) dF over [0, 1) with density ∝ e^{−(1−λ)} (ρ = 1)."""
    total, _ = quad(lambda x: math.exp(x * s + v * (math.log1p(-x) + x) + x - 1), 0, 1, epsabs=1e-13)
    norm, _ = quad(lambda x: math.exp(x - 1), 0, 1, epsabs=1e-13)
    assert log_mixture(s, v) == pytest.approx(math.log(total / norm), abs=1e-9)


def test_the_mixture_refuses_negative_terms():
    with pytest.raises(ValueError, match="non-negative"):
        MixtureLower(0.05).add(np.array([1.0]), floor=0.5)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(KINDS), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_bounds_do_not_depend_on_how_terms_are_grouped_and_stay_in_order(kind, size, seed):
    rng = np.random.default_rng(seed)
    weight, reward = rng.exponential(size=size), rng.random(size)
    whole = ValueSequence(kind, 0.9, (0, 1))
    whole.add(weight * reward, weight * reward, weight * (1 - reward))
    single = ValueSequence(kind, 0.9, (0, 1))
    for w, r in zip(weight, reward, strict=True):
        single.add(np.array([w * r]), np.array([w * r]), np.array([w * (1 - r)]))
    np.testing.assert_allclose(whole.bounds, single.bounds, atol=1e-9)
    low, high = whole.bounds
    assert math.isnan(low) or 0 <= low <= high <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_start_at_the_whole_range_and_narrow(kind):
    rng = np.random.default_rng(0)
    bounds = ValueSequence(kind, 0.95, (-1, 3))
    assert bounds.bounds == (-1, 3)
    reward = (rng.random(4000) < 0.3).astype(float)
    widths = []
    for part in np.split(reward, 4):
        bounds.add(4 * part - 1, part, 1 - part)
        widths.append(np.diff(bounds.bounds)[0])
    assert all(a >= b for a, b in itertools.pairwise(widths))
    assert widths[-1] < 0.5
    low, high = bounds.bounds
    assert low < 4 * 0.3 - 1 < high
    assert bounds.estimate == pytest.approx(4 * reward.mean() - 1)


def crossing(kind: str, x: np.ndarray, mean: float, level: float) -> bool:
    """Whether a lower sequence ever passes the mean, looked at after every term."""
    if kind == "betting":
        bets = BettingLower.BETS
        worst = kernels.largest_wealth(bets, np.full(bets.size, 1 / bets.size), x, np.zeros(x.size), mean)
        return bool(worst >= 1 / level)
    lower = lower_sequence(kind, level)
    for i in range(x.size):
        lower.add(x[i : i + 1])
        if lower.lower > mean:
            return True
    return False


def test_the_largest_wealth_is_the_largest_over_time():
    x, floor = np.random.default_rng(2).exponential(size=60), np.repeat([0.0, 0.4, 1.0], 20)
    bets, seen = BettingLower.BETS, []
    lower = BettingLower(0.05)
    for value, k in zip(x, floor, strict=True):
        lower.add(np.array([value]), k)
        seen.append(math.exp(lower.log_wealth(0.7)))
    worst = kernels.largest_wealth(bets, np.full(bets.size, 1 / bets.size), x, floor, 0.7)
    assert worst == pytest.approx(max(seen), rel=1e-9)


def heavy_terms(rng: np.random.Generator, n: int) -> np.ndarray:
    """w·r of a logging policy that adapts: the better the last rewards, the rarer the arm in question."""
    x, run = np.zeros(n), 0.0
    for t in range(n):
        p = 0.5 / (1.0 + run)  # known before the draw
        if rng.random() < p:
            reward = float(rng.random() < 0.4)
            x[t] = reward / p
            run = 0.9 * run + 3 * reward
        else:
            run *= 0.9
    return x


@pytest.mark.parametrize("kind", KINDS)
def test_lower_sequences_cover_at_all_times_simultaneously(kind):
    """300 adaptive logs, level 0.1: more than 48 misses has probability below 1e-3 if the level holds."""
    rng = np.random.default_rng(7)
    logs = 300 if kind == "betting" else 100
    allowed = 48 if kind == "betting" else 21
    missed = sum(crossing(kind, heavy_terms(rng, 400), 0.4, 0.1) for _ in range(logs))
    assert missed <= allowed
    if kind == "betting":
        assert missed >= 1  # a bound that never misses at 10 % would not be worth its name


def test_a_fixed_size_interval_fails_where_sequences_hold():
    """The same check fails for the normal interval looked at after every decision: the test can fail."""
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(100):
        x = heavy_terms(rng, 400)
        n = np.arange(20, 401)
        mean = np.cumsum(x)[19:] / n
        spread = np.sqrt(np.maximum(np.cumsum(x**2)[19:] / n - mean**2, 0) / n)
        missed += bool((mean - 1.2816 * spread > 0.4).any())
    assert missed > 21


def test_doubly_robust_terms_respect_their_floor_and_keep_the_mean(small):
    (rounds,) = Reader(columns=("probabilities", "arms")).read(small.log)
    rng = np.random.default_rng(0)
    target = np.tile([0.0, 0.7, 0.3, 0.0], 500)
    model, floor = rng.random(2000), np.full(500, 0.3)
    p = rounds.logged.reshape(500, 4)
    means = small.means
    expected = np.zeros((2, 500))
    for arm in range(4):  # the conditional mean, over the arm that might have been played and both rewards
        rounds.arm = np.full(500, arm)
        weight = target.reshape(500, 4)[:, arm] / p[:, arm]
        for reward, chance in ((np.ones(500), means[:, arm]), (np.zeros(500), 1 - means[:, arm])):
            terms = np.array(dr_terms(rounds, target, weight, reward, model, floor))
            assert (terms >= -0.3 - 1e-12).all()
            expected += p[:, arm] * chance * terms
    value = (target.reshape(500, 4) * means).sum(axis=1)
    np.testing.assert_allclose(expected, [value, 1 - value], atol=1e-12)


@pytest.mark.parametrize("estimator", ["ipw", "dr"])
@pytest.mark.parametrize("interval", ["betting", "bernstein"])
def test_the_difference_of_two_policies_is_bracketed_and_antisymmetric(small, estimator, interval):
    truth = small.means[:, 3].mean() - small.means.mean()
    one = difference(small.log, 3, "uniform", estimator, interval).to_pylist()[0]
    other = difference(small.log, "uniform", 3, estimator, interval).to_pylist()[0]
    assert one["lower"] < truth < one["upper"]
    assert one["lower"] == pytest.approx(-other["upper"], abs=1e-9)
    assert one["estimate"] == pytest.approx(-other["estimate"], abs=1e-12)
    single = evaluate(small.log, [3, "uniform"], estimator, interval="none")["estimate"].to_pylist()
    assert one["estimate"] == pytest.approx(single[0] - single[1], abs=1e-12)
    assert one["target"] == "arm 3 − uniform"


def test_the_difference_of_rewards_on_another_range_scales_with_it(small):
    columns = small.columns | {"reward": 10 * small.columns["reward"] - 4}
    wide = difference(DecisionLog.from_table(columns), 3, "uniform", reward_range=(-4, 6)).to_pylist()[0]
    unit = difference(small.log, 3, "uniform").to_pylist()[0]
    assert wide["lower"] == pytest.approx(10 * unit["lower"], abs=1e-8)
    assert wide["upper"] == pytest.approx(10 * unit["upper"], abs=1e-8)


def test_the_trace_ends_with_what_evaluate_reports(small):
    for estimator in ("ipw", "dr"):
        trace = sequence(small.log, "uniform", estimator).to_pylist()
        row = evaluate(small.log, "uniform", estimator, reward_range=(0, 1)).to_pylist()[0]
        for key in ("n", "estimate", "lower", "upper"):
            assert trace[-1][key] == pytest.approx(row[key], abs=1e-12)
        assert trace[0]["n"] == 1
        assert [r["lower"] for r in trace] == sorted(r["lower"] for r in trace)


def test_under_drift_the_average_value_so_far_is_covered():
    """Rewards 1 for 500 decisions, then 0: one value fits no log, the average so far is 1/2."""
    reward = np.repeat([1.0, 0.0], 500)
    log = DecisionLog.from_table(
        {"arm": [0] * 1000, "probability": [1.0] * 1000, "reward": reward, "arm_count": [1] * 1000}
    )
    with pytest.warns(UserWarning, match="no value of target 'uniform' is compatible.*drift"):
        table = evaluate(log, "uniform", "ipw", reward_range=(0, 1))
    assert math.isnan(table["lower"][0].as_py())
    for interval in ("betting", "mixture"):
        table = evaluate(log, "uniform", "ipw", interval=interval, reward_range=(0, 1), drift=True)
        row = table.to_pylist()[0]
        assert row["lower"] < 0.5 < row["upper"]
        assert row["upper"] - row["lower"] < 0.2
    with pytest.raises(ValueError, match="needs one value"):
        evaluate(log, "uniform", "ipw", interval="bernstein", reward_range=(0, 1), drift=True)
