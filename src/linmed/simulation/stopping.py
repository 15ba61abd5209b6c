"""Trials that end with a verdict: each is played until one arm is surely the best."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from linmed import validation
from linmed.environments.base import LAST_ROUND
from linmed.insight.best_arm import DELTA, UNDECIDED, follower, judge
from linmed.policies import Policy, as_policy
from linmed.simulation.environment_batch import EnvironmentBatch, Observation, Pending
from linmed.validation import BadType, BadValue, Bools, Floats, Ints

ROUNDING = 1e-12
"""Means this close, relative to the largest, are equal."""


@dataclass(frozen=True)
class Decided:
    """A trial ends after the first reward at which the verdict is decided, all looks taken together.

    >>> Decided(delta=0.1).to_dict()
    {'delta': 0.1, 'epsilon': 0.0, 'judge': None}

    >>> from linmed import Pinpoint, simulate
    >>> from linmed.environments import LargeGap
    >>> until = Decided(delta=0.1, judge=Pinpoint())
    >>> results = simulate(Pinpoint(), LargeGap(), horizon=1000, trials=3, until=until, progress=False)
    >>> bool((results.decided("Pinpoint") < 1000).all()), until.by(Pinpoint()).delta
    (True, 0.1)
    """

    delta: float = DELTA
    """δ: the verdict may be wrong with this probability."""
    epsilon: float = 0.0
    """How much worse than the best arm is good enough."""
    judge: Policy | None = None
    """Whose confidence set judges, whatever policy plays; None means that of the policy that plays."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", validation.strictly_between("delta", self.delta, 0.0, 1.0))
        object.__setattr__(
            self, "epsilon", validation.between("epsilon", self.epsilon, 0.0, validation.LARGEST)
        )
        if self.judge is not None:
            judge(as_policy(self.judge, "judge"), self.delta)

    def to_dict(self) -> dict[str, Any]:
        """All that decides, as JSON-ready values."""
        by = None if self.judge is None else self.judge.to_dict()
        return {"delta": self.delta, "epsilon": self.epsilon, "judge": by}

    def by(self, policy: Policy) -> Any:
        """Whose confidence set judges where `policy` plays."""
        try:
            return judge(self.judge or policy, self.delta)
        except (BadValue, BadType) as error:
            raise BadValue(
                "until", f"until=Decided(judge=...) must be given for {policy.name}: {error}"
            ) from None


class StoppingRule:
    """The running verdicts of a batch of trials, each with a ridge estimate of its own."""

    def __init__(self, until: Decided, policy: Policy, replicas: int) -> None:
        self._judge, self._epsilon = until.by(policy), until.epsilon
        self._replicas = np.arange(replicas)
        self._winner = np.full(replicas, UNDECIDED)
        self._decided = np.zeros(replicas, dtype=np.int64)  # after so many rounds
        self._arms: Floats | None = None
        self._means: Floats | None = None
        self._pending = Pending()

    @property
    def over(self) -> bool:
        """Whether no trial goes on."""
        return bool((self._winner != UNDECIDED).all())

    def hear(self, environments: EnvironmentBatch, done: int, played: Ints) -> None:
        """What was played in the rounds of a block, after `done` others.  played (m,R) as r·K + arm."""
        if environments.priced:
            raise BadValue("until", "until must be None where arms have values and costs (Priced)")
        if environments.changing or (
            self._arms is not None and not np.array_equal(self._arms, environments.arms(0))
        ):
            raise BadValue("until", "until=Decided(...) needs arms that stay the same; these change")
        means = environments.means[0] if self._means is None else self._means
        if (environments.means != means).any():
            raise BadValue("until", "until=Decided(...) needs a θ* that stays the same; this one moves")
        if self._arms is None:
            self._arms, self._means = validation.for_kernels(environments.arms(0)), means
            count, dim = self._arms.shape[1:]
            self._state = self._judge.start(len(self._replicas), dim)
            self._possible = np.ones((len(self._replicas), count), dtype=np.bool_)
        vectors = self._arms.reshape(-1, self._arms.shape[2])
        features = vectors[played % len(vectors)]  # (m,R,d); where all trials share them there are K vectors
        rewards = environments.earned(played)
        rounds = np.arange(done + 1, done + len(played) + 1)
        if environments.delays is None:
            owners = np.tile(self._replicas, len(played))
            times = np.repeat(rounds, len(self._replicas))
            self._follow(features.reshape(-1, vectors.shape[1]), rewards.ravel(), owners, times)
            return
        for t in range(len(played)):
            self._pending.add(
                done + t,
                environments.lateness(t, rewards[t]),
                Observation(features[t], rewards[t], self._replicas),
            )
            for seen in self._pending.arrive(done + t):
                self._follow(*seen, np.full(len(seen.rewards), rounds[t]))

    def _follow(self, features: Floats, rewards: Floats, owners: Ints, times: Ints) -> None:
        follower(self._judge, self._state)(
            self._arms, features, rewards, owners, times, self._epsilon, True, self._possible, self._winner,
            self._decided,
        )  # fmt: skip

    def going_on(self, done: int, rounds: int) -> Bools:
        """Whether each trial was going on in each round of a block, after `done` rounds: (rounds, R)."""
        ended = np.where(self._winner != UNDECIDED, self._decided, LAST_ROUND)
        on: Bools = np.arange(done, done + rounds)[:, None] < ended
        return on

    def findings(self, environments: EnvironmentBatch) -> dict[str, Any]:
        """decided: rounds until the verdict, or 0; winner; right: whether that is within ε of the best"""
        means = environments.means[0].reshape(len(self._replicas), -1)
        won = np.take_along_axis(means, np.maximum(self._winner, 0)[:, None], axis=1)[:, 0]
        rounding = ROUNDING * np.abs(means).max(axis=1)
        right = (self._winner >= 0) & (means.max(axis=1) - won <= self._epsilon + rounding)
        decided = np.where(self._winner >= 0, self._decided, 0)
        return {"decided": decided, "winner": self._winner, "right": right}


def as_until(until: Any) -> Decided | None:
    """What `simulate` was given, checked: None, "decided" or a `Decided`."""
    if until is None or isinstance(until, Decided):
        return until
    if until == "decided":
        return Decided()
    raise BadType("until", f"until must be 'decided', a Decided(...) or None, got {until!r}")
