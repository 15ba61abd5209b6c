"""Rewards that never come: deadlines, what is held, what comes late, files and the log."""

import copy
import os
from datetime import timedelta

import numpy as np
import pytest

from linmed import Agent, Disjoint, Forgetful, Greedy, LinMED, LogisticMED
from linmed.agent import UnknownDecision
from linmed.log import DecisionLog, LogWriter
from tests.policies.configurations import SOME, acceptable, make_arms, short, warmed_up

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])


def agent(policy=None, **options):
    return Agent(policy or LinMED(), dim=2, seed=3, **{"wait": 10.0, **options})


def seen(*pairs, policy=None):
    """What an agent knows that was told (arm, reward) in this order."""
    one = Agent(policy or LinMED(), dim=2)
    for features, reward in pairs:
        one.observe(features, reward)
    return one


def test_silence_is_learned_at_its_deadline_and_rewards_are_held_until_theirs():
    one = agent()
    first, second, third = (one.decide(ARMS, time=t) for t in (0.0, 1.0, 2.0))
    one.learn(second, 1.0, time=3.0)
    assert one.count == 0
    assert one.pending == (first.id, third.id)
    assert one.expire(9.9) == 0
    assert one.expire(11.0) == 2
    same = seen((first.features, 0.0), (second.features, 1.0))
    np.testing.assert_array_equal(one.state.theta, same.state.theta)
    assert one.deadlines == {"held": 0, "missed": 1, "corrected": 0, "ignored": 0}
    assert one.pending == (third.id,)


def test_learning_at_once_leaves_only_silence_for_the_deadline():
    one = agent(early="learn", missing=-1.0)
    first, second = one.decide(ARMS, time=0.0), one.decide(ARMS, time=0.0)
    one.learn(second, 1.0, time=3.0)
    assert one.count == 1
    one.decide(ARMS, time=10.0)  # whoever calls, what is due is learned first
    same = seen((second.features, 1.0), (first.features, -1.0))
    np.testing.assert_array_equal(one.state.theta, same.state.theta)


def test_deadlines_come_in_their_order_and_ids_break_ties():
    order = []

    class Noting(LinMED):
        def learn(self, state, features, rewards, replicas):
            order.append(features[0].tolist())
            super().learn(state, features, rewards, replicas)

    one = agent(Noting())
    times = [5.0, 1.0, *[3.0] * 12]
    made = [one.decide(np.array([[float(i), 1.0]]), time=t) for i, t in enumerate(times)]
    one.learn(made[7], 1.0, time=5.0)
    assert one.expire(100.0) == 14
    assert [int(row[0]) for row in order] == [1, *range(2, 14), 0]


@pytest.mark.parametrize("policy", [LinMED(sigma="unknown"), LogisticMED()], ids=short)
def test_copies_learn_decisions_of_one_moment_in_one_order(policy, tmp_path):
    """Their ids begin otherwise in every copy, and are no part of the order."""
    one = agent(policy)
    one.decide(ARMS, time=0.0)
    one.save(tmp_path / "agent.npz")
    copies = [one, *(Agent.load(tmp_path / "agent.npz") for _ in range(4)), copy.deepcopy(one)]
    for each in copies:
        for i, decision in enumerate(each.decide_batch([ARMS] * 12, time=0.0)):
            each.learn(decision, float(i % 3 == 0), time=1.0)
        assert each.expire(10.0) == 13
        assert each.state.theta.tobytes() == one.state.theta.tobytes()


