"""Say in words what is doubtful about a result: each function yields a sentence for each doubt.

The thresholds are conventions, and the same for every estimator and interval.
"""

import math
from collections.abc import Iterator
from typing import Any

from linmed.log import SUM_ERROR, DecisionLog
from linmed.ope.accumulators import Tally
from linmed.ope.intervals import REFUTED, Weights
from linmed.ope.log_facts import copied
from linmed.ope.plan import Plan
from linmed.ope.scan import Reading
from linmed.ope.targets import Target
from linmed.question import VALID

FEW = 100
"""Decisions of the target's own below which what a long log is worth is called little."""
FEWEST = 10
"""Such rewards, and no fewer, are what a limit theorem may be asked to work with."""
FEW_REWARDS = 50
"""Rewards of the rarer kind below which they are called few."""
LONG = 10
"""A log is long against what it is worth from this factor on: of short logs everyone expects little."""
DOMINATES = 0.1
"""Share of all weight with which one decision is named."""
ERRORS = 3.0
"""Standard errors from one at which a mean weight is named."""
FADING, SETTLED = 5.0, 10_000
"""Growth of the weights' spread, and the number of decisions, from which stabilised weights lag behind."""
WEIGHTLESS = 0.5
"""Share of fallbacks, which weigh nothing, from which on it is worth a word: by their rule they are few."""
UNJUDGED = 0.01
"""Share of decisions left out that is worth a word."""


def of_weights(weights: Weights, target: Target, long: float = LONG) -> Iterator[str]:
    """Yield doubts about a target's weights."""
    moments, n = weights.moments, weights.moments.n
    mean, error = weights.mean, moments.standard_error
    no_overlap = weights.lost / max(n, 1)  # as far as is known
    gap = mean - 1.0 + no_overlap
    if weights.refuted:
        yield (
            f"the mean weight is {mean:.4g} where it should be 1, and by chance is so large in at most one "
            f"of {round(1 / REFUTED):,} logs: the logged probabilities or the target's own are "
            f"wrong{target.exceeding()}, and no interval holds"
        )
    elif n > 1 and abs(gap) > ERRORS * error + SUM_ERROR * max(mean, 1.0):
        less, more = (f"{target.lacking(-gap)}, ", "") if gap < 0 else ("", target.exceeding())
        yield (
            f"the mean weight is {mean:.4g} ± {error:.2g} where it should be 1: {less}logged probabilities "
            f"are wrong{more}, or a few decisions would carry all the weight"
        )
    if no_overlap > 0:
        yield f"{no_overlap:.2%} of the target's mass lies on arms that were never logged"
    effective = moments.effective
    if 0 < effective < FEW and n > long * effective:
        yield f"the {n:,} decisions are worth only {effective:.1f} of the target's own"
    if n >= long / DOMINATES and weights.largest > DOMINATES * n * mean > 0:
        yield f"one decision carries {weights.largest / (n * mean):.0%} of the weight"
    telling = weights.rewards.telling
    if telling < FEW_REWARDS and weights.rewards.count > long * FEW_REWARDS:
        common = (
            weights.rewards.low if weights.rewards.at_low > weights.rewards.at_high else weights.rewards.high
        )
        yield f"only {telling} of the {weights.rewards.count:,} rewards that count differ from {common:g}"


def of_result(plan: Plan, asked: Target, tally: Tally, log: DecisionLog) -> Iterator[str]:
    """Yield doubts about one target's rows."""
    target = asked.name
    if asked.doubt is not None:
        yield f"target {target!r}: {asked.doubt}"
    if not tally.overlaps:
        yield f"target {target!r} never agrees with {log.name}: {asked.silence(log)}"
        return
    yield from (f"target {target!r}: {doubt}" for doubt in of_weights(tally.weights, asked))
    if tally.refuted or not tally.has_interval:
        return
    fading = max((stable.growth for stable in tally.stable.values()), default=0.0)
    if fading > FADING and tally.moments[0].n < SETTLED:
        yield (
            f"target {target!r}: its weights' spread grew {fading:.0f}-fold over "
            f"{tally.moments[0].n:,} decisions, too fast for interval='adaptive' to hold its level: use "
            "'betting'"
        )
    empty = any(math.isnan(row[3]) for row in tally.rows(target))
    if empty and plan.interval == "betting":
        yield no_value(target, log, plan)
    elif empty:
        yield no_variation(target, plan)
    elif plan.interval != "betting":
        telling = tally.weights.rewards.telling
        if telling < FEWEST and tally.moments[0].n >= LONG * FEWEST:
            yield (
                f"target {target!r}: interval={plan.interval!r} needs more than {telling} rewards that "
                "differ from the others: use 'betting'"
            )
    elif outside := [row for row in tally.rows(target) if row[1] == "dr" and _astray(row, plan)]:
        yield (
            f"target {target!r}: its dr estimate, {outside[0][2]:.4g}, lies outside its own interval: the "
            "rows are not in the order of the decisions (was the table sorted?), or probabilities are wrong"
        )


