"""Groups of visitors: who is in which, whether at random, and a log whose arms they are."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import gammaln

from linmed import validation
from linmed.log import DecisionLog, Malformed, Source
from linmed.log.source import divided
from linmed.ope.log_facts import require
from linmed.ope.scan import Rounds
from linmed.validation import BadType, BadValue, Floats

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
class Grouped:
    """A log as one of a randomised experiment: the arm is a visitor's group, its probability the share."""

    source: Source
    groups: str
    names: tuple[Any, ...]
    shares: tuple[float, ...]
    unit: str | None = None
    """The column with the unit that was put into a group, where that is not the row."""

    @property
    def columns(self) -> list[str]:
        """What comparing groups needs."""
        kept = [name for name in ("reward", "time", "reward_time", self.unit) if name in self.source.columns]
        return ["arm", "arm_count", "probability", *kept]

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """The source's batches with groups for arms."""
        taken = [name for name in columns if name not in ("arm", "arm_count", "probability")]
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
        return [(label, dataclasses.replace(self, source=piece)) for label, piece in divided(self.source)]


@dataclass(frozen=True, eq=False)
class Assignment:
    """Who was put where."""

    names: tuple[Any, ...]
    """The groups, sorted."""
    counts: Floats  # (G,) visitors of each
    follows: Floats  # (G, G) how often each came next after each

    def named(self, field: str, given: Any) -> Any:
        """The group that is given, as it is or as it is printed."""
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
    """Logarithm of an e-value, valid at any time, against independent draws by `shares` (G,).

    counts (S, G): how often each group came, apart for each of S states known before. The Dirichlet mixture
    Π_g Γ(n_g + ½)/Γ(½) · Γ(G/2)/Γ(n + G/2) predicts them without knowing shares; divided by Π_g share_g^n_g
    it is an e-process (Krichevsky & Trofimov 1981).
    """
    size = shares.size
    mixture = np.sum(gammaln(counts + 0.5) - gammaln(0.5)) - np.sum(
        gammaln(counts.sum(axis=1) + size / 2) - gammaln(size / 2)
    )
    return float(mixture - np.sum(counts * np.log(shares)))


def assignment(log: DecisionLog, column: str) -> Assignment:
    """Who is in which group by a column of a log."""
    require(log, [column], "comparing groups", "groups")
    codes: dict[Any, int] = {}
    counts, follows = np.zeros(MOST), np.zeros((MOST, MOST))
    row, last = 0, np.empty(0, dtype=np.int64)
    for batch in log.batches([column]):
        values = _plain(batch.column(0))
        if pa.types.is_nested(values.type):
            raise BadValue("groups", f"groups must be names or numbers, got {values.type}")
        absent = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        if absent.any():
            missing = row + int(np.argmax(absent))
            raise BadValue("groups", f"groups must be given in every row: row {missing} has none")
        row += batch.num_rows
        encoded = values.dictionary_encode()
        own = [codes.setdefault(name, len(codes)) for name in encoded.dictionary.to_pylist()]
        if len(codes) > MOST:
            raise BadValue("groups", f"groups must be at most {MOST}, {log.name} has more")
        group = np.array(own)[encoded.indices.to_numpy()]
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
        self._codes: dict[Any, int] = {}
        self._sums, self._counts = np.zeros(0), np.zeros(0)
        self._group, self._first = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._astray: tuple[Any, int, int] | None = None  # a unit of two groups, and a row of each

    def add(self, rounds: Rounds) -> None:
        """Absorb n judged rows."""
        values = _plain(rounds.extra[self.unit])
        absent = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        if absent.any():
            row = int(rounds.row[np.argmax(absent)])
            raise BadValue("unit", f"unit must be given in every row: row {row} has none")
        self.rows += len(rounds)
        encoded = values.dictionary_encode()
        own = [self._codes.setdefault(one, len(self._codes)) for one in encoded.dictionary.to_pylist()]
        code = np.array(own)[encoded.indices.to_numpy()]
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
        """One row a unit: its group, and the mean of its rewards."""
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
    """Without a dictionary, and text as the one kind that Arrow can look up."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    text = pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type)
    return column.cast(pa.string()) if text else column
