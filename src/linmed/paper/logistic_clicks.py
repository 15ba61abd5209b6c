"""Play clicks, an experiment of our own: rewards are 0 or 1, and a logistic model is the right one.

Low and high click rates, norms guessed wrongly, news, and the Open Bandit log's items. Of the many guesses of
σ and S a preview chooses the few that are played in all trials.
"""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from linmed.environments import Clicks, News, OpenBanditClicks
from linmed.paper import drawing
from linmed.paper.experiment import (
    Asked,
    Cell,
    Data,
    Experiment,
    Findings,
    Key,
    Numbers,
    Setting,
    Size,
    with_error,
)
from linmed.paper.output import Output
from linmed.paper.statistics import Estimate, Normal, mean, resampled
from linmed.policies import EpsilonGreedy, Greedy, LinMED, LogisticMED, LogisticTS, LogisticUCB, Policy
from linmed.report.figures import INK, POLICY, Line
from linmed.report.progress import Bar
from linmed.report.tables import Table
from linmed.simulation import Store, attainable
from linmed.simulation.run import compute
from linmed.simulation.trials import Job, Outcome, Tick, TrialBatch
from linmed.validation import Floats, Ints

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
GREEDY, EPSILON = "Greedy", "ε-greedy, ε = 0.1"
WRONG: dict[str, float] = {"S": 1.0, "3 S": 3.0, "S / 3": 1.0 / 3.0}
"""What the norm of θ* is multiplied by before policies are told."""
FAMILY: dict[str, Any] = {OWN: LogisticMED, OPTIMISM: LogisticUCB, THOMPSON: LogisticTS}
NEWS: dict[str, News] = {"news, no ids": News(), "news, ids": News(ids=True)}
PLAIN, IDS = NEWS
GUESSES = (0.03, 0.1, 0.3, 1.0, 3.0)
"""σ, and S, of the grid: those of benchmarks/defaults.py."""
CATALOGUE = "Open Bandit items, 5 %"
MOST = 20
"""Trials of the news and of the Open Bandit items, which are long."""
PREVIEW, FINALISTS = 2, 4
"""Every guess of the grid is played in so many trials of the news; so many of the guesses then in all."""
LONGER = 5
"""Rounds of the news, and of the Open Bandit items, to one of the other problems."""

EDGES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9, 0.97, 0.99)
"""Between the bins of stated probability."""
LEAST = 5.0
"""A bin whose number of plays has a smaller variance is not judged: it is far from normal."""
LEVEL = 0.01
"""Of the judgement on one policy: the share of true probabilities that it calls false."""
LIMIT = float(-ndtri(LEVEL / 2.0 / (len(EDGES) + 1)))
"""Standard deviations, by Bonferroni over the bins. A bin's plays less its stated probabilities are a
martingale; over the root of their variance they are normal in the limit, whatever the policy does."""
WATCHED = (LINEAR, LEARNED, OWN, THOMPSON, EPSILON)
"""Policies that draw, as far as they are played."""
WATCHED_TRIALS, WATCHED_ROUNDS = 20, 2_000
"""At most, of the calibration."""


def guessed(sigma: float, norm: float) -> str:
    """Name a guess of the grid."""
    return f"LinMED, σ = {sigma:g}, S = {norm:g}"


def told(rule: str, words: str) -> str:
    """Name a rule that is told a norm."""
    return f"{rule}, {words}"


GRID = tuple(guessed(sigma, norm) for sigma in GUESSES for norm in GUESSES)


# ---- what is played


