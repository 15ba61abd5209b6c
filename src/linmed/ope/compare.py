"""`compare`: groups of visitors against each other, as in an A/B test, however often one looks."""

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import gammaln

from linmed import checks
from linmed.checks import BadType, BadValue
from linmed.log import DecisionLog, Malformed, ParquetSource, Source
from linmed.log.source import divided
from linmed.ope.contest import hold
from linmed.ope.doubts import no_value
from linmed.ope.evaluate import COMPARABLE, Progress, doubts, one_estimator, table
from linmed.ope.intervals import warn
from linmed.ope.reader import Reading
from linmed.ope.request import CONFIDENCE, INTERVAL, MISSING, as_log
from linmed.ope.rounds import require
from linmed.ope.sequences import KINDS
from linmed.ope.targets import ArmTarget
from linmed.tables import Table

MOST_GROUPS = 100
MISMATCH = 1e-3
"""How probable it is, ever, that groups of the shares they should have are called mismatched."""


@dataclass(frozen=True)
class Grouped:
    """A log as one of a randomised experiment: the arm is a visitor's group, its probability the share."""

    source: Source
    groups: str
    names: tuple[Any, ...]
    shares: tuple[float, ...]

    @property
    def columns(self) -> list[str]:
        """What comparing groups needs."""
        kept = [name for name in ("reward", "time", "reward_time") if name in self.source.columns]
        return ["arm", "arm_count", "probability", *kept]

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """The source's batches with groups for arms."""
        taken = [name for name in columns if name not in ("arm", "arm_count", "probability")]
        names, shares = pa.array(self.names), np.asarray(self.shares)
        text = pa.types.is_string(names.type)
        for batch in self.source.read(list(dict.fromkeys([self.groups, *taken])), rows, malformed):
            group = batch.column(self.groups)
            if pa.types.is_dictionary(group.type):
                group = group.dictionary_decode()
            # Arrow has several kinds of text, and some of them cannot be looked up.
            known, group = (names, group.cast(names.type)) if text else (names.cast(group.type), group)
            arm = pc.index_in(group, value_set=known).to_numpy(zero_copy_only=False)
            made = {
                "arm": pa.array(arm, pa.int64()),
                "arm_count": pa.array(np.full(batch.num_rows, shares.size)),
                "probability": pa.array(shares[arm]),
            }
            yield pa.RecordBatch.from_pydict(
                {name: made[name] if name in made else batch.column(name) for name in columns}
            )

    def pieces(self) -> list[tuple[str, Source]]:
        """Those of the source."""
        return [(label, dataclasses.replace(self, source=piece)) for label, piece in divided(self.source)]


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
    number fixed beforehand. `estimator` is "dr" unless given, "ipw" with "mixture" and "bernstein", which
    know no other.

    >>> visits = {"variant": ["a", "b"] * 200, "click": [0, 0, 0, 1] * 100}
    >>> compare(visits, "variant", reward="click", estimator="ipw")["estimate"].to_pylist()
    [0.0, 0.5, 0.5]
    """
    interval = checks.option("interval", interval, COMPARABLE)
    checks.strictly_between("confidence", confidence, 0.0, 1.0)
    checks.text("groups", groups)
    checks.text("reward", reward)
    whole, column = _visitors(log, groups, reward, timed=mature is not None)
    counts = _counts(whole, column, groups)
    names = tuple(counts)
    base = 0 if baseline is None else names.index(_group("baseline", baseline, names))
    expected = _shares(counts, shares)
    judged = DecisionLog(Grouped(whole.source, column, names, expected), whole.name)
    targets = [ArmTarget(i, str(name)) for i, name in enumerate(names)]
    if estimator is None:
        estimator = "ipw" if interval in ("mixture", "bernstein") else "dr"
    error = 1.0 - confidence
    request = one_estimator(
        judged, targets, estimator, interval, paired=True, confidence=1.0 - error / len(names),
        reward_range=reward_range, missing=missing, mature=mature, drift=drift,
        smallest_probability=min(expected),
    )  # fmt: skip
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
    found = table(request, reading, rows).to_arrow()
    return Table(found.replace_schema_metadata({**found.schema.metadata, "confidence": repr(confidence)}))


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


def _group(field: str, given: Any, names: Sequence[Any]) -> Any:
    """The group that is given, as it is or as it is printed."""
    found = [name for name in names if type(name) is type(given) and name == given]
    found = found or [name for name in names if str(name) == str(given)]
    if not found:
        known = ", ".join(map(repr, names))
        raise BadValue(field, f"{field} must be one of the groups {known}, got {given!r}")
    return found[0]


def _counts(log: DecisionLog, column: str, groups: str) -> dict[Any, int]:
    """How many visitors each group has, by name; `groups` is what the user calls the column."""
    require(log, [column], "comparing groups", "groups")
    counts: dict[Any, int] = {}
    row = 0
    for batch in log.batches([column]):
        values = batch.column(0)
        if pa.types.is_nested(values.type):
            raise BadValue("groups", f"groups must be names or numbers, {groups} has {values.type}")
        absent = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        if absent.any():
            missing = row + int(np.argmax(absent))
            raise BadValue("groups", f"groups must be given in every row: row {missing} has no {groups}")
        row += batch.num_rows
        for one in values.value_counts().to_pylist():
            counts[one["values"]] = counts.get(one["values"], 0) + one["counts"]
        if len(counts) > MOST_GROUPS:
            raise BadValue("groups", f"groups must be at most {MOST_GROUPS}, {groups} has more values")
    if len(counts) < 2:
        raise BadValue("groups", f"groups must be at least two, {groups} has {list(counts)} alone")
    return dict(sorted(counts.items()))


def _shares(counts: dict[Any, int], shares: Mapping[Any, float] | None) -> tuple[float, ...]:
    """Each group's share of the visitors, refused where the sizes say otherwise.

    Under true shares the Dirichlet mixture Π_g Γ(n_g + ½)/Γ(½) · Γ(G/2)/Γ(n + G/2), divided by Π_g
    share_g^n_g, is an e-process.
    """
    size, names = len(counts), list(counts)
    if shares is None:
        shares = dict.fromkeys(names, 1.0 / size)
    if not isinstance(shares, Mapping):
        raise BadType("shares", f"shares must be a mapping like {{'a': 0.5, 'b': 0.5}}, got {shares!r}")
    given = {_group("shares", name, names): share for name, share in shares.items()}
    if len(given) < size or len(given) < len(shares):
        raise BadValue("shares", f"shares must name the groups {names}, each once, got {list(shares)}")
    values = np.array([checks.positive("shares", given[name]) for name in names])
    if abs(values.sum() - 1.0) > 1e-6:
        raise BadValue("shares", f"shares must sum to one, got {values.sum():g}")
    n = np.array(list(counts.values()), dtype=np.float64)
    evidence = float(
        np.sum(gammaln(n + 0.5) - gammaln(0.5)) + gammaln(size / 2) - gammaln(n.sum() + size / 2)
        - np.sum(n * np.log(values))
    )  # fmt: skip
    if evidence >= -math.log(MISMATCH):
        seen = ", ".join(f"{name} {count:,} ({count / n.sum():.1%})" for name, count in counts.items())
        wanted = ", ".join(f"{share:.1%}" for share in values)
        raise BadValue(
            "shares",
            f"shares must be those that visitors were assigned with: the groups have {seen} where {wanted} "
            f"were expected, which happens by chance in at most one of {round(1 / MISMATCH):,} tests. Give "
            "the true shares, or find out why visitors are missing",
        )
    return tuple(values.tolist())
