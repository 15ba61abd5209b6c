"""Replay: what it keeps, what it refuses, and that its draws are its own."""

import numpy as np
import pytest
from scipy.stats import binom

from linmed import Agent
from linmed.ope import DecisionLog, OPEWarning, Replay
from linmed.ope import replay as module
from linmed.ope.replay import log_evidence
from linmed.policies import (
    EXP2,
    OFUL,
    Disjoint,
    Forgetful,
    Greedy,
    LinMED,
    LinTS,
    LogisticMED,
    MaillardSampling,
    Uniform,
)
from linmed.validation import BadValue
from tests.ope.conftest import synthetic


def uniform_log(n: int, seed: int) -> tuple[DecisionLog, np.ndarray]:
    rng = np.random.default_rng(seed)
    arms = np.tile([[1.0, 0.0], [0.0, 1.0]], (n, 1, 1))
    arm = rng.integers(2, size=n)
    means = np.array([0.8, 0.2])
    reward = (rng.random(n) < means[arm]).astype(float)
    table = {"arm": arm, "probability": np.full(n, 0.5), "reward": reward, "arms": arms}
    return DecisionLog.from_table(table), means


def test_replay_keeps_what_a_uniform_log_can_give_and_learns_from_it():
    log, _ = uniform_log(4000, seed=0)
    result = Replay(LinMED(sigma=0.5), bound=2, seed=1).run(log)
    assert result.offered == 4000
    assert abs(result.accepted - 2000) < 4 * np.sqrt(1000)  # 1 in 2 is accepted whatever the policy does
    assert result.state.count[0] == result.accepted == result.rewards.size
    assert result.rewards[-500:].mean() > 0.7  # it has learned which arm is better
    assert result.lower < result.estimate < result.upper
    assert result.estimate == pytest.approx(result.rewards.mean())


def test_replay_agrees_with_the_policy_run_for_real():
    """Mean reward of LinMED's first 100 rounds: 60 replays against 60 runs, within 4 standard errors."""
    policy = LinMED(sigma=0.5)
    replayed, real = [], []
    for seed in range(60):
        log, means = uniform_log(300, seed=seed)
        replayed.append(Replay(policy, bound=2, seed=seed).run(log).rewards[:100].mean())
        rng = np.random.default_rng(1000 + seed)
        state, arms, total = policy.start(1, 2), np.eye(2)[None], 0.0
        for _ in range(100):
            choice = policy.decide(state, arms, rng.random((1, 1)))
            reward = float(rng.random() < means[choice.arm[0]])
            policy.learn(state, choice.features, np.array([reward]), np.zeros(1, dtype=np.int64))
            total += reward / 100
        real.append(total)
    gap = np.mean(replayed) - np.mean(real)
    assert abs(gap) < 4 * np.sqrt((np.var(replayed) + np.var(real)) / 60)


def test_replay_explains_what_it_needs(small):
    log, _ = uniform_log(50, seed=0)
    with pytest.raises(BadValue, match=r"bound=1.5 is too small: row \d+ needs at least") as e:
        Replay(LinMED(), bound=1.5).run(log)
    assert e.value.field == "bound"
    with pytest.raises(BadValue, match=r"bound must be at least 1.*got 0.5"):
        Replay(LinMED(), bound=0.5)
    with pytest.raises(TypeError, match="policy must be a Policy"):
        Replay("LinMED")
    with pytest.raises(ValueError, match="none of the 50 decisions"):
        Replay(LinMED(), bound=1e9).run(log)
    bare = DecisionLog.from_table({"arm": [0], "probability": [0.5], "reward": [1.0]})
    with pytest.raises(ValueError, match="replay needs the column 'arms'"):
        Replay(LinMED()).run(bare)
    assert Replay(LinMED()).run(small.log).accepted > 0


