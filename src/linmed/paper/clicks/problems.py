"""What is played: low and high click rates, norms guessed wrongly, news, and the Open Bandit log's items."""

import math
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linmed.environments import Clicks, Environment, News, OpenBanditClicks
from linmed.paper.clicks.vowpal_wabbit import rival
from linmed.paper.experiment import Experiment, Findings, Numbers, Scale, Setting, Size
from linmed.paper.lineup import Variant
from linmed.paper.output import Output
from linmed.policies import EpsilonGreedy, Greedy, LinMED, LogisticMED, LogisticTS, LogisticUCB, Policy
from linmed.report.progress import Bar

if TYPE_CHECKING:
    from linmed.paper.drawing import Drawing

RATES: dict[str, tuple[float, float]] = {
    "5.5 % → 22 %": (0.055, 4.0),
    "6.6 % → 16 %": (0.066, 1.9),
    "52 % → 92 %": (0.519, 3.85),
}
"""Mean and best click rate of ten arms in five features: the base rate, and ‖w‖, with which the best of ten
random arms has that rate in the mean (tests/environments/test_clicks.py)."""
FIRST, SECOND, HALF = RATES
NEW, SAME = "arms new each round", "fixed arms"
LOW = (f"{NEW}, {FIRST}", f"{NEW}, {SECOND}")
"""The two problems that the figures to reach are about."""
PROBLEMS: dict[str, Clicks] = {
    f"{kind}, {words}": Clicks(rate=rate, norm=norm, changing=kind == NEW)
    for kind in (NEW, SAME)
    for words, (rate, norm) in RATES.items()
}
LINEAR, UNKNOWN, LEARNED = "LinMED, σ = 0.5", "LinMED, σ and S unknown", "LinMED, ridge learned"
OWN, OPTIMISM, THOMPSON = "LogisticMED", "LogisticUCB", "LogisticTS"
GREEDY, EPSILON, RIVAL = "Greedy", "ε-greedy, ε = 0.1", "VowpalWabbit SquareCB"
WRONG: dict[str, float] = {"S": 1.0, "3 S": 3.0, "S / 3": 1.0 / 3.0}
"""What the norm of θ* is multiplied by before policies are told."""
FAMILY: dict[str, Any] = {OWN: LogisticMED, OPTIMISM: LogisticUCB, THOMPSON: LogisticTS}
NEWS: dict[str, News] = {"news, no ids": News(), "news, ids": News(ids=True)}
PLAIN, IDS = NEWS
GUESSES = (0.03, 0.1, 0.3, 1.0, 3.0)
"""σ, and S, of the grid: those of benchmarks/defaults.py."""
SQUARECB: dict[str, str] = {
    f"{RIVAL}, γ = {scale}": f"--squarecb --gamma_scale {scale}" for scale in (10, 100, 1000)
}
"""Vowpal Wabbit's own default is 10; the best of the three is taken."""
CATALOGUE = "Open Bandit items, 5 %"
MOST = 20
"""Trials of the news and of the Open Bandit items, which are long."""
RIVALS_TRIALS = 20
"""Trials of Vowpal Wabbit, which is slow, everywhere."""
PREVIEW, FINALISTS = 2, 4
"""Every guess of the grid, and every γ, is played in so many trials of the news; so many of the guesses, and
the best γ, then in all."""
LONGER = 5
"""Rounds of the news, and of the Open Bandit items, to one of the other problems."""


def guessed(sigma: float, norm: float) -> str:
    """A guess of the grid."""
    return f"LinMED, σ = {sigma:g}, S = {norm:g}"


GRID = tuple(guessed(sigma, norm) for sigma in GUESSES for norm in GUESSES)


def told(rule: str, words: str) -> str:
    """A rule that is told a norm."""
    return f"{rule}, {words}"


