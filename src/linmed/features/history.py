"""Which rows a catalogue had in each of its versions: rows are appended, and some are gone from then on."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np

from linmed import validation
from linmed.validation import BadValue, Bools

Step = tuple[int, int]
"""From this version on: so many rows, or this row gone."""


class History:
    """The steps of a catalogue, in the order of its versions."""

    def __init__(self, live: Bools, version: int) -> None:
        """Nothing is known of versions before this one."""
        self._grown: list[Step] = [(version, len(live))]
        self._gone: list[Step] = [(version, row) for row in np.flatnonzero(~live).tolist()]

    @property
    def since(self) -> int:
        """The first version that is known."""
        return self._grown[0][0]

    def add(self, version: int, rows: int, gone: Iterable[int]) -> None:
        """The next version has so many rows, and these are gone."""
        if rows > self._grown[-1][1]:
            self._grown.append((version, rows))
        self._gone.extend((version, row) for row in dict.fromkeys(gone))

    def live(self, version: int) -> Bools:
        """Which of the rows of a version were there (N,)."""
        live = np.ones(self._until(self._grown, version)[-1][1], dtype=bool)
        live[[row for _, row in self._until(self._gone, version)]] = False
        live.flags.writeable = False
        return live

    @staticmethod
    def _until(steps: list[Step], version: int) -> list[Step]:
        return steps[: bisect_right(steps, version, key=itemgetter(0))]

    def to_dict(self) -> dict[str, list[Step]]:
        """As JSON; `from_dict` is its inverse."""
        return {"grown": list(self._grown), "gone": list(self._gone)}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any] | None, live: Bools, version: int) -> "History":
        """What `to_dict` wrote of a catalogue that is at this version; None by a release that did not."""
        made = cls(live, version)
        if saved is None:
            return made
        made._grown, made._gone = (_steps(saved[name], version) for name in ("grown", "gone"))
        rows, gone = [row for _, row in made._grown], sorted(row for _, row in made._gone)
        ends = rows == sorted(rows) and rows[-1:] == [len(live)]
        if not ends or gone != np.flatnonzero(~live).tolist():
            raise BadValue("history", f"history must lead to the {int(live.sum())} items that are there")
        return made


def _steps(saved: Any, last: int) -> list[Step]:
    def whole(number: Any) -> int:
        return validation.whole("history", number, at_least=0)

    steps = [(whole(version), whole(row)) for version, row in saved]
    versions = [version for version, _ in steps]
    if versions != sorted(versions) or max(versions, default=0) > last:
        raise BadValue("history", f"history must be of versions up to {last}, in their order")
    return steps
