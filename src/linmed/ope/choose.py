"""Choose among policies: each one's value and the difference of every pair, in one pass over a log."""

import dataclasses
import itertools
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from linmed import validation
from linmed.log import DecisionLog
from linmed.ope.evaluate import Judged, Progress, judge, one_estimator
from linmed.ope.intervals import warn
from linmed.ope.learning import learn_from
from linmed.ope.list_estimators import as_lists, contest
from linmed.ope.log_facts import Log, as_log, with_outcome
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


class Guardrail(NamedTuple):
    """Say what a candidate must not lose: how much of an outcome, against whom.

    >>> from linmed.ope import Guardrail
    >>> print(Guardrail("complaint", "<=", "logged", 0.005))
    complaint ≤ logged + 0.005
    """

    outcome: str
    sign: str
    """"<=" where less of the outcome is better, ">=" where more is."""
    baseline: Any
    """The target that candidates are compared with; or a number with a point, an absolute limit."""
    slack: float = 0.0
    """By how much a candidate may be worse."""

    def __str__(self) -> str:
        name = f"{self.baseline:g}" if isinstance(self.baseline, float) else as_target(self.baseline).name
        more = f" {'−' if self.sign == '>=' else '+'} {self.slack:g}" if self.slack else ""
        return f"{self.outcome} {'≥' if self.sign == '>=' else '≤'} {name}{more}"

    def verdict(self, lower: float, upper: float) -> str:
        """Say what is certain of a candidate whose outcome exceeds the baseline's by so much."""
        low, high = (lower, upper) if self.sign == "<=" else (0.0 - upper, 0.0 - lower)
        return SAFE if high <= self.slack else UNSAFE if low > self.slack else UNKNOWN


