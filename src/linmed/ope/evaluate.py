"""Estimate targets' values by one pass over a log: `evaluate`, `sequence`, `difference`, and pictures."""

import dataclasses
import json
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Unpack

import numpy as np
import pyarrow as pa

from linmed import validation
from linmed.log import DecisionLog, ParquetSource
from linmed.ope.accumulators import Answer, Contrast, Tally
from linmed.ope.estimators import as_model, predictions
from linmed.ope.intervals import warn
from linmed.ope.list_estimators import as_lists, difference_lists, evaluate_lists, sequence_lists
from linmed.ope.log_facts import Log, as_log, require
from linmed.ope.plan import Plan, Recent, in_words, recent
from linmed.ope.scan import Reading
from linmed.ope.targets import as_target
from linmed.ope.warnings import no_value, no_variation, of_plan, of_result
from linmed.question import CONFIDENCE, INTERVAL, Course, Everything, Question, ask, asks
from linmed.report.estimates_page import Traces, window
from linmed.report.figures import INK, axes, saved, series, shortened, styled
from linmed.report.tables import Table
from linmed.validation import BadValue

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_TEXT, _NUMBER = pa.string(), pa.float64()
RESULT = pa.schema(
    {
        "target": _TEXT, "estimator": _TEXT, "estimate": _NUMBER, "lower": _NUMBER, "upper": _NUMBER,
        "n": pa.int64(), "effective_n": _NUMBER, "valid": _TEXT,
    }
)  # fmt: skip
COMPARABLE = ("betting", "asymptotic", "normal", "none")
"""Intervals that differences have."""

Progress = Callable[[int], object]
Pair = tuple[int, int]
Summary = list[Tally | Contrast]
"""What a part of a log leaves: of every target, then of every pair."""
Found = TypeVar("Found")


@asks()
def evaluate(
    log: Log,
    targets: Any,
    estimators: Any = None,
    interval: str = INTERVAL,
    confidence: float = CONFIDENCE,
    reward_range: tuple[float, float] | None = None,
    *,
    progress: Progress | None = None,
    executor: Executor | None = None,
    **options: Unpack[Everything],
) -> Table:
    """Estimate what each target would have earned per decision, with intervals.

    `log`: a `DecisionLog`, or the path of one; or a `ListLog`, for which targets and estimators are those of
    `linmed.ope.list_estimators`. `targets`: one, a sequence or a {name: target} mapping; see `as_target`.
    `estimators`: the same, of names of `ESTIMATORS` or instances; ipw, snipw and dr unless given, dr only
    where the log and the targets tell of every arm. `options` are those of `Question`.

    A target must not have been chosen or trained on this very log: no interval accounts for that.

    An interval is about the target's value, whichever estimate stands in its row: with "betting", or with
    "adaptive", the biased estimators get the interval of the unbiased form they are made from (that
    of IPW without a reward model, that of DR with one). "adaptive" also replaces IPW's and DR's estimate
    by the stabilised one its interval is centred on.

    `progress` is called with the number of decisions read so far. `executor` (a pool, or
    `dask.distributed.Client(...).get_executor()`) reads the log's files and asks the targets on its workers;
    where order does not matter ("betting", "asymptotic", "normal" or "none", no reward model that learns)
    they also sum up, and send sums.

    Returns one row per target × estimator: target, estimator, estimate, lower, upper, n, effective_n
    ((Σw)²/Σw²), valid ("independent", "adaptive", "asymptotic" or "any time": what the interval
    needs). Every doubt is an `OPEWarning` that names the target. An interval is NaN, and valid "—", where the
    probabilities are proved wrong, where no value is compatible with the log, and where a limit theorem has
    nothing to work on. A target whose weights are all zero has no snipw or sndr; its sequence is the whole
    range.

    >>> from linmed.ope import DecisionLog, evaluate
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> found = evaluate(DecisionLog.from_table(played), ["arm:0", "arm:1"], "ipw")
    >>> [(row["target"], row["estimate"], row["lower"] > 0.5) for row in found.to_pylist()]
    [('arm 0', 0.0, False), ('arm 1', 1.0, True)]
    """
    question = ask(
        evaluate, interval=interval, confidence=confidence, reward_range=reward_range, **options
    )  # fmt: skip
    if (lists := as_lists(log, question)) is not None:
        return evaluate_lists(lists, question, targets, estimators)
    log = as_log(log, question)
    part = recent(log, question)
    plan = Plan.of(question, log, targets, estimators)
    found = judge(plan, part, progress=progress, executor=executor)
    for doubt in found.doubts():
        warn(doubt)
    named = zip(plan.targets, found.tallies, strict=True)
    return table(plan, found.reading, [row for target, tally in named for row in tally.rows(target.name)])


