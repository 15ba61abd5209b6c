"""Which policy is better, how sure that is, and whether the log can be trusted: each as it grew with the log.

Both are one pass, and what they said of the first n decisions they say again when there are more: the places
where the log is cut do not depend on its length. So looking again and again costs no confidence.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from linmed.log import Malformed
from linmed.question import Question
from linmed.serve import store
from linmed.serve.database import decisions
from linmed.serve.errors import INPUT, Refused, field_of
from linmed.serve.live_log import LiveSource

CONFIDENCE = 0.95
FIRST, GROWTH = 16, 16
"""The log is cut after so many decisions, and then whenever it has grown by so small a part of itself."""
POINTS = 60
"""Points of a curve that are shown."""
ROWS = 8192
PAIRS = (("logged", "uniform"), ("greedy", "logged"), ("greedy", "uniform"))


def cuts() -> Iterator[int]:
    """Numbers of decisions: 16, 32, …, 256, then each larger by a sixteenth."""
    stop = 0
    while True:
        stop += max(FIRST, stop // GROWTH)
        yield stop


class CutSource(LiveSource):
    """A bandit's log in batches that end at the cuts."""

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """The same rows as ever."""
        done, ends = 0, cuts()
        stop = next(ends)
        for batch in super().read(columns, min(rows, ROWS), malformed):
            while batch.num_rows:
                part = batch.slice(0, stop - done)
                yield part
                batch = batch.slice(part.num_rows)
                done += part.num_rows
                stop = next(ends) if done == stop else stop


def trend(
    connection: Connection, row: Row[Any], missing: str | float = "stop", mature: float | None = None
) -> dict[str, Any]:
    """Everything the page shows of a log's past."""
    found = weights(connection, row.id)
    return {**_values(connection, row, missing, mature, found["refuted"]), "weights": found}


def _values(
    connection: Connection, row: Row[Any], missing: str | float, mature: float | None, refuted: bool
) -> dict[str, Any]:
    """What was earned, and what uniform and greedy play would have earned, with confidence sequences.

    Where the probabilities are `refuted`, no sequence holds.
    """
    from linmed.ope import DecisionLog  # heavy, and not needed to decide

    bandit = store.as_bandit(connection, row)
    source = CutSource(connection, bandit)
    log = DecisionLog(source, f"the log of {bandit.name}")
    targets: dict[str, Any] = {"logged": "logged", "uniform": "uniform"}
    notes = []
    if "arms" in source.columns:
        greedy = bandit.policy.greedy()
        targets["greedy"] = greedy, greedy.start(1, bandit.dim)
    elif bandit.policy.capabilities.by_route:
        notes.append("greedy play cannot be judged: decisions by route are logged without all items")
    else:
        notes.append("greedy play cannot be judged: the log has not every arm's features (log_arms)")
    if bandit.reward_range is None:
        notes.append("confidence sequences need a reward_range, which this bandit has not")
    empty = {"decisions": 0, "waiting": 0, "judged": 0, "values": [], "differences": [], "warnings": []}
    try:
        judged = _judged(log, targets, bandit.reward_range, missing, mature, refuted)
        return {**judged, "notes": notes, "reason": None}
    except INPUT as error:
        if (field := field_of(error)) in ("missing", "mature"):  # the request's mistake, not the log's state
            raise Refused("invalid", str(error), field) from None
        return {**empty, "notes": notes, "reason": str(error)}


def _judged(
    log: Any,
    targets: dict[str, Any],
    reward_range: tuple[float, float] | None,
    missing: str | float,
    mature: float | None,
    refuted: bool,
) -> dict[str, Any]:
    """One pass. Greedy is judged on each part of the log as it was before it, and then learns from it."""
    from linmed.ope.evaluate import answers, one_estimator
    from linmed.ope.plan import Recent
    from linmed.ope.scan import Reading
    from linmed.ope.targets import Frozen
    from linmed.ope.warnings import of_log, of_result

    asked = Question(
        interval="betting" if reward_range else "none", confidence=CONFIDENCE, reward_range=reward_range,
        missing=missing, mature=mature,
    )  # fmt: skip
    plan = one_estimator(asked, log, targets, "ipw", paired=True)
    course, reading = Course(plan), Reading()
    learner = plan.targets[-1]
    with np.errstate(all="ignore"):  # weights beyond any float give estimates that are none, and a warning
        for found in answers(plan, Recent(log, None), reading):
            course.add(found)
            if isinstance(learner, Frozen):
                rounds = found[0].rounds
                assert rounds.arms is not None
                own = np.zeros(len(rounds), dtype=np.int64)
                learner.policy.learn(learner.state, rounds.arms[rounds.chosen], rounds.reward, own)
    reading.finish(log, plan.possible)
    shown = course.shown(refuted or reading.played.overplayed is not None)
    tallies = zip(plan.targets, course.tallies.values(), strict=True)
    doubts = [doubt for target, tally in tallies for doubt in of_result(plan, target, tally, log)]
    return {
        "decisions": reading.decisions,
        "waiting": reading.waiting,
        "judged": reading.rewarded,
        "warnings": [*of_log(reading, log), *doubts],
        **shown,
    }


