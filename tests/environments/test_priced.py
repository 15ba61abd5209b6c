"""Worlds with values and costs: what policies see, what they learn, and regret in utility."""

import numpy as np
import pytest

from linmed import EXP2, OFUL, LinMED, simulate
from linmed.environments import Delayed, Environment, FixedArms, Priced, UnitBall
from linmed.simulation import Decided

VALUES, COSTS = (1.0, 3.0, 0.5), (0.1, 0.9, 0.0)
WORLD = FixedArms(np.eye(3), [0.5, 0.4, 0.3], sigma=0.1)


def drawn(rng, rounds, count):
    return rng.uniform(0.0, 0.5, (rounds, count))


def test_regret_is_in_utility_and_policies_that_are_told_find_the_best():
    """u = 0.4, 0.3, 0.15: what is played, priced, is what is regretted."""
    for told in (True, False):
        world = Priced(WORLD, VALUES, COSTS, told)
        results = simulate([LinMED(sigma=0.3), OFUL()], world, horizon=300, trials=3, progress=False)
        for name in results.names:
            regret, pulls = results.final(name), results.pulls(name)
            np.testing.assert_allclose(regret, pulls @ [0.0, 0.1, 0.25], rtol=1e-9, atol=1e-9)
    plain = simulate(LinMED(sigma=0.3), WORLD, horizon=300, trials=3, progress=False)
    free = simulate(LinMED(sigma=0.3), Priced(WORLD), horizon=300, trials=3, progress=False)
    np.testing.assert_array_equal(plain.pulls("LinMED-90 (sigma=0.3)"), free.pulls("LinMED-90 (sigma=0.3)"))


def test_prices_that_are_drawn_are_those_of_the_arms_and_come_from_streams_of_their_own():
    world = Priced(Delayed(UnitBall(arms=4, dim=2), rounds=3), values=2.0, costs=drawn)
    block, plain = (next(one.blocks(np.random.default_rng(1))) for one in (world, world.env))
    np.testing.assert_array_equal(block.arms[..., :2], np.broadcast_to(plain.arms, block.arms[..., :2].shape))
    np.testing.assert_array_equal(block.noise, plain.noise)
    assert (block.delays == 3).all()
    assert (block.arms[..., 2] == 2.0).all()
    assert len(np.unique(block.arms[..., 3])) == 4 * len(block.noise)
    results = simulate(LinMED(), world, horizon=50, trials=2, progress=False)
    assert (results.final(LinMED().name) > 0.0).all()
    again = Priced(WORLD, VALUES, COSTS)
    assert Environment.from_dict(again.to_dict()) == again
    assert "test_priced:drawn" in str(world.identity())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Priced(WORLD, values=(1.0, 0.0, 1.0)), "values must be above 0"),
        (lambda: Priced(WORLD, costs=-1.0), "costs must be 0 or more"),
        (
            lambda: next(Priced(WORLD, costs=(1.0, 2.0)).blocks(np.random.default_rng(0))),
            "costs must be one number",
        ),
        (lambda: Priced(Priced(WORLD)), "already"),
        (lambda: Delayed(Priced(WORLD)), "Priced"),
        (lambda: simulate(EXP2(), Priced(WORLD), 10, 1, progress=False), "takes no values and costs"),
        (
            lambda: simulate(LinMED(), Priced(WORLD), 10, 1, until=Decided(), progress=False),
            "until must be None",
        ),
    ],
)
def test_what_cannot_be_priced_says_so(make, said):
    with pytest.raises(ValueError, match=said):
        make()
