"""`evaluate`: one pass over a log, every target × estimator with its interval."""

import dataclasses
import json
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from linmed import validation
from linmed.log import BATCH, DecisionLog, ParquetSource
from linmed.ope.accumulators import Answer, Contrast, Tally
from linmed.ope.estimators import as_model
from linmed.ope.intervals import warn
from linmed.ope.item_sampling import Listed
from linmed.ope.log_facts import require
from linmed.ope.question import CONFIDENCE, INTERVAL, MISSING, Log, Request, as_log
from linmed.ope.scan import Reading, Rounds
from linmed.ope.sequences import KINDS
from linmed.ope.targets import ItemsTarget, Target, as_target
from linmed.ope.warnings import no_value, no_variation, of_request, of_result
from linmed.ope.window import HalfLife, Recent, Since, in_words, recent
from linmed.report.tables import Table
from linmed.validation import BadValue, Floats

_TEXT, _NUMBER = pa.string(), pa.float64()
RESULT = pa.schema(
    {
        "target": _TEXT, "estimator": _TEXT, "estimate": _NUMBER, "lower": _NUMBER, "upper": _NUMBER,
        "n": pa.int64(), "effective_n": _NUMBER, "valid": _TEXT,
    }
)  # fmt: skip
COMPARABLE = (*KINDS, "asymptotic", "normal", "none")
"""Intervals that differences have."""

Progress = Callable[[int], object]
Found = TypeVar("Found")


