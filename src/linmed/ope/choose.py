"""Choose among policies: each one's value and the difference of every pair, in one pass over a log."""

import itertools
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from linmed import validation
from linmed.log import DecisionLog
from linmed.ope.evaluate import Judged, Progress, judge, one_estimator
from linmed.ope.intervals import warn
from linmed.ope.learning import learn_from
from linmed.ope.lists import as_lists, contest
from linmed.ope.log_facts import Log, as_log
from linmed.ope.plan import Recent
from linmed.ope.targets import Target, as_target, check_names
from linmed.policies.base import Policy, State
from linmed.question import CONFIDENCE, Models, Question, ask, asks
from linmed.report import html
from linmed.report.tables import Table
from linmed.validation import BadType, BadValue

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = tuple[float, float, float, int, float]
"""estimate, lower, upper, n, effective_n."""
Gains = dict[tuple[int, int], tuple[float, float, float]]
"""How much more i earns than j: estimate, lower, upper."""
FORECAST = 100
"""Decisions from which on a forecast is ventured."""


def decisions_to_go(estimate: float, lower: float, upper: float, n: int) -> int | None:
    """How many more decisions until `lower` is likely above zero, if `estimate` is true; None if that is not.

    Half an interval's width falls like 1/√n: n grows by the square of the factor by which it must fall.
    """
    estimate = min(estimate, upper)
    if n < FORECAST or not estimate > 0.0 or math.isnan(lower):
        return None
    return max(0, math.ceil(n * (((estimate - lower) / estimate) ** 2 - 1.0)))


def brief(count: int) -> int:
    """Round to two digits: a forecast knows no more."""
    return int(round(count, 2 - len(str(count))))


TRAIN = 0.5
GAINS = ("candidate", "estimate", "lower", "upper", "possible")


