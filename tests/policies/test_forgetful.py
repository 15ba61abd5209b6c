"""Forgetful: what is remembered, who decides, and when an alarm is raised."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from linmed import Agent
from linmed.insight.drift import drift_of
from linmed.policies import EXP2, OFUL, Forgetful, LinMED, LinTS, Policy
from linmed.policies.memories import CLIPPED
from linmed.policies.ridge import RIDGE, UNSEEN
from tests.policies.toy import learned, owners, whole

DAY = 86400.0


def estimates(state):
    """The arrays of all estimates by name, without the monitor's; low parts are added to the high ones."""
    found = {name: array[0, :-1] for name, array in state.arrays().items() if name in state._fields[:RIDGE]}
    for name in ("gram", "moment"):
        found[name] = found[name] + found.pop(f"{name}_low")
    return found


def world(count, change=None, seed=0, dim=3, arms=6, sigma=0.3, size=0.5):
    """Rows drawn evenly of unit arms, and their rewards; θ* of length `size` turns round at `change`."""
    rng = np.random.default_rng(seed)
    offered = rng.standard_normal((arms, dim))
    offered /= np.sqrt((offered**2).sum(axis=1))[:, None]
    theta = rng.standard_normal(dim)
    theta *= size / np.sqrt((theta**2).sum())
    rows = offered[rng.integers(arms, size=count)]
    sign = np.where(np.arange(count) < (count if change is None else change), 1.0, -1.0)
    return rows, sign * (rows * theta).sum(axis=1) + sigma * rng.standard_normal(count)


def test_a_million_updates_at_a_half_life_of_50_leave_a_true_inverse():
    """Of twenty directions three are played: in the others there is only what is given back of λ."""
    rng = np.random.default_rng(3)
    arms = rng.standard_normal((3, 20))
    arms /= np.sqrt((arms**2).sum(axis=1))[:, None]
    policy = Forgetful(LinMED(sigma=0.3), half_lives=(50,))
    state = policy.start(1, 20)
    for _ in range(100):
        learned(policy, arms[rng.integers(3, size=10_000)], rng.standard_normal(10_000), state=state)
    found = estimates(state)
    V = whole(found["gram"][0])
    inverse = np.linalg.inv(V)
    assert np.abs(found["inverse"][0] - inverse).max() <= 1e-9 * np.abs(inverse).max()
    np.testing.assert_allclose(found["theta"][0], inverse @ found["moment"][0], atol=1e-9)
    assert np.linalg.eigvalsh(V).min() > 0.09 * 2.0 ** (-20 / 50) * 0.99  # V ⪰ λγ^d
    assert found["count"][0] == pytest.approx(1.0 / (1.0 - 2.0 ** (-1 / 50)), rel=1e-9)


@pytest.mark.identity
def test_with_one_memory_that_never_forgets_it_is_the_policy_inside():
    rows, rewards = world(300)
    plain, one = LinMED(sigma=0.3, confidence="mixture"), Forgetful(LinMED(sigma=0.3), half_lives=(math.inf,))
    apart, state = plain.start(1, 3), learned(one, rows, rewards)
    plain.learn(apart, rows, rewards, owners(300))
    np.testing.assert_array_equal(state.theta, apart.theta)
    arms = rows[None, :6]
    np.testing.assert_array_equal(one.log_probabilities(state, arms), plain.log_probabilities(apart, arms))


def test_the_sum_of_squares_is_the_least_of_what_is_left():
    """min over θ of Σ w(y − ⟨a,θ⟩)² + θᵀΛθ = Σ w y² − ⟨b,θ̂⟩, with weights 2^(−age/H)."""
    rows, rewards = world(200)
    state = learned(Forgetful(LinMED(sigma=0.3), half_lives=(7,)), rows, rewards)
    found = estimates(state)
    weights = 2.0 ** (-np.arange(200)[::-1] / 7)
    assert found["rss"][0] == pytest.approx(
        (weights * rewards**2).sum() - found["moment"][0] @ found["theta"][0], rel=1e-10
    )


