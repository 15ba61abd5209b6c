"""`Replay`: what a *learning* policy would have earned, by rejection sampling from a randomised log."""

import dataclasses
import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from scipy.special import betaln, xlog1py

from linmed import validation
from linmed.decider import Decider
from linmed.log import DecisionLog
from linmed.ope.intervals import warn
from linmed.ope.log_facts import Log, as_log, holds, require
from linmed.ope.scan import Mask, Reader, Reading, Rounds, possible_rewards
from linmed.ope.sequences import ValueSequence, value_sides
from linmed.ope.targets import log_law
from linmed.ope.warnings import of_log, of_waiting
from linmed.policies.base import Policy, State, as_policy
from linmed.question import CONFIDENCE, MISSING
from linmed.streams import bits, stream
from linmed.validation import BadValue, Floats, Ints

ROUNDING = 1e-9
"""Probabilities that differ by no more than this may be the same."""
REFUSED = math.log(1000.0)
"""Evidence against a log beyond which it is not replayed."""


@dataclass(frozen=True, eq=False, repr=False)
class ReplayResult:
    """What the policy earned on the decisions it accepted.

    >>> from linmed.ope import DecisionLog, Replay
    >>> from linmed.policies import LinMED
    >>> played = {"arm": [0, 1] * 200, "probability": [0.5] * 400, "reward": [0.0, 1.0] * 200}
    >>> log = DecisionLog.from_table(played | {"arms": [[[1.0, 0.0], [0.0, 1.0]]] * 400})
    >>> result = Replay(LinMED(sigma=0.5), bound=2).run(log)
    >>> result.offered, result.accepted == len(result.rewards) == int(result.state.count[0])
    (400, True)
    """

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

    A log in which the policy would play what could not be played is refused: by its row where the log has
    every arm's probability, otherwise once too few decisions are accepted. So is one whose probabilities
    are wrong, once too few or too many are.

    >>> from linmed.ope import DecisionLog, Replay
    >>> from linmed.policies import LinMED
    >>> played = {"arm": [0, 1] * 200, "probability": [0.5] * 400, "reward": [0.0, 1.0] * 200}
    >>> log = DecisionLog.from_table(played | {"arms": [[[1.0, 0.0], [0.0, 1.0]]] * 400})
    >>> result = Replay(LinMED(sigma=0.5), bound=2).run(log)
    >>> result.estimate > 0.8, result.accepted > 100
    (True, True)
    """

    def __init__(self, policy: Policy, bound: float | None = None, seed: int = 0):
        self.policy = as_policy(policy)
        self.bound = None if bound is None else validation.positive("bound", bound)
        if self.bound is not None and self.bound < 1.0:
            raise BadValue(
                "bound", f"bound must be at least 1: some arm has q ≥ p, whatever the policy; got {bound!r}"
            )
        self.seed = validation.whole("seed", seed, at_least=0)

    def run(
        self,
        log: Log,
        *,
        confidence: float = CONFIDENCE,
        reward_range: tuple[float, float] | None = None,
        missing: str | float = MISSING,
        mature: float | timedelta | None = None,
    ) -> ReplayResult:
        """Play the log through; the arguments are those of `evaluate`, the interval is "betting".

        `bound` M defaults to the largest 1/p in the log, at the cost of a pass. If only the played arms'
        probabilities were logged, that largest value depends a little on the draws: give the bound where it
        is known (K for a uniform log).
        """
        validation.strictly_between("confidence", confidence, 0.0, 1.0)
        possible = possible_rewards(reward_range, needed=True)
        assert possible is not None
        low, high, _ = possible
        log = as_log(log)
        require(log, ["arms"], "replay", "log")
        known = ("probabilities",) if holds(log, "probabilities") else ()
        reader = Reader(columns=("arms", *known), possible=possible, missing=missing, mature=mature)
        reader = reader.settled(log)
        # What the policy has to expect changes as it learns: the average so far, as under drift.
        bounds = ValueSequence(confidence, (low, high))
        if self.bound is None:
            bound = _largest_inverse(log, dataclasses.replace(reader, columns=known, possible=None))
        else:
            bound = self.bound
        random = stream(self.seed, "replay")
        player: _Player | None = None
        offered, accepted = 0, 0
        kept: list[Floats] = []
        reading = Reading()
        for rounds in reader.scan(log, reading):
            assert rounds.arms is not None
            player = player or _Player(self.policy, rounds.arms.shape[1], bound)
            took = player.play(rounds, random.random(len(rounds)))
            _require_credible(log, bound, accepted, offered, took, bool(known), reading.waiting > 0)
            offered, accepted = offered + len(rounds), accepted + int(took.sum())
            kept.append(rounds.reward[took])
        reading.finish(log, possible)
        for wrong in of_log(reading, log):
            raise BadValue("log", wrong)
        assert player is not None
        if not accepted:
            reason = f"the log is too short for bound={bound:g}"
            raise BadValue("bound", f"none of the {offered} decisions was accepted: {reason}")
        for doubt in of_waiting(missing, reading, log):
            warn(doubt)
        rewards = np.concatenate(kept)
        unit = (rewards - low) / (high - low)
        bounds.add(rewards, *value_sides(np.ones(accepted), unit))
        lower, upper = bounds.bounds
        return ReplayResult(
            estimate=float(rewards.mean()),
            lower=lower,
            upper=upper,
            accepted=accepted,
            offered=offered,
            rewards=rewards,
            state=player.state,
        )


class _Player:
    """The policy, which learns from what it accepts."""

    def __init__(self, policy: Policy, dim: int, bound: float):
        self.policy, self.bound = policy, bound
        self._decider = Decider(policy, dim, bits(0, "replay"))  # nothing is drawn from it
        self.state = self._decider.state
        self._asked: tuple[Any, bytes] | None = None
        self._answer = np.empty(0)

    def play(self, rounds: Rounds, uniform: Floats) -> Mask:
        """Which decisions are accepted, (n,); the policy has learned from them.  uniform (n,) in [0, 1)."""
        assert rounds.arms is not None
        logged = rounds.logged
        took = np.zeros(len(rounds), dtype=bool)
        most = 1.0 / (self.bound * rounds.probability)
        scarce = self._scarce(rounds)
        offsets, arm = rounds.offsets, rounds.arm
        # As q ≤ 1, a draw of at least `most` is a rejection whatever the policy thinks.
        for i in np.flatnonzero((uniform < most) | scarce).tolist():
            begin, end, played = int(offsets[i]), int(offsets[i + 1]), int(arm[i])
            arms = rounds.arms[begin:end]
            log_q = self._law(arms, int(rounds.row[i]))
            if scarce[i] and logged is not None:
                self._require_support(np.exp(log_q), logged[begin:end], int(rounds.row[i]))
            accept = math.exp(log_q[played]) * most[i]
            if accept > 1.0 + ROUNDING:
                self._too_small(int(rounds.row[i]), accept * self.bound)
            if uniform[i] < accept:
                took[i] = True
                self._learn(arms, played, rounds.reward.item(i))
        return took

    def _scarce(self, rounds: Rounds) -> Mask:
        """Where some arm's logged probability is so small that the policy may exceed M times it."""
        if rounds.logged is None:
            return np.zeros(len(rounds), dtype=bool)
        few = self.bound * rounds.logged < 1.0 - ROUNDING
        return np.logical_or.reduceat(few, rounds.offsets[:-1])

    def _require_support(self, q: Floats, p: Floats, row: int) -> None:
        """Raise where accepting could not make the policy's law q (K,) out of the logged p (K,)."""
        lost = float(q[p <= 0.0].sum())
        if lost > ROUNDING:
            raise BadValue(
                "log",
                f"row {row} gives {self.policy.name} no chance to play what it would: {lost:.3g} of its "
                "probability lies on arms whose logged probability is 0, and no rejection makes up for that; "
                "replay needs a log in which every arm that the policy may play could be played",
            )
        most = np.argmax(q - self.bound * p)
        if q[most] - self.bound * p[most] > ROUNDING:
            self._too_small(row, float(q[most] / p[most]))

    def _too_small(self, row: int, needed: float) -> None:
        raise BadValue("bound", f"bound={self.bound:g} is too small: row {row} needs at least {needed:g}")

    def _law(self, arms: Floats, row: int) -> Floats:
        """The log-probability of every arm (K,). It may take milliseconds: asked once until it changes."""
        if (same := (arms.shape, arms.tobytes())) != self._asked:
            self._asked, self._answer = same, self._ask(arms, row)
        return self._answer

    def _ask(self, arms: Floats, row: int) -> Floats:
        if not self.policy.law_in_core:  # what a policy of one's own says is checked
            answer: Floats = log_law(self.policy, self.state, arms[None], "policy")[0]
            return answer
        try:
            return self._decider.log_probabilities(arms)
        except BadValue:
            text = f"arms must be at most {validation.LARGEST:g} in size, row {row} has larger ones"
            raise BadValue("log", text) from None

    def _learn(self, arms: Floats, arm: int, reward: float) -> None:
        self._asked = None
        if self.policy.learns_from_arms:
            self._decider.learn(arms[arm].tobytes(), reward)
        else:
            features = self.policy.features(self.state, arms[None], np.array([arm]))
            self._decider.learn(features.tobytes(), reward)


