"""What a worker is given: trials to play, and all that their numbers depend on."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linmed.environments import Environment
from linmed.policies.base import Policy
from linmed.simulation.environment_batch import EnvironmentBatch
from linmed.streams import stream
from linmed.validation import Floats

_DRAWING = threading.Lock()
"""One thread at a time draws the noise of its trials: each of the many short calls would hand the interpreter
lock to another thread and wait for it to come back. Meanwhile the others play. Arms that change every round
are a long call each, which threads may as well make side by side."""

Outcome = dict[str, NDArray[Any]]
"""Named arrays whose rows are a job's trials, in order."""
Tick = Callable[[int], None]
"""Hears of replica-rounds done, and may raise `Stopped`."""


class Stopped(Exception):
    """Raised inside a worker that was asked to stop."""


@dataclass(frozen=True)
class Job(ABC):
    """Trials of one configuration. A job of part of the trials is `dataclasses.replace(job, trials=part)`."""

    environment: Environment
    horizon: int
    seed: int
    trials: tuple[int, ...]

    @property
    @abstractmethod
    def name(self) -> str:
        """What is being done, for messages."""

    @property
    def rounds(self) -> int:
        """Replica-rounds to be played."""
        return self.horizon * len(self.trials)

    @abstractmethod
    def run(self, tick: Tick = lambda replica_rounds: None) -> Outcome:
        """Play every round of every trial."""

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """What the numbers depend on besides environment, horizon, seed, trial and version; JSON-ready."""

    @abstractmethod
    def columns(self) -> dict[str, tuple[str, Any]]:
        """Columns that tell stored trials of this job from others': Arrow's name of a type, and a value."""


class TrialBatch:
    """A policy and the environments of a batch of trials; trial i has only the streams keyed (seed, i)."""

    def __init__(
        self, policy: Policy, environment: Environment, horizon: int, seed: int, trials: tuple[int, ...]
    ) -> None:
        self.policy, self.horizon = policy, horizon
        self.environments = EnvironmentBatch(
            environment, [stream(seed, "environment", trial) for trial in trials]
        )
        self._generators = [stream(seed, "policy", trial) for trial in trials]
        self.replicas = np.arange(len(trials))

    def blocks(self) -> Iterator[tuple[int, int, Floats]]:
        """Block by block: rounds played before, rounds to play now, the policy's noise (rounds, R, size).

        `state` and `offset` (r·K, to make flat indices of arms) are there from the first block on.
        """
        done = 0
        while done < self.horizon:
            with nullcontext() if self.environments.changing else _DRAWING:
                drawn = self.environments.advance()
                dim = self.environments.arms(0).shape[-1]
                noise = np.empty((drawn, len(self.replicas), self.policy.noise_size(dim)))
                for r, rng in enumerate(self._generators):
                    noise[:, r] = self.policy.draw_noise(rng, (drawn,), dim)
            if done == 0:
                self.state = self.policy.start(len(self.replicas), dim)
                self.offset = self.replicas * self.environments.count
            size = min(drawn, self.horizon - done)
            yield done, size, noise
            done += size
