"""One progress bar for everything that takes long, on a terminal and in a notebook."""

import shutil
import sys
import threading
import time
from typing import Any, Self

from linmed.report.html import bar, escaped, running, show

SELDOM = 0.2
"""Seconds between two pictures of a bar."""
RECENT = 30.0
"""Seconds over which speed is measured."""
CELLS = 30
"""Characters of a bar on a terminal."""


class Bar:
    """A bar on standard error or below the cell that runs, shown only where someone can see it.

    >>> with Bar(False, "rounds", "two simulations", total=200) as bar:  # True shows it, on a terminal
    ...     bar.begin("the first")
    ...     bar.advance(100)
    ...     bar.reach(200)
    """

    def __init__(self, wanted: bool, unit: str, title: str = "", total: float | None = None) -> None:
        self._unit, self._title, self._total, self._done = unit, title, total, 0.0
        self._picture: _Below | _Line | None = None
        if wanted and running():
            self._picture = _Below()
        elif wanted and sys.stderr is not None and sys.stderr.isatty():
            self._picture = _Line()
        self._lock = threading.Lock()
        self._began = self._last = time.monotonic()
        self._marks = [(self._began, 0.0)]  # when so much was done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._picture is not None:
            self._picture.clear()

    def begin(self, title: str) -> None:
        """Say what is being done."""
        self._title = title
        self._show()

    def advance(self, amount: float) -> None:
        """So much more is done."""
        with self._lock:
            self._done += amount
        self._show()

    def reach(self, amount: float) -> None:
        """So much is done in all, some of it perhaps long ago."""
        with self._lock:
            if not self._done:
                self._marks = [(time.monotonic(), amount)]  # what was there before says nothing of speed
            self._done = amount
        self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if self._picture is None or now - self._last < SELDOM:
            return
        with self._lock:
            self._last = now
            self._marks = [mark for mark in self._marks if now - mark[0] < RECENT] or self._marks[-1:]
            (since, before), done = self._marks[0], self._done
            self._marks.append((now, done))
            speed = (done - before) / (now - since) if now > since and done > before else None
            share = min(done / self._total, 1.0) if self._total else None
            amount = f"{share:4.0%}" if share is not None else f"{done:,.0f} {self._unit}"
            if speed is not None:
                amount += f"  {_short(speed)} {self._unit}/s"
            times = _clock(now - self._began)
            if share is not None and speed is not None and self._total is not None:
                times += f"  {_clock((self._total - done) / speed)} left"
            self._picture.show(self._title, share, amount, times)


class _Line:
    """One line of a terminal, written over again and again."""

    def show(self, title: str, share: float | None, amount: str, times: str) -> None:
        """How far it is."""
        full = round(CELLS * share) if share is not None else 0
        drawn = f"{'━' * full}{'╌' * (CELLS - full)} " if share is not None else ""
        line = f"{title} {drawn}{amount}  {times}".strip()
        self._write(line[: shutil.get_terminal_size().columns - 1])

    def clear(self) -> None:
        """All is done."""
        self._write("")

    def _write(self, line: str) -> None:
        encoding = sys.stderr.encoding or "ascii"
        known = line.encode(encoding, "replace").decode(encoding)
        sys.stderr.write(f"\r\x1b[2K{known}")
        sys.stderr.flush()


class _Below:
    """One line below a notebook's cell, written over again and again: it needs nothing but IPython."""

    def __init__(self) -> None:
        self._shown: Any = None

    def show(self, title: str, share: float | None, amount: str, times: str) -> None:
        """How far it is."""
        drawn = bar(share, 200) if share is not None else ""
        words = escaped(f"{title} {amount.strip()}".strip())
        content = f'<div style="display:flex;gap:1em;align-items:center"><span>{words}</span>{drawn}</div>'
        self._shown = show(content, self._shown)

    def clear(self) -> None:
        """All is done."""
        if self._shown is not None:
            show("", self._shown)


def _clock(seconds: float) -> str:
    """0:01:23."""
    whole = int(min(seconds, 359_999.0))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.2f} {letter}"
    return f"{number:.0f}"
