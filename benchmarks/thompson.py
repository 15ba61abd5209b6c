"""LinTS with its probabilities: the time of a decision and the error it reports, early and late in learning.

python benchmarks/thompson.py [--quick]

Arms are on the unit sphere; the state is that of a bandit that has played LinTS for so many rounds. Processor
time, the least of several repeats; the true error is the difference to 32 times as many points.
"""

import sys
import time

import numpy as np
from report import show, table

from linmed.policies import LinTS, thompson

SHAPES = ((10, 4), (100, 20), (1000, 32))
ROUNDS = (10, 100, 1000)


def learned(policy, K, d, rounds):
    """Arms (1,K,d) and the state after so many rounds."""
    rng = np.random.default_rng(K + d)
    arms = rng.standard_normal((1, K, d))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    theta = rng.standard_normal(d)
    theta /= np.linalg.norm(theta)
    state = policy.start(1, d)
    for noise in rng.standard_normal((rounds, 1, d)):
        row = arms[0, policy.choose(state, arms, noise)]
        policy.learn(state, row, row @ theta + rng.standard_normal(1), np.zeros(1, dtype=np.int64))
    return arms, state


def milliseconds(call, repeats):
    call()
    times = []
    for _ in range(repeats):
        began = time.thread_time()
        call()
        times.append(time.thread_time() - began)
    return min(times) * 1e3


def exact(policy, state, arms):
    """The probabilities by 32 times as many points."""
    names = ("WORK", "MOST_POINTS", "ENOUGH")
    before = [getattr(thompson, name) for name in names]
    for name, value in zip(names, (32 * before[0], 32 * before[1], 0.0), strict=True):
        setattr(thompson, name, value)
    p = np.exp(policy.log_probabilities(state, arms))
    for name, value in zip(names, before, strict=True):
        setattr(thompson, name, value)
    return p


def root_mean_square(x):
    return float(np.sqrt(np.mean(x * x)))


def main(quick):
    rows = []
    for K, d in SHAPES[:2] if quick else SHAPES:
        for scale in ("frequentist", "bayes"):
            policy = LinTS(scale=scale)
            for rounds in ROUNDS:
                arms, state = learned(policy, K, d, rounds)
                noise = np.random.default_rng(0).standard_normal((1, d))
                cost = milliseconds(lambda: policy.decide(state, arms, noise), 5 if quick else 25)  # noqa: B023
                error = policy.propensity_error(state, arms)
                off = np.exp(policy.log_probabilities(state, arms)) - exact(policy, state, arms)
                figures = (root_mean_square(error), float(error.max()), root_mean_square(off))
                rows.append(
                    [f"({K},{d})", policy.name, f"{rounds:,}", f"{cost:.3g}", *(f"{x:.1e}" for x in figures)]
                )
    header = ["(K,d)", "policy", "rounds", "ms", "error told", "largest", "true error"]
    show(table("A decision of LinTS with all probabilities", header, rows, words=2))


if __name__ == "__main__":
    main("--quick" in sys.argv)
