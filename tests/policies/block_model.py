"""The model that models per item must equal: one ridge regression on [z; e_m ⊗ x], zeros and all."""

import numpy as np

from linmed.policies import Disjoint, Hybrid


def around(inside, shared):
    """The policy under test, with so many shared features."""
    return Hybrid(inside, shared=shared) if shared else Disjoint(inside)


def written_out(arms, models, shared):
    """[z; e_m ⊗ x] of arms (…,1 + m + c), in the space of so many models."""
    rows = arms.reshape(-1, arms.shape[-1])
    own = rows.shape[1] - 1 - shared
    out = np.zeros((len(rows), shared + models * own))
    out[:, :shared] = rows[:, 1 : 1 + shared]
    for i, model in enumerate(rows[:, 0].astype(int)):
        out[i, shared + model * own : shared + (model + 1) * own] = rows[i, 1 + shared :]
    return out.reshape(*arms.shape[:-1], -1)


def sets_of_items(rng, rounds, count, models, dim, distinct=True):
    """Arms (rounds,1,count,dim) of items drawn from `models`, with features of their own in every round."""
    arms = rng.normal(size=(rounds, 1, count, dim))
    for one in arms[:, 0]:
        one[:, 0] = rng.permutation(models)[:count] if distinct else rng.integers(0, models, count)
    return arms


def compare(inside, shared, rounds=400, count=5, models=7, own=3, distinct=True):
    """Play side by side; the largest differences of log p (relative beyond 1), √β and θ̂ along the way.

    Each model has been learned from before: a learned ridge counts the dimensions of those that were.
    """
    rng = np.random.default_rng(11)
    policy, dim = around(inside, shared), 1 + shared + own
    state, block = policy.start(1, dim), inside.start(1, shared + models * own)
    theta = 0.5 * rng.normal(size=shared + models * own)
    arms = sets_of_items(rng, rounds, count, models, dim, distinct)
    one, apart = np.zeros(1, dtype=np.int64), np.zeros(3)
    for model in rng.permutation(models):
        first = np.concatenate([[model], rng.normal(size=dim - 1)])[None]
        policy.learn(state, first, np.ones(1), one)
        inside.learn(block, written_out(first, models, shared), np.ones(1), one)
    for offered in arms:
        zeros = written_out(offered, models, shared)
        choice = policy.decide(state, offered, policy.draw_noise(rng, (1,), dim))
        mine, theirs = choice.log_probabilities, inside.log_probabilities(block, zeros)
        assert (np.isfinite(mine) == np.isfinite(theirs)).all()
        seen = np.isfinite(mine)
        played = zeros[0, choice.arm]
        reward = played @ theta + 0.3 * rng.normal(size=1)
        reward = reward if inside.accepts(reward).all() else np.maximum(np.sign(reward), 0.0)
        policy.learn(state, choice.features, reward, one)
        inside.learn(block, played, reward, one)
        learned = state.theta.shape[1]
        apart = np.maximum(
            apart,
            [
                (np.abs(mine[seen] - theirs[seen]) / np.maximum(1.0, -theirs[seen])).max(initial=0.0),
                np.abs(policy.radius(state) - inside.radius(block)).max(),
                np.abs(state.theta - block.theta[:, :learned]).max(),
            ],
        )
        assert not block.theta[:, learned:].any()
    return apart
