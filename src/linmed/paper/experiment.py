"""Define what an experiment is: it plans itself, runs, draws and tabulates itself."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from linmed.environments import Environment
from linmed.paper.output import Output
from linmed.paper.roster import Variant, policies
from linmed.paper.statistics import Normal, Share, mean
from linmed.policies import Policy
from linmed.report.progress import Bar
from linmed.report.tables import Table
from linmed.simulation import Results, Store, checkpoints, simulate
from linmed.simulation.trials import Task
from linmed.validation import Bools, Floats, Ints

if TYPE_CHECKING:
    from linmed.paper.drawing import Drawing

Scale = Literal["quick", "paper", "decisive"]
Key = tuple[str | float, ...]
Cell = tuple[Key, str]
"""A setting's key and a policy's name."""


class Data(NamedTuple):
    """What is not shipped, and where it is."""

    movielens: str | Path | None = None
    """An `ml-100k` directory; None generates tables of the same shape."""
    open_bandit: str | Path | None = None
    """The folder of the Open Bandit Dataset."""


NOTHING = Data()


class Asked(NamedTuple):
    """What the settings of an experiment follow from."""

    scale: Scale = "quick"
    variant: Variant = "text"
    horizon: int = 1
    data: Data = NOTHING


class Size(NamedTuple):
    """Horizon and trials of one scale."""

    horizon: int
    trials: int
    """At the first look."""
    looks: int = 1
    """At most. Before each further one the trials are doubled of what could decide a claim."""


@dataclass(frozen=True)
class Setting:
    """One problem with the policies that meet it: a panel of a figure.

    >>> from linmed.environments import LargeGap
    >>> setting = Setting.of(("σ = 1",), LargeGap(), ["OFUL"], 1.0, Asked(horizon=1000))
    >>> setting.environment.name, setting.policies[0].name
    ('LargeGap', 'OFUL')
    """

    key: Key
    """Coordinates in the experiment; (figure, panel) where the experiment is drawn as a grid."""
    environment: Environment
    policies: tuple[Policy, ...]
    horizon: int
    sigma: float
    """σ given to the policies."""
    drawn: bool = True
    """Whether it is a panel of the experiment's own figure."""
    _: KW_ONLY
    gap: float | None = None
    """The smallest positive gap, where it is the same in every trial: then trials may be called stuck."""
    most: int | None = None
    """Trials at most, where a run is long."""

    @classmethod
    def of(
        cls, key: Key, environment: Environment, names: Sequence[str], sigma: float, asked: Asked,
        drawn: bool = True, *, gap: float | None = None, most: int | None = None,
    ) -> "Setting":  # fmt: skip
        """Make one with the policies of these names."""
        made = tuple(policies(names, sigma, asked.horizon, asked.variant))
        return cls(key, environment, made, asked.horizon, sigma, drawn, gap=gap, most=most)


class Numbers(NamedTuple):
    """A table of the report."""

    heading: str
    table: Table
    """The first column says what a row is about."""
    note: str = ""


