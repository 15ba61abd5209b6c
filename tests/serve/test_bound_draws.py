"""Decisions drawn with the kernel that is bound to a bandit's state: the same ones, from the same state."""

import numpy as np
import pytest

from linmed.policies import LinMED, LinTS, Policy
from linmed.serve.bandit import Bandit
from linmed.serve.decisions import BLOCK, Drawer
from linmed.serve.fast_path import Arms, decide_request
from linmed.serve.schemas import DecideRequest
from linmed.validation import BadValue

RNG = np.random.default_rng(3)
SETS = RNG.normal(size=(20, 6, 4))
NOISE = RNG.random((20, 1, 1))


def ready(policy: Policy) -> Bandit:
    """A bandit as it is served, after some rewards."""
    bandit = Bandit(id=1, name="b", dim=4, policy=policy)
    bandit.make_ready()
    bandit.fold(SETS[:, 0].copy(), np.linspace(-1.0, 1.0, len(SETS)), np.zeros(len(SETS)))
    return bandit


@pytest.mark.identity
@pytest.mark.parametrize("policy", [LinMED(), LinMED(design="warm")])
def test_a_bound_decision_is_that_of_the_policy(policy: Policy) -> None:
    bandit = ready(policy)
    assert bandit.decider is not None
    twin = bandit.apart()  # drawn from while the bandit learns: with a state of its own
    assert twin.decider is None
    for arms, noise in zip(SETS, NOISE, strict=True):
        bound, usual = bandit.draw(arms, noise), twin.draw(arms, noise)
        assert bound[:3] == usual[:3]
        assert np.array_equal(bound.features, usual.features)
        assert bound.log_probabilities is not None
        assert usual.log_probabilities is not None
        assert np.array_equal(bound.log_probabilities, usual.log_probabilities)
    for name, array in bandit.state.arrays().items():
        assert np.array_equal(array, twin.state.arrays()[name])


def test_a_bound_decision_sees_rewards_and_a_state_that_is_loaded() -> None:
    bandit, other = ready(LinMED()), ready(LinMED())
    first = bandit.draw(SETS[0], NOISE[0])
    bandit.fold(SETS[:, 1].copy(), np.full(len(SETS), 5.0), np.zeros(len(SETS)))
    assert bandit.draw(SETS[0], NOISE[0]).log_probability != first.log_probability
    other.load(bandit.save(), 1)
    assert other.draw(SETS[0], NOISE[0]).log_probability == bandit.draw(SETS[0], NOISE[0]).log_probability


def test_a_served_bandit_asks_its_policy_only_where_nothing_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    bandit, other = ready(LinMED()), ready(LinTS())
    assert other.decider is None
    other.draw(SETS[0], np.full((1, LinTS().noise_size(4)), 0.5))
    monkeypatch.setattr(LinMED, "decide", None)
    bandit.draw(SETS[0], NOISE[0])


@pytest.mark.parametrize("entry", [np.nan, np.inf, 1e13])
def test_arms_that_are_an_array_already_are_looked_through(entry: float) -> None:
    arms = SETS[0].copy()
    assert ready(LinMED()).offer(arms, None, None, 100).vectors is arms  # type: ignore[arg-type]
    arms[2, 1] = entry
    with pytest.raises(BadValue, match="arms"):
        ready(LinMED()).offer(arms, None, None, 100)  # type: ignore[arg-type]


def test_a_request_with_nothing_but_arms_can_be_asked_whatever_a_model_can() -> None:
    assert set(Arms._fields) == set(DecideRequest.model_fields)
    plain, usual = decide_request(b'{"arms": [[1.0, 2.0]]}'), DecideRequest(arms=[[1.0, 2.0]])
    assert isinstance(plain, Arms)
    assert np.array_equal(plain.arms, [[1.0, 2.0]])
    assert all(getattr(plain, name) == getattr(usual, name) for name in ("arm_ids", "context", "key"))


def test_ids_of_decisions_grow_and_their_random_halves_differ() -> None:
    bandit, drawer = ready(LinMED()), Drawer()
    offer = bandit.offer(SETS[0], None, None, 100)  # type: ignore[arg-type]
    found = [drawer.draw(bandit, offer, None, None)["id"] for _ in range(2 * BLOCK + 1)]
    assert found == sorted(found)
    assert {len(one) for one in found} == {32}
    assert len({one[16:] for one in found}) == len(found)
