"""Numbers that claims about clicks are made of: ratios of clicks, and how far propensities are off."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from linmed.paper.clicks.watching import worst
from linmed.paper.experiment import Cell, Findings, Key
from linmed.paper.statistics import Estimate, Normal, resampled
from linmed.simulation.trials import Outcome
from linmed.validation import Floats


@dataclass(frozen=True)
class ClickFindings(Findings):
    """Findings with what was found out beside the trials."""

    _: KW_ONLY
    best: Mapping[Key, Floats] = field(default_factory=dict)
    """What the best arms of every round would have paid (trials,), by setting."""
    watched: Mapping[str, Outcome] = field(default_factory=dict)
    """Plays by stated probability, by policy."""
    watched_rounds: int = 0
    micros: Mapping[str, float] = field(default_factory=dict)
    """Time of a decision with its reward, by policy: the only numbers that another run changes."""
    replayed: tuple[tuple[str, str], ...] = ()
    """What a log paid policies that learn from it, by policy."""

    def names(self, *key: str | float) -> list[str]:
        """The policies of a setting; nobody where it is not played at this scale."""
        return super().names(*key) if self.has(*key) else []

    def clicks(self, name: str, *key: str | float) -> Floats:
        """Expected clicks at the horizon (trials,)."""
        regret = self.final(name, *key)
        return self.best[key][: len(regret)] - regret


@dataclass(frozen=True)
class ClickRatio:
    """Clicks of a policy over those of the best of others: the best mean over as many trials as its own."""

    own: str
    others: tuple[str, ...]
    key: Key

    @property
    def cells(self) -> frozenset[Cell]:
        """All of them."""
        return frozenset((self.key, name) for name in (self.own, *self.others))

    def estimate(self, found: Findings) -> Estimate:
        """With its bootstrap over paired trials; others that were played less often were given up."""
        assert isinstance(found, ClickFindings)
        own = found.clicks(self.own, *self.key)
        others = [found.clicks(name, *self.key) for name in self.others]
        most = max(len(other) for other in others)
        rivals = (other for other in others if len(other) == most)
        return resampled(over_highest, own, *rivals, beyond=1.0)


def over_highest(w: Floats, own: Floats, *others: Floats) -> Floats:
    """mean own / the highest of the others' means."""
    values: Floats = (w @ own) / np.max([w @ other for other in others], axis=0)
    return values


@dataclass(frozen=True)
class Exact(Normal):
    """A number that is compared as it is: its border allows for chance."""

    def __str__(self) -> str:
        """Without an interval."""
        return f"{self.value:.2f}"


@dataclass(frozen=True)
class Miscalibration:
    """Standard deviations by which the worst bin's plays are off."""

    policy: str

    @property
    def cells(self) -> frozenset[Cell]:
        """None: these are not trials of regret."""
        return frozenset()

    def estimate(self, found: Findings) -> Estimate:
        """Over all trials."""
        assert isinstance(found, ClickFindings)
        counted = found.watched[self.policy]
        return Exact(worst(counted), 0.0, len(counted["played"]))
