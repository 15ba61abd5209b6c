"""What we expect of LinMED under wrong guesses, with the rule that decides: ours, not the paper's.

The file is committed before the trials that it judges; the ledger prints its digest. All of it is about
LinMED-90 (the other rules are shown beside it), and every border is ours.

What was known when these rules were written: single runs of an earlier program on K = 10, d = 5 (150 trials,
σ* = 0.01, 0.1, 1: the unknown set cost 1.10, 1.05 and 1.12 times the oracle) and on K = 100, d = 10 (12
trials); nothing of large gap, of wrong S, or of σ ten times too small.
"""

from collections.abc import Iterator, Sequence

from linmed.paper.claims import BELOW_ONE, Between, Claim, Part, Sample, final, of
from linmed.paper.experiment import Findings
from linmed.paper.robustness.problems import (
    BALL,
    EXACT,
    GAP,
    LEVELS,
    MANY_ARMS,
    MIXTURE,
    ONE,
    ORACLE,
    PAPERS_GAP,
    named,
)
from linmed.paper.statistics import ratio, ratio_of_ratios

COST = 1.25
"""What not knowing may cost, as a factor."""
GAIN = 0.35
"""At most this share of what σ = 1 costs at σ* = 0.1."""
NO_WORSE = 1.05
"""A smaller set costs no more, up to this factor."""
OWN = "LinMED-90"


def claims(found: Findings) -> list[Claim]:
    """All of them; of the findings nothing is looked at."""
    return [*_unknown_noise(), *_wrong_guesses()]


def _unknown_noise() -> Iterator[Claim]:
    figure = "robustness-levels"
    for problem in (PAPERS_GAP, MANY_ARMS):
        for told, words in (
            ("σ, S unknown", "Knowing neither σ nor S"),
            ("ridge learned", "Knowing nothing and learning the ridge"),
        ):
            parts = [
                Part(
                    f"σ* = {level}: ×{{}}",
                    of(ratio, final(told, problem, level), final(ORACLE, problem, level)), Between(high=COST),
                )
                for level in LEVELS
            ]  # fmt: skip
            yield Claim(
                problem, f"{words} costs at most a quarter more than being told both: {problem}",
                f"regret is at most {COST} times that of σ = σ*, S = 1 at every σ*", "ours", parts, figure,
            )  # fmt: skip
    yield Claim(
        "both problems", "At σ* = 0.1, knowing neither σ nor S costs a third of what σ = 1 does",
        f"regret is at most {GAIN} times that of σ = 1", "ours",
        [
            Part(f"{problem}: ×{{}}",
                 of(ratio, final("σ, S unknown", problem, 0.1), final(ONE, problem, 0.1)), Between(high=GAIN))
            for problem in (PAPERS_GAP, MANY_ARMS)
        ],
        figure,
    )  # fmt: skip
    yield Claim(
        "both problems", "The mixture set, which is never larger, costs no more than the paper's",
        f"regret is at most {NO_WORSE} times the paper set's at every σ*", "ours",
        [
            Part(f"{problem}, σ* = {level}: ×{{}}",
                 of(ratio, final(MIXTURE, problem, level), final(ORACLE, problem, level)),
                 Between(high=NO_WORSE))
            for problem in (PAPERS_GAP, MANY_ARMS) for level in LEVELS
        ],
        figure,
    )  # fmt: skip


def _wrong_guesses() -> Iterator[Claim]:
    for number, problem in enumerate((GAP, BALL), start=1):
        figure = f"robustness-{number}"
        yield Claim(
            problem, f"σ ten times too large hurts LinMED-90 less than OFUL and LinTS-Freq: {problem}",
            "its factor to the exact guess is below theirs, with the paper's set", "ours",
            [
                Part(f"over {rival}'s: ×{{}}", of(ratio_of_ratios, *_change(problem, "σ × 10", OWN),
                                                 *_change(problem, "σ × 10", rival)), BELOW_ONE)
                for rival in ("OFUL", "LinTS-Freq")
            ],
            figure,
        )  # fmt: skip
        yield Claim(
            problem, f"The empirical set mends part of a σ that is ten times too large: {problem}",
            "LinMED-90's regret is below that with the paper's set", "ours",
            [_against(problem, "empirical", "σ × 10", "σ × 10")], figure,
        )  # fmt: skip
        yield Claim(
            problem, f"Saying that σ and S are unknown is better than a guess wrong by ten: {problem}",
            "LinMED-90's regret is below that with the paper's set and the wrong guess, for each of the four",
            "ours",
            [
                _against(problem, "σ, S unknown", EXACT, guess)
                for guess in ("σ × 10", "σ / 10", "S × 10", "S / 10")
            ],
            figure,
        )  # fmt: skip


def _change(problem: str, guess: str, rule: str) -> Sequence[Sample]:
    """After and before: with the guess, and with the exact one."""
    return [final(named(rule, "paper"), problem, which) for which in (guess, EXACT)]


def _against(problem: str, chosen: str, guess: str, papers: str) -> Part:
    """Of a set under one guess, over the paper's under another."""
    own, other = final(named(OWN, chosen), problem, guess), final(named(OWN, "paper"), problem, papers)
    return Part(f"{papers}: ×{{}}", of(ratio, own, other), BELOW_ONE)
