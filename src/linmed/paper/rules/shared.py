"""What the rules of several experiments share: borders, and ways to compare."""

from collections.abc import Sequence

from linmed.paper.claims import Between, Part, Sample, final, of
from linmed.paper.common import MATCHED, OVER, RIVALS, UNDER
from linmed.paper.end_of_optimism import EPSILONS
from linmed.paper.experiment import Key
from linmed.paper.lineup import LINMED
from linmed.paper.statistics import change_over_median, over_median, ratio
from linmed.paper.unit_ball import UnitBallArms, UnitBallDimension

CLOSE = 2.0
"""Regrets are "close" or "comparable", and a policy "competitive", up to this factor; "poor" beyond it."""
SIGNIFICANT = 1.1
"""A policy is "significantly" better, worse or affected from this factor on: a tenth, which a figure shows.
Below it regrets count as alike, whatever the sign of their difference."""
CLEARLY_BELOW, CLEARLY_ABOVE = Between(high=1.0 / SIGNIFICANT), Between(low=SIGNIFICANT)
NOISES = (MATCHED, OVER, UNDER)
BALL = (*RIVALS, "SpannerIGW", "SpannerIGW-AT", *LINMED)
OPTIMISM = (*RIVALS, *LINMED)
DIMENSIONS, COUNTS = UnitBallDimension.values, UnitBallArms.values


def others(names: Sequence[str], own: str) -> list[str]:
    """All but one."""
    return [name for name in names if name != own]


def against(name: str, rival: str, cells: Sequence[Key], rule: Between) -> list[Part]:
    """The ratio of final regrets in every one of these settings."""
    return [
        Part(f"{words(key)}×{{}}", of(ratio, final(name, *key), final(rival, *key)), rule) for key in cells
    ]


def beside_median(name: str, names: Sequence[str], cells: Sequence[Key], rule: Between) -> list[Part]:
    """Final regret over the median of the others'."""
    return [
        Part(
            f"{words(key)}×{{}}",
            of(over_median, final(name, *key), *(final(other, *key) for other in others(names, name))),
            rule,
        )
        for key in cells
    ]


def changes(names: Sequence[str], own: str, after: Key, before: Key) -> list[Sample]:
    """Pairs after, before of final regrets, own first."""
    return [final(name, *key) for name in (own, *others(names, own)) for key in (after, before)]


def worse_than_others(
    own: str, names: Sequence[str], pairs: Sequence[tuple[Key, Key]], rule: Between
) -> list[Part]:
    """By how much a change of setting changes regret, over the median of the others' factors."""
    return [
        Part(f"{words(after)}×{{}}", of(change_over_median, *changes(names, own, after, before)), rule)
        for after, before in pairs
    ]


def words(key: Key) -> str:
    """As in "ε=0.01, σ² = σ*²: "; nothing for a setting that is the only one."""
    if key == ("all",):
        return ""
    symbols: dict[float, str] = dict.fromkeys(EPSILONS, "ε=")
    symbols.update({d: "d=" for d in DIMENSIONS})
    symbols.update({K: "K=" for K in COUNTS})
    return ", ".join(part if isinstance(part, str) else f"{symbols[part]}{part}" for part in key) + ": "
