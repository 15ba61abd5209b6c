"""A report as a page: one file that needs nothing but itself, on light paper and on dark, wide and narrow.

Drawings are SVG stretched to the room there is; their words are HTML beside them, which keeps its size.
"""

import html
import itertools
import math
from collections.abc import Iterator, Mapping
from importlib import metadata, resources
from typing import Any, NamedTuple

from linmed.report.estimates import NONE, NUMBERS, Columns, Report, Scale, has_interval, told
from linmed.report.tables import Table

HUES, DASHES = 5, 4
"""Colours and dashes; together they tell twenty targets apart."""
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
    """The whole file."""
    first = next(iter(report.tables.values()))
    names = [*report.traces, *first[first.column_names[0]].to_pylist()]
    hues = {name: i for i, name in enumerate(dict.fromkeys(names))}
    answer = "".join(f'<p class="answer">{_text(said)}</p>' for said in report.answer)
    head = f"<header><h1>{_text(report.title)}</h1>{answer}{_asked(report.asked)}</header>"
    parts = [head, *_doubts(report)]
    for heading, table in report.tables.items():
        parts.append(f"<section><h2>{_text(heading)}</h2>{_table(table, hues, report)}</section>")
    parts.append(f'<p class="meaning">{_text(report.meaning)}</p>')
    if report.traces:
        parts.append(f"<section><h2>As the log grew</h2>{_figure(report, hues)}</section>")
    crossing = any(Scale.of(table.to_pylist()).crosses_zero for table in report.tables.values())
    said = [*READING, *([ZERO] if crossing else []), f"{report.caution} No interval accounts for that."]
    reading = "".join(f"<li>{_text(words)}</li>" for words in said)
    parts.append(f"<section><h2>How to read this</h2><ul>{reading}</ul></section>")
    parts.append(f"<footer>Made by linmed {metadata.version('linmed')}.</footer>")
    css = (resources.files("linmed.report") / "page.css").read_text(encoding="utf-8")
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{_text(report.title)}</title>'
        f"<style>{css}</style></head><body><main>{body}</main></body></html>\n"
    )


def _asked(asked: Mapping[str, str]) -> str:
    items = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in asked.items())
    return f'<dl class="asked">{items}</dl>'


def _doubts(report: Report) -> Iterator[str]:
    """Before the numbers, so that nobody takes those away alone."""
    if report.warnings:
        items = "".join(f"<li>{_text(words)}</li>" for words in report.warnings)
        title = "One warning" if len(report.warnings) == 1 else f"{len(report.warnings)} warnings"
        yield f'<section class="doubts" role="note"><h2>{title}</h2><ul>{items}</ul></section>'
    if report.notes:
        yield f'<ul class="notes">{"".join(f"<li>{_text(words)}</li>" for words in report.notes)}</ul>'