SAFE, UNSAFE, UNKNOWN = "safe", "unsafe", "not yet known"
TRAIN = 0.5
RAILS = ("candidate", "guardrail", "estimate", "lower", "upper", "verdict")
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

    leader: str | None
    """The candidate left with the highest estimate, of those that surely keep all guardrails; or None."""
    left: list[str]
    """Candidates that may still be the best of those that keep all guardrails."""
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
    """candidate, estimate, lower, upper, n, effective_n, possible, and verdict where there are guardrails."""
    gains: Table
    """What the leader earns more than each other candidate: candidate, estimate, lower, upper, left."""
    verdicts: dict[str, str] = field(default_factory=dict)
    """Whether each candidate keeps all guardrails: "safe", "unsafe" or "not yet known"; empty without any."""
    guardrails: Table | None = None
    """How much more of its outcome there is: candidate, guardrail, estimate, lower, upper, verdict."""

    @property
    def decided(self) -> bool:
        """Whether one candidate is left, and all others were dropped."""
        return len(self.left) == 1 and self.leader is not None and not self.refuted

    def __repr__(self) -> str:
        size, so_far = self.table.num_rows, f"after {self.decisions:,} decisions"
        unsafe, unknown = self._of(UNSAFE), self._of(UNKNOWN)
        kept = [f"{listed(unsafe)} {'is' if len(unsafe) == 1 else 'are'} {UNSAFE}"] if unsafe else []
        if self.decided:
            best = f"the best of {size} {so_far} (confidence {100 * self.confidence:.6g} %)"
            safe = [f"it is {SAFE}"] if self.verdicts else []
            return "; ".join([f"{self.leader} is {best if size > 1 else 'the only candidate'}", *safe, *kept])
        said = [f"{len(self.left)} of {size} {'is' if len(self.left) == 1 else 'are'} left", *kept]
        word = "is" if len(unknown) == 1 else "are"
        said += [f"whether {listed(unknown)} {word} {SAFE} is {UNKNOWN}"] if unknown else []
        said += [f"{listed(self.refuted)} cannot be judged"] if self.refuted else []
        said += [self.forecast] if len(self.left) > 1 or (self.left and self.leader is None) else []
        none = f"no candidate is {'known to be ' * bool(self.left)}{SAFE}"
        leads = none if self.leader is None else f"{self.leader} leads"
        return f"{leads} {so_far}: {'; '.join(said)}"

    def _of(self, verdict: str) -> list[str]:
        return [name for name, said in self.verdicts.items() if said == verdict and name not in self.refuted]

    def _repr_html_(self) -> str:
        tables = [self.table] if self.guardrails is None else [self.table, self.guardrails]
        return html.paragraph(repr(self)) + "".join(table._repr_html_() for table in tables)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw what each candidate earns per decision, with its interval. Returns the axes."""
        return self.table.plot(ax)

    @property
    def forecast(self) -> str:
        """How long a verdict may take, in words."""
        if self.more is not None:
            return f"a verdict is likely after about {brief(self.more):,} more, if the estimates are true"
        alike = [row["candidate"] for row in self.gains.to_pylist() if row["lower"] == row["upper"] == 0.0]
        if self.leader is None:
            return "no telling when a verdict will come"
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
    subject_to: Sequence[tuple[Any, ...]] = (),
    outcome_ranges: Mapping[str, tuple[float, float]] | None = None,
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

    `subject_to`: guardrails on outcomes that came back with the reward, as `("complaint", "<=", "logged",
    0.005)`: complaints may exceed those of the target "logged" by 0.005; see `Guardrail`. A candidate is
    "safe" or "unsafe" once that is certain of all guardrails, and until then "not yet known"; the leader is
    the best of the safe ones. Half of the error probability is then that of the rewards, and half is divided
    among guardrails and candidates (a union bound): everything that is said holds at once, and at every n.
    An outcome lies in [0, 1] unless `outcome_ranges` says otherwise, as `{"margin": (-5, 20)}`.

    >>> from linmed.ope import DecisionLog
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> choose(DecisionLog.from_table(played), ["arm:0", "arm:1"])
    arm 1 is the best of 2 after 200 decisions (confidence 95 %)
    """
    question = ask(choose, confidence=confidence, reward_range=reward_range, **options)
    rails, ranges = _guardrails(subject_to), dict(outcome_ranges or {})
    if unknown := ranges.keys() - {rail.outcome for rail in rails}:
        text = f"outcome_ranges must name outcomes of subject_to, got {min(unknown, key=str)!r}"
        raise BadValue("outcome_ranges", text)
    if (lists := as_lists(log, question)) is not None:
        if rails:
            raise BadValue("subject_to", "subject_to is not for logs of lists: leave it out")
        with _blaming_candidates():
            names, rows, apart = contest(lists, question, candidates, estimator)
        return _choice(names, rows, [], apart, 0, confidence, 1.0)
    log = as_log(log, question)
    with _blaming_candidates():
        judging, found, trained = _taught(log, _named(candidates), _share(train), question)
        size = len(found)
        pairs = list(itertools.combinations(range(size), 2))
        error = (1.0 - confidence) * (0.5 if rails else 1.0)
        own = error / (2 * size) if pairs else error
        plan = one_estimator(question, judging, found, estimator, paired=True, confidence=1.0 - own)
        pair_confidence = 1.0 - error / (2 * max(len(pairs), 1))
        part = Recent(judging, None)
        judged = judge(plan, part, pairs, pair_confidence, progress=progress, executor=executor)
        level = 1.0 - error / max(len(rails) * size, 1)
        work = {"progress": progress, "executor": executor}
        checks = [_excess(rail, question, judging, found, estimator, level, ranges, **work) for rail in rails]
    kept, said = [], judged.doubts()
    for rail, (rows, doubts) in zip(rails, checks, strict=True):
        kept.append((rail, rows))
        said += [f"outcome {rail.outcome!r}: {doubt}" for doubt in doubts]
    for doubt in said:
        warn(doubt)
    seen = judged.reading
    judges = seen.rewarded / (seen.rewarded + seen.waiting) if question.missing == "skip" else 1.0
    if trained and isinstance(_share(train), float):
        judges *= 1.0 - train
    return _choice(*_judged(judged), trained, confidence, judges, kept)


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
    if question.reward is not None:
        raise BadValue(
            "candidates",
            "candidates that are to learn would maximise the reward, and reward='utility' judges by "
            "value · reward − cost: give targets only",
        )
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


def _guardrails(subject_to: Any) -> list[Guardrail]:
    """Check what candidates must keep."""
    if not isinstance(subject_to, Sequence) or isinstance(subject_to, (str, Guardrail)):
        text = "subject_to must be a list of guardrails like [('complaint', '<=', 'logged', 0.005)], got "
        raise BadType("subject_to", f"{text}{subject_to!r}")
    found = []
    for i, given in enumerate(subject_to):
        where = f"subject_to[{i}]"
        if not isinstance(given, tuple) or len(given) not in (3, 4):
            raise BadType(where, f"{where} must be (outcome, '<=' or '>=', baseline, slack), got {given!r}")
        rail = Guardrail(*given)
        validation.text(where, rail.outcome)
        validation.option(where, rail.sign, ("<=", ">="))
        slack = validation.between(where, rail.slack, 0.0, math.inf)
        if isinstance(rail.baseline, float):
            validation.real(where, rail.baseline)
        else:
            try:
                as_target(rail.baseline)
            except (BadValue, BadType) as error:
                raise type(error)(where, f"{where}: {error}") from None
        found.append(rail._replace(slack=slack))
    return found


Excess = tuple[float, float, float]
"""Estimate, lower and upper bound of how much more of an outcome a candidate has than the baseline."""