@dataclass(frozen=True)
class Findings:
    """An experiment with its sizes; and, once it has run, what came of it.

    >>> from linmed.paper import EXPERIMENTS
    >>> found = EXPERIMENTS["large-gap"].plan("quick", "text")
    >>> found.scale, found.shortened, found.trials, len(found.settings)
    ('quick', False, 20, 3)
    """

    experiment: "Experiment"
    scale: Scale
    variant: Variant
    horizon: int
    trials: int
    """At the first look."""
    seed: int
    settings: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()
    _: KW_ONLY
    most_looks: int = 1
    limit: int | None = None
    """Trials beyond this are not looked at."""
    results: Mapping[Key, Results] = field(default_factory=dict)
    scores: Mapping[str, Floats] = field(default_factory=dict)
    """Numbers beside regret, a row for each trial."""
    seconds: float = 0.0
    """Time spent in the loops of all its trials, summed over workers, whenever they were computed."""

    @property
    def shortened(self) -> bool:
        """Whether its horizon is below the paper's."""
        return self.horizon < self.experiment.paper.horizon

    @property
    def most_trials(self) -> int:
        """Of the policy and setting that were played most often."""
        return max(
            (len(run.trials) for results in self.results.values() for run in results.runs.values()),
            default=self.trials,
        )

    def until(self, look: int) -> "Findings":
        """What was known at the look of this number, from 1."""
        return replace(self, limit=self.trials << (look - 1)) if self.most_looks > 1 else self

    def reaches(self, look: int, cells: Iterable[Cell]) -> bool:
        """Whether that look was taken of all of these, with trials that no earlier one had of some."""
        cells = list(cells)
        taken = all(self.played(cell) >= self._trials_at(look, cell) for cell in cells)
        return taken and any(self._trials_at(look, cell) > self._trials_at(look - 1, cell) for cell in cells)

    def played(self, cell: Cell) -> int:
        """Trials of a policy in a setting."""
        key, name = cell
        return len(self.results[key].run(name).trials) if key in self.results else 0

    def next_trials(self, cell: Cell) -> int:
        """Trials at its next look; as many as there are if there is none."""
        played = self.played(cell)
        looks = (self._trials_at(look, cell) for look in range(1, self.most_looks + 1))
        return next((trials for trials in looks if trials > played), played)

    def _trials_at(self, look: int, cell: Cell) -> int:
        trials = self.trials << (look - 1)
        return min(trials, self.setting(*cell[0]).most or trials)

    def smallest(self, cells: Iterable[Cell]) -> int:
        """Trials that all of these have, as far as they are looked at."""
        counts = [len(self.final(name, *key)) for key, name in cells if key in self.results]
        return min(counts, default=self.trials)

    def setting(self, *key: str | float) -> Setting:
        """The setting of this key."""
        return next(setting for setting in self.settings if setting.key == key)

    def has(self, *key: str | float) -> bool:
        """Whether there is such a setting."""
        return any(setting.key == key for setting in self.settings)

    def names(self, *key: str | float) -> list[str]:
        """The policies of a setting; none where it is not played at this scale."""
        return [policy.name for s in self.settings if s.key == key for policy in s.policies]

    def final(self, name: str, *key: str | float) -> Floats:
        """Regret at the horizon (trials,)."""
        return self.results[key].final(name)[: self.limit]

    def curves(self, name: str, *key: str | float) -> Floats:
        """Regret (trials, checkpoints)."""
        return self.results[key].regret(name)[: self.limit]

    def pulls(self, name: str, *key: str | float) -> Ints:
        """How often each arm was played (trials, arms)."""
        return self.results[key].pulls(name)[: self.limit]

    def rounds(self, *key: str | float) -> Ints:
        """The checkpoints of a setting."""
        return self.results[key].checkpoints

    def at(self, round_: float, name: str, *key: str | float) -> Floats:
        """Regret at the checkpoint nearest to a round (trials,)."""
        return self.curves(name, *key)[:, self._nearest(round_, *key)]

    def _nearest(self, round_: float, *key: str | float) -> int:
        return int(abs(self.rounds(*key) - round_).argmin())

    def stuck_regret(self, *key: str | float) -> float:
        """Of a trial that plays the second-best arm throughout, where such a trial must be reckoned with.

        That is where the noise is under-specified, so that no policy's confidence set is right, and the
        setting knows its gap. Elsewhere 0.
        """
        setting = self.setting(*key)
        noise = getattr(setting.environment, "sigma", 0.0)
        return setting.gap * setting.horizon if setting.gap and setting.sigma < noise else 0.0

    def stuck(self, name: str, *key: str | float) -> Bools:
        """Which trials are stuck (trials,).

        In the second half of its rounds a stuck trial loses at least half of what playing the second-best arm
        throughout would. Where that happens with positive probability, mean regret is linear.
        """
        setting = self.setting(*key)
        assert setting.gap is not None
        half = self._nearest(setting.horizon / 2, *key)
        left = setting.horizon - int(self.rounds(*key)[half])
        curves = self.curves(name, *key)
        stuck: Bools = curves[:, -1] - curves[:, half] >= 0.5 * setting.gap * left
        return stuck


