"""`evaluate`: one pass over a log, every target × estimator with its interval."""

import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from linmed import checks
from linmed.checks import BadValue
from linmed.log import BATCH, DecisionLog
from linmed.ope.intervals import VALID, warn
from linmed.ope.regression import as_model
from linmed.ope.request import CONFIDENCE, INTERVAL, Log, Request, as_log
from linmed.ope.rounds import Reading, require
from linmed.ope.sequences import KINDS
from linmed.ope.sums import Moments
from linmed.ope.tally import Answer, Tally, value_sequence
from linmed.ope.targets import as_target
from linmed.tables import Table

_TEXT, _NUMBER = pa.string(), pa.float64()
RESULT = pa.schema(
    {
        "target": _TEXT, "estimator": _TEXT, "estimate": _NUMBER, "lower": _NUMBER, "upper": _NUMBER,
        "n": pa.int64(), "effective_n": _NUMBER, "valid": _TEXT,
    }
)  # fmt: skip
AHEAD = 8
"""Parts of the log that an executor may work on at once."""

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
    missing: str = "skip",
    drift: bool = False,
    samples: int = 200,
    seed: int = 0,
    batch: int = BATCH,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Table:
    """What would each target have earned per decision, and how sure are we?

    `log`: a `DecisionLog`, or the path of one. `targets`: one, a sequence or a {name: target} mapping; see
    `as_target`. `estimators`: the same, of names of `ESTIMATORS` or instances; ipw, snipw and dr unless
    given, dr only where the log and the targets tell of every arm.
    `interval`: "betting", "bernstein", "mixture" (valid at any time), "adaptive" (logging policy learned),
    "normal", "bootstrap" (it did not), "none". `reward_range`: the lowest and highest reward that are
    possible, which the first three need; [0, 1] unless given, and then a log with other rewards is refused.

    A target must not have been chosen or trained on this very log: no interval accounts for that.

    An interval is about the target's value, whichever estimate stands beside it: with a sequence, or
    with "adaptive", the biased estimators get the interval of the unbiased form they are made from (that
    of IPW without a reward model, that of DR with one). "adaptive" also replaces IPW's and DR's estimate
    by the stabilised one its interval is centred on.

    `regressor`: reward model, ridge by default; see `Refitted`. `adaptive`: whether the logging policy
    learned; None asks the log's `version` and `policy` columns. `missing`: decisions without a reward are
    left out ("skip": right if lateness does not depend on the reward) or end the log ("stop"). `drift`:
    contexts may change over time, so sequences are about the average value so far (IPW terms only).
    `progress` is called with the number of decisions read so far. `executor` (a pool, or
    `dask.distributed.Client(...).get_executor()`) reads the log's files and asks the targets on its workers;
    where order does not matter ("normal" or "none", no reward model) they also sum up.

    Returns one row per target × estimator: target, estimator, estimate, lower, upper, n, effective_n
    ((Σw)²/Σw²), valid ("independent", "adaptive" or "any time": what the interval needs). A target whose
    weights are all zero is named in a warning: snipw and sndr are NaN, and so is its interval unless it is
    a sequence, which says the whole range.
    """
    log = as_log(log)
    request = Request(
        log=log, targets=targets, estimators=estimators, interval=interval, confidence=confidence,
        reward_range=reward_range, regressor=regressor, adaptive=adaptive, missing=missing, drift=drift,
        samples=samples, seed=seed, batch=batch,
    )  # fmt: skip
    if executor is not None and request.missing == "stop":
        raise BadValue(
            "missing", "missing='stop' reads the log in order and cannot be spread over an executor"
        )
    reading = Reading()
    if executor is None or request.ordered:
        tallies = _tallies(request, answers(request, log, reading, progress, executor))
    else:
        tallies = _tallies(request, ())
        for parts in _spread(partial(_sums, request), log, reading, executor):
            for tally, sums in zip(tallies, parts, strict=True):
                tally.merge(sums)
            if progress is not None:
                progress(reading.decisions)
    reading.finish(log, request.possible)
    for doubt in (
        *_doubts(request, reading, log),
        *_silences(request, [tally.overlaps for tally in tallies], log),
    ):
        warn(doubt)
    named = zip(request.targets, tallies, strict=True)
    rows = [row for target, tally in named for row in tally.rows(target.name)]
    impossible = [row[0] for row in rows if math.isnan(row[3])] if request.interval in KINDS else []
    if impossible:
        warn(
            f"no value of target {impossible[0]!r} is compatible with {log.name} at confidence "
            f"{confidence:g}: its probabilities are wrong, or the value changed over time (drift=True)"
        )
    return _table(request, reading, rows)


