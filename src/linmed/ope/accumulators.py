"""What one pass over a log leaves of it: each target's answers, summed up in memory that does not grow."""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from linmed.ope.estimators import DR, IPW, Estimator, Sample
from linmed.ope.intervals import Moments, StableVariance, Weights, honest, limit
from linmed.ope.plan import Asked, Plan
from linmed.ope.scan import Rounds
from linmed.ope.sequences import (
    CONSTANTS,
    Arms,
    Model,
    Side,
    ValueSequence,
    difference_sides,
    unpaired_sides,
    value_sides,
)
from linmed.validation import Floats

UNBIASED: dict[str, Estimator] = {"ipw": IPW(), "dr": DR()}


class Answer:
    """One target's answer to one batch: its weights, its samples and the terms of sequences."""

    def __init__(self, plan: Plan, rounds: Rounds, chance: Floats, model: Floats | None):
        self.plan, self.rounds, self.model = plan, rounds, model
        self.probabilities = chance if plan.all_arms else None
        self.weight = rounds.weights(chance[rounds.chosen] if plan.all_arms else chance)
        self.samples = {"ipw": Sample(self.weight, rounds.reward)}
        if model is not None:
            value = rounds.sum_over_arms(chance * model)
            self.samples["dr"] = Sample(self.weight, rounds.reward, model[rounds.chosen], value)

    def terms(self, form: str) -> Floats:
        """Give Γ (n,), whose mean is the value."""
        x, _, _ = UNBIASED[form].terms(self.samples[form])
        assert x is not None
        return x

    def sides(self, form: str) -> tuple[Side, Side]:
        """Make the two sides of the target's value."""
        rounds, arms = self.rounds, None
        if self.plan.guarded:
            arms = Arms(self.guard, rounds.probability, rounds.offsets, rounds.chosen)
        return value_sides(self.weight, self._reward, self.probabilities, self._models(form), arms)

    def sides_against(self, other: "Answer", form: str) -> tuple[Side, Side]:
        """Make the two sides of what the target earns more than another one."""
        rounds = self.rounds
        if self.probabilities is None or other.probabilities is None:
            return unpaired_sides(self.weight, other.weight, self._reward)
        guarded = self.plan.guarded
        return difference_sides(
            self.probabilities, other.probabilities, self._reward, rounds.probability, rounds.offsets,
            rounds.chosen, self._models(form) if guarded else (), self.guard if guarded else None,
        )  # fmt: skip

    def _models(self, form: str) -> list[Model]:
        """The reward models of the form's sequence, as `Plan.stakes` has them."""
        if not self.plan.guarded:
            return [0.0]
        if form == "ipw":
            return [*CONSTANTS]
        assert self.model is not None
        return [*CONSTANTS, np.clip(self._unit(self.model), 0.0, 1.0)]

    @property
    def _reward(self) -> Floats:
        """On the unit range."""
        return self._unit(self.rounds.reward)

    def _unit(self, values: Floats) -> Floats:
        assert self.plan.possible is not None
        low, high, _ = self.plan.possible
        return values if (low, high) == (0.0, 1.0) else (values - low) / (high - low)

    @cached_property
    def guard(self) -> Floats:
        """What every arm's logged probability is at least, flat (ΣK,)."""
        if self.rounds.logged is not None:
            # The played arm's own probability may differ by what rounding leaves.
            guard = self.rounds.logged.copy()
            guard[self.rounds.chosen] = np.minimum(guard[self.rounds.chosen], self.rounds.probability)
            return guard
        return np.full(int(self.rounds.offsets[-1]), self.plan.smallest_probability)

    def proxy(self) -> Floats:
        """Sum π(a)²/p(a) over arms: the size of the terms' conditional variance."""
        assert self.probabilities is not None
        assert self.rounds.logged is not None
        positive = self.rounds.logged > 0
        ratio = np.zeros(positive.size)
        np.divide(self.probabilities**2, self.rounds.logged, out=ratio, where=positive)
        return self.rounds.sum_over_arms(ratio)