def test_the_oldest_are_dropped_whether_their_reward_is_held_or_not():
    """To keep the clicks among them would teach that there are more."""
    one = agent(max_pending=2)
    first, second = one.decide(ARMS, time=0.0), one.decide(ARMS, time=1.0)
    one.learn(second, 1.0, time=1.5)
    kept = [one.decide(ARMS, time=t) for t in (2.0, 3.0)]
    assert (one.dropped, one.deadlines["held"]) == (2, 0)
    assert one.pending == tuple(decision.id for decision in kept)
    assert one.expire(100.0) == one.count == 2
    for gone in (first, second):
        with pytest.raises(UnknownDecision, match="dropped by max_pending"):
            one.learn(gone, 1.0, time=100.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
def test_a_process_that_forks_and_its_child_each_learn_what_waits():
    one = agent(LogisticMED())
    one.decide_batch([ARMS] * 5, time=0.0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        one.decide(ARMS, time=0.0)
        one.expire(10.0)
        os.write(writer, one.theta.tobytes())
        os._exit(0)
    one.decide(ARMS, time=0.0)
    one.expire(10.0)
    os.waitpid(child, 0)
    assert np.frombuffer(os.read(reader, 100)).tolist() == one.theta.tolist()
    assert one.count == 6


@pytest.mark.parametrize("early", ["hold", "learn"])
def test_late_rewards_leave_what_rewards_in_time_would_have(early):
    """A thousand decisions, whose rewards come before their deadline, after it, too late, or never."""
    rng, policy = np.random.default_rng(0), LinMED(sigma="unknown")
    one, clicks, true = agent(policy, early=early), [], []
    for t in [*range(1000), np.inf]:
        while clicks and clicks[0][0] <= t:
            moment, decision = clicks.pop(0)
            if moment - float(true[decision][2]) > 20.0:
                with pytest.raises(UnknownDecision, match="too long ago"):
                    one.learn(true[decision][3], 1.0, time=moment)
            else:
                one.learn(true[decision][3], 1.0, time=moment)
        if t < np.inf:
            decision, delay = one.decide(ARMS, time=float(t)), rng.exponential(9.0)
            clicked = rng.random() < 0.4
            true.append((decision.features, float(clicked and delay <= 20.0), t, decision))
            if clicked:
                clicks = sorted([*clicks, (t + delay, t)])
    one.expire(1100.0)
    same = seen(*((row, y) for row, y, *_ in true), policy=policy)
    assert one.deadlines["corrected"] > 50
    assert one.count == same.count == 1000
    for name in ("theta", "moment", "rss"):
        np.testing.assert_allclose(one.state.arrays()[name], same.state.arrays()[name], rtol=1e-9, atol=1e-9)


def test_a_reward_at_the_deadline_is_in_time_and_one_after_it_is_late():
    one = agent()
    first, second = one.decide(ARMS, time=0.0), one.decide(ARMS, time=0.0)
    one.learn(first, 1.0, time=10.0)
    one.learn(second, 1.0, time=10.000001)
    assert one.deadlines == {"held": 0, "missed": 1, "corrected": 1, "ignored": 0}


@pytest.mark.parametrize("policy", SOME, ids=short)
def test_a_correction_is_as_if_the_reward_had_come_or_it_changes_nothing(policy):
    """Clicks and counts, whose steps depend on the order, come closer to what they would have learned."""
    rng = np.random.default_rng(7)
    arms = make_arms(policy, rng)
    state = warmed_up(policy, arms, rng)
    one, other, wrong = state.copy(), state.copy(), state.copy()
    before, after = acceptable(policy, np.array([0.0, 1.0])).tolist()
    mine = np.zeros(1, dtype=np.int64)
    played = np.array([1])
    vector = policy.features(state, arms, played)
    rest = [policy.features(state, arms, np.array([i])) for i in (0, 2)]
    for each, reward in ((one, before), (other, after), (wrong, before)):
        policy.learn_at(each, vector, np.array([reward]), mine, np.zeros(1))
        for more in rest:
            policy.learn_at(each, more, acceptable(policy, np.array([0.5])), mine, np.ones(1))
    if not policy.correct(one, vector[0], before, after):
        for name, array in one.arrays().items():
            np.testing.assert_array_equal(array, wrong.arrays()[name])
        return
    if hasattr(one, "moment"):
        np.testing.assert_allclose(one.theta, other.theta, rtol=1e-9, atol=1e-11)
        for name, array in one.arrays().items():
            if name not in ("leveraged", "gram_low", "moment_low"):
                np.testing.assert_allclose(array, other.arrays()[name], rtol=1e-8, atol=1e-9, err_msg=name)
        if getattr(policy, "confidence", "") != "empirical":  # whose radius sums over the order of rewards
            law, same = (np.exp(policy.log_probabilities(each, arms)) for each in (one, other))
            np.testing.assert_allclose(law, same, atol=1e-6)
    else:
        apart, off = (np.abs(each.theta - other.theta).max() for each in (one, wrong))
        assert apart <= 0.5 * off


def test_what_cannot_be_corrected_is_ignored_and_counted():
    for policy in (Forgetful(LinMED()), LinMED()):
        one = agent(policy, late="ignore" if policy == LinMED() else "correct")
        decision = one.decide(ARMS, time=0.0)
        one.learn(decision, 1.0, time=11.0)
        assert one.deadlines == {"held": 0, "missed": 1, "corrected": 0, "ignored": 1}
        assert not one.theta.any()


@pytest.mark.parametrize("early", ["hold", "learn"])
def test_files_and_copies_go_on_exactly(early, tmp_path):
    one = agent(
        LinMED(sigma="unknown", ridge="learned"), early=early, control=0.2, shadow={"greedy": Greedy()}
    )
    made = [one.decide(ARMS, time=float(t)) for t in range(12)]
    for i in (3, 4, 5):
        one.learn(made[i], 1.0, time=11.0)
    one.expire(14.0)
    one.save(tmp_path / "agent.npz")
    others = [Agent.load(tmp_path / "agent.npz"), copy.deepcopy(one)]
    for each in (one, *others):
        each.learn(made[2], 0.5, time=14.0)  # late
        each.learn(made[9], 1.0, time=15.0)
        each.expire(30.0)
    for other in others:
        assert other.deadlines == one.deadlines == {"held": 0, "missed": 8, "corrected": 1, "ignored": 0}
        for name, array in other.state.arrays().items():
            np.testing.assert_array_equal(array, one.state.arrays()[name])
        assert other.decide(ARMS, time=40.0).log_probability == one.decide(ARMS, time=40.0).log_probability


def test_the_log_says_which_rewards_were_missing_and_takes_corrections(tmp_path):
    with agent(log=LogWriter(tmp_path, flush_rows=2)) as one:
        made = [one.decide(ARMS, time=float(t)) for t in range(4)]
        one.learn(made[1], 1.0, time=5.0, outcomes={"complaint": 0})
        one.expire(12.0)
        one.learn(made[2], 0.75, time=12.5, outcomes={"complaint": 1, "margin": 2.5})
        one.log.close()
    rows = DecisionLog.open(tmp_path).table().to_pylist()
    assert [row["reward"] for row in rows] == [0.0, 1.0, 0.75, None]
    assert [row["missing"] for row in rows] == [True, None, True, None]
    assert [row["reward_time"] and row["reward_time"].timestamp() for row in rows] == [10.0, 5.0, 12.5, None]
    assert [row["outcomes"] and dict(row["outcomes"]) for row in rows] == [
        None, {"complaint": 0.0}, {"complaint": 1.0, "margin": 2.5}, None,
    ]  # fmt: skip
    with LogWriter(tmp_path) as again:  # an agent that goes on after a restart
        again.reward(made[0].id, 0.5, time=13.0, missing=True)
        with pytest.raises(KeyError, match="already has its reward"):
            again.reward(made[1].id, 0.5, time=13.0, missing=True)
        again.reward(made[3].id, 0.25)
    assert DecisionLog.open(tmp_path).table()["reward"].to_pylist() == [0.5, 1.0, 0.75, 0.25]


def test_a_log_that_refuses_leaves_a_decision_waiting(tmp_path):
    one = agent(log=tmp_path)
    decision = one.decide(ARMS, time=0.0)
    one.log.close()
    for ask in (lambda: one.expire(20.0), lambda: one.learn(decision, 1.0, time=5.0)):
        with pytest.raises(ValueError, match="closed"):
            ask()
        assert (one.count, one.pending) == (0, (decision.id,))


def test_rewards_twice_and_rewards_long_after_the_deadline_are_refused():
    one = agent()
    first, second = one.decide(ARMS, time=0.0), one.decide(ARMS, time=0.0)
    one.learn(first, 1.0, time=1.0)
    for late in (2.0, 10.5):
        with pytest.raises(UnknownDecision, match="has had its reward already"):
            one.learn(first, 1.0, time=late)
    one.expire(21.0)
    with pytest.raises(UnknownDecision, match="its deadline was too long ago"):
        one.learn(second, 1.0, time=21.0)
    several = [one.decide(ARMS, time=30.0) for _ in range(2)]
    one.learn(several, [1.0, 0.0], time=31.0)
    with pytest.raises(UnknownDecision):
        one.learn([several[0]], [1.0], time=32.0)
    assert one.deadlines["held"] == 2


def test_a_model_that_forgets_by_the_clock_knows_when_decisions_were_taken():
    one = agent(Forgetful(LinMED(), half_lives=("1h", "60s")), wait=timedelta(seconds=30))
    one.decide(ARMS, time=0.0)
    one.decide(ARMS, time=60.0)
    one.expire(90.0)
    assert float(one.policy.estimate(one.state).count[0]) in (
        pytest.approx(1.5),
        pytest.approx(1 + 2 ** (-1 / 60)),
    )


def test_models_for_items_expire_too():
    one = Agent(Disjoint(LogisticMED()), dim=3, seed=3, wait="1m")
    one.decide(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]), time=0.0)
    assert one.expire(60.0) == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"wait": 0}, "wait must be 1e-06 to"),
        ({"wait": -5}, "wait must be 1e-06 to"),
        ({"wait": "a day"}, "wait must be a time like"),
        ({"wait": float("nan")}, "wait must be finite"),
        ({"wait": None, "missing": 1.0}, "give wait"),
        ({"wait": None, "early": "learn"}, "give wait"),
        ({"missing": float("inf")}, "missing must be finite"),
        ({"early": "at once"}, "early must be one of 'hold', 'learn'"),
        ({"late": True}, "late must be one of 'correct', 'ignore'"),
    ],
)
def test_what_has_no_meaning_is_refused(options, named):
    with pytest.raises((ValueError, TypeError), match=named):
        agent(**options)


