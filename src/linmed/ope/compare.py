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
from linmed.ope.evaluate import COMPARABLE, Progress, doubts, one_estimator, table
from linmed.ope.groups import MISMATCH, Grouped, assignment
from linmed.ope.intervals import warn
from linmed.ope.reader import Reading
from linmed.ope.request import CONFIDENCE, INTERVAL, MISSING, Request, as_log
from linmed.ope.sequences import KINDS
from linmed.ope.targets import ArmTarget
from linmed.tables import Table


def compare(
    log: Any,
    groups: str = "arm",
    *,
    baseline: Any = None,
    shares: Mapping[Any, float] | None = None,
    reward: str = "reward",
    estimator: Any = None,
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

    `estimator` is "dr" unless given. It learns in the order of the rows, so it is "ipw" where that order is
    not random, as in a table sorted by group (an e-value of 1,000 again, and a warning); and with "mixture"
    and "bernstein", which know no other.

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
    at_random = found.at_random(expected)
    if estimator is None:
        estimator = "dr" if at_random and interval not in ("mixture", "bernstein") else "ipw"
    judged = DecisionLog(Grouped(whole.source, column, names, expected), whole.name)
    targets = [ArmTarget(i, str(name)) for i, name in enumerate(names)]
    error = 1.0 - confidence
    request = one_estimator(
        judged, targets, estimator, interval, paired=True, confidence=1.0 - error / len(names),
        reward_range=reward_range, missing=missing, mature=mature, drift=drift,
        smallest_probability=min(expected),
    )  # fmt: skip
    if not at_random:
        warn(_disorder(request))
    pairs = [(i, base) for i in range(len(names)) if i != base]
    reading = Reading()
    contest = hold(request, judged, reading, pairs, 1.0 - error / len(pairs), progress, executor)
    reading.finish(judged, request.possible)
    for doubt in doubts(request, reading, judged, contest.tallies):
        warn(doubt)
    rows = [
        row for target, tally in zip(targets, contest.tallies, strict=True) for row in tally.rows(target.name)
    ]
    for (i, _), contrast in contest.contrasts.items():
        wrong = contest.refuted(i) or contest.refuted(base)
        row = (contrast.no_row if wrong else contrast.row)(f"{targets[i].name} − {targets[base].name}")
        if math.isnan(row[3]) and interval in KINDS and not wrong:
            warn(no_value(row[0], judged, request))
        rows.append(row)
    arrow = table(request, reading, rows).to_arrow()
    return Table(arrow.replace_schema_metadata({**arrow.schema.metadata, b"confidence": repr(confidence)}))


def _disorder(request: Request) -> str:
    """That groups do not come in the order of random draws: what learns in the rows' order is wrong then."""
    seen = (
        "the order of the rows is not that of visitors put into groups at random (by chance it is so in at "
        f"most one of {round(1 / MISMATCH):,} tests)"
    )
    if request.ordered:
        raise BadValue(
            "groups",
            f"groups must come in random order for this estimator and interval, and {seen}: shuffle the rows "
            "if they were only sorted, or leave out estimator, interval and drift=False",
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
            return plain(as_log(DecisionLog.open(log, {"arm": groups, "probability": 1.0, "reward": reward})))
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


def plain(log: DecisionLog) -> tuple[DecisionLog, str]:
    """A log whose arms are groups, and its column with their names."""
    return log, "arm_id" if "arm_id" in log.columns else "arm"


def _require(have: Sequence[str], groups: str, reward: str) -> None:
    for field, name in (("groups", groups), ("reward", reward)):
        if name not in have:
            raise BadValue(field, f"{field} must be one of the columns {', '.join(have)}, got {name!r}")
