"""Several targets in one pass over a log: each one's value, and the difference of pairs of them."""

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

from linmed.log import DecisionLog
from linmed.ope.evaluate import Progress, collect
from linmed.ope.intervals import asymptotic_quantile, honest, quantile
from linmed.ope.reading import Reading
from linmed.ope.recent import Recent
from linmed.ope.request import Request
from linmed.ope.tally import Answer, Contrast, Tally

Pair = tuple[int, int]
FORECAST = 100
"""Decisions from which on a forecast is ventured."""


class Contest(NamedTuple):
    """What a pass found: a tally for each target, a contrast for each pair."""

    tallies: list[Tally]
    contrasts: dict[Pair, Contrast]

    def gain(self, i: int, j: int) -> tuple[float, float, float]:
        """(estimate, lower, upper) of how much more i earns than j; NaN where nobody can tell."""
        ordered = (i, j) in self.contrasts
        contrast = self.contrasts[(i, j) if ordered else (j, i)]
        wrong = self.refuted(i) or self.refuted(j)
        estimate, (low, high) = contrast.gain.estimate, (math.nan, math.nan) if wrong else contrast.bounds
        # Taken from zero: a minus would make negative zeros.
        return (estimate, low, high) if ordered else (0.0 - estimate, 0.0 - high, 0.0 - low)

    def bounds(self, i: int, j: int, confidence: float) -> tuple[float, float]:
        """(lower, upper) of how much more target i earns than target j, which never play the same arm.

        Without a sequence by a limit theorem for means of two groups: their errors are independent.
        """
        if self.refuted(i) or self.refuted(j):
            return math.nan, math.nan
        if self.contrasts:
            return self.gain(i, j)[1:]
        one, other = (self.tallies[k].moments[0] for k in (i, j))
        interval = self.tallies[i].request.interval
        if interval == "none":
            return math.nan, math.nan
        z = asymptotic_quantile(one.n, confidence) if interval == "asymptotic" else quantile(confidence)
        gain, half = one.estimate - other.estimate, z * math.hypot(one.standard_error, other.standard_error)
        return honest(gain - half, gain + half)

    def refuted(self, i: int) -> bool:
        """Whether target i's probabilities, or the log's, cannot be true."""
        return self.tallies[i].refuted

    def better(self, i: int, j: int) -> bool:
        """Whether i surely earns more than j: by their difference, or by their own intervals."""
        if self.refuted(i) or self.refuted(j):
            return False
        (_, low, _) = self.gain(i, j)
        (own,), (other,) = (self.tallies[k].sequences.values() for k in (i, j))
        return low > 0.0 or own.bounds[0] > other.bounds[1]


def hold(
    request: Request,
    log: DecisionLog,
    reading: Reading,
    pairs: Sequence[Pair],
    pair_confidence: float,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Contest:
    """One pass. Intervals of values have the request's confidence, those of differences `pair_confidence`."""
    summarise = partial(_summarise, request, tuple(pairs), pair_confidence)
    found = collect(request, Recent(log, None), reading, summarise, progress, executor)
    size = len(request.targets)
    tallies = [one for one in found[:size] if isinstance(one, Tally)]
    contrasts = [one for one in found[size:] if isinstance(one, Contrast)]
    return Contest(tallies, dict(zip(pairs, contrasts, strict=True)))


def _summarise(
    request: Request, pairs: tuple[Pair, ...], confidence: float, batches: Iterable[list[Answer]]
) -> list[Tally | Contrast]:
    tallies = [Tally(request) for _ in request.targets]
    contrasts = [Contrast(request, confidence) for _ in pairs]
    for answers in batches:
        for tally, answer in zip(tallies, answers, strict=True):
            tally.add(answer)
        for contrast, (i, j) in zip(contrasts, pairs, strict=True):
            contrast.add(answers[i], answers[j])
    return [*tallies, *contrasts]


def decisions_to_go(estimate: float, lower: float, upper: float, n: int) -> int | None:
    """How many more decisions until `lower` is likely above zero, if `estimate` is true; None if that is not.

    Half an interval's width falls like 1/√n: n grows by the square of the factor by which it must fall.
    """
    estimate = min(estimate, upper)
    if n < FORECAST or not estimate > 0.0 or math.isnan(lower):
        return None
    return max(0, math.ceil(n * (((estimate - lower) / estimate) ** 2 - 1.0)))


def brief(count: int) -> int:
    """With two digits: a forecast knows no more."""
    return int(round(count, 2 - len(str(count))))
