"""`compare`: groups of visitors against each other, as in an A/B test, however often one looks."""

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from linmed import checks
from linmed.checks import BadType, BadValue
from linmed.log import DecisionLog, ParquetSource
from linmed.ope.contest import hold
from linmed.ope.doubts import no_value
from linmed.ope.evaluate import COMPARABLE, Progress, doubts, table
from linmed.ope.groups import MISMATCH, Grouped, assignment
from linmed.ope.intervals import warn
from linmed.ope.known import holds
from linmed.ope.reading import Reading
from linmed.ope.request import CONFIDENCE, INTERVAL, MISSING, PLAIN, Request, as_log
from linmed.ope.sequences import KINDS
from linmed.ope.tally import Tally
from linmed.ope.targets import ArmTarget
from linmed.tables import Table

MEAN = "mean"


def compare(
    log: Any,
    groups: str = "arm",
    *,
    baseline: Any = None,
    shares: Mapping[Any, float] | None = None,
    reward: str = "reward",
    interval: str = INTERVAL,
    confidence: float = CONFIDENCE,
    reward_range: tuple[float, float] | None = None,
    missing: str | float = MISSING,
    mature: float | timedelta | None = None,
    drift: bool | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Table:
    """An A/B test: what each group earns per visitor, and how much more than `baseline`.

    `log`: a log, the path of a Parquet file, or any table (pandas, polars, pyarrow, a dictionary of arrays)
    with one row a visitor, whose column `reward` is what came of it. `groups`: the column that says which
    group a visitor was put into, at random. `shares`: each group's share of the visitors; equal unless
    given. Groups whose sizes such shares would hardly produce (an e-value of 1,000, valid at any time) are
    refused: visitors were not assigned as is believed. `baseline` and `shares` may name groups as they are
    printed.

    Rows as `evaluate` gives them: every group, then every difference to the `baseline`, the first group by
    name unless given. With probability `confidence` all differences are in their intervals, and with the
    same one all groups, at every n at once with the sequences ("betting"); "normal" is for one look at a
    number fixed beforehand.

    Estimates are the groups' means. Nothing depends on the order of the rows but "mixture", "bernstein" and
    drift=False, which are refused where groups do not come in random order (an e-value of 1,000 again).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> variant = rng.choice(["a", "b"], 4_000)
    >>> click = rng.random(4_000) < np.where(variant == "b", 0.3, 0.2)
    >>> compare({"variant": variant, "click": click}, "variant", reward="click")["target"].to_pylist()
    ['a', 'b', 'b − a']
    """
    interval = checks.option("interval", interval, COMPARABLE)
    checks.strictly_between("confidence", confidence, 0.0, 1.0)
    checks.text("groups", groups)
    checks.text("reward", reward)
    whole, column = _visitors(log, groups, reward, timed=mature is not None)
    found = assignment(whole, column)
    names, expected = found.names, found.shares(shares)
    base = 0 if baseline is None else names.index(found.named("baseline", baseline))
    judged = DecisionLog(Grouped(whole.source, column, names, expected), whole.name)
    error = 1.0 - confidence
    sequenced = interval in KINDS
    targets: Any = [ArmTarget(i, str(name)) for i, name in enumerate(names)]
    estimators: Any = "ipw" if sequenced else "snipw"
    request = Request(
        log=judged, targets=targets, estimators=estimators, interval=interval,
        confidence=1.0 - error / len(names), reward_range=reward_range, missing=missing, mature=mature,
        drift=drift, paired=True, smallest_probability=min(expected),
    )  # fmt: skip
    if not found.at_random(expected):
        warn(_disorder(request))
    others = [i for i in range(len(names)) if i != base]
    pairs = [(i, base) for i in others] if sequenced else []
    pair_confidence = 1.0 - error / len(others)
    reading = Reading()
    contest = hold(request, judged, reading, pairs, pair_confidence, progress, executor)
    reading.finish(judged, request.possible)
    for doubt in doubts(request, reading, judged, contest.tallies):
        warn(doubt)
    rows = [
        _group(target.name, tally) for target, tally in zip(request.targets, contest.tallies, strict=True)
    ]
    for i in others:
        row = _gain(rows[i], rows[base], contest.bounds(i, base, pair_confidence))
        if math.isnan(row[3]) and sequenced and not (contest.refuted(i) or contest.refuted(base)):
            warn(no_value(row[0], judged, request))
        rows.append(row)
    arrow = table(request, reading, rows).to_arrow()
    return Table(arrow.replace_schema_metadata({**arrow.schema.metadata, b"confidence": repr(confidence)}))


Row = tuple[Any, ...]


def _group(name: str, tally: Tally) -> Row:
    """A group's row, with the mean of its rewards as the estimate."""
    _, _, estimate, *rest = next(tally.rows(name))
    weight = tally.weights[PLAIN].mean
    mean = estimate if tally.moments[0].ratio else (estimate / weight if weight else math.nan)
    return name, MEAN, mean, *rest


def _gain(row: Row, base: Row, bounds: tuple[float, float]) -> Row:
    """The row of a difference of two groups."""
    low, high = bounds
    valid = "—" if math.isnan(low) else row[7]
    return f"{row[0]} − {base[0]}", MEAN, row[2] - base[2], low, high, row[5], row[6] + base[6], valid


def _disorder(request: Request) -> str:
    """That groups do not come in the order of random draws: what learns in the rows' order is wrong then."""
    seen = (
        "the order of the rows is not that of visitors put into groups at random (by chance it is so in at "
        f"most one of {round(1 / MISMATCH):,} tests)"
    )
    if request.ordered:
        raise BadValue(
            "groups",
            f"groups must come in random order for this interval, and {seen}: shuffle the rows if they were "
            "only sorted, or leave out interval and drift=False",
        )
    return (
        f"{seen}: rows that are only sorted do no harm, but if groups came at different times, or visitors "
        "have several rows, no interval holds"
    )


def _visitors(log: Any, groups: str, reward: str, timed: bool) -> tuple[DecisionLog, str]:
    """What was given as a log, and its column with the groups."""
    if isinstance(log, (str, os.PathLike)) and Path(log).exists():
        have = ParquetSource(Path(log)).columns
        if have and not {"arm", "probability"} <= set(have):
            _require(have, groups, reward)
            where = {"arm": groups, "probability": 1.0, "reward": reward}
            opened = as_log(DecisionLog.open(log, where))
            return opened, named_arms(opened)
    if isinstance(log, (DecisionLog, str, os.PathLike)):
        if reward != "reward":
            raise BadValue("reward", f"reward must be the log's own column 'reward', got {reward!r}")
        return as_log(log), groups
    if not (isinstance(log, Mapping) or hasattr(log, "iloc") or hasattr(log, "__arrow_c_stream__")):
        kinds = "a log, the path of one, a pyarrow, pandas or polars table or a dictionary of arrays"
        raise BadType("log", f"log must be {kinds}, got {log!r}")
    content = log if isinstance(log, Mapping) or hasattr(log, "iloc") else pa.table(log)
    have = content.column_names if isinstance(content, pa.Table) else [str(name) for name in content]
    _require(have, groups, reward)
    # No other column is looked at: those of a table may have a log's names and other meanings.
    also = [name for name in ("decision_id", *(("time", "reward_time") if timed else ())) if name in have]
    columns = {name: content[name] for name in also} | {"group": content[groups], "reward": content[reward]}
    size = len(columns["group"])
    columns |= {"arm": np.zeros(size, np.int64), "probability": np.ones(size)}
    return as_log(DecisionLog.from_table(columns)), "group"


def named_arms(log: DecisionLog) -> str:
    """The column with the names of the arms, or with their numbers."""
    return "arm_id" if holds(log, "arm_id") else "arm"


def _require(have: Sequence[str], groups: str, reward: str) -> None:
    for field, name in (("groups", groups), ("reward", reward)):
        if name not in have:
            raise BadValue(field, f"{field} must be one of the columns {', '.join(have)}, got {name!r}")