def test_with_an_unknown_noise_the_densities_of_all_rewards_telescope_where_nothing_is_forgotten():
    """Then each is the ratio of two of those of `ridge="learned"`, which are known in closed form."""
    rows, rewards = world(40)
    inside = LinMED(sigma="unknown", ridge="learned")
    policy = Forgetful(inside, half_lives=(math.inf,), share=1e-15)
    apart = inside.start(1, 3)
    np.abs(apart.told, out=apart.told)  # λ and scale as they are here, in no unit of the first features
    apart.gram[:] /= UNSEEN
    apart.inverse[:] *= UNSEEN
    inside.learn(apart, rows, rewards, owners(40))
    state = learned(policy, rows, rewards)
    likely = np.exp(apart.surprise[0].min() - apart.surprise[0])
    np.testing.assert_allclose(state.weight[0], likely / likely.sum(), rtol=1e-9)
    assert state.leader[0] == apart.leader[0]


@pytest.mark.parametrize("inside", [LinMED(sigma=0.3), LinMED(sigma="unknown", ridge="learned")])
def test_a_long_memory_begins_anew_from_a_short_one_after_a_change(inside):
    rows, rewards = world(700, change=600)
    policy = Forgetful(inside, half_lives=(math.inf, 50))
    state = learned(policy, rows[:600], rewards[:600])
    assert not state.happened[0, 0]
    assert policy.estimate(state).count[0] == 600
    own = state.weight.shape[1] // 2  # experts of one memory
    for t in range(600, 700):
        learned(policy, rows[t : t + 1], rewards[t : t + 1], state=state)
        if state.happened[0, 0]:
            break
    assert state.adoptions[0, 0].tolist() == [t + 1, 0.0, 0.0, 1.0]
    for name, array in estimates(state).items():
        np.testing.assert_array_equal(array[:own], array[own:], err_msg=name)
    assert state.weight[0].sum() == pytest.approx(1.0, abs=1e-12)
    assert state.weight[0, :own].sum() == pytest.approx(1 / 3, abs=0.02)  # 1/2 beside the 1 of the other
    np.testing.assert_allclose(  # of one memory, as likely as those it took over from
        state.weight[0, :own] / state.weight[0, :own].sum(),
        state.weight[0, own:] / state.weight[0, own:].sum(),
    )


def test_a_mixture_is_that_of_the_decisions_of_its_estimates():
    rows, rewards = world(60)
    policy = Forgetful(LinMED(sigma=0.3), half_lives=(math.inf, 20, 5), combine="mixture")
    state, arms = learned(policy, rows, rewards), rows[None, :6]
    p = 0.0
    for expert in range(3):
        own = policy.of_one(state, np.array([expert]))
        p = p + state.weight[0, expert] * np.exp(
            LinMED(sigma=0.3, confidence="mixture").log_probabilities(own, arms)
        )
    np.testing.assert_allclose(np.exp(policy.log_probabilities(state, arms)), p, rtol=1e-12)
    heaviest = Forgetful(LinMED(sigma=0.3), half_lives=(math.inf, 20, 5))
    alone = LinMED(sigma=0.3, confidence="mixture").log_probabilities(
        policy.of_one(state, state.leader), arms
    )
    np.testing.assert_allclose(heaviest.log_probabilities(state, arms), alone, rtol=1e-12)


# ---- durations


def moments(count, seed=1, days=3.0):
    return 1.7e9 + np.sort(np.random.default_rng(seed).random(count)) * days * DAY