def evaluate(
    log: Log,
    targets: Any,
    estimators: Any = None,
    interval: str = INTERVAL,
    confidence: float = CONFIDENCE,
    reward_range: tuple[float, float] | None = None,
    *,
    regressor: Any = None,
    adaptive: bool | None = None,
    missing: str | float = MISSING,
    mature: float | timedelta | None = None,
    since: Since | None = None,
    half_life: HalfLife | None = None,
    drift: bool | None = None,
    smallest_probability: float | None = None,
    catalogue: Any = None,
    samples: int = 200,
    seed: int = 0,
    batch: int = BATCH,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Table:
    """What would each target have earned per decision, and how sure are we?

    `log`: a `DecisionLog`, or the path of one. `targets`: one, a sequence or a {name: target} mapping; see
    `as_target`. `estimators`: the same, of names of `ESTIMATORS` or instances; ipw, snipw and dr unless
    given, dr only where the log and the targets tell of every arm, or targets are items by id. `interval`:
    "betting", "mixture", "bernstein" (valid at any time), "asymptotic" (at any large time), "adaptive"
    (logging policy learned; every arm's probability must be known), "normal", "bootstrap" (it did not),
    "none". `reward_range`: the lowest and highest reward that are possible, which the first three need;
    [0, 1] unless given, and then a log with other rewards is refused.

    A target must not have been chosen or trained on this very log: no interval accounts for that.

    An interval is about the target's value, whichever estimate stands beside it: with a sequence, or
    with "adaptive", the biased estimators get the interval of the unbiased form they are made from (that
    of IPW without a reward model, that of DR with one). "adaptive" also replaces IPW's and DR's estimate
    by the stabilised one its interval is centred on.

    `regressor`: reward model, ridge by default; see `Refitted`. `adaptive`: whether the logging policy
    learned; None asks the log's `version` and `policy` columns.

    `missing`: what becomes of decisions without a reward. "stop" judges the log up to the first of them and
    assumes nothing; "skip" leaves them out, which is right if lateness has nothing to do with the reward; a
    number is the reward that none after `mature` seconds means (and rewards that came later do not count).
    `mature`: only decisions at least so many seconds (or a timedelta) old when the log ended are judged.

    `since`: only these decisions are judged: from a number on (from the end where negative), from a time on
    (a datetime or ISO 8601 text), or as far back from the log's end ("30d", a timedelta). The answer is then
    the average since; reward models also know the decisions before. A `since` that was chosen by looking at
    what came after it is covered by no interval.

    `half_life`: decisions count by their age at the log's end, half as much after every so many of them, or
    after every such length of time ("7d"), in sixteen steps. The answer is that weighted average, close to
    the value now; its interval ("betting" or "mixture") is proved for one look at an end that was not chosen
    by looking, and `valid` says "one look": who looks again has that risk again.

    `drift`: a sequence is about the average value so far, which nothing need hold constant; False is the
    promise that there is one value, and keeps the best bounds so far ("bernstein" has that reading only).
    `smallest_probability`: the promise that no arm of any decision was less probable. With it, or with
    every arm's probability in the log, betting sequences use reward models: much narrower for rare rewards.

    `catalogue`: that of a log which lists no items, or the agent that decided among it. With it reward models
    can be used: what a model says of a target is a sum over the target's few items, or of "uniform" the mean
    over 256 items drawn for each decision by `seed` (see `linmed.ope.item_sampling`). Intervals that are
    sequences stay those of IPW.

    `progress` is called with the number of decisions read so far. `executor` (a pool, or
    `dask.distributed.Client(...).get_executor()`) reads the log's files and asks the targets on its workers;
    where order does not matter ("betting", "asymptotic", "normal" or "none", no reward model that learns)
    they also sum up, and send sums.

    Returns one row per target × estimator: target, estimator, estimate, lower, upper, n, effective_n
    ((Σw)²/Σw²), valid ("independent", "adaptive", "asymptotic" or "any time": what the interval needs). Every
    doubt is an `OPEWarning` that names the target. An interval is NaN, and valid "—", where the probabilities
    are proved wrong, where no value is compatible with the log, and where a limit theorem has nothing to work
    on. A target whose weights are all zero has no snipw or sndr; its sequence is the whole range.

    >>> from linmed.ope import DecisionLog, evaluate
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> found = evaluate(DecisionLog.from_table(played), ["arm:0", "arm:1"], "ipw")
    >>> [(row["target"], row["estimate"], row["lower"] > 0.5) for row in found.to_pylist()]
    [('arm 0', 0.0, False), ('arm 1', 1.0, True)]
    """
    log = as_log(log)
    part, reading = recent(log, since), Reading()
    request = Request(
        log=log, judged=part.judged, half_life=half_life, targets=targets, estimators=estimators,
        interval=interval, confidence=confidence,
        reward_range=reward_range, regressor=regressor, adaptive=adaptive, missing=missing, mature=mature,
        drift=drift, smallest_probability=smallest_probability, catalogue=catalogue, samples=samples,
        seed=seed, batch=batch,
    )  # fmt: skip
    tallies = collect(request, part, reading, partial(_tallies, request), progress, executor)
    reading.finish(part.judged, request.possible)
    for doubt in doubts(request, reading, part.judged, tallies):
        warn(doubt)
    named = zip(request.targets, tallies, strict=True)
    rows = [row for target, tally in named for row in tally.rows(target.name)]
    return table(request, reading, rows, in_words(since, half_life))


def sequence(
    log: Log,
    target: Any,
    estimator: Any = "ipw",
    interval: str = INTERVAL,
    confidence: float = CONFIDENCE,
    reward_range: tuple[float, float] | None = None,
    *,
    regressor: Any = None,
    missing: str | float = MISSING,
    mature: float | timedelta | None = None,
    since: Since | None = None,
    drift: bool | None = None,
    smallest_probability: float | None = None,
    progress: Progress | None = None,
) -> Table:
    """The estimate and its confidence sequence over time: n, estimate, lower, upper at growing n.

    `estimator` is "ipw" or "dr"; `interval` one of the sequences. The rest is as `evaluate` takes it.

    >>> from linmed.ope import DecisionLog, sequence
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> last = sequence(DecisionLog.from_table(played), "arm:1").to_pylist()[-1]
    >>> last["n"], last["estimate"], last["lower"] > 0.5
    (200, 1.0, True)
    """
    log = as_log(log)
    request = one_estimator(
        log, target, estimator, validation.option("interval", interval, KINDS),
        confidence=confidence, reward_range=reward_range, regressor=regressor, missing=missing, mature=mature,
        drift=drift, smallest_probability=smallest_probability,
    )  # fmt: skip
    part, reading = recent(log, since), Reading()
    tallies = _tallies(request, answers(request, part, reading, progress), trace=True)
    reading.finish(part.judged, request.possible)
    for doubt in doubts(request, reading, part.judged, tallies):
        warn(doubt)
    return tallies[0].sequences[request.estimators[0].form].table()


def difference(
    log: Log,
    target: Any,
    baseline: Any,
    estimator: Any = "ipw",
    interval: str = INTERVAL,
    confidence: float = CONFIDENCE,
    reward_range: tuple[float, float] | None = None,
    *,
    regressor: Any = None,
    adaptive: bool | None = None,
    missing: str | float = MISSING,
    mature: float | timedelta | None = None,
    since: Since | None = None,
    half_life: HalfLife | None = None,
    drift: bool | None = None,
    smallest_probability: float | None = None,
    batch: int = BATCH,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Table:
    """How much more would `target` have earned than `baseline`? One row like `evaluate`'s.

    The two are paired: what both would have done cancels, so equal targets differ by exactly zero and nearby
    ones narrowly. `estimator` is "ipw" or "dr"; the rest is as `evaluate` takes it, without "bootstrap" and
    "adaptive".

    >>> from linmed.ope import DecisionLog, difference
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.0, 1.0] * 100}
    >>> (row,) = difference(DecisionLog.from_table(played), "arm:1", "arm:0").to_pylist()
    >>> row["target"], row["estimate"], row["lower"] > 0.5
    ('arm 1 − arm 0', 1.0, True)
    """
    log, one, other = as_log(log), as_target(target), as_target(baseline)
    if one.name == other.name:
        other = as_target(other, f"{other.name} (baseline)")
    part, reading = recent(log, since), Reading()
    request = one_estimator(
        log, (one, other), estimator, validation.option("interval", interval, COMPARABLE), paired=True,
        judged=part.judged, half_life=half_life,
        confidence=confidence, reward_range=reward_range, regressor=regressor, adaptive=adaptive,
        missing=missing, mature=mature, drift=drift, smallest_probability=smallest_probability, batch=batch,
    )  # fmt: skip
    contrast, *tallies = collect(request, part, reading, partial(_pair, request), progress, executor)
    reading.finish(part.judged, request.possible)
    name = f"{one.name} − {other.name}"
    row = contrast.row(name) if not any(tally.refuted for tally in tallies) else contrast.no_row(name)
    for doubt in doubts(request, reading, part.judged, tallies):
        warn(doubt)
    if math.isnan(row[3]) and request.interval != "none" and not any(tally.refuted for tally in tallies):
        empty = request.interval in KINDS
        warn(no_value(name, part.judged, request) if empty else no_variation(name, request))
    return table(request, reading, [row], in_words(since, half_life))


def doubts(request: Request, reading: Reading, log: DecisionLog, tallies: Sequence[Tally]) -> list[str]:
    """All that should make one hesitate over a result."""
    found = list(of_request(request, reading, log))
    for target, tally in zip(request.targets, tallies, strict=True):
        found += of_result(request, target, tally, log)
    return found


class Merging(Protocol):
    """What one part of a log leaves, which absorbs what the next one leaves."""

    def merge(self, other: Any) -> None:
        """Absorb what another part left."""


Summary = TypeVar("Summary", bound=Merging)


def collect(
    request: Request,
    part: Recent,
    reading: Reading,
    summarise: Callable[[Iterable[list[Answer]]], list[Summary]],
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> list[Summary]:
    """The answers to a request summed up: part by part where order does not matter, else in the log's order.

    Parts are the log's own, and their sums are added in its order: with an executor and without, on however
    many workers, the same numbers come out.
    """
    with np.errstate(all="ignore"):  # weights beyond any float give estimates that are none, and a warning
        found = _collected(request, part, reading, summarise, progress, executor)
    for one in found:
        if isinstance(one, (Tally, Contrast)):
            one.distrusted = reading.played.overplayed is not None
            one.unordered = reading.played.clustered is not None
    return found


def _collected(
    request: Request,
    part: Recent,
    reading: Reading,
    summarise: Callable[[Iterable[list[Answer]]], list[Summary]],
    progress: Progress | None,
    executor: Executor | None,
) -> list[Summary]:
    if request.ordered:
        pool = None if request.counted else executor  # a worker does not know how many decisions came before
        return summarise(answers(request, part, reading, progress, pool))
    whole = summarise(())
    told = progress if executor is None else None  # by whoever reads
    here = None if told is None else lambda done: told(reading.decisions + done)
    work = partial(_summary, request, summarise, progress=here)
    for summaries in _spread(work, part.judged, reading, executor):
        for one, other in zip(whole, summaries, strict=True):
            one.merge(other)
        if progress is not None and executor is not None:
            progress(reading.decisions)
    return whole


def _summary(
    request: Request,
    summarise: Callable[[Iterable[list[Answer]]], Found],
    log: DecisionLog,
    progress: Progress | None = None,
) -> tuple[Found, Reading]:
    """What a worker sends of a part of the log where order does not matter."""
    reading = Reading()
    return summarise(answers(request, Recent(log, None), reading, progress)), reading


def answers(
    request: Request,
    part: Recent,
    reading: Reading,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Iterator[list[Answer]]:
    """Batch by batch in the log's order, every target's answer; `reading` knows at the end what was wrong."""
    several = () if len(request.recast) == len(request.targets) else request.models
    models = [as_model(regressor) for regressor in several]
    own = {i: [as_model(regressor) for regressor in request.models] for i in request.recast}
    lister = None if request.listing is None else request.listing.begin()
    if request.models and part.earlier is not None:
        for rounds in request.scan.reader.known(part.earlier):
            for model in models:
                model.predict_learn(rounds if lister is None else lister.alone(rounds))
            for i, those in own.items():
                for model in those:
                    model.predict_learn(_recast(request.targets[i], rounds, reading)[0])
    if executor is None:
        parts = request.scan.parts(part.judged, reading)
    else:
        spread = _spread(request.scan.collect, part.judged, reading, executor)
        parts = (one for several in spread for one in several)
    for whole, asked in parts:
        listed: Iterable[tuple[Rounds, Sequence[Floats | Listed]]] = (
            [(whole, asked)] if lister is None else lister.listed(whole, asked)
        )
        for rounds, chances in listed:
            predicted = [model.predict_learn(rounds) for model in models]
            found = []
            for i, chance in enumerate(chances):
                seen = rounds, chance, predicted
                if i in own:
                    assert isinstance(chance, np.ndarray)
                    alone, law = _recast(request.targets[i], rounds, reading)
                    seen = alone, Listed(chance, law), [model.predict_learn(alone) for model in own[i]]
                found.append(Answer(request, *seen))
            yield found
        if progress is not None:
            progress(reading.decisions)


def _recast(target: Target, rounds: Rounds, reading: Reading) -> tuple[Rounds, Floats]:
    """Decisions as the reward models of a target see them that knows its items by their ids."""
    assert isinstance(target, ItemsTarget)
    return target.recast(rounds, reading.problems)


def _tallies(request: Request, batches: Iterable[list[Answer]], *, trace: bool = False) -> list[Tally]:
    """The answers summed up, one tally a target."""
    tallies = [Tally(request, trace=trace) for _ in request.targets]
    for batch in batches:
        for tally, answer in zip(tallies, batch, strict=True):
            tally.add(answer)
    return tallies


def _pair(request: Request, batches: Iterable[list[Answer]]) -> list[Any]:
    """Two targets' difference, and what was seen of each."""
    contrast, tallies = Contrast(request), [Tally(request, weights_only=True) for _ in request.targets]
    for ours, theirs in batches:
        contrast.add(ours, theirs)
        tallies[0].add(ours)
        tallies[1].add(theirs)
    return [contrast, *tallies]


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
    """How many parts an executor works on at once."""
    client = getattr(executor, "_client", None)
    if client is not None:  # Dask's: its cluster may have grown or shrunk since
        return max(1, int(sum(client.nthreads().values())))
    return int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)


def one_estimator(log: DecisionLog, targets: Any, estimator: Any, interval: str, **rest: Any) -> Request:
    """A request for one estimator, whose interval is its own."""
    request = Request(
        log=log, targets=targets, estimators=estimator, interval=interval, watchful=True, **rest
    )
    if len(request.estimators) > 1:
        raise BadValue("estimator", "estimator must be one, 'ipw' or 'dr': `evaluate` takes several")
    (asked,) = request.estimators
    validation.option("estimator", asked.estimator.name, ("ipw", "dr"))
    if asked.form != asked.source and interval in KINDS:
        if interval == "betting":
            require(log, ["probabilities"], "a doubly robust sequence", "estimator")
            raise BadValue(
                "estimator",
                f"a doubly robust sequence needs every arm's probability, in each row of {log.name} and of "
                "each target (an item's only where it always has the same place): use estimator='ipw'",
            )
        raise BadValue(
            "interval",
            f"a doubly robust sequence needs interval='betting', got {interval!r}: use estimator='ipw'",
        )
    return request


def table(
    request: Request, reading: Reading, rows: list[tuple[Any, ...]], value: str = in_words(None)
) -> Table:
    """The rows, with what they rest on as metadata."""
    found = pa.table(dict(zip(RESULT.names, zip(*rows, strict=True), strict=True)), schema=RESULT)
    about = {
        "decisions": str(reading.decisions),
        "waiting": str(reading.waiting),
        "judged": str(reading.rewarded),
        "fallbacks": str(reading.fallbacks),
        "interval": request.interval,
        "confidence": repr(request.confidence),
        "reward_range": json.dumps(request.possible and request.possible[:2]),
        "value": json.dumps(value),
        "left_out": json.dumps(request.left_out),
    }
    return Table(found.replace_schema_metadata(about))