@pytest.mark.parametrize(
    "policy",
    [
        Uniform(),
        LinMED(sigma=0.5),
        OFUL(),
        Greedy(),
        LinTS(),
        EXP2(),
        MaillardSampling(),
        Disjoint(LogisticMED()),
        Disjoint(Forgetful(LinMED(sigma="unknown", ridge="learned"))),
    ],
    ids=lambda policy: policy.name,
)
@pytest.mark.parametrize("even", [True, False])
def test_every_policy_is_replayed_decision_by_decision(policy, even):
    """Compiled rounds, kept answers and draws that need no answer change nothing of the definition."""
    rng = np.random.default_rng(8)
    n, arms = 300, np.tile(np.eye(3), (300, 1, 1))
    p = np.full((n, 3), 1 / 3) if even else 0.5 / 3 + 0.5 * rng.dirichlet(np.ones(3), size=n)
    arm = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=2)
    played, reward = p[np.arange(n), arm], (rng.random(n) < 0.3 + 0.2 * arm).astype(float)
    log = DecisionLog.from_table(
        {"arm": arm, "probability": played, "reward": reward, "arms": arms, "probabilities": p}
    )
    result = Replay(policy, bound=6, seed=2).run(log)
    state, uniform, one = (
        policy.start(1, 3),
        module.stream(2, "replay").random(n),
        np.zeros(1, dtype=np.int64),
    )
    kept = []
    for i in range(n):
        q = np.exp(policy.log_probabilities(state, arms[i][None])[0, arm[i]])
        if uniform[i] < q / (6 * played[i]):
            features = policy.features(state, arms[i][None], arm[i : i + 1])
            policy.learn(state, features, reward[i : i + 1], one)
            kept.append(reward[i])
    assert result.rewards.tolist() == kept
    for name, array in result.state.arrays().items():
        np.testing.assert_array_equal(array, state.arrays()[name])


def one_armed_log(n: int = 300, **more) -> DecisionLog:
    """Two arms of which the first is always played, with probability 1."""
    rng = np.random.default_rng(1)
    table = {
        "arm": np.zeros(n, int),
        "probability": np.ones(n),
        "reward": (rng.random(n) < 0.9).astype(float),
        "arms": np.tile(np.eye(2), (n, 1, 1)),
    }
    return DecisionLog.from_table(table | more)


ALONE = {"probabilities": np.tile([1.0, 0.0], (300, 1))}


def test_what_could_not_be_played_is_refused_by_its_row():
    for policy, mass in ((Uniform(), "0.5"), (LinMED(), r"0\.\d+"), (EXP2(), "0.5")):
        message = (
            rf"^row 0 gives .* no chance .*: {mass} of its probability lies on arms whose logged .* is 0"
        )
        with pytest.raises(BadValue, match=message) as e:
            Replay(policy).run(one_armed_log(**ALONE))
        assert e.value.field == "log"
    late = [[0.5, 0.5]] * 299 + [[1.0, 0.0]]
    log = one_armed_log(probabilities=late, probability=[0.5] * 299 + [1.0], arm=[0, 1] * 149 + [0, 0])
    with pytest.raises(BadValue, match=r"^row 299 gives Uniform no chance"):
        Replay(Uniform()).run(log)


def test_an_arm_that_neither_of_the_two_plays_is_no_missing_support():
    """Greedy plays the arm with the largest estimate, here always the first: ties go to the lowest index."""
    log = one_armed_log(reward=np.ones(300), **ALONE)
    result = Replay(Greedy()).run(log)
    assert (result.accepted, result.estimate) == (300, 1.0)


def test_a_bound_too_small_for_an_arm_that_was_not_played_is_refused():
    log = one_armed_log(probabilities=[[0.9, 0.1]] * 300, probability=np.full(300, 0.9))
    with pytest.raises(BadValue, match=r"^bound=2 is too small: row 0 needs at least 5$"):
        Replay(Uniform(), bound=2).run(log)


@pytest.mark.parametrize("bound", [None, 1, 2])
def test_what_could_not_be_played_shows_in_the_number_accepted(bound):
    """With the played arm's probability alone, the log seems to be one of a policy that has one arm."""
    message = (
        r"^\d+ of the first (\d+) decisions of table were accepted where [\d.]+ are expected, one in bound="
        r".*probabilities in the log are wrong, or the policy plays arms that could not be logged"
    )
    with pytest.raises(BadValue, match=message) as e:
        Replay(Uniform(), bound=bound).run(one_armed_log())
    assert e.value.field == "log"


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_wrong_probabilities_show_in_the_number_accepted(whole, factor):
    """A coin that is said to be fair, and is not; the policy soon plays nothing but its second side."""
    n = 3000
    arm = (np.random.default_rng(4).random(n) < 0.5 * factor).astype(int)
    table = {
        "arm": arm,
        "probability": np.full(n, 0.5),
        "reward": arm.astype(float),
        "arms": np.tile(np.eye(2), (n, 1, 1)),
    }
    if whole:
        table["probabilities"] = np.full((n, 2), 0.5)
    message = (
        r"decisions of table were accepted where [\d.]+ are expected.*: probabilities in the log are wrong"
    )
    with pytest.raises(BadValue, match=message):
        Replay(MaillardSampling(sigma=0.1), bound=2).run(DecisionLog.from_table(table))


