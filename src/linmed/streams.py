"""Random streams of our own, which no seed of a user's meets.

`default_rng(7)` is the stream that half of all programs draw their data from. An agent with seed 7 that drew
the same numbers would decide by the very noise in its rewards. Every stream here is therefore keyed: a tag
that belongs to linmed, what the stream is for, and whatever else tells it from its siblings.
"""

from typing import Literal

import numpy as np

TAG = 0x6C69_6E6D_6564_2E31  # "linmed.1" in ASCII
_PURPOSES = {"agent": 0, "environment": 1, "policy": 2, "replay": 3, "bootstrap": 4, "offline": 5, "data": 6}

Purpose = Literal["agent", "environment", "policy", "replay", "bootstrap", "offline", "data"]


def bits(seed: int | None, purpose: Purpose, *key: int) -> np.random.PCG64:
    """The bit generator for `purpose`, a function of its arguments alone; None draws fresh entropy.

    >>> bits(7, "data").random_raw() == bits(7, "data").random_raw()
    True
    """
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(TAG, _PURPOSES[purpose], *key)))


def stream(seed: int | None, purpose: Purpose, *key: int) -> np.random.Generator:
    """The generator over `bits`.

    >>> stream(7, "agent").random() == np.random.default_rng(7).random()
    False
    >>> stream(7, "policy", 3).random() == stream(7, "policy", 3).random()
    True
    """
    return np.random.Generator(bits(seed, purpose, *key))
