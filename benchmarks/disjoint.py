"""Models per item against the block model that they equal: `python benchmarks/disjoint.py`.

Both decide and learn side by side among the same items, one round after the other, in processor time of one
thread; printed are microseconds a round and their ratio. The block model is the policy inside on the arms
e_m ⊗ x, or [z; e_m ⊗ x].
"""

import argparse
import time

import numpy as np

from linmed.policies import OFUL, Disjoint, Hybrid, LinMED


def block_arms(arms, items, shared):
    """[z; e_m ⊗ x] of arms (1,K,1 + m + c)."""
    own = arms.shape[2] - 1 - shared
    written = np.zeros((1, arms.shape[1], shared + items * own))
    written[:, :, :shared] = arms[:, :, 1 : 1 + shared]
    for i, model in enumerate(arms[0, :, 0].astype(int)):
        written[0, i, shared + model * own : shared + (model + 1) * own] = arms[0, i, 1 + shared :]
    return written


def seconds(policy, sets, rewards, noise):
    """Processor time of the rounds, and the log-probabilities of the last one."""
    dim, one = sets[0].shape[2], np.zeros(1, dtype=np.int64)
    for warm in (True, False):
        state = policy.start(1, dim)
        policy.learn(state, sets[0][0], np.zeros(len(sets[0][0])), np.zeros(len(sets[0][0]), dtype=np.int64))
        rounds = 2 if warm else len(sets)
        began = time.thread_time()
        for t in range(rounds):
            choice = policy.decide(state, sets[t], noise[t : t + 1])
            policy.learn(state, choice.features, rewards[t : t + 1], one)
        spent = time.thread_time() - began
    return spent / rounds, choice.log_probabilities[0]


def compare(inside, items, features, shared, rounds, rng):
    """One row of the table."""
    policy = Hybrid(inside, shared=shared) if shared else Disjoint(inside)
    sets = rng.normal(size=(rounds, 1, items, 1 + shared + features)) / np.sqrt(shared + features)
    sets[..., 0] = np.arange(items)
    rewards, noise = rng.normal(size=rounds), rng.random((rounds, 1))
    blocks = [block_arms(one, items, shared) for one in sets]
    ours, law = seconds(policy, list(sets), rewards, noise)
    theirs, same = seconds(inside, blocks, rewards, noise)
    apart = np.abs(np.exp(law) - np.exp(same)).max()
    print(
        f"{policy.name:42} {items:5} {shared:3} {features:3} {1e6 * theirs:12.1f} {1e6 * ours:10.1f} "
        f"{theirs / ours:8.1f} {apart:10.1e}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(0)
    heads = ("policy", "K", "m", "c", "block µs", "ours µs", "ratio", "apart")
    print("{:42} {:>5} {:>3} {:>3} {:>12} {:>10} {:>8} {:>10}".format(*heads))
    for inside in (LinMED(sigma=0.5), OFUL(sigma=0.5)):
        for items, features, shared in ((10, 5, 0), (100, 5, 0), (10, 5, 5), (100, 5, 5)):
            compare(inside, items, features, shared, rounds, rng)


if __name__ == "__main__":
    main()
