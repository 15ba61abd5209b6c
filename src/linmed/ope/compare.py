"""Compare groups of visitors with each other, as in an A/B test, however often one looks."""

import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import gammaln

from linmed import validation
from linmed.log import SCHEMA, DecisionLog, Malformed, ParquetSource, Source
from linmed.log.source import View
from linmed.ope.accumulators import Tally
from linmed.ope.evaluate import COMPARABLE, Judged, Progress, judge, table
from linmed.ope.intervals import asymptotic_quantile, honest, quantile, warn
from linmed.ope.log_facts import WORTH, as_log, holds, require
from linmed.ope.plan import Plan, Recent
from linmed.ope.scan import Reader, Reading, Rounds, possible_rewards
from linmed.ope.targets import ArmTarget
from linmed.ope.warnings import no_value, of_waiting
from linmed.question import CONFIDENCE, INTERVAL, MISSING, Question, Rewards, ask, asks
from linmed.report.tables import Table
from linmed.validation import BadType, BadValue, Floats, Ints

MOST = 100
MISMATCH = 1e-3
"""How probable it is, ever, that groups assigned as they should be are called otherwise."""
LOOKED_AT = 1 << 17
"""Rows in which units are looked for."""
FEWEST = 20
"""Values of a column that names units, for each group, at least."""
NESTED = 0.95
"""Share of a unit's rows that follow one of the same group, at least: a few may be astray."""


@dataclass(frozen=True)
class Grouped(View):
    """A log as one of a randomised experiment: the arm is a visitor's group, its probability the share."""

    made = ("arm", "arm_count", "probability")
    groups: str
    names: tuple[Any, ...]
    shares: tuple[float, ...]
    unit: str | None = None
    """The column with the unit that was put into a group, where that is not the row."""

    @property
    def columns(self) -> list[str]:
        """What comparing groups needs."""
        wanted = ("reward", "time", "reward_time", *WORTH, self.unit)
        kept = [name for name in wanted if name in self.source.columns]
        return [*self.made, *kept]

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """The source's batches with groups for arms."""
        taken = [name for name in columns if name not in self.made]
        names, shares = pa.array(self.names), np.asarray(self.shares)
        for batch in self.source.read(list(dict.fromkeys([self.groups, *taken])), rows, malformed):
            group = _plain(batch.column(self.groups))
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
        return [(label, dataclasses.replace(self, source=piece)) for label, piece in self.source.pieces()]


@dataclass(frozen=True, eq=False)
class Assignment:
    """Who was put where."""

    names: tuple[Any, ...]
    """The groups, sorted."""
    counts: Floats  # (G,) visitors of each
    follows: Floats  # (G, G) how often each came next after each

    def named(self, field: str, given: Any) -> Any:
        """Find the group that is given, as it is or as it is printed."""
        found = [name for name in self.names if type(name) is type(given) and name == given]
        found = found or [name for name in self.names if str(name) == str(given)]
        if not found:
            known = ", ".join(map(repr, self.names))
            raise BadValue(field, f"{field} must be one of the groups {known}, got {given!r}")
        return found[0]

    def shares(self, given: Any) -> tuple[float, ...]:
        """Each group's share of the visitors, equal unless given; refused where the sizes say otherwise."""
        size = len(self.names)
        if given is None:
            given = dict.fromkeys(self.names, 1.0 / size)
        if not isinstance(given, Mapping):
            raise BadType("shares", f"shares must be a mapping like {{'a': 0.5, 'b': 0.5}}, got {given!r}")
        found = {
            self.named("shares", name): validation.positive("shares", share) for name, share in given.items()
        }
        if len(found) < size or len(found) < len(given):
            asked = f"shares must name the groups {list(self.names)}, each once"
            raise BadValue("shares", f"{asked}, got {list(given)}")
        values = np.array([found[name] for name in self.names])
        if abs(values.sum() - 1.0) > 1e-6:
            raise BadValue("shares", f"shares must sum to one, got {values.sum():g}")
        if log_evidence(self.counts[None], values) >= -math.log(MISMATCH):
            n = self.counts.sum()
            sizes = zip(self.names, self.counts, strict=True)
            seen = ", ".join(f"{name} {count:,.0f} ({count / n:.1%})" for name, count in sizes)
            wanted = ", ".join(f"{share:.1%}" for share in values)
            raise BadValue(
                "shares",
                f"shares must be those that visitors were assigned with: the groups have {seen} where "
                f"{wanted} were expected, which happens by chance in at most one of {round(1 / MISMATCH):,} "
                "tests. Give the true shares, or find out why visitors are missing",
            )
        return tuple(values.tolist())

    def at_random(self, shares: Sequence[float]) -> bool:
        """Whether groups came in the order of random draws: not sorted, nor in turns, nor in clusters."""
        return log_evidence(self.follows, np.asarray(shares)) < -math.log(MISMATCH)