@pytest.mark.parametrize(
    ("inside", "silence", "finite"),
    [(LinMED(sigma=0.3), 40 * DAY, ("2d", "3h")), (LinMED(sigma="unknown"), 0.0, ("20d", "9d"))],
    ids=["told, and a silence of twenty half-lives", "nothing told"],
)
def test_rewards_that_come_late_and_in_any_order_leave_the_state_of_those_in_order(inside, silence, finite):
    rows, rewards = world(400)
    times = moments(400)
    times[300:] += silence
    policy = Forgetful(inside, half_lives=(math.inf, *finite))
    ordered = estimates(learned(policy, rows, rewards, times))
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(400) if seed else np.arange(400)[::-1]
        state = learned(policy, rows[order], rewards[order], times[order])
        assert not state.happened[0, 0]  # who has begun anew depends on the order in which rewards came
        for name, array in estimates(state).items():
            if name != "leveraged":
                np.testing.assert_allclose(array, ordered[name], rtol=1e-9, atol=1e-9, err_msg=name)


def test_after_a_silence_of_a_thousand_half_lives_nothing_is_left():
    rows, rewards = world(30)
    policy = Forgetful(LinMED(sigma=0.3), half_lives=("1h",))
    state = learned(policy, rows, rewards, moments(30))
    learned(policy, rows[:1], rewards[:1], np.array([1.7e9 + 1000 * 3600.0 + 3 * DAY]), state)
    found = estimates(state)
    assert found["count"][0] == pytest.approx(1.0, abs=1e-12)
    V = whole(found["gram"][0])
    np.testing.assert_allclose(found["inverse"][0], np.linalg.inv(V), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found["theta"][0], np.linalg.solve(V, rewards[0] * rows[0]), atol=1e-9)


def test_an_agent_remembers_when_it_decided(tmp_path):
    policy = Forgetful(LinMED(sigma=0.3), half_lives=("inf", "1d", "1h"))
    rows, rewards = world(40)
    times = moments(40)
    agent = Agent(policy, dim=3, seed=1, log=tmp_path / "log")
    taken = [agent.decide(rows[:6], time=time) for time in times]
    agent.save(tmp_path / "agent")
    twin = Agent.load(tmp_path / "agent")
    assert twin.pending_times() == dict(zip(agent.pending, np.round(times, 6), strict=True))
    played = np.array([decision.features for decision in taken])
    apart = learned(policy, played, rewards, np.round(times, 6))
    for one in (agent, twin):
        for decision, reward in zip(taken, rewards, strict=True):
            one.learn(decision.id, reward)
        for name, array in apart.arrays().items():
            np.testing.assert_array_equal(one.state.arrays()[name], array, err_msg=name)
    agent.close()
    from linmed.ope import learn_from

    from_log = learn_from(tmp_path / "log", policy)
    for name, array in apart.arrays().items():
        np.testing.assert_array_equal(from_log.state.arrays()[name], array, err_msg=name)


def test_durations_need_a_clock():
    policy = Forgetful(LinMED(), half_lives=("7d", "1d"))
    state = policy.start(1, 3)
    before = {name: array.copy() for name, array in state.arrays().items()}
    with pytest.raises(ValueError, match="half_lives are durations"):
        policy.learn(state, np.ones((1, 3)), np.ones(1), owners(1))
    with pytest.raises(ValueError, match="give them in rewards"):
        policy.play(
            state,
            np.ones((1, 1, 2, 3)),
            np.ones((1, 1, 2)),
            np.full((1, 1, 1), 0.5),
            np.empty((1, 1), np.int64),
        )
    with pytest.raises(ValueError, match="half_lives are durations"):
        Agent(policy, dim=3).observe(np.ones(3), 1.0)
    for name, array in state.arrays().items():
        np.testing.assert_array_equal(array, before[name])


# ---- alarms


