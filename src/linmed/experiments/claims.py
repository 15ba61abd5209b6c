"""The paper's claims as data: what is said, what is measured for it, and the rule that decides.

Where the paper says "close", "well below" or "near", the claim's text says what was taken for it.
Intervals are 95 % (Student's t over paired trials); a statement is undecided while its interval
contains the border.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from linmed.checks import Floats
from linmed.experiments.experiment import Findings
from linmed.experiments.statistics import Estimate, Verdict, slope, together

CLOSE = 2.0
"""A regret is "close to" or "among" others up to this factor, and "well" below them beyond it."""
RESOLUTION = 0.02
"""Means whose three standard errors exceed this cannot tell the largest published bias, 0.1, from little."""
MARKS: dict[Verdict, str] = {"holds": "", "fails": " (✗)", "undecided": " (?)"}

Sample = Callable[[Findings], Floats]
"""One number, or curve, per trial."""
Measure = Callable[[Findings], Estimate]


class Row(NamedTuple):
    """A line of the ledger."""

    experiment: str
    claim: str
    measured: str
    verdict: Verdict


class Rule(Protocol):
    """How an estimate decides."""

    def verdict(self, estimate: Estimate) -> Verdict:
        """Whether the statement holds."""


@dataclass(frozen=True)
class Between:
    """The true value lies between the borders."""

    low: float = -math.inf
    high: float = math.inf

    def verdict(self, estimate: Estimate) -> Verdict:
        """Undecided while the interval contains a border."""
        return estimate.within(self.low, self.high)


@dataclass(frozen=True)
class Reproduces:
    """A published number comes out: within three standard errors, or within its rounding."""

    published: float
    rounding: float

    def verdict(self, estimate: Estimate) -> Verdict:
        """Undecided while three standard errors are wider than what is to be told apart."""
        reach = 3.0 * estimate.error
        if not reach <= RESOLUTION:
            return "undecided"
        return "holds" if abs(estimate.value - self.published) <= max(reach, self.rounding) else "fails"


class Part(NamedTuple):
    """One number of a claim; without a rule it is there for information."""

    label: str
    """What to print around the number, which stands for {}."""
    measure: Measure
    rule: Rule | None = None


class Claim(NamedTuple):
    """A statement that is true if every part that has a rule is."""

    text: str
    parts: list[Part]

    def judge(self, found: Findings) -> Row:
        """What was measured, and the verdict; of a shorter horizon than the paper's none is "fails"."""
        measured, verdicts = [], []
        for part in self.parts:
            estimate = part.measure(found)
            verdict = None if part.rule is None else part.rule.verdict(estimate)
            measured.append((part.label.format(estimate), verdict))
            verdicts += [] if verdict is None else [verdict]
        several = len(set(verdicts)) > 1
        text = "; ".join(
            words + (MARKS[verdict] if several and verdict else "") for words, verdict in measured
        )
        whole = together(verdicts)
        if whole == "fails" and found.shortened:
            paper = found.experiment.paper.horizon
            text += f"; not so after {found.horizon:,} rounds, the claim is about {paper:,}"
            whole = "undecided"
        return Row(found.experiment.name, self.text, text, whole)


def ledger(findings: Iterable[Findings]) -> list[Row]:
    """Every claim about these experiments."""
    return [claim.judge(found) for found in findings for claim in found.experiment.claims(found)]


# ---- what is measured


def final(name: str, *key: str | float) -> Sample:
    """Regret of a policy at the horizon of a setting."""
    return lambda found: found.final(name, *key)


def at(round_: float, name: str, *key: str | float) -> Sample:
    """Regret of a policy after so many rounds."""
    return lambda found: found.at(round_, name, *key)


def scores(column: str) -> Sample:
    """Scores of an experiment that has those."""
    return lambda found: found.scores[column]


def of(statistic: Callable[..., Estimate], *samples: Sample) -> Measure:
    """A statistic of samples, as in of(ratio, final("LinMED-99", "all"), final("OFUL", "all"))."""
    return lambda found: statistic(*(sample(found) for sample in samples))


def last_decade(name: str, *key: str | float) -> Measure:
    """Exponent of a policy's regret over the last decade of rounds."""
    return lambda found: slope(found.rounds(*key), found.curves(name, *key), found.results[key].horizon / 10)
