"""What an experiment is: it plans itself, states its claims before it is run, runs and draws itself."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from linmed.checks import Floats, Ints
from linmed.environments import Environment
from linmed.experiments.lineup import Variant, policies
from linmed.experiments.output import Output
from linmed.experiments.statistics import Estimate, mean
from linmed.policies import LinMED, Policy
from linmed.progress import Bar
from linmed.simulation import Results, Store, simulate

if TYPE_CHECKING:
    from linmed.experiments.claims import Claim
    from linmed.experiments.drawing import Drawing

Scale = Literal["quick", "paper"]
Key = tuple[str | float, ...]
THEORY: Key = ("theory",)
"""The setting that is compared with the paper's bounds."""


class Size(NamedTuple):
    """Horizon and trials of one scale."""

    horizon: int
    trials: int


@dataclass(frozen=True)
class Setting:
    """One problem with the policies that meet it: a panel of a figure."""

    key: Key
    """Coordinates in the experiment; (figure, panel) where the experiment is drawn as a grid."""
    environment: Environment
    policies: tuple[Policy, ...]
    horizon: int
    sigma: float
    """σ given to the policies."""
    drawn: bool = True
    """Whether it is a panel of the experiment's own figure."""

    @classmethod
    def of(cls, key: Key, environment: Environment, names: Sequence[str], sigma: float, horizon: int,
           variant: Variant, drawn: bool = True) -> "Setting":  # fmt: skip
        """With the policies of these names."""
        return cls(key, environment, tuple(policies(names, sigma, horizon, variant)), horizon, sigma, drawn)

    @classmethod
    def theory(cls, environment: Environment, sigma: float, horizon: int) -> "Setting":
        """LinMED-90 with δ_t = 1/(t+1), which the theorems are about."""
        return cls(
            THEORY, environment, (LinMED(sigma=sigma, label="LinMED-90"),), horizon, sigma, drawn=False
        )


class Numbers(NamedTuple):
    """A table of the report, as text."""

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    """The first cell says what the row is about."""
    best: frozenset[tuple[int, int]] = frozenset()
    """Cells, by row and column, that are marked."""
    note: str = ""


@dataclass(frozen=True)
class Findings:
    """An experiment with its sizes; and, once it has run, what came of it."""

    experiment: "Experiment"
    scale: Scale
    variant: Variant
    horizon: int
    trials: int
    seed: int
    settings: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()
    _: KW_ONLY
    results: Mapping[Key, Results] = field(default_factory=dict)
    scores: Mapping[str, Floats] = field(default_factory=dict)
    """Of an experiment that has scores (trials,) instead of regret."""
    seconds: float = 0.0
    """Time spent in the loops of all its trials, summed over workers, whenever they were computed."""

    @property
    def shortened(self) -> bool:
        """Whether its horizon is below the paper's."""
        return self.horizon < self.experiment.paper.horizon

    def setting(self, *key: str | float) -> Setting:
        """The setting of this key."""
        return next(setting for setting in self.settings if setting.key == key)

    def names(self, *key: str | float) -> list[str]:
        """The policies of a setting."""
        return [policy.name for policy in self.setting(*key).policies]

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


