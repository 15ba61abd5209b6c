"""The agent: late rewards, bounded memory, files that survive and files that are refused."""

import json
import subprocess
import sys

import numpy as np
import pytest

from linmed import Agent, LinMED
from linmed.ope import DecisionLog

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])


def agent(**options):
    return Agent(LinMED(), dim=2, seed=3, **options)


def test_a_decision_carries_its_probability_and_those_of_all_arms():
    one = agent()
    expected = one.probabilities(ARMS)
    decision = one.decide(ARMS)
    np.testing.assert_allclose(decision.probabilities, expected, rtol=1e-15)
    assert decision.probability == pytest.approx(expected[decision.arm], rel=1e-15)
    assert decision.log_probability == pytest.approx(np.log(expected[decision.arm]), rel=1e-12)
    np.testing.assert_array_equal(decision.features, ARMS[decision.arm])


@pytest.mark.identity
def test_the_same_seed_gives_the_same_decisions():
    one, other = agent(), agent()
    for _ in range(600):
        a, b = one.decide(ARMS), other.decide(ARMS)
        assert (a.arm, a.log_probability) == (b.arm, b.log_probability)
        one.learn(a, 1.0)
        other.learn(b, 1.0)
    assert len({Agent(LinMED(), 2, seed=s).decide(ARMS).arm for s in range(300)}) > 1


def test_arm_sets_may_change_size_every_round():
    one = agent()
    for K in (1, 7, 2, 300, 1):
        arms = np.random.default_rng(K).standard_normal((K, 2))
        assert one.decide(arms).arm < K


def test_rewards_may_come_late_and_out_of_order():
    one, other = agent(), agent()
    decisions = [one.decide(ARMS) for _ in range(20)]
    assert [d.arm for d in decisions] == [other.decide(ARMS).arm for _ in range(20)]
    assert len(one.pending) == 20
    for i in reversed(range(20)):
        one.learn(decisions[i].id, float(i))
    for i, identifier in enumerate(other.pending):
        other.learn(identifier, float(i))
    np.testing.assert_allclose(one.theta, other.theta, rtol=1e-12)
    assert one.pending == ()


def test_a_reward_counts_once():
    one = agent()
    decision = one.decide(ARMS)
    one.learn(decision, 1.0)
    theta = one.theta
    with pytest.raises(ValueError, match="has had its reward already"):
        one.learn(decision, 1.0)
    with pytest.raises(KeyError, match="has had its reward already"):
        one.learn(decision.id, 1.0)
    np.testing.assert_array_equal(one.theta, theta)


@pytest.mark.parametrize("identifier", ["elsewhere-0", "", 7, None])
def test_an_unknown_decision_is_refused(identifier):
    with pytest.raises(ValueError, match="unknown to this agent"):
        agent().learn(identifier, 1.0)


def test_pending_decisions_are_bounded_and_the_dropped_counted():
    one = agent(max_pending=5)
    decisions = [one.decide(ARMS) for _ in range(12)]
    assert one.pending == tuple(d.id for d in decisions[-5:])
    assert one.dropped == 7
    with pytest.raises(ValueError, match="dropped by max_pending"):
        one.learn(decisions[0], 1.0)
    one.learn(decisions[-1], 1.0)


def test_observing_equals_learning_without_deciding():
    one = agent()
    one.observe([1.0, 0.0], 2.0)
    one.observe([[0.0, 1.0], [0.6, 0.8]], [1.0, 0.5])
    assert one.count == 3
    V = np.eye(2) + ARMS.T @ ARMS
    np.testing.assert_allclose(one.theta, np.linalg.solve(V, ARMS.T @ [2.0, 1.0, 0.5]))
    np.testing.assert_allclose(one.covariance, np.linalg.inv(V))


def test_covariance_is_in_units_of_the_noise():
    np.testing.assert_allclose(Agent(LinMED(sigma=0.5, norm_bound=2.0), dim=2).covariance, 4.0 * np.eye(2))


@pytest.mark.parametrize(
    ("features", "reward", "message"),
    [
        ([1.0, 0.0, 0.0], 1.0, "features must have shape"),
        ([[1.0, 0.0]], [1.0, 2.0], "reward must have shape"),
        ([[np.nan, 0.0]], [1.0], "features"),
        ([[1.0, 0.0]], [np.inf], "reward"),
        (np.zeros((2, 2, 2)), [1.0, 2.0], "features must have shape"),
    ],
)
def test_bad_observations_leave_the_agent_untouched(features, reward, message):
    one = agent()
    with pytest.raises(ValueError, match=message):
        one.observe(features, reward)
    assert one.count == 0
    np.testing.assert_array_equal(one.theta, np.zeros(2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0}, "dim must be at least 1"),
        ({"dim": 2.0}, "dim must be a whole number"),
        ({"dim": 2, "seed": -1}, "seed must be at least 0"),
        ({"dim": 2, "max_pending": 0}, "max_pending must be at least 1"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Agent(LinMED(), **options)


def test_a_policy_class_instead_of_a_policy_is_explained():
    with pytest.raises(TypeError, match="policy must be a Policy such as LinMED"):
        Agent(LinMED, dim=2)


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
    (tmp_path / "text").write_text("hello")
    for name in ("other.npz", "text"):
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


def test_importing_compiles_nothing_and_loads_nothing_heavy():
    code = "import sys, linmed; print('numba' in sys.modules, linmed.Agent.__name__)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "Agent"]


def test_unknown_names_of_the_package_are_refused():
    import linmed

    with pytest.raises(AttributeError, match="NoSuchPolicy"):
        _ = linmed.NoSuchPolicy
    assert set(linmed.__all__) <= set(dir(linmed))
