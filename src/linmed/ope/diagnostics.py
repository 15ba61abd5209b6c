"""Is this log fit to answer for this target? Weights, overlap, and whether its probabilities are true."""

from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from typing import Any, overload

from linmed.log import DecisionLog, ListLog
from linmed.ope.intervals import Weights
from linmed.ope.list_estimators import Lists, as_list_target, weights_by_position
from linmed.ope.log_facts import Log, as_log, holds
from linmed.ope.plan import Scan
from linmed.ope.scan import Reader, Reading
from linmed.ope.targets import as_target
from linmed.ope.warnings import of_log, of_waiting, of_weights
from linmed.question import MISSING, Question


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


@overload
def diagnose(
    log: ListLog, target: Any, missing: str | float = ..., mature: float | timedelta | None = ...
) -> list[Diagnosis]: ...


@overload
def diagnose(
    log: DecisionLog | str | PathLike[str],
    target: Any,
    missing: str | float = ...,
    mature: float | timedelta | None = ...,
) -> Diagnosis: ...


def diagnose(
    log: Log, target: Any, missing: str | float = MISSING, mature: float | timedelta | None = None
) -> Diagnosis | list[Diagnosis]:
    """Judge weights and overlap of one target. Impossible probabilities are an error that names the rows.

    Of a `ListLog` every position is judged, by the cumulative weights of the positions down to it.

    >>> from linmed.ope import DecisionLog, diagnose
    >>> played = {"arm": [0] * 99 + [1], "probability": [0.99] * 99 + [0.01], "reward": [1.0] * 100}
    >>> found = diagnose(DecisionLog.from_table(played), "arm:1")
    >>> found.effective_n, len(found.warnings)
    (1.0, 2)
    """
    if isinstance(log, ListLog):
        return _diagnose_lists(log, target, missing)
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


def _diagnose_lists(log: ListLog, target: Any, missing: str | float) -> list[Diagnosis]:
    """Judge the cumulative weights of one target at each position."""
    lists, chosen = Lists(log, Question(missing=missing)), as_list_target(target)
    return [
        Diagnosis(
            target=f"{chosen.name}, position {place}",
            n=weights.moments.n,
            waiting=lists.waiting,
            effective_n=weights.moments.effective,
            largest_weight=weights.largest,
            smallest_probability=smallest,
            mean_weight=weights.mean,
            mean_weight_error=weights.moments.standard_error,
            no_overlap=None,
            warnings=[],
        )
        for place, weights, smallest in weights_by_position(lists, chosen)
    ]
