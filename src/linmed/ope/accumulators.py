"""What one pass over a log leaves of it: each target's answers, summed up in memory that does not grow."""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from linmed.ope.catalogue_logs import Listed
from linmed.ope.estimators import DR, IPW, Estimator, MarginalIPW, Sample
from linmed.ope.intervals import (
    Bootstrap,
    Faded,
    Moments,
    StableVariance,
    Weights,
    honest,
    limit,
)
from linmed.ope.plan import PLAIN, Asked, Form, Plan
from linmed.ope.scan import Rounds
from linmed.ope.sequences import (
    CONSTANTS,
    KINDS,
    Arms,
    Model,
    Side,
    ValueSequence,
    difference_sides,
    unpaired_sides,
    value_sides,
)
from linmed.validation import Floats

UNBIASED: dict[str, Estimator] = {"ipw": IPW(), "dr": DR(), "mips": MarginalIPW()}


class Answer:
    """One target's answer to one batch: its weights, its samples and the terms of sequences."""

    def __init__(self, plan: Plan, rounds: Rounds, chance: Floats | Listed, models: list[Floats]):
        self.plan, self.rounds, self.models = plan, rounds, models
        if isinstance(chance, Listed):
            self.probabilities: Floats | None = chance.mass
            self.weight = rounds.weights(chance.played)
        else:
            self.probabilities = chance if plan.all_arms else None
            self.weight = rounds.weights(chance[rounds.chosen] if plan.all_arms else chance)
        sources = dict.fromkeys([PLAIN, *(asked.source for asked in plan.estimators)])
        self.samples = {source: self._sample(source) for source in sources}

    def _sample(self, source: Form) -> Sample:
        if source.kind == "mips":
            return Sample(self.weight, self.rounds.reward, marginal_weight=self._marginal(source.number))
        if source.kind == "dr":
            model, chance = self.models[source.number], self.probabilities
            assert chance is not None
            value = self.rounds.sum_over_arms(chance * model)
            return Sample(self.weight, self.rounds.reward, model[self.rounds.chosen], value)
        return Sample(self.weight, self.rounds.reward)

    def _marginal(self, number: int) -> Floats:
        estimator, rounds = self._embedded(number), self._decisions()
        return np.array([estimator.marginal(*decision) for decision in rounds])

    def _embedded(self, number: int) -> MarginalIPW:
        estimator = self.plan.estimators[number].estimator
        assert isinstance(estimator, MarginalIPW)
        return estimator

    def _decisions(self) -> Iterator[tuple[Floats, Floats, Floats, int]]:
        """π, p, the arms and the arm played of each decision."""
        pi, p, arms, o = self.probabilities, self.rounds.logged, self.rounds.arms, self.rounds.offsets
        assert pi is not None
        assert p is not None
        assert arms is not None
        for i, j, arm in zip(o[:-1], o[1:], self.rounds.arm, strict=True):
            yield pi[i:j], p[i:j], arms[i:j], arm

    def terms(self, form: Form) -> Floats:
        """Give Γ (n,), whose mean is the value."""
        x, _, _ = UNBIASED[form.kind].terms(self.samples[form])
        assert x is not None
        return x

    def sides(self, form: Form) -> tuple[Side, Side]:
        """Make the two sides of the target's value."""
        arms = None
        if self.plan.guarded and form.kind != "mips":
            rounds = self.rounds
            arms = Arms(self.guard, rounds.probability, rounds.offsets, rounds.chosen)
        return value_sides(self.weights(form), self._reward, self.probabilities, self._models(form), arms)

    def sides_against(self, other: "Answer", form: Form) -> tuple[Side, Side]:
        """Make the two sides of what the target earns more than another one."""
        rounds = self.rounds
        if self.probabilities is None or other.probabilities is None:
            return unpaired_sides(self.weight, other.weight, self._reward)
        guarded = self.plan.guarded
        return difference_sides(
            self.probabilities, other.probabilities, self._reward, rounds.probability, rounds.offsets,
            rounds.chosen, self._models(form) if guarded else (), self.guard if guarded else None,
        )  # fmt: skip

    def _models(self, form: Form) -> list[Model]:
        """The reward models of the form's sequence, as `Plan.stakes` has them."""
        if not self.plan.guarded or form.kind == "mips":
            return [0.0]
        learned = [np.clip(self._unit(self.models[form.number]), 0.0, 1.0)] if form.kind == "dr" else []
        return [*CONSTANTS, *learned]

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

    def weights(self, form: Form) -> Floats:
        """Give w of the arm that was played, or of its embedding."""
        marginal = self.samples[form].marginal_weight
        return self.weight if marginal is None else marginal

    def proxy(self, form: Form) -> Floats:
        """Sum π(a)²/p(a) over arms, or embeddings: the size of the terms' conditional variance."""
        if form.kind == "mips":
            estimator = self._embedded(form.number)
            return np.array([estimator.spread(pi, p, arms) for pi, p, arms, _ in self._decisions()])
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
        interval, asked = plan.interval, plan.estimators
        self.distrusted = self.unordered = False  # as the log's arms show: its probabilities, its rows
        self.has_interval = interval != "none" and not weights_only
        interval = interval if self.has_interval else "none"
        forms = sorted({one.form for one in asked})
        faded = plan.half_life is not None
        self.moments = [Faded() if faded else Moments() for _ in asked]
        self.counting = {form: Moments() for form in {PLAIN, *forms}} if faded else {}  # of ω w
        self.weights = {PLAIN: Weights()} | {form: Weights() for form in forms if form.kind == "mips"}
        bootstrapped = asked if interval == "bootstrap" else ()
        self.bootstraps = [Bootstrap(plan.samples, plan.seed) for _ in bootstrapped]
        self.stable = {form: StableVariance() for form in forms} if interval == "adaptive" else {}
        sequenced = forms if interval in KINDS else ()
        self.sequences = {form: value_sequence(plan, form, trace=trace) for form in sequenced}

    def add(self, answer: Answer) -> None:
        """Absorb one batch."""
        rounds = answer.rounds
        for form, weights in self.weights.items():
            weights.add(answer.weights(form), rounds.reward)
            if rounds.logged is not None and answer.probabilities is not None:
                weights.lost += float(answer.probabilities[rounds.logged <= 0].sum())
        for i, asked in enumerate(self.plan.estimators):
            terms = asked.estimator.terms(answer.samples[asked.source])
            self.moments[i].add(*terms, rounds.weight)
            if self.bootstraps:
                self.bootstraps[i].add(*terms)
        for form, stable in self.stable.items():
            stable.add(answer.terms(form), answer.proxy(form))
        for form, bounds in self.sequences.items():
            bounds.add(answer.terms(form), *answer.sides(form), rounds.weight)
        for form, counting in self.counting.items():
            assert rounds.weight is not None
            counting.add(rounds.weight * answer.weights(form))

    def merge(self, other: "Tally") -> None:
        """Absorb what another part of the log left."""
        assert not self.plan.ordered
        for own, theirs in zip(self.moments, other.moments, strict=True):
            own.merge(theirs)
        for name in ("counting", "weights", "sequences"):
            for form, one in getattr(self, name).items():
                one.merge(getattr(other, name)[form])

    def rows(self, target: str) -> Iterator[tuple[Any, ...]]:
        """Yield one result row per estimator."""
        for i, asked in enumerate(self.plan.estimators):
            moments, estimator = self.moments[i], asked.estimator
            stabilised = self.stable and estimator.unbiased
            estimate = self.stable[asked.form].estimate if stabilised else moments.estimate
            weights = self.weights_of(asked)
            worth = self.counting.get(asked.form, weights.moments)
            effective = float(moments.n) if estimator.name == "dm" else worth.effective
            low, high = self._interval(i, asked)
            valid = "—" if math.isnan(low) else self.plan.valid
            yield target, asked.label, estimate, low, high, moments.n, effective, valid

    @property
    def refuted(self) -> bool:
        """Whether the probabilities behind some weights cannot be true."""
        return self.distrusted or any(weights.refuted for weights in self.weights.values())

    @property
    def level(self) -> float:
        """The first estimator's estimate; of IPW that of rewards counted from the lowest that is possible."""
        estimate, low = self.moments[0].estimate, self.plan.possible
        if self.plan.estimators[0].estimator.name != "ipw" or low is None:
            return estimate
        return estimate + low.low * (1.0 - self.weights[PLAIN].mean)

    @property
    def overlaps(self) -> bool:
        """Whether each estimator that weighs the rewards gave one of them some weight."""
        weighing = (asked for asked in self.plan.estimators if asked.estimator.name != "dm")
        return all(self.weights_of(asked).mean > 0 for asked in weighing)

    def weights_of(self, asked: Asked) -> Weights:
        """Find the weights that an estimator gives to rewards."""
        return self.weights.get(asked.form, self.weights[PLAIN])

    def _interval(self, i: int, asked: Asked) -> tuple[float, float]:
        if self.distrusted or (asked.estimator.name != "dm" and self.weights_of(asked).refuted):
            return math.nan, math.nan  # no interval holds for probabilities that are wrong
        if self.unordered and asked.source.kind == "dr":
            return math.nan, math.nan  # what learned from the rows' order learned the rewards themselves
        if self.sequences:
            empty = any(math.isnan(one.bounds[0]) for one in self.sequences.values())
            return (math.nan, math.nan) if empty else self.sequences[asked.form].bounds
        # Terms that are all zero do not vary, which is no knowledge.
        silent = self.weights_of(asked).mean == 0
        if silent and (asked.estimator.name != "dm" or self.plan.interval == "adaptive"):
            return math.nan, math.nan
        return honest(*self._limit(i, asked))

    def _limit(self, i: int, asked: Asked) -> tuple[float, float]:
        """An interval by a limit theorem: of no use where nothing varies."""
        if self.bootstraps:
            return self.bootstraps[i].interval(self.plan.confidence)
        if self.stable:
            return self.stable[asked.form].interval(self.plan.confidence)
        return limit(self.plan.interval, self.moments[i], self.plan.confidence)


