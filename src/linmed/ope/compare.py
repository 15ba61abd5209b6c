"""`compare`: groups of visitors against each other, as in an A/B test, however often one looks."""

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import gammaln

from linmed import checks
from linmed.checks import BadValue
from linmed.log import DecisionLog, Malformed, Source
from linmed.log.source import divided
from linmed.ope.contest import hold
from linmed.ope.evaluate import COMPARABLE, Progress, doubts, one_estimator, table
from linmed.ope.intervals import warn
from linmed.ope.reader import Reading
from linmed.ope.request import CONFIDENCE, INTERVAL, MISSING, as_log
from linmed.ope.targets import ArmTarget
from linmed.tables import Table

MOST_GROUPS = 100
MISMATCH = 1e-3
"""How probable it is, ever, that groups of the shares they should have are called mismatched."""


@dataclass(frozen=True)
class Grouped:
    """A log as one of a randomised experiment: a decision's arm is its group, and its probability the share."""

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
        for batch in self.source.read(list(dict.fromkeys([self.groups, *taken])), rows, malformed):
            group = batch.column(self.groups)
            if pa.types.is_dictionary(group.type):
                group = group.dictionary_decode()
            arm = pc.index_in(group, value_set=names.cast(group.type)).to_numpy(zero_copy_only=False)
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
    estimator: Any = "dr",
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

    `log`: a log, or any table (pandas, polars, pyarrow, a dictionary of arrays) with one row a visitor, whose column
    `reward` is what came of it. `groups`: the column that says which group a visitor was put into, at random.
    `shares`: each group's share of the visitors; equal unless given. Groups whose sizes such shares would hardly
    produce (an e-value of 1,000, valid at any time) are refused: assignment was not what it is believed to be.

    Rows as `evaluate` gives them: every group, then every difference to the `baseline`, the first group by name
    unless given. With probability `confidence` all differences are in their intervals, and with the same one all
    groups, at every n at once with the sequences ("betting"); "normal" is for one look at a number fixed beforehand.
    """
    interval = checks.option("interval", interval, COMPARABLE)
    checks.strictly_between("confidence", confidence, 0.0, 1.0)
    if isinstance(log, (DecisionLog, str, os.PathLike)):
        whole = as_log(log)
    else:
        whole = DecisionLog.from_table(log, {"arm": groups, "probability": 1.0, "reward": reward})
        groups = "arm_id" if "arm_id" in whole.columns else "arm"
    counts = _counts(whole, groups)
    names = tuple(counts)
    if baseline is not None and baseline not in counts:
        known = ", ".join(map(repr, names))
        raise BadValue("baseline", f"baseline must be one of the groups {known}, got {baseline!r}")
    first = names[0] if baseline is None else baseline
    expected = _shares(counts, shares)
    judged = DecisionLog(Grouped(whole.source, groups, names, expected), whole.name)
    targets = [ArmTarget(i, str(name)) for i, name in enumerate(names)]
    error = 1.0 - confidence
    request = one_estimator(
        judged, targets, estimator, interval, paired=True, confidence=1.0 - error / len(names),
        reward_range=reward_range, missing=missing, mature=mature, drift=drift,
    )  # fmt: skip
    base = names.index(first)
    pairs = [(i, base) for i in range(len(names)) if i != base]
    reading = Reading()
    contest = hold(request, judged, reading, pairs, 1.0 - error / len(pairs), progress, executor)
    reading.finish(judged, request.possible)
    for doubt in doubts(request, reading, judged, contest.tallies):
        warn(doubt)
    rows = [
        row for target, tally in zip(targets, contest.tallies, strict=True) for row in tally.rows(target.name)
    ]
    rows += [contrast.row(f"{names[i]} − {first}") for (i, _), contrast in contest.contrasts.items()]
    return table(request, reading, rows)


def _counts(log: DecisionLog, groups: str) -> dict[Any, int]:
    """How many visitors each group has, by name."""
    log.require([groups], "comparing groups")
    counts: dict[Any, int] = {}
    row = 0
    for batch in log.batches([groups]):
        column = batch.column(0)
        if column.null_count:
            missing = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise BadValue("groups", f"{groups} must be given in every row: row {row + missing} has none")
        row += batch.num_rows
        for one in column.value_counts().to_pylist():
            counts[one["values"]] = counts.get(one["values"], 0) + one["counts"]
        if len(counts) > MOST_GROUPS:
            raise BadValue("groups", f"groups must be at most {MOST_GROUPS}, {groups} has more values")
    if len(counts) < 2:
        raise BadValue("groups", f"groups must be at least two, {groups} has {list(counts)} alone")
    return dict(sorted(counts.items()))


def _shares(counts: dict[Any, int], shares: Mapping[Any, float] | None) -> tuple[float, ...]:
    """Each group's share of the visitors, refused where the sizes say otherwise.

    Under true shares the Dirichlet mixture Π Γ(n_g + ½)/Γ(½) · Γ(G/2)/Γ(n + G/2) over Π share_g^n_g is an e-process.
    """
    size = len(counts)
    given = dict.fromkeys(counts, 1.0 / size) if shares is None else dict(shares)
    if set(given) != set(counts):
        raise BadValue("shares", f"shares must name the groups {list(counts)}, got {list(given)}")
    values = np.array([checks.positive("shares", given[name]) for name in counts])
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
            f"were expected, which happens by chance in at most one of {round(1 / MISMATCH):,} tests. Give the "
            "true shares, or find out why visitors are missing",
        )
    return tuple(values.tolist())
