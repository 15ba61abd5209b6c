"""What rewards refute: norm_bound, sigma, and that they are linear in the features."""

import warnings

import numpy as np
import pytest

from linmed import Agent, LinMED, Verdicts
from linmed.insight.assumptions import Repeats, contradiction, refuted
from linmed.insight.best_arm import VerdictWarning


def unit(rng, count, dim):
    arms = rng.normal(size=(count, dim))
    return arms / np.linalg.norm(arms, axis=1)[:, None]


def told(policy, features, rewards):
    """An agent that has observed these, and what it said."""
    agent = Agent(policy, dim=features.shape[1], seed=0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        agent.observe(features, rewards)
    return agent, [str(one.message) for one in said if one.category is VerdictWarning]


def log(seed, mean, count=400, arms=6, dim=4, sigma=0.5):
    rng = np.random.default_rng(seed)
    rows = unit(rng, arms, dim)
    theta = unit(rng, 1, dim)[0]
    features = rows[rng.integers(arms, size=count)]
    return rows, features, mean(features, theta) + sigma * rng.normal(size=count)


def lifted(offset):
    return lambda features, theta: offset + np.einsum("nd,d->n", features, theta)


def test_rewards_of_about_100_refute_a_norm_bound_of_1():
    rng = np.random.default_rng(0)
    arms = np.column_stack([unit(rng, 6, 3), np.ones(6)])
    means = 100.0 + arms[:, :3] @ [0.6, 0.5, -0.4]
    agent, said = Agent(LinMED(), dim=4, seed=1), []
    for t in range(40):
        decision = agent.decide(arms)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            agent.learn(decision, means[decision.arm] + rng.normal())
        said += [(t, str(one.message)) for one in caught]
    assert [t for t, _ in said] == [15]  # once
    assert "norm_bound=1 is refuted" in said[0][1]
    verdict = agent.verdict(arms)
    assert not verdict.decided
    assert not verdict.proved
    assert len(verdict.candidates) == 6
    assert "at least" in verdict.doubt
    assert str(verdict).startswith("No verdict after 40 rewards: norm_bound=1 is refuted")
    assert "do not hold: norm_bound=1 is refuted" in str(agent.explain(arms))
    verdicts = Verdicts(arms)
    with pytest.warns(VerdictWarning, match="No verdict"):
        assert not verdicts.look(agent).decided
    assert verdicts.look(agent).refuted is not None  # without another warning
    free, quiet = told(LinMED(sigma="unknown", ridge="learned", intercept=True), arms, means)
    assert quiet == []
    assert free.verdict(arms).refuted is None


def test_the_length_that_is_named_is_that_of_the_shortest_theta_of_the_set():
    _, features, rewards = log(1, lifted(0.0), sigma=0.3)
    policy = LinMED(sigma=0.3, norm_bound=0.2)
    state = policy.start(1, 4)
    policy.learn(state, features, rewards, np.zeros(400, dtype=np.int64))
    words = refuted(policy.posterior(state), 0.05)
    named = float(words.split("at least ")[1].split(" long")[0])
    limit = state.rss[0] + 0.09 * (state.logdet[0] + 2 * np.log(2 / 0.05))
    V = np.tril(state.gram[0]) + np.tril(state.gram[0], -1).T - policy.lam * np.eye(4)
    total = np.sum(rewards**2)
    shorter = []
    for direction in unit(np.random.default_rng(2), 4000, 4):
        theta = named * 0.97 * direction
        shorter.append(total - 2 * state.moment[0] @ theta + theta @ V @ theta)
    assert min(shorter) > limit
    mus = np.geomspace(1e-6, 1e6, 20_000)
    lengths = [np.linalg.norm(np.linalg.solve(V + mu * np.eye(4), state.moment[0])) for mu in mus]
    theta = np.linalg.solve(V + mus[np.searchsorted(-np.array(lengths), -named)] * np.eye(4), state.moment[0])
    assert total - 2 * state.moment[0] @ theta + theta @ V @ theta == pytest.approx(limit, rel=0.01)


def test_a_noise_larger_than_sigma_is_refuted_with_its_size():
    _, features, rewards = log(2, lifted(0.0), count=1000, sigma=0.5)
    said = told(LinMED(sigma=0.1), features, rewards)[1]
    assert len(said) == 1
    named = float(said[0].split("noise of ")[1].split(" at least")[0])
    assert 0.4 < named < 0.5
    assert told(LinMED(sigma=0.5), features, rewards)[1] == []


def bent(features, theta):
    mean = np.einsum("nd,d->n", features, theta)
    return mean + 2.0 * mean**2


@pytest.mark.parametrize("mean", [lifted(1.0), lifted(0.3), bent], ids=["offset 1", "offset 0.3", "bent"])
def test_rewards_that_are_not_linear_are_refuted_where_arms_repeat(mean):
    found = []
    for seed in range(5):
        rows, features, rewards = log(seed, mean, count=3000, arms=10, sigma=0.3)
        for policy in (LinMED(sigma=0.3, norm_bound=5.0), LinMED(sigma="unknown", norm_bound=5.0)):
            verdicts = Verdicts(rows)
            with pytest.warns(VerdictWarning, match="not linear in the features: 10 rows|^CONTRADICTION"):
                verdict = verdicts.learn(policy, policy.start(1, 4), features, rewards)
            assert verdicts.decided_after is None
            found.append(verdict.proved or verdict.decided)
    assert not any(found)


def test_a_price_with_an_optimum_in_between_is_no_straight_line():
    rng, prices = np.random.default_rng(4), np.linspace(0.0, 1.0, 6)
    features = np.column_stack([np.ones(6), prices])
    agent, said = Agent(LinMED(sigma=0.1), dim=2, seed=0), []
    for _ in range(600):
        decision = agent.decide(features)
        price = prices[decision.arm]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            agent.learn(decision, price * (1.0 - price) + 0.1 * rng.normal())
        said += caught
    assert [one.category for one in said] == [VerdictWarning]
    assert "not linear" in str(said[0].message)


def test_what_is_right_is_hardly_ever_refuted():
    """100 logs each, looked at after 16, 32, …, 512 rewards at level 0.05; rewards choose the arms.

    More than 12 of 100 would be seen with probability 2e-3 at most.
    """
    for policy in (LinMED(sigma=0.5), LinMED(sigma="unknown"), LinMED(sigma=0.5, intercept=True)):
        wrong = 0
        for seed in range(100):
            rng = np.random.default_rng(seed)
            arms, theta = unit(rng, 8, 3), unit(rng, 1, 3)[0]
            played, noise = np.empty((512, 1), dtype=np.int64), rng.random((512, 1, 1))
            rewards = (arms @ theta)[None, None] + 0.5 * rng.normal(size=(512, 1, 1))
            policy.play(policy.start(1, 3), arms[None, None], rewards, noise, played)
            features, paid = arms[played[:, 0]], rewards[np.arange(512), 0, played[:, 0]]
            state, repeats, before, found = policy.start(1, 3), Repeats(), 0, []
            for count in (16, 32, 64, 128, 256, 512):
                some = slice(before, count)
                policy.learn(state, features[some], paid[some], np.zeros(count - before, dtype=np.int64))
                repeats.add_all(features[some], paid[some])
                found.append(contradiction(policy.posterior(state), 0.05, repeats))
                before = count
            wrong += any(one is not None for one in found)
        assert wrong <= 12


def test_what_repeats_is_saved_with_the_agent_and_the_verdicts(tmp_path):
    rows, features, rewards = log(5, lifted(1.0), count=1500)
    agent, said = told(LinMED(sigma=0.5, norm_bound=5.0), features, rewards)
    assert len(said) == 1
    agent.save(tmp_path / "agent.npz")
    assert Agent.load(tmp_path / "agent.npz").verdict(rows).refuted == agent.verdict(rows).refuted
    verdicts = Verdicts(rows)
    with pytest.warns(VerdictWarning):
        verdicts.look(agent)
    verdicts.save(tmp_path / "verdicts.npz")
    assert Verdicts.load(tmp_path / "verdicts.npz").look(agent).refuted is not None
