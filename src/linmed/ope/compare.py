"""`compare`: groups of visitors against each other, as in an A/B test, however often one looks."""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from linmed import validation
from linmed.log import SCHEMA, DecisionLog, ParquetSource
from linmed.ope.accumulators import Tally
from linmed.ope.choose import hold
from linmed.ope.evaluate import COMPARABLE, Progress, doubts, table
from linmed.ope.groups import MISMATCH, Assignment, Grouped, Units, assignment, repeated_unit
from linmed.ope.intervals import warn
from linmed.ope.log_facts import holds, require
from linmed.ope.plan import PLAIN, Plan, as_log
from linmed.ope.scan import Reader, Reading, possible_rewards
from linmed.ope.sequences import KINDS
from linmed.ope.targets import ArmTarget
from linmed.ope.warnings import no_value, of_waiting
from linmed.question import CONFIDENCE, INTERVAL, MISSING, Question, Rewards, ask, asks
from linmed.report.tables import Table
from linmed.validation import BadType, BadValue

MEAN = "mean"
OTHER = "column "
"""What stands before the name of a table's column that may say whose row it is."""
LOOKS = ("any time", "any time, one value", "asymptotic")
"""What `valid` says of intervals for many looks."""


@asks
def compare(
    log: Any,
    groups: str = "arm",
    *,
    unit: str | None = None,
    baseline: Any = None,
    shares: Mapping[Any, float] | None = None,
    reward: str = "reward",
    interval: str = INTERVAL,
    confidence: float = CONFIDENCE,
    reward_range: tuple[float, float] | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
    **options: Unpack[Rewards],
) -> Table:
    """An A/B test: what each group earns per visitor, and how much more than `baseline`.

    `log`: a log, the path of a Parquet file, or any table (pandas, polars, pyarrow, a dictionary of arrays)
    with one row a visitor, whose column `reward` is what came of it. `groups`: the column that says which
    group a visitor was put into, at random. `shares`: each group's share of the visitors; equal unless
    given. Groups whose sizes such shares would hardly produce (an e-value of 1,000, valid at any time) are
    refused: visitors were not assigned as is believed. `baseline` and `shares` may name groups as they are
    printed.

    `unit`: the column that says whose row it is, where visitors have several rows. Each then counts once,
    with the mean of its rewards; one that is in two groups is refused. Rows of one visitor are not
    independent: without `unit` intervals are far too narrow, and a column whose values look like such
    visitors is named in a warning. Until its last row a visitor's mean may change, so the answer is for one
    look (`valid`).

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
    interval = validation.option("interval", interval, COMPARABLE)
    question = ask(compare, interval=interval, confidence=confidence, reward_range=reward_range, **options)
    validation.text("groups", groups)
    validation.text("reward", reward)
    if unit is not None and validation.text("unit", unit) in (groups, reward):
        raise BadValue("unit", f"unit must be another column than groups and reward, got {unit!r}")
    whole, column, maybe = _visitors(log, groups, reward, unit, timed=question.mature is not None)
    found = assignment(whole, column)
    units, seen = None, Reading()
    waiting: list[str] = []
    if unit is not None:
        units = _by_unit(whole, column, maybe[0], found, seen, question)
        waiting += of_waiting(question.missing, seen, whole)
        whole, column = units.log(whole.name), "group"
        question = dataclasses.replace(question, missing=MISSING, mature=None)
        found = assignment(whole, column)
    suspect = repeated_unit(whole, column, found, maybe) if unit is None else None
    if suspect is not None:
        warn(_several_rows(*suspect))
    try:
        names, expected = found.names, found.shares(shares)
    except BadValue as wrong:
        if suspect is None:
            raise
        raise BadValue(wrong.field, f"{wrong}. But {_several_rows(*suspect)}") from None
    base = 0 if baseline is None else names.index(found.named("baseline", baseline))
    judged = DecisionLog(Grouped(whole.source, column, names, expected), whole.name)
    error = 1.0 - confidence
    sequenced = interval in KINDS
    targets: Any = [ArmTarget(i, str(name)) for i, name in enumerate(names)]
    estimators: Any = "ipw" if sequenced else "snipw"
    plan = Plan.of(
        question, judged, targets, estimators, confidence=1.0 - error / len(names), paired=True,
        smallest_probability=min(expected),
    )  # fmt: skip
    shuffled = found.at_random(expected)
    if not shuffled:
        warn(_disorder(plan))
    others = [i for i in range(len(names)) if i != base]
    pairs = [(i, base) for i in others] if sequenced else []
    pair_confidence = 1.0 - error / len(others)
    reading = Reading()
    contest = hold(plan, judged, reading, pairs, pair_confidence, progress, executor)
    reading.finish(judged, plan.possible)
    if not shuffled:
        reading.played.again[:] = 0.0  # said already
    for said in (*waiting, *doubts(plan, reading, judged, contest.tallies)):
        warn(said)
    rows = [_group(target.name, tally) for target, tally in zip(plan.targets, contest.tallies, strict=True)]
    for i in others:
        row = _gain(rows[i], rows[base], contest.bounds(i, base, pair_confidence))
        if math.isnan(row[3]) and sequenced and not (contest.refuted(i) or contest.refuted(base)):
            warn(no_value(row[0], judged, plan))
        rows.append(row)
    if units is not None and units.several:
        rows = [(*row[:7], "one look" if row[7] in LOOKS else row[7]) for row in rows]
    arrow = table(plan, reading, rows).to_arrow()
    about = {b"confidence": repr(confidence), b"rows": str(units.rows if units else reading.rewarded)}
    about |= {b"waiting": str(seen.waiting)} if units else {}
    return Table(arrow.replace_schema_metadata({**arrow.schema.metadata, **about}))


def _by_unit(
    whole: DecisionLog, column: str, unit: str, found: Assignment, seen: Reading, question: Question
) -> Units:
    """The judged rows of each unit summed up."""
    require(whole, [unit], "counting by unit", "unit")
    even = (1.0 / len(found.names),) * len(found.names)
    log = DecisionLog(Grouped(whole.source, column, found.names, even, unit), whole.name)
    possible = possible_rewards(question.reward_range, needed=question.interval in KINDS)
    reader = Reader(
        extra=(unit,), possible=possible, missing=question.missing, mature=question.mature
    ).settled(log)  # fmt: skip
    units = Units(unit, found.names)
    for rounds in reader.scan(log, seen):
        units.add(rounds)
    seen.finish(log, possible)
    return units


def _several_rows(column: str, values: int, rows: int) -> str:
    """That rows are not what was put into groups."""
    name = column.removeprefix(OTHER)
    return (
        f"the column {name!r} has {values:,} values in {rows:,} rows, and rows of one value are in one "
        "group: groups were drawn for each of them, not for each row, and the intervals are too narrow. "
        f"Give unit={name!r}"
    )


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


def _disorder(plan: Plan) -> str:
    """That groups do not come in the order of random draws: what learns in the rows' order is wrong then."""
    seen = (
        "the order of the rows is not that of visitors put into groups at random (by chance it is so in at "
        f"most one of {round(1 / MISMATCH):,} tests)"
    )
    if plan.ordered:
        raise BadValue(
            "groups",
            f"groups must come in random order for this interval, and {seen}: shuffle the rows if they were "
            "only sorted, or leave out interval and drift=False",
        )
    return (
        f"{seen}: rows that are only sorted do no harm, but if groups came at different times, or visitors "
        "have several rows and no unit is given, no interval holds"
    )