def _require_credible(
    log: DecisionLog, bound: float, accepted: int, offered: int, took: Mask, known: bool, waiting: bool
) -> None:
    """Raise if no log with true probabilities and full support accepts as this one does."""
    offers, hits = offered + np.arange(1, took.size + 1), accepted + np.cumsum(took)
    doubtful = np.flatnonzero(log_evidence(hits, offers, bound) >= REFUSED)
    if not doubtful.size:
        return
    n, s = int(offers[doubtful[0]]), int(hits[doubtful[0]])
    reasons = "probabilities in the log are wrong"
    if waiting:
        reasons += ", or the rewards of some arms come later than those of others"
    if not known and s < n / bound:
        reasons += (
            ", or the policy plays arms that could not be logged (with every arm's probability in the log "
            "the row would be named), or so rarely that bound is too small for them"
        )
    raise BadValue(
        "log",
        f"{s} of the first {n} decisions of {log.name} were accepted where {n / bound:.1f} are expected, one "
        f"in bound={bound:g} (beyond chance, 1000 to 1): {reasons}",
    )


def log_evidence(accepted: Ints, offered: Ints, bound: float) -> Floats:
    """log E_n,  E_n = ∫ θ^S (1 − θ)^{n−S} dBeta(½, ½)(θ) / (M^{−S} (1 − 1/M)^{n−S}) for S of n accepted.

    True probabilities and full support accept every decision with probability Σ_a p(a) q(a)/(M p(a)) = 1/M,
    whatever came before. E_n is then a martingale from 1 on, and P(E_n ≥ 1000 for some n) ≤ 1/1000 (Ville).
    """
    rejected = offered - accepted
    mixture = betaln(accepted + 0.5, rejected + 0.5) - betaln(0.5, 0.5)
    evidence: Floats = mixture + accepted * math.log(bound) - xlog1py(rejected, -1.0 / bound)
    return evidence


def _largest_inverse(log: DecisionLog, reader: Reader) -> float:
    smallest = 1.0
    for rounds in reader.read(log):
        known = rounds.probability if rounds.logged is None else rounds.logged[rounds.logged > 0]
        smallest = min(smallest, float(known.min()), float(rounds.probability.min()))
    return 1.0 / smallest