@asks()
def sequence(
    log: Log,
    target: Any,
    estimator: Any = "ipw",
    confidence: float = CONFIDENCE,
    reward_range: tuple[float, float] | None = None,
    *,
    progress: Progress | None = None,
    **options: Unpack[Course],
) -> Table:
    """Follow an estimate and its confidence sequence over time: n, estimate, lower, upper at growing n.

    `estimator` is "ipw" or "dr"; the interval is "betting". The rest is as `evaluate` takes it.

    >>> from linmed.ope import DecisionLog, sequence
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> last = sequence(DecisionLog.from_table(played), "arm:1").to_pylist()[-1]
    >>> last["n"], last["estimate"], last["lower"] > 0.5
    (200, 1.0, True)
    """
    question = ask(sequence, confidence=confidence, reward_range=reward_range, **options)
    if (lists := as_lists(log, question)) is not None:
        return sequence_lists(lists, question, target, estimator)
    log = as_log(log, question)
    plan = one_estimator(question, log, target, estimator)
    found = judge(plan, recent(log, question), trace=True, progress=progress)
    for doubt in found.doubts():
        warn(doubt)
    return found.tallies[0].sequences[plan.estimators[0].form].table()


@asks()
def difference(
    log: Log,
    target: Any,
    baseline: Any,
    estimator: Any = "ipw",
    interval: str = INTERVAL,
    confidence: float = CONFIDENCE,
    reward_range: tuple[float, float] | None = None,
    *,
    progress: Progress | None = None,
    executor: Executor | None = None,
    **options: Unpack[Everything],
) -> Table:
    """Estimate how much more `target` would have earned than `baseline`: one row like `evaluate`'s.

    The two are paired: what both would have done cancels, so equal targets differ by exactly zero and nearby
    ones narrowly. `estimator` is "ipw" or "dr"; the rest is as `evaluate` takes it, without "adaptive".

    >>> from linmed.ope import DecisionLog, difference
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> (row,) = difference(DecisionLog.from_table(played), "arm:1", "arm:0").to_pylist()
    >>> row["target"], row["estimate"], row["lower"] > 0.5
    ('arm 1 − arm 0', 1.0, True)
    """
    validation.option("interval", interval, COMPARABLE)
    question = ask(
        difference, interval=interval, confidence=confidence, reward_range=reward_range, **options
    )  # fmt: skip
    if (lists := as_lists(log, question)) is not None:
        return difference_lists(lists, question, target, baseline, estimator)
    log, one, other = as_log(log, question), as_target(target), as_target(baseline)
    if one.name == other.name:
        other = as_target(other, f"{other.name} (baseline)")
    part = recent(log, question)
    plan = one_estimator(question, log, (one, other), estimator, paired=True)
    found = judge(plan, part, [(0, 1)], bounded=False, progress=progress, executor=executor)
    name, refuted = f"{one.name} − {other.name}", found.refuted(0) or found.refuted(1)
    row = found.contrasts[0, 1].row(name, refuted)
    for doubt in found.doubts():
        warn(doubt)
    if math.isnan(row[3]) and plan.interval != "none" and not refuted:
        empty = plan.interval == "betting"
        warn(no_value(name, found.log, plan) if empty else no_variation(name, plan))
    return table(plan, found.reading, [row])


class Judged(NamedTuple):
    """Hold what one pass over a log found: a tally for each target, a contrast for each pair."""

    plan: Plan
    log: DecisionLog
    reading: Reading
    tallies: list[Tally]
    contrasts: dict[Pair, Contrast]

    def doubts(self) -> list[str]:
        """List the warnings of a result."""
        found = list(of_plan(self.plan, self.reading, self.log))
        for target, tally in zip(self.plan.targets, self.tallies, strict=True):
            found += of_result(self.plan, target, tally, self.log)
        return found

    def gain(self, i: int, j: int) -> tuple[float, float, float]:
        """Give (estimate, lower, upper) of how much more i earns than j; NaN where nobody can tell."""
        ordered = (i, j) in self.contrasts
        contrast = self.contrasts[(i, j) if ordered else (j, i)]
        wrong = self.refuted(i) or self.refuted(j)
        estimate, (low, high) = contrast.gain.estimate, (math.nan, math.nan) if wrong else contrast.bounds
        # Taken from zero: a minus would make negative zeros.
        return (estimate, low, high) if ordered else (0.0 - estimate, 0.0 - high, 0.0 - low)

    def refuted(self, i: int) -> bool:
        """Whether target i's probabilities, or the log's, cannot be true."""
        return self.tallies[i].refuted


