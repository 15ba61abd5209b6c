"""The rules of the unit ball."""

from collections.abc import Iterator, Sequence

from linmed.paper.claims import ABOVE_ONE, BELOW_ONE, Between, Claim, Part, final, of
from linmed.paper.common import MATCHED, OVER, UNDER
from linmed.paper.experiment import Findings, Key
from linmed.paper.lineup import LINMED
from linmed.paper.rules.shared import (
    BALL,
    CLOSE,
    COUNTS,
    NOISES,
    SIGNIFICANT,
    against,
    beside_median,
    others,
    worse_than_others,
)
from linmed.paper.statistics import ratio, ratio_of_ratios, typical_factor, worst_change_over_median


def unit_ball_dimension(found: Findings) -> Iterator[Claim]:
    """What the paper says of it."""
    place, figure = "Appendix, unit ball, different d", "unit-ball-dimension-1"
    low, middle, high = 2, 20, 50
    for number, noise in enumerate(NOISES, start=1):
        parts = [
            Part(f"{name} ×{{}}", of(ratio, final(name, noise, high), final(name, noise, low)), ABOVE_ONE)
            for name in BALL
        ]
        yield Claim(
            place, f"Every algorithm deteriorates with the dimension ({noise})",
            f"regret at d = {high} over d = {low} above 1",
            "the paper's", parts, f"unit-ball-dimension-{number}",
        )  # fmt: skip
    parts = [
        Part(
            f"than {name} ×{{}}",
            of(ratio_of_ratios, final("LinTS-Freq", MATCHED, high), final("LinTS-Freq", MATCHED, low),
               final(name, MATCHED, high), final(name, MATCHED, low)),
            ABOVE_ONE,
        )
        for name in others(BALL, "LinTS-Freq")
    ]  # fmt: skip
    yield Claim(
        place, "… LinTS-Freq the most", "its factor over each other's above 1", "the paper's", parts, figure
    )
    trend = [final("LinTS-Freq", noise, d) for noise in (OVER, MATCHED) for d in (high, low)]
    yield Claim(
        place, "… and its decline with d is steeper when the noise is over-specified",
        f"that factor with {OVER} over the one with {MATCHED} above 1", "the paper's",
        [Part("×{}", of(ratio_of_ratios, *trend), ABOVE_ONE)], "unit-ball-dimension-2",
    )  # fmt: skip
    sizes = (low, middle, high)
    yield from _wrong_sigma(place, "d", sizes, "unit-ball-dimension")
    yield from _in_general(place, "d", sizes, "unit-ball-dimension")
    for noises, rule, words, text in (
        ((MATCHED, UNDER), BELOW_ONE, "below", "OFUL performs well where the noise is not over-specified"),
        ((OVER,), ABOVE_ONE, "above", "OFUL does not perform well where it is"),
    ):
        parts = beside_median("OFUL", BALL, [(noise, d) for noise in noises for d in sizes], rule)
        yield Claim(
            place, text, f"final regret {words} the median of the others for every d", "ours", parts, figure
        )
    yield Claim(
        place, "LinMED-90 outperforms LinMED-99 in high dimension", f"lower final regret at d = {high}",
        "the paper's", against("LinMED-90", "LinMED-99", [(noise, high) for noise in NOISES], BELOW_ONE),
        figure,
    )  # fmt: skip


def unit_ball_arms(found: Findings) -> Iterator[Claim]:
    """What the paper says of it."""
    place, figure = "Appendix, unit ball, different K", "unit-ball-arms-1"
    sizes = COUNTS
    pairs: list[tuple[Key, Key]] = [((OVER, size), (MATCHED, size)) for size in sizes]
    yield Claim(
        place, "LinTS-Freq deteriorates when the noise is over-specified",
        f"regret with {OVER} over {MATCHED} above 1, and above the median of the others' factors (×)",
        "the paper's",
        [
            *_changed("LinTS-Freq", OVER, "K", sizes, ABOVE_ONE),
            *worse_than_others("LinTS-Freq", BALL, pairs, ABOVE_ONE),
        ],
        "unit-ball-arms-2",
    )  # fmt: skip
    yield from _in_general(place, "K", sizes, "unit-ball-arms")
    most = [final(name, MATCHED, K) for name in BALL for K in (500, 10)]
    each = [
        Part(f"{name} ×{{}}", of(ratio, final(name, MATCHED, 500), final(name, MATCHED, 10))) for name in BALL
    ]
    yield Claim(
        place, "Across most algorithms regret does not depend on K",
        f"between K = 10 and 500 at least half of them change by less than a factor {CLOSE:g}, up or down",
        "ours",
        [Part("the median factor {}", of(typical_factor, *most), Between(high=CLOSE)), *each], figure,
    )  # fmt: skip


def _wrong_sigma(place: str, symbol: str, sizes: Sequence[int], figure: str) -> Iterator[Claim]:
    """What a wrong σ does to LinTS-Freq and to LinMED."""
    yield Claim(
        place, "… and improves when it is under-specified", f"regret with {UNDER} over {MATCHED} below 1",
        "the paper's", _changed("LinTS-Freq", UNDER, symbol, sizes, BELOW_ONE), f"{figure}-3",
    )  # fmt: skip
    rivals = BALL[: -len(LINMED)]
    for name in LINMED:
        parts = [
            Part(
                f"{symbol}={size}: ×{{}}",
                of(worst_change_over_median, *(final(other, noise, size) for other in (name, *rivals)
                                               for noise in (OVER, UNDER, MATCHED))),
                Between(high=SIGNIFICANT),
            )
            for size in sizes
        ]  # fmt: skip
        yield Claim(
            place, f"{name} is not significantly affected by a wrong σ",
            f"the larger of its factors with {OVER} and with {UNDER} is below {SIGNIFICANT} times the median "
            "of those of the policies that are not LinMED (×)", "ours", parts, f"{figure}-2",
        )  # fmt: skip


def _changed(name: str, noise: str, symbol: str, sizes: Sequence[int], rule: Between) -> list[Part]:
    """Its regret over the one with the right σ."""
    return [
        Part(f"{noise}, {symbol}={size}: factor {{}}",
             of(ratio, final(name, noise, size), final(name, MATCHED, size)), rule)
        for size in sizes
    ]  # fmt: skip


def _in_general(place: str, symbol: str, sizes: Sequence[int], figure: str) -> Iterator[Claim]:
    """LinIMED-3 is poor, LinMED competitive."""
    matched: list[Key] = [(MATCHED, size) for size in sizes]
    yield Claim(
        place, "LinIMED-3 performs notably poorly",
        f"more than {CLOSE:g} times the median final regret of the others for every {symbol}", "ours",
        beside_median("LinIMED-3", BALL, matched, Between(low=CLOSE)), f"{figure}-1",
    )  # fmt: skip
    for name in LINMED:
        cells: list[Key] = [(noise, size) for noise in NOISES for size in sizes]
        rivals = (name, *others(BALL[: -len(LINMED)], name))
        yield Claim(
            place, f"{name} performs competitively compared to the other algorithms",
            f"at most {CLOSE:g} times the median final regret of those that are not LinMED", "ours",
            beside_median(name, rivals, cells, Between(high=CLOSE)), f"{figure}-1",
        )  # fmt: skip
