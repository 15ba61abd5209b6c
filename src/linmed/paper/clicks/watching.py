"""Jobs beside the trials: what the best arms would have paid, and how often arms are played as was said."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from linmed.paper.clicks.problems import EPSILON, LEARNED, LINEAR, OWN, SQUARECB, THOMPSON
from linmed.policies.base import Policy
from linmed.simulation.environment_batch import best_of_trial
from linmed.simulation.trials import Job, Outcome, Tick, TrialBatch
from linmed.validation import Floats, Ints

EDGES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9, 0.97, 0.99)
"""Between the bins of stated probability."""
LEAST = 5.0
"""A bin whose number of plays has a smaller variance is not judged: it is far from normal."""
LEVEL = 0.01
"""Of the judgement on one policy: the share of true probabilities that it calls false."""
LIMIT = float(-ndtri(LEVEL / 2.0 / (len(EDGES) + 1)))
"""Standard deviations, by Bonferroni over the bins. A bin's plays less its stated probabilities are a
martingale; over the root of their variance they are normal in the limit, whatever the policy does."""
WATCHED = (LINEAR, LEARNED, OWN, THOMPSON, EPSILON, *SQUARECB)
"""Policies that draw, as far as they are played."""


@dataclass(frozen=True)
class Attainable(Job):
    """What the best arm of every round would pay: `attainable` (R,)."""

    @property
    def name(self) -> str:
        """The environment's."""
        return f"the best arms of {self.environment.name}"

    def configuration(self) -> dict[str, Any]:
        """Nothing but what it is."""
        return {"job": "attainable"}

    def columns(self) -> dict[str, tuple[str, Any]]:
        """None."""
        return {}

    def run(self, tick: Tick = lambda replica_rounds: None) -> Outcome:
        """Trial by trial."""
        best = []
        for trial in self.trials:
            best.append(best_of_trial(self.environment, self.horizon, self.seed, trial))
            tick(self.horizon)
        return {"attainable": np.array(best)}


@dataclass(frozen=True)
class Watched(Job):
    """Plays by bin of stated probability: `expected`, `played` and `variance`, each (R, bins)."""

    policy: Policy

    @property
    def name(self) -> str:
        """Policy and environment."""
        return f"the propensities of {self.policy.name} on {self.environment.name}"

    def configuration(self) -> dict[str, Any]:
        """The policy and the bins."""
        return {"job": "watched", "policy": self.policy.to_dict(), "edges": EDGES}

    def columns(self) -> dict[str, tuple[str, Any]]:
        """The policy's name."""
        return {"policy": ("string", self.policy.name)}

    def run(self, tick: Tick = lambda replica_rounds: None) -> Outcome:
        """Decision by decision, as a live user is served: every probability is asked for before the draw."""
        policy, replicas = self.policy, len(self.trials)
        batch = TrialBatch(policy, self.environment, self.horizon, self.seed, self.trials)
        sums = np.zeros((3, replicas, len(EDGES) + 1))
        for _, size, noise in batch.blocks():
            for t in range(size):
                arms = batch.environments.arms(t)
                choice = policy.decide(batch.state, arms, noise[t])
                stated = choice.log_probabilities
                if stated is None:
                    stated = policy.log_probabilities(batch.state, arms)
                _count(sums, np.exp(stated), choice.arm)
                paid = batch.environments.rewards(t, batch.offset + choice.arm)
                policy.learn(batch.state, choice.features, paid, batch.replicas)
            tick(size * replicas)
        return {"expected": sums[0], "played": sums[1], "variance": sums[2]}


def _count(sums: Floats, stated: Floats, arm: Ints) -> None:
    """Every arm of every replica into its bin.  stated (R,K), arm (R,)."""
    replicas = np.arange(len(arm))
    own = np.broadcast_to(replicas[:, None], stated.shape)
    bins = np.searchsorted(EDGES, stated)
    np.add.at(sums[0], (own, bins), stated)
    np.add.at(sums[1], (replicas, bins[replicas, arm]), 1.0)
    np.add.at(sums[2], (own, bins), stated * (1.0 - stated))


def deviations(counted: Outcome) -> Floats:
    """(played − expected)/√variance of every bin over all trials; NaN where a bin is not judged."""
    expected, played, variance = (counted[name].sum(axis=0) for name in ("expected", "played", "variance"))
    with np.errstate(divide="ignore", invalid="ignore"):
        scores: Floats = np.where(variance >= LEAST, (played - expected) / np.sqrt(variance), np.nan)
    return scores


def worst(counted: Outcome) -> float:
    """The largest of them, either way; NaN where no bin is judged."""
    scores = deviations(counted)
    judged = np.abs(scores[np.isfinite(scores)])
    return float(judged.max()) if len(judged) else np.nan
