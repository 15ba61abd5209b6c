"""Judge claims, which are data: where one is made, what it says, what was taken for it, and what decides.

What they are is in `rules`; this file says what a claim is made of and how it is judged. Of
several parts all must hold. Trials may be looked at several times while more are played: each look has its
share of the level (`statistics.spent`), and the first one that decides a part counts for it. A part that is
true is refuted with a probability of at most LEVEL divided by the number of parts, and one that is false held
with at most LEVEL, over all looks together; so a claim is judged wrongly with at most LEVEL, whichever parts
were given more trials and whatever made that choice.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from linmed.paper.experiment import Cell, Findings, Key
from linmed.paper.statistics import (
    LEVEL,
    Estimate,
    Normal,
    Share,
    Statistic,
    Verdict,
    growth,
    ratio,
    resampled,
    slope,
    spent,
    together,
)
from linmed.validation import Floats

OURS = "our addition"
"""The place of a statement that the paper does not make."""
RESOLUTION = 0.02
"""Means whose three standard errors exceed this cannot tell the largest published bias, 0.1, from little."""
MARKS: dict[Verdict, str] = {"holds": "", "fails": " (✗)", "undecided": " (?)"}

Threshold = Literal["the paper's", "ours"]
"""Whose number the border is."""


class Row(NamedTuple):
    """A line of the ledger.

    >>> row = Row("mine", "text", "Section 1", "it is so", "p > 0", "ours", "p = 0.3", "holds", 10, "mine")
    >>> row.claim, row.verdict, row.ours
    ('it is so', 'holds', False)
    """

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
    notes: str = ""
    """What a reader should know about the run: whose data, and whether time was up."""

    @property
    def ours(self) -> bool:
        """Whether it is a statement of our own, which the paper does not make."""
        return self.place == OURS


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
        """Take its numbers (trials,), or (trials, checkpoints) for a curve."""
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
        """The settings and policies whose trials sharpen it; none if it is made of something else."""

    def estimate(self, found: Findings) -> Estimate:
        """Compute the number, and how sure it is."""


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
        """Bootstrap it."""
        worst = [
            0.0 if s.arm is not None else (s.round or 0.0) * found.stuck_regret(*s.key) for s in self.samples
        ]
        groups = [(s.key, s.policy) for s in self.samples]
        return resampled(self.statistic, *(s.of(found) for s in self.samples), worst=worst, groups=groups)


@dataclass(frozen=True)
class _OfOne:
    """A number of one policy in one setting."""

    policy: str
    key: Key

    @property
    def cells(self) -> frozenset[Cell]:
        """One."""
        return frozenset({(self.key, self.policy)})


@dataclass(frozen=True)
class Exponent(_OfOne):
    """p of regret ∝ tᵖ over some of the rounds of a setting."""

    start: float
    end: float = math.inf

    def estimate(self, found: Findings) -> Estimate:
        """Fit it to the mean curve."""
        statistic = slope(found.rounds(*self.key), self.start, self.end)
        return resampled(statistic, found.curves(self.policy, *self.key))


@dataclass(frozen=True)
class Stuck(_OfOne):
    """The share of trials that are stuck: see `Findings.stuck`."""

    def estimate(self, found: Findings) -> Estimate:
        """Count them."""
        return Share.of(found.stuck(self.policy, *self.key))


@dataclass(frozen=True)
class Scored:
    """A number made of the scores of an experiment that has those."""

    make: Callable[..., Estimate]
    columns: tuple[str, ...]
    cells: frozenset[Cell] = frozenset()
    """None: scores have no settings."""

    def estimate(self, found: Findings) -> Estimate:
        """Make it of whole columns."""
        return self.make(*(found.scores[column] for column in self.columns))


def final(policy: str, *key: str | float) -> Sample:
    """Take the regret of a policy at the horizon of a setting."""
    return Sample(policy, key, 1.0)


def of(statistic: Statistic, *samples: Sample) -> Quantity:
    """Measure as in of(ratio, final("LinMED-99", "all"), final("OFUL", "all"))."""
    return Quantity(statistic, samples)


def exponent(sizes: Iterable[float], *samples: Sample) -> Quantity:
    """Measure p of regret ∝ sizeᵖ between settings."""
    return Quantity(growth(tuple(sizes)), samples)


# ---- what decides


class Rule(Protocol):
    """How an estimate decides, at a level and as one of so many parts."""

    def verdict(self, estimate: Estimate, level: float = LEVEL, parts: int = 1) -> Verdict:
        """Say whether the statement holds."""


@dataclass(frozen=True)
class Between:
    """The true value lies between the borders."""

    low: float = -math.inf
    high: float = math.inf

    def verdict(self, estimate: Estimate, level: float = LEVEL, parts: int = 1) -> Verdict:
        """Leave it undecided while the interval contains a border."""
        return estimate.within(self.low, self.high, level, parts)


BELOW_ONE, ABOVE_ONE = Between(high=1.0), Between(low=1.0)


@dataclass(frozen=True)
class Reproduces:
    """A published number comes out: within three standard errors and its rounding."""

    published: float
    rounding: float

    def verdict(self, estimate: Estimate, level: float = LEVEL, parts: int = 1) -> Verdict:
        """Leave it undecided while three standard errors are wider than what is to be told apart."""
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


def times(label: str, own: Sample, other: Sample, rule: Rule | None = None) -> Part:
    """Make the part that is a ratio of two mean regrets."""
    return Part(f"{label}×{{}}", of(ratio, own, other), rule)


class Judged(NamedTuple):
    """A part, at the first look that decides it or the last that was taken."""

    look: int
    """From 1."""
    verdict: Verdict
    trials: int
    against: int
    """How much speaks against it, as in `_against`."""


Known = dict[tuple[str, int, int], Judged]
"""By claim, part and look: those that were taken need not be taken again."""


class Claim(NamedTuple):
    """A statement that is true if every part that has a rule is.

    >>> from linmed.paper import EXPERIMENTS
    >>> from linmed.paper.ledger import claims
    >>> claim = claims(EXPERIMENTS["large-gap"].plan("quick", "text"))[0]
    >>> claim.text
    'LinMED-99 outperforms SpannerIGW, SpannerIGW-Anytime, LinTS-Freq, EXP2 and LinIMED-1'
    >>> claim.threshold, len(claim.cells)
    ("the paper's", 6)
    """

    place: str
    text: str
    predicate: str
    threshold: Threshold
    parts: list[Part]
    figure: str

    @property
    def cells(self) -> frozenset[Cell]:
        """The settings and policies that decide it."""
        return frozenset().union(*(part.measure.cells for part in self._ruled))

    @property
    def _ruled(self) -> list[Part]:
        return [part for part in self.parts if part.rule is not None]

    def settle(self, found: Findings, known: Known | None = None) -> list[Judged]:
        """Judge every part that has a rule, at the first look that decides it, or the last that was taken.

        known: what earlier calls found out about this claim; it is added to.
        """
        known = {} if known is None else known
        ruled = self._ruled
        return [
            _settle(part, found, len(ruled), known, (self.text, place)) for place, part in enumerate(ruled)
        ]

    def wanting(self, found: Findings, known: Known | None = None) -> frozenset[Cell]:
        """Return the cells whose trials would decide it: none if it is decided, or more cannot be played.

        To refute, one part is enough: the one that is closest to it. Otherwise all that do not hold yet.
        """
        ruled = list(zip(self._ruled, self.settle(found, known), strict=True))
        if together(judged.verdict for _, judged in ruled) != "undecided":
            return frozenset()
        open_ = [(part, judged) for part, judged in ruled if judged.verdict == "undecided"]
        against = max(judged.against for _, judged in open_)
        if against > 0 and found.shortened:
            return frozenset()  # what speaks against a claim about more rounds refutes nothing
        if against > 0:
            open_ = [(part, judged) for part, judged in open_ if judged.against == against]
        cells = frozenset().union(*(part.measure.cells for part, _ in open_))
        return frozenset(cell for cell in cells if found.next_trials(cell) > found.played(cell))

    def judge(self, found: Findings) -> Row:
        """Say whether it holds; of a horizon below the paper's none "fails"."""
        settled = self.settle(found)
        verdict = together(judged.verdict for judged in settled)
        several = len({judged.verdict for judged in settled}) > 1
        said, rest = [], iter(settled)
        counts = []
        for part in self.parts:
            judged = next(rest) if part.rule is not None else None
            seen = found.until(judged.look) if judged else found
            mark = MARKS[judged.verdict] if several and judged else ""
            said.append(part.label.format(part.measure.estimate(seen)) + mark)
            counts.append(seen.smallest(part.measure.cells))
        if len(set(counts)) > 1:
            said = [f"{words}, {count:,} trials" for words, count in zip(said, counts, strict=True)]
        measured = "; ".join(said)
        behind = [judged for judged in settled if judged.verdict == verdict] or settled
        trials = min(judged.trials for judged in behind)
        if verdict == "fails" and found.shortened:
            paper = found.experiment.paper.horizon
            measured += f"; not so after {found.horizon:,} rounds, the claim is about {paper:,}"
            verdict = "undecided"
        return Row(
            found.experiment.name, found.variant, self.place, self.text, self.predicate, self.threshold,
            measured, verdict, trials, self.figure, " ".join(found.notes),
        )  # fmt: skip


