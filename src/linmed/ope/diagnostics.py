"""Is this log fit to answer for this target? Weights, overlap, and whether its probabilities are true."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import validation
from linmed.log import DecisionLog
from linmed.ope.intervals import Weights
from linmed.ope.log_facts import Log, as_log, begins_with, holds, require
from linmed.ope.plan import Scan
from linmed.ope.scan import Problems, Reader, Reading, given
from linmed.ope.targets import as_target
from linmed.ope.warnings import of_log, of_waiting, of_weights
from linmed.question import MISSING
from linmed.report.tables import Table
from linmed.validation import Floats


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found. Exact probabilities give weights of mean one, less the mass without overlap.

    >>> from linmed.ope import DecisionLog, diagnose
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [1.0, 0.0] * 100}
    >>> found = diagnose(DecisionLog.from_table(played), "arm:1")
    >>> found.n, found.effective_n, found.largest_weight, found.mean_weight, found.warnings
    (200, 100.0, 2.0, 1.0, ['only 0 of the 100 rewards that count differ from 0'])
    """

    target: str
    n: int
    waiting: int
    """Decisions without a reward yet."""
    effective_n: float
    """(Σw)²/Σw²."""
    largest_weight: float
    smallest_probability: float
    mean_weight: float
    mean_weight_error: float
    """Standard error of the mean weight."""
    no_overlap: float | None
    """Mean target probability of arms that could not be logged; None if only played arms' p was logged."""

    warnings: list[str]
    """What is doubtful, in words; empty if nothing is."""


def diagnose(
    log: Log, target: Any, missing: str | float = MISSING, mature: float | timedelta | None = None
) -> Diagnosis:
    """Judge weights and overlap of one target. Impossible probabilities are an error that names the rows.

    >>> from linmed.ope import DecisionLog, diagnose
    >>> played = {"arm": [0] * 99 + [1], "probability": [0.99] * 99 + [0.01], "reward": [1.0] * 100}
    >>> found = diagnose(DecisionLog.from_table(played), "arm:1")
    >>> found.effective_n, len(found.warnings)
    (1.0, 2)
    """
    log = as_log(log)
    chosen = as_target(target).settled(log)
    whole = holds(log, "probabilities") and chosen.knows_all_arms(log)
    needed = (*chosen.reads(log, whole), *(["probabilities"] if whole else []))
    reading, weights, smallest = Reading(), Weights(), 1.0
    reader = Reader(
        columns=needed, extra=chosen.extra, missing=missing, mature=mature, every_arm=whole
    ).settled(log)
    for rounds, (chance,) in Scan(reader, (chosen,), whole).parts(log, reading):
        if whole:
            assert rounds.logged is not None
            weights.lost += float(chance[rounds.logged <= 0].sum())
        played = chance[rounds.chosen] if whole else chance
        weights.add(rounds.weights(played), rounds.reward)
        smallest = min(smallest, float(rounds.probability.min()))
    reading.finish(log)
    moments = weights.moments
    no_overlap = weights.lost / moments.n if whole else None
    return Diagnosis(
        target=chosen.name,
        n=moments.n,
        waiting=reading.waiting,
        effective_n=moments.effective,
        largest_weight=weights.largest,
        smallest_probability=smallest,
        mean_weight=weights.mean,
        mean_weight_error=moments.standard_error,
        no_overlap=no_overlap,
        warnings=[
            *of_waiting(missing, reading, log),
            *of_log(reading, log),
            *([] if chosen.doubt is None else [chosen.doubt]),
            *of_weights(weights, chosen, long=1.0),
        ],
    )


def calibration(log: Log, bins: int = 10) -> Table:
    """Compare logged probability with frequency. A true log has |z| mostly below 2 and hardly ever above 4.

    With every arm's probability in the log: bins of probability, one row each with the mean probability of
    the arm-decisions in it, how often those arms were played, and z = (frequency − probability)/SE. With
    the played arm's alone: one row per arm, whose mean of 1{played}/p must be 1 (`frequency`; `probability`
    is 1). In a catalogue's fallbacks no item was played by its own probability. Rewards are not used, so
    decisions still waiting count too.

    >>> from linmed.ope import DecisionLog, calibration
    >>> played = {"arm": [0, 1, 1, 1] * 50, "probability": [0.25, 0.75, 0.75, 0.75] * 50}
    >>> found = calibration(DecisionLog.from_table(played | {"reward": [1.0] * 200, "arm_count": [2] * 200}))
    >>> [(row["count"], round(row["frequency"], 3)) for row in found.to_pylist()]
    [(50, 1.0), (150, 1.0)]
    """
    log, bins = as_log(log), validation.whole("bins", bins)
    return _by_probability(log, bins) if begins_with(log, "probabilities") else _by_arm(log)