def log_evidence(counts: Floats, shares: Floats) -> float:
    """Compute the logarithm of an e-value, valid at any time, against independent draws by `shares` (G,).

    counts (S, G): how often each group came, apart for each of S states known before. The Dirichlet mixture
    Π_g Γ(n_g + ½)/Γ(½) · Γ(G/2)/Γ(n + G/2) predicts them without knowing shares; divided by Π_g share_g^n_g
    it is an e-process (Krichevsky & Trofimov 1981).
    """
    size = shares.size
    mixture = np.sum(gammaln(counts + 0.5) - gammaln(0.5)) - np.sum(
        gammaln(counts.sum(axis=1) + size / 2) - gammaln(size / 2)
    )
    return float(mixture - np.sum(counts * np.log(shares)))


class Codes(dict[Any, int]):
    """Number the values of a column by their first appearance, over all batches."""

    def of(self, field: str, values: pa.Array, row: Callable[[int], int]) -> Ints:
        """Give the number of each value; one that is absent is an error that names its `row`."""
        absent = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        if absent.any():
            missing = row(int(np.argmax(absent)))
            raise BadValue(field, f"{field} must be given in every row: row {missing} has none")
        encoded = values.dictionary_encode()
        own = [self.setdefault(one, len(self)) for one in encoded.dictionary.to_pylist()]
        codes: Ints = np.array(own, np.int64)[encoded.indices.to_numpy()]
        return codes


def assignment(log: DecisionLog, column: str) -> Assignment:
    """Read who is in which group by a column of a log."""
    require(log, [column], "comparing groups", "groups")
    codes = Codes()
    counts, follows = np.zeros(MOST), np.zeros((MOST, MOST))
    row, last = 0, np.empty(0, dtype=np.int64)
    for batch in log.batches([column]):
        values = _plain(batch.column(0))
        if pa.types.is_nested(values.type):
            raise BadValue("groups", f"groups must be names or numbers, got {values.type}")
        group = codes.of("groups", values, row.__add__)
        row += batch.num_rows
        if len(codes) > MOST:
            raise BadValue("groups", f"groups must be at most {MOST}, {log.name} has more")
        counts += np.bincount(group, minlength=MOST)
        path = np.concatenate([last, group])
        steps = np.bincount(path[:-1] * MOST + path[1:], minlength=MOST * MOST)
        follows += steps.reshape(MOST, MOST)
        last = group[-1:]
    if len(codes) < 2:
        raise BadValue("groups", f"groups must be at least two, {log.name} has {list(codes)} alone")
    names = sorted(codes)
    order = [codes[name] for name in names]
    return Assignment(tuple(names), counts[order], follows[np.ix_(order, order)])