class Experiment(ABC):
    """One experiment: regret of policies in several settings, unless a subclass says more.

    >>> from linmed.environments import LargeGap
    >>> class Mine(Experiment):
    ...     name, title, place, about = "mine", "Mine", "nowhere", "A gap of 1."
    ...     paper = quick = decisive = Size(horizon=1000, trials=10)
    ...
    ...     def settings(self, asked):
    ...         return [Setting.of(("all",), LargeGap(), ["OFUL"], 1.0, asked)]
    >>> found = Mine().plan("quick", "text")
    >>> Mine().rounds(found)
    10000
    """

    name: ClassVar[str]
    title: ClassVar[str]
    place: ClassVar[str]
    """Where the paper has it."""
    about: ClassVar[str]
    paper: ClassVar[Size]
    quick: ClassVar[Size]
    decisive: ClassVar[Size]
    """Sizes by scale."""
    figure: ClassVar[str] = ""
    """What tells its figures apart, as in "ε = 0.01"; nothing where the value says it all."""
    panel: ClassVar[str] = ""
    """What tells the panels of a figure apart."""
    differences: ClassVar[tuple[str, ...]] = ()
    """What the public code does differently from the text here."""
    ours: ClassVar[bool] = False
    """Whether it is ours alone, with a ledger apart from the paper's."""

    @abstractmethod
    def settings(self, asked: Asked) -> list[Setting]:
        """Return the problems and who meets them."""

    def notes(self, data: Data) -> tuple[str, ...]:
        """Say what a reader should know about this run."""
        return ()

    def plan(self, scale: Scale, variant: Variant, horizon: int | None = None, trials: int | None = None,
             seed: int = 0, data: Data = NOTHING) -> Findings:  # fmt: skip
        """Choose the scale's sizes, or others, with the settings that follow from them."""
        size: Size = getattr(self, scale)
        n = size.horizon if horizon is None else horizon
        settings = tuple(self.settings(Asked(scale, variant, n, data)))
        m = size.trials if trials is None else trials
        looks = size.looks if trials is None else 1  # other trials than the scale's are looked at once
        return Findings(self, scale, variant, n, m, seed, settings, self.notes(data), most_looks=looks)

    def rounds(self, found: Findings) -> int:
        """Count the replica-rounds of the first look."""
        return sum(
            s.horizon * len(s.policies) * min(found.trials, s.most or found.trials) for s in found.settings
        )

    def run(self, found: Findings, output: Output, executor: Executor | None, bar: Bar) -> Findings:
        """Play the first look; what the output holds is not run again."""
        every = [(s.key, policy.name) for s in found.settings for policy in s.policies]
        return self._play(found, {cell: found.trials for cell in every}, output, executor, bar)

    def look_again(self, found: Findings, cells: Iterable[Cell], output: Output, executor: Executor | None,
                   bar: Bar) -> Findings:  # fmt: skip
        """Play the trials that the next look at these policies in these settings wants."""
        return self._play(found, {cell: found.next_trials(cell) for cell in cells}, output, executor, bar)

    def missing(self, found: Findings, cell: Cell, output: Output) -> int:
        """Count the trials that the next look at a policy in a setting wants and the output does not hold."""
        key, name = cell
        s = found.setting(*key)
        policy = next(policy for policy in s.policies if policy.name == name)
        trials = tuple(range(found.next_trials(cell)))
        task = Task(s.environment, s.horizon, found.seed, trials, policy, checkpoints(s.horizon))
        return len(trials) - Store(output.store).held(task)

    def _play(self, found: Findings, wanted: Mapping[Cell, int], output: Output, executor: Executor | None,
              bar: Bar) -> Findings:  # fmt: skip
        """With so many trials of each."""
        where: dict[str, Any] = {"executor": executor, "workers": None if executor else 1}
        results = dict(found.results)
        for s in found.settings:
            asked = {p.name: wanted.get((s.key, p.name), 0) for p in s.policies}
            sizes = {name: min(trials, s.most or trials) for name, trials in asked.items()}
            for many in sorted(set(sizes.values()) - {0}):
                new = simulate(
                    [p for p in s.policies if sizes[p.name] == many], s.environment, s.horizon, many,
                    found.seed, progress=bar, store=Store(output.store), **where,
                )  # fmt: skip
                runs = {**(results[s.key].runs if s.key in results else {}), **new.runs}
                results[s.key] = replace(
                    new, runs={p.name: runs[p.name] for p in s.policies if p.name in runs}
                )
        seconds = sum(r.seconds(name) for r in results.values() for name in r.names)
        return replace(found, results=results, seconds=seconds)

    def drawings(self, found: Findings) -> "Iterator[Drawing]":
        """Draw its figures: grids of regret."""
        from linmed.paper.drawing import grids  # which needs what is defined here

        return grids(found)

    def numbers(self, found: Findings) -> Iterator[Numbers]:
        """Tabulate final regrets, their medians, and stuck trials where a setting knows its gap."""
        shown = [setting for setting in found.settings if setting.drawn]
        yield Numbers(
            "Final regret ± standard error",
            _table(found, shown, lambda name, s: with_error(mean(found.final(name, *s.key))), timed=True),
        )
        yield Numbers(
            "Median final regret",
            _table(found, shown, lambda name, s: rounded(float(np.median(found.final(name, *s.key))))),
            "Of a heavy-tailed regret the median tells what is typical, the mean what it costs.",
        )
        known = [setting for setting in shown if setting.gap is not None]
        if known:
            early = " After so few rounds that is everyone who still explores." if found.shortened else ""
            yield Numbers(
                "Share of stuck trials (95 % interval of Clopper and Pearson)",
                _table(found, known, lambda name, s: str(Share.of(found.stuck(name, *s.key)))),
                "A trial is stuck if in the second half of its rounds it loses at least half of what "
                f"playing the second-best arm throughout would.{early}",
            )

    def heading(self, key: Key, found: Findings) -> str:
        """Put a setting in words."""
        symbols = [self.figure, self.panel] if len(key) == 2 else [self.panel]
        return ", ".join(labelled(symbol, value) for symbol, value in zip(symbols, key, strict=True))