@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """Who leads, who is left, and how long a verdict may take.

    >>> from linmed.ope import DecisionLog, choose
    >>> played = {"arm": [0, 1] * 80, "probability": [0.5] * 160, "reward": [0.0, 0.0, 0.4, 0.8] * 40}
    >>> choice = choose(DecisionLog.from_table(played), ["arm:0", "arm:1"])
    >>> choice.decided, choice.leader, choice.left
    (False, 'arm 1', ['arm 0', 'arm 1'])
    >>> choice.forecast.partition(" about ")[0]
    'a verdict is likely after'
    """

    leader: str
    """The candidate with the highest estimate among those left."""
    left: list[str]
    """Candidates that may still be the best."""
    dropped: dict[str, str]
    """Who was dropped, and a candidate that surely earns more."""
    refuted: list[str]
    """Candidates whose weights prove probabilities wrong: neither left nor dropped, since nobody can tell."""
    more: int | None
    """How many more decisions a verdict is likely to take, if the estimates are true and as large a share of
    them judges; None if nobody can tell."""
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
        """Whether one candidate is left, and all others were dropped."""
        return len(self.left) == 1 and not self.refuted

    def __repr__(self) -> str:
        size, so_far = self.table.num_rows, f"after {self.decisions:,} decisions"
        if self.decided and self.dropped:
            return f"{self.leader} is the best of {size} {so_far} (confidence {100 * self.confidence:.6g} %)"
        if self.decided:
            return f"{self.leader} is the only candidate"
        said = [f"{len(self.left)} of {size} {'is' if len(self.left) == 1 else 'are'} left"]
        said += [f"{listed(self.refuted)} cannot be judged"] if self.refuted else []
        said += [self.forecast] if len(self.left) > 1 else []
        return f"{self.leader} leads {so_far}: {'; '.join(said)}"

    def _repr_html_(self) -> str:
        return html.paragraph(repr(self)) + self.table._repr_html_()

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw what each candidate earns per decision, with its interval. Returns the axes."""
        return self.table.plot(ax)

    @property
    def forecast(self) -> str:
        """How long a verdict may take, in words."""
        if self.more is not None:
            return f"a verdict is likely after about {brief(self.more):,} more, if the estimates are true"
        alike = [row["candidate"] for row in self.gains.to_pylist() if row["lower"] == row["upper"] == 0.0]
        if alike:
            return f"no verdict will come, {listed([self.leader, *alike])} did the same in every decision"
        return "no telling when a verdict will come, the estimates of its rivals are as high"


@asks()
def choose(
    log: Log,
    candidates: Any,
    confidence: float = CONFIDENCE,
    *,
    estimator: Any = "ipw",
    reward_range: tuple[float, float] | None = None,
    train: float = TRAIN,
    progress: Progress | None = None,
    executor: Executor | None = None,
    **options: Unpack[Models],
) -> Choice:
    """Tell which candidate earns most. The best one is dropped with probability at most 1 − confidence, ever.

    `candidates`: targets as `evaluate` takes them, and policies (`LinMED(sigma=0.5)`), which learn from the
    first `train` of the log in its order; then all are judged on the rest, which none of them has seen.
    `train` is a share of the log, or a whole number of decisions. Who asks again as the log grows must give
    the number: a share would grow too, and policies that keep learning are other candidates at every look.

    Every candidate has a betting sequence of its own and one of its difference to every other. Half of the
    error probability is divided among the first, half among the second, so all hold at every n at once. A
    candidate is dropped when another's lower bound is above its upper one, or their difference surely above
    zero. So a log may be asked every day, and the question closed when one candidate is left. What is
    compared is the average value so far. `estimator` is "ipw" or "dr".

    >>> from linmed.ope import DecisionLog
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> choose(DecisionLog.from_table(played), ["arm:0", "arm:1"])
    arm 1 is the best of 2 after 200 decisions (confidence 95 %)
    """
    question = ask(choose, confidence=confidence, reward_range=reward_range, **options)
    if (lists := as_lists(log, question)) is not None:
        with _blaming_candidates():
            names, rows, apart = contest(lists, question, candidates, estimator)
        return _choice(names, rows, [], apart, 0, confidence, 1.0)
    log = as_log(log, question)
    with _blaming_candidates():
        judging, found, trained = _taught(log, _named(candidates), _share(train), question)
        size = len(found)
        pairs = list(itertools.combinations(range(size), 2))
        error = 1.0 - confidence
        own = error / (2 * size) if pairs else error
        plan = one_estimator(question, judging, found, estimator, paired=True, confidence=1.0 - own)
        pair_confidence = 1.0 - error / (2 * max(len(pairs), 1))
        part = Recent(judging, None)
        judged = judge(plan, part, pairs, pair_confidence, progress=progress, executor=executor)
    for doubt in judged.doubts():
        warn(doubt)
    seen = judged.reading
    judges = seen.rewarded / (seen.rewarded + seen.waiting) if question.missing == "skip" else 1.0
    if trained and isinstance(_share(train), float):
        judges *= 1.0 - train
    return _choice(*_judged(judged), trained, confidence, judges)


@contextmanager
def _blaming_candidates() -> Iterator[None]:
    """Candidates are targets, and policies to be taught: what is wrong with one is said of `candidates`."""
    try:
        yield
    except (BadValue, BadType) as error:
        if error.field not in ("targets", "policy"):
            raise
        raise type(error)("candidates", f"candidates: {error}") from None


def _named(candidates: Any) -> dict[str, Policy | Target]:
    """The candidates by name: policies that are to learn, and targets."""
    frozen = isinstance(candidates, tuple) and len(candidates) == 2 and isinstance(candidates[1], State)
    if isinstance(candidates, Mapping):
        pairs = [(str(name), one) for name, one in candidates.items()]
        found = [(name, one if isinstance(one, Policy) else as_target(one, name)) for name, one in pairs]
    else:
        one = frozen or isinstance(candidates, str) or not isinstance(candidates, Sequence)
        several = [candidates] if one else candidates
        made = [one if isinstance(one, Policy) else as_target(one) for one in several]
        found = [(one.name, one) for one in made]
    check_names("candidates", [name for name, _ in found])
    return dict(found)


def _share(train: Any) -> float | int:
    """A share of the log as a float, a number of decisions as an int."""
    if isinstance(train, numbers.Integral):
        return validation.whole("train", train)
    return validation.strictly_between("train", train, 0.0, 1.0)


def _taught(
    log: DecisionLog,
    candidates: Mapping[str, Policy | Target],
    train: float | int,
    question: Question,
) -> tuple[DecisionLog, list[Target], int]:
    """The part of the log that judges, the candidates as targets, and how many decisions taught them."""
    if not any(isinstance(one, Policy) for one in candidates.values()):
        return log, [one for one in candidates.values() if isinstance(one, Target)], 0
    size = len(log)
    taken = train if isinstance(train, int) else round(train * size)
    if not 0 < taken < size:
        raise BadValue(
            "train",
            f"train must leave decisions to learn from and others to judge by: {log.name} has {size:,}, and "
            f"train={train:g} would take {taken:,}",
        )
    first, rest = log[:taken], log[taken:size]
    # Rewards missing in the part that teaches are nobody's: only a number for them is taken over.
    known = "skip" if isinstance(question.missing, str) else question.missing
    return rest, [
        as_target(learn_from(first, one, seed=0, missing=known, mature=question.mature), name)
        if isinstance(one, Policy)
        else one
        for name, one in candidates.items()
    ], taken  # fmt: skip


def _judged(judged: Judged) -> tuple[list[str], list[Row], list[int], Gains]:
    """The names of targets, what is known of each, those without a verdict, and the gains of each pair."""
    names = [target.name for target in judged.plan.targets]
    found = [next(tally.rows(name)) for name, tally in zip(names, judged.tallies, strict=True)]
    rows = [(tally.level, *row[3:7]) for row, tally in zip(found, judged.tallies, strict=True)]
    size = len(names)
    gains = {(i, j): judged.gain(i, j) for i in range(size) for j in range(size) if i != j}
    return names, rows, [i for i in range(size) if judged.refuted(i)], gains


def _choice(
    names: list[str],
    rows: list[Row],
    refuted: list[int],
    gains: Gains,
    trained: int,
    confidence: float,
    judges: float,
) -> Choice:
    """The verdict; `judges` is the share of the log's decisions that do."""
    usable = [i for i in range(len(names)) if i not in refuted]

    def better(i: int, j: int) -> bool:
        """Whether i surely earns more than j: by their difference, or by their own intervals."""
        return gains[i, j][1] > 0.0 or rows[i][1] > rows[j][2]

    winners = {i: [j for j in usable if j != i and better(j, i)] for i in usable}
    left = [i for i in usable if not winners[i]]
    if not left:
        reason = "each candidate surely earns less than another" if usable else "no candidate can be judged"
        raise BadValue("log", f"log must have true probabilities, and with these {reason}")

    def estimate(i: int) -> float:
        return rows[i][0]

    leader = max(left, key=estimate)
    n = rows[leader][3]
    ahead = {i: gains[leader, i] for i in range(len(names)) if i != leader}
    waits = [decisions_to_go(*ahead[i], n) for i in left if i != leader]
    unknown = any(wait is None for wait in waits)
    apart = [(names[i], *gain, i in left) for i, gain in ahead.items()]
    columns = ("candidate", "estimate", "lower", "upper", "n", "effective_n", "possible")
    return Choice(
        leader=names[leader],
        left=[names[i] for i in left],
        dropped={names[i]: names[max(won, key=estimate)] for i, won in winners.items() if won},
        refuted=[names[i] for i in refuted],
        more=None if unknown else math.ceil(max((wait or 0 for wait in waits), default=0) / judges),
        decisions=n,
        trained_on=trained,
        confidence=confidence,
        table=_table(columns, [(names[i], *row, i in left) for i, row in enumerate(rows)]),
        gains=_table(GAINS, apart),
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    return Table({name: [row[i] for row in rows] for i, name in enumerate(columns)})


def listed(names: Sequence[str]) -> str:
    """Join names in a sentence: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
