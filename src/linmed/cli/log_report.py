"""Print what a command found on a log: as text, as JSON or as a page, with the meaning of its intervals."""

import json
import math
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from linmed.files import write_atomically
from linmed.log import DecisionLog
from linmed.question import VALID
from linmed.report.estimates import Report, has_interval
from linmed.report.estimates_page import page
from linmed.report.tables import Table


def tell(report: Report, file: str | None, facts: Mapping[str, Any] | None) -> None:
    """What a command found: as a page into `file` if there is one, and as text or, with `facts`, as JSON."""
    if file is not None:
        write_atomically(Path(file), page(report).encode())
    if facts is not None:
        print(json.dumps({**facts, "warnings": report.warnings, "notes": report.notes}, indent=2))
    else:
        print(report.text(shutil.get_terminal_size().columns, sys.stdout.encoding or "utf-8"))


def meaning(
    interval: str,
    confidence: float,
    rewards: Sequence[float] | None,
    constant: bool,
    value: str = "average so far",
    once: bool = False,
) -> str:
    """What an interval of that kind says, and on what condition.

    `value`: which average it is about; `once`: whether that is proved for one look alone.
    """
    if interval == "none":
        return "No interval was asked for: nothing is said of how far off the estimates may be."
    sure = f"{100 * confidence:.6g} %"
    value = "the target's value, taken to be constant," if constant else f"the target's {value}"
    exact = "the logged probabilities are exact"
    if interval == "asymptotic":
        return (
            f"With probability about {sure} the interval holds {value} at every look at once, however the "
            f"logging policy learned, if decisions are many and {exact}."
        )
    if VALID[interval] == "any time":
        low, high = rewards or (0.0, 1.0)
        looks = "at every look at once, however often one looked and however"
        if once:
            looks = "at this one look, if the log's end was not chosen by looking, however"
        return (
            f"With probability {sure} or more the interval holds {value}{',' if once else ''} {looks} the "
            f"logging policy learned, if {exact} and every possible reward lies in [{low:g}, {high:g}]."
        )
    policy = "learned slowly" if interval == "adaptive" else "did not learn"
    return (
        f"In about {sure} of such logs the interval holds the target's value if the logging policy {policy}, "
        f"decisions are many, their number was fixed beforehand and {exact}."
    )


def unexplained(interval: str, tables: Iterable[Table], found: Sequence[str]) -> Iterator[str]:
    """For every row without an interval of which no doubt speaks: that it has none."""
    for table in tables if interval != "none" else ():
        kind = table.column_names[0]
        for name in dict.fromkeys(row[kind] for row in table.to_pylist() if not has_interval(row)):
            if not any(repr(name) in doubt for doubt in found):
                yield f"{kind} {name!r} has no interval: nothing tells how far off its estimate may be"


def unread(log: DecisionLog) -> list[str]:
    """A note on lines that were skipped."""
    if not log.malformed.count:
        return []
    line, reason = log.malformed.first[0]
    return [f"{log.malformed.count} lines could not be read, the first is line {line}: {reason}"]


def rows(table: Table) -> list[dict[str, Any]]:
    """A table for JSON, which knows no NaN."""
    return [
        {
            key: value if not isinstance(value, float) or math.isfinite(value) else None
            for key, value in row.items()
        }
        for row in table.to_pylist()
    ]