def sequence(
    log: Log,
    target: Any,
    estimator: Any = "ipw",
    interval: str = INTERVAL,
    confidence: float = CONFIDENCE,
    reward_range: tuple[float, float] | None = None,
    *,
    regressor: Any = None,
    missing: str = "skip",
    drift: bool = False,
    progress: Progress | None = None,
) -> Table:
    """The estimate and its confidence sequence over time: n, estimate, lower, upper at growing n.

    `estimator` is "ipw" or "dr"; `interval` one of the sequences. The rest is as `evaluate` takes it.
    """
    log = as_log(log)
    request = _sequence_request(
        log, target, estimator, interval,
        confidence=confidence, reward_range=reward_range, regressor=regressor, missing=missing, drift=drift,
    )  # fmt: skip
    reading = Reading()
    (tally,) = _tallies(request, answers(request, log, reading, progress))
    reading.finish(log, request.possible)
    for doubt in _silences(request, [tally.overlaps], log):
        warn(doubt)
    return tally.sequences[request.estimators[0].form].table()


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
    missing: str = "skip",
) -> Table:
    """How much more would `target` have earned than `baseline`? One row like `evaluate`'s, valid at any time.

    With rewards scaled to [0, 1] and weights w, v of the two, (w r + v (1 − r))/2 ≥ 0 has mean (1 + Δ)/2
    for the difference Δ of the values, and the reverse (1 − Δ)/2: the same sequences apply.
    """
    log, one, other = as_log(log), as_target(target), as_target(baseline)
    if one.name == other.name:
        other = as_target(other, f"{other.name} (baseline)")
    request = _sequence_request(
        log, (one, other), estimator, interval,
        confidence=confidence, reward_range=reward_range, regressor=regressor, missing=missing,
    )  # fmt: skip
    (asked,) = request.estimators
    form, reading, weights = asked.form, Reading(), Moments()
    bounds = value_sequence(request, difference=True)
    reached = np.zeros(2)
    for ours, theirs in answers(request, log, reading):
        floor = bounds.floors(len(ours.rounds)) if form.kind == "dr" else None
        (below, above), (their_below, their_above) = ours.outcomes(form, floor), theirs.outcomes(form, floor)
        gain = ours.terms(form) - theirs.terms(form)
        bounds.add(gain, 0.5 * (below + their_above), 0.5 * (above + their_below), floor)
        weights.add(np.abs(ours.weight - theirs.weight))
        reached += ours.weight.sum(), theirs.weight.sum()
    reading.finish(log, request.possible)
    for doubt in _silences(request, reached > 0, log):
        warn(doubt)
    name = " − ".join(chosen.name for chosen in request.targets)
    row = (
        name,
        asked.label,
        bounds.estimate,
        *bounds.bounds,
        bounds.count,
        weights.effective,
        VALID[interval],
    )
    return _table(request, reading, [row])


