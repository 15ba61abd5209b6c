"""`Replay`: what a *learning* policy would have earned, by rejection sampling from a randomised log."""

import math
from dataclasses import dataclass

import numpy as np

from linmed import checks
from linmed.checks import BadType, BadValue, Floats
from linmed.log import DecisionLog
from linmed.ope.intervals import VALID
from linmed.ope.request import CONFIDENCE, INTERVAL, Log, as_log
from linmed.ope.reader import Reader, possible_rewards
from linmed.ope.rounds import require
from linmed.ope.sequences import ValueSequence
from linmed.ope.sides import value_sides
from linmed.policies.base import Policy, State
from linmed.streams import stream

_ONE = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class ReplayResult:
    """What the policy earned on the decisions it accepted."""

    estimate: float
    """Mean reward per accepted decision."""
    lower: float
    upper: float
    accepted: int
    offered: int
    rewards: Floats  # (accepted,) in order: the policy's learning curve
    state: State
    """The policy's state at the end."""
    valid: str = "any time"

    def __repr__(self) -> str:
        return (
            f"ReplayResult: {self.estimate:.4g} per decision, between {self.lower:.4g} and {self.upper:.4g} "
            f"({self.valid}), from {self.accepted:,} of {self.offered:,} decisions"
        )


class Replay:
    """Accept decision t with probability q_t(a_t) / (M p_t(a_t)), q_t the policy as it stands, and learn.

    Accepted decisions are distributed as if the policy itself had run, for contexts that do not depend on
    the past and M ≥ q/p throughout: the policy's own reward per round is estimated without bias, at the
    price of keeping about n/M decisions. For a uniform log M = K, and this is replay (Li et al. 2011).
    The interval is a confidence sequence for the mean reward the policy had to expect over the accepted
    decisions, valid however many they are.
    """

    def __init__(self, policy: Policy, bound: float | None = None, seed: int = 0):
        if not isinstance(policy, Policy):
            raise BadType("policy", f"policy must be a Policy such as LinMED(), got {policy!r}")
        self.policy = policy
        self.bound = None if bound is None else checks.positive("bound", bound)
        self.seed = checks.whole("seed", seed, at_least=0)

    def run(
        self,
        log: Log,
        *,
        interval: str = INTERVAL,
        confidence: float = CONFIDENCE,
        reward_range: tuple[float, float] | None = None,
        missing: str | float = "stop",
    ) -> ReplayResult:
        """Play the log through; the arguments are those of `evaluate`, the interval "betting" or "mixture".

        `bound` M defaults to the largest 1/p in the log, at the cost of a pass. If only the played arms'
        probabilities were logged, that largest value depends a little on the draws: give the bound where it
        is known (K for a uniform log).
        """
        checks.option("interval", interval, ("betting", "mixture"))
        checks.strictly_between("confidence", confidence, 0.0, 1.0)
        possible = possible_rewards(reward_range, needed=True)
        assert possible is not None
        low, high, _ = possible
        log = as_log(log)
        require(log, ["arms"], "replay", "log")
        reader = Reader(columns=("arms",), possible=possible, missing=missing)
        bound = self.bound if self.bound is not None else _largest_inverse(log)
        random = stream(self.seed, "replay")
        state: State | None = None
        kept: list[float] = []
        offered = 0
        for rounds in reader.read(log):
            assert rounds.arms is not None
            if state is None:
                state = self.policy.start(1, rounds.arms.shape[1])
            offsets, uniform = rounds.offsets, random.random(len(rounds))
            for i in range(len(rounds)):
                arms = rounds.arms[offsets[i] : offsets[i + 1]]
                arm = int(rounds.arm[i])
                log_q = self.policy.log_probabilities(state, arms[None])[0, arm]
                accept = math.exp(log_q) / (bound * rounds.probability[i])
                if accept > 1.0 + 1e-9:
                    needed = f"row {rounds.row[i]} needs at least {accept * bound:g}"
                    raise BadValue("bound", f"bound={bound:g} is too small: {needed}")
                if uniform[i] < accept:
                    features = self.policy.features(state, arms[None], np.array([arm]))
                    self.policy.learn(state, features, rounds.reward[i : i + 1], _ONE)
                    kept.append(float(rounds.reward[i]))
            offered += len(rounds)
        assert state is not None
        if not kept:
            reason = f"the log is too short for bound={bound:g}"
            raise BadValue("bound", f"none of the {offered} decisions was accepted: {reason}")
        rewards = np.array(kept)
        unit = (rewards - low) / (high - low)
        # What the policy has to expect changes as it learns: the average so far, as under drift.
        bounds = ValueSequence(interval, confidence, (low, high))
        bounds.add(rewards, *value_sides(np.ones(unit.size), unit))
        lower, upper = bounds.bounds
        return ReplayResult(
            estimate=float(rewards.mean()),
            lower=lower,
            upper=upper,
            accepted=rewards.size,
            offered=offered,
            rewards=rewards,
            state=state,
            valid=VALID[interval],
        )


def _largest_inverse(log: DecisionLog) -> float:
    smallest = 1.0
    columns = ("probabilities",) if "probabilities" in log.columns else ()
    for rounds in Reader(columns=columns).read(log):
        known = rounds.probability if rounds.logged is None else rounds.logged[rounds.logged > 0]
        smallest = min(smallest, float(known.min()), float(rounds.probability.min()))
    return 1.0 / smallest
