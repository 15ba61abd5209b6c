"""One progress bar for everything that takes long, on a terminal and in a notebook."""

import time
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as TimeLeft
from rich.text import Text

from linmed.notebooks import bar, escaped, running, show

SELDOM = 0.2
"""Seconds between two pictures of a bar in a notebook."""


class _Done(ProgressColumn):
    """A share where the total is known, the amount done so far where it is not; and how fast it goes."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        amount = f"{task.percentage:3.0f}%" if task.total else f"{task.completed:,.0f} {self._unit}"
        return Text(amount if task.speed is None else f"{amount}  {_short(task.speed)} {self._unit}/s")


class Bar:
    """A bar on standard error or below the cell that runs, shown only where someone can see it.

    >>> with Bar(False, "rounds", "two simulations", total=200) as bar:  # True shows it, on a terminal
    ...     bar.begin("the first")
    ...     bar.advance(100)
    ...     bar.reach(200)
    """

    def __init__(self, wanted: bool, unit: str, title: str = "", total: float | None = None) -> None:
        console = Console(stderr=True)
        self._below = _Below() if wanted and running() else None
        self._done = _Done(unit)
        seen = wanted and console.is_terminal and self._below is None
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), self._done, TimeElapsedColumn(), TimeLeft(),
            console=console, disable=not seen, transient=True,
        )  # fmt: skip
        self._task = self._progress.add_task(title, total=total)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()
        if self._below is not None:
            self._below.clear()

    def begin(self, title: str) -> None:
        """Say what is being done."""
        self._progress.update(self._task, description=title)
        self._show()

    def advance(self, amount: float) -> None:
        """So much more is done."""
        self._progress.advance(self._task, amount)
        self._show()

    def reach(self, amount: float) -> None:
        """So much is done in all, some of it perhaps long ago."""
        self._progress.update(self._task, completed=amount)
        self._show()

    def _show(self) -> None:
        if self._below is not None:
            task = self._progress.tasks[self._task]
            share = task.percentage / 100.0 if task.total else None
            self._below.show(task.description, share, self._done.render(task).plain)


class _Below:
    """One line below a notebook's cell, written over again and again: it needs nothing but IPython."""

    def __init__(self) -> None:
        self._shown: Any = None
        self._last = -SELDOM

    def show(self, title: str, share: float | None, amount: str) -> None:
        """How far it is, unless that was said just now."""
        now = time.monotonic()
        if now - self._last < SELDOM:
            return
        self._last = now
        drawn = bar(share, 200) if share is not None else ""
        words = escaped(f"{title} {amount}".strip())
        content = f'<div style="display:flex;gap:1em;align-items:center"><span>{words}</span>{drawn}</div>'
        self._shown = show(content, self._shown)

    def clear(self) -> None:
        """All is done."""
        if self._shown is not None:
            show("", self._shown)


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.2f} {letter}"
    return f"{number:.0f}"
