"""One decision at a time: what is bound to a state decides and learns as the policy itself does."""

import copy
import gc
import itertools
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from linmed import OFUL, Agent, Decision, LinMED, LinMEDNoDesign, LinTS
from linmed.decider import Decider
from linmed.streams import bits

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
POLICIES = [LinMED(sigma=0.5), LinMED(version=1), LinMEDNoDesign(), OFUL(), LinTS(propensity="none")]


def sets(K, d, n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, K, d)) / d


@pytest.mark.identity
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize(("K", "d"), [(1, 1), (3, 2), (10, 4), (5, 20), (60, 12)])
def test_a_bound_state_decides_and_learns_to_the_last_bit_as_the_policy_does(policy, K, d):
    decider, state = Decider(policy, d, bits(1, "agent")), policy.start(1, d)
    noise = policy.draw_noise(np.random.Generator(bits(1, "agent")), (256, 1), d)
    for t, arms in enumerate(sets(K, d, 30)):
        one = decider.decide(arms)
        choice, arm, vector = policy.decide(state, arms[None], noise[t]), one.arm, one.features
        assert (arm, one.probability_error) == (choice.arm[0], 0.0)
        np.testing.assert_array_equal(one._log_probability, choice.log_probability[0])
        np.testing.assert_array_equal(vector, arms[arm])
        assert not np.shares_memory(vector, arms)
        if choice.log_probabilities is None:
            assert one.log_probabilities is None
        else:
            np.testing.assert_array_equal(one.log_probabilities, choice.log_probabilities[0])
            np.testing.assert_array_equal(one.log_probabilities, decider.log_probabilities(arms))
        decider.learn(one._kept, float(t % 3))
        policy.learn(state, arms[arm][None], np.array([float(t % 3)]), np.zeros(1, dtype=np.int64))
    for name, array in state.arrays().items():
        np.testing.assert_array_equal(decider.state.arrays()[name], array, err_msg=name)


def test_a_subclass_that_decides_or_learns_in_its_own_way_is_asked():
    class Stubborn(LinMED):
        def decide(self, state, arms, noise):
            choice = super().decide(state, arms, noise)
            return choice._replace(arm=np.full_like(choice.arm, 2))

    class Doubtful(LinMED):
        def learn(self, state, features, rewards, replicas):
            super().learn(state, features, rewards / 2, replicas)

    one = Agent(Stubborn(), dim=2, seed=0)
    assert {one.decide(ARMS).arm for _ in range(20)} == {2}
    assert {decision.arm for decision in one.decide_batch([ARMS] * 20)} == {2}
    plain, halved = Agent(LinMED(), dim=2, seed=0), Agent(Doubtful(), dim=2, seed=0)
    plain.learn(plain.decide(ARMS), 1.0)
    halved.learn(halved.decide(ARMS), 2.0)
    np.testing.assert_array_equal(plain.theta, halved.theta)


def test_a_confidence_set_of_ones_own_is_bound_too(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "examples"))
    from own_confidence import MixtureLinMED

    policy = MixtureLinMED()
    one = Agent(policy, dim=2, seed=0)
    for _ in range(10):
        expected = policy.log_probabilities(one.state, ARMS[None])[0]
        decision = one.decide(ARMS)
        np.testing.assert_array_equal(decision.log_probabilities, expected)
        one.learn(decision, 1.0)


def test_what_is_bound_keeps_what_it_works_on():
    policy = LinMED()
    live, theta = policy.live(policy.start(1, 3)), None
    gc.collect()
    rest = [np.ones((1, 3, 3)) for _ in range(50)]
    live.learn(np.ones(3).tobytes(), 2.0)
    state = policy.start(1, 3)
    theta = state.theta
    live = policy.live(state)
    del state
    gc.collect()
    live.learn(np.ones(3).tobytes(), 2.0)
    np.testing.assert_allclose(theta, [[0.5, 0.5, 0.5]])
    assert all((array == 1.0).all() for array in rest)