class Units:
    """The rows of each unit summed up, in the order in which units came; memory grows with their number."""

    def __init__(self, unit: str, names: tuple[Any, ...]):
        self.unit, self.names = unit, names
        self.rows = 0
        self._codes = Codes()
        self._sums, self._counts = np.zeros(0), np.zeros(0)
        self._group, self._first = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._astray: tuple[Any, int, int] | None = None  # a unit of two groups, and a row of each

    def add(self, rounds: Rounds) -> None:
        """Absorb n judged rows."""
        values = _plain(rounds.extra[self.unit])
        code = self._codes.of("unit", values, rounds.row.item)
        self.rows += len(rounds)
        size = len(self._codes)
        new = size - self._sums.size
        self._sums, self._counts = (np.pad(array, (0, new)) for array in (self._sums, self._counts))
        self._group, self._first = (
            np.pad(array, (0, new), constant_values=-1) for array in (self._group, self._first)
        )
        _, start = np.unique(code, return_index=True)
        fresh = start[self._group[code[start]] < 0]
        self._group[code[fresh]], self._first[code[fresh]] = rounds.arm[fresh], rounds.row[fresh]
        other = np.flatnonzero(rounds.arm != self._group[code])
        if other.size and self._astray is None:
            place = int(other[0])
            name = values[place].as_py()
            self._astray = name, int(self._first[code[place]]), int(rounds.row[place])
        self._sums += np.bincount(code, rounds.reward, size)
        self._counts += np.bincount(code, minlength=size)

    @property
    def several(self) -> bool:
        """Whether some unit has several rows."""
        return self.rows > len(self._codes)

    def log(self, name: str) -> DecisionLog:
        """Make a log of one row a unit: its group, and the mean of its rewards."""
        if self._astray is not None:
            unit, first, row = self._astray
            raise BadValue(
                "unit",
                f"unit must be what was put into a group, and stay there: {unit!r} is in one group in row "
                f"{first} and in another in row {row}",
            )
        size = len(self._codes)
        made = DecisionLog.from_table(
            {
                "group": pa.array(self.names).take(pa.array(self._group)),
                "reward": self._sums / self._counts,
                "arm": np.zeros(size, np.int64),
                "probability": np.ones(size),
            }
        )
        return DecisionLog(made.source, name)


def repeated_unit(
    log: DecisionLog, groups: str, found: Assignment, columns: Sequence[str]
) -> tuple[str, int, int] | None:
    """The column of `columns` by whose values rows were put into groups, its values and its rows; or None.

    Names or whole numbers, many of them, some in several rows; rows of one value are almost always in one
    group, and by chance, had each row been drawn, they would be in at most one of a thousand tests. A
    visitor's country has rows in all groups; what a group was shown has few values.
    """
    size, best = len(found.names), None
    shares = found.counts / found.counts.sum()
    for name in columns:
        part = log[:LOOKED_AT].table([groups, name])
        values = part[name].combine_chunks()
        values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        kind = values.type
        if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            continue
        known = values.is_valid().to_numpy(zero_copy_only=False)
        encoded = values.filter(pa.array(known)).dictionary_encode()
        number = len(encoded.dictionary)
        if not FEWEST * size <= number < known.sum():
            continue
        group = _plain(part[groups].combine_chunks())
        arm = pc.index_in(group, value_set=pa.array(found.names).cast(group.type)).to_numpy()[known]
        code = encoded.indices.to_numpy()
        order = np.argsort(code, kind="stable")
        code, arm = code[order], arm[order].astype(np.int64)
        again = code[1:] == code[:-1]
        steps = np.bincount(arm[:-1][again] * size + arm[1:][again], minlength=size * size)
        follows = steps.reshape(size, size).astype(np.float64)
        evidence = log_evidence(follows, shares)
        sure = evidence >= math.log(len(columns) / MISMATCH)
        if sure and np.trace(follows) >= NESTED * follows.sum() and (best is None or evidence > best[0]):
            best = evidence, (name, number, int(known.sum()))
    return None if best is None else best[1]