def test_a_missing_reward_must_be_one_that_the_policy_takes():
    with pytest.raises(ValueError, match="between 0 and 1"):
        agent(LogisticMED(), missing=-1.0)
    with pytest.raises(ValueError, match="no deadlines"):
        Agent(LinMED(), dim=2).expire()


def test_outcomes_go_to_the_log_and_are_not_learned(tmp_path):
    with Agent(LinMED(), dim=2, seed=3, log=tmp_path) as one:
        plain = Agent(LinMED(), dim=2, seed=3)
        for _ in range(3):
            decision = one.decide(ARMS)
            one.learn(decision, 1.0, outcomes={"margin": decision.arm + 0.5, "complaint": True})
            plain.learn(plain.decide(ARMS), 1.0)
        several = [one.decide(ARMS), one.decide(ARMS)]
        one.learn(several, [0.0, 1.0], outcomes=[{"margin": 1}, None])
        waiting = one.decide(ARMS)
        for wrong in ({"margin": float("nan")}, {"": 1.0}, {3: 1.0}, [1.0], {"margin": "much"}):
            with pytest.raises((ValueError, TypeError), match="outcomes"):
                one.learn(waiting, 1.0, outcomes=wrong)
        with pytest.raises((ValueError, TypeError), match="outcomes must be a list"):
            one.learn([waiting], [1.0], outcomes=[{}, {}])
        assert one.pending == (waiting.id,)
    table = DecisionLog.open(tmp_path).table(["arm", "outcomes"]).to_pylist()
    assert [dict(row["outcomes"] or ()) for row in table[:3]] == [
        {"margin": row["arm"] + 0.5, "complaint": 1.0} for row in table[:3]
    ]
    assert [row["outcomes"] and dict(row["outcomes"]) for row in table[3:]] == [{"margin": 1.0}, None, None]
    decision = plain.decide(ARMS)
    with pytest.raises(ValueError, match="this agent has none"):
        plain.learn(decision, 1.0, outcomes={"margin": 1.0})
    assert plain.count == 3
    with pytest.raises(ValueError, match="this agent has none"):
        plain.learn([decision, plain.decide(ARMS)], [1.0, 1.0], outcomes=[None, {"margin": 1.0}])
    assert decision.id in plain.pending