def _table(
    found: Findings, settings: Sequence[Setting], cell: Callable[[str, Setting], str], timed: bool = False
) -> Table:
    """Make a row for each policy and a column for each setting."""
    played = {s.key: found.names(*s.key) for s in settings}
    names = list(dict.fromkeys(name for some in played.values() for name in some))
    columns = {"policy": names}
    for s in settings:
        heading = found.experiment.heading(s.key, found)
        columns[heading] = [cell(name, s) if name in played[s.key] else "—" for name in names]
    if timed:
        each = {key: found.results[key] for key in played}
        spent = [sum(each[key].seconds(name) for key in each if name in played[key]) for name in names]
        columns["time in the loop"] = [duration(seconds) for seconds in spent]
    return Table(columns)


def labelled(symbol: str, value: str | float) -> str:
    """Put a coordinate in words: "ε = 0.01", or the value alone where it says what it is."""
    return f"{symbol} = {value}" if symbol else str(value)


def duration(seconds: float) -> str:
    """Say minutes where there are many seconds."""
    return f"{seconds / 60:.1f} min" if seconds >= 90 else f"{seconds:.1f} s"


def with_error(estimate: Normal) -> str:
    """Write value ± standard error."""
    error = "" if math.isnan(estimate.error) else f"\u00a0±\u00a0{rounded(estimate.error, estimate.value)}"
    return f"{rounded(estimate.value)}{error}"


def rounded(value: float, beside: float | None = None) -> str:
    """Write a number with as many decimals as suit it, or the one that it stands beside."""
    size = value if beside is None else beside
    return f"{value:,.{0 if size >= 1000 else 1 if size >= 10 else 2}f}"
