"""What one pass over a log leaves of it: each target's answers, summed up in memory that does not grow."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from linmed.checks import Floats
from linmed.ope.estimators import DR, IPW, Estimator, MarginalIPW, Sample
from linmed.ope.intervals import VALID, Bootstrap, StableVariance, normal
from linmed.ope.request import PLAIN, Asked, Form, Request
from linmed.ope.rounds import Rounds
from linmed.ope.sequences import KINDS, ValueSequence, dr_terms, ipw_terms
from linmed.ope.sums import Moments

UNBIASED: dict[str, Estimator] = {"ipw": IPW(), "dr": DR(), "mips": MarginalIPW()}


class Answer:
    """One target's answer to one batch: its weights, its samples and the terms of sequences."""

    def __init__(self, request: Request, rounds: Rounds, chance: Floats, models: list[Floats]):
        self.request, self.rounds, self.models = request, rounds, models
        self.probabilities = chance if request.all_arms else None
        self.weight = (chance[rounds.chosen] if request.all_arms else chance) / rounds.probability
        sources = dict.fromkeys([PLAIN, *(asked.source for asked in request.estimators)])
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
        estimator, o = self.request.estimators[number].estimator, self.rounds.offsets
        pi, p, arms = self.probabilities, self.rounds.logged, self.rounds.arms
        assert isinstance(estimator, MarginalIPW)
        assert pi is not None
        assert p is not None
        assert arms is not None
        decisions = zip(o[:-1], o[1:], self.rounds.arm, strict=True)
        return np.array([estimator.marginal(pi[i:j], p[i:j], arms[i:j], arm) for i, j, arm in decisions])

    def terms(self, form: Form) -> Floats:
        """Γ (n,), whose mean is the value."""
        x, _, _ = UNBIASED[form.kind].terms(self.samples[form])
        assert x is not None
        return x

    def outcomes(self, form: Form, floor: Floats | None) -> tuple[Floats, Floats]:
        """Terms with means ν and 1 − ν on the unit range."""
        assert self.request.possible is not None
        low, high, _ = self.request.possible
        reward = (self.rounds.reward - low) / (high - low)
        if form.kind == "dr":
            assert self.probabilities is not None
            assert floor is not None
            model = np.clip((self.models[form.number] - low) / (high - low), 0.0, 1.0)
            return dr_terms(self.rounds, self.probabilities, self.weight, reward, model, floor)
        return ipw_terms(self.weights(form), reward)

    def weights(self, form: Form) -> Floats:
        """w of the arm that was played, or of its embedding."""
        marginal = self.samples[form].marginal_weight
        return self.weight if marginal is None else marginal

    def proxy(self, form: Form) -> Floats:
        """Σ_a π(a)²/p(a), the size of the terms' conditional variance, or w² where p(a) is unknown."""
        if form.kind == "mips" or self.rounds.logged is None or self.probabilities is None:
            return self.weights(form) ** 2
        positive = self.rounds.logged > 0
        ratio = np.zeros(positive.size)
        np.divide(self.probabilities**2, self.rounds.logged, out=ratio, where=positive)
        return self.rounds.sum_over_arms(ratio)


class Tally:
    """All that the results of one target need. Moments and weights merge; the rest keeps the log's order."""

    def __init__(self, request: Request):
        self.request = request
        interval, asked = request.interval, request.estimators
        forms = sorted({one.form for one in asked})
        self.moments = [Moments() for _ in asked]
        self.weights = {PLAIN: Moments()} | {form: Moments() for form in forms if form.kind == "mips"}
        bootstrapped = asked if interval == "bootstrap" else ()
        self.bootstraps = [Bootstrap(request.samples, request.seed) for _ in bootstrapped]
        self.stable = {form: StableVariance() for form in forms} if interval == "adaptive" else {}
        self.sequences = {form: value_sequence(request) for form in forms} if interval in KINDS else {}

    def add(self, answer: Answer) -> None:
        """Absorb one batch."""
        for form, weights in self.weights.items():
            weights.add(answer.weights(form))
        for i, asked in enumerate(self.request.estimators):
            terms = asked.estimator.terms(answer.samples[asked.source])
            self.moments[i].add(*terms)
            if self.bootstraps:
                self.bootstraps[i].add(*terms)
        for form, stable in self.stable.items():
            stable.add(answer.terms(form), answer.proxy(form))
        for form, bounds in self.sequences.items():
            floor = bounds.floors(len(answer.rounds)) if form.kind == "dr" else None
            bounds.add(answer.terms(form), *answer.outcomes(form, floor), floor)

    @property
    def sums(self) -> list[Moments]:
        """All there is where order does not matter."""
        return [*self.moments, *self.weights.values()]

    def merge(self, sums: list[Moments]) -> None:
        """Absorb the sums of another part of the log."""
        assert not self.request.ordered
        for own, other in zip(self.sums, sums, strict=True):
            own.merge(other)

    def rows(self, target: str) -> Iterator[tuple[Any, ...]]:
        """One result row per estimator."""
        for i, asked in enumerate(self.request.estimators):
            moments, estimator = self.moments[i], asked.estimator
            stabilised = self.stable and estimator.unbiased
            estimate = self.stable[asked.form].estimate if stabilised else moments.estimate
            weights = self._weights(asked)
            effective = float(moments.n) if estimator.name == "dm" else weights.effective
            # Terms that are all zero do not vary, which is no knowledge; sequences say the whole range.
            silent = weights.mean[0] == 0 and not self.sequences
            silent &= estimator.name != "dm" or self.request.interval == "adaptive"
            low, high = (math.nan, math.nan) if silent else self._interval(i, asked)
            valid = VALID["none" if silent else self.request.interval]
            yield target, asked.label, estimate, low, high, moments.n, effective, valid

    @property
    def overlaps(self) -> bool:
        """Whether each estimator that weighs the rewards gave one of them some weight."""
        weighing = (asked for asked in self.request.estimators if asked.estimator.name != "dm")
        return all(self._weights(asked).mean[0] > 0 for asked in weighing)

    def _weights(self, asked: Asked) -> Moments:
        return self.weights.get(asked.form, self.weights[PLAIN])

    def _interval(self, i: int, asked: Asked) -> tuple[float, float]:
        interval, confidence = self.request.interval, self.request.confidence
        if interval == "normal":
            return normal(self.moments[i], confidence)
        if interval == "bootstrap":
            return self.bootstraps[i].interval(confidence)
        if interval == "adaptive":
            return self.stable[asked.form].interval(confidence)
        if interval == "none":
            return math.nan, math.nan
        return self.sequences[asked.form].bounds


def value_sequence(request: Request, *, difference: bool = False) -> ValueSequence:
    """The confidence sequence that was asked for, before any decision."""
    assert request.possible is not None
    low, high, _ = request.possible
    return ValueSequence(
        request.interval, request.confidence, (low, high), difference=difference, drift=request.drift
    )
