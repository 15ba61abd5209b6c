"""The agent: its stream, late rewards, bounded memory, batches, threads, and memory of any kind."""

import copy
import dataclasses
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from linmed import EXP2, OFUL, Agent, LinMED, LinTS, LogisticMED, MaillardSampling, Uniform
from linmed.agent import UnknownDecision
from linmed.log import DecisionLog
from linmed.policies import ALL, Budget

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
def test_a_decision_tells_the_error_of_a_probability_that_is_no_closed_form():
    class Rounded(Uniform):
        def decide(self, state, arms, noise):
            choice = super().decide(state, arms, noise)
            return choice._replace(error=np.linspace(0.1, 0.2, len(choice.arm)))

    assert agent().decide(ARMS).probability_error == 0.0
    one = Agent(Rounded(), dim=2, seed=3)
    assert one.decide(ARMS).probability_error == 0.1
    assert [decision.probability_error for decision in one.decide_batch([ARMS, ARMS])] == [0.1, 0.2]


def test_the_same_seed_gives_the_same_decisions():
    one, other = agent(), agent()
    for _ in range(600):
        a, b = one.decide(ARMS), other.decide(ARMS)
        assert (a.arm, a.log_probability) == (b.arm, b.log_probability)
        one.learn(a, 1.0)
        other.learn(b, 1.0)
    assert len({Agent(LinMED(), 2, seed=s).decide(ARMS).arm for s in range(300)}) > 1


def test_no_seed_of_a_users_generator_gives_the_numbers_that_the_agent_draws():
    """`default_rng(seed)` is where the data of half of all programs comes from."""
    for seed in range(1001):
        rng, same = np.random.default_rng(seed), np.random.default_rng(seed)
        uniforms, normals = rng.random(4), same.standard_normal(4)
        for policy, numbers in ((Uniform(), uniforms), (LinTS(), normals)):
            one = Agent(policy, 2, seed=seed)
            one._decider.noise.draw(4)
            assert not np.isin(one._decider.noise.rows[:4], numbers).any()


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
    with pytest.raises(ValueError, match=r"reward must be at most 1e\+100 in size"):
        one.learn(one.decide(ARMS), -1e200)
    np.testing.assert_array_equal(one.theta, theta)


@pytest.mark.parametrize(
    "identifier",
    ["elsewhere-0", "", 7, None, "{run}-²", "{run}-" + "9" * 5000, "{run}--1", "{run}-x", "{run}-"],
)
def test_an_unknown_decision_is_refused(identifier):
    one = agent()
    run = one.decide(ARMS).id.partition("-")[0]
    with pytest.raises(UnknownDecision, match="unknown to this agent"):
        one.learn(identifier.format(run=run) if isinstance(identifier, str) else identifier, 1.0)


@pytest.mark.parametrize("click", [True, np.True_, np.array(True), 1, np.float32(1.0)])
def test_a_click_is_a_reward(click, tmp_path):
    with agent(log=tmp_path) as one:
        one.learn(one.decide(ARMS), click)
    assert DecisionLog.open(tmp_path).table()["reward"].to_pylist() == [1.0]
    one.observe(ARMS[0], click)
    one.observe(ARMS, np.array([True, False, True]))
    assert one.count == 5


def test_masked_entries_are_refused():
    one = agent()
    decision = one.decide(ARMS)
    hidden, row = np.ma.masked_array(ARMS, mask=np.eye(3, 2)), np.ma.array([50.0, 2.0], mask=[1, 0])
    for call in (
        lambda: one.decide(hidden),
        lambda: one.decide([row]),
        lambda: one.observe([row], [1.0]),
        lambda: one.decide_batch([hidden]),
        lambda: one.observe(hidden, np.ones(3)),
        lambda: one.observe(ARMS, np.ma.masked_array(np.ones(3), mask=[0, 1, 0])),
        lambda: one.learn(decision, np.ma.masked),
    ):
        with pytest.raises(ValueError, match="masked"):
            call()
    assert (one.count, len(one.pending)) == (0, 1)


def foreign_arrays(array, folder):
    """`array` in other memory: read-only, another order, another alignment, another owner."""
    read_only = array.copy()
    read_only.flags.writeable = False
    yield "read-only", read_only
    yield "broadcast", np.broadcast_to(array[:1], array.shape)
    yield "Fortran", np.asfortranarray(array)
    yield "sliced", np.repeat(array, 2, axis=1)[:, ::2]
    unaligned = np.frombuffer(bytearray(array.nbytes + 1), np.uint8)[1:].view(np.float64).reshape(array.shape)
    unaligned[...] = array
    yield "unaligned", unaligned
    yield "big-endian", array.astype(">f8")
    yield "single precision", array.astype(np.float32)
    np.save(folder / "arms.npy", array)
    yield "memmap", np.load(folder / "arms.npy", mmap_mode="r")
    yield "writable memmap", np.load(folder / "arms.npy", mmap_mode="r+")
    yield "Arrow", pa.array(array.ravel()).to_numpy().reshape(array.shape)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(array).to_numpy()
    frame.flags.writeable = False  # as under copy-on-write
    yield "pandas", frame


