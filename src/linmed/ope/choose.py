"""`choose`: which of several policies shall I run? A verdict that may be asked for every day."""

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from linmed import checks
from linmed.checks import BadValue
from linmed.log import DecisionLog
from linmed.ope.contest import Contest, decisions_to_go, hold
from linmed.ope.evaluate import Progress, doubts, one_estimator
from linmed.ope.intervals import warn
from linmed.ope.learn import learn_from
from linmed.ope.reader import Reading
from linmed.ope.request import CONFIDENCE, MISSING, Log, as_log
from linmed.ope.targets import as_target, as_targets
from linmed.policies.base import Policy
from linmed.tables import Table


@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """Who leads, who is left, and how long a verdict may take."""

    leader: str
    """The candidate with the highest estimate among those left."""
    left: list[str]
    """Candidates that may still be the best."""
    dropped: dict[str, str]
    """Who was dropped, and the candidate that surely earns more."""
    more: int | None
    """How many more decisions a verdict is likely to take if the estimates are true; None if nobody can tell."""
    decisions: int
    """Decisions that judged."""
    trained_on: int
    """Decisions before them, from which candidates that learn have learned."""
    confidence: float
    table: Table
    """candidate, estimate, lower, upper, n, effective_n, left."""
    gains: Table
    """What the leader earns more than each other candidate: candidate, estimate, lower, upper, left."""

    @property
    def decided(self) -> bool:
        """Whether one candidate is left."""
        return len(self.left) == 1

    def __repr__(self) -> str:
        field = f"{len(self.left)} of {self.table.num_rows} are left"
        if self.decided:
            field = "it is the best" if self.dropped else "it is the only one"
        wait = "" if self.decided else f"; {self.forecast}"
        return f"{self.leader} leads after {self.decisions:,} decisions: {field}{wait}"

    @property
    def forecast(self) -> str:
        """How long a verdict may take, in words."""
        if self.more is None:
            return "no telling when a verdict will come: its rivals' estimates are as high"
        return f"a verdict is likely after about {self.more:,} more, if the estimates are true"


def choose(
    log: Log,
    candidates: Any,
    confidence: float = CONFIDENCE,
    *,
    estimator: Any = "ipw",
    reward_range: tuple[float, float] | None = None,
    regressor: Any = None,
    train: float = 0.5,
    missing: str | float = MISSING,
    mature: float | timedelta | None = None,
    drift: bool | None = None,
    smallest_probability: float | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Choice:
    """Which candidate earns most? The best one is dropped with probability at most 1 − confidence, ever.

    `candidates`: targets as `evaluate` takes them, and policies (`LinMED(sigma=0.5)`), which learn from the first
    `train` of the log in its order; then all are judged on the rest, which none of them has seen.

    Every candidate has a betting sequence of its own and one of its difference to every other. Half of the error
    probability is divided among the first, half among the second, so all of them hold at every n at once. A
    candidate is dropped when another's lower bound is above its upper one, or their difference surely above zero.
    So a log may be asked every day, and the question dropped when one candidate is left. What is compared is the
    average value so far; with `drift=False` the best bounds so far count. `estimator` is "ipw" or "dr".
    """
    log = as_log(log)
    checks.strictly_between("confidence", confidence, 0.0, 1.0)
    judging, found, trained = _prepared(log, candidates, train, missing, mature)
    size = len(found)
    pairs = list(itertools.combinations(range(size), 2))
    error = 1.0 - confidence
    own = error / (2 * size) if pairs else error
    request = one_estimator(
        judging, found, estimator, "betting", paired=True, confidence=1.0 - own, reward_range=reward_range,
        regressor=regressor, missing=missing, mature=mature, drift=drift,
        smallest_probability=smallest_probability,
    )  # fmt: skip
    reading = Reading()
    pair_confidence = 1.0 - error / (2 * max(len(pairs), 1))
    contest = hold(request, judging, reading, pairs, pair_confidence, progress, executor)
    reading.finish(judging, request.possible)
    for doubt in doubts(request, reading, judging, contest.tallies):
        warn(doubt)
    return _choice([target.name for target in request.targets], contest, trained, confidence)


def _prepared(
    log: DecisionLog, candidates: Any, train: float, missing: str | float, mature: float | timedelta | None
) -> tuple[DecisionLog, Any, int]:
    """The part of the log that judges, the candidates as targets, and how many decisions taught them."""
    if isinstance(candidates, Policy):
        candidates = [candidates]
    if isinstance(candidates, Mapping):
        named = {str(name): one for name, one in candidates.items()}
    elif isinstance(candidates, Sequence) and any(isinstance(one, Policy) for one in candidates):
        names = [one.name if isinstance(one, Policy) else as_target(one).name for one in candidates]
        named = dict(zip(names, candidates, strict=True))
        if len(named) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise BadValue(
                "candidates",
                f"candidates need distinct names, {twice!r} occurs twice; give them as a mapping",
            )
    else:
        return log, _targets(candidates), 0
    if not any(isinstance(one, Policy) for one in named.values()):
        return log, _targets(named), 0
    share = checks.strictly_between("train", train, 0.0, 1.0)
    first, rest = log.split(share)
    # Rewards missing in the part that teaches are nobody's: only a number for them is taken over.
    known = "skip" if isinstance(missing, str) else missing
    taught = {
        name: learn_from(first, one, seed=0, missing=known, mature=mature) if isinstance(one, Policy) else one
        for name, one in named.items()
    }
    return rest, _targets(taught), len(first)


def _targets(candidates: Any) -> Any:
    try:
        return as_targets(candidates)
    except (BadValue, checks.BadType) as error:
        raise type(error)("candidates", str(error)) from None


def _choice(names: list[str], contest: Contest, trained: int, confidence: float) -> Choice:
    size = len(names)
    tallies = contest.tallies
    rows = [next(tally.rows(name)) for name, tally in zip(names, tallies, strict=True)]
    dropped: dict[str, str] = {}
    usable = [i for i in range(size) if not contest.refuted(i)]
    for i in usable:
        winners = [j for j in usable if j != i and contest.better(j, i)]
        if winners:
            dropped[names[i]] = names[max(winners, key=lambda j: rows[j][2])]
    left = [i for i in usable if names[i] not in dropped]
    if not left:
        raise BadValue(
            "log", f"no candidate can be judged: the probabilities of {names[0]!r} and all others are wrong"
        )
    leader = max(left, key=lambda i: rows[i][2])
    others = [i for i in range(size) if i != leader]
    gains = {i: contest.gain(leader, i) for i in others}
    n = rows[leader][5]
    waits = [decisions_to_go(*gains[i][:2], n) for i in left if i != leader]
    more = None if any(wait is None for wait in waits) else max((wait or 0 for wait in waits), default=0)
    columns = ("candidate", "estimate", "lower", "upper", "n", "effective_n", "left")
    cells = [(row[0], *row[2:7], row[0] not in dropped) for row in rows]
    apart = [(names[i], *gains[i], names[i] not in dropped) for i in others]
    blank: list[Any] = [[] for _ in range(5)]
    return Choice(
        leader=names[leader],
        left=[names[i] for i in left],
        dropped=dropped,
        more=more,
        decisions=n,
        trained_on=trained,
        confidence=confidence,
        table=Table(dict(zip(columns, map(list, zip(*cells, strict=True)), strict=True))),
        gains=Table(
            dict(
                zip(
                    ("candidate", "estimate", "lower", "upper", "left"),
                    map(list, zip(*apart, strict=True)) if apart else blank,
                    strict=True,
                )
            )
        ),
    )
