"""One policy, one environment, a batch of trials: the loop over rounds."""

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from linmed.checks import Floats, Ints
from linmed.environments import Environment
from linmed.policies.base import Policy
from linmed.simulation.pending import Observation, Pending
from linmed.simulation.schedule import ENVIRONMENT, POLICY, stream
from linmed.simulation.stacking import Rounds

_DRAWING = threading.Lock()
"""One thread at a time draws the noise of its trials: each of the many short calls would hand the interpreter
lock to another thread and wait for it to come back. Meanwhile the others play. Arms that change every round
are a long call each, which threads may as well make side by side."""
REWARDS_AT_ONCE = 1 << 16
"""Rewards, one for every arm of every replica and round, that a policy is handed at once (512 KiB)."""


@dataclass(frozen=True)
class Task:
    """What a worker needs to know, and all that the numbers depend on."""

    policy: Policy
    environment: Environment
    horizon: int
    seed: int
    trials: tuple[int, ...]
    checkpoints: Ints


@dataclass(frozen=True)
class Outcome:
    """What came of a task. Rows are its trials, in order."""

    regret: Floats  # (R, checkpoints) cumulative pseudo-regret
    pulls: Ints  # (R, K) how often each arm was played
    seconds: float
    """Time spent in the loop by one worker."""


class Stopped(Exception):
    """Raised inside a worker that was asked to stop."""


def run_batch(task: Task, tick: Callable[[int], None] = lambda replica_rounds: None) -> Outcome:
    """Play every round of every trial. `tick` hears of replica-rounds done and may raise `Stopped`."""
    began = time.perf_counter()
    policy, environment = task.policy, task.environment
    R = len(task.trials)
    rounds = Rounds(environment, [stream(task.seed, trial, ENVIRONMENT) for trial in task.trials])
    generators = [stream(task.seed, trial, POLICY) for trial in task.trials]
    replicas = np.arange(R)
    pending = Pending()
    total = np.zeros(R)  # regret so far
    regret = np.empty((R, len(task.checkpoints)))
    done = 0
    while done < task.horizon:
        with nullcontext() if rounds.changing else _DRAWING:
            drawn = rounds.advance()
            dim = rounds.arms(0).shape[-1]
            noise = _policy_noise(policy, generators, drawn, dim)
        size = min(drawn, task.horizon - done)
        if done == 0:
            state = policy.start(R, dim)
            pulls = np.zeros(R * rounds.count, dtype=np.int64)
            offset = replicas * rounds.count
        played = np.empty((size, R), dtype=np.int64)
        if rounds.delays is None:
            few = max(1, REWARDS_AT_ONCE // len(pulls))
            for first in range(0, size, few):
                last = min(first + few, size)
                arms, rewards = rounds.between(first, last)
                policy.play(state, arms, rewards, noise[first:last], played[first:last])
                tick((last - first) * R)
        else:
            for t in range(size):
                arms = rounds.arms(t)
                played[t] = policy.choose(state, arms, noise[t])
                means = rounds.mean_row(t).take(offset + played[t])
                seen = Observation(
                    policy.features(state, arms, played[t]),
                    environment.rewards(means, rounds.noise[t]),
                    replicas,
                )
                pending.add(done + t, rounds.delays[t], seen)
                for known in pending.arrive(done + t):
                    policy.learn(state, *known)
            tick(size * R)
        played += offset  # as flat indices r·K + arm
        # ---- regret and pulls need no rewards: they follow from the arms played
        gaps = rounds.gaps(played)
        gaps[0] += total
        curve = np.cumsum(gaps, axis=0, out=gaps)  # (size, R)
        total = curve[-1].copy()
        inside = (task.checkpoints > done) & (task.checkpoints <= done + size)
        regret[:, inside] = curve[task.checkpoints[inside] - done - 1].T
        pulls += np.bincount(played.ravel(), minlength=len(pulls))
        done += size
    return Outcome(regret, pulls.reshape(R, -1), time.perf_counter() - began)


def _policy_noise(policy: Policy, generators: list[np.random.Generator], rounds: int, dim: int) -> Floats:
    """The policy's draws of one block (rounds, R, size), each trial from its own stream."""
    shape = (rounds, policy.noise_size(dim))
    noise = np.empty((rounds, len(generators), shape[1]))
    for r, rng in enumerate(generators):
        noise[:, r] = rng.random(shape) if policy.noise == "uniform" else rng.standard_normal(shape)
    return noise