class Course:
    """What one pass leaves of the targets: a tally and a curve of each, and their differences."""

    def __init__(self, plan: Any):
        from linmed.ope.accumulators import Contrast, Tally

        names = [target.name for target in plan.targets]
        pairs = [pair for pair in PAIRS if set(pair) <= set(names)]
        level = (1.0 - CONFIDENCE) / len(pairs)  # several are looked at, and all are to hold at once
        self.tallies = {name: Tally(plan) for name in names}
        self.contrasts = {pair: Contrast(plan, 1.0 - level) for pair in pairs}
        self.curves: dict[str, list[dict[str, Any]]] = {name: [] for name in names}

    def add(self, answers: list[Any]) -> None:
        """Absorb one part of the log, and note what is known after it."""
        answer = dict(zip(self.tallies, answers, strict=True))
        for name, tally in self.tallies.items():
            tally.add(answer[name])
            (row,) = tally.rows(name)
            self.curves[name].append(point(row))
        for (one, other), contrast in self.contrasts.items():
            contrast.add(answer[one], answer[other])

    def shown(self, refuted: bool) -> dict[str, Any]:
        """Values and differences, without bounds where the probabilities are wrong."""
        refuted = refuted or any(tally.refuted for tally in self.tallies.values())
        for tally in self.tallies.values():
            tally.distrusted = refuted
        if refuted:
            none = {"lower": None, "upper": None}
            self.curves = {name: [one | none for one in curve] for name, curve in self.curves.items()}
        return {
            "values": [
                {"target": name, **curve[-1], "curve": thinned(curve)}
                for name, curve in self.curves.items()
                if curve
            ],
            "differences": [
                {
                    "target": one,
                    "baseline": other,
                    **point(contrast.row("", refuted)),
                }
                for (one, other), contrast in self.contrasts.items()
            ],
        }


def point(row: tuple[Any, ...]) -> dict[str, Any]:
    """What a row of an evaluation says."""
    _, _, estimate, lower, upper, n, _, _ = row
    return {"n": n, "estimate": number(estimate), "lower": number(lower), "upper": number(upper)}


def weights(connection: Connection, bandit: int) -> dict[str, Any]:
    """The mean of (1/K)/p, which is 1 if the probabilities are true, and the evidence that they are not.

    It needs no rewards, so every decision counts. A lower bound above 1 refutes the probabilities, and so
    does an arm that is played too often (`Played`); by chance each does so in one log of a thousand, ever. An
    upper bound there is none: weights have no largest value. A mean below 1 is therefore no evidence: where
    an arm has become improbable, the decision that makes up for it is yet to come.
    """
    from linmed.ope.intervals import REFUTED, Played
    from linmed.ope.sequences import BettingLower, Side

    bound, played, total = BettingLower(REFUTED), Played(), 0.0
    curve: list[dict[str, Any]] = []
    query = (
        sa.select(*decisions.c["arm", "arm_count", "log_probability"], decisions.c.fallback.is_(True))
        .where(decisions.c.bandit == bandit)
        .order_by(decisions.c.number)
    )
    ends = cuts()
    with connection.execution_options(yield_per=ROWS).execute(query) as result:
        while rows := result.fetchmany(next(ends) - bound.count):
            arm, count, log_p, fallback = (np.array(column) for column in zip(*rows, strict=True))
            told = ~fallback.astype(
                bool
            )  # of fallbacks nobody knows how probable they were: they weigh nothing
            with np.errstate(all="ignore"):
                weight = np.where(told, np.exp(-log_p) / count, 0.0)
                bound.add(Side(weight, np.zeros(weight.size)))
                played.add(arm[told].astype(np.int64), np.exp(log_p[told]))
            total += float(weight.sum())
            point = {"n": bound.count, "estimate": number(total / bound.count), "lower": number(bound.lower)}
            curve.append({**point, "upper": None})
    found = played.overplayed
    return {
        "curve": thinned(curve),
        "refuted": found is not None or any((point["lower"] or 0.0) > 1.0 for point in curve),
        "overplayed": None if found is None else {"arm": found[0], "times": found[1]},
    }


def thinned(curve: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most `POINTS` of them, the last among them, as evenly over n as they are there."""
    if len(curve) <= POINTS:
        return curve
    n = [point["n"] for point in curve]
    wanted = np.searchsorted(n, np.linspace(n[0], n[-1], POINTS))
    return [curve[i] for i in np.unique(wanted)]


def number(value: float) -> float | None:
    """What is not finite is not known."""
    return float(value) if math.isfinite(value) else None