class ClickExperiment(Experiment):
    """Ours alone: its rules are in this package, and its ledger is not the paper's."""

    name = "clicks"
    title = "Clicks: the MED rule in a logistic model"
    place = "our addition"
    about = (
        "Policies that believe in a linear and in a logistic model, on clicks: K = 10 arms in five features "
        "and a constant, new each round and fixed; a news page, clicks late, without and with article ids; "
        "the norm of θ* guessed wrongly by three. Regret is in clicks. δ = 1/(t+1)."
    )
    paper, quick, decisive = Size(4_000, 200), Size(200, 4), Size(4_000, 200)

    def __init__(self, open_bandit: str | Path | None = None, vowpal_wabbit: str | None = None) -> None:
        self.open_bandit = open_bandit
        self.rivals = [
            one
            for label, words in SQUARECB.items()
            if (one := rival(label, words, vowpal_wabbit)) is not None
        ]

    def settings(self, variant: Variant, horizon: int, movielens: Path | None = None) -> list[Setting]:
        """A setting for every problem with ten arms, and for wrong norms at the two low rates."""
        short = [Setting((problem,), env, self._all(), horizon, 0.5) for problem, env in PROBLEMS.items()]
        return [*short, *(_norms(problem, horizon) for problem in LOW)]

    def further(
        self, scale: Scale, variant: Variant, horizon: int, movielens: Path | None = None
    ) -> list[Setting]:
        """The longer worlds, which take hours, at the decisive scale."""
        if scale != "decisive":
            return []
        news = [self._news(name, env, horizon * LONGER) for name, env in NEWS.items()]
        return [*self._catalogue(horizon * LONGER), *news]

    def notes(self, movielens: Path | None) -> tuple[str, ...]:
        """What was not played."""
        missing = []
        if not self.rivals:
            missing.append(
                "Vowpal Wabbit was not played: --vowpal-wabbit names an interpreter that has it "
                "(python -m venv vw && vw/bin/pip install vowpalwabbit)."
            )
        if self.open_bandit is None:
            missing.append(
                "The Open Bandit items were not played and its log was not replayed: --open-bandit names the "
                "dataset's folder."
            )
        return tuple(missing)

    def _all(self) -> tuple[Policy, ...]:
        """Whoever meets the problems with ten arms."""
        return *linear(), *logistic(), *simple(), *self.rivals[:1]

    def _news(self, name: str, environment: Environment, horizon: int) -> Setting:
        grid = [
            LinMED(sigma=sigma, norm_bound=norm, label=guessed(sigma, norm))
            for sigma in GUESSES
            for norm in GUESSES
        ]
        policies = (*linear()[1:], *logistic(), *simple(), *grid, *self.rivals)
        if (
            name == PLAIN
        ):  # the figures to reach are about ids; without them the grid's best was measured before
            policies = (*linear()[1:], *logistic(), *simple(), *self.rivals[:1])
        return Setting((name,), environment, policies, horizon, 0.5, most=MOST)

    def _catalogue(self, horizon: int) -> list[Setting]:
        if self.open_bandit is None:
            return []
        environment = OpenBanditClicks(self.open_bandit, rate=0.05)
        policies = (*linear(), *logistic(), *simple())
        return [Setting((CATALOGUE,), environment, policies, horizon // 2, 0.5, most=MOST // 2)]

    def rounds(self, found: Findings) -> int:
        """Of all trials, as far as they are known beforehand: the finalists' are those of other policies."""
        from linmed.paper.clicks import play

        wanted = play.first_trials(found)
        first = sum(found.setting(*key).horizon * trials for (key, _), trials in wanted.items())
        if not found.has(IDS):
            return first
        ids = found.setting(IDS)
        last = min(found.trials, MOST) - min(found.trials, PREVIEW)
        return first + ids.horizon * last * (FINALISTS + bool(self.rivals))

    def run(self, found: Findings, output: Output, executor: Executor | None, bar: Bar) -> Findings:
        """A preview of the grid, the finalists, and what is watched beside."""
        from linmed.paper.clicks import play

        return play.played(found, output, executor, bar, self._play, self.open_bandit)

    def drawings(self, found: Findings) -> "Iterator[Drawing]":
        """Regret on the problems, clicks of the news, wrong norms, calibration."""
        from linmed.paper.clicks import figures  # matplotlib takes a second to import

        yield from figures.drawings(found)

    def numbers(self, found: Findings) -> Iterator[Numbers]:
        """Regret, clicks, calibration and time."""
        from linmed.paper.clicks import tables

        yield from tables.tables(found)


def linear() -> tuple[Policy, ...]:
    """LinMED told σ = 1/2, which is right for every click; told nothing with a proved set; told nothing."""
    return (
        LinMED(sigma=0.5, label=LINEAR),
        LinMED(sigma="unknown", norm_bound="unknown", label=UNKNOWN),
        LinMED(sigma="unknown", ridge="learned", label=LEARNED),
    )


def logistic() -> tuple[Policy, ...]:
    """Told nothing."""
    return tuple(make(label=name) for name, make in FAMILY.items())


def simple() -> tuple[Policy, ...]:
    """Ridge regression without a thought about what is not known, λ = 1/4."""
    return Greedy(sigma=0.5, label=GREEDY), EpsilonGreedy(sigma=0.5, label=EPSILON)


def _norms(problem: str, horizon: int) -> Setting:
    """The features' part of θ*: the base rate has an intercept of its own."""
    environment = PROBLEMS[problem]
    true = math.sqrt(2.0) * environment.norm  # features are x/√2
    policies = [
        make(norm_bound=factor * true, label=told(rule, words))
        for rule, make in FAMILY.items()
        for words, factor in WRONG.items()
    ]
    return Setting((problem, "norm"), environment, tuple(policies), horizon, 0.5)
