"""`drift`: has the world changed while this log was written? Whoever chose what was played."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from linmed import validation
from linmed.insight.drift import Drift, drift_of
from linmed.log import BATCH
from linmed.ope.learn import lessons
from linmed.ope.log_facts import require
from linmed.ope.plan import Log, as_log
from linmed.policies import Forgetful, LinMED
from linmed.report.figures import BOUND, INK, LEADING, axes, styled
from linmed.report.tables import Table
from linmed.validation import BadType, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = 3.2
KEPT = 200
"""Looks at a log that are kept at least, of a log with as many rewards."""

WATCH = Forgetful(LinMED(sigma="unknown", norm_bound="unknown"))
"""Tells the noise and the size of θ* from the rewards themselves."""
FEW = 10
"""So many different rewards, or fewer, are no Gaussian's."""


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
        """log E as the log grew, with the level at which an alarm is raised and it begins anew.

        Returns the axes.

        >>> from matplotlib.figure import Figure
        >>> from linmed.ope import DecisionLog
        >>> paid = np.random.default_rng(0).normal([0.5, 0.0] * 100, 0.1)
        >>> played = {"arm": [0, 1] * 100, "probability": [0.5] * 200, "reward": paid}
        >>> found = drift(DecisionLog.from_table(played | {"features": [[1.0, 0.0], [0.0, 1.0]] * 100}))
        >>> found.plot(Figure().subplots()).get_ylabel()
        'log E'
        """
        needed, at = -math.log(self.drift.alpha), self.course["reward"].to_numpy()
        with styled():
            ax = axes(ax, HEIGHT)
            for i, alarm in enumerate(self.drift.alarms):
                ax.axvline(alarm.reward, color=BOUND.light, linewidth=1.4, label="alarm" if i == 0 else None)
            ax.plot(at, self.course["log_e"].to_numpy(), color=LEADING, label="log E: evidence of a change")
            label = f"an alarm: log(1/{self.drift.alpha:g})"
            ax.axhline(needed, color=INK.light, linewidth=1, linestyle="--", label=label)
            ax.set(xlabel="rewards", ylabel="log E", xlim=(0, max(self.drift.count, 1)))
            ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
            ax.set_title(self.drift.title, loc="left")
            ax.legend(loc="upper left", bbox_to_anchor=(0.0, -0.2), ncols=3, fontsize="small")
        return ax


def drift(
    log: Log,
    policy: Forgetful = WATCH,
    *,
    missing: str | float = "skip",
    mature: float | timedelta | None = None,
    batch: int = BATCH,
    progress: Callable[[int], object] | None = None,
) -> LogDrift:
    """Whether the rewards of a log can all come from one θ, and since when they cannot.

    One pass in the log's order with the estimates and the test of `policy`, of which the rule plays no part,
    and neither do the log's probabilities. `missing` and `mature` are as in `learn_from`.

    >>> from linmed.ope import DecisionLog
    >>> rng = np.random.default_rng(0)
    >>> paid = rng.normal([0.5, 0.0] * 200 + [0.0, 0.5] * 200, 0.1)
    >>> played = {"arm": [0, 1] * 400, "probability": [0.5] * 800, "reward": paid}
    >>> log = DecisionLog.from_table(played | {"features": [[1.0, 0.0], [0.0, 1.0]] * 400})
    >>> [alarm.reward for alarm in drift(log).drift.alarms]
    [411]
    """
    if not isinstance(policy, Forgetful):
        raise BadType("policy", f"policy must be Forgetful, which watches for changes, got {policy!r}")
    log = as_log(log)
    if policy.on_clock:
        require(log, ["time"], "half-lives that are durations", "log")
    state, seen, course = None, _Seen(), _Course()
    for vectors, rewards, times in lessons(
        log, missing=missing, mature=mature, batch=batch, progress=progress
    ):
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
        seen.add(rewards)
    assert state is not None
    found = drift_of(policy, state)
    return LogDrift(replace(found, doubt=seen.doubt(policy) or found.doubt), course.table())


class _Course:
    """log E and memory after every reward, and more rarely as the log grows."""

    def __init__(self) -> None:
        self.step, self.count = 1, 0
        self.rows: list[tuple[int, float, float]] = []

    def parts(self, size: int) -> Iterator[slice]:
        """A batch of so many rewards in parts, after each of which it is looked."""
        start = 0
        while start < size:
            end = min(start + self.step - self.count % self.step, size)
            yield slice(start, end)
            self.count += end - start
            start = end

    def add(self, policy: Forgetful, state: Any) -> None:
        """What is known now."""
        known = int(state.rewards[0]), float(state.evidence[0]), float(policy.estimate(state).count[0])
        self.rows.append(known)
        if len(self.rows) >= 2 * KEPT:
            self.rows, self.step = self.rows[1::2], 2 * self.step

    def table(self) -> Table:
        """All that was kept."""
        return Table(dict(zip(("reward", "log_e", "memory"), zip(*self.rows, strict=True), strict=True)))


class _Seen:
    """Which rewards there were, as long as they are few; and their range."""

    def __init__(self) -> None:
        self.values: set[float] = set()
        self.low, self.high = np.inf, -np.inf

    def add(self, rewards: Floats) -> None:
        self.low, self.high = min(self.low, rewards.min()), max(self.high, rewards.max())
        if len(self.values) <= FEW:
            self.values.update(np.unique(rewards)[: FEW + 1].tolist())

    def doubt(self, policy: Forgetful) -> str | None:
        if getattr(policy.asked, "sigma", None) != "unknown" or len(self.values) > FEW:
            return None
        enough = (self.high - self.low) / 2.0
        clicks = ", and for clicks there is family logistic" if self.values <= {0.0, 1.0} else ""
        return (
            f"rewards take {len(self.values)} values only, and where sigma is unknown the level is that of "
            f"Gaussian noise; sigma = {enough:g} is enough for rewards between {self.low:g} and "
            f"{self.high:g}, whatever their noise{clicks}"
        )