def judge(
    plan: Plan,
    part: Recent,
    pairs: Sequence[Pair] = (),
    pair_confidence: float | None = None,
    *,
    trace: bool = False,
    bounded: bool = True,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Judged:
    """Answer a plan by one pass: part by part where order does not matter, else in the log's order.

    Intervals of values have the plan's confidence, and are left out unless `bounded`; those of differences
    have `pair_confidence`. Parts are the log's own, and their sums are added in its order: with an executor
    and without, on however many workers, the same numbers come out.
    """
    reading = Reading()
    summarise = partial(_summarise, plan, tuple(pairs), pair_confidence, trace, bounded)
    with np.errstate(all="ignore"):  # weights beyond any float give estimates that are none, and a warning
        if plan.ordered or trace:
            found = summarise(answers(plan, part, reading, progress, executor))
        else:
            found = _merged(plan, part.judged, reading, summarise, progress, executor)
    for one in found:
        one.distrusted = reading.played.overplayed is not None
        one.unordered = reading.played.clustered is not None
    reading.finish(part.judged, plan.possible)
    tallies = [one for one in found if isinstance(one, Tally)]
    contrasts = [one for one in found if isinstance(one, Contrast)]
    return Judged(plan, part.judged, reading, tallies, dict(zip(pairs, contrasts, strict=True)))


def _summarise(
    plan: Plan,
    pairs: tuple[Pair, ...],
    confidence: float | None,
    trace: bool,
    bounded: bool,
    batches: Iterable[list[Answer]],
) -> Summary:
    tallies = [Tally(plan, trace=trace, weights_only=not bounded) for _ in plan.targets]
    contrasts = [Contrast(plan, confidence) for _ in pairs]
    for batch in batches:
        for tally, answer in zip(tallies, batch, strict=True):
            tally.add(answer)
        for contrast, (i, j) in zip(contrasts, pairs, strict=True):
            contrast.add(batch[i], batch[j])
    return [*tallies, *contrasts]


def _merged(
    plan: Plan,
    log: DecisionLog,
    reading: Reading,
    summarise: Callable[[Iterable[list[Answer]]], Summary],
    progress: Progress | None,
    executor: Executor | None,
) -> Summary:
    """Sum up each part of a log, and add the sums."""
    whole = summarise(())
    told = progress if executor is None else None  # by the reader itself
    here = None if told is None else lambda done: told(reading.decisions + done)
    work = partial(_summary, plan, summarise, progress=here)
    for summaries in _spread(work, log, reading, executor):
        for one, other in zip(whole, summaries, strict=True):
            one.merge(other)  # type: ignore[arg-type]  # the same kinds in the same places
        if progress is not None and executor is not None:
            progress(reading.decisions)
    return whole


def _summary(
    plan: Plan,
    summarise: Callable[[Iterable[list[Answer]]], Summary],
    log: DecisionLog,
    progress: Progress | None = None,
) -> tuple[Summary, Reading]:
    """Make what a worker sends of a part of the log where order does not matter."""
    reading = Reading()
    return summarise(answers(plan, Recent(log, None), reading, progress)), reading


def answers(
    plan: Plan,
    part: Recent,
    reading: Reading,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Iterator[list[Answer]]:
    """Batch by batch in the log's order, every target's answer; `reading` knows at the end what was wrong."""
    model = as_model(plan.regressor) if plan.modelled else None
    if model is not None and part.earlier is not None:
        for rounds in plan.scan.reader.known(part.earlier):
            predictions(model, rounds)
    if executor is None:
        parts = plan.scan.parts(part.judged, reading)
    else:
        spread = _spread(plan.scan.collect, part.judged, reading, executor)
        parts = (one for several in spread for one in several)
    for rounds, chances in parts:
        predicted = None if model is None else predictions(model, rounds)
        yield [Answer(plan, rounds, chance, predicted) for chance in chances]
        if progress is not None:
            progress(reading.decisions)


def _spread(
    work: Callable[[DecisionLog], tuple[Found, Reading]],
    log: DecisionLog,
    reading: Reading,
    executor: Executor | None,
) -> Iterator[Found]:
    """The log's parts worked on here or by an executor, a few ahead of each worker, given back in order."""
    waiting: deque[Future[tuple[Found, Reading]]] = deque()
    pieces = deque(log.pieces())
    ahead = 2 * workers(executor) if executor is not None else 0
    while pieces or waiting:
        if executor is None:
            found, seen = work(pieces.popleft())
        else:
            while pieces and len(waiting) < ahead:
                waiting.append(executor.submit(work, _alone(pieces.popleft())))
            found, seen = waiting.popleft().result()
        judged = reading.stopped is None
        reading.merge(seen)
        if judged and not reading.problems:
            yield found


def _alone(piece: DecisionLog) -> DecisionLog:
    """A piece to be read by a worker that has a core, not a machine."""
    source = piece.source
    if isinstance(source, ParquetSource):
        return DecisionLog(dataclasses.replace(source, threads=False), piece.name)
    return piece


def workers(executor: Executor) -> int:
    """Tell how many parts an executor works on at once."""
    client = getattr(executor, "_client", None)
    if client is not None:  # Dask's: its cluster may have grown or shrunk since
        return max(1, int(sum(client.nthreads().values())))
    return int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)


def one_estimator(question: Question, log: DecisionLog, targets: Any, estimator: Any, **more: Any) -> Plan:
    """Plan for one estimator, whose interval is its own."""
    plan = Plan.of(question, log, targets, estimator, watchful=True, **more)
    if len(plan.estimators) > 1:
        raise BadValue("estimator", "estimator must be one, 'ipw' or 'dr': `evaluate` takes several")
    (asked,) = plan.estimators
    validation.option("estimator", asked.estimator.name, ("ipw", "dr"))
    if asked.form != asked.source and plan.interval == "betting":
        require(log, ["probabilities"], "a doubly robust sequence", "estimator")
        raise BadValue(
            "estimator",
            f"a doubly robust sequence needs every arm's probability, in each row of {log.name} and of each "
            "target: use estimator='ipw'",
        )
    return plan


def table(plan: Plan, reading: Reading, rows: list[tuple[Any, ...]]) -> Table:
    """Make a table of the rows, with what they rest on as metadata."""
    found = pa.table(dict(zip(RESULT.names, zip(*rows, strict=True), strict=True)), schema=RESULT)
    about = {
        "decisions": str(reading.decisions),
        "waiting": str(reading.waiting),
        "judged": str(reading.rewarded),
        "fallbacks": str(reading.fallbacks),
        "interval": plan.interval,
        "confidence": repr(plan.confidence),
        "reward_range": json.dumps(plan.possible and plan.possible[:2]),
        "value": json.dumps(in_words(plan)),
        "left_out": json.dumps(plan.left_out),
    }
    return Table(found.replace_schema_metadata(about))


HEIGHT = 3.8


def plot_sequences(
    sequences: Traces,
    path: str | os.PathLike[str] | None = None,
    title: str = "",
    truth: float | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw tables as `sequence` makes them, by name; to a file (PNG, PDF or SVG by its ending) if told so.

    Returns the axes.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from linmed.ope import DecisionLog, sequence
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> courses = {target: sequence(DecisionLog.from_table(played), target) for target in ("arm:0", "arm:1")}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     axes = plot_sequences(courses, f"{folder}/courses.png", title="Two pages")
    ...     Path(folder, "courses.png").stat().st_size > 1000
    True
    """
    if not sequences:
        raise ValueError("sequences is empty: nothing to draw")
    from matplotlib.ticker import LogLocator, NullFormatter

    with styled():
        ax = axes(ax, HEIGHT, shown=path is None)
        band = 0.18 if len(sequences) == 1 else 0.07
        for i, (name, table) in enumerate(sequences.items()):
            n, (colour, dash) = table["n"].to_numpy(), series(i)
            low, high = table["lower"].to_numpy(), table["upper"].to_numpy()
            ax.plot(n, table["estimate"].to_numpy(), color=colour, linestyle=dash, label=shortened(name, 40))
            # Where bands overlap their colours merge; their edges do not.
            ax.fill_between(n, low, high, color=colour, alpha=band, linewidth=0)
            for edge in (low, high):
                ax.plot(n, edge, color=colour, linestyle=dash, linewidth=0.9, alpha=0.85)
        if truth is not None:
            ax.axhline(truth, color=INK.light, linewidth=1, linestyle="--", label="truth")
        shown = window(sequences, truth)
        ax.set(xscale="log", xlabel="decisions", ylabel="reward per decision", title=title)
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_ylim(shown.scale.low, shown.scale.high)
        if shown.first < shown.last:
            ax.set_xlim(shown.first, shown.last)
        ax.legend()
        if path is not None:
            saved(ax, path)
    return ax
