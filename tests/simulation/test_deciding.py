"""Trials that end with a verdict: when, for whom, and the same numbers however the work is cut."""

from dataclasses import dataclass

import numpy as np
import pytest

from linmed import EXP2, Agent, LinMED, Pinpoint, Uniform, Verdicts, simulate
from linmed.cli import main
from linmed.environments import Delayed, FixedArms
from linmed.environments.base import Block, Environment
from linmed.simulation import Decided, SimulationInterrupted, Store
from linmed.simulation.trials import Task

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
THETA = np.array([0.4, 0.6])
PROBLEM = FixedArms(ARMS, THETA, sigma=0.3)
FIELDS = ("decided", "winner", "right", "regret", "pulls")


def played(policies, environment=PROBLEM, horizon=3000, trials=12, until="decided", **options):
    return simulate(policies, environment, horizon, trials, seed=3, until=until, progress=False, **options)


def assert_same(one, other):
    for name in one.names:
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(one, field)(name), getattr(other, field)(name))


@dataclass(frozen=True)
class Recorded(Environment):
    """Arms of its own in each trial."""

    def blocks(self, rng):
        arms = rng.standard_normal((5, 3))
        arms /= np.sqrt((arms * arms).sum(axis=1, keepdims=True))
        means = (arms * [0.5, -0.3, 0.4]).sum(axis=1)
        while True:
            yield Block(arms, means, 0.2 * rng.standard_normal(self.block_rounds))


@dataclass(frozen=True)
class Changing(Environment):
    """Other arms in every round."""

    def blocks(self, rng):
        while True:
            arms = rng.standard_normal((self.block_rounds, 3, 2))
            yield Block(arms, arms[:, :, 0].copy(), rng.standard_normal(self.block_rounds))


