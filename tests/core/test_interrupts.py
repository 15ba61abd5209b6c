"""Ctrl-C ends every kernel that may take long, and other threads run meanwhile."""

import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from linmed import E2D, EXP2, GLMMED, OFUL, Forgetful, LinMED, LinTS
from linmed.core import core
from linmed.design import approx_design, optimal_design
from linmed.policies.base import Policy

AFTER, WITHIN = 0.05, 0.2  # seconds of processor time
rng = np.random.default_rng(0)


def sphere(*shape: int) -> np.ndarray:
    rows = rng.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


Kernel = Callable[[], object]


def rounds(policy: Policy, R: int, K: int, d: int, T: int) -> Kernel:
    noise = np.broadcast_to(policy.draw_noise(rng, (1, R), d), (T, R, policy.noise_size(d))).copy()
    arms, played, errors = sphere(1, 1, K, d), np.zeros((T, R), np.int64), np.zeros((T, R))
    state, means = policy.start(R, d), np.zeros((1, R, K))
    return lambda: policy.play_with_errors(state, arms, means, errors, noise, played)


def rewards(policy: Policy, n: int, d: int) -> Kernel:
    state, seen = policy.start(1, d), (sphere(n, d), rng.integers(0, 2, n) * 1.0, np.zeros(n, dtype=np.int64))
    return lambda: policy.observe(state, *seen)


def law(policy: Policy, sets: int, K: int, d: int) -> Kernel:
    state, arms = policy.start(sets, d), sphere(sets, K, d)
    return lambda: policy.log_probabilities(state, arms)


def design(make: Callable[[np.ndarray], object], K: int, d: int) -> Kernel:
    arms = sphere(K, d)
    return lambda: make(arms)


def repeats(draws: int) -> Kernel:
    theta, gram, arms = np.zeros((1, 4)), np.eye(4)[None], sphere(1, 50, 4)
    noise, one = np.ones((1, 4), np.uint64), np.zeros(1, np.int64)
    return lambda: core.count_repeats(theta, gram, 1.0, np.ones(1), arms, 0.0, noise, one, draws, one.copy())


KERNELS: dict[str, Callable[[], Kernel]] = {
    "rounds with few arms": lambda: rounds(LinMED(), 1, 8, 4, 4_000_000),
    "rounds with a design": lambda: rounds(LinMED(), 20, 100, 20, 50_000),
    "rounds of an optimist": lambda: rounds(OFUL(), 20, 100, 20, 100_000),
    "rewards of ridge estimates": lambda: rewards(LinMED(), 100_000, 100),
    "rewards of a logistic model": lambda: rewards(GLMMED(family="logistic"), 40_000, 60),
    "rewards that are forgotten": lambda: rewards(Forgetful(LinMED()), 20_000, 50),
    "an approximate design": lambda: design(approx_design, 200_000, 50),
    "an optimal design": lambda: design(lambda arms: optimal_design(arms, tol=1e-12), 30_000, 40),
    "designs of EXP2": lambda: law(EXP2(), 400, 400, 20),
    "probabilities of Thompson sampling": lambda: law(LinTS(), 60, 500, 20),
    "fresh draws of Thompson sampling": lambda: repeats(10**9),
    "the program of E2D": lambda: law(E2D(), 200, 500, 20),
}


def seconds_after_a_signal(kernel: Kernel) -> float:
    """The processor time that a kernel, called again and again, goes on after a signal.

    The signal is sent by another thread, which therefore has run beside the kernel.
    """
    sent, main = [], threading.main_thread().ident
    assert main is not None

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def repeat() -> None:
        while True:
            kernel()

    def send() -> None:
        began = time.process_time()
        while time.process_time() < began + AFTER:
            time.sleep(0.001)
        sent.append(time.process_time())
        signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    other = threading.Thread(target=send)
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            repeat()
        return time.process_time() - sent[0]
    finally:
        other.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.unix
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_ends_within_a_fifth_of_a_second_and_leaves_other_threads_running(name):
    assert seconds_after_a_signal(KERNELS[name]()) < WITHIN
