"""One progress bar for everything that takes long."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as TimeLeft
from rich.text import Text


class _Done(ProgressColumn):
    """A share where the total is known, the amount done so far where it is not; and how fast it goes."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        amount = f"{task.percentage:3.0f}%" if task.total else f"{task.completed:,.0f} {self._unit}"
        return Text(amount if task.speed is None else f"{amount}  {_short(task.speed)} {self._unit}/s")


class Bar:
    """A bar on standard error, shown only where someone can see it.

    >>> with Bar(False, "rounds", "two simulations", total=200) as bar:  # True shows it, on a terminal
    ...     bar.begin("the first")
    ...     bar.advance(100)
    ...     bar.reach(200)
    """

    def __init__(self, wanted: bool, unit: str, title: str = "", total: float | None = None) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), _Done(unit), TimeElapsedColumn(), TimeLeft(),
            console=console, disable=not (wanted and console.is_terminal), transient=True,
        )  # fmt: skip
        self._task = self._progress.add_task(title, total=total)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def begin(self, title: str) -> None:
        """Say what is being done."""
        self._progress.update(self._task, description=title)

    def advance(self, amount: float) -> None:
        """So much more is done."""
        self._progress.advance(self._task, amount)

    def reach(self, amount: float) -> None:
        """So much is done in all, some of it perhaps long ago."""
        self._progress.update(self._task, completed=amount)


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.2f} {letter}"
    return f"{number:.0f}"
