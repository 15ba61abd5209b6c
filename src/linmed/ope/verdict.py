"""`verdict`: which arm is the best, from a log alone, whoever chose what was played."""

import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import validation
from linmed.insight.best_arm import DELTA, Verdict, Verdicts, judge
from linmed.log import BATCH, DecisionLog
from linmed.ope.learn import lessons
from linmed.ope.log_facts import holds
from linmed.ope.plan import Log, as_log
from linmed.policies.base import Policy
from linmed.report.tables import Table
from linmed.validation import BadValue, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GIVE = "give the arms that are to be compared"


@dataclass(frozen=True, eq=False)
class Arms:
    """The arms that are to be compared, and what they are called.

    >>> Arms.of([[1.0, 0.0], [0.0, 1.0]], names=["old", "new"]).names
    ('old', 'new')
    """

    features: Floats  # (K,d)
    names: tuple[str, ...]
    named: bool = True
    """Whether these are names of their own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", validation.arm_matrix(self.features))
        if len(self.names) != len(self.features):
            raise BadValue("arms", f"arms: {len(self.features)} arms have {len(self.names)} names")
        for i, name in enumerate(self.names):
            if not name.strip():
                raise BadValue(
                    "arms", f"arms: arm {i} has no name; a header must have no numbers, names no empty cell"
                )
            if self.names.count(name) > 1:
                raise BadValue("arms", f"arms: {name!r} stands for {self.names.count(name)} arms")

    @staticmethod
    def read(path: str | os.PathLike[str]) -> "Arms":
        """From a file: CSV with a line `name, x1, x2, …` or `x1, x2, …` for each arm, or JSON.

        JSON is a list of lists of numbers, or an object of such lists by name.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "arms.csv")
        ...     lines = path.write_text("name,x,y\\nold,1,0\\nnew,0,1\\n")
        ...     Arms.read(path).features.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        place = Path(path)
        if place.suffix.lower() == ".json":
            try:
                given = json.loads(place.read_text(encoding="utf-8"))
            except ValueError as error:
                raise BadValue("arms", f"{path} is not JSON: {error}") from None
            if isinstance(given, dict) and given:
                return Arms(validation.arm_matrix(list(given.values())), tuple(map(str, given)))
            return Arms.of(given)
        with open(place, newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file, skipinitialspace=True) if any(map(str.strip, line))]
        if lines and not any(map(_is_number, lines[0])):
            del lines[0]  # a header
        if not lines:
            raise BadValue("arms", f"{path} is empty: a line for each arm is needed")
        named = not all(_is_number(line[0]) for line in lines)
        rows = [line[1:] if named else line for line in lines]
        for number, row in enumerate(rows, 1):
            if wrong := next((cell for cell in row if not _is_number(cell)), None):
                raise BadValue("arms", f"{path}: {wrong!r} in arm {number} is not a number")
        matrix = validation.arm_matrix([[float(cell) for cell in row] for row in rows])
        return Arms(matrix, tuple(line[0].strip() for line in lines)) if named else Arms.of(matrix)

    @staticmethod
    def of(
        features: "Arms | Floats | Sequence[Sequence[float]]", names: Sequence[str] | None = None
    ) -> "Arms":
        """Arms (K,d), called "arm 0", "arm 1", … unless they have names."""
        if isinstance(features, Arms):
            return features
        matrix = validation.arm_matrix(features)
        if names is not None:
            return Arms(matrix, tuple(names))
        return Arms(matrix, tuple(f"arm {i}" for i in range(len(matrix))), named=False)


@dataclass(frozen=True, eq=False)
class LogVerdict:
    """What a log says of some arms; all looks, one after each reward, are taken together.

    >>> from linmed import LinMED
    >>> from linmed.ope import DecisionLog, verdict
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.2, 0.6] * 100}
    >>> log = DecisionLog.from_table(played | {"features": [[1.0, 0.0], [0.0, 1.0]] * 100})
    >>> found = verdict(log, LinMED(sigma=0.5))
    >>> found.decided_after, [(row["arm"], row["possible"]) for row in found.table.to_pylist()]
    (170, [('arm 1', 'yes'), ('arm 0', 'no')])

    >>> from matplotlib.figure import Figure
    >>> [label.get_text() for label in found.plot(Figure().subplots()).get_yticklabels()]
    ['arm 1', 'arm 0']
    """

    verdict: Verdict
    arms: Arms
    decided_after: int | None
    """How many rewards were enough; None if they were not."""

    def __str__(self) -> str:
        found = self.verdict.sentence(self._names)
        if (
            self.verdict.arms > 1
            and self.decided_after is not None
            and self.decided_after < self.verdict.count
        ):
            good = (
                f" That it is within {self.verdict.epsilon:g} of the best"
                if self.verdict.epsilon
                else " That"
            )
            found += f"{good} was known after {self.decided_after:,}."
        return found

    def _repr_html_(self) -> str:
        return self.verdict.html(self._names) + self.table._repr_html_()

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """How each arm compares with the best one: see `Verdict.plot`."""
        return self.verdict.plot(ax, self._names)

    @property
    def _names(self) -> tuple[str, ...] | None:
        return self.arms.names if self.arms.named else None

    @property
    def table(self) -> Table:
        """One row per arm, the best first: how much less than `best` it pays, and what it pays itself."""
        verdict, values = self.verdict, self.verdict.estimates
        possible = set(verdict.candidates)
        rows = [
            {
                "arm": self.arms.names[i],
                **less._asdict(),
                "value": float(values[i]),
                "possible": "yes" if i in possible else "no",
            }
            for i, less in enumerate(verdict.differences())
        ]
        order = sorted(range(len(rows)), key=lambda i: (i != verdict.best, -values[i], i))
        return Table(rows[i] for i in order)


