"""Tables in Markdown."""

import re
from collections.abc import Iterable

_CODE_OR_BAR = re.compile(r"`[^`]*`|\|")


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Rows of cells under headings; a cell is one line, and a bar outside of code does not end it."""
    lines = [headings, tuple("---" for _ in headings), *rows]
    return "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)


def _cell(text: str) -> str:
    return _CODE_OR_BAR.sub(lambda found: "\\|" if found[0] == "|" else found[0], " ".join(text.split()))