@pytest.mark.parametrize("policy", [LinMED(), OFUL(), LinTS()], ids=lambda policy: policy.name)
@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf, 1e101])
def test_a_bad_entry_is_named_and_changes_nothing(policy, entry):
    one, other = Agent(policy, dim=2, seed=0), Agent(policy, dim=2, seed=0)
    for agent in (one, other):
        agent.learn(agent.decide(ARMS), 1.0)
    bad = ARMS.copy()
    bad[2, 1] = entry
    for call in (one.decide, one.probabilities, lambda arms: one.decide_batch([ARMS, arms])):
        with pytest.raises(ValueError, match=r"arms\[2, 1\] is .*; every entry must be finite"):
            call(bad)
    assert (one.pending, one.count) == ((), 1)
    assert [one.decide(ARMS).arm for _ in range(9)] == [other.decide(ARMS).arm for _ in range(9)]


def test_copies_and_pickles_of_an_agent_in_use_go_their_own_way():
    one = Agent(LinMED(), dim=2, seed=0)
    for _ in range(5):
        one.learn(one.decide(ARMS), 1.0)
    before = one.theta
    twins = copy.deepcopy(one), pickle.loads(pickle.dumps(one))
    arms = [[twin.decide(ARMS).arm for _ in range(9)] for twin in twins]
    for twin in twins:
        twin.learn(twin.pending[0], -5.0)
        assert twin.count == 6
    np.testing.assert_array_equal(one.theta, before)
    assert arms == [[one.decide(ARMS).arm for _ in range(9)]] * 2


def test_a_restored_state_is_the_one_that_decides():
    one, other = Agent(LinMED(), dim=2, seed=0), Agent(LinMED(), dim=2, seed=0)
    one.decide(ARMS)
    other.decide(ARMS)
    for _ in range(50):
        other.learn(other.decide(ARMS), 1.0)
    one.state.restore(other.state.arrays())
    np.testing.assert_array_equal(one.decide(ARMS).log_probabilities, other.decide(ARMS).log_probabilities)


def test_a_decision_cannot_be_changed_and_equals_nothing_but_itself():
    one = Agent(LinMED(), dim=2, seed=0)
    decision = one.decide(ARMS)
    for name in ("id", "arm", "log_probability", "features", "log_probabilities", "probability_error", "new"):
        with pytest.raises(AttributeError):
            setattr(decision, name, 0)
    for array in (decision.features, decision.log_probabilities):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = np.nan
    with pytest.raises(AttributeError):
        one.dim = 40
    twin = pickle.loads(pickle.dumps(decision))
    assert isinstance(twin, Decision)
    assert (twin.id, twin.arm, twin.log_probability) == (decision.id, decision.arm, decision.log_probability)
    np.testing.assert_array_equal(twin.features, decision.features)
    assert twin != decision
    assert len({decision, twin, decision}) == 2
    assert repr(decision).startswith(f"Decision(id='{decision.id}', arm={decision.arm}, probability=0.")


def test_arms_may_be_changed_after_the_decision():
    arms, sheets = ARMS.copy(), np.stack([ARMS, ARMS])
    one = Agent(LinMED(), dim=2, seed=0)
    decisions = [one.decide(arms), *one.decide_batch(sheets)]
    arms[:], sheets[:] = 7.0, 7.0
    for decision in decisions:
        np.testing.assert_array_equal(decision.features, ARMS[decision.arm])
        one.learn(decision, 1.0)
    assert np.abs(one.theta).max() < 1.0


def test_ctrl_c_leaves_a_decision_either_learned_or_pending():
    """Wherever between two instructions of the interpreter it comes."""

    def interrupt(frame, event, arg):
        nonlocal left
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left < 0:
            raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    for until in itertools.count():
        agent, left = Agent(LinMED(), dim=2, seed=0), until
        decision = agent.decide(ARMS)
        sys.settrace(interrupt)
        try:
            agent.learn(decision, 1.0)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert (agent.count == 1) == (decision.id not in agent.pending)
        if left > 0:
            break
    assert until > 50
