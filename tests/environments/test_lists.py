"""Visitors of lists: their clicks have the values that are stated."""

import itertools

import numpy as np
import pytest

from linmed.environments import ListClicks

ARMS, THETA = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.5, 0.1]]), np.array([0.5, 0.25])
WORLDS = [
    ListClicks(ARMS, THETA),
    ListClicks(ARMS, THETA, "dcm", [0.9, 0.5, 0.2]),
    ListClicks(ARMS, THETA, "position", [1.0, 0.6, 0.3]),
]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.model)
def test_clicks_have_the_stated_value(world):
    """Within five standard errors: a false alarm of less than 1e-6."""
    rng, shown = np.random.default_rng(1), [2, 1, 0]
    counts = np.array([world.clicks(shown, rng).sum() for _ in range(4000)])
    assert abs(counts.mean() - world.value(shown)) < 5.0 * counts.std() / np.sqrt(4000)
    if world.model == "cascade":
        assert counts.max() == 1.0


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.model)
def test_no_list_is_better_than_the_best(world):
    values = [world.value(shown) for shown in itertools.permutations(range(4), 3)]
    assert world.value(world.best(3)) == max(values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"theta": [2.0, 0.0]}, "click rates"),
        ({"theta": [1.0]}, "theta must have 2 entries"),
        ({"model": "dcm"}, "examination must be given"),
        ({"examination": [1.0]}, "examination must be given"),
        ({"model": "position", "examination": [1.5]}, "probabilities by position"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        ListClicks(**{"arms": ARMS, "theta": THETA, **options})
    with pytest.raises(ValueError, match="of 3 positions, and the list has more"):
        WORLDS[2].value([0, 1, 2, 3])