def replicas(policy, logs, count, change=None, seed=0, noise=None, dim=3, arms=6):
    """States after so many rewards of uniform play in worlds whose θ*, of length ½, turns at `change`."""
    rng = np.random.default_rng(seed)
    offered = rng.standard_normal((logs, arms, dim))
    offered /= np.sqrt((offered**2).sum(axis=2, keepdims=True))
    theta = rng.standard_normal((logs, dim))
    theta *= 0.5 / np.sqrt((theta**2).sum(axis=1, keepdims=True))
    state, own = policy.start(logs, dim), np.arange(logs)
    for t in range(count):
        rows = offered[own, rng.integers(arms, size=logs)]
        mean = (rows * theta).sum(axis=1) * (1.0 if change is None or t < change else -1.0)
        paid = mean + 0.3 * rng.standard_normal(logs) if noise is None else noise(mean, rng)
        policy.learn(state, np.ascontiguousarray(rows), paid, own)
    return state


def clicks(mean, rng):
    return (rng.random(len(mean)) < 0.5 + mean).astype(float) - 0.5


@pytest.mark.parametrize(
    ("inside", "noise"),
    [
        (LinMED(sigma=0.3), None),
        (LinMED(sigma="unknown"), None),
        (LinMED(sigma=0.5), clicks),
    ],
    ids=["told", "unknown", "clicks"],
)
def test_false_alarms_are_no_more_frequent_than_their_level(inside, noise):
    """At α = 0.3, 300 logs of 400 rewards: more than the level allows has a probability below 1e-6."""
    state = replicas(Forgetful(inside, alarm=0.3), 300, 400, noise=noise)
    assert (state.happened[:, 1] > 0).sum() <= binom.isf(1e-6, 300, 0.3)


def student(mean, rng):
    return mean + 0.3 * rng.standard_t(3, len(mean))


def revenue(mean, rng):
    """A tenth buys, more or fewer by the arm, for a lognormal amount."""
    return np.where(
        rng.random(len(mean)) < 0.1 * (1.0 + mean), np.exp(3 + rng.standard_normal(len(mean))), 0.0
    )


@pytest.mark.parametrize("noise", [student, revenue])
def test_heavy_tails_raise_no_alarm_where_the_noise_is_unknown(noise):
    """At α = 0.05, 50 logs of 1,500 rewards; fifteen alarms have a probability below 1e-7 at that level."""
    policy = Forgetful(LinMED(sigma="unknown"))
    state = replicas(policy, 50, 1500, noise=noise)
    assert (state.happened[:, 1] > 0).sum() < 15
    doubts = [drift_of(policy, state, log).doubt for log in range(50)]
    assert sum(doubt is not None for doubt in doubts) > 30
    assert f"{int(state.spread[-1, CLIPPED])} of 1,500 rewards" in doubts[-1]


def test_one_change_is_one_alarm_in_every_unit():
    """Ten prices, of which a visitor pays none or the whole, in euros and in units of 99 euros."""
    inside, rng, logs = LinMED(sigma="unknown"), np.random.default_rng(7), 20
    prices = np.linspace(9.0, 99.0, 10)
    rows = np.stack([np.ones(10), prices / 99.0, (prices / 99.0) ** 2], axis=1)
    scaled = dataclasses.replace(inside, reward_scale=1.0 / 99.0)
    policies = [Forgetful(inside), Forgetful(scaled), Forgetful(inside)]
    states = [policy.start(logs, 3) for policy in policies]
    for t in range(2000):
        drawn, worth = rng.integers(10, size=logs), rng.random(logs) * (129.0 if t < 1000 else 64.0)
        paid = np.where(worth > prices[drawn], prices[drawn], 0.0)
        for policy, state, unit in zip(policies, states, (1.0, 1.0 / 99.0, 1.0 / 99.0), strict=True):
            policy.learn(state, rows[drawn], unit * paid, np.arange(logs))
    for state in states:
        assert state.happened[:, 1].tolist() == [1] * logs
    np.testing.assert_array_equal(states[0].alarms[:, 0, 0], states[1].alarms[:, 0, 0])