@pytest.mark.parametrize("policy", [LinMED(), OFUL(), LinTS()], ids=lambda policy: policy.name)
def test_foreign_memory_gives_the_same_numbers(policy, tmp_path):
    arms = np.array([[1.0, 0.0], [0.5, 0.0], [0.5, 0.75]])

    def use(array):
        one = Agent(policy, dim=2, seed=0)
        one.observe(array, array[:, 0])
        one.learn(one.decide(array), 1.0)
        one.decide_batch(np.stack([array, array]))
        return one.probabilities(array)

    expected = use(arms)
    for kind, array in foreign_arrays(arms, tmp_path):
        got = use(array)
        if kind != "broadcast":
            np.testing.assert_array_equal(got, expected, err_msg=kind)


SETS = [np.random.default_rng(K).standard_normal((K, 2)) for K in (3, 5, 3, 1, 5, 3, 40)]
EVEN = np.random.default_rng(0).standard_normal((600, 4, 2))


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("sets", [SETS, EVEN], ids=["ragged", "even"])
def test_a_batch_takes_the_decisions_of_single_calls(kind, sets, tmp_path):
    if kind in (EXP2, MaillardSampling):  # which know one set of arms
        sets = [np.eye(2)] * len(sets)
    sets = [kind().like(arms) for arms in sets]
    dim = sets[0].shape[1]
    one, other = Agent(kind(), dim, seed=5, log=tmp_path), Agent(kind(), dim, seed=5)
    other._run = one._run
    for rounds in (sets, sets[:2]):
        told = {"costs": 0.5} if kind is Budget else {}
        batch = one.decide_batch(rounds, **{name: [cost] * len(rounds) for name, cost in told.items()})
        singles = [other.decide(arms, **told) for arms in rounds]
        assert [(d.id, d.arm) for d in batch] == [(d.id, d.arm) for d in singles]
        for a, b in zip(batch, singles, strict=True):
            np.testing.assert_allclose(a.probabilities, b.probabilities, rtol=1e-9, atol=1e-12)
            np.testing.assert_array_equal(a.features, b.features)
            assert a.probability_error == pytest.approx(b.probability_error)
            one.learn(a, 1.0)
            other.learn(b, 1.0)
    np.testing.assert_allclose(one.theta, other.theta, rtol=1e-9)
    one.close()
    logged = DecisionLog.open(tmp_path).table()
    assert logged["arm_count"].to_pylist() == [len(arms) for rounds in (sets, sets[:2]) for arms in rounds]
    assert one.decide_batch([]) == []


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (ARMS, r"sets must have shape \(n, K, 2\), got \(3, 2\)"),
        ([ARMS, ARMS[:0]], r"in sets\[1\]: arms is empty"),
        ([ARMS, np.ones((2, 3))], r"in sets\[1\]: arms has shape \(2, 3\)"),
        (np.full((2, 2, 2), np.nan), r"in sets\[0\]: arms\[0, 0\] is nan"),
    ],
)
def test_a_batch_with_a_bad_set_takes_no_decision(sets, message):
    one, other = agent(), agent()
    with pytest.raises(ValueError, match=message):
        one.decide_batch(sets)
    assert one.pending == ()
    assert one.decide(ARMS).arm == other.decide(ARMS).arm


def test_threads_share_an_agent_without_losing_a_decision_or_a_reward(tmp_path):
    one, threads, rounds = agent(log=tmp_path / "log"), 8, 60

    def work(number):
        decisions = []
        for i in range(rounds):
            decision = one.decide(ARMS) if i % 2 else one.decide_batch([ARMS])[0]
            decisions.append(decision.id)
            one.learn(decision, 1.0)
            one.observe(ARMS[number % 3], 0.5)
            one.probabilities(ARMS)
            if i % 20 == 0:
                one.save(tmp_path / f"agent{number}")
                Agent.load(tmp_path / f"agent{number}")
        return decisions

    with ThreadPoolExecutor(threads) as pool:
        ids = [identifier for some in pool.map(work, range(threads)) for identifier in some]
    assert {int(identifier.split("-")[1]) for identifier in ids} == set(range(threads * rounds))
    assert one.count == 2 * threads * rounds
    assert one.pending == ()
    one.close()
    table = DecisionLog.open(tmp_path / "log").table()
    assert table["decision_id"].to_pylist() == [f"{one._run}-{i}" for i in range(threads * rounds)]
    assert table["reward"].null_count == 0
    played = [ARMS[number % 3] for number in range(threads) for _ in range(rounds)]
    rows = np.concatenate([np.stack(table["features"].to_pylist()), played])
    V = np.eye(2) + rows.T @ rows
    rewards = np.repeat([1.0, 0.5], threads * rounds)
    np.testing.assert_allclose(one.theta, np.linalg.solve(V, rows.T @ rewards), rtol=1e-9)


