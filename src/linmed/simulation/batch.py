"""One policy, one environment, a batch of trials: the loop over rounds."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from linmed import validation
from linmed.environments.base import LAST_ROUND
from linmed.policies.base import Policy
from linmed.policies.compiled import CompiledPolicy
from linmed.simulation.columns import parameter_columns
from linmed.simulation.jobs import Job, Outcome, Tick, TrialBatch
from linmed.simulation.pending import Observation, Pending
from linmed.simulation.stopping import Decided, StoppingRule
from linmed.validation import Ints

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
                    kept = arms if policy.keeps_copies else environments.recalled(t)
                    features = policy.features(batch.state, kept, arm)
                    paid = environments.rewards(t, played[t])
                    seen = Observation(features, paid, batch.replicas)
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
        own = self.policy
        if not (isinstance(own, CompiledPolicy) and type(own).play is CompiledPolicy.play):
            return None
        return own.play_with_errors if self.environment.additive else None


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