def test_evidence_with_an_unknown_noise_is_worked_once_more():
    """By the formulas of forgetting.py, with a large reward now and then, until and after an alarm."""
    rows, rewards = world(500, change=300)
    rewards[::60] += 7.0
    policy = Forgetful(LinMED(sigma="unknown", norm_bound="unknown"))
    state, lam, u = policy.start(1, 3), 0.01, 0.5 ** np.arange(8)
    x, alarms, clipped = math.log(20) + math.log(80), [], 0

    def begun():
        return np.eye(3) * lam, np.zeros(3), 0.0, 0.0, 0.5, 0.0, 0, 0.0, 0.0

    V, b, squared, M, trust, squares, n, unit, count = begun()
    for t, (a, y) in enumerate(zip(rows, rewards, strict=True)):
        f, h = state.arrays()["theta"][0, :-1] @ a, state.inverse[0, :-1] @ a @ a
        w = state.weight[0].copy()
        learned(policy, rows[t : t + 1], rewards[t : t + 1], state=state)
        if w @ h > 0.5:
            continue
        kappa = (n * np.log1p(2 * u) / (2 * u) - x / u).max()
        if 2 * kappa < max(n, 1):
            squares, n = squares + (y - w @ f) ** 2, n + 1
            continue
        s2 = squares / kappa
        unit = unit or s2
        size, weight, theta = math.sqrt(s2), unit / s2, np.linalg.solve(V, b)
        own = weight * (a @ np.linalg.solve(V, a))
        middle = a @ theta if own <= 0.5 else w @ f
        paid = np.clip(y, middle - 4 * size, middle + 4 * size)
        clipped += paid != y
        f = np.clip(f, middle - size, middle + size)
        mixed = w @ (norm.pdf(paid, f, size * np.sqrt(1 + h)) * size * math.sqrt(2 * math.pi))
        alone = norm.pdf(paid, a @ theta, size * math.sqrt(1 + own)) * size * math.sqrt(2 * math.pi)
        M -= math.log(trust * alone + (1 - trust) * mixed)
        share = 1 / (1e4 + count)
        trust = (1 - share) * trust * alone / (trust * alone + (1 - trust) * mixed) + share / 2
        V, b, squared = V + weight * np.outer(a, a), b + weight * paid * a, squared + weight * paid**2
        squares, n, count = squares + (paid - w @ f) ** 2, n + 1, count + weight
        theta = np.linalg.solve(V, b)
        left = 1 - lam * np.trace(np.linalg.inv(V))
        penalty = lam * theta @ theta / left if left > 0 else math.inf
        log_e = max(squared - b @ theta - penalty, 0) / (2 * unit) - M + math.log(0.9)
        if log_e >= math.log(20):
            alarms.append(t + 1)
            V, b, squared, M, trust, squares, n, unit, count = begun()
        else:
            assert state.evidence[0] == pytest.approx(log_e, rel=1e-9, abs=1e-9)
    assert alarms == state.alarms[0, : state.happened[0, 1], 0].tolist()
    assert len(alarms) == 1
    assert clipped >= state.spread[0, CLIPPED] >= 3


def test_a_large_change_is_no_heavy_tail_and_a_sigma_that_is_too_small_is_doubted():
    rows, rewards = world(700, change=600, size=20.0)
    for inside in (LinMED(sigma="unknown"), LinMED(sigma=0.3, norm_bound=20.0)):
        agent = Agent(Forgetful(inside), dim=3)
        agent.observe(rows, rewards)
        assert 600 < agent.drift().alarms[0].reward < 620
        assert (len(agent.drift().alarms), agent.drift().doubt) == (1, None)
    agent = Agent(Forgetful(LinMED(sigma=0.05)), dim=3)
    agent.observe(*world(300))
    assert "sigma = 0.05: it is too small" in str(agent.drift())


