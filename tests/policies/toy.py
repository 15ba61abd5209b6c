"""A state small enough to work out by hand: three arms in the plane after three rewards, λ = σ = S = 1.

V = diag(3, 2), θ̂ = (0.53333, 0.1), means (0.53333, 0.1, 0.4), leverages (1/3, 1/2, 0.44); with δ = 0.1 the
radius is 3.5292152.
"""

import numpy as np

from linmed.policies import thompson

ARMS = np.array([[[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]])
ROWS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
REWARDS = np.array([1.0, 0.2, 0.6])
ONE = np.array([[0.5]])  # the noise of one decision


def state_of(policy):
    state = policy.start(1, 2)
    policy.learn(state, ROWS, REWARDS, np.zeros(3, dtype=np.int64))
    return state


def probabilities(policy, arms=ARMS, state=None):
    state = state_of(policy) if state is None else state
    return np.exp(policy.log_probabilities(state, np.asarray(arms, dtype=float)))[0]


def chosen(policy, state, arms):
    """The arms that a policy without noise plays, one for each replica or set."""
    return policy.choose(state, arms, np.zeros((max(len(state.count), len(arms)), 1)))


def random_state(policy, arms, rewards=30, seed=0):
    """One replica after rewards of arms drawn evenly.  arms (1,K,d)."""
    rng = np.random.default_rng(seed)
    state = policy.start(1, arms.shape[2])
    rows = arms[0, rng.integers(arms.shape[1], size=rewards)]
    theta = rng.standard_normal(arms.shape[2]) / np.sqrt(arms.shape[2])
    noisy = rows @ theta + rng.standard_normal(rewards)
    policy.learn(state, rows, noisy, np.zeros(rewards, dtype=np.int64))
    return state


def sphere(K, d, seed=0):
    arms = np.random.default_rng(seed).standard_normal((1, K, d))
    return arms / np.linalg.norm(arms, axis=2, keepdims=True)


def with_more_points(monkeypatch, factor):
    """LinTS's probabilities by all points, `factor` times as many."""
    for name in ("WORK", "MOST_POINTS"):
        monkeypatch.setattr(thompson, name, factor * getattr(thompson, name))
    monkeypatch.setattr(thompson, "ENOUGH", 0.0)


def owners(count):
    """So many rewards of the one replica there is."""
    return np.zeros(count, dtype=np.int64)


def learned(policy, rows, rewards, times=None, state=None):
    """The state after these rewards of one replica, whose decisions were at `times`."""
    state = policy.start(1, rows.shape[1]) if state is None else state
    rows, own = np.ascontiguousarray(rows), owners(len(rows))
    if times is None:
        policy.learn(state, rows, rewards, own)
    else:
        policy.learn_at(state, rows, rewards, own, times)
    return state


def whole(lower):
    """The symmetric matrix of which this is the lower half."""
    return np.tril(lower) + np.tril(lower, -1).T
