"""The rules of Figure 1 and of the offline evaluation in the appendix."""

import functools
import math
import timeit
from collections.abc import Iterator

import numpy as np

from linmed.agent import Agent
from linmed.paper.claims import OURS, Between, Claim, Part, Reproduces, Scored
from linmed.paper.experiment import Findings
from linmed.paper.offline import (
    LINMED_EXACT,
    LINTS_EXACT,
    ORACLE,
    PUBLISHED,
    SAMPLES,
    expected,
    floor_column,
    grid_column,
    zero_any_column,
    zero_ever_column,
)
from linmed.paper.rules.shared import SIGNIFICANT
from linmed.paper.statistics import Normal, deviation, mean
from linmed.policies import LinMED
from linmed.validation import Floats

VISIBLE = 0.005
"""What two decimals show."""
PUBLISHED_TRIALS = 5_000
EXPENSIVE = 10.0
"""What takes more than so many times as long is expensive."""
READING, SHOWN_OMITTED = "σ² = 0.1", ("√β", "σ")
"""The text's noise, and the scales of LinTS-Freq, which the paper shows, and LinTS-Bayes, which it omits."""


def offline_evaluation(found: Findings) -> Iterator[Claim]:
    """Means by expectation, whose trials have no heavy tail; spreads by the scores themselves."""
    place, figure = "Appendix, offline evaluation", "offline-evaluation"
    table, picture = f"{place}, Table 2", "offline-evaluation-propensities"
    decimals, thousandths = "{0.value:.4f} ± {0.error:.4f}", "{0.value:.3f} ± {0.error:.3f}"
    two = Between(ORACLE - VISIBLE, ORACLE + VISIBLE)
    yield Claim(
        f"Section 1, Figure 1; {place}", "From LinMED-50's log the uniform policy's mean IPW score is 0.80",
        "the mean agrees with 0.8 to two decimals", "the paper's",
        [Part(decimals, Scored(mean, (LINMED_EXACT,)), two)], figure,
    )  # fmt: skip
    yield Claim(
        place, "… with a standard deviation of about 0.03", "it is 0.03, rounded", "the paper's",
        [
            Part(thousandths, Scored(deviation, (LINMED_EXACT,)), Between(0.025, 0.035)),
            Part("the variance is {0.value:.4f}", Scored(_variance, (LINMED_EXACT,))),
        ],
        figure,
    )  # fmt: skip
    for M, (published, _) in PUBLISHED.items():
        column = floor_column(M)
        yield Claim(
            table, f"From LinTS-Freq's log with M = {M:,} Monte-Carlo samples it is {published:.3f}",
            f"within three standard errors, ours and that of {PUBLISHED_TRIALS:,} published trials",
            "the paper's",
            [
                Part(decimals, Scored(_beside_published, (expected(column), column)),
                     Reproduces(published, 0.0005)),
                Part(f"by the scores themselves {decimals}", Scored(mean, (column,))),
            ],
            picture,
        )  # fmt: skip
    parts = [
        Part(f"M = {M:,}: {decimals}", Scored(mean, (expected(floor_column(M)),)),
             two if M == max(SAMPLES) else Between(low=ORACLE + VISIBLE))
        for M in SAMPLES
    ]  # fmt: skip
    yield Claim(
        place, "There is a significant bias for 10³ and 10⁴ samples, and hardly one for 10⁵",
        "two decimals show it for the former, and not for the latter", "the paper's", parts, picture,
    )  # fmt: skip
    parts = [
        part
        for M in SAMPLES
        for part in (
            Part(f"M = {M:,}: {thousandths}", Scored(deviation, (floor_column(M),)),
                 Reproduces(PUBLISHED[M][1], 0.0005)),
            Part("variance {0.value:.4f}", Scored(_variance, (floor_column(M),))),
        )
    ]  # fmt: skip
    yield Claim(
        table, "The standard deviations of those scores are 0.099, 0.069 and 0.039",
        "within three standard errors", "the paper's", parts, figure,
    )  # fmt: skip
    rounds = [
        Part(f"M = {M:,}: in {{0.value:.3g}} of the rounds", Scored(mean, (zero_any_column(M),)))
        for M in SAMPLES
    ]
    fewest = min(SAMPLES)
    yield Claim(
        place, "LinTS-Freq's estimates are zero for some arms",
        f"with 10³ samples this happens in {PUBLISHED_TRIALS:,} trials with a probability above 1/2", "ours",
        [
            Part(f"M = {fewest:,}: with probability {{0.value:.3g}}",
                 Scored(_in_published_trials, (zero_ever_column(fewest),)), Between(low=0.5)),
            *rounds,
        ],
        figure,
    )  # fmt: skip
    yield Claim(
        place, "Using 10⁵ samples for estimating probabilities is computationally expensive",
        f"one estimate takes more than {EXPENSIVE:g} times as long as a decision of LinMED with its exact "
        "probability, on the machine that wrote this", "ours",
        [Part("×{0.value:.0f} ± {0.error:.0f}", Scored(_cost, ()), Between(low=EXPENSIVE))], figure,
    )  # fmt: skip
    reading, shown, omitted = READING, *SHOWN_OMITTED
    columns = tuple(grid_column(reading, scale, fewest) for scale in (omitted, shown))
    if found.variant == "text":
        yield Claim(
            "Section 7", "Of the two LinTS the one that is left out here is significantly worse",
            f"with 10³ samples LinTS-Bayes's bias is above {SIGNIFICANT} times that of LinTS-Freq, the one "
            "shown", "ours",
            [
                Part("the former minus that: {0.value:.4f} ± {0.error:.4f}", Scored(_beyond, columns),
                     Between(low=0.0)),
                *(Part(f"LinTS-{name}'s mean score is {decimals}", Scored(mean, (column,)))
                  for name, column in zip(("Bayes", "Freq"), columns, strict=True)),
            ],
            picture,
        )  # fmt: skip
    yield Claim(
        OURS, "With LinTS-Freq's exact probabilities there is no bias: it is the estimates'",
        "the mean agrees with 0.8 to two decimals", "ours",
        [Part(decimals, Scored(mean, (LINTS_EXACT,)), two)], picture,
    )  # fmt: skip


