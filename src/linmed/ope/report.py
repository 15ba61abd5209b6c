"""What a command found on a log, in one place, for a terminal and for a page."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from linmed.log import DecisionLog
from linmed.ope.bars import NONE, SMALLEST, folded, has_interval, render, told
from linmed.ope.intervals import VALID
from linmed.tables import Table

CAUTION = "A target that was chosen or trained on this very log looks better than it is."


@dataclass(frozen=True, kw_only=True)
class Report:
    """Tables of estimates with what was asked and what gives reason to doubt."""

    title: str
    answer: Sequence[str] = ()
    """The verdict in sentences, where there is one."""
    asked: Mapping[str, str]
    """What was asked, and of what, by short names."""
    tables: Mapping[str, Table]
    """Heading → table; the first is the answer."""
    meaning: str
    """What an interval says, in one sentence."""
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    traces: Mapping[str, Table] = field(default_factory=dict)
    """Name → n, estimate, lower, upper as the log grew."""
    traced: str = ""
    """What the traces are."""
    caution: str = CAUTION
    """What no interval accounts for."""

    def reason(self, name: str) -> str:
        """Why a row of that name has no interval: the first warning that names it."""
        return next((words for words in self.warnings if repr(name) in words), NONE)

    def text(self, width: int = 80, encoding: str = "utf-8") -> str:
        """For a terminal of that width, in signs that its encoding has."""
        width = max(width, SMALLEST)
        indent = max(map(len, self.asked), default=0) + 2
        lines = [line for said in self.answer for line in folded(told(said, encoding), width)]
        lines += [""] if lines else []
        for name, value in self.asked.items():
            first, *rest = folded(told(value, encoding), width - indent) or [""]
            lines += [f"{name:<{indent}}{first}".rstrip(), *(" " * indent + line.strip() for line in rest)]
        for heading, table in self.tables.items():
            lines.append("")
            lines += folded(f"{told(heading, encoding)}:", width) if len(self.tables) > 1 else []
            lines.append(render(table, width, encoding))
        lines += [""] if self.warnings or self.notes else []
        for kind, said in (("warning", self.warnings), ("note", self.notes)):
            lines += [line for words in said for line in folded(f"{kind}: {told(words, encoding)}", width)]
        return "\n".join(lines)


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
