"""Play robustness, an experiment of our own: what wrong guesses of σ and S cost, by rule and set."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from linmed.environments import Environment, FixedArms, LargeGap, UnitBall
from linmed.extras import Later
from linmed.paper import drawing
from linmed.paper.experiment import Asked, Experiment, Findings, Numbers, Setting, Size, with_error
from linmed.paper.statistics import mean
from linmed.policies import LinMED, Policy
from linmed.policies.table import policy_makers
from linmed.report.figures import INK, POLICY
from linmed.report.tables import Table

colors: Any = Later("matplotlib.colors", "a figure", "plot")

RULES = (
    "LinMED-99", "LinMED-90", "LinMED-50", "OFUL", "LinTS-Freq", "LinTS-Bayes", "LinIMED-1", "LinIMED-3",
    "RandUCB",
)  # fmt: skip
EXACT = "exact"
GUESSES: dict[str, tuple[float, float]] = {
    EXACT: (1.0, 1.0),
    "σ × 10": (10.0, 1.0),
    "σ / 10": (0.1, 1.0),
    "S × 10": (1.0, 10.0),
    "S / 10": (1.0, 0.1),
}
"""What σ and S are multiplied by before policies are told."""
UNKNOWN = "unknown"
TOLD: dict[str, dict[str, Any]] = {
    "paper": {},
    "mixture": {"confidence": "mixture"},
    "empirical": {"confidence": "empirical"},
}
NO_SIGMA: dict[str, dict[str, Any]] = {"σ unknown": {"sigma": UNKNOWN}}
NOTHING: dict[str, dict[str, Any]] = {
    "σ, S unknown": {"sigma": UNKNOWN, "norm_bound": UNKNOWN},
    "ridge learned": {"sigma": UNKNOWN, "ridge": "learned"},
}
BEST = (1.0, 0.0)
GAP, BALL = "large gap, σ* = 1", "unit ball, K = 10, d = 5, σ* = 0.1"
PROBLEMS: dict[str, tuple[Environment, float]] = {
    GAP: (FixedArms([(0.0, 1.0), BEST], BEST), 1.0),
    BALL: (UnitBall(arms=10, dim=5, sigma=0.1), 0.1),
}
"""With σ*. The best arm is listed last: ties go to the first, and a guess should not do well for that."""
LONGEST, MOST = 1_000, 40
"""Rounds and trials of each of these."""
LEVELS = (0.01, 0.1, 1.0)
"""σ* where LinMED-90 is told nothing."""
PAPERS_GAP, MANY_ARMS = "large gap", "unit ball, K = 100, d = 10"
ORACLE, MIXTURE, ONE = "paper, σ = σ*", "mixture, σ = σ*", "paper, σ = 1"
FARTHEST = 20.0
"""Factors beyond are coloured like this one."""
BETTER, SAME, WORSE = "#5aa7e0", "#f5f5f2", "#e0762f"
CELL_INK = "#1c1c1e"
"""On cells of any colour, on light and on dark paper."""
LINES = {
    ORACLE: POLICY["OFUL"],
    MIXTURE: POLICY["LinMEDNOPT"],
    ONE: POLICY["LinTS-Freq"],
    "σ unknown": POLICY["LinMED-50"],
    "σ, S unknown": POLICY["LinMED-99"],
    "ridge learned": POLICY["SpannerIGW"],
}


def sets(guess: str) -> dict[str, dict[str, Any]]:
    """Choose the confidence sets that depend on what is guessed; where the guess is exact, all."""
    if guess == EXACT:
        return {**TOLD, **NO_SIGMA, **NOTHING}
    return {**TOLD, **NO_SIGMA} if guess.startswith("S") else TOLD


def named(rule: str, chosen: str) -> str:
    """Name a rule with its set."""
    return f"{rule}, {chosen}"


class Robustness(Experiment):
    """Ours alone, with a ledger apart from the paper's."""

    name = "robustness"
    title = "What wrong guesses cost"
    place = "our addition"
    about = (
        "Every rule that has a radius, with every confidence set, told σ or S wrong by a factor of ten; and "
        "LinMED-90 told nothing, at three noise levels. δ = 1/(t+1)."
    )
    paper, quick, decisive = Size(10_000, 200), Size(500, 8), Size(10_000, 200)
    ours = True

    def settings(self, asked: Asked) -> list[Setting]:
        """Return a setting for every problem and guess, and for every problem and noise level."""
        horizon = asked.horizon
        wrong = [_guessed(problem, guess, horizon) for problem in PROBLEMS for guess in GUESSES]
        levels = [_level(problem, level, horizon) for problem in (PAPERS_GAP, MANY_ARMS) for level in LEVELS]
        return [*wrong, *levels]

    def drawings(self, found: Findings) -> Iterator[drawing.Drawing]:
        """Draw a map of factors for every problem, and regret by noise level."""
        for number, problem in enumerate(PROBLEMS, start=1):
            yield _factors(found, problem, f"{self.name}-{number}")
        yield _levels(found)

    def numbers(self, found: Findings) -> Iterator[Numbers]:
        """Tabulate final regrets, a row for every rule with its set."""
        for problem in PROBLEMS:
            yield _table(found, problem)


def _guessed(problem: str, guess: str, horizon: int) -> Setting:
    environment, true = PROBLEMS[problem]
    (sigma, norm), makers = GUESSES[guess], policy_makers()
    policies: list[Policy] = []
    for rule in RULES:
        cls, parameters = makers[rule]
        told = {"sigma": sigma * true, "norm_bound": norm}
        policies += [
            cls(label=named(rule, chosen), **{**told, **parameters, **own, **_alone(own)})
            for chosen, own in sets(guess).items()
        ]
    rounds = min(horizon, LONGEST)
    return Setting((problem, guess), environment, tuple(policies), rounds, sigma * true, most=MOST)


