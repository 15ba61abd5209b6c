"""Play one policy on one environment in a batch of trials: the loop over rounds."""

import dataclasses
import json
import threading
import time
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import linmed.policies  # noqa: F401  (its classes give the columns)
from linmed import validation
from linmed.environments import Environment, Priced
from linmed.environments.base import LAST_ROUND
from linmed.policies.base import Policy
from linmed.registry import concrete_subclasses
from linmed.simulation.environment_batch import EnvironmentBatch, Observation, Pending
from linmed.simulation.stopping import Decided, StoppingRule
from linmed.streams import stream
from linmed.validation import Floats, Ints

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
        if isinstance(environment, Priced) and environment.told:
            policy.require_worth()
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
                dim = self.environments.dim
                noise = np.empty((drawn, len(self.replicas), self.policy.noise_size(dim)))
                for r, rng in enumerate(self._generators):
                    noise[:, r] = self.policy.draw_noise(rng, (drawn,), dim)
            if done == 0:
                self.state = self.policy.start(len(self.replicas), dim)
                self.offset = self.replicas * self.environments.count
            size = min(drawn, self.horizon - done)
            yield done, size, noise
            done += size


REWARDS_AT_ONCE = 1 << 16
"""Rewards, one for every arm of every replica and round, that a policy is handed at once (512 KiB)."""
SUMS_AT_ONCE = 1 << 20
"""The same where only those of the arms played are made: it bounds how long one call takes."""