def _beside_published(expectations: Floats, scores: Floats) -> Normal:
    """The mean by expectation; its error holds that of the published mean, whose trials were not ours."""
    own, spread = mean(expectations), deviation(scores).value
    return Normal(own.value, math.hypot(own.error, spread / math.sqrt(PUBLISHED_TRIALS)), own.trials)


def _in_published_trials(chances: Floats) -> Normal:
    """The chance that what happens in a trial with such chances happens in one of the published trials."""
    one = mean(chances)
    never = (1.0 - min(one.value, 1.0)) ** PUBLISHED_TRIALS
    slope = PUBLISHED_TRIALS * (1.0 - min(one.value, 1.0)) ** (PUBLISHED_TRIALS - 1)
    return Normal(1.0 - never, slope * one.error, one.trials)


def _beyond(omitted: Floats, shown: Floats) -> Normal:
    """By how much one bias, in its direction, exceeds SIGNIFICANT times the other."""
    biases = (np.sign(x.mean() - ORACLE) * (x - ORACLE) for x in (omitted, shown))
    return mean(next(biases) - SIGNIFICANT * next(biases))


@functools.cache
def _cost() -> Normal:
    """Seconds of 10⁵ draws of θ and their best arms, over those of a decision of LinMED."""
    arms, rng, draws = np.array([[1.0, 0.0], [0.6, 0.8]]), np.random.default_rng(0), max(SAMPLES)
    agent = Agent(LinMED(alpha_emp=0.5, alpha_opt=0.25), dim=2, seed=0)

    def decide() -> None:
        decision = agent.decide(arms)
        agent.learn(decision, 1.0)

    def estimate() -> None:
        theta = rng.standard_normal((draws, 2)) + arms[0]
        np.bincount((theta @ arms.T).argmax(axis=1), minlength=2)

    decide()
    slow, fast = (np.array(timeit.repeat(do, number=1, repeat=30)) for do in (estimate, decide))
    return mean(slow / np.median(fast))


def _variance(sample: Floats) -> Normal:
    spread = deviation(sample)
    return Normal(spread.value**2, 2.0 * spread.value * spread.error, spread.trials)
