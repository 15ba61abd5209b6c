"""Confidence sequences: their arithmetic, and that they cover at every time at once."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linmed.core import core
from linmed.ope import DecisionLog, difference, evaluate, sequence
from linmed.ope.sequences import (
    CONSTANTS,
    SHARES,
    Arms,
    BettingLower,
    Side,
    ValueSequence,
    difference_sides,
    unpaired_sides,
    value_sides,
)


def plain(x, shift=0.0) -> Side:
    x = np.asarray(x, dtype=float)
    return Side(x, np.full(x.size, float(shift)))


def choices(n: int, arms: int, rng: np.random.Generator):
    """Logged probabilities, a target, another one, and the arms played, all flat."""
    p, pi, other = (rng.dirichlet(np.ones(arms), size=n) for _ in range(3))
    arm = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=arms - 1)
    offsets = np.arange(n + 1) * arms
    return p.ravel(), pi.ravel(), other.ravel(), offsets, offsets[:-1] + arm


def test_betting_wealth_is_the_average_of_products():
    x, shift, mean = np.array([0.0, 3.0, 0.5, 1.0]), np.array([0.0, 0.02, 0.01, 0.0]), 0.4
    lower = BettingLower(0.05)
    lower.add(Side(x[:2], shift[:2]))
    lower.add(Side(x[2:], shift[2:]))
    bets, prior = BettingLower.BETS, BettingLower.PRIOR / BettingLower.PRIOR.sum()
    products = np.prod((1 + bets[:, None] * (x - shift)) / (1 + bets[:, None] * mean), axis=1)
    assert lower.log_wealth(mean) == pytest.approx(math.log(prior @ products), abs=1e-10)


def test_parts_of_a_log_make_the_bound_of_the_whole():
    """Of differences, too: how far down a mean may lie adds up like all else."""
    rng = np.random.default_rng(3)
    x, shift = rng.integers(2, size=40) * 0.1, rng.uniform(0.0, 0.4, size=40)
    whole, one, other = (BettingLower(0.05) for _ in range(3))
    whole.add(Side(x, shift))
    one.add(Side(x[:39], shift[:39]))
    other.add(Side(x[39:], shift[39:]))
    one.merge(other)
    assert one.lower == pytest.approx(whole.lower, abs=1e-12)
    assert one.lower < 0.0
    assert one.count == whole.count == 40


def test_a_model_is_cut_so_that_no_bet_loses_more_than_it_may_and_the_mean_stays():
    """Terms of every bet written out: their conditional mean, over arms and rewards, is the value."""
    rng = np.random.default_rng(0)
    n, arms = 40, 3
    p, pi, _, offsets, _ = choices(n, arms, rng)
    q, means = rng.random(n * arms), rng.random(n * arms)
    guard = p * rng.uniform(0.5, 1.0, size=p.size)
    for bet in (0.05, 0.9, 14.0):
        k = core.CUT / bet
        kept = np.minimum(pi * q, k * guard)
        total, lowest = np.zeros(n), np.inf
        for a in range(arms):
            place = offsets[:-1] + a
            w = pi[place] / p[place]
            for reward, chance in ((1.0, means[place]), (0.0, 1 - means[place])):
                y = w * reward - kept[place] / p[place] + kept.reshape(n, arms).sum(axis=1)
                lowest = min(lowest, y.min())
                total += p[place] * chance * y
        assert 1 + bet * lowest >= 1 - core.CUT - 1e-12
        np.testing.assert_allclose(total, (pi * means).reshape(n, arms).sum(axis=1), atol=1e-12)


def test_the_betting_bound_is_where_the_wealth_meets_the_level():
    lower = BettingLower(0.025, SHARES)
    rng = np.random.default_rng(0)
    p, pi, _, offsets, chosen = choices(300, 3, rng)
    reward = (rng.random(300) < 0.6).astype(float)
    side, _ = value_sides(pi[chosen] / p[chosen], reward, pi, CONSTANTS, Arms(p, p[chosen], offsets, chosen))
    lower.add(side)
    assert 0 < lower.lower < 0.6
    assert lower.log_wealth(lower.lower) == pytest.approx(math.log(40), abs=1e-8)


def test_many_rounds_and_huge_terms_neither_overflow_nor_lose_digits():
    x = np.tile([0.0, 1e200, 1e-3, 5.0], 4000)
    lower = BettingLower(0.05)
    lower.add(plain(np.minimum(x, 1e6)))
    bets = BettingLower.BETS
    gains = np.log1p(bets[:, None] * np.minimum(x, 1e6)).sum(axis=1)
    np.testing.assert_allclose(lower._gains[0], gains, rtol=1e-12)
    huge = BettingLower(0.05)
    huge.add(plain(x))
    assert huge.lower > 1.0


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_bounds_do_not_depend_on_how_terms_are_grouped_and_stay_in_order(size, seed):
    rng = np.random.default_rng(seed)
    weight, reward = rng.exponential(size=size), rng.random(size)
    whole = ValueSequence(0.9, (0, 1))
    whole.add(weight * reward, *value_sides(weight, reward))
    single = ValueSequence(0.9, (0, 1))
    for w, r in zip(weight, reward, strict=True):
        single.add(np.array([w * r]), *value_sides(np.array([w]), np.array([r])))
    np.testing.assert_allclose(whole.bounds, single.bounds, atol=1e-9)
    low, high = whole.bounds
    assert math.isnan(low) or 0 <= low <= high <= 1


def test_sequences_start_at_the_whole_range_and_narrow():
    rng = np.random.default_rng(0)
    bounds = ValueSequence(0.95, (-1, 3))
    assert bounds.bounds == (-1, 3)
    reward = (rng.random(4000) < 0.3).astype(float)
    widths = []
    for part in np.split(reward, 4):
        bounds.add(4 * part - 1, *value_sides(np.ones(part.size), part))
        widths.append(np.diff(bounds.bounds)[0])
    assert all(a >= b for a, b in itertools.pairwise(widths))
    assert widths[-1] < 0.5
    low, high = bounds.bounds
    assert low < 4 * 0.3 - 1 < high
    assert bounds.estimate == pytest.approx(4 * reward.mean() - 1)


def crossing(side: Side, mean: float, level: float, shares=(1.0,)) -> bool:
    """Whether a lower sequence ever passes the mean, looked at after every tenth term."""
    lower = BettingLower(level, shares)
    for i in range(0, side.x.size, 10):
        lower.add(side.part(i, i + 10))
        if lower.log_wealth(mean) >= -math.log(level):
            return True
    return False


def heavy_log(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A logging policy that adapts: the better the last rewards, the rarer the first of two arms."""
    p, arm, reward, run = np.zeros((n, 2)), np.zeros(n, dtype=int), np.zeros(n), 0.0
    for t in range(n):
        rare = 0.5 / (1.0 + run)  # known before the draw
        p[t] = rare, 1 - rare
        arm[t] = rng.random() >= rare
        reward[t] = rng.random() < (0.4, 0.7)[arm[t]]
        run = 0.9 * run + 3 * reward[t] * (arm[t] == 0)
    return p, arm, reward


