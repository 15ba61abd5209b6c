"""What one pass over a log has seen, and which rewards are possible."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed import validation
from linmed.log import DecisionLog
from linmed.ope.rounds import Problems
from linmed.ope.sums import Played
from linmed.validation import BadValue


class RewardRange(NamedTuple):
    """Which rewards are possible."""

    low: float
    high: float
    given: bool = True
    """False where nobody said: a log that has others is refused."""

    def contains(self, lowest: float, highest: float) -> bool:
        """Whether rewards seen between these are possible; those of a given range are checked one by one."""
        return self.given or (self.low <= lowest and highest <= self.high)


def possible_rewards(reward_range: Any, needed: bool) -> RewardRange | None:
    """The range as it was given; where it is needed and was not, [0, 1]; otherwise None for any reward."""
    if reward_range is not None:
        return RewardRange(*validation.interval("reward_range", reward_range))
    return RewardRange(0.0, 1.0, given=False) if needed else None


@dataclass
class Reading:
    """What one pass over the log has seen, and what was wrong."""

    decisions: int = 0
    rewarded: int = 0  # and used
    waiting: int = 0  # old enough, but without a reward
    young: int = 0  # not old enough
    assumed: int = 0  # given the reward that none by then means
    fallbacks: int = 0  # used, but without a weight
    stopped: int | None = None  # the row at which the log was judged no further
    lowest: float = np.inf  # reward
    highest: float = -np.inf
    policies: set[str | None] = field(default_factory=set)
    versions: set[int] = field(default_factory=set)  # the lowest and the highest
    played: Played = field(default_factory=Played)
    disordered: int | None = None  # the first row that was taken before the one above it
    problems: Problems = field(default_factory=Problems)

    @property
    def adaptive(self) -> bool:
        """Whether the logging policy changed along the log, as far as the log tells."""
        return len(self.policies) > 1 or len(self.versions) > 1

    def merge(self, later: "Reading") -> None:
        """Absorb what another pass saw of the rows that follow."""
        if self.stopped is None:
            self.problems.merge(later.problems, self.decisions)
            self.rewarded += later.rewarded
            self.assumed += later.assumed
            self.fallbacks += later.fallbacks
            self.played.merge(later.played)
            self.lowest, self.highest = min(self.lowest, later.lowest), max(self.highest, later.highest)
            if self.disordered is None and later.disordered is not None:
                self.disordered = later.disordered + self.decisions
            self.stopped = None if later.stopped is None else later.stopped + self.decisions
        self.decisions += later.decisions
        self.waiting += later.waiting
        self.young += later.young
        self.policies |= later.policies
        self._note_versions(later.versions)

    def note(self, batch: pa.RecordBatch) -> None:
        """The policies and versions of a batch, where the log has them."""
        names = batch.schema.names
        if "policy" in names:
            self.policies.update(batch.column("policy").unique().to_pylist())
        if "version" in names:
            low_high = pc.min_max(batch.column("version")).as_py().values()
            self._note_versions({version for version in low_high if version is not None})

    def _note_versions(self, versions: set[int]) -> None:
        both = self.versions | versions
        self.versions = {min(both), max(both)} if both else set()

    @property
    def unused(self) -> int:
        """Decisions that were not judged."""
        return self.decisions - self.rewarded

    @property
    def _unusable(self) -> str:
        """Why not one decision can be used."""
        if self.young == self.decisions:
            return f"all its {self.decisions} decisions are younger than mature"
        if self.stopped is not None and self.waiting < self.decisions - self.young:
            return (
                f"its decision {self.stopped} still waits for one, and missing='stop' goes no further; give "
                "mature, and missing=0 if no reward by then means 0, or missing='skip' if lateness has "
                "nothing to do with the reward"
            )
        return f"none of its {self.decisions} decisions can be used"

    def finish(self, log: DecisionLog, possible: RewardRange | None = None) -> None:
        """Raise what the pass found wrong."""
        self.problems.raise_any()
        if self.decisions == 0:
            raise BadValue("log", f"{log.name} is empty: it holds no decisions")
        if self.rewarded == 0:
            raise BadValue("log", f"{log.name} has no rewards yet: {self._unusable}")
        if possible is not None and not possible.contains(self.lowest, self.highest):
            raise BadValue(
                "reward_range",
                f"reward_range must be given: it may be left out only where every reward lies in [0, 1], and "
                f"{log.name} has rewards from {self.lowest:g} to {self.highest:g}; give the lowest and the "
                "highest reward that are possible, not only those seen",
            )
