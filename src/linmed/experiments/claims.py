"""Claims as data: where the paper makes one, what it says, what was taken for it, and the rule that decides.

What they are is in `rules`; this file says what a claim is made of and how it is judged. Of several parts all
must hold. Trials may be looked at several times while more are played (`Findings.looks`): each look has its
share of the level, and the first one that decides counts.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from linmed.checks import Floats
from linmed.experiments.experiment import Cell, Findings, Key
from linmed.experiments.statistics import (
    LEVEL,
    Estimate,
    Normal,
    Share,
    Statistic,
    Verdict,
    growth,
    resampled,
    slope,
    together,
)

RESOLUTION = 0.02
"""Means whose three standard errors exceed this cannot tell the largest published bias, 0.1, from little."""
MARKS: dict[Verdict, str] = {"holds": "", "fails": " (✗)", "undecided": " (?)"}

Threshold = Literal["the paper's", "ours"]
"""Whose number the border is."""


class Row(NamedTuple):
    """A line of the ledger."""

    experiment: str
    variant: str
    place: str
    """Where the paper makes the claim."""
    claim: str
    """What it says, in our words."""
    predicate: str
    """What was taken for it."""
    threshold: Threshold
    measured: str
    verdict: Verdict
    trials: int
    """Behind the verdict."""
    figure: str
    """The file, without its ending, of the figure that shows it."""


# ---- what is measured


@dataclass(frozen=True)
class Sample:
    """Numbers of one policy in one setting, one (or a curve) per trial."""

    policy: str
    key: Key
    round: float | None = None
    """After so many rounds, as a share of the horizon; None → the whole curve."""
    arm: int | None = None
    """How often this arm was played, instead of regret."""

    def of(self, found: Findings) -> Floats:
        """(trials,), or (trials, checkpoints) for a curve."""
        if self.arm is not None:
            return found.pulls(self.policy, *self.key)[:, self.arm].astype(float)
        if self.round is None:
            return found.curves(self.policy, *self.key)
        if self.round == 1.0:
            return found.final(self.policy, *self.key)
        return found.at(self.round * found.setting(*self.key).horizon, self.policy, *self.key)


class Measure(Protocol):
    """A number that can be had of findings."""

    @property
    def cells(self) -> frozenset[Cell]:
        """The settings and policies whose trials sharpen it."""

    def estimate(self, found: Findings) -> Estimate:
        """The number, and how sure it is."""


@dataclass(frozen=True)
class Quantity:
    """A statistic of samples."""

    statistic: Statistic
    samples: tuple[Sample, ...]

    @property
    def cells(self) -> frozenset[Cell]:
        """Those of the samples."""
        return frozenset((sample.key, sample.policy) for sample in self.samples)

    def estimate(self, found: Findings) -> Estimate:
        """With its bootstrap."""
        return resampled(self.statistic, *(sample.of(found) for sample in self.samples))


@dataclass(frozen=True)
class Exponent:
    """p of regret ∝ tᵖ over some of the rounds of a setting."""

    policy: str
    key: Key
    start: float
    end: float = math.inf

    @property
    def cells(self) -> frozenset[Cell]:
        """One."""
        return frozenset({(self.key, self.policy)})

    def estimate(self, found: Findings) -> Estimate:
        """Of the mean curve."""
        statistic = slope(found.rounds(*self.key), self.start, self.end)
        return resampled(statistic, found.curves(self.policy, *self.key))


@dataclass(frozen=True)
class Stuck:
    """The share of trials that are stuck: see `Findings.stuck`."""

    policy: str
    key: Key

    @property
    def cells(self) -> frozenset[Cell]:
        """One."""
        return frozenset({(self.key, self.policy)})

    def estimate(self, found: Findings) -> Estimate:
        """Counted."""
        stuck = found.stuck(self.policy, *self.key)
        return Share(int(stuck.sum()), len(stuck))


@dataclass(frozen=True)
class Scored:
    """A number made of the scores of an experiment that has those."""

    make: Callable[..., Estimate]
    columns: tuple[str, ...]

    @property
    def cells(self) -> frozenset[Cell]:
        """None: scores have no settings."""
        return frozenset()

    def estimate(self, found: Findings) -> Estimate:
        """Of whole columns."""
        return self.make(*(found.scores[column] for column in self.columns))


def final(policy: str, *key: str | float) -> Sample:
    """Regret of a policy at the horizon of a setting."""
    return Sample(policy, key, 1.0)


def of(statistic: Statistic, *samples: Sample) -> Quantity:
    """As in of(ratio, final("LinMED-99", "all"), final("OFUL", "all"))."""
    return Quantity(statistic, samples)


def exponent(sizes: Iterable[float], *samples: Sample) -> Quantity:
    """p of regret ∝ sizeᵖ between settings."""
    return Quantity(growth(sizes), samples)


# ---- what decides


class Rule(Protocol):
    """How an estimate decides, at a level and as one of so many parts."""

    def verdict(self, estimate: Estimate, level: float = LEVEL, parts: int = 1) -> Verdict:
        """Whether the statement holds."""


@dataclass(frozen=True)
class Between:
    """The true value lies between the borders."""

    low: float = -math.inf
    high: float = math.inf

    def verdict(self, estimate: Estimate, level: float = LEVEL, parts: int = 1) -> Verdict:
        """Undecided while the interval contains a border."""
        return estimate.within(self.low, self.high, level, parts)


BELOW_ONE, ABOVE_ONE = Between(high=1.0), Between(low=1.0)


@dataclass(frozen=True)
class Reproduces:
    """A published number comes out: within three standard errors and its rounding."""

    published: float
    rounding: float

    def verdict(self, estimate: Estimate, level: float = LEVEL, parts: int = 1) -> Verdict:
        """Undecided while three standard errors are wider than what is to be told apart."""
        assert isinstance(estimate, Normal)
        reach = 3.0 * estimate.error
        if not reach <= RESOLUTION:
            return "undecided"
        return "holds" if abs(estimate.value - self.published) <= reach + self.rounding else "fails"


class Part(NamedTuple):
    """One number of a claim; without a rule it is there for information."""

    label: str
    """What to print around the number, which stands for {}."""
    measure: Measure
    rule: Rule | None = None


class Claim(NamedTuple):
    """A statement that is true if every part that has a rule is."""

    place: str
    text: str
    predicate: str
    threshold: Threshold
    parts: list[Part]
    figure: str

    @property
    def cells(self) -> frozenset[Cell]:
        """The settings and policies that decide it."""
        return frozenset().union(*(part.measure.cells for part in self.parts if part.rule is not None))

    def settle(self, found: Findings) -> tuple[Findings, str, Verdict]:
        """The first look that decides, or the last; what was measured, and the verdict."""
        for look in found.looks():
            measured, verdict = self._at(look, LEVEL / found.most_looks)
            if verdict != "undecided":
                break
        return look, measured, verdict

    def judge(self, found: Findings) -> Row:
        """Of a horizon below the paper's none "fails"."""
        look, measured, verdict = self.settle(found)
        if verdict == "fails" and found.shortened:
            paper = found.experiment.paper.horizon
            measured += f"; not so after {found.horizon:,} rounds, the claim is about {paper:,}"
            verdict = "undecided"
        return Row(
            found.experiment.name, found.variant, self.place, self.text, self.predicate, self.threshold,
            measured, verdict, look.smallest(self.cells), self.figure,
        )  # fmt: skip

    def _at(self, found: Findings, level: float) -> tuple[str, Verdict]:
        ruled = sum(part.rule is not None for part in self.parts)
        said: list[tuple[str, Verdict | None]] = []
        for part in self.parts:
            estimate = part.measure.estimate(found)
            verdict = None if part.rule is None else part.rule.verdict(estimate, level, ruled)
            said.append((part.label.format(estimate), verdict))
        verdicts = [verdict for _, verdict in said if verdict is not None]
        several = len(set(verdicts)) > 1
        words = (text + (MARKS[verdict] if several and verdict else "") for text, verdict in said)
        return "; ".join(words), together(verdicts)
