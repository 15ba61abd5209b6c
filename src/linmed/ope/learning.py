"""Learn from a log's rewards: an agent, a verdict, changes of the world. No probabilities are needed."""

import csv
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import validation
from linmed.agent import Agent
from linmed.insight.best_arm import DELTA, Verdict, Verdicts, judge
from linmed.insight.drift import Drift, drift_of
from linmed.log import DecisionLog
from linmed.log.schema import TIME
from linmed.ope.log_facts import Log, as_log, begins_with, holds, pairs, require
from linmed.ope.scan import Problems, Reader, Reading, Rounds
from linmed.ope.targets import is_list
from linmed.policies import Forgetful, LinMED
from linmed.policies.base import Policy, as_policy
from linmed.question import Lessons, Question, ask, asks
from linmed.report.figures import BOUND, INK, LEADING, axes, styled
from linmed.report.tables import Table
from linmed.validation import BadType, BadValue, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Progress = Callable[[int], object]
GIVE = "give the arms that are to be compared"
HEIGHT = 3.2
KEPT = 200
"""Looks at a log that are kept at least, of a log with as many rewards."""
WATCH = Forgetful(LinMED(sigma="unknown", norm_bound="unknown"))
"""Tells the noise and the size of θ* from the rewards themselves."""
FEW = 10
"""So many different rewards, or fewer, are no Gaussian's."""


@asks(missing="skip")
def learn_from(
    log: Log,
    policy: Policy,
    *,
    dim: int | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[Lessons],
) -> Agent:
    """Make an agent with `policy` that has observed every rewarded decision of a log: its arm, its reward.

    One pass, in the log's order. What was played is the column `features`, or the entry `arm` of `arms` where
    features are not in every row. `dim` need not be given; another one in the log is then refused. `seed` is
    the agent's. Wrong rows are named, and then there is no agent.

    Decisions without a reward are left out ("skip"): right if lateness, given the arm, does not depend on the
    reward. Where clicks are known at once and their absence only after a timeout, the agent would believe
    that everybody clicks: `missing=0.0` with `mature` says what none by then means. The log's probabilities
    play no part. Judge the agent on other decisions, never on those it has learned from.

    >>> from linmed import LinMED
    >>> from linmed.ope import DecisionLog
    >>> played = {"arm": [0, 1, 0], "probability": [0.5, 0.5, 0.5], "reward": [1.0, 0.0, None]}
    >>> log = DecisionLog.from_table(played | {"features": [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]})
    >>> learn_from(log, LinMED(), seed=7).theta.tolist()
    [0.5, 0.0]
    """
    as_policy(policy)
    if not policy.learns_from_arms:
        raise BadValue(
            "policy",
            f"policy must learn from arms, as LinMED() does: {policy.name} cannot learn from another "
            "policy's decisions, only from its own, at their moment (Replay lets it take them)",
        )
    if seed is not None:
        validation.whole("seed", seed, at_least=0)
    question = ask(learn_from, **options)
    log = as_log(log, question)
    agent: Agent | None = None
    if policy.capabilities.clock:
        require(log, ["time"], f"{policy.name}, which forgets by the clock", "log")
    for vectors, rewards, times in lessons(log, question, dim, progress):
        agent = agent or Agent(policy, vectors.shape[1], seed)
        try:
            agent.observe(vectors, rewards, times)
        except ValueError as error:
            raise BadValue("policy", f"{policy.name} cannot learn from {log.name}: {error}") from None
    assert agent is not None
    return agent


def lessons(
    log: DecisionLog, question: Question, dim: int | None = None, progress: Progress | None = None
) -> Iterator[tuple[Floats, Floats, Floats | None]]:
    """Yield what was played (n,d) and paid (n,), and when (n,); wrong rows are named at the end.

    Times are in seconds since 1970, and None where the log has none.
    """
    if dim is not None:
        dim = validation.whole("dim", dim)
    own = holds(log, "features") or ("features" in log.columns and not holds(log, "arms"))
    if not own:
        require(log, ["arms"], "learning without the column 'features'", "log")
    timed = ("time",) if begins_with(log, "time") else ()
    reader = Reader(
        columns=() if own else ("arms",), extra=("features", *timed) if own else timed,
        missing=question.missing, mature=question.mature, batch=question.batch,
    ).settled(log)  # fmt: skip
    reading, wrong = Reading(), Problems()
    for rounds in reader.scan(log, reading):
        vectors = (_features if own else _played)(rounds, dim, wrong)
        _require_small("features", rounds, vectors, wrong)
        _require_small("reward", rounds, rounds.reward[:, None], wrong)
        times = _times(rounds, wrong) if timed else None
        if not wrong:
            dim = vectors.shape[1]
            yield vectors, rounds.reward, times
        if progress is not None:
            progress(reading.decisions)
    reading.problems.merge(wrong, 0)
    reading.finish(log)