class Contrast:
    """What is left of two targets' answers: how much more the first one earns. Merges as a tally does."""

    def __init__(self, plan: Plan, confidence: float | None = None):
        self.plan = plan
        self.confidence = confidence or plan.confidence
        (self.asked,) = plan.estimators
        self.distrusted = self.unordered = False
        self.gain = Moments() if plan.half_life is None else Faded()
        self.reach = Moments()  # of |w₁ − w₂|, times ω
        sequenced = plan.interval in KINDS
        form = self.asked.form
        self.sequence = value_sequence(plan, form, self.confidence, difference=True) if sequenced else None

    def add(self, ours: Answer, theirs: Answer) -> None:
        """Absorb one batch."""
        form = self.asked.source
        gain = ours.terms(form) - theirs.terms(form)
        if form == PLAIN and self.plan.possible is not None:
            # Rewards counted from the lowest: a constant added to all of them is no difference.
            gain -= self.plan.possible.low * (ours.weight - theirs.weight)
        weight, reach = ours.rounds.weight, np.abs(ours.weight - theirs.weight)
        self.gain.add(gain, weight=weight)
        self.reach.add(reach if weight is None else weight * reach)
        if self.sequence is not None:
            self.sequence.add(gain, *ours.sides_against(theirs, self.asked.form), weight)

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
        if self.distrusted or (self.unordered and self.asked.source.kind == "dr"):
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
    form: Form,
    confidence: float | None = None,
    *,
    difference: bool = False,
    trace: bool = False,
) -> ValueSequence:
    """Start the confidence sequence that was asked for, before any decision."""
    assert plan.possible is not None
    low, high, _ = plan.possible
    assert plan.drift is not None
    return ValueSequence(
        plan.interval, confidence or plan.confidence, (low, high),
        shares=plan.stakes(form), difference=difference, drift=plan.drift, trace=trace,
    )  # fmt: skip