def verdict(
    log: Log,
    policy: Policy,
    arms: "Arms | Floats | Sequence[Sequence[float]] | None" = None,
    *,
    delta: float = DELTA,
    epsilon: float = 0.0,
    missing: str | float = "skip",
    mature: float | timedelta | None = None,
    batch: int = BATCH,
    progress: Callable[[int], object] | None = None,
) -> LogVerdict:
    """Which arm is the best, by a ridge estimate over a log's rewards and the confidence set of `policy`.

    The log's probabilities play no part: whoever chose the arms may have learned. `arms` (K,d) may be left
    out where every decision had the same. `missing` and `mature` are as in `learn_from`.

    >>> from linmed import LinMED
    >>> from linmed.ope import DecisionLog
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.2, 0.6] * 100}
    >>> log = DecisionLog.from_table(played | {"features": [[1.0, 0.0], [0.0, 1.0]] * 100})
    >>> found = verdict(log, LinMED(sigma=0.5))
    >>> found.verdict.best, found.decided_after, found.verdict.count
    (1, 170, 200)
    """
    by = judge(policy, delta)
    log = as_log(log)
    chosen = _arms_of(log) if arms is None else Arms.of(arms)
    verdicts = Verdicts(chosen.features, delta, epsilon)
    dim = chosen.features.shape[1]
    state, found = by.start(1, dim), None
    for vectors, rewards, _ in lessons(
        log, dim, missing=missing, mature=mature, batch=batch, progress=progress
    ):
        found = verdicts.learn(by, state, validation.for_kernels(vectors), validation.for_kernels(rewards))
    assert found is not None
    return LogVerdict(found, chosen, verdicts.decided_after)


def _arms_of(log: DecisionLog) -> Arms:
    """The arms that every decision of a log had."""
    if holds(log, "arms"):
        every = _same_arms(log)
        return Arms.of(every, _names(log, len(every)))
    if "features" in log.columns and "arm" in log.columns:
        every = _played_arms(log)
        return Arms.of(every, _names(log, len(every)))
    raise BadValue(
        "log",
        f"{log.name} has no features of arms (a column 'arms' or 'features'), by which a verdict compares "
        "them. For groups of visitors as in an A/B test there is linmed compare",
    )


def _same_arms(log: DecisionLog) -> Floats:
    """The column `arms`, the same in every row."""
    first: Floats | None = None
    row = 0
    for batch in log.batches(["arms"]):
        column = batch.column(0)
        if first is None:
            first = validation.arm_matrix(column[0].as_py())
        same = pc.list_value_length(column).to_numpy() == len(first)
        if same.all():
            rows = column.flatten()
            wide = pc.list_value_length(rows).to_numpy() == first.shape[1]
            same = wide.reshape(-1, len(first)).all(axis=1)
            if same.all():
                numbers = rows.flatten().to_numpy(zero_copy_only=False).reshape(-1, *first.shape)
                same = (numbers == first).all(axis=(1, 2))
        if not same.all():
            raise BadValue(
                "arms", f"the arms of {log.name} change, first in row {row + same.argmin()}: {GIVE}"
            )
        row += len(column)
    if first is None:
        raise BadValue("log", f"{log.name} is empty")
    return first


def _played_arms(log: DecisionLog) -> Floats:
    """The features of every arm, from the rows in which it was played."""
    found: dict[int, Floats] = {}
    count = 0
    for batch in log.batches(["arm", "features", *(["arm_count"] if "arm_count" in log.columns else [])]):
        if batch.column(0).null_count or batch.column(1).null_count:
            raise BadValue("log", f"{log.name} has rows without features, which a verdict is made from")
        if "arm_count" in batch.schema.names:
            count = max(count, pc.max(batch.column("arm_count")).as_py() or 0)
        numbers = batch.column(0).to_numpy()
        vectors = validation.floats("features", batch.column(1).to_pylist())
        for arm in np.unique(numbers).tolist():
            own = vectors[numbers == arm]
            known = found.setdefault(arm, own[0])
            if known.shape != own[0].shape or (own != known).any():
                raise BadValue("arms", f"the features of arm {arm} change in {log.name}: {GIVE}")
    if not found:
        raise BadValue("log", f"{log.name} is empty")
    missing = sorted(set(range(max(count, max(found) + 1))) - set(found))
    if missing:
        raise BadValue(
            "arms", f"{log.name} does not tell the features of arm {missing[0]}, never played: {GIVE}"
        )
    return validation.arm_matrix([found[arm] for arm in sorted(found)])


def _names(log: DecisionLog, count: int) -> tuple[str, ...] | None:
    """The column `arm_id` by arm, where it names each of so many, and once."""
    if not {"arm", "arm_id"} <= set(log.columns):
        return None
    names: dict[int, str] = {}
    for arm, name in _pairs(log):
        if name is None or names.setdefault(arm, name) != name:
            return None
    complete = set(names) == set(range(count)) and len(set(names.values())) == len(names)
    return tuple(names[arm] for arm in sorted(names)) if complete and names else None


def _pairs(log: DecisionLog) -> Iterator[tuple[int, str | None]]:
    for batch in log.batches(["arm", "arm_id"]):
        pairs = pa.Table.from_batches([batch]).group_by(["arm", "arm_id"]).aggregate([])
        yield from zip(pairs["arm"].to_pylist(), pairs["arm_id"].to_pylist(), strict=True)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