class Chapter(NamedTuple):
    """Where claims stand that are stated one after the other, and the figure that shows them."""

    place: str
    figure: str

    def papers(self, text: str, predicate: str, parts: Sequence[Part]) -> Claim:
        """State a claim whose border is the paper's."""
        return Claim(self.place, text, predicate, "the paper's", list(parts), self.figure)

    def ours(self, text: str, predicate: str, parts: Sequence[Part]) -> Claim:
        """State a claim whose border is ours."""
        return Claim(self.place, text, predicate, "ours", list(parts), self.figure)

    def at(self, place: str) -> "Chapter":
        """Go to another place, which the same figure shows."""
        return Chapter(place, self.figure)

    def showing(self, figure: str) -> "Chapter":
        """Stay at the place, which another figure shows, too."""
        return Chapter(self.place, figure)


def _settle(part: Part, found: Findings, parts: int, known: Known, name: tuple[str, int]) -> Judged:
    """Look by look, as far as its cells were played."""
    assert part.rule is not None
    look = 1
    while True:
        if (*name, look) not in known:
            seen = found.until(look)
            estimate = part.measure.estimate(seen)
            verdict = part.rule.verdict(estimate, spent(look, found.most_looks), parts)
            against = _against(part.rule, estimate) if verdict == "undecided" else 0
            known[*name, look] = Judged(look, verdict, seen.smallest(part.measure.cells), against)
        judged = known[*name, look]
        further = look < found.most_looks and found.reaches(look + 1, part.measure.cells)
        if judged.verdict != "undecided" or not further:
            return judged
        look += 1


def _against(rule: Rule, estimate: Estimate) -> int:
    """How sure the estimate is that the rule fails: k if it is so at a level of 2⁻ᵏ, 0 if at none."""
    sure = 0
    while sure < 30 and rule.verdict(estimate, 0.5 ** (sure + 1)) == "fails":
        sure += 1
    return sure
