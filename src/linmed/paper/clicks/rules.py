"""What we expect of the logistic model on clicks, with the rule that decides: ours, not the paper's.

The file is committed before the trials that it judges; the ledger prints its digest. All of it is about
LogisticMED told nothing, unless it says otherwise, and every border is ours.

What was known when these rules were written: runs of an earlier program on the six problems (60 trials, S
told: 0.52, 0.76 and 0.66 times LinMED's regret where arms are new each round, 0.61, 0.73 and 0.76 where they
are fixed), and on a news world like this one (two trials, 60,000 decisions: 1.08 to 1.21 times the clicks of
LinMED's best of three S). In another news world greedy ridge regression earned as much as LinMED, and Vowpal
Wabbit 0.82 of it. Nothing was known of the policies as they are here, told nothing, of UCB and TS, of wrong
norms, and of Vowpal Wabbit in this world.
"""

from collections.abc import Iterator

from linmed.paper.claims import BELOW_ONE, Between, Claim, Part, Rule, Sample, final, of
from linmed.paper.clicks.measures import ClickRatio, Miscalibration
from linmed.paper.clicks.problems import (
    EPSILON,
    GREEDY,
    GRID,
    HALF,
    IDS,
    LEARNED,
    LINEAR,
    LOW,
    NEW,
    OPTIMISM,
    OWN,
    PLAIN,
    SAME,
    SQUARECB,
    THOMPSON,
    WRONG,
    told,
)
from linmed.paper.clicks.watching import LIMIT, WATCHED
from linmed.paper.experiment import Findings
from linmed.paper.statistics import ratio

SHARE = 0.8
"""Of LinMED's regret, at most."""
MORE_CLICKS = 1.05
"""Times those of LinMED with the best guess, at least."""
THAN_RIVAL = 1.3
"""Times those of Vowpal Wabbit, at least."""
AS_MANY = 0.95
"""What counts as earning as much, at least."""


def claims(found: Findings) -> list[Claim]:
    """All that can be judged: those about Vowpal Wabbit need it; of the numbers nothing is looked at."""
    return [*_low_rates(), *_other_rates(), *_wrong_norms(), *_news(found), *_calibration(found)]


def _low_rates() -> Iterator[Claim]:
    least = Between(high=SHARE)
    yield Claim(
        "low rates",
        "At low click rates LogisticMED, told nothing, regrets a fifth less than LinMED",
        f"regret is at most {SHARE} times that of LinMED told σ = 0.5",
        "ours",
        [_over(problem, final(OWN, problem), final(LINEAR, problem), least) for problem in LOW],
        "clicks-regret",
    )
    yield Claim(
        "low rates",
        "So it does told the norm of θ*",
        f"regret is at most {SHARE} times that of LinMED told σ = 0.5",
        "ours",
        [
            _over(problem, final(told(OWN, "S"), problem, "norm"), final(LINEAR, problem), least)
            for problem in LOW
        ],
        "clicks-norms",
    )
    rivals = {"UCB": (OPTIMISM, BELOW_ONE), "TS": (THOMPSON, None)}
    yield Claim(
        "low rates",
        "With the same belief, the MED rule regrets no more than optimism",
        "LogisticMED's regret is below LogisticUCB's; LogisticTS's is shown beside it",
        "ours",
        [
            _over(f"over {name}'s, {problem}", final(OWN, problem), final(other, problem), rule)
            for name, (other, rule) in rivals.items()
            for problem in LOW
        ],
        "clicks-regret",
    )


def _other_rates() -> Iterator[Claim]:
    fixed = [problem.replace(NEW, SAME) for problem in LOW]
    yield Claim(
        "fixed arms",
        "At low rates the logistic model regrets less where the arms are fixed, too",
        "regret is below that of LinMED told σ = 0.5",
        "ours",
        [_over(problem, final(OWN, problem), final(LINEAR, problem), BELOW_ONE) for problem in fixed],
        "clicks-regret",
    )
    half = f"{NEW}, {HALF}"
    yield Claim(
        "high rates",
        "At rates around one half it still regrets less than LinMED told σ = 0.5",
        "regret is below; LinMED that learns its ridge is shown beside it",
        "ours",
        [
            _over(half, final(OWN, half), final(LINEAR, half), BELOW_ONE),
            _over("over LinMED's, ridge learned", final(OWN, half), final(LEARNED, half)),
        ],
        "clicks-regret",
    )
    rivals = {"Greedy": (GREEDY, BELOW_ONE), "ε-greedy": (EPSILON, None)}
    yield Claim(
        "fixed arms",
        "Where the arms are fixed exploration pays: greedy ridge regression regrets more",
        "LogisticMED's regret is below Greedy's on both low rates; ε-greedy's is shown beside it",
        "ours",
        [
            _over(f"over {name}'s, {problem}", final(OWN, problem), final(other, problem), rule)
            for name, (other, rule) in rivals.items()
            for problem in fixed
        ],
        "clicks-regret",
    )


def _wrong_norms() -> Iterator[Claim]:
    yield Claim(
        "low rates",
        "A norm guessed wrongly by three, in either direction, leaves it below LinMED",
        "regret is below that of LinMED told σ = 0.5",
        "ours",
        [
            _over(
                f"{words}, {problem}",
                final(told(OWN, words), problem, "norm"),
                final(LINEAR, problem),
                BELOW_ONE,
            )
            for problem in LOW
            for words in WRONG
            if words != "S"
        ],
        "clicks-norms",
    )


def _news(found: Findings) -> Iterator[Claim]:
    yield Claim(
        IDS,
        "With ids and nothing told, it collects a twentieth more clicks than LinMED with the best guess",
        f"clicks are at least {MORE_CLICKS} times those of the best (σ, S) of a 5 × 5 grid",
        "ours",
        [Part("×{}", ClickRatio(OWN, GRID, (IDS,)), Between(low=MORE_CLICKS))],
        "clicks-news",
    )
    yield Claim(
        PLAIN,
        "Greedy ridge regression earns as much on the news page without ids",
        f"its clicks are at least {AS_MANY} times LogisticMED's",
        "ours",
        [Part("×{}", ClickRatio(GREEDY, (OWN,), (PLAIN,)), Between(low=AS_MANY))],
        "clicks-news",
    )
    rivals = tuple(name for name in SQUARECB if name in found.names(IDS))
    if rivals:
        yield Claim(
            IDS,
            "With ids and nothing told, it collects three tenths more clicks than Vowpal Wabbit",
            f"clicks are at least {THAN_RIVAL} times those of SquareCB with the best of three γ",
            "ours",
            [Part("×{}", ClickRatio(OWN, rivals, (IDS,)), Between(low=THAN_RIVAL))],
            "clicks-news",
        )


def _calibration(found: Findings) -> Iterator[Claim]:
    names = [name for name in WATCHED if name in found.names(LOW[0])]
    yield Claim(
        LOW[0],
        "Propensities are calibrated: arms are played as often as was said",
        f"in no bin of stated probability are plays more than {LIMIT:.2f} standard deviations off, which "
        "happens by chance to one policy in a hundred",
        "ours",
        [Part(f"{name}: {{}}", Miscalibration(name), Between(high=LIMIT)) for name in names],
        "clicks-calibration",
    )


def _over(label: str, own: Sample, other: Sample, rule: Rule | None = None) -> Part:
    """A ratio of mean regrets."""
    return Part(f"{label}: ×{{}}", of(ratio, own, other), rule)
