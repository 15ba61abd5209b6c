"""Which decisions are judged, and how much each counts: all of a log alike, those since a moment, or by age.

A sequence may begin anywhere, as long as nobody chose the place by looking at what follows it: reward models
may know the decisions before, everything else begins there.

By age: a decision counts half as much after every half-life. Its weight ω is known before its reward is, if
the log's end was not chosen by looking; `sequences` has what is then proved of Σ ω ν / Σ ω. The weights fall
in sixteen steps a half-life, so that decisions can be summed up step by step.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from linmed import validation
from linmed.log import DecisionLog
from linmed.log.views import moment
from linmed.ope.log_facts import ended, require
from linmed.question import Question, half_life_of
from linmed.validation import BadType, BadValue, Floats, Ints

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LENGTHS = {86400.0: "day", 3600.0: "hour", 60.0: "minute", 1.0: "second"}


STEPS = 16
"""In which a weight falls by half."""
FARTHEST = 60
"""Half-lives after which a decision counts nothing."""


class Fading(NamedTuple):
    """By how much a decision counts less for its age."""

    half_life: float
    """In decisions, or in microseconds."""
    end: int
    """When a decision counts fully: the number of the last one, or a time in microseconds since 1970."""
    clock: bool

    def weights(self, when: Ints) -> Floats:
        """ω in [0, 1] of decisions that were taken then, or have these numbers.  (n,)"""
        steps = np.floor(np.maximum(self.end - when, 0) * (STEPS / self.half_life))
        return np.where(steps > STEPS * FARTHEST, 0.0, np.exp2(-steps / STEPS))


class Recent(NamedTuple):
    """A log in two parts."""

    judged: DecisionLog
    earlier: DecisionLog | None
    """What reward models may know besides."""


def recent(log: DecisionLog, question: Question) -> Recent:
    """Divide a log into the decisions that a question is about and those before."""
    since = question.since
    if since is None:
        return Recent(log, None)
    asked = as_since(since)
    if isinstance(asked, int):
        start = asked if asked >= 0 else max(asked + len(log), 0)
        parts = Recent(log[start:], log[:start])
    else:
        require(log, ["time"], "since", "since")
        if isinstance(asked, timedelta):
            asked = EPOCH + timedelta(microseconds=ended(log, "since")) - asked
        parts = Recent(log.after(asked), log.before(asked))
    if next(parts.judged.batches(["arm"], 1), None) is None:
        raise BadValue("since", f"since must leave decisions to judge: {log.name} has none since {since!r}")
    return parts


def as_since(since: Any) -> int | datetime | timedelta:
    """What was said: a number, text such as "30d", "1000" or "2026-05-01", a time or a length of time."""
    if isinstance(since, str):
        if re.fullmatch(r"\s*[+-]?\d+\s*", since):
            return int(since)
        if re.fullmatch(r"\s*[\d.]+\s*[smhd]\s*", since):
            return timedelta(seconds=validation.seconds("since", since))
        return EPOCH + timedelta(microseconds=moment("since", since.strip()))
    if isinstance(since, datetime):
        return EPOCH + timedelta(microseconds=moment("since", since))
    if isinstance(since, timedelta):
        if since <= timedelta(0):
            raise BadValue("since", f"since must be a length of time above 0, got {since!r}")
        return since
    if isinstance(since, bool) or not isinstance(since, int):
        raise BadType(
            "since",
            "since must be a decision's number, a time, or how long before the log's end, such as 1000, "
            f"'2026-05-01' or '30d', got {since!r}",
        )
    return since


def in_words(question: Question) -> str:
    """Say what an estimate is about: "average so far", "average of the last 30 days", …"""
    since = question.since
    if question.half_life is not None:
        number, clock = half_life_of(question.half_life)
        age = length(number) if clock else f"{number:,g} decisions"
        average = "recent average" if since is None else in_words(Question(since=since))
        return f"{average}, a decision counting half after every {age}"
    if since is None:
        return "average so far"
    asked = as_since(since)
    if isinstance(asked, timedelta):
        return f"average of the last {length(asked.total_seconds())}"
    if isinstance(asked, datetime):
        return f"average since {asked.isoformat(' ', 'auto' if asked.microsecond else 'seconds')}"
    if asked < 0:
        return f"average of the last {-asked:,} decisions"
    return f"average since decision {asked:,}"


def length(seconds: float) -> str:
    """A length of time in the largest unit that it has whole: "30 days"; "1 day" is "day"."""
    for unit, name in LENGTHS.items():
        count = seconds / unit
        if count >= 1.0 and count == round(count):
            return name if count == 1.0 else f"{count:,.0f} {name}s"
    return f"{seconds:g} seconds"