def _alone(own: dict[str, Any]) -> dict[str, Any]:
    """S follows from a ridge that is learned, and is left at its default."""
    return {"norm_bound": 1.0} if "ridge" in own else {}


def _level(problem: str, level: float, horizon: int) -> Setting:
    environment: Environment = LargeGap(sigma=level)
    if problem == MANY_ARMS:
        environment, horizon = UnitBall(arms=100, dim=10, sigma=level), min(horizon, 2_000)
    told: dict[str, dict[str, Any]] = {
        ORACLE: {"sigma": level},
        MIXTURE: {"sigma": level, "confidence": "mixture"},
        ONE: {"sigma": 1.0},
        **NO_SIGMA,
        **NOTHING,
    }
    policies = tuple(LinMED(alpha_emp=0.9, label=name, **own) for name, own in told.items())
    return Setting((problem, level), environment, policies, horizon, level)


def _table(found: Findings, problem: str) -> Numbers:
    def cell(rule: str, chosen: str, guess: str) -> str:
        if chosen not in sets(guess):
            return "–"
        return with_error(mean(found.final(named(rule, chosen), problem, guess)))

    horizon, trials = found.setting(problem, EXACT).horizon, min(found.trials, MOST)
    return Numbers(
        f"Final regret ± standard error: {problem}, n = {horizon:,}, {trials} trials",
        Table(
            {"rule, set": named(rule, chosen), **{guess: cell(rule, chosen, guess) for guess in GUESSES}}
            for rule in RULES
            for chosen in sets(EXACT)
        ),
        "A dash: the set does not look at what is guessed wrongly; its regret is the first column's.",
    )


def _factors(found: Findings, problem: str, name: str) -> drawing.Drawing:
    """Regret over that of the same rule told the truth, with the paper's set: a row for every rule."""
    columns = [
        (guess, chosen) for guess in GUESSES for chosen in sets(guess) if (guess, chosen) != (EXACT, "paper")
    ]
    table = np.array([[_factor(found, problem, rule, *column) for column in columns] for rule in RULES])
    figure, ax = drawing.new(12.0, 4.9)
    colours = colors.LinearSegmentedColormap.from_list("cost", [BETTER, SAME, WORSE])
    clipped = np.clip(np.nan_to_num(table, nan=1.0), 1.0 / FARTHEST, FARTHEST)
    ax.pcolormesh(
        clipped, cmap=colours, norm=colors.LogNorm(1.0 / FARTHEST, FARTHEST), edgecolor="white", linewidth=1.2
    )
    for row, values in enumerate(table):
        for column, value in enumerate(values):
            ax.text(
                column + 0.5, row + 0.5, _words(value), ha="center", va="center", fontsize=8, color=CELL_INK
            )
    ax.set_yticks(np.arange(len(RULES)) + 0.5, RULES)
    ax.set_xticks(np.arange(len(columns)) + 0.5, [chosen for _, chosen in columns], rotation=35, ha="right")
    ax.invert_yaxis()
    ax.grid(visible=False)
    ax.tick_params(length=0)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    _groups(ax, [guess for guess, _ in columns])
    horizon = found.setting(problem, EXACT).horizon
    return drawing.Drawing(
        name,
        f"{problem}, n = {horizon:,}: final regret over that of the same rule told σ and S exactly, with the "
        "paper's set. Columns: what was guessed wrongly, and the confidence set.",
        figure,
    )


def _factor(found: Findings, problem: str, rule: str, guess: str, chosen: str) -> float:
    own = float(found.final(named(rule, chosen), problem, guess).mean())
    truth = float(found.final(named(rule, "paper"), problem, EXACT).mean())
    return own / truth if truth > 0.0 else np.nan


def _words(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _groups(ax: Any, guesses: list[str]) -> None:
    """A heading over the columns of every guess, and a gap between them."""
    for guess in GUESSES:
        own = [place for place, other in enumerate(guesses) if other == guess]
        ax.text(
            (own[0] + own[-1] + 1) / 2, -0.25, f"told {guess}" if guess != EXACT else "no wrong guess",
            ha="center", va="bottom", fontsize=9.5, fontweight="bold",
        )  # fmt: skip
        if own[0]:
            ax.axvline(own[0], color=INK.light, linewidth=1.6)


def _levels(found: Findings) -> drawing.Drawing:
    """LinMED-90's final regret by σ*, with 95 % intervals: a panel for every problem."""
    figure, axes = drawing.new(9.0, 4.2, 1, 2)
    for ax, problem in zip(axes, (PAPERS_GAP, MANY_ARMS), strict=True):
        for told, line in LINES.items():
            estimates = [mean(found.final(told, problem, level)) for level in LEVELS]
            drawing.whiskers(ax, LEVELS, estimates, line, label=told)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(LEVELS, [f"{level:g}" for level in LEVELS])
        ax.xaxis.set_minor_locator(drawing.ticker.NullLocator())
        drawing.numbered(ax.yaxis, ",g")
        ax.yaxis.set_minor_formatter(drawing.ticker.NullFormatter())
        ax.set_title(f"{problem}, n = {found.setting(problem, LEVELS[0]).horizon:,}")
        ax.set_xlabel("σ*")
    axes[0].set_ylabel("regret of LinMED-90")
    drawing.legend(figure, axes[0], 3)
    return drawing.Drawing(
        f"{found.experiment.name}-levels",
        "LinMED-90's final regret by the true noise level, told σ (with the paper's set and the mixture), "
        "told σ = 1, and told less; 95 % intervals.",
        figure,
    )