def _by_arm(log: DecisionLog) -> Table:
    require(log, ["arm_count"], "calibration", "log")
    n, size = 0, 0
    sums, squares, count = np.zeros(0), np.zeros(0), np.zeros(0)
    for batch in _batches(log, "arm_count"):
        p = _possible(batch, n)
        arm = batch.column("arm").to_numpy()
        size = max(size, pc.max(batch.column("arm_count")).as_py(), int(arm.max()) + 1)
        sums, squares, count = (np.pad(array, (0, size - array.size)) for array in (sums, squares, count))
        sums += np.bincount(arm, 1 / p, size)
        squares += np.bincount(arm, 1 / p**2, size)
        count += np.bincount(arm, minlength=size)
        n += arm.size
    mean = sums / n
    error = np.sqrt(np.maximum(squares / n - mean**2, 0.0) / n)
    z = np.divide(mean - 1.0, error, out=np.zeros(size), where=error > 0)
    names = [f"arm {i}" for i in range(size)]
    return _calibration(names, count, np.ones(size), mean, z)


def _by_probability(log: DecisionLog, bins: int) -> Table:
    # Equal bins of log10 p below 0.1 would be empty for most logs; squares spread small probabilities well.
    edges = np.linspace(0.0, 1.0, bins + 1) ** 2
    count, expected, played, variance = (np.zeros(bins) for _ in range(4))
    n = 0
    for batch in _batches(log, "probabilities"):
        _possible(batch, n)
        n += batch.num_rows
        batch = batch.filter(batch.column("probabilities").is_valid())
        lists = batch.column("probabilities")
        flat = lists.flatten().to_numpy(zero_copy_only=False)
        start = np.concatenate([[0], np.cumsum(lists.value_lengths().to_numpy())[:-1]])
        hit = np.zeros(flat.size)
        hit[start + batch.column("arm").to_numpy()] = 1.0
        place = np.clip(np.searchsorted(edges, flat, side="right") - 1, 0, bins - 1)
        count += np.bincount(place, minlength=bins)
        expected += np.bincount(place, flat, bins)
        played += np.bincount(place, hit, bins)
        variance += np.bincount(place, flat * (1 - flat), bins)
    used = np.flatnonzero(count)
    z = np.divide(played - expected, np.sqrt(variance), out=np.zeros(bins), where=variance > 0)
    names = [f"{edges[i]:.3g}–{edges[i + 1]:.3g}" for i in used]
    number = count[used]
    return _calibration(names, number, expected[used] / number, played[used] / number, z[used])


def _batches(log: DecisionLog, also: str) -> Iterator[pa.RecordBatch]:
    routes = ["fallback"] if "fallback" in log.columns else []
    return log.batches(["arm", "probability", also, *routes])


def _possible(batch: pa.RecordBatch, start: int) -> Floats:
    """The logged probabilities of a batch whose first row is row `start` of the log; ∞ of a fallback."""
    problems, rows = Problems(), np.arange(start, start + batch.num_rows)
    names = batch.schema.names
    arm = given(batch.column("arm"), "arm", rows, problems, 0).to_numpy()
    problems.add("arm must be a non-negative index", rows, arm < 0, arm.item)
    if "arm_count" in names:
        most = given(batch.column("arm_count"), "arm_count", rows, problems, 1).to_numpy()
    else:
        most = batch.column("probabilities").value_lengths().fill_null(2**31 - 1).to_numpy()
    routed = batch.column("fallback") if "fallback" in names else pa.nulls(batch.num_rows, pa.bool_())
    placed, fallback = (
        m.to_numpy(zero_copy_only=False) for m in (routed.is_valid(), routed.fill_null(False))
    )
    beyond = (arm >= most) & ~(placed if "arm_count" in names else False)
    problems.add("arm must be smaller than the number of arms", rows, beyond, arm.item)
    told = pc.if_else(pa.array(fallback), 1.0, batch.column("probability"))
    p: Floats = given(told, "probability", rows, problems, 1).to_numpy()
    problems.add("probability must lie in (0, 1]", rows, ~((p > 0) & (p <= 1)), p.item)
    problems.raise_any()
    return np.where(fallback, np.inf, p)


def _calibration(names: list[str], count: Floats, *columns: Floats) -> Table:
    found = zip(("probability", "frequency", "z"), columns, strict=True)
    return Table({"bin": names, "count": count.astype(np.int64), **dict(found)})