@pytest.mark.parametrize("environment", [PROBLEM, Recorded()], ids=["shared arms", "arms of their own"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_a_trial_ends_at_the_first_reward_whose_verdict_is_decided(environment, epsilon):
    """Exactly: the rounds played one by one through an agent and `Verdicts` give the same round and arm."""
    from linmed.simulation.trials import TrialBatch

    policy, trials, horizon = Pinpoint(sigma=0.3, delta=0.1), 6, 3000
    until = Decided(0.1, epsilon)
    results = played(policy, environment, horizon, trials, until)
    batch = TrialBatch(policy, environment, horizon, 3, tuple(range(trials)))
    asked = [None] * trials
    ended = np.zeros(trials, dtype=int)
    for done, size, noise in batch.blocks():
        for t in range(size):
            arms = batch.environments.arms(t)
            arm = policy.choose(batch.state, arms, noise[t])
            rewards = batch.environments.rewards(t, batch.offset + arm)
            policy.learn(batch.state, policy.features(batch.state, arms, arm), rewards, batch.replicas)
            for r in np.flatnonzero(ended == 0):
                own = arms[r if len(arms) > 1 else 0]
                if asked[r] is None:
                    asked[r] = Agent(policy, dim=own.shape[1]), Verdicts(own, 0.1, epsilon)
                agent, verdicts = asked[r]
                agent.observe(own[arm[r]], rewards[r])
                verdict = verdicts.look(agent)
                if verdict.decided:
                    ended[r] = done + t + 1
                    assert results.winner(policy.name)[r] == verdict.best
        if ended.all():
            break
    np.testing.assert_array_equal(results.decided(policy.name), ended)
    assert ended.max() < horizon
    assert len(set(ended)) > 1


def test_the_numbers_do_not_depend_on_how_the_work_is_cut():
    policies = [LinMED(sigma=0.3), Uniform(sigma=0.3), Pinpoint(sigma=0.3)]
    whole = played(policies, workers=1)
    assert_same(whole, played(policies, workers=3, batch=1))
    assert_same(whole, played(policies, workers=2, batch=5))


def test_regret_and_pulls_count_until_the_verdict():
    until = played([Uniform(sigma=0.3)])
    plain = simulate([Uniform(sigma=0.3)], PROBLEM, 3000, 12, seed=3, progress=False)
    name, ended = until.names[0], until.decided(until.names[0])
    np.testing.assert_array_equal(until.pulls(name).sum(axis=1), ended)
    for trial, end in enumerate(ended):
        before = until.checkpoints <= end
        np.testing.assert_array_equal(until.regret(name)[trial, before], plain.regret(name)[trial, before])
        after = until.regret(name)[trial, ~before]
        assert (np.diff(after) == 0.0).all()
    assert until.right(name).all()
    assert (until.winner(name) == 2).all()


def test_without_until_nothing_changes(tmp_path):
    """Neither the numbers, nor where the store keeps them."""
    policy = LinMED()
    every, marks = (0, 1), np.array([1, 2])
    plain = Task(PROBLEM, 10, 0, every, policy, marks)
    assert "until" not in plain.configuration()
    assert set(plain.run()) == {"final_regret", "seconds", "regret", "pulls"}
    keys = {
        Store.key(Task(PROBLEM, 10, 0, every, policy, marks, until))
        for until in (None, Decided(), Decided(0.1), Decided(epsilon=0.1), Decided(judge=LinMED()))
    }
    assert len(keys) == 5
    results = simulate(policy, PROBLEM, 10, 2, progress=False)
    assert "decided" not in results.summary().column_names
    with pytest.raises(ValueError, match='until="decided"'):
        results.decided("LinMED")


def test_finished_trials_are_found_in_the_store_again(tmp_path):
    first = played([Pinpoint(sigma=0.3)], trials=5, store=tmp_path)
    calls = []
    original = Task.run

    def counted(self, *arguments):
        calls.append(self.trials)
        return original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Task, "run", counted)
        more = played([Pinpoint(sigma=0.3)], trials=8, store=tmp_path, workers=1)
    assert calls == [(5, 6, 7)]
    assert_same(more, played([Pinpoint(sigma=0.3)], trials=8))
    np.testing.assert_array_equal(more.decided("Pinpoint")[:5], first.decided("Pinpoint"))
    table = Store(tmp_path).table()
    assert {"decided", "winner", "right"} <= set(table.column_names)


def test_late_rewards_are_heard_when_they_arrive():
    prompt = played([Uniform(sigma=0.3)])
    late = played([Uniform(sigma=0.3)], Delayed(PROBLEM, rounds=40))
    name = prompt.names[0]
    np.testing.assert_array_equal(late.decided(name), prompt.decided(name) + 40)  # it plays the same arms
    assert_same(late, played([Uniform(sigma=0.3)], Delayed(PROBLEM, rounds=40), batch=1))
    own = played([Pinpoint(sigma=0.3)], Delayed(PROBLEM, rounds=40))
    assert own.right("Pinpoint").all()


def test_whoever_plays_somebody_else_may_judge():
    until = Decided(0.1, judge=LinMED(sigma=0.3))
    results = played([EXP2(), Uniform()], until=until)
    assert (results.winner("EXP2") == 2).mean() > 0.5
    same = played([Uniform(sigma=0.3)], until=Decided(0.1))
    np.testing.assert_array_equal(results.decided("Uniform"), same.decided("Uniform"))


def test_what_is_not_decided_by_the_horizon():
    results = played([LinMED(sigma=0.3)], horizon=5)
    assert np.isnan(results.decided("LinMED")).all()
    assert (results.winner("LinMED") == -1).all()
    assert not results.right("LinMED").any()
    row = results.summary().to_pylist()[0]
    assert (row["decided"], row["wrong"]) == (0.0, 0.0)
    assert np.isnan(row["mean_rounds"])
    good = played([Pinpoint(sigma=0.3)]).summary().to_pylist()[0]
    assert (good["decided"], good["wrong"]) == (1.0, 0.0)
    assert 1 < good["mean_rounds"] < 3000


def test_a_wrong_verdict_is_told():
    """With a σ a hundred times too small, verdicts come early and are often wrong."""
    results = played([Uniform(sigma=0.003, norm_bound=1.0)], trials=60, until=Decided(0.05))
    assert 0.0 < results.summary().to_pylist()[0]["wrong"] < 1.0


def test_bad_requests_are_refused_by_name():
    for until in ("sure", 0.05, {"delta": 0.1}):
        with pytest.raises(TypeError, match="until must be 'decided'"):
            played([LinMED()], until=until)
    with pytest.raises(ValueError, match=r"until=Decided\(judge=...\) must be given for EXP2.*LinMED\(\)"):
        played([EXP2()])
    with pytest.raises(ValueError, match=r"until=.*arms that stay the same"):
        played([LinMED()], Changing())
    for bad in ({"delta": 0.0}, {"epsilon": -1.0}, {"judge": "LinMED"}, {"judge": EXP2()}):
        with pytest.raises(
            (ValueError, TypeError), match="policy" if bad == {"judge": EXP2()} else next(iter(bad))
        ):
            Decided(**bad)


def test_the_command_ends_trials_with_their_verdict(capsys):
    problem = "FixedArms(arms=[[1, 0], [0, 1]], theta=[0.9, 0.1], sigma=0.1)"
    words = ["simulate", "Pinpoint(sigma=0.1)", "--on", problem, "--horizon", "500", "--trials", "3"]
    assert main([*words, "--until-decided", "0.1"]) == 0
    assert "mean_rounds" in capsys.readouterr().out
    assert main([*words, "--until-decided", "2"]) == 2
    assert "delta must lie strictly between 0 and 1" in capsys.readouterr().err


def test_an_interrupted_simulation_knows_of_its_verdicts():
    def stop(self, *_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Task, "run", stop)
        with pytest.raises(SimulationInterrupted) as interrupted:
            played([Pinpoint(sigma=0.3)], workers=1)
    assert interrupted.value.results.decided("Pinpoint").shape == (0,)
