"""Write a report as a page: one file that needs nothing but itself, on light paper and on dark.

Bars are SVG stretched to the room there is; their words are HTML beside them, which keeps its size.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata, resources
from typing import Any, NamedTuple

from linmed.report.html import Markup, document, tag
from linmed.report.tables import Table
from linmed.report.text_report import NONE, NUMBERS, Columns, Report, Scale, has_interval, told

HEADS = {"effective_n": "effective n"}
READING = (
    "A line is the interval, the mark on it the estimate; all lines of a table share the scale above them. "
    "The shorter the line, the surer the answer.",
    "The interval is about the value, not about the estimate: an estimate may lie outside.",
    "The effective n says how many decisions of its own a row is worth. Where it is small, a few decisions "
    "carry everything.",
    "Where the intervals of two rows do not overlap, the two differ. Where they do, the difference itself "
    "may still be clear: its own interval says more.",
)
ZERO = "A difference is decided where its line stays on one side of the dashed zero."


Traces = Mapping[str, Any]
"""Name → a table of Arrow or of ours with n, estimate, lower, upper at growing n, as `sequence` makes it."""


class Window(NamedTuple):
    """The part of the picture that is worth looking at."""

    first: int
    last: int
    scale: Scale


def window(traces: Traces, truth: float | None = None) -> Window:
    """Rewards around the bounds at the end, and n from where the first bound comes into sight.

    A sequence begins with the whole range of the rewards and ends with a small part of it: drawn in full, the
    part that matters would be a thin line.
    """
    courses = [table.to_pylist() for table in traces.values()]
    rows = list(itertools.chain.from_iterable(courses))
    known = [row for row in rows if has_interval(row)]
    last = [[row for row in course if has_interval(row)][-1:] for course in courses]
    ends = [row[end] for row in itertools.chain.from_iterable(last) for end in ("lower", "upper")]
    ends += [] if truth is None else [truth]
    if known:
        low, high = min(ends), max(ends)
        room = (high - low) / 2
        lowest, highest = min(row["lower"] for row in known), max(row["upper"] for row in known)
        ends = [max(low - room, min(lowest, low)), min(high + room, max(highest, high))]
    scale = Scale.over(ends or [row["estimate"] for row in rows])
    inside = [row["n"] for row in known if row["lower"] > scale.low or row["upper"] < scale.high]
    longest = max([1, *(row["n"] for row in rows)])
    return Window(max(min([*inside, longest // 10]), 1), longest, scale)


def page(report: Report) -> str:
    """Write the whole file."""
    asked = [(tag("dt", name), tag("dd", value)) for name, value in report.asked.items()]
    crossing = any(Scale.of(table.to_pylist()).crosses_zero for table in report.tables.values())
    reading = [*READING, *([ZERO] if crossing else []), f"{report.caution} No interval accounts for that."]
    course = tag("figure", Markup(report.course), tag("figcaption", report.traced))
    return document(
        report.title,
        (resources.files("linmed.report") / "page.css").read_text(encoding="utf-8"),
        tag(
            "header",
            tag("h1", report.title),
            [tag("p", said, class_="answer") for said in report.answer],
            tag("dl", asked, class_="asked"),
        ),
        _doubts(report),
        [tag("section", tag("h2", name), _table(table, report)) for name, table in report.tables.items()],
        tag("p", report.meaning, class_="meaning"),
        tag("section", tag("h2", "As the log grew"), course) if report.course else None,
        tag("section", tag("h2", "How to read this"), _listed(reading)),
        tag("footer", f"Made by linmed {metadata.version('linmed')}."),
    )


def _listed(words: Sequence[str], kind: str | None = None) -> Markup:
    return tag("ul", [tag("li", one) for one in words], class_=kind)


def _doubts(report: Report) -> Iterator[Markup]:
    """Before the numbers, so that nobody takes those away alone."""
    if report.warnings:
        title = "One warning" if len(report.warnings) == 1 else f"{len(report.warnings)} warnings"
        yield tag("section", tag("h2", title), _listed(report.warnings), class_="doubts", role="note")
    if report.notes:
        yield _listed(report.notes, "notes")


def _table(table: Table, report: Report) -> list[Markup]:
    found, first = Columns(table), table.column_names[0]
    drawn = any(map(has_interval, found.rows))
    extras = {HEADS.get(name, name): column for name, column in found.extras.items()}
    heads = [tag("th", name, class_="name", scope="col") for name in found.labels]
    heads += [tag("th", n, class_="number", scope="col") for n in ("estimate", "interval", *extras)]
    heads += [tag("th", _ends(found.scale), class_="bar", scope="col")] if drawn else []
    names, *others = found.labels.values()
    lines = []
    for i, row in enumerate(found.rows):
        estimate, lower, upper = (found.numbers[name][i] or "—" for name in NUMBERS)
        interval = f"{lower} to {upper}" if has_interval(row) else NONE
        cells = []
        if i == 0 or names[i - 1] != names[i]:  # one heading for rows of one name
            rows = sum(1 for _ in itertools.takewhile(names[i].__eq__, names[i:]))
            cells.append(tag("th", names[i], class_="name", scope="rowgroup", rowspan=rows))
        cells += [tag("td", column[i], class_="name") for column in others]
        cells += [tag("td", estimate, class_="number"), tag("td", interval, class_="number interval")]
        cells += [tag("td", cell[i], class_="number", data_name=name) for name, cell in extras.items()]
        if drawn and has_interval(row):
            label = f"{names[i]}: {estimate}, interval {interval}"
            cells.append(tag("td", _bar(row, found.scale, label), class_="bar"))
        elif drawn:
            cells.append(tag("td", told(report.reason(str(row[first]))), class_="bar none"))
        lines.append(tag("tr", cells))
    shared = [f"{HEADS.get(name, name)} {value}" for name, value in found.shared.items()]
    shared += [] if drawn else [NONE]
    every = "All rows: " if len(found.rows) > 1 else ""
    whole = tag("table", tag("thead", tag("tr", heads)), tag("tbody", lines), class_="estimates")
    return [whole, *([tag("p", every + ", ".join(shared), class_="all")] if shared else [])]


def _ends(scale: Scale) -> Markup:
    """The scale's ends above the bars, and zero between them where it is not too near to either."""
    zero = scale.share(0.0)
    middle = tag("i", "0", style=f"left:{zero:.2%}") if 0.15 < zero < 0.85 else None
    low, high = (tag("span", scale.label(end)) for end in (scale.low, scale.high))
    return tag("div", low, middle, high, class_="scale")


def _bar(row: dict[str, Any], scale: Scale, label: str) -> Markup:
    low, high, middle = (1000 * scale.share(row[name]) for name in ("lower", "upper", "estimate"))
    lines, zero = [], 1000 * scale.share(0.0)
    if scale.crosses_zero:
        lines.append(_line("zero", zero, 0, zero, 20))
    lines.append(_line("reach", low, 10, high, 10))
    lines += [_line("end", x, 5, x, 15) for x in (low, high)]
    if middle < -1e-6 or middle > 1000 + 1e-6:  # beyond the scale: an arrow to where it lies
        tip, back = (0, 20) if middle < 0 else (1000, 980)
        lines.append(tag("polyline", class_="beyond", points=f"{back},3 {tip},10 {back},17"))
    elif math.isfinite(middle):
        lines.append(_line("mark", middle, 3, middle, 17))
    size = {"viewBox": "0 0 1000 20", "preserveAspectRatio": "none"}
    return tag("svg", lines, **size, role="img", aria_label=label)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return tag("line", class_=kind, **{name: f"{value:.1f}" for name, value in ends.items()})
