"""Sums over a batch against plain array arithmetic."""

import math

import numpy as np
import pytest

from linmed.core import core


@pytest.mark.parametrize("n", [1, 7, 8, 9, 64, 1001])
def test_moments_and_extremes_equal_array_arithmetic(n):
    rng = np.random.default_rng(n)
    x = rng.normal(5.0, 2.0, size=n)
    mean, scatter = core.moments(x)
    assert mean == pytest.approx(x.mean(), rel=1e-14)
    assert scatter == pytest.approx(((x - x.mean()) ** 2).sum(), rel=1e-11, abs=1e-12)
    assert core.ends(x) == (x.min(), x.max())
    for weight in (rng.exponential(size=n), np.where(rng.random(n) < 0.6, 0.0, 2.0), np.zeros(n)):
        for reward in (rng.integers(-1, 2, size=n).astype(float), rng.random(n), np.full(n, -3.0)):
            counted = reward[weight > 0]
            largest, count, low, at_low, high, at_high = core.ends_of_rewards(weight, reward)
            assert (largest, count) == (weight.max(), counted.size)
            if counted.size:
                assert (low, high) == (counted.min(), counted.max())
                assert (at_low, at_high) == ((counted == low).sum(), (counted == high).sum())
            else:
                assert (low, high, at_low, at_high) == (math.inf, -math.inf, 0, 0)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 5, 8, 16])
def test_ends_are_not_numbers_where_an_entry_is_none(odd, place):
    x = np.ones(17)
    x[place] = odd
    assert all(map(math.isnan, core.ends(x)))
