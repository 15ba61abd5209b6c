"""When regret is written down."""

import numpy as np

from linmed.checks import Ints


def checkpoints(horizon: int, count: int = 200) -> Ints:
    """About `count` rounds, half spaced evenly and half evenly in the logarithm; the last is `horizon`.

    >>> checkpoints(1_000_000)[[0, 1, 2, -2, -1]]
    array([      1,       2,       3,  990000, 1000000])
    """
    half = max(count // 2, 1)
    even = np.linspace(horizon / half, horizon, half)
    logarithmic = np.geomspace(1, horizon, half)
    return np.unique(np.round(np.concatenate([even, logarithmic])).astype(np.int64).clip(1, horizon))