@dataclass(frozen=True)
class Task(Job):
    """Regret and pulls of one policy. `run` gives regret (R, checkpoints), pulls (R, K) and seconds (R,).

    With `until` a trial's experiment ends with its verdict: nothing is played, regretted or counted after
    that. Then there are also decided (R,), the rounds until then or 0, winner (R,), negative without one, and
    right (R,).
    """

    policy: Policy
    checkpoints: Ints
    """Rounds, from 1, after which the cumulative pseudo-regret is written down."""
    until: Decided | None = None

    @property
    def name(self) -> str:
        """Policy and environment."""
        return f"{self.policy.name} on {self.environment.name}"

    def configuration(self) -> dict[str, Any]:
        """The policy, and the very rounds that are written down: as many others are other numbers."""
        ends = {} if self.until is None else {"until": self.until.to_dict()}
        return {"policy": self.policy.to_dict(), "checkpoints": self.checkpoints.tolist(), **ends}

    def columns(self) -> dict[str, tuple[str, Any]]:
        """The policy's name, every parameter, and the rounds of the curve."""
        return {
            "policy": ("string", self.policy.name),
            **parameter_columns(self.policy, self.environment),
            "round": ("list<int64>", self.checkpoints.tolist()),
        }

    def run(self, tick: Tick = lambda replica_rounds: None) -> Outcome:
        """Play every round of every trial."""
        began = time.perf_counter()
        R, policy = len(self.trials), self.policy
        batch = TrialBatch(policy, self.environment, self.horizon, self.seed, self.trials)
        environments = batch.environments
        add_errors = self._adding()
        pending = Pending()
        stopping = None if self.until is None else StoppingRule(self.until, policy, R)
        total = np.zeros(R)  # regret so far
        regret = np.empty((R, len(self.checkpoints)))
        for done, size, noise in batch.blocks():
            if done == 0:
                pulls = np.zeros(R * environments.count, dtype=np.int64)
            played = np.empty((size, R), dtype=np.int64)
            if environments.delays is None:
                few = max(1, (REWARDS_AT_ONCE if add_errors is None else SUMS_AT_ONCE) // len(pulls))
                for first in range(0, size, few):
                    last = min(first + few, size)
                    arms, means, errors = environments.between(first, last)
                    drawn, out = noise[first:last], played[first:last]
                    if add_errors is None:
                        policy.play(batch.state, arms, environments.payments(means, errors), drawn, out)
                    else:
                        add_errors(batch.state, arms, means, errors, drawn, out)
                    tick((last - first) * R)
                played += batch.offset  # as flat indices r·K + arm
            else:
                for t in range(size):
                    arms = environments.arms(t)
                    arm = policy.choose(batch.state, arms, noise[t])
                    played[t] = batch.offset + arm
                    kept = environments.features(t) if policy.keeps_copies else environments.recalled(t)
                    features = policy.features(batch.state, kept, arm)
                    paid = environments.rewards(t, played[t])
                    told = environments.learned(t, played[t], paid)
                    seen = Observation(features, told, batch.replicas)
                    pending.add(done + t, environments.lateness(t, paid), seen)
                    for known in pending.arrive(done + t):
                        policy.learn(batch.state, *known)
                tick(size * R)
            # ---- regret and pulls need no rewards: they follow from the arms played
            gaps = environments.gaps(played)
            if stopping is not None:
                stopping.hear(environments, done, played)
                on = stopping.going_on(done, size)
                gaps[~on] = 0.0
                played = played[on]
            gaps[0] += total
            curve = np.cumsum(gaps, axis=0, out=gaps)  # (size, R)
            total = curve[-1].copy()
            inside = (self.checkpoints > done) & (self.checkpoints <= done + size)
            regret[:, inside] = curve[self.checkpoints[inside] - done - 1].T
            pulls += np.bincount(played.ravel(), minlength=len(pulls))
            if stopping is not None and stopping.over:
                tick((self.horizon - done - size) * R)
                regret[:, self.checkpoints > done + size] = total[:, None]
                break
        seconds = np.full(R, (time.perf_counter() - began) / R)
        pulled = pulls.reshape(R, -1)
        found = {"final_regret": regret[:, -1], "seconds": seconds, "regret": regret, "pulls": pulled}
        return found if stopping is None else {**found, **stopping.findings(environments)}

    def _adding(self) -> Callable[..., None] | None:
        """How the policy plays where errors are added for the arm played alone; None if it cannot."""
        able = self.policy.compiled_rounds and self.environment.additive
        return self.policy.play_with_errors if able else None


def checkpoints(horizon: int, count: int = 200) -> Ints:
    """About `count` rounds, half spaced evenly and half evenly in the logarithm; the last is `horizon`.

    >>> checkpoints(1_000_000)[[0, 1, 2, -2, -1]]
    array([      1,       2,       3,  990000, 1000000])
    """
    validation.between("horizon", validation.whole("horizon", horizon), 1, LAST_ROUND)
    half = max(validation.whole("count", count) // 2, 1)
    even = np.linspace(horizon / half, horizon, half)
    logarithmic = np.geomspace(1, horizon, half)
    return np.unique(np.round(np.concatenate([even, logarithmic])).astype(np.int64).clip(1, horizon))


KINDS = {"string": str, "float64": float, "int64": int, "bool": bool}
"""Arrow's names of parameter types in the order in which they win where classes disagree about a name."""


Columns = dict[str, tuple[str, Any]]
"""Arrow's name of a type, and value or None."""


def parameter_columns(policy: Policy, environment: Environment) -> Columns:
    """`policy.x` and `environment.y` for every parameter of every class known.

    A parameter that is no plain value (a matrix of arms) has no column; it is in `configuration`.
    """
    configuration = environment.identity()
    # A wrapped environment (Delayed, Priced) shows its own parameters and those of the one it wraps.
    inner = configuration.pop("env", None)
    if inner is not None:
        outer = configuration["environment"]
        configuration = {**inner, **configuration, "environment": f"{outer}({inner['environment']})"}
    columns: Columns = {
        "policy.class": ("string", type(policy).__name__),
        "environment.class": ("string", configuration["environment"]),
    }
    columns |= {f"policy.{name}": column for name, column in policy_columns(policy).items()}
    columns |= {
        f"environment.{name}": column for name, column in _columns(Environment, configuration).items()
    }
    return columns


def policy_columns(policy: Policy) -> Columns:
    """Every parameter of every policy known, with this policy's value, or that of the policy inside it."""
    configuration = policy.to_dict()
    return _columns(Policy, {**configuration.get("base", {}), **configuration})


def _columns(base: type, config: dict[str, Any]) -> Columns:
    kinds = _kinds(concrete_subclasses(base))
    return {name: (kind, _fit(config.get(name), kind)) for name, kind in kinds.items()}


def _kinds(classes: list[Any]) -> dict[str, str]:
    """Column types of all plain parameters, by name in alphabetical order."""
    allowed: dict[str, set[type]] = {}
    for cls in classes:
        try:
            hints = typing.get_type_hints(cls)
        except Exception:  # an annotation that only a type checker can read: no columns of its own
            continue
        for field in dataclasses.fields(cls):
            if field.init:
                plain = _plain(hints[field.name])
                if len(plain) > 1 and not isinstance(field.default, str):
                    plain.discard(str)  # a number that may be "unknown": the word is in `configuration`
                allowed.setdefault(field.name, set()).update(plain)
    chosen: dict[str, str] = {}
    for name in sorted(allowed):
        fitting = [kind for kind, member in KINDS.items() if member in allowed[name]]
        if fitting:
            chosen[name] = fitting[0]
    return chosen


def _plain(hint: Any) -> set[type]:
    """The plain types among what a hint allows."""
    if hint == ArrayLike:  # a union that has plain types among its members
        return set()
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return {type(value) for value in typing.get_args(hint)}
    if origin in (typing.Union, types.UnionType):
        return set().union(*map(_plain, typing.get_args(hint)))
    return {plain for plain in (str, float, int, bool) if hint is plain}


def _fit(value: Any, kind: str) -> Any:
    """`value` for a column of this kind, or None where it does not fit: then it is in `configuration`."""
    if value is None:
        return None
    if kind == "string":
        return value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, bool) or kind == "bool":
        return value if isinstance(value, bool) and kind == "bool" else None
    if kind == "int64":
        return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None
    exact = isinstance(value, int) and abs(value) <= 2**53
    return value if exact or isinstance(value, float) else None
