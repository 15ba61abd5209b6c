"""A bandit of the service draws the decisions of its policy, and learns what the log says."""

import numpy as np
import pytest

from linmed import streams
from linmed.policies import LinMED, LinTS, Policy
from linmed.serve.bandit import Bandit
from linmed.serve.decisions import BLOCK, Identifiers
from linmed.validation import BadValue

RNG = np.random.default_rng(3)
SETS = RNG.normal(size=(20, 6, 4))


def ready(policy: Policy) -> Bandit:
    """A bandit as it is served, after some rewards."""
    bandit = Bandit(id=1, name="b", dim=4, policy=policy)
    bandit.make_ready()
    bandit.fold(SETS[:, 0].copy(), np.linspace(-1.0, 1.0, len(SETS)), np.zeros(len(SETS)))
    return bandit


@pytest.mark.identity
@pytest.mark.parametrize("policy", [LinMED(), LinMED(design="warm"), LinTS()])
def test_a_bandit_decides_as_its_policy_from_the_same_state(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("linmed.serve.bandit.secure_bits", lambda: streams.bits(3, "agent"))
    bandit = ready(policy)
    twin = bandit.apart()  # drawn from while the bandit learns: with a state of its own
    state, rng = bandit.state.copy(), np.random.Generator(streams.bits(3, "agent"))
    noise = policy.draw_noise(rng, (256, 1), 4)
    offers = [bandit.offer(arms, None, None, 100) for arms in SETS]
    for drawn in (bandit.decide(offers), twin.decide(offers)):
        own = state.copy()
        for t, one in enumerate(drawn):
            choice = policy.decide(own, SETS[t][None], noise[t])
            assert choice.log_probabilities is not None
            assert (one.arm, one.log_probability) == (choice.arm[0], choice.log_probability[0])
            assert np.array_equal(one.log_probabilities, choice.log_probabilities[0])
    assert all(np.array_equal(a, twin.state.arrays()[name]) for name, a in bandit.state.arrays().items())


def test_a_decision_sees_rewards_and_a_state_that_is_loaded() -> None:
    bandit, other = ready(LinMED()), ready(LinMED())
    first = bandit.decider.log_probabilities(SETS[0])
    bandit.fold(SETS[:, 1].copy(), np.full(len(SETS), 5.0), np.zeros(len(SETS)))
    assert not np.array_equal(bandit.decider.log_probabilities(SETS[0]), first)
    other.load(bandit.save(), 1)
    laws = [one.decider.log_probabilities(SETS[0]) for one in (bandit, other)]
    assert np.array_equal(*laws)


@pytest.mark.parametrize("entry", [np.nan, np.inf, 1e13])
def test_arms_that_are_an_array_already_are_looked_through(entry: float) -> None:
    arms = SETS[0].copy()
    assert ready(LinMED()).offer(arms, None, None, 100).vectors is arms  # type: ignore[arg-type]
    arms[2, 1] = entry
    with pytest.raises(BadValue, match="arms"):
        ready(LinMED()).offer(arms, None, None, 100)  # type: ignore[arg-type]


def test_ids_of_decisions_grow_and_their_random_halves_differ() -> None:
    named = Identifiers()
    found = [named.next() for _ in range(2 * BLOCK + 1)]
    assert found == sorted(found)
    assert {len(one) for one in found} == {32}
    assert len({one[16:] for one in found}) == len(found)