def _excess(
    rail: Guardrail, question: Question, log: DecisionLog, candidates: Sequence[Target], estimator: Any,
    confidence: float, ranges: Mapping[str, tuple[float, float]], **work: Any,
) -> tuple[list[Excess], list[str]]:  # fmt: skip
    """Bound how much more of a guardrail's outcome each candidate has; with doubts about that."""
    asked = dataclasses.replace(question, reward=None, reward_range=ranges.get(rail.outcome))
    absolute, last = isinstance(rail.baseline, float), len(candidates)
    base = None if absolute else as_target(rail.baseline)
    targets = [*candidates, *([] if base is None else [as_target(base, f"{base.name} (baseline)")])]
    pairs = [] if absolute else [(i, last) for i in range(last)]
    try:
        log = with_outcome(log, rail.outcome)
        plan = one_estimator(asked, log, targets, estimator, paired=True, confidence=confidence)
        found = judge(plan, Recent(log, None), pairs, confidence, bounded=absolute, **work)
    except BadValue as error:
        if error.field == "outcome":
            raise BadValue("subject_to", f"subject_to: {error}") from None
        if error.field != "reward_range":
            raise
        raise BadValue("outcome_ranges", f"outcome_ranges must have {rail.outcome!r}: {error}") from None
    rows: list[Excess] = []
    for i, one in enumerate(candidates):
        if absolute:
            _, _, _, low, high, *_ = next(found.tallies[i].rows(one.name))
            rows.append(tuple(number - rail.baseline for number in (found.tallies[i].level, low, high)))
        else:
            rows.append((0.0, 0.0, 0.0) if one == base else found.gain(i, last))
    return rows, found.doubts()


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
    checks: Sequence[tuple[Guardrail, list[Excess]]] = (),
) -> Choice:
    """The verdict; `judges` is the share of the log's decisions that do."""
    every, n = range(len(names)), rows[0][3]
    usable = [i for i in every if i not in refuted]
    kept = [_together([rail.verdict(*excess[i][1:]) for rail, excess in checks]) for i in every]
    possible = [i for i in usable if kept[i] != UNSAFE]
    safe = [i for i in usable if kept[i] == SAFE]

    def better(i: int, j: int) -> bool:
        """Whether i surely earns more than j: by their difference, or by their own intervals."""
        return gains[i, j][1] > 0.0 or rows[i][1] > rows[j][2]

    winners = {i: [j for j in safe if j != i and better(j, i)] for i in possible}
    left = [i for i in possible if not winners[i]]
    if not left and (possible or not usable):
        reason = "each candidate surely earns less than another" if usable else "no candidate can be judged"
        raise BadValue("log", f"log must have true probabilities, and with these {reason}")

    def estimate(i: int) -> float:
        return rows[i][0]

    leader = max((i for i in left if i in safe), key=estimate, default=None)
    ahead = {} if leader is None else {i: gains[leader, i] for i in every if i != leader}
    waits = [decisions_to_go(*ahead[i], n) for i in left if i in ahead and i in safe]
    for rail, excess in checks:
        waits += [_wait(rail, excess[i], n) for i in left if rail.verdict(*excess[i][1:]) == UNKNOWN]
    unknown = any(wait is None for wait in waits)
    columns: tuple[str, ...] = ("candidate", "estimate", "lower", "upper", "n", "effective_n", "possible")
    values: list[tuple[Any, ...]] = [(names[i], *row, i in left) for i, row in enumerate(rows)]
    if checks:
        columns, values = (*columns, "verdict"), [(*row, kept[i]) for i, row in enumerate(values)]
    guardrails = [
        (names[i], str(rail), *excess[i], rail.verdict(*excess[i][1:]))
        for i in every
        for rail, excess in checks
    ]
    return Choice(
        leader=None if leader is None else names[leader],
        left=[names[i] for i in left],
        dropped={names[i]: names[max(won, key=estimate)] for i, won in winners.items() if won},
        refuted=[names[i] for i in refuted],
        more=None if unknown else math.ceil(max((wait or 0 for wait in waits), default=0) / judges),
        decisions=n,
        trained_on=trained,
        confidence=confidence,
        table=_table(columns, values),
        gains=_table(GAINS, [(names[i], *gain, i in left) for i, gain in ahead.items()]),
        verdicts=dict(zip(names, kept, strict=True)) if checks else {},
        guardrails=_table(RAILS, guardrails) if checks else None,
    )


def _together(verdicts: Sequence[str]) -> str:
    """What is certain of all guardrails."""
    return next((one for one in (UNSAFE, UNKNOWN) if one in verdicts), SAFE)


def _wait(rail: Guardrail, excess: Excess, n: int) -> int | None:
    """How many more decisions until a guardrail's verdict is likely, if the estimate is true."""
    estimate, lower, upper = excess if rail.sign == "<=" else (-excess[0], -excess[2], -excess[1])
    if estimate > rail.slack:
        return decisions_to_go(estimate - rail.slack, lower - rail.slack, upper - rail.slack, n)
    return decisions_to_go(rail.slack - estimate, rail.slack - upper, rail.slack - lower, n)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    return Table({name: [row[i] for row in rows] for i, name in enumerate(columns)})


def listed(names: Sequence[str]) -> str:
    """Join names in a sentence: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
