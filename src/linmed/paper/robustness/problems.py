"""What is played: every rule with every set under wrong guesses, and LinMED under unknown noise."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linmed.environments import Environment, FixedArms, LargeGap, UnitBall
from linmed.paper.experiment import Experiment, Findings, Key, Numbers, Scale, Setting, Size, with_error
from linmed.paper.lineup import Variant
from linmed.paper.statistics import mean
from linmed.policies import LinMED, Policy
from linmed.policies.table import policy_makers

if TYPE_CHECKING:
    from linmed.paper.drawing import Drawing

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


def sets(guess: str) -> dict[str, dict[str, Any]]:
    """The confidence sets that depend on what is guessed; where the guess is exact, all."""
    if guess == EXACT:
        return {**TOLD, **NO_SIGMA, **NOTHING}
    return {**TOLD, **NO_SIGMA} if guess.startswith("S") else TOLD


def named(rule: str, chosen: str) -> str:
    """A rule with its set."""
    return f"{rule}, {chosen}"


class Robustness(Experiment):
    """Ours alone: its rules are in this package, and its ledger is not the paper's."""

    name = "robustness"
    title = "What wrong guesses cost"
    place = "our addition"
    about = (
        "Every rule that has a radius, with every confidence set, told σ or S wrong by a factor of ten; and "
        "LinMED-90 told nothing, at three noise levels. δ = 1/(t+1)."
    )
    paper, quick, decisive = Size(10_000, 200), Size(500, 8), Size(10_000, 200)

    def settings(self, variant: Variant, horizon: int, movielens: Path | None = None) -> list[Setting]:
        """A setting for every problem and guess, and for every problem and noise level."""
        wrong = [_guessed(problem, guess, horizon) for problem in PROBLEMS for guess in GUESSES]
        levels = [_level(problem, level, horizon) for problem in (PAPERS_GAP, MANY_ARMS) for level in LEVELS]
        return [*wrong, *levels]

    def further(
        self, scale: Scale, variant: Variant, horizon: int, movielens: Path | None = None
    ) -> list[Setting]:
        """Nothing."""
        return []

    def drawings(self, found: Findings) -> "Iterator[Drawing]":
        """A map of factors for every problem, and regret by noise level."""
        from linmed.paper.robustness import figures  # matplotlib takes a second to import

        for number, problem in enumerate(PROBLEMS, start=1):
            yield figures.factors(found, problem, f"{self.name}-{number}")
        yield figures.levels(found)

    def numbers(self, found: Findings) -> Iterator[Numbers]:
        """Final regrets, a row for every rule with its set."""
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
    rows = []
    for rule in RULES:
        for chosen in sets(EXACT):
            cells = [_cell(found, rule, chosen, (problem, guess)) for guess in GUESSES]
            rows.append([named(rule, chosen), *cells])
    horizon, trials = found.setting(problem, EXACT).horizon, min(found.trials, MOST)
    return Numbers(
        f"Final regret ± standard error: {problem}, n = {horizon:,}, {trials} trials",
        ["rule, set", *GUESSES],
        rows,
        note="A dash: the set does not look at what is guessed wrongly; its regret is the first column's.",
    )


def _cell(found: Findings, rule: str, chosen: str, key: Key) -> str:
    if chosen not in sets(str(key[1])):
        return "–"
    return with_error(mean(found.final(named(rule, chosen), *key)))