def _table(table: Table, hues: Mapping[str, int], report: Report) -> str:
    found, first = Columns(table), table.column_names[0]
    drawn = any(map(has_interval, found.rows))
    heads = [f'<th class="name" scope="col">{_text(name)}</th>' for name in found.labels]
    heads += [f'<th class="number" scope="col">{name}</th>' for name in ("estimate", "interval")]
    heads += [f'<th class="number" scope="col">{_text(HEADS.get(name, name))}</th>' for name in found.extras]
    heads += [f'<th class="bar" scope="col">{_ends(found.scale)}</th>'] if drawn else []
    names, *others = found.labels.values()
    lines = []
    for i, row in enumerate(found.rows):
        estimate, lower, upper = (found.numbers[name][i] or "—" for name in NUMBERS)
        interval = f"{lower} to {upper}" if has_interval(row) else NONE
        cells = []
        if i == 0 or names[i - 1] != names[i]:  # one heading for rows of one name
            rows = sum(1 for _ in itertools.takewhile(names[i].__eq__, names[i:]))
            cells.append(f'<th class="name" scope="rowgroup" rowspan="{rows}">{_text(names[i])}</th>')
        cells += [f'<td class="name">{_text(column[i])}</td>' for column in others]
        cells += [f'<td class="number">{estimate}</td>', f'<td class="number interval">{interval}</td>']
        for name, column in found.extras.items():
            head = _text(HEADS.get(name, name))
            cells.append(f'<td class="number" data-name="{head}">{_text(column[i])}</td>')
        if drawn and has_interval(row):
            label = f"{names[i]}: {estimate}, interval {interval}"
            hue = f"c{hues[row[first]] % HUES}" if row[first] in hues else "plain"
            cells.append(f'<td class="bar {hue}">{_bar(row, found.scale, label)}</td>')
        elif drawn:
            cells.append(f'<td class="bar none">{_text(told(report.reason(str(row[first]))))}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    shared = [f"{HEADS.get(name, name)} {value}" for name, value in found.shared.items()]
    shared += [] if drawn else [NONE]
    every = "All rows: " if len(found.rows) > 1 else ""
    below = f'<p class="all">{_text(every + ", ".join(shared))}</p>' if shared else ""
    return (
        f'<table class="estimates"><thead><tr>{"".join(heads)}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>{below}"
    )


def _ends(scale: Scale) -> str:
    """The scale's ends above the bars, and zero between them where it is not too near to either."""
    zero = scale.share(0.0)
    middle = f'<i style="left:{zero:.2%}">0</i>' if 0.15 < zero < 0.85 else ""
    return (
        f'<div class="scale"><span>{scale.label(scale.low)}</span>{middle}'
        f"<span>{scale.label(scale.high)}</span></div>"
    )


def _bar(row: dict[str, Any], scale: Scale, label: str) -> str:
    low, high, middle = (1000 * scale.share(row[name]) for name in ("lower", "upper", "estimate"))
    lines = []
    if scale.crosses_zero:
        lines.append(_line("zero", 1000 * scale.share(0.0), 0, 1000 * scale.share(0.0), 20))
    lines.append(_line("reach", low, 10, high, 10))
    lines += [_line("end", x, 5, x, 15) for x in (low, high)]
    if middle < -1e-6 or middle > 1000 + 1e-6:  # beyond the scale: an arrow to where it lies
        tip, back = (0, 20) if middle < 0 else (1000, 980)
        lines.append(f'<polyline class="beyond" points="{back},3 {tip},10 {back},17"/>')
    elif math.isfinite(middle):
        lines.append(_line("mark", middle, 3, middle, 17))
    return (
        '<svg viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" '
        f'aria-label="{_text(label)}">{"".join(lines)}</svg>'
    )


def _figure(report: Report, hues: Mapping[str, int]) -> str:
    keys = "".join(
        f'<li class="c{hues[name] % HUES}"><svg viewBox="0 0 20 10" preserveAspectRatio="none" '
        f'aria-hidden="true">{_line(f"course d{hues[name] % DASHES}", 0, 5, 20, 5)}</svg>'
        f"<span>{_text(told(name))}</span></li>"
        for name in report.traces
    )
    return (
        f'<figure><ul class="key">{keys}</ul><p class="axis">reward per decision, against the number of '
        f"decisions</p>{_plot(report.traces, hues)}"
        f"<figcaption>{_text(report.traced)} Lines are estimates, bands their intervals. A band that leaves "
        "the frame was wider than is shown.</figcaption></figure>"
    )


def _plot(traces: Traces, hues: Mapping[str, int]) -> str:
    shown = window(traces)
    drawn, words = [], []
    for value in _values(shown.scale):
        share = shown.scale.share(value)
        drawn.append(_line("grid", 0, 1000 - 1000 * share, 1000, 1000 - 1000 * share))
        words.append(f'<span class="y" style="bottom:{share:.2%}">{shown.scale.label(value)}</span>')
    for n in _counts(shown):
        drawn.append(_line("grid", _across(n, shown), 0, _across(n, shown), 1000))
        words.append(f'<span class="x" style="left:{_across(n, shown) / 1000:.2%}">{_short(n)}</span>')
    bands, courses = [], []
    for name, table in traces.items():
        rows = [row for row in table.to_pylist() if row["n"] > 0 and math.isfinite(row["estimate"])]
        hue, dash = f"c{hues[name] % HUES}", f"d{hues[name] % DASHES}"
        for known, several in itertools.groupby(rows, key=has_interval):
            if known:
                run = list(several)
                edge = [(row["n"], row["upper"]) for row in run]
                edge += [(row["n"], row["lower"]) for row in reversed(run)]
                bands.append(f'<polygon class="band {hue}" points="{_points(edge, shown)}"/>')
                for half in (edge[: len(run)], edge[len(run) :]):
                    bands.append(f'<polyline class="edge {hue}" points="{_points(half, shown)}"/>')
        course = _points([(row["n"], row["estimate"]) for row in rows], shown)
        courses.append(f'<polyline class="course {hue} {dash}" points="{course}"/>')
    label = "Estimates and intervals against the number of decisions"
    return (
        '<div class="plot"><svg viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}">{"".join(drawn + bands + courses)}</svg>{"".join(words)}</div>'
    )


def _values(scale: Scale) -> list[float]:
    """Ticks of rewards: every step, or every second where there are many."""
    steps = round((scale.high - scale.low) / scale.step)
    return [scale.low + i * scale.step for i in range(0, steps + 1, 1 if steps <= 6 else 2)]


def _counts(shown: Window) -> list[int]:
    """Ticks of n: powers of ten, and twice and five times those where they alone would be few."""
    powers = [10**k for k in range(19)]
    for factors in ((1,), (1, 2, 5)):
        ticks = [f * p for p in powers for f in factors if shown.first <= f * p <= shown.last]
        if len(ticks) >= 3:
            break
    return ticks


def _across(n: int, shown: Window) -> float:
    """Where n stands on the logarithmic axis, of 1000."""
    return 1000 * math.log(n / shown.first) / (math.log(shown.last / shown.first) or 1.0)


def _points(pairs: list[tuple[int, float]], shown: Window) -> str:
    # Kept within a few frames: drawing programs do not like coordinates in the billions.
    def down(value: float) -> float:
        return min(max(1000 - 1000 * shown.scale.share(value), -5000.0), 6000.0)

    return " ".join(f"{_across(n, shown):.1f},{down(value):.1f}" for n, value in pairs)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _short(n: int) -> str:
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if n >= size:
            return f"{n // size}{letter}"
    return str(n)


def _text(words: str) -> str:
    return html.escape(words)