def test_pending_decisions_are_bounded_and_the_dropped_counted():
    one = agent(max_pending=5)
    decisions = [one.decide(ARMS) for _ in range(12)]
    assert one.pending == tuple(d.id for d in decisions[-5:])
    assert one.dropped == 7
    with pytest.raises(ValueError, match="dropped by max_pending"):
        one.learn(decisions[0], 1.0)
    one.learn(decisions[-1], 1.0)


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


def test_importing_loads_nothing_heavy():
    code = (
        "import sys, linmed; print(linmed.Agent.__name__);"
        "print(any(name in sys.modules for name in ('pyarrow', 'matplotlib', 'scipy', 'rich')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["Agent", "False"]


def test_every_policy_that_is_exported_is_a_name_of_the_package(monkeypatch):
    import linmed
    from linmed import policies

    class Fresh(Uniform):
        pass

    assert {kind.__name__ for kind in policies.ALL} <= set(linmed.__all__)
    assert not {"RidgePolicy", "Choice", "Fresh"} & set(linmed.__all__)
    monkeypatch.setattr(policies, "Fresh", Fresh, raising=False)
    monkeypatch.setattr(policies, "__all__", [*policies.__all__, "Fresh"])
    assert linmed.Fresh is Fresh
    assert "Fresh" in linmed.__all__


def test_unknown_names_of_the_package_are_refused():
    import linmed

    with pytest.raises(AttributeError, match="NoSuchPolicy"):
        _ = linmed.NoSuchPolicy
    assert set(linmed.__all__) <= set(dir(linmed))


@pytest.mark.parametrize("log", [5, True, b"log"])
def test_a_log_that_is_none_is_refused_at_once(log):
    with pytest.raises(TypeError, match="log must be a directory or a linmed"):
        Agent(LinMED(), dim=2, log=log)


def test_a_class_of_a_users_with_our_name_does_not_take_our_place(tmp_path):
    Agent(LinMED(sigma=0.3), dim=2, seed=0).save(tmp_path / "agent")
    own = dataclasses.dataclass(frozen=True)(type("LinMED", (LinMED,), {"__module__": "mine"}))
    assert type(Agent.load(tmp_path / "agent").policy) is LinMED
    assert own().name == "LinMED-90"


def test_copies_of_an_agent_that_threads_share_are_whole():
    agent = Agent(LinMED(), dim=3, seed=1)
    arms = np.eye(3)
    for _ in range(200):
        agent.decide(arms)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            agent.learn(agent.decide(arms), 1.0)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(40):
            other = copy.deepcopy(agent)
            assert other._decisions == other.count + len(other.pending)
    finally:
        stop.set()
        thread.join()
    shallow = copy.copy(agent)
    shallow.decide(arms)
    assert len(shallow.pending) == len(agent.pending) + 1


def test_several_rewards_are_learned_at_once_or_not_at_all(tmp_path):
    one, other = (Agent(LogisticMED(), 2, seed=3, log=tmp_path / name) for name in ("one", "other"))
    made = [one.decide(np.eye(2)) for _ in range(4)]
    others = [other.decide(np.eye(2)) for _ in range(4)]
    before = {name: array.copy() for name, array in one.state.arrays().items()}
    for decisions, rewards, error, message in (
        (made, [1.0, 0.0], ValueError, "one number for each of 4 decisions, got 2"),
        (made, 1.0, TypeError, "reward must be a list, with one for each of 4 decisions, got 1.0"),
        (made[:2], [1.0, None], TypeError, r"reward\[1\] must be a number, got None"),
        (made[:2], [1.0, 7.0], ValueError, "between 0 and 1"),
        ([made[0], "b"], [1.0, 0.0], UnknownDecision, "'b' is unknown"),
        ([made[0], made[0].id], [1.0, 0.0], ValueError, "is there twice"),
    ):
        with pytest.raises(error, match=message):
            one.learn(decisions, rewards)
        assert all(np.array_equal(array, before[name]) for name, array in one.state.arrays().items())
        assert len(one.pending) == 4
    one.learn([made[0], *(decision.id for decision in made[1:])], np.array([1, 0, 0, 1]))
    for decision, reward in zip(others, [1, 0, 0, 1], strict=True):
        other.learn(decision, reward)
    one.learn([], [])
    assert np.array_equal(one.theta, other.theta)
    one.close()
    assert DecisionLog.open(tmp_path / "one").table()["reward"].to_pylist() == [1.0, 0.0, 0.0, 1.0]
