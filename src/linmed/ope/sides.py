"""The two sides of a value, or of a difference of values: terms whose means are bounded from below.

With rewards r in [0, 1], a target's weight w = π(a_t)/p_t and any q(a) known before the draw,

    w (r − q(a_t)) + Σ_a π(a) q(a)

has the value as its mean: q = 0 is inverse-probability weighting, and a q near the rewards makes it vary
less. The upper side is the lower side of 1 − r. The difference of two targets is one of δ(a) = π₁(a) − π₂(a):
where δ is negative 1 − r stands for r, 1 − q for q, |δ| for π, and Σ_{δ<0} |δ|, the share of decisions in
which the two differ, is taken off. Then equal targets differ by zero, and nearby ones have small terms.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from linmed.validation import Floats, Ints

CONSTANTS = (0.0, 0.5, 1.0)
"""Reward models that need no data: good for rare rewards, for middling ones and for frequent ones."""
SHARES = (0.4, 0.2, 0.4)
"""What of the stake goes to each of them, where there are no others."""

Model = Floats | float
"""q(a) of every arm of every decision, flat (ΣK,), or the same for all; rewards scaled to [0, 1]."""


class Arms(NamedTuple):
    """What cutting a reward model needs to know of every arm."""

    guard: Floats  # (ΣK,) at most the logged probability, zero where that is zero
    probability: Floats  # (n,) of the arm played
    offsets: Ints  # (n+1,)
    chosen: Ints  # (n,) places of the arms played in flat arrays


class Side(NamedTuple):
    """Terms x − shift, bounded below by −shift, with the mean in question."""

    x: Floats  # (n,) ≥ 0
    shift: Floats  # (n,) in [0, 1]
    masses: tuple[Floats | None, ...] = (None,)  # π q flat (ΣK,), one for each model; None for none
    arms: Arms | None = None

    def part(self, begin: int, end: int) -> "Side":
        """The decisions from `begin` to `end`; flat arrays stay whole, and offsets point into them."""
        arms = self.arms
        if arms is not None:
            arms = Arms(
                arms.guard, arms.probability[begin:end], arms.offsets[begin : end + 1], arms.chosen[begin:end]
            )
        return Side(self.x[begin:end], self.shift[begin:end], self.masses, arms)


def value_sides(
    weight: Floats, reward: Floats, chance: Floats | None = None,
    models: Sequence[Model] = (0.0,), arms: Arms | None = None,
) -> tuple[Side, Side]:  # fmt: skip
    """Terms with means ν and 1 − ν.  weight, reward (n,), chance π (ΣK,), `models` as `Side.masses`."""
    none = np.zeros(weight.size)
    sides = []
    for r, reflected in ((reward, False), (1.0 - reward, True)):
        masses: list[Floats | None] = []
        for q in models:
            if isinstance(q, float):  # constants are the same set seen from either side
                masses.append(None if q == 0.0 or chance is None else chance * q)
            else:
                assert chance is not None
                masses.append(chance * (1.0 - q if reflected else q))
        sides.append(Side(weight * r, none, tuple(masses), arms))
    return sides[0], sides[1]


def difference_sides(
    ours: Floats, theirs: Floats, reward: Floats, probability: Floats, offsets: Ints, chosen: Ints,
    models: Sequence[Model] = (), guard: Floats | None = None,
) -> tuple[Side, Side]:  # fmt: skip
    """Terms with means Δ and −Δ.  ours, theirs π₁, π₂ (ΣK,); without `guard` there are no models."""
    gap = ours - theirs
    mass = np.abs(gap)
    weight = mass[chosen] / probability
    arms = None if guard is None else Arms(guard, probability, offsets, chosen)
    sides = []
    for sign in (1.0, -1.0):
        better = sign * gap > 0.0
        shift = np.add.reduceat(np.where(better, 0.0, mass), offsets[:-1])
        x = weight * np.where(better[chosen], reward, 1.0 - reward)
        masses = tuple(mass * np.where(better, q, 1.0 - q) for q in models) if arms is not None else (None,)
        sides.append(Side(x, np.minimum(shift, 1.0), masses, arms))
    return sides[0], sides[1]


def unpaired_sides(weight: Floats, other: Floats, reward: Floats) -> tuple[Side, Side]:
    """The same of the played arm's probabilities alone: w r + v (1 − r) − 1, and its reflection."""
    one = np.ones(reward.size)
    rest = 1.0 - reward
    return Side(weight * reward + other * rest, one), Side(other * reward + weight * rest, one)
