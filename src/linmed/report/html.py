"""What a notebook shows: whether one is running, and HTML in which nothing that users named can do harm.

Colours are the page's own, so that it reads on light and on dark paper.
"""

import html
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

CELL = "padding:2px 10px;white-space:nowrap"
"""How every cell looks."""


def running() -> bool:
    """Whether this is the kernel of a notebook, where nobody sees a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def show(content: str, where: Any = None) -> Any:
    """Write HTML below the cell that runs, or over what an earlier call returned."""
    display = import_module("IPython.display")
    if where is None:
        return display.display(display.HTML(content), display_id=True)
    where.update(display.HTML(content))
    return where


def escaped(value: object) -> str:
    """Any text, to be shown as it is."""
    return html.escape(str(value))


def paragraph(words: str, small: bool = False) -> str:
    """A sentence or two."""
    size = "font-size:85%;opacity:.75;" if small else ""
    return f'<p style="{size}margin:.4em 0;max-width:60em">{escaped(words)}</p>'


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], words: Sequence[int] = (0,)) -> str:
    """Rows of text under their headings; the columns at the places `words` begin at the left.

    A cell of the class `Markup` is HTML already.
    """

    def line(tag: str, cells: Sequence[Any]) -> str:
        made = [
            f'<{tag} style="{CELL};text-align:{"left" if i in words else "right"}">'
            f"{cell if isinstance(cell, Markup) else escaped(cell)}</{tag}>"
            for i, cell in enumerate(cells)
        ]
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line("td", row) for row in rows)
    head = f"<thead>{line('th', headings)}</thead>"
    return f'<table style="border-collapse:collapse">{head}<tbody>{body}</tbody></table>'


class Markup(str):
    """HTML that is not to be escaped again."""

    __slots__ = ()


def bar(share: float, width: int = 90) -> Markup:
    """A share between 0 and 1 as a bar."""
    filled = round(100 * min(max(share, 0.0), 1.0), 1)
    return Markup(
        f'<div style="width:{width}px;height:.7em;background:rgba(128,128,128,.18)" role="presentation">'
        f'<div style="width:{filled:g}%;height:100%;background:#0072b2"></div></div>'
    )
