"""The agent's files: saved ones that survive or are refused, and the log that it keeps."""

import copy
import json
import zlib

import numpy as np
import pytest

from linmed import (
    EXP2,
    Agent,
    Forgetful,
    Hybrid,
    LinMED,
    LinTS,
    LogisticMED,
    MaillardSampling,
    SWLinUCB,
    Uniform,
)
from linmed.agent import UnknownDecision
from linmed.decision import NoProbability
from linmed.log import DecisionLog, LogWriter, writer
from tests.policies.configurations import SOME, acceptable, make_arms, short

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])


def agent(**options):
    return Agent(LinMED(), dim=2, seed=3, **options)


def disk_full(*_):
    raise OSError("full")


def test_a_file_cut_anywhere_is_refused(tmp_path):
    one = agent()
    one.decide(ARMS)
    path = tmp_path / "agent"
    one.save(path)
    content = path.read_bytes()
    for cut in range(0, len(content), 97):
        path.write_bytes(content[:cut])
        with pytest.raises(ValueError, match="not a linmed agent, or it is damaged"):
            Agent.load(path)


def test_a_flipped_byte_is_noticed(tmp_path):
    one = agent()
    one.save(tmp_path / "agent")
    content = bytearray((tmp_path / "agent").read_bytes())
    place = content.find(b'"format"')
    content[place + 30] ^= 1
    (tmp_path / "agent").write_bytes(bytes(content))
    with pytest.raises(ValueError, match="damaged"):
        Agent.load(tmp_path / "agent")


def test_foreign_files_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    np.savez(tmp_path / "bare.npz", meta=np.frombuffer(b"{}", dtype=np.uint8))  # without a format
    (tmp_path / "text").write_text("hello")
    for name in ("other.npz", "bare.npz", "text"):
        with pytest.raises(ValueError, match="not a linmed agent"):
            Agent.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        Agent.load(tmp_path / "missing")


