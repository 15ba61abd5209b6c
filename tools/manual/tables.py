"""Tables in Markdown."""

from collections.abc import Iterable


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Rows of cells under headings; a cell is one line, and its bars are its own."""
    lines = [headings, tuple("---" for _ in headings), *rows]
    return "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