def _plain(column: pa.Array) -> pa.Array:
    """Decode a dictionary, and make text as the one kind that Arrow can look up."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    text = pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type)
    return column.cast(pa.string()) if text else column


MEAN = "mean"
SIDES = ("policy", "control")
"""What the column `control` says, false and true."""
OTHER = "column "
"""What stands before the name of a table's column that may say whose row it is."""
LOOKS = ("any time", "asymptotic")
"""What `valid` says of intervals for many looks."""


@asks()
def compare(
    log: Any,
    groups: str = "arm",
    *,
    by: str | None = None,
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
    """Tell of an A/B test what each group earns per visitor, and how much more than `baseline`.

    `log`: a log, the path of a Parquet file, or any table (pandas, polars, pyarrow, a dictionary of arrays)
    with one row a visitor, whose column `reward` is what came of it. Of a log, `reward="utility"` is
    value · reward − cost, by its columns `value` and `cost`. `groups`: the column that says which group a
    visitor was put into, at random. `shares`: each group's share of the visitors; equal unless
    given. Groups whose sizes such shares would hardly produce (an e-value of 1,000, valid at any time) are
    refused: visitors were not assigned as is believed. `baseline` and `shares` may name groups as they are
    printed.

    `unit`: the column that says whose row it is, where visitors have several rows. Each then counts once,
    with the mean of its rewards; one that is in two groups is refused. Rows of one visitor are not
    independent: without `unit` intervals are far too narrow, and a column whose values look like such
    visitors is named in a warning. Until its last row a visitor's mean may change, so the answer is for one
    look (`valid`).

    `by="control"` compares what a policy drew with what its control group drew (`Agent(control=0.1)`). The
    log knows both sides and their shares, and each decision is a visitor.

    Rows as `evaluate` gives them: every group, then every difference to the `baseline`, the first group by
    name unless given. With probability `confidence` all differences are in their intervals, and with the
    same one all groups, at every n at once with "betting"; "normal" is for one look at a number fixed
    beforehand.

    Estimates are the groups' means. Nothing depends on the order of the rows; where groups do not come in
    random order (an e-value of 1,000 again) there is a warning.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> variant = rng.choice(["a", "b"], 4_000)
    >>> click = rng.random(4_000) < np.where(variant == "b", 0.3, 0.2)
    >>> compare({"variant": variant, "click": click}, "variant", reward="click")["target"].to_pylist()
    ['a', 'b', 'b − a']
    """
    interval = validation.option("interval", interval, COMPARABLE)
    question = ask(compare, interval=interval, confidence=confidence, reward_range=reward_range, **options)
    if by is not None:
        validation.option("by", by, ("control",))
        if groups != "arm" or unit is not None or shares is not None:
            raise BadValue("by", f"by={by!r} knows the groups: leave out groups, unit and shares")
        groups = by
    validation.text("groups", groups)
    validation.text("reward", reward)
    if unit is not None and validation.text("unit", unit) in (groups, reward):
        raise BadValue("unit", f"unit must be another column than groups and reward, got {unit!r}")
    whole, column, maybe, question = _visitors(log, groups, reward, unit, question)
    found = assignment(whole, column)
    units, seen = None, Reading()
    waiting: list[str] = []
    if unit is not None:
        units = _by_unit(whole, column, maybe[0], found, seen, question)
        waiting += of_waiting(question.missing, seen, whole)
        whole, column = units.log(whole.name), "group"
        question = dataclasses.replace(question, missing=MISSING, mature=None, reward=None)
        found = assignment(whole, column)
    suspect = repeated_unit(whole, column, found, maybe) if unit is None and by is None else None
    if suspect is not None:
        warn(_several_rows(*suspect))
    values = found.names
    if by is not None:
        share = _control_share(whole)
        found = dataclasses.replace(found, names=tuple(SIDES[bool(side)] for side in values))
        shares, baseline = dict(zip(SIDES, (1.0 - share, share), strict=True)), baseline or SIDES[True]
    try:
        names, expected = found.names, found.shares(shares)
    except BadValue as wrong:
        if suspect is None:
            raise
        raise BadValue(wrong.field, f"{wrong}. But {_several_rows(*suspect)}") from None
    base = 0 if baseline is None else names.index(found.named("baseline", baseline))
    judged = DecisionLog(Grouped(whole.source, column, values, expected), whole.name)
    error = 1.0 - confidence
    sequenced = interval == "betting"
    targets: Any = [ArmTarget(i, str(name)) for i, name in enumerate(names)]
    estimators: Any = "ipw" if sequenced else "snipw"
    plan = Plan.of(
        question, judged, targets, estimators, confidence=1.0 - error / len(names), paired=True,
        smallest_probability=min(expected),
    )  # fmt: skip
    shuffled = found.at_random(expected)
    if not shuffled:
        warn(DISORDER)
    others = [i for i in range(len(names)) if i != base]
    pairs = [(i, base) for i in others] if sequenced else []
    pair_confidence = 1.0 - error / len(others)
    contest = judge(
        plan, Recent(judged, None), pairs, pair_confidence, progress=progress, executor=executor
    )  # fmt: skip
    reading = contest.reading
    if not shuffled:
        reading.played.again[:] = 0.0  # said already
    for said in (*waiting, *contest.doubts()):
        warn(said)
    rows = [_group(target.name, tally) for target, tally in zip(plan.targets, contest.tallies, strict=True)]
    for i in others:
        row = _gain(rows[i], rows[base], _apart(contest, i, base, pair_confidence))
        if math.isnan(row[3]) and sequenced and not (contest.refuted(i) or contest.refuted(base)):
            warn(no_value(row[0], judged, plan))
        rows.append(row)
    if units is not None and units.several:
        rows = [(*row[:7], "one look" if row[7] in LOOKS else row[7]) for row in rows]
    arrow = table(plan, reading, rows).to_arrow()
    about = {b"confidence": repr(confidence), b"rows": str(units.rows if units else reading.rewarded)}
    about |= {b"waiting": str(seen.waiting)} if units else {}
    return Table(arrow.replace_schema_metadata({**arrow.schema.metadata, **about}))


def _control_share(log: DecisionLog) -> float:
    """Read how probable it was that the control group would draw, the same in all decisions."""
    require(log, ["control_share"], "by='control'", "by")
    seen: set[float | None] = set()
    for batch in log.batches(["control_share"]):
        seen.update(batch.column(0).unique().to_pylist())
    (share, *others) = sorted(seen, key=str)
    if others or share is None:
        text = ", ".join(map(str, (share, *others)))
        advice = "compare parts of it, as log.where(control_share=0.1)"
        raise BadValue(
            "by", f"by='control' needs one share of the control group in {log.name}, got {text}: {advice}"
        )
    return share


def _by_unit(
    whole: DecisionLog, column: str, unit: str, found: Assignment, seen: Reading, question: Question
) -> Units:
    """The judged rows of each unit summed up."""
    require(whole, [unit], "counting by unit", "unit")
    even = (1.0 / len(found.names),) * len(found.names)
    log = DecisionLog(Grouped(whole.source, column, found.names, even, unit), whole.name)
    possible = possible_rewards(question.reward_range, needed=question.interval == "betting")
    reader = Reader(
        extra=(unit,), possible=possible, missing=question.missing, mature=question.mature,
        utility=question.reward is not None,
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
    weight = tally.weights.mean
    mean = estimate if tally.moments[0].ratio else (estimate / weight if weight else math.nan)
    return name, MEAN, mean, *rest


def _apart(found: Judged, i: int, j: int, confidence: float) -> tuple[float, float]:
    """Bound how much more group i earns than group j, which never play the same arm.

    Without a sequence by a limit theorem for means of two groups: their errors are independent.
    """
    interval = found.plan.interval
    if found.refuted(i) or found.refuted(j) or interval == "none":
        return math.nan, math.nan
    if found.contrasts:
        return found.gain(i, j)[1:]
    one, other = (found.tallies[k].moments[0] for k in (i, j))
    z = asymptotic_quantile(one.n, confidence) if interval == "asymptotic" else quantile(confidence)
    gain, half = one.estimate - other.estimate, z * math.hypot(one.standard_error, other.standard_error)
    return honest(gain - half, gain + half)


def _gain(row: Row, base: Row, bounds: tuple[float, float]) -> Row:
    """The row of a difference of two groups."""
    low, high = bounds
    valid = "—" if math.isnan(low) else row[7]
    return f"{row[0]} − {base[0]}", MEAN, row[2] - base[2], low, high, row[5], row[6] + base[6], valid


DISORDER = (
    "the order of the rows is not that of visitors put into groups at random (by chance it is so in at most "
    f"one of {round(1 / MISMATCH):,} tests): rows that are only sorted do no harm, but if groups came at "
    "different times, or visitors have several rows and no unit is given, no interval holds"
)


def _visitors(
    log: Any, groups: str, reward: str, unit: str | None, question: Question
) -> tuple[DecisionLog, str, list[str], Question]:
    """What was given as a log, its column with the groups, that of the unit or all that may be it.

    And the question, which may be about the utility.
    """
    if isinstance(log, (str, os.PathLike)) and Path(log).exists():
        have = ParquetSource(Path(log)).columns
        if have and not {"arm", "probability"} <= set(have):
            _require(have, groups, reward, unit)
            where = {"arm": groups, "probability": 1.0, "reward": reward}
            opened = as_log(DecisionLog.open(log, where), question)
            return opened, named_arms(opened), _others(opened, groups, unit), question
    if isinstance(log, (DecisionLog, str, os.PathLike)):
        if reward != "reward":
            if reward != "utility":
                text = f"reward must be the log's own column 'reward', or 'utility', got {reward!r}"
                raise BadValue("reward", text)
            question = dataclasses.replace(question, reward=reward)
        opened = as_log(log, question)
        return opened, groups, _others(opened, groups, unit), question
    if not (isinstance(log, Mapping) or hasattr(log, "iloc") or hasattr(log, "__arrow_c_stream__")):
        kinds = "a log, the path of one, a pyarrow, pandas or polars table or a dictionary of arrays"
        raise BadType("log", f"log must be {kinds}, got {log!r}")
    content = log if isinstance(log, Mapping) or hasattr(log, "iloc") else pa.table(log)
    have = content.column_names if isinstance(content, pa.Table) else [str(name) for name in content]
    _require(have, groups, reward, unit)
    # Other columns may have a log's names and other meanings: they get names that no log has.
    also = [
        name
        for name in ("decision_id", *(("time", "reward_time") if question.mature is not None else ()))
        if name in have
    ]
    columns = {name: content[name] for name in also} | {"group": content[groups], "reward": content[reward]}
    others = [name for name in have if name not in (*also, groups, reward)] if unit is None else [unit]
    size = len(columns["group"])
    columns |= {"arm": np.zeros(size, np.int64), "probability": np.ones(size)}
    columns |= {OTHER + name: content[name] for name in others if unit or _names(content[name], size)}
    made = as_log(DecisionLog.from_table(columns), question)
    return made, "group", [name for name in made.columns if name.startswith(OTHER)], question


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
    """Name the column with the names of the arms, or with their numbers."""
    return "arm_id" if holds(log, "arm_id") else "arm"


def _require(have: Sequence[str], groups: str, reward: str, unit: str | None) -> None:
    for field, name in (("groups", groups), ("reward", reward), ("unit", unit)):
        if name is not None and name not in have:
            raise BadValue(field, f"{field} must be one of the columns {', '.join(have)}, got {name!r}")
