"""Verdicts follow from numbers and their errors, and errors are what they claim to be."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from linmed.experiments.statistics import (
    Estimate,
    deviation,
    growth,
    jackknife,
    mean,
    ratio,
    slope,
    together,
)

samples = arrays(np.float64, st.integers(2, 12), elements=st.floats(0.1, 100.0))


@given(samples)
def test_the_jackknife_of_a_mean_is_the_textbook_standard_error(sample):
    estimate = jackknife(lambda x: x.mean(), sample)
    textbook = mean(sample)
    assert estimate.value == pytest.approx(textbook.value)
    assert estimate.error == pytest.approx(textbook.error, abs=1e-10)


def test_a_statement_is_decided_only_where_the_interval_leaves_no_doubt():
    sure = Estimate(1.0, 0.1, 100)
    assert sure.above(0.5) == "holds"
    assert sure.above(1.5) == "fails"
    assert sure.above(0.9) == "undecided"
    assert sure.below(1.5) == "holds"
    assert sure.below(0.5) == "fails"
    assert sure.within(0.5, 1.5) == "holds"
    assert sure.within(0.5, 1.1) == "undecided"
    assert sure.within(2.0, 3.0) == "fails"


def test_one_trial_decides_nothing():
    single = mean(np.array([5.0]))
    assert math.isnan(single.error)
    assert single.above(0.0) == single.below(0.0) == single.within(0.0, 10.0) == "undecided"
    assert mean(np.empty(0)).above(0.0) == "undecided"


def test_few_trials_need_a_wider_interval():
    assert Estimate(1.0, 0.1, 3).margin > 2 * Estimate(1.0, 0.1, 1000).margin


def test_zero_regret_has_no_exponent_and_decides_nothing():
    rounds = np.array([1, 10, 100])
    flat = slope(rounds, np.zeros((4, 3)), 1)
    assert flat.above(0.5) == flat.below(0.5) == "undecided"
    assert ratio(np.zeros(4), np.zeros(4)).above(1.0) == "undecided"


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_exponents_of_power_laws_are_recovered(exponent):
    rounds = np.unique(np.geomspace(1, 10_000, 60).astype(int))
    curves = np.outer([1.0, 2.0, 3.0], rounds**exponent)
    assert slope(rounds, curves, 1_000).value == pytest.approx(exponent)
    sizes = (4, 8, 16)
    finals = [np.array([1.0, 2.0]) * size**exponent for size in sizes]
    assert growth(sizes, *finals).value == pytest.approx(exponent)


def test_a_ratio_of_paired_trials_is_sharper_than_of_unpaired_ones():
    rng = np.random.default_rng(1)
    luck = rng.uniform(1.0, 10.0, 40)
    paired = ratio(2.0 * luck, luck)
    assert paired.error < 1e-12
    assert paired.above(1.9) == "holds"
    assert ratio(2.0 * rng.permutation(luck), luck).error > 0.01


def test_samples_of_different_length_are_compared_on_common_trials():
    assert ratio(np.array([2.0, 4.0, 100.0]), np.array([1.0, 2.0])).value == pytest.approx(2.0)


def test_a_true_border_is_rarely_called_crossed():
    """At the border itself "holds" is wrong, and comes up in at most 2.5 % of cases.

    600 samples of 10: more than 30 false alarms have probability 2e-4 under a rate of 2.5 %.
    """
    rng = np.random.default_rng(7)
    alarms = sum(mean(rng.normal(0.0, 1.0, 10)).above(0.0) == "holds" for _ in range(600))
    assert alarms <= 30


def test_deviation_is_the_standard_deviation_with_its_error():
    rng = np.random.default_rng(3)
    estimate = deviation(rng.normal(0.0, 2.0, 4000))
    assert abs(estimate.value - 2.0) < 4 * estimate.error
    assert estimate.error == pytest.approx(2.0 / math.sqrt(2 * 4000), rel=0.1)


def test_all_parts_of_a_claim_must_hold():
    assert together(["holds", "holds"]) == "holds"
    assert together(["holds", "undecided"]) == "undecided"
    assert together(["undecided", "fails", "holds"]) == "fails"


def test_numbers_are_printed_with_fitting_digits():
    assert str(Estimate(123.4, 5.6, 9)) == "123 ± 6"
    assert str(Estimate(0.123, 0.004, 9)) == "0.12 ± 0.00"
    assert str(Estimate(-0.001, 0.04, 9)) == "0.00 ± 0.04"
    assert str(Estimate(12.3, math.nan, 1)) == "12.3"
