"""Random Fourier features: a linear model of them bends as a Gaussian process does."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, Self

import numpy as np

from linmed import validation
from linmed.features.column import MOST_NUMBERS, Column, Fetch
from linmed.features.columns import Number, Vector
from linmed.validation import BadType, BadValue, Floats

# cos 2πu = Σ_k (−1)ᵏ (2πu)²ᵏ / (2k)!, of which |u| ≤ ¼ needs eleven terms for the last bit.
_TERMS = [(-1) ** k * (2 * math.pi) ** (2 * k) / math.factorial(2 * k) for k in range(11)]


def cosine(turns: Floats) -> Floats:
    """cos 2πu within 1e-15 by products and sums: a library's cosine has other bits on other processors."""
    part = np.abs(turns - np.rint(turns))  # a half turn at most
    far = part > 0.25
    square = np.where(far, 0.5 - part, part) ** 2
    total = np.full_like(square, _TERMS[-1])
    for term in reversed(_TERMS[:-1]):
        total = total * square + term
    result: Floats = np.where(far, -total, total)
    return result


@dataclass(frozen=True)
class Fourier(Column):
    """√(2/count) cos(ω·v + φ) for `count` random ω and φ: their products approximate exp(−‖v − w‖² / 2ℓ²).

    `name` is a field, read as `Number(name)`; `of` lists other columns (Number or Vector) or fields instead,
    so that a surface bends over several of them together. `length_scale` ℓ is the distance over which the
    effect changes, in units of the scaled numbers (one standard deviation, where the scale is learned). The
    same `seed` gives the same numbers on every machine and in every release.

    Rahimi and Recht (2007), Random features for large-scale kernel machines.

    >>> from linmed.features import Features, Fourier
    >>> hours = Features(context=[Fourier("hour", 200, length_scale=0.5)])
    >>> bent = hours.fit(contexts={"hour": range(24)})
    >>> noon, one, night = bent.encode_contexts({"hour": [12, 13, 23]})
    >>> bool(noon @ one > noon @ night)
    True

    >>> Fourier("hour", 200).parts
    (Number(name='hour', scale='learned', settle_after=100),)
    """

    count: int
    length_scale: float = 1.0
    seed: int = 0
    of: tuple[Column, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.whole("count", self.count, at_most=MOST_NUMBERS)
        validation.whole("seed", self.seed, at_least=0)
        object.__setattr__(self, "length_scale", validation.positive("length_scale", self.length_scale))
        given: Any = (Number(self.name),) if self.of is None else self.of
        if isinstance(given, (str, Column, Mapping)) or not hasattr(given, "__iter__"):
            given = (given,)
        parts = tuple(_column(each) for each in given)
        if not parts:
            raise BadValue("of", "of is empty: Fourier features need at least one number")
        object.__setattr__(self, "of", parts)

    @property
    def parts(self) -> tuple[Column, ...]:
        """What it bends over."""
        assert self.of is not None
        return self.of

    @property
    def fields(self) -> tuple[str, ...]:
        """Those of its parts."""
        return tuple(field for part in self.parts for field in part.fields)

    @property
    def unknown(self) -> str | None:
        """What its parts lack."""
        return next((part.unknown for part in self.parts if part.unknown), None)

    @property
    def unsettled(self) -> Mapping[str, int]:
        """What its parts wait for."""
        waiting: dict[str, int] = {}
        for part in self.parts:
            for field, count in part.unsettled.items():
                waiting[field] = max(count, waiting.get(field, 0))
        return waiting

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The column's name with each wave."""
        return tuple(f"{self.name}~{i}" for i in range(self.count))

    def fit(self, fetch: Fetch, where: str) -> Self:
        """With its parts fitted."""
        return replace(self, of=tuple(part.fit(fetch, where) for part in self.parts))

    def settle(self, seen: Mapping[str, Sequence[float]]) -> Self:
        """With its parts settled, where they all can be."""
        parts = tuple(part.settle(seen) for part in self.parts)
        return self if any(part.unknown for part in parts) else replace(self, of=parts)

    @cached_property
    def _waves(self) -> tuple[Floats, Floats]:
        """Frequencies (inputs, count) and phases (count,), in turns."""
        inputs, draw, normal = sum(part.width for part in self.parts), random.Random(self.seed), NormalDist()
        # `random()` is promised to stay as it is; nine digits leave out what logarithms differ in.
        omega = [round(normal.inv_cdf(max(draw.random(), 1e-18)), 9) for _ in range(inputs * self.count)]
        frequencies = np.array(omega).reshape(inputs, self.count) / (2 * math.pi * self.length_scale)
        return frequencies, np.array([draw.random() for _ in range(self.count)])

    def encode_row(self, fetch: Fetch, where: str) -> Sequence[float]:
        """The waves at one point; 0 while the scale of its parts is not known."""
        if self.unknown is not None:
            return [0.0] * self.count
        point = [value for part in self.parts for value in part.encode_row(fetch, where)]
        waves: list[float] = self._at(np.array([point]))[0].tolist()
        return waves

    def encode_table(self, fetch: Fetch, where: str, rows: int) -> Floats:
        """The waves at each row's point."""
        if self.unknown is not None:
            return np.zeros((rows, self.count))
        return self._at(np.hstack([part.encode_table(fetch, where, rows) for part in self.parts]))

    def _at(self, points: Floats) -> Floats:
        frequencies, phases = self._waves
        turns = np.broadcast_to(phases, (len(points), self.count)).copy()
        for place, frequency in zip(points.T, frequencies, strict=True):  # one after the other: no BLAS
            turns += place[:, None] * frequency
        return math.sqrt(2 / self.count) * cosine(turns)


def _column(given: Any) -> Column:
    if isinstance(given, str):
        return Number(given)
    made = Column.from_dict(given) if isinstance(given, Mapping) else given
    if not isinstance(made, (Number, Vector)):
        raise BadType("of", f"of must list fields, Number and Vector columns, got {given!r}")
    return made
