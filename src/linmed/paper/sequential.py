"""Give more trials to the open claims whose next look costs least, as long as there is time."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from linmed.paper.claims import Claim, Known
from linmed.paper.experiment import Cell, Findings
from linmed.paper.ledger import claims

TOGETHER = 2.0
"""Looks of one experiment that cost at most so many times the cheapest are taken with it."""

LookAgain = Callable[[Findings, frozenset[Cell]], Findings]
"""Plays what the next look at these cells wants."""
Missing = Callable[[Findings, Cell], int]
"""Trials of the next look at a cell that no earlier run has left."""


@dataclass
class OpenClaims:
    """The open claims of one experiment."""

    found: Findings
    missing: Missing
    known: Known = field(default_factory=dict)
    open: list[Claim] = field(init=False)

    def __post_init__(self) -> None:
        self.open = claims(self.found) if self.found.most_looks > 1 else []

    def costs(self) -> Iterator[tuple[float, frozenset[Cell]]]:
        """Estimate the next look at each open claim: seconds of work, as far as can be told, and cells."""
        still = []
        for claim in self.open:
            cells = claim.wanting(self.found, self.known)
            if cells:
                still.append(claim)
                yield sum(self._seconds(cell) for cell in cells), cells
        self.open = still

    def _seconds(self, cell: Cell) -> float:
        key, name = cell
        each = self.found.results[key].seconds(name) / max(self.found.played(cell), 1)
        return each * self.missing(self.found, cell)


def look_again(
    findings: Iterable[Findings],
    play: LookAgain,
    missing: Missing,
    workers: int,
    deadline: float | None = None,
) -> list[Findings]:
    """Return the findings with more trials, until every claim is decided, none can be, or time is up.

    deadline: of time.monotonic(). No look is begun that would not be over by then, as far as can be told;
        those that need nothing but what earlier runs have left are taken in any case.
    """
    each = [OpenClaims(found, missing) for found in findings]
    steps = [list(one.costs()) for one in each]
    while any(steps):
        least, place = min((min(step)[0], place) for place, step in enumerate(steps) if step)
        if least > 0.0 and deadline is not None and time.monotonic() + least / workers > deadline:
            break
        one = each[place]
        cells = frozenset().union(*(cells for cost, cells in steps[place] if cost <= TOGETHER * least))
        one.found = play(one.found, cells)
        steps[place] = list(one.costs())
    return [
        replace(one.found, notes=(*one.found.notes, _stopped(len(step)))) if step else one.found
        for one, step in zip(each, steps, strict=True)
    ]


def _stopped(count: int) -> str:
    return f"Time was up with {count} claims open; the same command with more --minutes goes on."