class Experiment(ABC):
    """One experiment of the paper: regret of policies in several settings, unless a subclass says more."""

    name: ClassVar[str]
    title: ClassVar[str]
    place: ClassVar[str]
    """Where the paper has it."""
    about: ClassVar[str]
    paper: ClassVar[Size]
    quick: ClassVar[Size]
    """Sizes by scale."""
    figure: ClassVar[str] = ""
    """What tells its figures apart, as in "ε = 0.01"; nothing where the value says it all."""
    panel: ClassVar[str] = ""
    """What tells the panels of a figure apart."""
    differences: ClassVar[tuple[str, ...]] = ()
    """What the public code does differently from the text here."""
    missing: ClassVar[tuple[str, ...]] = ()
    """Differences that "as-run" does not take over."""

    @abstractmethod
    def settings(self, variant: Variant, horizon: int, movielens: Path | None = None) -> list[Setting]:
        """The problems and who meets them."""

    @abstractmethod
    def claims(self, found: Findings) -> "Iterator[Claim]":
        """What the paper says; of the findings only the sizes are looked at, so it is said before the run."""

    def notes(self, movielens: Path | None) -> tuple[str, ...]:
        """What a reader should know about this run."""
        return ()

    def plan(self, scale: Scale, variant: Variant, horizon: int | None = None, trials: int | None = None,
             seed: int = 0, movielens: Path | None = None) -> Findings:  # fmt: skip
        """The scale's sizes, or others, with the settings that follow from them."""
        size = self.paper if scale == "paper" else self.quick
        n = size.horizon if horizon is None else horizon
        settings = tuple(self.settings(variant, n, movielens))
        m = size.trials if trials is None else trials
        return Findings(self, scale, variant, n, m, seed, settings, self.notes(movielens))

    def rounds(self, found: Findings) -> int:
        """Replica-rounds in all."""
        return sum(s.horizon * len(s.policies) * found.trials for s in found.settings)

    def run(self, found: Findings, output: Output, executor: Executor | None, bar: Bar) -> Findings:
        """The findings with results; trials that the output already holds are not run again."""
        store = Store(output.store)
        where: dict[str, Any] = {"executor": executor, "workers": None if executor else 1, "store": store}
        results = {
            s.key: simulate(
                s.policies, s.environment, s.horizon, found.trials, found.seed, progress=bar, **where
            )
            for s in found.settings
        }
        seconds = sum(r.seconds(name) for r in results.values() for name in r.names)
        return replace(found, results=results, seconds=seconds)

    def drawings(self, found: Findings) -> "Iterator[Drawing]":
        """Its figures: a grid, and the bounds where there is a setting for them."""
        from linmed.experiments import regret_figures  # matplotlib takes a second to import

        yield from regret_figures.grids(found)
        if any(setting.key == THEORY for setting in found.settings):
            yield regret_figures.theory(found)

    def numbers(self, found: Findings) -> Numbers:
        """Final regret ± standard error: a row per policy, a column per setting."""
        drawn = [setting for setting in found.settings if setting.drawn]
        names = list(dict.fromkeys(name for setting in drawn for name in found.names(*setting.key)))
        finals = [{name: mean(found.final(name, *s.key)) for name in found.names(*s.key)} for s in drawn]
        lowest = [min(estimate.value for estimate in column.values()) for column in finals]
        times = [sum(found.results[s.key].seconds(name) for s in drawn) for name in names]
        return Numbers(
            "Final regret ± standard error",
            ["policy", *(self.heading(setting.key, found) for setting in drawn), "time in the loop"],
            [
                [name, *(_number(column[name]) for column in finals), duration(seconds)]
                for name, seconds in zip(names, times, strict=True)
            ],
            frozenset(
                (row, number)
                for row, name in enumerate(names)
                for number, column in enumerate(finals, start=1)
                if column[name].value == lowest[number - 1]
            ),
        )

    def heading(self, key: Key, found: Findings) -> str:
        """A setting in words."""
        symbols = [self.figure, self.panel] if len(key) == 2 else [self.panel]
        return ", ".join(labelled(symbol, value) for symbol, value in zip(symbols, key, strict=True))


def labelled(symbol: str, value: str | float) -> str:
    """A coordinate in words: "ε = 0.01", or the value alone where it says what it is."""
    return f"{symbol} = {value}" if symbol else str(value)


def duration(seconds: float) -> str:
    """Minutes where there are many seconds."""
    return f"{seconds / 60:.1f} min" if seconds >= 90 else f"{seconds:.1f} s"


def _number(estimate: Estimate) -> str:
    digits = 0 if estimate.value >= 1000 else 1 if estimate.value >= 10 else 2
    value = f"{estimate.value:,.{digits}f}"
    return value if estimate.error != estimate.error else f"{value}\u00a0±\u00a0{estimate.error:,.{digits}f}"