def _features(rounds: Rounds, dim: int | None, problems: Problems) -> Floats:
    """Read the column `features`, (n, d)."""
    column = rounds.extra["features"]
    kind = column.type.value_type if is_list(column) else None
    if kind is None or not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise BadValue("log", f"the column 'features' must hold lists of numbers, got {column.type}")
    length = pc.list_value_length(column).fill_null(-1).to_numpy().astype(np.int64)
    size = dim or max(int(length[0]), 1)
    other = length != size
    problems.add("features must be given in every row", rounds.row, length < 0, "none")
    problems.add(f"features must have dimension {size}", rounds.row, (length >= 0) & other, length.item)
    if other.any():
        return np.empty((0, size))
    return validation.for_kernels(column.flatten().to_numpy(zero_copy_only=False)).reshape(-1, size)


def _played(rounds: Rounds, dim: int | None, problems: Problems) -> Floats:
    """Take the vectors of the arms played from all arms', (n, d)."""
    assert rounds.arms is not None
    size = rounds.arms.shape[1]
    other = np.full(len(rounds), size != (dim or size))
    problems.add(f"arms must have dimension {dim}", rounds.row, other, str(size))
    return rounds.arms.take(rounds.chosen, axis=0)


def _times(rounds: Rounds, problems: Problems) -> Floats:
    """Read the column `time` (n,), in seconds."""
    column = rounds.extra["time"].cast(TIME).cast(pa.int64())
    absent = ~column.is_valid().to_numpy(False)
    problems.add("time must be given in every row, or in none", rounds.row, absent, "none")
    seconds: Floats = column.fill_null(0).to_numpy().astype(np.float64) / 1e6
    return seconds


def _require_small(name: str, rounds: Rounds, values: Floats, problems: Problems) -> None:
    """Note rows of values (n, m) with an entry that is not finite, or too large."""
    if values.size and not (values.min() >= -validation.LARGEST and values.max() <= validation.LARGEST):
        largest = np.abs(values).max(axis=1)  # NaN where one is
        rule = f"{name} must be finite and at most {validation.LARGEST:g} in size"
        problems.add(rule, rounds.row, ~(largest <= validation.LARGEST), largest.item)


@dataclass(frozen=True, eq=False)
class Arms:
    """The arms that are to be compared, and what they are called.

    >>> Arms.of([[1.0, 0.0], [0.0, 1.0]], names=["old", "new"]).names
    ('old', 'new')
    """

    features: Floats  # (K,d)
    names: tuple[str, ...]
    named: bool = True
    """Whether somebody gave these names."""

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
        """Read arms from CSV with a line `name, x1, x2, …` or `x1, x2, …` for each, or from JSON.

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
                return Arms.of(list(given.values()), list(map(str, given)))
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
        names = [line[0].strip() for line in lines] if named else None
        return Arms.of([[float(cell) for cell in row] for row in rows], names)

    @staticmethod
    def of(
        features: "Arms | Floats | Sequence[Sequence[float]]", names: Sequence[str] | None = None
    ) -> "Arms":
        """Make arms of (K,d) numbers, called "arm 0", "arm 1", … unless they have names."""
        if isinstance(features, Arms):
            return features
        matrix = validation.arm_matrix(features)
        known = [f"arm {i}" for i in range(len(matrix))] if names is None else names
        return Arms(matrix, tuple(known), named=names is not None)


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
        of, enough = self.verdict, self.decided_after
        said = of.sentence(self._names)
        if of.arms > 1 and enough is not None and enough < of.count:
            that = f"That it is within {of.epsilon:g} of the best" if of.epsilon else "That"
            said += f" {that} was known after {enough:,}."
        return said

    def _repr_html_(self) -> str:
        return self.verdict.html(self._names) + self.table._repr_html_()

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how each arm compares with the best one: see `Verdict.plot`."""
        return self.verdict.plot(ax, self._names)

    @property
    def _names(self) -> tuple[str, ...] | None:
        return self.arms.names if self.arms.named else None

    @property
    def table(self) -> Table:
        """One row per arm, the best first: how much less than `best` it pays, and what it pays itself."""
        verdict, values = self.verdict, self.verdict.estimates
        rows = [
            {
                "arm": self.arms.names[i],
                **less._asdict(),
                "value": float(values[i]),
                "possible": "yes" if i in verdict.candidates else "no",
            }
            for i, less in enumerate(verdict.differences())
        ]
        order = sorted(range(len(rows)), key=lambda i: (i != verdict.best, -values[i], i))
        return Table(rows[i] for i in order)