def test_a_file_of_another_format_says_so(tmp_path):
    agent().save(tmp_path / "agent")
    with np.load(tmp_path / "agent") as file:
        arrays = dict(file)
    meta = json.loads(arrays["meta"].tobytes()) | {"format": 99}
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    with open(tmp_path / "agent", "wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(ValueError, match="format 99"):
        Agent.load(tmp_path / "agent")


def test_saving_replaces_the_old_file_only_when_the_new_one_is_whole(tmp_path, monkeypatch):
    one = agent()
    path = tmp_path / "agent"
    one.save(path)
    before = path.read_bytes()
    one.learn(one.decide(ARMS), 1.0)

    def fail(*_args, **_kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        one.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["agent"]


def test_files_hold_no_pickle(tmp_path):
    agent().save(tmp_path / "agent")
    with np.load(tmp_path / "agent", allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)


def test_a_new_log_takes_only_the_rewards_of_its_own_decisions(tmp_path):
    one = agent(log=tmp_path / "old")
    early = one.decide(ARMS)
    one.save(tmp_path / "agent")
    with Agent.load(tmp_path / "agent", log=tmp_path / "new") as twin:
        late = twin.decide(ARMS)
        twin.learn(early.id, 1.0)
        twin.learn(late, 0.5)
    assert twin.count == 2
    rows = DecisionLog.open(tmp_path / "new").table().to_pylist()
    assert [(row["decision_id"], row["reward"]) for row in rows] == [(late.id, 0.5)]


@pytest.mark.parametrize("kept", [False, True])
def test_whether_all_arms_are_logged_is_kept_in_the_file_and_may_be_changed(kept, tmp_path):
    agent(log_arms=kept).save(tmp_path / "agent")
    for given, expected in ((None, kept), (True, True), (False, False)):
        log = tmp_path / f"log-{given}"
        with Agent.load(tmp_path / "agent", log=log, log_arms=given) as one:
            one.decide(ARMS)
        (row,) = DecisionLog.open(log).table().to_pylist()
        assert (row["arms"] == ARMS.tolist()) == expected
    with pytest.raises(TypeError, match="log_arms must be True or False"):
        Agent.load(tmp_path / "agent", log_arms="yes")


def test_a_policy_that_tells_no_probability_cannot_have_a_log(tmp_path):
    silent = LinTS(propensity="none")
    with pytest.raises(ValueError, match="carry no probability"):
        Agent(silent, 2, log=tmp_path / "log")
    Agent(silent, 2).save(tmp_path / "agent")
    with pytest.raises(ValueError, match="carry no probability"):
        Agent.load(tmp_path / "agent", log=tmp_path / "log")
    with pytest.raises(ValueError, match="carry no probability"):
        Agent(silent, 2, log=LogWriter(tmp_path / "other"))
    assert not (tmp_path / "log").exists()
    decision = Agent(silent, 2).decide(ARMS)
    assert not decision.has_probability
    assert repr(decision).endswith(", no probability)")
    for name in ("probability", "log_probability"):
        with pytest.raises(NoProbability, match="the policy computes none"):
            getattr(decision, name)
    Agent(LinTS(propensity=100), 2, log=tmp_path / "log").decide(ARMS)


@pytest.mark.parametrize("policy", [LinMED(), EXP2()], ids=lambda policy: policy.name)
def test_a_decision_that_the_log_refuses_has_not_been_taken(policy, tmp_path, monkeypatch):
    log = LogWriter(tmp_path / "log", flush_rows=1)
    one, other = Agent(policy, 2, seed=3, log=log), Agent(policy, 2, seed=3)
    wider = np.concatenate([ARMS, ARMS])

    def refused(error, message):
        for call in (lambda: one.decide(wider), lambda: one.decide_batch([wider, wider])):
            with pytest.raises(error, match=message):
                call()
        assert one.pending == ()

    with monkeypatch.context() as patch:
        patch.setattr(writer, "write_atomically", disk_full)
        refused(OSError, "full")
    log.record(f"{one._run}-0", arm=0, arm_count=1, log_probability=0.0)
    refused(ValueError, "already in the log")
    log.close()
    refused(ValueError, "is closed")
    one.log = None
    assert [one.decide(ARMS).arm for _ in range(9)] == [other.decide(ARMS).arm for _ in range(9)]


def test_a_reward_that_the_log_refuses_has_not_been_learned(tmp_path, monkeypatch):
    with agent(log=LogWriter(tmp_path, flush_rows=1)) as one:
        decisions = [one.decide(ARMS) for _ in range(2)]
        with monkeypatch.context() as patch:
            patch.setattr(writer, "write_atomically", disk_full)
            with pytest.raises(OSError, match="full"):
                one.learn(decisions[0], 1.0)
        assert (one.count, len(one.pending)) == (0, 2)
        one.learn(decisions[0], 1.0)
    assert one.count == 1
    assert DecisionLog.open(tmp_path).table()["reward"].to_pylist() == [1.0, None]


def test_closing_closes_a_log_of_ones_own_and_leaves_anothers_open(tmp_path):
    one = agent(log=tmp_path / "own")
    decision = one.decide(ARMS)
    one.close()
    one.close()
    assert DecisionLog.open(tmp_path / "own").table().num_rows == 1
    for call in (lambda: one.decide(ARMS), lambda: one.learn(decision, 1.0)):
        with pytest.raises(ValueError, match=r"the log at .*own is closed"):
            call()
    assert one.pending == (decision.id,)
    assert one.probabilities(ARMS).sum() == pytest.approx(1)
    shared = LogWriter(tmp_path / "shared")
    for one in (agent(log=shared), agent(log=shared)):
        one.decide(ARMS)
        one.close()
    assert DecisionLog.open(tmp_path / "shared").table().num_rows == 2
    shared.close()


@pytest.mark.parametrize(
    "pending", [np.zeros((2, 1)), np.zeros((2, 3, 3)), np.full((2, 3), np.nan), np.zeros((1, 3))]
)
def test_pending_decisions_that_cannot_be_are_refused(tmp_path, pending):
    agent = Agent(LinMED(), dim=3, seed=1)
    agent.decide(np.eye(3))
    agent.decide(np.eye(3))
    agent.save(tmp_path / "whole.npz")
    with np.load(tmp_path / "whole.npz") as file:
        arrays = dict(file)
    np.savez(tmp_path / "other.npz", **{**arrays, "pending": pending})
    with pytest.raises(ValueError, match="pending decisions of shape"):
        Agent.load(tmp_path / "other.npz")
    del arrays["pending"]
    np.savez(tmp_path / "other.npz", **arrays)
    with pytest.raises(ValueError, match="is not a linmed agent, or it is damaged"):
        Agent.load(tmp_path / "other.npz")


def rewritten(path, change):
    """The file at `path` with its arrays, by name, changed by a function."""
    with np.load(path) as file:
        arrays = dict(file)
    change(arrays)
    with open(path.with_suffix(".changed"), "wb") as file:
        np.savez(file, **arrays)
    return path.with_suffix(".changed")


def damaged(arrays, rng):
    """Ways to damage the arrays of a state: of one that is drawn, its shape, its kind and a number in it."""
    names = [name for name, array in arrays.items() if name.startswith("state_") and array.size]
    whole = [name for name in names if arrays[name].dtype.kind == "i" and name != "state_arm_set"]
    finite = [name for name in names if arrays[name].dtype.kind == "f"]
    unknown = ("state_rss", "state_leveraged")  # NaN in files of the first format
    finite = [name for name in finite if name not in unknown] or finite
    name, count, number = rng.choice(names), rng.choice(whole), rng.choice(finite)
    yield name, arrays[name][..., :-1]
    yield name, np.concatenate([arrays[name]] * 2)
    yield name, arrays[name].astype(np.float32 if name in finite else np.int32)
    for place, value in ((count, -2), (count, 1 << 62), (number, np.nan), (number, -np.inf)):
        array = arrays[place].copy()
        array.flat[rng.integers(array.size)] = value
        yield place, array
    if "state_leader" in arrays:
        experts = arrays["state_weight" if "state_weight" in arrays else "state_surprise"].shape[1]
        yield "state_leader", np.full_like(arrays["state_leader"], experts)


@pytest.mark.parametrize("policy", SOME, ids=short)
def test_a_file_with_an_array_that_cannot_be_is_refused(policy, tmp_path):
    Agent(policy, dim=4).save(tmp_path / "agent")
    with np.load(tmp_path / "agent") as file:
        arrays = dict(file)
    for name, array in damaged(arrays, np.random.default_rng(zlib.crc32(policy.name.encode()))):
        changed = rewritten(tmp_path / "agent", lambda all, name=name, array=array: all.update({name: array}))
        with pytest.raises(ValueError, match="state array"):
            Agent.load(changed)


@pytest.mark.parametrize(
    "policy",
    [LinMED(ridge="learned"), LinMED(design="warm"), Forgetful(LinMED(sigma=0.3)), Forgetful(LogisticMED()),
     LogisticMED(), Hybrid(LinMED(sigma=0.3), shared=1), MaillardSampling(), SWLinUCB(window=4)],
    ids=short,
)  # fmt: skip
def test_a_file_with_one_number_changed_is_refused_or_decides_and_learns(policy, tmp_path):
    rng = np.random.default_rng(1)
    arms = make_arms(policy, rng)[0]
    one = Agent(policy, arms.shape[1], seed=1)
    for _ in range(4):
        one.learn(one.decide(arms), float(acceptable(policy, 0.4)))
    one.save(tmp_path / "agent")

    def change(arrays):
        names = [name for name, array in arrays.items() if name.startswith("state_") and array.size]
        name = rng.choice(names)
        arrays[name] = array = arrays[name].copy()
        numbers = (-1.0, 0.0, 1e300, 1e150, -1e101, 5e18, 1e-300)
        wholes = (-1, 1, 5, 1000, 1 << 31, 1 << 52, -(1 << 62))
        array.flat[rng.integers(array.size)] = rng.choice(wholes if array.dtype.kind == "i" else numbers)

    for _ in range(15):
        try:
            other = Agent.load(rewritten(tmp_path / "agent", change))
        except ValueError:
            continue
        for _ in range(2):
            other.learn(other.decide(arms), float(acceptable(policy, 0.4)))


def test_sums_that_are_no_numbers_are_refused(tmp_path):
    def forget(arrays):
        arrays["state_rss"] = np.full(1, np.nan)

    Agent(LinMED(), 2).save(tmp_path / "agent")
    with pytest.raises(ValueError, match="state array 'rss' must hold numbers"):
        Agent.load(rewritten(tmp_path / "agent", forget))


def test_agents_of_one_file_never_share_an_id_and_draw_apart_by_their_seeds(tmp_path):
    one, many = Agent(Uniform(), dim=2, seed=3), np.ones((64, 2))
    waiting = one.decide(many)
    one.learn(one.decide(many), 1.0)
    one.save(tmp_path / "agent")
    exact, again = Agent.load(tmp_path / "agent"), Agent.load(tmp_path / "agent")
    seeded = [Agent.load(tmp_path / "agent", seed=seed) for seed in (0, 1, 1, 3)]
    forked, copied = Agent.load(tmp_path / "agent"), copy.deepcopy(exact)
    forked._process = -1  # as a process sees an agent that its parent made
    everybody = [one, exact, again, *seeded, forked, copied]
    decisions = [[each.decide(many) for _ in range(20)] for each in everybody]
    assert len({decision.id for made in decisions for decision in made}) == 20 * len(everybody)
    arms = [[decision.arm for decision in made] for made in decisions]
    assert arms[0] == arms[1] == arms[2] == arms[-1] == arms[-2]
    assert arms[4] == arms[5]
    # By chance two streams agree in all of 20 draws with a probability below 1e-9.
    assert len({tuple(drawn) for drawn in arms}) == 4
    fresh = Agent(Uniform(), dim=2, seed=3)  # whose numbers are not drawn again by a load with its seed
    assert arms[6] != [fresh.decide(many).arm for _ in range(20)]
    for each in everybody:
        each.learn(waiting.id, 1.0)
        with pytest.raises(UnknownDecision, match="has had its reward already"):
            each.learn(waiting.id, 1.0)
    with pytest.raises(UnknownDecision, match="is unknown to this agent"):
        exact.learn(decisions[3][0].id, 1.0)
    for seed, error in ((-1, ValueError), ("a", TypeError)):
        with pytest.raises(error, match="seed must be"):
            Agent.load(tmp_path / "agent", seed=seed)


def test_a_worker_that_loads_a_newer_model_with_its_seed_draws_other_numbers(tmp_path):
    trainer, drawn = agent(), []
    for _ in range(2):
        trainer.save(tmp_path / "model")
        worker = Agent.load(tmp_path / "model", seed=1)
        worker._decider.noise.draw(5)
        drawn.append(worker._decider.noise.rows.copy())
        trainer.observe([1.0, 0.0], 0.0)
    assert not np.isin(drawn[0][:5], drawn[1]).any()