def test_rewards_that_are_late_for_one_arm_only_are_a_reason_too():
    rng = np.random.default_rng(4)
    n = 2000
    arm = rng.integers(2, size=n)
    reward = [None if a == 0 and late else 1.0 for a, late in zip(arm, rng.random(n) < 0.8, strict=True)]
    table = {
        "arm": arm,
        "probability": np.full(n, 0.5),
        "reward": reward,
        "arms": np.tile(np.eye(2), (n, 1, 1)),
    }
    message = (
        "probabilities in the log are wrong, or the rewards of some arms come later than those of others"
    )
    with pytest.raises(BadValue, match=message):
        Replay(Greedy(), bound=2).run(DecisionLog.from_table(table), missing="skip")


def test_true_probabilities_are_hardly_ever_refused():
    """E_n stays below 1000 with probability 0.999: of 4,000 logs 4 may be refused, and 14 hardly ever."""
    rng = np.random.default_rng(0)
    for bound in (1.0, 1.25, 3.0, 50.0):
        took = rng.random((4000, 1000)) < 1.0 / bound
        evidence = log_evidence(took.cumsum(axis=1), np.arange(1, 1001), bound)
        assert (evidence.max(axis=1) >= module.REFUSED).sum() < 14, bound
        assert np.isfinite(evidence).all()


def test_the_evidence_has_mean_one_and_is_worked_by_hand():
    """S = 1 of n = 1 with M = 4: the mixture's mean 1/2 against 1/4; and Σ_S C(n,S) M^{-S}(…)^{n−S} E = 1."""
    assert np.exp(log_evidence(np.array([1, 0]), np.array([1, 1]), 4.0)) == pytest.approx([2.0, 2 / 3])
    assert np.exp(log_evidence(np.array([5]), np.array([5]), 1.0))[0] == pytest.approx(63 / 256)
    assert log_evidence(np.array([4]), np.array([5]), 1.0)[0] == np.inf
    k = np.arange(31)
    law = binom.pmf(k, 30, 1 / 7)
    assert (law * np.exp(log_evidence(k, np.full(31, 30), 7.0))).sum() == pytest.approx(1.0)


def test_a_replay_does_not_draw_what_a_user_drew(monkeypatch):
    """Rewards from default_rng(0), and a replay with its own seed 0: shared uniforms accept the rewarded."""
    n = 2000
    uniform = np.random.default_rng(0).random(n)
    arm = np.random.default_rng(1).integers(2, size=n)
    table = {"arm": arm, "probability": np.full(n, 0.5), "reward": (uniform < 0.9).astype(float)}
    log = DecisionLog.from_table(table | {"arms": np.tile(np.eye(2), (n, 1, 1))})
    for seed in ({}, {"seed": 0}):
        found = Replay(Uniform(), bound=2, **seed).run(log)
        assert found.estimate == pytest.approx(0.9, abs=4 * 0.3 / np.sqrt(1000))
    monkeypatch.setattr(module, "stream", lambda seed, purpose: np.random.default_rng(seed))
    assert Replay(Uniform(), bound=2).run(log).estimate == 1.0  # what sharing them would do


def test_a_log_ends_at_its_first_missing_reward_unless_told_otherwise():
    whole = synthetic(500)
    reward = [*whole.columns["reward"][:400], *[None] * 50, 1.0, *[None] * 49]
    log = DecisionLog.from_table(whole.columns | {"reward": reward})
    with pytest.warns(
        OPEWarning, match=r"20%\) were not judged: 99 have no reward yet, the first is row 400"
    ):
        found = Replay(LinMED(), bound=20).run(log)
    assert found.offered == 400
    with pytest.warns(OPEWarning, match="harmless only if lateness has nothing to do with the reward"):
        assert Replay(LinMED(), bound=20).run(log, missing="skip").offered == 401
    with pytest.raises(BadValue, match="missing"):
        Replay(LinMED(), bound=20).run(log, missing="drop")


def test_an_agents_log_without_every_arms_probability_is_replayed(tmp_path):
    """Its column `probabilities` is there, and empty."""
    with Agent(LinTS(propensity=50, floor=0.5), dim=2, seed=0, log=tmp_path) as agent:
        for _ in range(200):
            agent.learn(agent.decide(np.eye(2)), 1.0)
    assert DecisionLog.open(tmp_path).table(["probabilities"])["probabilities"].null_count == 200
    found = Replay(Uniform()).run(tmp_path)
    assert found.offered == 200
    assert found.estimate == 1.0
