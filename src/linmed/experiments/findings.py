"""What a run of one experiment found, as the claims, the figures and the report see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from linmed.checks import Floats, Ints
from linmed.experiments.catalogue import Experiment, Key, Scale, Setting
from linmed.experiments.lineup import Variant
from linmed.simulation import Results


@dataclass(frozen=True)
class Findings:
    """Results of every setting of one experiment; or, for offline-evaluation, scores by propensity."""

    experiment: Experiment
    scale: Scale
    variant: Variant
    horizon: int
    trials: int
    seed: int
    settings: tuple[Setting, ...] = ()
    results: Mapping[Key, Results] = field(default_factory=dict)
    scores: Mapping[str, Floats] = field(default_factory=dict)
    seconds: float = 0.0
    """Time spent in the loops of all its trials, summed over workers, whenever they were computed."""
    notes: tuple[str, ...] = ()

    @property
    def shortened(self) -> bool:
        """Whether its horizon is below the paper's."""
        return self.horizon < self.experiment.sizes["paper"].horizon

    def setting(self, *key: str | float) -> Setting:
        """The setting of this key."""
        return next(setting for setting in self.settings if setting.key == key)

    def names(self, *key: str | float) -> list[str]:
        """The policies of a setting."""
        return self.results[key].names

    def final(self, name: str, *key: str | float) -> Floats:
        """Regret at the horizon (trials,)."""
        return self.results[key].final(name)

    def curves(self, name: str, *key: str | float) -> Floats:
        """Regret (trials, checkpoints)."""
        return self.results[key].regret(name)

    def rounds(self, *key: str | float) -> Ints:
        """The checkpoints of a setting."""
        return self.results[key].checkpoints

    def at(self, round_: float, name: str, *key: str | float) -> Floats:
        """Regret at the checkpoint nearest to a round (trials,)."""
        nearest = int(abs(self.rounds(*key) - round_).argmin())
        return self.curves(name, *key)[:, nearest]
