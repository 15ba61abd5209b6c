"""Which decisions are judged: all of a log, or those since a moment; and what an estimate is then about.

A sequence may begin anywhere, as long as nobody chose the place by looking at what follows it: reward models
may know the decisions before, everything else begins there.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from linmed import checks
from linmed.checks import BadType, BadValue
from linmed.log import DecisionLog
from linmed.log.views import moment
from linmed.ope.known import ended
from linmed.ope.rounds import require

Since = int | str | datetime | timedelta
"""The number of a decision, counted from the end where negative; a time; or how long before the log's end."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LENGTHS = {86400.0: "day", 3600.0: "hour", 60.0: "minute", 1.0: "second"}


class Recent(NamedTuple):
    """A log in two parts."""

    judged: DecisionLog
    earlier: DecisionLog | None
    """What reward models may know besides."""


def recent(log: DecisionLog, since: Any) -> Recent:
    """The decisions from `since` on, and those before; all where it is None."""
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
            return timedelta(seconds=checks.seconds("since", since))
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


def in_words(since: Any) -> str:
    """What an estimate is then about: "average so far", "average of the last 30 days", …"""
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
