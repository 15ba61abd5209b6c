"""Make HTML in which nothing that users named can do harm: elements, pages, what notebooks show."""

import html
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

CELL = "padding:2px 10px;white-space:nowrap"
"""How every cell of a notebook's table looks: colours are the notebook's own."""


class Markup(str):
    """HTML that is not to be escaped again."""

    __slots__ = ()


def escaped(value: object) -> str:
    """Write any text as it is to be shown."""
    return html.escape(str(value))


def _flat(content: Iterable[object]) -> Iterator[str]:
    for one in content:
        if isinstance(one, Markup):
            yield one
        elif isinstance(one, Iterable) and not isinstance(one, str):
            yield from _flat(one)
        elif one is not None:
            yield escaped(one)


def joined(*content: object) -> Markup:
    """Put pieces one after the other: Markup as it is, other text escaped, None left out, lists flattened."""
    return Markup("".join(_flat(content)))


def tag(name: str, *content: object, **attributes: object) -> Markup:
    """Make an element; attributes are named as in class_ and aria_label, those that are None are left out.

    >>> tag("a", "x < 1", tag("b", "!"), href="#here", class_=None)
    '<a href="#here">x &lt; 1<b>!</b></a>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{joined(*content)}</{name}>")


def document(title: str, style: str, *body: object) -> str:
    """Make a page that needs nothing but itself, on light paper and on dark, wide and narrow."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
    )
    return (
        f'<!doctype html><html lang="en"><head>{head}{tag("title", title)}<style>{style}</style></head>'
        f"<body>{tag('main', *body)}</body></html>\n"
    )


# ---- notebooks


def running() -> bool:
    """Say whether this is the kernel of a notebook, where nobody sees a terminal."""
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


def paragraph(words: str, small: bool = False) -> Markup:
    """Make a sentence or two."""
    size = "font-size:85%;opacity:.75;" if small else ""
    return tag("p", words, style=f"{size}margin:.4em 0;max-width:60em")


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], words: Sequence[int] = (0,)) -> Markup:
    """Put rows under their headings; the columns at the places `words` begin at the left."""

    def line(kind: str, cells: Sequence[Any]) -> Markup:
        sides = ("left" if i in words else "right" for i in range(len(cells)))
        styles = (f"{CELL};text-align:{side}" for side in sides)
        return tag("tr", [tag(kind, cell, style=style) for cell, style in zip(cells, styles, strict=True)])

    head, body = tag("thead", line("th", headings)), tag("tbody", [line("td", row) for row in rows])
    return tag("table", head, body, style="border-collapse:collapse")


def bar(share: float, width: int = 90) -> Markup:
    """Draw a share between 0 and 1 as a bar."""
    filled = round(100 * min(max(share, 0.0), 1.0), 1)
    inner = tag("div", style=f"width:{filled:g}%;height:100%;background:#0072b2")
    outer = f"width:{width}px;height:.7em;background:rgba(128,128,128,.18)"
    return tag("div", inner, style=outer, role="presentation")
