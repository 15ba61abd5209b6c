"""One colour and one dash per policy in every figure, on light and on dark paper.

Hues are Okabe and Ito's, which people who do not see all colours can tell apart: one hue per family, and
within a family lightness and dash tell the members apart.
"""

from typing import NamedTuple


class Line(NamedTuple):
    """How a policy is drawn."""

    light: str
    dark: str
    dash: str | tuple[float, tuple[float, ...]] = "-"
    marker: str = "o"


DASHED, DASHES, DASH_DOT, DOTS = (0, (6.0, 1.5)), (0, (3.0, 1.5)), (0, (6.0, 1.5, 1.2, 1.5)), (0, (1.2, 1.2))

POLICY: dict[str, Line] = {
    "LinMED-99": Line("#0b4f8a", "#3d9be9", "-", "o"),
    "LinMED-90": Line("#1f83c9", "#7cc0f5", DASHED, "s"),
    "LinMED-50": Line("#5ab0ea", "#b7dcfb", DASH_DOT, "^"),
    "LinMEDNOPT": Line("#7a5a1e", "#d8b26a", "-", "D"),
    "OFUL": Line("#1c1c1e", "#f4f4f5", "-", "v"),
    "LinTS-Freq": Line("#d55e00", "#ff8b3d", "-", "P"),
    "LinTS-Bayes": Line("#e39a00", "#ffc44d", DASHED, "X"),
    "LinIMED-1": Line("#a3337c", "#e07abf", "-", "<"),
    "LinIMED-3": Line("#d884b9", "#f3b9dd", DASHES, ">"),
    "SpannerIGW": Line("#006d50", "#20b98c", "-", "h"),
    "SpannerIGW-AT": Line("#18a87e", "#7fe3c3", DASHED, "*"),
    "EXP2": Line("#77787b", "#a9abb0", DOTS, "d"),
}

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1c1c1e", "#8c6d31")
"""What is told apart by nothing but its place: Okabe and Ito's own hues, …"""
DASH = ("-", "--", "-.", ":")
"""… and a dash for each time they have all been used."""

INK = Line("#23272d", "#e4e7eb")
FAINT = Line("#d9dde2", "#3a4048")
BOUND = Line("#8e1b2e", "#ff8595")

THEMED: tuple[Line, ...] = (*POLICY.values(), INK, FAINT, BOUND)
"""Everything that changes with the paper."""

LEADING, POSSIBLE, RULED_OUT = "#0072b2", "#d55e00", "#8b929a"
"""What leads, what may still be better, and what is surely worse."""


def series(place: int) -> tuple[str, str]:
    """Colour and dash of the so many-th line of a figure."""
    return SERIES[place % len(SERIES)], DASH[place // len(SERIES) % len(DASH)]


def variable(line: Line) -> str:
    """The CSS variable that holds a colour."""
    return f"--c{line.light[1:]}"


def stylesheet() -> str:
    """The variables for light paper, and for dark where the reader's system asks for it."""
    light = "".join(f"{variable(line)}:{line.light};" for line in THEMED)
    dark = "".join(f"{variable(line)}:{line.dark};" for line in THEMED)
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