def _astray(row: tuple[Any, ...], plan: Plan) -> bool:
    """Whether an estimate contradicts its interval, and not just the range at whose end that was cut.

    A doubly robust estimate of a value of 1 may well be 1.04, and its interval ends at 1.
    """
    estimate, lower, upper = row[2:5]
    low, high = plan.possible[:2] if plan.possible else (-math.inf, math.inf)
    return bool((low < lower and estimate < lower) or (upper < high and estimate > upper))


def no_variation(target: str, plan: Plan) -> str:
    """Say that a limit theorem has nothing to work on."""
    return (
        f"target {target!r}: what its estimate is a mean of does not vary, from which interval="
        f"{plan.interval!r} would conclude that there is no uncertainty: use 'betting'"
    )


def no_value(target: str, log: DecisionLog, plan: Plan) -> str:
    """Say that an interval is empty."""
    return (
        f"no value of target {target!r} is compatible with {log.name} at confidence "
        f"{plan.confidence:g}: its probabilities are wrong"
    )


def of_plan(plan: Plan, reading: Reading, log: DecisionLog) -> Iterator[str]:
    """Yield what was asked for that does not hold here."""
    yield from of_waiting(plan.missing, reading, log)
    yield from of_log(reading, log)
    if (times := reading.played.clustered) is not None:
        said = f"in {log.name} an arm follows itself {times:.3g} times as often as by its probabilities"
        if plan.ordered:
            yield (
                f"{said}: its rows are not in the order of the decisions. Reward models, running bounds and "
                "what policies learn from the first rows are wrong: sort the log by time, or ask for 'ipw'"
            )
        else:
            yield (
                f"{said}: its rows are sorted, which does no harm to this answer but to those that follow "
                "the log's order (sequences, policies that learn from its first part), or stand in it more "
                "than once, or one draw decided several rows: then the interval is too narrow"
            )
    elif (how := copied(log)) is not None:
        yield (
            f"decisions stand in {log.name} more than once: {how}. Each counts as if it were another, and "
            "intervals are too narrow: keep one row for each, or give their decision_id"
        )
    asked = f"interval={plan.interval!r}"
    learned = reading.adaptive if plan.adaptive is None else plan.adaptive
    if plan.interval == "asymptotic" and learned:
        yield (
            f"{asked} holds as decisions become many while weights stay bounded, but the logging policy "
            f"changed along {log.name}, and where its exploration fades weights do not: use 'betting'"
        )
    if VALID[plan.interval] == "independent":
        if learned:
            weighed = ", or 'adaptive' if it learned slowly" if plan.whole and plan.logged else ""
            yield (
                f"{asked} holds for independent decisions, but the logging policy changed along {log.name}: "
                f"use 'betting' with a reward_range{weighed}"
            )
        if any(one.estimator.name == "dm" for one in plan.estimators):
            yield (
                f"{asked} of the direct method shows how the model's predictions vary, not how wrong the "
                "model is: use 'dr'"
            )


def of_log(reading: Reading, log: DecisionLog) -> Iterator[str]:
    """Yield what the log's own probabilities and times say against it."""
    if (found := reading.played.overplayed) is not None:
        arm, times = found
        yield (
            f"the probabilities in {log.name} are wrong: arm {arm} was played {times:.3g} times as often as "
            f"they say, by chance in at most one of {round(1 / REFUTED):,} logs (or decisions were "
            "left out by their arm). No interval holds"
        )
    if reading.fallbacks > WEIGHTLESS * reading.rewarded:
        yield (
            f"{reading.fallbacks:,} of {reading.rewarded:,} judged decisions of {log.name} are fallbacks, "
            "which have no probability and no weight: what was earned in them says nothing of any target"
        )
    if reading.disordered is not None:
        yield (
            f"row {reading.disordered} of {log.name} was taken before the row above it: sequences, reward "
            "models, what is learned from a log's first part, and judging up to the first decision without a "
            "reward need the order of the decisions. Sort the log by time"
        )


def of_waiting(missing: str | float, reading: Reading, log: DecisionLog) -> Iterator[str]:
    """Say what became of decisions without a reward."""
    left = reading.unused
    if left <= UNJUDGED * reading.decisions:
        return
    share = f"{left:,} of {reading.decisions:,} decisions ({left / reading.decisions:.0%}) were not judged"
    if missing == "stop" and reading.stopped is not None:
        yield (
            f"{share}: {reading.waiting:,} have no reward yet, the first is row {reading.stopped} of "
            f"{log.name}, and the log is judged up to it, since late rewards may differ from early ones. "
            "Give mature (and missing=0 if no reward by then means 0), or missing='skip' if lateness has "
            "nothing to do with the reward"
        )
    elif missing == "skip" and reading.waiting > UNJUDGED * reading.decisions:
        yield (
            f"{share}: {reading.waiting:,} have no reward, which is harmless only if lateness has nothing to "
            "do with the reward (missing='stop' assumes nothing)"
        )