@pytest.mark.parametrize("inside", [LinMED(sigma=0.3), LinMED(sigma="unknown", norm_bound="unknown")])
def test_a_change_of_length_one_is_noticed_within_100_rewards(inside):
    """In 9 of 10 worlds it is to be; fewer than 100 of 150 have a probability below 1e-6 if it is so."""
    state = replicas(Forgetful(inside), 150, 700, change=600, seed=1)
    first, began = state.alarms[:, 0, 0], state.adoptions[:, 0, 0]
    assert binom.cdf(100, 150, 0.9) < 1e-6
    assert ((first > 600) & (first <= 700)).sum() > 100
    assert ((began > 600) & (began <= 700)).sum() > 100


def test_a_second_change_is_noticed_too():
    """The test begins anew after an alarm, and what the experts lose meanwhile is not held against it."""
    rng = np.random.default_rng(5)
    rows, rewards = world(400)
    turned, after = world(400)[0], -world(400)[1]
    policy = Forgetful(LinMED(sigma=0.3))
    state = policy.start(1, 3)
    for part in ((rows, rewards), (turned, after), (rows, rewards)):
        order = rng.permutation(400)
        learned(policy, part[0][order], part[1][order], state=state)
    assert state.happened[0, 1] == 2
    first, second = state.alarms[0, :2, 0]
    assert 400 < first <= 500
    assert 800 < second <= 900


def test_an_agent_says_whether_the_world_has_changed():
    rows, rewards = world(700, change=600)
    agent = Agent(Forgetful(LinMED(sigma=0.3)), dim=3, seed=0)
    agent.observe(rows[:600], rewards[:600])
    quiet = agent.drift()
    assert str(quiet).startswith("No change in 600 rewards")
    assert (quiet.changed, quiet.alarms, quiet.adoptions) == (False, (), ())
    assert quiet.memory == 600
    agent.observe(rows[600:], rewards[600:])
    found = agent.drift()
    assert found.changed
    assert 600 < found.alarms[0].reward <= 700
    assert found.adoptions[0].half_life == math.inf
    assert found.adoptions[0].source in (200.0, 50.0)
    assert f"alarm at reward {found.alarms[0].reward}" in str(found)
    assert sum(found.weights.values()) == pytest.approx(1.0)
    assert json.loads(json.dumps(found.to_dict()))["weights"][0]["half_life"] == "∞"
    with pytest.raises(ValueError, match="Forgetful"):
        Agent(LinMED(), dim=3).drift()


# ---- configuration


def test_what_cannot_forget_is_refused():
    for inside in (EXP2(), LinMED(design="warm"), Forgetful()):
        with pytest.raises(ValueError, match="base must"):
            Forgetful(inside)
    with pytest.raises(TypeError, match="base must be a Policy"):
        Forgetful("LinMED")
    with pytest.raises(ValueError, match="combine must be 'heaviest'"):
        Forgetful(LinTS(), combine="mixture")
    for wrong in ((), (0.5,), ("7x",), (100, "1d"), (50, 50), ("24h", "1d"), (math.nan,), ("100",)):
        with pytest.raises((ValueError, TypeError), match="half_lives"):
            Forgetful(half_lives=wrong)
    for name, value in (("share", 0.0), ("share", 1.0), ("alarm", 0.0), ("alarm", 1.0), ("combine", "best")):
        with pytest.raises(ValueError, match=name):
            Forgetful(**{name: value})


def test_a_description_nests_and_knows_no_infinity():
    policy = Forgetful(OFUL(sigma=0.3, floor=0.1), half_lives=(50, math.inf), share=1e-3)
    told = json.loads(json.dumps(policy.to_dict(), allow_nan=False))
    assert told["base"]["policy"] == "OFUL"
    assert told["half_lives"] == ["inf", 50.0]
    assert Policy.from_dict(told) == policy
    assert Policy.from_dict({"policy": "Forgetful", "base": {"policy": "LinMED"}}) == Forgetful()
    for inside in ({"policy": "LinMED", "sigma": -1}, {"policy": "Nobody"}, {}, {"policy": "Forgetful"}):
        with pytest.raises(ValueError, match="base"):
            Policy.from_dict({"policy": "Forgetful", "base": inside})