def first_arm(p: np.ndarray, arm: np.ndarray, reward: np.ndarray, models) -> tuple[Side, Side]:
    n = len(arm)
    offsets = np.arange(n + 1) * 2
    chosen = offsets[:-1] + arm
    pi = np.tile([1.0, 0.0], n)
    played = p[np.arange(n), arm]
    arms = None if models is None else Arms(p.ravel(), played, offsets, chosen)
    return value_sides(pi[chosen] / played, reward, pi, models or (0.0,), arms)


@pytest.mark.parametrize("models", [None, CONSTANTS])
def test_sequences_cover_at_all_times_simultaneously(models):
    """150 adaptive logs, level 0.1 for each side: more misses than 28 has probability below 1e-3."""
    rng = np.random.default_rng(7)
    shares = SHARES if models else (1.0,)
    missed = np.zeros(2, dtype=int)
    for _ in range(150):
        sides = first_arm(*heavy_log(rng, 400), models)
        missed += [crossing(side, mean, 0.1, shares) for side, mean in zip(sides, (0.4, 0.6), strict=True)]
    assert (missed <= 28).all()
    assert missed.sum() >= 1  # a bound that never misses at 10 % would not be worth its name


def test_sequences_hold_for_values_that_drift():
    """25 logs of each shape, 90 % intervals: more than 8 misses has probability below 1e-3."""
    rng = np.random.default_rng(11)
    n = 2000
    t = np.arange(n)
    for means in (0.9 - 0.8 * t / n, 0.5 + 0.4 * np.sin(t / 100), np.where(t < 700, 0.8, 0.1)):
        missed = 0
        average = np.cumsum(means) / (t + 1)
        for _ in range(25):
            weight = np.where(rng.random(n) < 0.25, 4.0, 0.0)
            reward = (rng.random(n) < means).astype(float)
            bounds = ValueSequence(0.9, (0, 1))
            for i in range(0, n, 250):
                part = slice(i, i + 250)
                bounds.add((weight * reward)[part], *value_sides(weight[part], reward[part]))
                low, high = bounds.bounds
                if not low <= average[i + 249] <= high:
                    missed += 1
                    break
        assert missed <= 8


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_the_sides_of_a_difference_have_the_difference_as_their_mean(n, arms, seed):
    rng = np.random.default_rng(seed)
    p, ours, theirs, offsets, _ = choices(n, arms, rng)
    means = rng.random(n * arms)
    total = np.zeros((2, n))
    for a in range(arms):
        chosen = offsets[:-1] + a
        for reward, chance in ((np.ones(n), means[chosen]), (np.zeros(n), 1 - means[chosen])):
            sides = difference_sides(ours, theirs, reward, p[chosen], offsets, chosen)
            for i, side in enumerate(sides):
                assert (side.x >= 0).all()
                total[i] += p[chosen] * chance * (side.x - side.shift)
    truth = ((ours - theirs) * means).reshape(n, arms).sum(axis=1)
    np.testing.assert_allclose(total, [truth, -truth], atol=1e-10)


def test_unpaired_sides_have_the_same_mean():
    weight, other, reward = np.array([2.0, 0.0]), np.array([0.5, 1.0]), np.array([1.0, 0.25])
    below, above = unpaired_sides(weight, other, reward)
    np.testing.assert_allclose(below.x - below.shift, [2.0 - 1, 0.75 - 1])
    np.testing.assert_allclose(above.x - above.shift, [0.5 - 1, 0.25 - 1])


@pytest.mark.parametrize("estimator", ["ipw", "dr"])
def test_the_difference_of_two_policies_is_bracketed_and_antisymmetric(small, estimator):
    truth = small.means[:, 3].mean() - small.means.mean()
    one = difference(small.log, 3, "uniform", estimator).to_pylist()[0]
    other = difference(small.log, "uniform", 3, estimator).to_pylist()[0]
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
