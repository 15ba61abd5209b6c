"""Tables of estimates as text, with a bar a row: the interval a line, the estimate a mark, one scale for all.

Any table can be drawn that has the columns estimate, lower and upper. What stands before them names a row
(target, group, candidate, estimator); what stands after them is told beside it, or once below the table where
it is the same in every row.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain
from textwrap import wrap
from typing import Any, NamedTuple, Self
from unicodedata import combining, east_asian_width

from linmed.report.tables import Table

NARROW, COMFORTABLE, WIDE = 14, 20, 60
"""Characters of a bar. With fewer than the first it stands on a line of its own, with fewer than the second
the names of groups of rows do; more than the last do not make it clearer."""
SMALLEST = 24
"""Characters in a line at least, however narrow the terminal says it is."""
SHORT = {"effective_n": "eff. n"}
"""Names of columns that are much wider than their values."""
NUMBERS = ("estimate", "lower", "upper")
NONE = "no interval"
ABSENT = "—"


class Scale(NamedTuple):
    """From `low` to `high`, both whole multiples of `step`."""

    low: float
    high: float
    step: float

    @classmethod
    def over(cls, values: Iterable[float]) -> Self:
        """The round ends that hold all finite values."""
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        if high - low <= max(1e-12 * max(abs(low), abs(high)), 1e-300):
            room = abs(low) / 10 if abs(low) > 1e-300 else 0.5
            low, high = low - room, high + room
        rough = (high - low) / 10
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * (1 - 1e-9))
        # A millionth of a step to spare: 0.3 is not 3 · 0.1 to the last bit.
        return cls(math.floor(low / step + 1e-6) * step, math.ceil(high / step - 1e-6) * step, step)

    @classmethod
    def of(cls, rows: Sequence[dict[str, Any]]) -> Self:
        """For the intervals of a table, its estimates and zero unless they lie far from all intervals."""
        bounds = [row[end] for row in rows for end in ("lower", "upper") if has_interval(row)]
        estimates = [row["estimate"] for row in rows]
        if bounds:
            low, high = min(bounds), max(bounds)
            reach = high - low
            estimates = [value for value in estimates if low - reach <= value <= high + reach]
            bounds += [0.0] if low - reach / 4 <= 0.0 <= high + reach / 4 else []
        return cls.over([*bounds, *estimates])

    def share(self, value: float) -> float:
        """Where `value` lies: 0 at the low end, 1 at the high one."""
        return (value - self.low) / (self.high - self.low)

    def label(self, value: float) -> str:
        """`value` with the digits of the step."""
        if not 1e-6 <= self.step < 1e9:
            return f"{value:.4g}"
        return f"{value + 0.0:.{max(0, -math.floor(math.log10(self.step) + 1e-9))}f}"

    @property
    def crosses_zero(self) -> bool:
        """Whether zero lies inside, as in differences, where it is what one looks for."""
        return self.low < 0.0 < self.high


def cell_len(text: str) -> int:
    """Characters that a text takes on a terminal: two for those of Chinese, Japanese and Korean."""
    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def has_interval(row: dict[str, Any]) -> bool:
    """Whether both bounds are numbers."""
    return math.isfinite(row["lower"]) and math.isfinite(row["upper"])


class Columns:
    """The cells of a table of estimates, sorted by what they tell."""

    def __init__(self, table: Table) -> None:
        self.rows: list[dict[str, Any]] = table.to_pylist()
        names = list(table.column_names)
        first, last = names.index("estimate"), names.index("upper")
        cells = {name: [told(row[name]) for row in self.rows] for name in names if name not in NUMBERS}
        # The first column tells rows apart, so it is always shown.
        same = {name for name, column in cells.items() if name != names[0] and len(set(column)) == 1}
        self.labels = {name: cells[name] for name in names[:first] if name not in same}
        self.headings = [""] * len(self.rows)
        """What stands above a row on a line of its own, if anything."""
        self.extras = {name: cells[name] for name in names[last + 1 :] if name not in same}
        self.numbers = dict(zip(NUMBERS, zip(*figures(self.rows), strict=True), strict=True))
        self.scale = Scale.of(self.rows)
        self.shared = {name: cells[name][0] for name in names if name in same and cells[name][0] != ABSENT}
        """What is the same in every row."""

    def grouped(self) -> Self:
        """The same with the names of the first column as headings, where they say the same row after row."""
        if len(self.labels) == 1:
            return self
        found = copy(self)
        (_, names), *others = self.labels.items()
        found.headings = [name if i == 0 or names[i - 1] != name else "" for i, name in enumerate(names)]
        found.labels = {f"  {name}": [f"  {cell}" for cell in cells] for name, cells in others}
        return found


def told(value: Any) -> str:
    """Anything but an estimate as text that cannot steer a terminal."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"
    text = "" if value is None else str(value)
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def figures(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Estimate, lower and upper bound as text, "" for NaN, with the decimals that intervals give a meaning.

    Those are two digits of the shortest interval, or of the shortest way from an estimate to a bound.
    """
    gaps, sizes = [], []
    for row in rows:
        sizes += [abs(row[name]) for name in NUMBERS if math.isfinite(row[name])]
        if has_interval(row):
            width = row["upper"] - row["lower"]
            ways = (abs(row["estimate"] - row["lower"]), abs(row["upper"] - row["estimate"]))
            gaps += [way for way in (*ways, width) if way > max(1e-3 * width, 1e-9 * abs(row["upper"]))]
    largest = max(sizes, default=0.0) or 1.0
    decimals = 1 - math.floor(math.log10(min(gaps))) if gaps else 3 - math.floor(math.log10(largest))
    form = f".{min(max(decimals, 0), 6)}f" if 1e-4 <= largest < 1e9 else ".4g"
    return [
        ["" if math.isnan(row[name]) else format(row[name] + 0.0, form) for name in NUMBERS] for row in rows
    ]


def bar(row: dict[str, Any], scale: Scale, size: int) -> str:
    """One row's interval and estimate on `size` characters; an arrow is an estimate beyond the scale."""
    if not has_interval(row):
        return NONE
    cells = [" "] * size

    def place(value: float) -> int:
        return min(max(round(scale.share(value) * (size - 1)), 0), size - 1)

    low, high = place(row["lower"]), place(row["upper"])
    cells[low : high + 1] = "─" * (high + 1 - low)
    if scale.crosses_zero:
        cells[place(0.0)] = "┼" if low < place(0.0) < high else "┊"
    cells[low], cells[high] = "││" if low == high else "├┤"
    if math.isfinite(row["estimate"]):
        share = scale.share(row["estimate"])
        cells[place(row["estimate"])] = "◂" if share < -1e-9 else "▸" if share > 1 + 1e-9 else "●"
    return "".join(cells).rstrip()


def ends(scale: Scale, size: int) -> str:
    """The line above bars that tells where their scale begins and ends, and where zero lies."""
    low, high = scale.label(scale.low), scale.label(scale.high)
    between = size - len(low) - len(high)
    if scale.crosses_zero:
        zero = round(scale.share(0.0) * (size - 1)) - len(low)
        if 1 <= zero < between - 1:
            return f"{low}{' ' * zero}0{' ' * (between - zero - 1)}{high}"
    return f"{low}{' ' * max(between, 1)}{high}"


def folded(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` characters, all but the first a little to the right."""
    return wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)


def render(table: Table, width: int = 80) -> str:
    """`table` as text of at most `width` characters a line.

    >>> values = {"estimate": [0.41, 0.58], "lower": [0.25, 0.52], "upper": [0.62, 0.64]}
    >>> print(render(Table({"target": ["uniform", "greedy"], **values, "n": [900, 900]}), 60))
    target   estimate  lower  upper  0.25                   0.65
    uniform     0.410  0.250  0.620  ├─────────●─────────────┤
    greedy      0.580  0.520  0.640                    ├──●───┤
    all rows: n 900
    """
    if not len(table):
        return "(an empty table)"
    found, width = Columns(table), max(width, SMALLEST)
    drawn = any(map(has_interval, found.rows))
    lines = (
        _in_columns(found, width, drawn, COMFORTABLE)
        or _in_columns(found.grouped(), width, drawn, NARROW)
        or _stacked(found.grouped(), width, drawn)
    )
    summary = [f"{name} {value}" for name, value in found.shared.items()]
    summary += [] if drawn else [NONE]
    start = "all rows: " if summary and len(found.rows) > 1 else ""
    return "\n".join([*lines, *folded(start + ", ".join(summary), width)])


def _in_columns(found: Columns, width: int, drawn: bool, least: int) -> list[str] | None:
    """One line a row, or nothing where that leaves less than `least` for the bars."""
    numbers = {name: [cell or ABSENT for cell in column] for name, column in found.numbers.items()}
    columns: list[list[str]] = []
    for name, column in {**found.labels, **numbers, **found.extras}.items():
        cells = [SHORT.get(name, name), *column]
        size = max(map(cell_len, cells))
        padding = [" " * (size - cell_len(cell)) for cell in cells]
        pairs = zip(cells, padding, strict=True)
        columns.append([cell + pad if name in found.labels else pad + cell for cell, pad in pairs])
    lines = ["  ".join(row) for row in zip(*columns, strict=True)]
    used = cell_len(lines[0])
    if used + (2 + least if drawn else 0) > width:
        return None
    if drawn:
        size = min(width - used - 2, WIDE)
        bars = [ends(found.scale, size), *(bar(row, found.scale, size) for row in found.rows)]
        lines = [f"{line}  {drawing}" for line, drawing in zip(lines, bars, strict=True)]
    named = zip(found.headings, lines[1:], strict=True)
    return [
        lines[0].rstrip(),
        *chain.from_iterable((*folded(name, width), line.rstrip()) for name, line in named),
    ]


def _stacked(found: Columns, width: int, drawn: bool) -> list[str]:
    """Every row as a sentence with its bar below, under one scale."""
    size = min(width, WIDE)
    lines = [ends(found.scale, size)] if drawn else []
    numbers = zip(*found.numbers.values(), strict=True)
    for i, (row, (estimate, lower, upper)) in enumerate(zip(found.rows, numbers, strict=True)):
        interval = f" [{lower}, {upper}]" if has_interval(row) else f", {NONE}" if drawn else ""
        label = " ".join(column[i] for column in found.labels.values())
        extras = [f"{SHORT.get(name, name)} {cells[i]}" for name, cells in found.extras.items()]
        said = ", ".join([f"{estimate or ABSENT}{interval}", *extras])
        lines += folded(found.headings[i], width) + folded(f"{label}  {said}", width)
        if drawn and has_interval(row):
            lines.append(bar(row, found.scale, size))
    return lines


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
    course: str = ""
    """A drawing for the page: estimates as the log grew."""
    traced: str = ""
    """What it shows."""
    caution: str = CAUTION
    """What no interval accounts for."""

    def reason(self, name: str) -> str:
        """Why a row of that name has no interval: the first warning that names it."""
        return next((words for words in self.warnings if repr(name) in words), NONE)

    def text(self, width: int = 80) -> str:
        """For a terminal of that width."""
        width = max(width, SMALLEST)
        indent = max(map(len, self.asked), default=0) + 2
        lines = [line for said in self.answer for line in folded(told(said), width)]
        lines += [""] if lines else []
        for name, value in self.asked.items():
            first, *rest = folded(told(value), width - indent) or [""]
            lines += [f"{name:<{indent}}{first}".rstrip(), *(" " * indent + line.strip() for line in rest)]
        for heading, table in self.tables.items():
            lines.append("")
            lines += folded(f"{told(heading)}:", width) if len(self.tables) > 1 else []
            lines.append(render(table, width))
        lines += [""] if self.warnings or self.notes else []
        for kind, said in (("warning", self.warnings), ("note", self.notes)):
            lines += [line for words in said for line in folded(f"{kind}: {told(words)}", width)]
        return "\n".join(lines)