@asks(missing="skip")
def verdict(
    log: Log,
    policy: Policy,
    arms: "Arms | Floats | Sequence[Sequence[float]] | None" = None,
    *,
    delta: float = DELTA,
    epsilon: float = 0.0,
    progress: Progress | None = None,
    **options: Unpack[Lessons],
) -> LogVerdict:
    """Tell which arm is the best, by a ridge estimate over a log's rewards and `policy`'s confidence set.

    The log's probabilities play no part: the policy that chose the arms may have learned. `arms` (K,d) may
    be left out where every decision had the same.

    >>> from linmed import LinMED
    >>> from linmed.ope import DecisionLog
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": [0.2, 0.6] * 100}
    >>> log = DecisionLog.from_table(played | {"features": [[1.0, 0.0], [0.0, 1.0]] * 100})
    >>> found = verdict(log, LinMED(sigma=0.5))
    >>> found.verdict.best, found.decided_after, found.verdict.count
    (1, 170, 200)
    """
    by, question = judge(policy, delta), ask(verdict, **options)
    log = as_log(log, question)
    chosen = _arms_of(log) if arms is None else Arms.of(arms)
    verdicts = Verdicts(chosen.features, delta, epsilon)
    dim = chosen.features.shape[1]
    state, found = by.start(1, dim), None
    for vectors, rewards, _ in lessons(log, question, dim, progress):
        found = verdicts.learn(by, state, validation.for_kernels(vectors), validation.for_kernels(rewards))
    assert found is not None
    return LogVerdict(found, chosen, verdicts.decided_after)


def _arms_of(log: DecisionLog) -> Arms:
    """Find the arms that every decision of a log had."""
    if holds(log, "arms"):
        every = _same_arms(log)
    elif {"features", "arm"} <= set(log.columns):
        every = _played_arms(log)
    else:
        raise BadValue(
            "log",
            f"{log.name} has no features of arms (a column 'arms' or 'features'), by which a verdict "
            "compares them. For groups of visitors as in an A/B test there is linmed compare",
        )
    return Arms.of(every, _names(log, len(every)))


def _same_arms(log: DecisionLog) -> Floats:
    """Read the column `arms`, the same in every row."""
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
    """Collect the features of every arm from the rows in which it was played."""
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


