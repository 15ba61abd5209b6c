"""When regret is written down, and which random stream belongs to whom."""

import numpy as np

from linmed.checks import Ints

ENVIRONMENT, POLICY = 0, 1
"""The two streams of a trial."""


def stream(seed: int, trial: int, which: int) -> np.random.Generator:
    """The generator of one trial's environment or policy: a function of its arguments alone."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(trial, which)))


def checkpoints(horizon: int, count: int = 200) -> Ints:
    """About `count` rounds, half spaced evenly and half evenly in the logarithm; the last is `horizon`.

    >>> checkpoints(1_000_000)[[0, 1, 2, -2, -1]]
    array([      1,       2,       3,  990000, 1000000])
    """
    half = max(count // 2, 1)
    even = np.linspace(horizon / half, horizon, half)
    logarithmic = np.geomspace(1, horizon, half)
    return np.unique(np.round(np.concatenate([even, logarithmic])).astype(np.int64).clip(1, horizon))