def answers(
    request: Request,
    log: DecisionLog,
    reading: Reading,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Iterator[list[Answer]]:
    """Batch by batch in the log's order, every target's answer; `reading` knows at the end what was wrong."""
    models = [as_model(regressor) for regressor in request.models]
    if executor is None:
        parts = request.scan.parts(log, reading)
    else:
        spread = _spread(request.scan.collect, log, reading, executor)
        parts = (part for several in spread for part in several)
    for rounds, chances in parts:
        predicted = [model.predict_learn(rounds) for model in models]
        yield [Answer(request, rounds, chance, predicted) for chance in chances]
        if progress is not None:
            progress(reading.decisions)


def _tallies(request: Request, batches: Iterable[list[Answer]]) -> list[Tally]:
    """The answers summed up, one tally a target."""
    tallies = [Tally(request) for _ in request.targets]
    for batch in batches:
        for tally, answer in zip(tallies, batch, strict=True):
            tally.add(answer)
    return tallies


def _sums(request: Request, log: DecisionLog) -> tuple[list[list[Moments]], Reading]:
    """What a worker sends of a part of the log where order does not matter."""
    reading = Reading()
    return [tally.sums for tally in _tallies(request, answers(request, log, reading))], reading


def _spread(
    work: Callable[[DecisionLog], tuple[Found, Reading]],
    log: DecisionLog,
    reading: Reading,
    executor: Executor,
) -> Iterator[Found]:
    """The log's parts worked on by an executor, a few at a time, given back in order."""
    waiting: deque[Future[tuple[Found, Reading]]] = deque()
    pieces = deque(log.pieces())
    while pieces or waiting:
        while pieces and len(waiting) < AHEAD:
            waiting.append(executor.submit(work, pieces.popleft()))
        found, seen = waiting.popleft().result()
        reading.merge(seen)
        if not reading.problems:
            yield found


def _sequence_request(log: DecisionLog, targets: Any, estimator: Any, interval: str, **rest: Any) -> Request:
    """A request for one sequence, of an estimator that has one of its own."""
    interval = checks.option("interval", interval, KINDS)
    request = Request(log=log, targets=targets, estimators=estimator, interval=interval, **rest)
    if len(request.estimators) > 1:
        raise BadValue("estimator", "estimator must be one, 'ipw' or 'dr': `evaluate` takes several")
    (asked,) = request.estimators
    checks.option("estimator", asked.estimator.name, ("ipw", "dr"))
    if asked.form != asked.source:
        require(log, ["probabilities"], "a doubly robust sequence", "estimator")
        raise BadValue(
            "interval",
            "a doubly robust sequence needs interval='betting' or 'bernstein' and a value without drift, got "
            f"interval={interval!r}, drift={request.drift}: use estimator='ipw'",
        )
    return request


def _doubts(request: Request, reading: Reading, log: DecisionLog) -> Iterator[str]:
    """What was asked for that does not hold here."""
    if VALID[request.interval] != "independent":
        return
    asked = f"interval={request.interval!r}"
    if reading.adaptive if request.adaptive is None else request.adaptive:
        yield (
            f"{asked} holds for independent decisions, but the logging policy changed along {log.name}: use "
            "'adaptive', or 'betting' with a reward_range"
        )
    if any(one.estimator.name == "dm" for one in request.estimators):
        yield (
            f"{asked} of the direct method shows how the model's predictions vary, not how wrong the model "
            "is: use 'dr'"
        )


def _silences(request: Request, overlaps: Iterable[bool], log: DecisionLog) -> Iterator[str]:
    """The targets of whose value the rewards say nothing."""
    for target, overlap in zip(request.targets, overlaps, strict=True):
        if not overlap:
            yield (
                f"target {target.name!r} never agrees with {log.name}: every weight is zero, so the rewards "
                "say nothing of its value"
            )


def _table(request: Request, reading: Reading, rows: list[tuple[Any, ...]]) -> Table:
    """The rows, with what they rest on as metadata."""
    table = pa.table(dict(zip(RESULT.names, zip(*rows, strict=True), strict=True)), schema=RESULT)
    about = {
        "decisions": str(reading.decisions),
        "waiting": str(reading.waiting),
        "interval": request.interval,
        "confidence": repr(request.confidence),
        "reward_range": json.dumps(request.possible and request.possible[:2]),
    }
    return Table(table.replace_schema_metadata(about))