class ClickExperiment(Experiment):
    """Ours alone, with a ledger apart from the paper's."""

    name = "clicks"
    title = "Clicks: the MED rule in a logistic model"
    place = "our addition"
    about = (
        "Policies that believe in a linear and in a logistic model, on clicks: K = 10 arms in five features "
        "and a constant, new each round and fixed; a news page, clicks late, without and with article ids; "
        "the norm of θ* guessed wrongly by three. Regret is in clicks. δ = 1/(t+1)."
    )
    paper, quick, decisive = Size(4_000, 200), Size(200, 4), Size(4_000, 200)
    ours = True

    def settings(self, asked: Asked) -> list[Setting]:
        """Return a setting for every problem with ten arms, and for wrong norms at the two low rates.

        The longer worlds, which take hours, are the decisive scale's alone.
        """
        horizon = asked.horizon
        everyone: tuple[Policy, ...] = (*linear(), *logistic(), *simple())
        found = [Setting((problem,), env, everyone, horizon, 0.5) for problem, env in PROBLEMS.items()]
        found += [_norms(problem, horizon) for problem in LOW]
        if asked.scale != "decisive":
            return found
        longer = horizon * LONGER
        if asked.data.open_bandit is not None:
            items = OpenBanditClicks(asked.data.open_bandit, rate=0.05)
            found.append(Setting((CATALOGUE,), items, everyone, longer // 2, 0.5, most=MOST // 2))
        grid = [
            LinMED(sigma=sigma, norm_bound=norm, label=guessed(sigma, norm))
            for sigma in GUESSES
            for norm in GUESSES
        ]
        for name, env in NEWS.items():  # the figures to reach are about ids: the grid is played with them
            policies = (*everyone[1:], *(grid if name == IDS else ()))
            found.append(Setting((name,), env, policies, longer, 0.5, most=MOST))
        return found

    def notes(self, data: Data) -> tuple[str, ...]:
        """Say what was not played."""
        without = "The Open Bandit items were not played: --open-bandit names the dataset's folder."
        return () if data.open_bandit else (without,)

    def rounds(self, found: Findings) -> int:
        """Of all trials, as far as they are known beforehand: the finalists' are those of other policies."""
        first = sum(found.setting(*key).horizon * count for (key, _), count in first_trials(found).items())
        if not found.has(IDS):
            return first
        last = min(found.trials, MOST) - min(found.trials, PREVIEW)
        return first + found.setting(IDS).horizon * last * FINALISTS

    def run(self, found: Findings, output: Output, executor: Executor | None, bar: Bar) -> Findings:
        """Play a preview of the grid and then the finalists, and what is watched beside."""
        found = self._play(found, first_trials(found), output, executor, bar)
        found = self._play(found, finalists(found), output, executor, bar)
        rounds, trials = min(found.horizon, WATCHED_ROUNDS), range(min(found.trials, WATCHED_TRIALS))
        low, scores = found.setting(LOW[0]), {}
        for s in found.settings:
            if len(s.key) == 1:
                most = max(found.played((s.key, policy.name)) for policy in s.policies)
                scores[best(*s.key)] = attainable(s.environment, s.horizon, most, found.seed)
        drawn = [policy for policy in low.policies if policy.name in WATCHED]
        jobs = [Watched(low.environment, rounds, found.seed, tuple(trials), policy) for policy in drawn]
        batch = math.ceil(len(trials) / (getattr(executor, "_max_workers", None) or 1))
        done = compute(jobs, batch, executor, 1, Store(output.store), bar)
        for policy, one in zip(drawn, done, strict=True):
            scores |= {watched(policy.name, part): sums for part, sums in one.arrays.items()}
        return replace(found, scores=scores)

    def drawings(self, found: Findings) -> Iterator[drawing.Drawing]:
        """Draw regret on the problems, wrong norms, clicks of the longer worlds, calibration."""
        yield _regret(found)
        yield _wrong_norms(found)
        if found.has(IDS):
            yield _earned(found)
        yield _calibration(found)

    def numbers(self, found: Findings) -> Iterator[Numbers]:
        """Tabulate regret, clicks and calibration."""
        return _tables(found)


def best(*key: str | float) -> str:
    """Name what the best arms of every round would have paid (trials,) in a setting."""
    return f"{key[0]}: the best arms"


def watched(policy: str, part: str) -> str:
    """Name a policy's plays by bin of stated probability (trials, bins): expected, played, variance."""
    return f"{policy}: {part}"


def _counted(found: Findings, policy: str) -> Outcome:
    return {part: found.scores[watched(policy, part)] for part in ("expected", "played", "variance")}


def _watched(found: Findings) -> dict[str, Outcome]:
    names = (name for name in found.names(LOW[0]) if watched(name, "played") in found.scores)
    return {name: _counted(found, name) for name in names}


def collected(found: Findings, name: str, *key: str | float) -> Floats:
    """Return expected clicks at the horizon (trials,)."""
    regret = found.final(name, *key)
    return found.scores[best(*key)][: len(regret)] - regret


def linear() -> tuple[Policy, ...]:
    """Make LinMED told σ = 1/2, right for every click; told nothing with a proved set; told nothing."""
    return (
        LinMED(sigma=0.5, label=LINEAR),
        LinMED(sigma="unknown", norm_bound="unknown", label=UNKNOWN),
        LinMED(sigma="unknown", ridge="learned", label=LEARNED),
    )


def logistic() -> tuple[Policy, ...]:
    """Make the logistic policies, told nothing."""
    return tuple(make(label=name) for name, make in FAMILY.items())


def simple() -> tuple[Policy, ...]:
    """Make ridge regression without a thought about what is not known, λ = 1/4."""
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


def first_trials(found: Findings) -> dict[Cell, int]:
    """Say how often every policy is played in every setting before the finalists are known."""
    wanted = {}
    for s in found.settings:
        for name in found.names(*s.key):
            most = min(found.trials, s.most or found.trials)
            wanted[s.key, name] = min(most, PREVIEW) if name in GRID else most
    return wanted


def finalists(found: Findings) -> dict[Cell, int]:
    """Choose the guesses that did best in the preview, with the trials that all others have."""
    if not found.has(IDS):
        return {}
    most = min(found.trials, found.setting(IDS).most or found.trials)
    there = [name for name in GRID if name in found.names(IDS)]
    best = sorted(there, key=lambda name: float(found.final(name, IDS)[:PREVIEW].mean()))
    return {((IDS,), name): most for name in best[:FINALISTS]}


# ---- calibration


@dataclass(frozen=True)
class Watched(Job):
    """Plays by bin of stated probability: `expected`, `played` and `variance`, each (R, bins)."""

    policy: Policy

    @property
    def name(self) -> str:
        """Policy and environment."""
        return f"the propensities of {self.policy.name} on {self.environment.name}"

    def configuration(self) -> dict[str, Any]:
        """Return the policy and the bins."""
        return {"job": "watched", "policy": self.policy.to_dict(), "edges": EDGES}

    def columns(self) -> dict[str, tuple[str, Any]]:
        """Add the policy's name."""
        return {"policy": ("string", self.policy.name)}

    def run(self, tick: Tick = lambda replica_rounds: None) -> Outcome:
        """Decide one by one, as a live user is served: every probability is asked for before the draw."""
        policy, replicas = self.policy, len(self.trials)
        batch = TrialBatch(policy, self.environment, self.horizon, self.seed, self.trials)
        sums = np.zeros((3, replicas, len(EDGES) + 1))
        for _, size, noise in batch.blocks():
            for t in range(size):
                arms = batch.environments.arms(t)
                choice = policy.decide(batch.state, arms, noise[t])
                stated = choice.log_probabilities
                if stated is None:
                    stated = policy.log_probabilities(batch.state, arms)
                _count(sums, np.exp(stated), choice.arm)
                paid = batch.environments.rewards(t, batch.offset + choice.arm)
                policy.learn(batch.state, choice.features, paid, batch.replicas)
            tick(size * replicas)
        return {"expected": sums[0], "played": sums[1], "variance": sums[2]}


def _count(sums: Floats, stated: Floats, arm: Ints) -> None:
    """Every arm of every replica into its bin.  stated (R,K), arm (R,)."""
    replicas = np.arange(len(arm))
    own = np.broadcast_to(replicas[:, None], stated.shape)
    bins = np.searchsorted(EDGES, stated)
    np.add.at(sums[0], (own, bins), stated)
    np.add.at(sums[1], (replicas, bins[replicas, arm]), 1.0)
    np.add.at(sums[2], (own, bins), stated * (1.0 - stated))


def deviations(counted: Outcome) -> Floats:
    """Return (played − expected)/√variance of every bin over all trials; NaN where a bin is not judged."""
    expected, played, variance = (counted[name].sum(axis=0) for name in ("expected", "played", "variance"))
    with np.errstate(divide="ignore", invalid="ignore"):
        scores: Floats = np.where(variance >= LEAST, (played - expected) / np.sqrt(variance), np.nan)
    return scores


def worst(counted: Outcome) -> float:
    """Return the largest of them, either way; NaN where no bin is judged."""
    scores = np.abs(deviations(counted))
    return float(np.nanmax(scores)) if np.isfinite(scores).any() else np.nan


# ---- what claims are made of


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
        """Bootstrap over paired trials; others that were played less often were given up."""
        own = collected(found, self.own, *self.key)
        others = [collected(found, name, *self.key) for name in self.others]
        most = max(len(other) for other in others)
        rivals = (other for other in others if len(other) == most)
        return resampled(over_highest, own, *rivals, beyond=1.0)


def over_highest(w: Floats, own: Floats, *others: Floats) -> Floats:
    """Return mean own / the highest of the others' means."""
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
    cells: frozenset[Cell] = frozenset()
    """None: these are not trials of regret."""

    def estimate(self, found: Findings) -> Estimate:
        """Count over all trials."""
        counted = _counted(found, self.policy)
        return Exact(worst(counted), 0.0, len(counted["played"]))


# ---- figures

LINES: dict[str, Line] = {
    OWN: POLICY["LinTS-Freq"],
    OPTIMISM: POLICY["OFUL"],
    THOMPSON: POLICY["LinTS-Bayes"],
    LINEAR: POLICY["LinMED-90"],
    UNKNOWN: POLICY["LinMED-50"],
    LEARNED: POLICY["LinMED-99"],
    GREEDY: POLICY["EXP2"],
    EPSILON: POLICY["LinMEDNOPT"],
    **dict.fromkeys(GRID, POLICY["LinIMED-3"]),
}


def _dots(ax: Any, names: Sequence[str], estimates: Sequence[Normal], logarithmic: bool = False) -> None:
    """A row for every policy, the first on top."""
    for row, (name, estimate) in enumerate(zip(names, estimates, strict=True)):
        drawing.whiskers(
            ax, [row], [estimate], LINES[name], logarithmic=logarithmic, across=True, markersize=6,
        )  # fmt: skip
    drawing.rows_of(ax, names, 0.5)
    ax.grid(visible=False, axis="y")


def _regret(found: Findings) -> drawing.Drawing:
    """Final regret of every policy, a panel for every problem."""
    figure, axes = drawing.new(10.5, 5.6, 2, len(RATES), sharey=True)
    for ax, problem in zip(axes.flat, PROBLEMS, strict=True):
        names = found.names(problem)
        _dots(ax, names, [mean(found.final(name, problem)) for name in names], logarithmic=True)
        ax.set_title(problem)
        ax.set_xscale("log")
        drawing.log_ticks(ax.xaxis, ",g")
    for ax in axes[-1]:
        ax.set_xlabel("regret in clicks")
    horizon = found.setting(next(iter(PROBLEMS))).horizon
    caption = (
        f"Regret in clicks after {horizon:,} rounds, with 95 % intervals. Titles: the mean click rate of the "
        "arms and the best arm's."
    )
    return drawing.Drawing(f"{found.experiment.name}-regret", caption, figure)


def _wrong_norms(found: Findings) -> drawing.Drawing:
    """Regret by the norm that was told, beside LinMED's, which is told σ alone."""
    figure, axes = drawing.new(8.4, 3.7, 1, len(LOW))
    words = sorted(WRONG, key=lambda word: WRONG[word])
    for ax, problem in zip(axes, LOW, strict=True):
        for rule in FAMILY:
            estimates = [mean(found.final(told(rule, word), problem, "norm")) for word in words]
            factors = [WRONG[word] for word in words]
            drawing.whiskers(ax, factors, estimates, LINES[rule], logarithmic=False, label=rule)
        line, level = LINES[LINEAR], mean(found.final(LINEAR, problem)).value
        ax.axhline(level, color=line.light, linestyle=line.dash, linewidth=1.6, label=LINEAR)
        ax.set_xscale("log")
        ax.xaxis.set_minor_locator(drawing.ticker.NullLocator())
        ax.set_xticks(factors, words)
        ax.set_ylim(bottom=0.0)
        ax.set_title(problem)
        ax.set_xlabel("norm of θ* that was told")
    axes[0].set_ylabel("regret in clicks")
    drawing.legend(figure, axes[0], 4)
    caption = "Regret where the norm of θ* is told a third, exactly and three times; 95 % intervals."
    return drawing.Drawing(f"{found.experiment.name}-norms", caption, figure)


def _earned(found: Findings) -> drawing.Drawing:
    """Expected clicks of the longer worlds as shares of what the best arms would earn."""
    shown = [(key, _shown(found, key)) for key in _longer(found)]
    heights = [0.28 * len(names) for _, names in shown]
    size = 1.0 + 0.55 * len(shown) + sum(heights)
    figure, axes = drawing.new(7.0, size, len(shown), gridspec_kw={"height_ratios": heights}, squeeze=False)
    for ax, (key, names) in zip(axes[:, 0], shown, strict=True):
        clicks = [collected(found, name, *key) for name in names]
        _dots(ax, names, [mean(100.0 * own / found.scores[best(*key)][: len(own)]) for own in clicks])
        ax.set_title(f"{key[0]}, {found.setting(*key).horizon:,} rounds")
    axes[-1, 0].set_xlabel("% of the clicks that the best arms would earn")
    caption = (
        "Expected clicks in % of what the best arm of every round would earn, with 95 % intervals over "
        "trials. Of the guesses of σ and S those that went through the preview."
    )
    return drawing.Drawing(f"{found.experiment.name}-news", caption, figure)


def _longer(found: Findings) -> list[Key]:
    return [s.key for s in found.settings if len(s.key) == 1 and s.key[0] not in PROBLEMS]


def _shown(found: Findings, key: Key) -> list[str]:
    """All but those that were given up after the preview."""
    names = found.names(*key)
    many = [name for name in names if name in GRID]
    most = max((found.played((key, name)) for name in many), default=0)
    return [name for name in names if name not in many or found.played((key, name)) == most]


def _calibration(found: Findings) -> drawing.Drawing:
    """How often arms were played over how often was said, by stated probability."""
    figure, ax = drawing.new(7.0, 4.0)
    ends = np.array([EDGES[0] / 3.0, *EDGES, 1.0])
    for place, (name, counted) in enumerate(_watched(found).items()):
        sums = (counted[part].sum(axis=0) for part in ("expected", "played", "variance"))
        there = counted["variance"].sum(axis=0) >= LEAST
        expected, played, variance = (one[there] for one in sums)
        line = LINES[name]
        ax.errorbar(
            np.sqrt(ends[:-1] * ends[1:])[there] * 1.05 ** (place - len(_watched(found)) / 2),
            played / expected, yerr=2.0 * np.sqrt(variance) / expected, color=line.light, linestyle="none",
            marker=line.marker, markersize=5, capsize=2, linewidth=1.3, label=name,
        )  # fmt: skip
    ax.axhline(1.0, color=INK.light, linewidth=1.0)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(drawing.ticker.FixedLocator(EDGES[:-2]))
    drawing.numbered(ax.xaxis, "g")
    ax.xaxis.set_minor_formatter(drawing.ticker.NullFormatter())
    ax.set_xlabel("stated probability")
    ax.set_ylabel("plays over stated")
    drawing.legend(figure, ax, 2)
    caption = (
        f"{LOW[0]}: how often arms were played over the sum of their stated probabilities, by bins of those, "
        "with two standard deviations of what chance does. All arms of all decisions are counted."
    )
    return drawing.Drawing(f"{found.experiment.name}-calibration", caption, figure)


# ---- tables


def _tables(found: Findings) -> Iterator[Numbers]:
    """All of them."""
    first = next(iter(PROBLEMS))
    possible = {problem: f"{found.scores[best(problem)].mean():,.0f}" for problem in PROBLEMS}
    finals = [
        {"policy": name, **{p: with_error(mean(found.final(name, p))) for p in PROBLEMS}}
        for name in found.names(first)
    ]
    yield Numbers(
        f"Regret in clicks ± standard error, n = {found.setting(first).horizon:,}, {found.trials} trials",
        Table([*finals, {"policy": "clicks of the best arms", **possible}]),
        "Clicks are the last row less the regret.",
    )

    def regret(rule: str, problem: str, word: str) -> Normal:
        return mean(found.final(told(rule, word), problem, "norm"))

    norms = {f"{problem}: {word}": (problem, word) for problem in LOW for word in WRONG}
    yield Numbers(
        "Regret in clicks ± standard error by the norm of θ* that was told",
        Table(
            {"rule": rule}
            | {at: with_error(regret(rule, problem, word)) for at, (problem, word) in norms.items()}
            for rule in FAMILY
        ),
    )
    for key in _longer(found):
        yield _clicks(found, key)
    yield Numbers(
        f"Calibration of propensities: {LOW[0]}",
        Table(
            {
                "policy": name,
                "worst bin, standard deviations": worst(counted),
                "bins judged": int(np.isfinite(deviations(counted)).sum()),
                "decisions": int(counted["played"].sum()),
            }
            for name, counted in _watched(found).items()
        ),
        f"Beyond {LIMIT:.2f} the stated probabilities would be called false, at a level of 1 %.",
    )


def _clicks(found: Findings, key: Key) -> Numbers:
    rows = [
        (mean(collected(found, name, *key)), name, found.played((key, name))) for name in found.names(*key)
    ]
    rows.sort(key=lambda row: (-row[2], -row[0].value))
    possible = found.scores[best(*key)]
    return Numbers(
        f"Expected clicks ± standard error: {key[0]}, n = {found.setting(*key).horizon:,}; the best arms "
        f"would earn {possible.mean():,.0f}",
        Table(
            {
                "policy": name,
                "clicks": with_error(clicks),
                "% of possible": f"{100.0 * clicks.value / possible[:trials].mean():.1f}",
                "trials": trials,
            }
            for clicks, name, trials in rows
        ),
    )
