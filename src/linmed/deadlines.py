"""Rewards that may never come: what is assumed once a decision has waited long enough."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from linmed import validation
from linmed.validation import BadValue

Early = Literal["hold", "learn"]
Late = Literal["correct", "ignore"]


@dataclass(frozen=True)
class Waiting:
    """How long to wait for a reward, and what becomes of those that come before, after or never."""

    wait: float
    """Seconds after a decision: its deadline."""
    missing: float = 0.0
    """The reward of a decision of which nothing was heard by its deadline."""
    early: Early = "hold"
    """Whether a reward before the deadline is learned at the deadline ("hold") or at once ("learn")."""
    late: Late = "correct"
    """Whether a reward after the deadline takes the place of `missing`, or is ignored and counted."""

    @classmethod
    def of(cls, wait: Any, missing: Any, early: Any, late: Any) -> "Waiting | None":
        """Check the parameters of an agent; None without a deadline."""
        missing = validation.reward("missing", missing)
        early = validation.option("early", early, ("hold", "learn"))
        late = validation.option("late", late, ("correct", "ignore"))
        if wait is None:
            if (missing, early, late) != (cls.missing, cls.early, cls.late):
                text = "missing, early and late say what a deadline does: give wait, as in wait='1d'"
                raise BadValue("wait", text)
            return None
        return cls(seconds(wait), missing, early, late)


def seconds(wait: Any) -> float:
    """Read how long to wait: a number of seconds, "90s", "15m", "6h", "1d" or a timedelta."""
    if isinstance(wait, str):
        return validation.seconds("wait", wait)
    number = validation.real("wait", wait.total_seconds() if isinstance(wait, timedelta) else wait)
    if not 1e-6 <= number <= 1e9:
        raise BadValue("wait", f"wait must be 1e-06 to 1e+09 seconds, or a time like 1d, got {wait!r}")
    return number


@dataclass
class Deadlines:
    """Decisions in the order of their deadlines, and what is known of those that had one."""

    rule: Waiting
    held: dict[str, float] = field(default_factory=dict)
    """Rewards that came and wait for their deadline, by decision."""
    expired: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    """Decisions learned with `missing`, oldest first: what was learned from, and when they were taken. They
    are forgotten `wait` after their deadline."""
    missed: int = 0
    """Decisions whose reward had not come by the deadline."""
    corrected: int = 0
    ignored: int = 0
    """Rewards that came after it, and were learned or not."""
    _queue: list[tuple[float, int, str, str]] = field(default_factory=list)

    def add(self, identifier: str, moment: float) -> None:
        """Wait for the reward of a decision taken at `moment`."""
        number = identifier.rpartition("-")[2]  # of the decision, which copies of an agent go on counting
        heapq.heappush(self._queue, (moment + self.rule.wait, len(number), number, identifier))

    def due(self, now: float, before: bool = False) -> Iterator[tuple[str, float]]:
        """Yield decisions whose deadline has come by `now`, or came `before` it, and take them out."""
        queue = self._queue
        while queue and (queue[0][0] < now or (not before and queue[0][0] == now)):
            deadline, _, _, identifier = queue[0]
            yield identifier, deadline
            heapq.heappop(queue)
        expired, oldest = self.expired, now - 2.0 * self.rule.wait
        while expired and expired[first := next(iter(expired))][1] < oldest:
            del expired[first]

    def to_dict(self) -> dict[str, Any]:
        """Give the deadlines as JSON, without the features of decisions."""
        rule = self.rule
        return {
            "wait": rule.wait, "missing": rule.missing, "early": rule.early, "late": rule.late,
            "held": dict(self.held),
            "expired": [(name, moment) for name, (_, moment) in self.expired.items()],
            "counts": [self.missed, self.corrected, self.ignored],
        }  # fmt: skip

    @classmethod
    def from_dict(
        cls, meta: Mapping[str, Any], kept: list[bytes], moments: Mapping[str, float]
    ) -> "Deadlines":
        """Make the deadlines that `to_dict` described; `moments` are those of the waiting decisions."""
        rule = Waiting.of(meta["wait"], meta["missing"], meta["early"], meta["late"])
        assert rule is not None
        held = {str(name): validation.reward("held", value) for name, value in meta["held"].items()}
        pairs = zip(meta["expired"], kept, strict=True)
        expired = {str(name): (row, float(moment)) for (name, moment), row in pairs}
        missed, corrected, ignored = (validation.whole("counts", n, at_least=0) for n in meta["counts"])
        made = cls(rule, held, expired, missed, corrected, ignored)
        for identifier, moment in moments.items():
            made.add(identifier, moment)
        return made