class Tally:
    """All that the results of one target need. Where the plan knows no order, all of it merges."""

    def __init__(self, plan: Plan, *, trace: bool = False, weights_only: bool = False):
        self.plan = plan
        self.distrusted = self.unordered = False  # as the log's arms show: its probabilities, its rows
        self.has_interval = plan.interval != "none" and not weights_only
        interval = plan.interval if self.has_interval else "none"
        forms = sorted({one.form for one in plan.estimators})
        self.moments = [Moments() for _ in plan.estimators]
        self.weights = Weights()
        self.stable = {form: StableVariance() for form in forms} if interval == "adaptive" else {}
        sequenced = forms if interval == "betting" else ()
        self.sequences = {form: value_sequence(plan, form, trace=trace) for form in sequenced}

    def add(self, answer: Answer) -> None:
        """Absorb one batch."""
        rounds = answer.rounds
        self.weights.add(answer.weight, rounds.reward)
        if rounds.logged is not None and answer.probabilities is not None:
            self.weights.lost += float(answer.probabilities[rounds.logged <= 0].sum())
        for moments, asked in zip(self.moments, self.plan.estimators, strict=True):
            moments.add(*asked.estimator.terms(answer.samples[asked.source]))
        for form, stable in self.stable.items():
            stable.add(answer.terms(form), answer.proxy())
        for form, bounds in self.sequences.items():
            bounds.add(answer.terms(form), *answer.sides(form))

    def merge(self, other: "Tally") -> None:
        """Absorb what another part of the log left."""
        assert not self.plan.ordered
        for own, theirs in zip(self.moments, other.moments, strict=True):
            own.merge(theirs)
        self.weights.merge(other.weights)
        for form, bounds in self.sequences.items():
            bounds.merge(other.sequences[form])

    def rows(self, target: str) -> Iterator[tuple[Any, ...]]:
        """Yield one result row per estimator."""
        for moments, asked in zip(self.moments, self.plan.estimators, strict=True):
            estimator = asked.estimator
            stabilised = self.stable and estimator.unbiased
            estimate = self.stable[asked.form].estimate if stabilised else moments.estimate
            effective = float(moments.n) if estimator.name == "dm" else self.weights.moments.effective
            low, high = self._interval(moments, asked)
            valid = "—" if math.isnan(low) else self.plan.valid
            yield target, asked.label, estimate, low, high, moments.n, effective, valid

    @property
    def refuted(self) -> bool:
        """Whether the probabilities behind the weights cannot be true."""
        return self.distrusted or self.weights.refuted

    @property
    def level(self) -> float:
        """The first estimator's estimate; of IPW that of rewards counted from the lowest that is possible."""
        estimate, low = self.moments[0].estimate, self.plan.possible
        if self.plan.estimators[0].estimator.name != "ipw" or low is None:
            return estimate
        return estimate + low.low * (1.0 - self.weights.mean)

    @property
    def overlaps(self) -> bool:
        """Whether some reward has a weight, if any estimator weighs them."""
        weighing = any(asked.estimator.name != "dm" for asked in self.plan.estimators)
        return self.weights.mean > 0 or not weighing

    def _interval(self, moments: Moments, asked: Asked) -> tuple[float, float]:
        weighs = asked.estimator.name != "dm"
        if self.distrusted or (weighs and self.weights.refuted):
            return math.nan, math.nan  # no interval holds for probabilities that are wrong
        if self.unordered and asked.source == "dr":
            return math.nan, math.nan  # what learned from the rows' order learned the rewards themselves
        if self.sequences:
            empty = any(math.isnan(one.bounds[0]) for one in self.sequences.values())
            return (math.nan, math.nan) if empty else self.sequences[asked.form].bounds
        # Terms that are all zero do not vary, which is no knowledge.
        if self.weights.mean == 0 and (weighs or self.plan.interval == "adaptive"):
            return math.nan, math.nan
        if self.stable:
            return honest(*self.stable[asked.form].interval(self.plan.confidence))
        return honest(*limit(self.plan.interval, moments, self.plan.confidence))


class Contrast:
    """What is left of two targets' answers: how much more the first one earns. Merges as a tally does."""

    def __init__(self, plan: Plan, confidence: float | None = None):
        self.plan = plan
        self.confidence = confidence or plan.confidence
        (self.asked,) = plan.estimators
        self.distrusted = self.unordered = False
        self.gain = Moments()
        self.reach = Moments()  # of |w₁ − w₂|
        self.sequence: ValueSequence | None = None
        if plan.interval == "betting":
            self.sequence = value_sequence(plan, self.asked.form, self.confidence, difference=True)

    def add(self, ours: Answer, theirs: Answer) -> None:
        """Absorb one batch."""
        form = self.asked.source
        gain = ours.terms(form) - theirs.terms(form)
        if form == "ipw" and self.plan.possible is not None:
            # Rewards counted from the lowest: a constant added to all of them is no difference.
            gain -= self.plan.possible.low * (ours.weight - theirs.weight)
        self.gain.add(gain)
        self.reach.add(np.abs(ours.weight - theirs.weight))
        if self.sequence is not None:
            self.sequence.add(gain, *ours.sides_against(theirs, self.asked.form))

    def merge(self, other: "Contrast") -> None:
        """Absorb what another part of the log left."""
        self.gain.merge(other.gain)
        self.reach.merge(other.reach)
        if self.sequence is not None:
            assert other.sequence is not None
            self.sequence.merge(other.sequence)

    @property
    def bounds(self) -> tuple[float, float]:
        """(lower, upper) of the difference."""
        if self.distrusted or (self.unordered and self.asked.source == "dr"):
            return math.nan, math.nan
        if self.sequence is not None:
            return self.sequence.bounds
        return honest(*limit(self.plan.interval, self.gain, self.confidence))

    def row(self, name: str, refuted: bool) -> tuple[Any, ...]:
        """Make a result row; where probabilities are `refuted` no interval holds."""
        low, high = (math.nan, math.nan) if refuted else self.bounds
        valid = "—" if math.isnan(low) else self.plan.valid
        return name, self.asked.label, self.gain.estimate, low, high, self.gain.n, self.reach.effective, valid


def value_sequence(
    plan: Plan,
    form: str,
    confidence: float | None = None,
    *,
    difference: bool = False,
    trace: bool = False,
) -> ValueSequence:
    """Start the confidence sequence that was asked for, before any decision."""
    assert plan.possible is not None
    low, high, _ = plan.possible
    return ValueSequence(
        confidence or plan.confidence, (low, high),
        shares=plan.stakes(form), difference=difference, trace=trace,
    )  # fmt: skip