def _visitors(
    log: Any, groups: str, reward: str, unit: str | None, timed: bool
) -> tuple[DecisionLog, str, list[str]]:
    """What was given as a log, its column with the groups, and that of the unit, or all that may be it."""
    if isinstance(log, (str, os.PathLike)) and Path(log).exists():
        have = ParquetSource(Path(log)).columns
        if have and not {"arm", "probability"} <= set(have):
            _require(have, groups, reward, unit)
            where = {"arm": groups, "probability": 1.0, "reward": reward}
            opened = as_log(DecisionLog.open(log, where))
            return opened, named_arms(opened), _others(opened, groups, unit)
    if isinstance(log, (DecisionLog, str, os.PathLike)):
        if reward != "reward":
            raise BadValue("reward", f"reward must be the log's own column 'reward', got {reward!r}")
        opened = as_log(log)
        return opened, groups, _others(opened, groups, unit)
    if not (isinstance(log, Mapping) or hasattr(log, "iloc") or hasattr(log, "__arrow_c_stream__")):
        kinds = "a log, the path of one, a pyarrow, pandas or polars table or a dictionary of arrays"
        raise BadType("log", f"log must be {kinds}, got {log!r}")
    content = log if isinstance(log, Mapping) or hasattr(log, "iloc") else pa.table(log)
    have = content.column_names if isinstance(content, pa.Table) else [str(name) for name in content]
    _require(have, groups, reward, unit)
    # Other columns may have a log's names and other meanings: they get names that no log has.
    also = [name for name in ("decision_id", *(("time", "reward_time") if timed else ())) if name in have]
    columns = {name: content[name] for name in also} | {"group": content[groups], "reward": content[reward]}
    others = [name for name in have if name not in (*also, groups, reward)] if unit is None else [unit]
    size = len(columns["group"])
    columns |= {"arm": np.zeros(size, np.int64), "probability": np.ones(size)}
    columns |= {OTHER + name: content[name] for name in others if unit or _names(content[name], size)}
    made = as_log(DecisionLog.from_table(columns))
    return made, "group", [name for name in made.columns if name.startswith(OTHER)]


def _others(log: DecisionLog, groups: str, unit: str | None) -> list[str]:
    """The columns that are no log's own, which may say whose row it is."""
    return [name for name in log.columns if name not in (groups, *SCHEMA.names)] if unit is None else [unit]


def _names(column: Any, size: int) -> bool:
    """Whether a table's column holds names or whole numbers, in a form that a log can take."""
    try:
        kind = pa.array(column).type if not isinstance(column, pa.ChunkedArray) else column.type
    except (pa.ArrowException, TypeError, ValueError):
        return False
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return (pa.types.is_integer(kind) or text) and len(column) == size


def named_arms(log: DecisionLog) -> str:
    """The column with the names of the arms, or with their numbers."""
    return "arm_id" if holds(log, "arm_id") else "arm"


def _require(have: Sequence[str], groups: str, reward: str, unit: str | None) -> None:
    for field, name in (("groups", groups), ("reward", reward), ("unit", unit)):
        if name is not None and name not in have:
            raise BadValue(field, f"{field} must be one of the columns {', '.join(have)}, got {name!r}")