def _names(log: DecisionLog, count: int) -> list[str] | None:
    """Read the column `arm_id` by arm, where it names each of so many, and once."""
    if not {"arm", "arm_id"} <= set(log.columns):
        return None
    names: dict[int, str] = {}
    for batch in log.batches(["arm", "arm_id"]):
        for arm, name in pairs(batch, "arm", "arm_id"):
            if name is None or names.setdefault(arm, name) != name:
                return None
    complete = set(names) == set(range(count)) and len(set(names.values())) == len(names)
    return [names[arm] for arm in sorted(names)] if complete and names else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class LogDrift:
    """What a log says of changes.

    >>> import numpy as np
    >>> from linmed.ope import DecisionLog, drift
    >>> paid = np.random.default_rng(0).normal([0.5, 0.0] * 100, 0.1)
    >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": paid}
    >>> found = drift(DecisionLog.from_table(played | {"features": [[1.0, 0.0], [0.0, 1.0]] * 100}))
    >>> found.drift.changed, found.doubt
    (False, None)
    """

    drift: Drift
    course: Table = field(repr=False)
    """How it came to that, at growing numbers of rewards: reward, log_e, memory."""

    @property
    def doubt(self) -> str | None:
        """Why the level of the alarms may not hold, where the rewards themselves show it."""
        return self.drift.doubt

    def __str__(self) -> str:
        return str(self.drift)

    def _repr_html_(self) -> str:
        return self.drift._repr_html_()

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw log E as the log grew, with the level at which an alarm is raised and it begins again.

        Returns the axes.
        """
        of, at = self.drift, self.course["reward"].to_numpy()
        with styled():
            ax = axes(ax, HEIGHT)
            for i, alarm in enumerate(of.alarms):
                ax.axvline(alarm.reward, color=BOUND.light, linewidth=1.4, label="alarm" if i == 0 else None)
            ax.plot(at, self.course["log_e"].to_numpy(), color=LEADING, label="log E: evidence of a change")
            label = f"an alarm: log(1/{of.alpha:g})"
            ax.axhline(-math.log(of.alpha), color=INK.light, linewidth=1, linestyle="--", label=label)
            ax.set(xlabel="rewards", ylabel="log E", xlim=(0, max(of.count, 1)))
            ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
            ax.set_title(of.title, loc="left")
            ax.legend(loc="upper left", bbox_to_anchor=(0.0, -0.2), ncols=3, fontsize="small")
        return ax


@asks(missing="skip")
def drift(
    log: Log, policy: Forgetful = WATCH, *, progress: Progress | None = None, **options: Unpack[Lessons]
) -> LogDrift:
    """Test whether the rewards of a log can all come from one θ, and tell since when they cannot.

    One pass in the log's order with the estimates and the test of `policy`, of which the rule plays no part,
    and neither do the log's probabilities.

    >>> from linmed.ope import DecisionLog
    >>> rng = np.random.default_rng(0)
    >>> paid = rng.normal([0.5, 0.0] * 200 + [0.0, 0.5] * 200, 0.1)
    >>> played = {"arm": [0, 1] * 400, "probability": [0.5] * 800, "reward": paid}
    >>> log = DecisionLog.from_table(played | {"features": [[1.0, 0.0], [0.0, 1.0]] * 400})
    >>> [alarm.reward for alarm in drift(log).drift.alarms]
    [411]
    """
    if not (isinstance(policy, Policy) and policy.capabilities.drift):
        raise BadType("policy", f"policy must be Forgetful, which watches for changes, got {policy!r}")
    question = ask(drift, **options)
    log = as_log(log, question)
    if policy.capabilities.clock:
        require(log, ["time"], "half-lives that are durations", "log")
    state, course = None, _Course()
    values: set[float] = set()
    low, high = math.inf, -math.inf
    for vectors, rewards, times in lessons(log, question, progress=progress):
        if state is None:
            state = policy.start(1, vectors.shape[1])
        played, paid = validation.for_kernels(vectors), validation.for_kernels(rewards)
        for part in course.parts(len(paid)):
            lesson = played[part], paid[part], np.zeros(part.stop - part.start, dtype=np.int64)
            if times is None:
                policy.learn(state, *lesson)
            else:
                policy.learn_at(state, *lesson, times[part])
            course.add(policy, state)
        low, high = min(low, paid.min()), max(high, paid.max())
        if len(values) <= FEW:
            values.update(np.unique(paid)[: FEW + 1].tolist())
    assert state is not None
    found = drift_of(policy, state)
    if getattr(policy.asked, "sigma", None) == "unknown" and len(values) <= FEW:
        clicks = ", and for clicks there is family logistic" if values <= {0.0, 1.0} else ""
        doubt = (
            f"rewards take {len(values)} values only, and where sigma is unknown the level is that of "
            f"Gaussian noise; sigma = {(high - low) / 2.0:g} is enough for rewards between {low:g} and "
            f"{high:g}, whatever their noise{clicks}"
        )
        found = replace(found, doubt=doubt)
    return LogDrift(found, course.table())


class _Course:
    """log E and memory after every reward, and more rarely as the log grows."""

    def __init__(self) -> None:
        self.step, self.count = 1, 0
        self.rows: list[tuple[int, float, float]] = []

    def parts(self, size: int) -> Iterator[slice]:
        """Divide a batch of so many rewards; after each part `add` is called."""
        start = 0
        while start < size:
            end = min(start + self.step - self.count % self.step, size)
            yield slice(start, end)
            self.count += end - start
            start = end

    def add(self, policy: Forgetful, state: Any) -> None:
        known = int(state.rewards[0]), float(state.evidence[0]), float(policy.estimate(state).count[0])
        self.rows.append(known)
        if len(self.rows) >= 2 * KEPT:
            self.rows, self.step = self.rows[1::2], 2 * self.step

    def table(self) -> Table:
        return Table(dict(zip(("reward", "log_e", "memory"), zip(*self.rows, strict=True), strict=True)))
