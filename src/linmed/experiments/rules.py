"""Every claim of the paper's empirical studies, with the rule that decides it.

The file is committed before the runs that judge it,
and the ledger prints both commits. Borders are the paper's
where it compares ("outperforms": a ratio of 1) or prints a number; where it says "close" or "well" they are
ours, and say so. Factors are compared with one another wherever the paper compares in words: "deteriorates"
means more than the others do, "is not affected" less, and an improvement never counts against a policy.

What was known when these rules were written: the ledger of the paper-scale trials of seed 0,
made with earlier
rules, and single figures of longer runs of the same seed. Ledgers for citing are therefore made with another
seed. Three of the earlier rules had been changed after their results were seen: the limit of LinMED's
exponent (0.35 → 0.5) and the rows "at least √n" in commit 4dace8a, and the rule for delays in 1a99b0e.
"""

import math
from collections.abc import Iterator, Sequence

from linmed.checks import Floats
from linmed.experiments.arm_count import ARM_COUNTS
from linmed.experiments.claims import (
    ABOVE_ONE,
    BELOW_ONE,
    Between,
    Claim,
    Exponent,
    Part,
    Reproduces,
    Sample,
    Scored,
    Stuck,
    exponent,
    final,
    of,
)
from linmed.experiments.common import MATCHED, OVER, RIVALS, UNDER
from linmed.experiments.delayed_rewards import DELAYS, OMITTED
from linmed.experiments.end_of_optimism import EPSILONS, LONG, SCALE_ONE
from linmed.experiments.experiment import Cell, Findings, Key
from linmed.experiments.large_gap import LONG_RUN
from linmed.experiments.lineup import LINMED, TUNED
from linmed.experiments.offline import (
    LINMED_EXACT,
    LINTS_EXACT,
    ORACLE,
    PUBLISHED,
    SAMPLES,
    expected,
    floor_column,
    zero_any_column,
)
from linmed.experiments.statistics import (
    Normal,
    change_of_change_over_median,
    change_over_median,
    deviation,
    mean,
    over_lowest,
    over_median,
    ratio,
    ratio_of_ratios,
    relative_to,
    typical_factor,
    worst_change_over_median,
)
from linmed.experiments.unit_ball import UnitBallArms, UnitBallDimension

CLOSE = 2.0
"""Regrets are "close" or "comparable", and a policy "competitive", up to this factor; "poor" beyond it."""
EARLY = 0.01
"""Policies "start" within this share of the rounds."""
VISIBLE = 0.005
"""What two decimals show."""
ROOT = 0.45
"""Exponents above this count as at least √n."""
PUBLISHED_TRIALS = 5_000
FEW = 0.05
"""A policy whose trials are stuck more often than this "becomes linear": one of the paper's 20 makes its mean
curve so."""
NOISES = (MATCHED, OVER, UNDER)
BALL = (*RIVALS, "SpannerIGW", "SpannerIGW-AT", *LINMED)
OPTIMISM = (*RIVALS, *LINMED)
DIMENSIONS, COUNTS = UnitBallDimension.values, UnitBallArms.values


def claims(found: Findings) -> list[Claim]:
    """What the paper says of an experiment; of the findings only the sizes and settings are looked at."""
    makers = {
        "offline-evaluation": _offline_evaluation,
        "arm-count": _arm_count,
        "large-gap": _large_gap,
        "end-of-optimism": _end_of_optimism,
        "delayed-rewards": _delayed_rewards,
        "unit-ball-dimension": _unit_ball_dimension,
        "unit-ball-arms": _unit_ball_arms,
    }
    maker = makers.get(found.experiment.name)
    return list(maker(found)) if maker else []


def wanting(found: Findings) -> frozenset[Cell]:
    """The settings and policies whose trials could decide what is undecided."""
    undecided = (claim for claim in claims(found) if claim.settle(found)[2] == "undecided")
    return frozenset().union(*(claim.cells for claim in undecided))


# ---- what several experiments share


def _others(names: Sequence[str], own: str) -> list[str]:
    return [name for name in names if name != own]


def _against(name: str, rival: str, cells: Sequence[Key], rule: Between) -> list[Part]:
    """The ratio of final regrets in every one of these settings."""
    return [
        Part(f"{_words(key)}×{{}}", of(ratio, final(name, *key), final(rival, *key)), rule) for key in cells
    ]


def _beside_median(name: str, names: Sequence[str], cells: Sequence[Key], rule: Between) -> list[Part]:
    """Final regret over the median of the others'."""
    return [
        Part(
            f"{_words(key)}×{{}}",
            of(over_median, final(name, *key), *(final(other, *key) for other in _others(names, name))),
            rule,
        )
        for key in cells
    ]


def _changes(names: Sequence[str], own: str, after: Key, before: Key) -> list[Sample]:
    """Pairs after, before of final regrets, own first."""
    return [final(name, *key) for name in (own, *_others(names, own)) for key in (after, before)]


def _worse_than_others(
    own: str, names: Sequence[str], pairs: Sequence[tuple[Key, Key]], rule: Between
) -> list[Part]:
    """By how much a change of setting changes regret, over the median of the others' factors."""
    return [
        Part(f"{_words(after)}×{{}}", of(change_over_median, *_changes(names, own, after, before)), rule)
        for after, before in pairs
    ]


def _words(key: Key) -> str:
    """As in "ε=0.01, σ² = σ*²: "; nothing for a setting that is the only one."""
    if key == ("all",):
        return ""
    symbols: dict[float, str] = dict.fromkeys(EPSILONS, "ε=")
    symbols.update({d: "d=" for d in DIMENSIONS})
    symbols.update({K: "K=" for K in COUNTS})
    return ", ".join(part if isinstance(part, str) else f"{symbols[part]}{part}" for part in key) + ": "


# ---- Figure 1 and the offline evaluation of the appendix


def _offline_evaluation(found: Findings) -> Iterator[Claim]:
    """Means by expectation, whose trials have no heavy tail; spreads by the scores themselves."""
    place, figure = "Appendix, offline evaluation", "offline-evaluation"
    table, picture = f"{place}, Table 2", "offline-evaluation-propensities"
    decimals, thousandths = "{0.value:.4f} ± {0.error:.4f}", "{0.value:.3f} ± {0.error:.3f}"
    two = Between(ORACLE - VISIBLE, ORACLE + VISIBLE)
    yield Claim(
        f"Section 1, Figure 1; {place}", "From LinMED-50's log the uniform policy's mean IPW score is 0.80",
        "the mean agrees with 0.8 to two decimals", "the paper's",
        [Part(decimals, Scored(mean, (LINMED_EXACT,)), two)], figure,
    )  # fmt: skip
    yield Claim(
        place, "… with a standard deviation of about 0.03", "it is 0.03, rounded", "the paper's",
        [
            Part(thousandths, Scored(deviation, (LINMED_EXACT,)), Between(0.025, 0.035)),
            Part("the variance is {0.value:.4f}", Scored(_variance, (LINMED_EXACT,))),
        ],
        figure,
    )  # fmt: skip
    for M, (published, _) in PUBLISHED.items():
        column = floor_column(M)
        yield Claim(
            table, f"From LinTS-Freq's log with M = {M:,} Monte-Carlo samples it is {published:.3f}",
            f"within three standard errors, ours and that of {PUBLISHED_TRIALS:,} published trials",
            "the paper's",
            [
                Part(decimals, Scored(_beside_published, (expected(column), column)),
                     Reproduces(published, 0.0005)),
                Part(f"by the scores themselves {decimals}", Scored(mean, (column,))),
            ],
            picture,
        )  # fmt: skip
    parts = [
        Part(f"M = {M:,}: {decimals}", Scored(mean, (expected(floor_column(M)),)),
             two if M == max(SAMPLES) else Between(low=ORACLE + VISIBLE))
        for M in SAMPLES
    ]  # fmt: skip
    yield Claim(
        place, "There is a significant bias for 10³ and 10⁴ samples, and hardly one for 10⁵",
        "two decimals show it for the former, and not for the latter", "the paper's", parts, picture,
    )  # fmt: skip
    parts = [
        part
        for M in SAMPLES
        for part in (
            Part(f"M = {M:,}: {thousandths}", Scored(deviation, (floor_column(M),)),
                 Reproduces(PUBLISHED[M][1], 0.0005)),
            Part("variance {0.value:.4f}", Scored(_variance, (floor_column(M),))),
        )
    ]  # fmt: skip
    yield Claim(
        table, "The standard deviations of those scores are 0.099, 0.069 and 0.039",
        "within three standard errors", "the paper's", parts, figure,
    )  # fmt: skip
    seldom = [
        Part(f"M = {M:,}: in {{0.value:.3g}} of the rounds", Scored(mean, (zero_any_column(M),)),
             Between(low=0.0) if M == min(SAMPLES) else None)
        for M in SAMPLES
    ]  # fmt: skip
    yield Claim(
        place, "LinTS-Freq's estimates are zero for some arms", "it happens with 10³ samples", "the paper's",
        seldom, figure,
    )  # fmt: skip
    yield Claim(
        "our addition", "With LinTS-Freq's exact probabilities there is no bias: it is the estimates'",
        "the mean agrees with 0.8 to two decimals", "ours",
        [Part(decimals, Scored(mean, (LINTS_EXACT,)), two)], picture,
    )  # fmt: skip


def _beside_published(expectations: Floats, scores: Floats) -> Normal:
    """The mean by expectation; its error holds that of the published mean, whose trials were not ours."""
    own, spread = mean(expectations), deviation(scores).value
    return Normal(own.value, math.hypot(own.error, spread / math.sqrt(PUBLISHED_TRIALS)), own.trials)


def _variance(sample: Floats) -> Normal:
    spread = deviation(sample)
    return Normal(spread.value**2, 2.0 * spread.value * spread.error, spread.trials)


# ---- Figure 2


def _arm_count(found: Findings) -> Iterator[Claim]:
    place, figure = "Section 3 (warm-up), Figure 2", "arm-count"

    def grows(name: str) -> Part:
        measure = exponent(ARM_COUNTS, *(final(name, K) for K in ARM_COUNTS))
        rule = Between(0.7, 1.3) if name == "LinMEDNOPT" else Between(-0.2, 0.2)
        return Part(f"{name} {{}}", measure, rule)

    yield Claim(
        place, "LinMEDNOPT's regret is of order K",
        "exponent of final regret over K = 4 … 64 between 0.7 and 1.3", "ours", [grows("LinMEDNOPT")], figure,
    )  # fmt: skip
    yield Claim(
        place, "LinMED's regret is independent of K, whatever α_opt",
        "the same exponent between −0.2 and 0.2", "ours", [grows(name) for name in LINMED], figure,
    )  # fmt: skip


# ---- Figure 3


def _large_gap(found: Findings) -> Iterator[Claim]:
    place, figure = "Section 7, large gap instance, Figure 3", "large-gap"
    worse = ("SpannerIGW", "SpannerIGW-AT", "LinTS-Freq", "EXP2", "LinIMED-1")
    for name in LINMED:
        parts = [
            Part(f"{{}} × {rival}'s", of(ratio, final(name, "all"), final(rival, "all")), BELOW_ONE)
            for rival in worse
        ]
        yield Claim(
            place, f"{name} outperforms SpannerIGW, SpannerIGW-Anytime, LinTS-Freq, EXP2 and LinIMED-1",
            "lower final regret than each", "the paper's", parts, figure,
        )  # fmt: skip
    for rival in ("OFUL", "LinIMED-3", "LinTS-Bayes"):
        best = of(over_lowest, *(final(name, "all") for name in LINMED), final(rival, "all"))
        each = [Part(f"{name} ×{{}}", of(ratio, final(name, "all"), final(rival, "all"))) for name in LINMED]
        yield Claim(
            place, f"LinMED is sufficiently close to {rival}",
            f"the best of its three versions has at most {CLOSE:g} times the final regret", "ours",
            [Part("the best ×{}", best, Between(high=CLOSE)), *each], figure,
        )  # fmt: skip
    told = {float(s.horizon): s.key for s in found.settings if s.key[0] == "horizon"}
    told[float(found.horizon)] = ("all",)
    sizes = sorted(told)
    for name in TUNED:
        measure = exponent(sizes, *(final(name, *told[n]) for n in sizes))
        yield Claim(
            place, f"Inspection confirms the lower bound Ω(√n) of {name}",
            f"final regrets of runs told n = {sizes[0]:,.0f} … {sizes[-1]:,.0f} grow with an exponent above "
            f"{ROOT}", "ours", [Part("exponent {}", measure, Between(low=ROOT))], figure,
        )  # fmt: skip
    longest: Key = LONG_RUN if found.has(*LONG_RUN) else ("all",)
    n = found.setting(*longest).horizon
    decades = [(n / 10**k, 10 * n / 10**k) for k in (3, 2, 1) if n / 10**k >= 100]
    parts = []
    for name in LINMED:
        parts += [Part(f"{name} {{}}", Exponent(name, longest, n / 10), Between(high=0.5))]
        parts += [
            Part(f"from {start:,.0f} rounds on {{}}", Exponent(name, longest, start, end))
            for start, end in decades[:-1]
        ]
    yield Claim(
        "Theorem 1 and Section 7", "LinMED's regret is O(log² n loglog n), unlike √n",
        f"exponent of regret over the last decade of {n:,} rounds below 0.5", "the paper's", parts, figure,
    )  # fmt: skip


# ---- Figure 4 and its appendix


def _end_of_optimism(found: Findings) -> Iterator[Claim]:
    main, appendix = "Section 7, end of optimism, Figure 4", "Appendix, end of optimism"
    figure = "end-of-optimism"
    shown: list[Key] = [(eps, noise) for noise in (MATCHED, OVER) for eps in (0.005, 0.01)]
    every: list[Key] = [(eps, noise) for noise in NOISES for eps in EPSILONS]
    for name in ("LinMED-99", "LinIMED-3"):
        for rival in ("LinTS-Freq", "LinTS-Bayes"):
            yield Claim(
                main, f"{name} significantly outperforms {rival}", "lower final regret in all four panels",
                "the paper's", _against(name, rival, shown, BELOW_ONE), figure,
            )  # fmt: skip
    if found.has(SCALE_ONE, *shown[0]):
        parts = [
            Part(
                f"{_words(key)}×{{}}",
                of(ratio, final("LinMED-99", *key), final("LinTS-Bayes", SCALE_ONE, *key)),
                BELOW_ONE,
            )
            for key in shown
        ]
        yield Claim(
            main,
            "LinMED-99 significantly outperforms LinTS-Bayes, if that draws with the public code's scale 1",
            "the same, with scale 1 instead of σ = 0.1 (our addition)", "ours", parts, figure,
        )  # fmt: skip
    for name in ("LinMED-90", "LinMED-50"):
        parts = [
            part._replace(label=f"{rival}, {part.label}")
            for rival in ("LinTS-Freq", "LinTS-Bayes")
            for part in _against(name, rival, shown, Between(high=CLOSE))
        ]
        yield Claim(
            main, f"{name} is comparable to LinTS",
            f"at most {CLOSE:g} times the final regret of each version in all four panels", "ours", parts,
            figure,
        )  # fmt: skip
    for name in ("OFUL", "LinIMED-1"):
        yield from _deteriorates(name, found, main, shown, figure)
    parts = [
        Part(
            f"{_words((eps,))}factor {{}}",
            of(ratio, final("LinTS-Freq", eps, OVER), final("LinTS-Freq", eps, MATCHED)),
            ABOVE_ONE,
        )
        for eps in (0.005, 0.01)
    ]
    pairs: list[tuple[Key, Key]] = [((eps, OVER), (eps, MATCHED)) for eps in (0.005, 0.01)]
    beyond = _worse_than_others("LinTS-Freq", OPTIMISM, pairs, ABOVE_ONE)
    yield Claim(
        main, "LinTS-Freq deteriorates significantly when the noise is over-specified",
        f"regret with {OVER} over {MATCHED} above 1, and above the median of the others' factors (×)",
        "the paper's", [*parts, *beyond], figure,
    )  # fmt: skip
    for name in ("OFUL", "LinTS-Freq", "LinTS-Bayes"):
        parts = [
            Part(
                f"{_words(key)}a{'₂₃'[arm - 1]} ×{{}}",
                of(ratio, Sample(name, key, arm=arm), Sample("LinMED-99", key, arm=arm)),
                BELOW_ONE if arm == 1 else ABOVE_ONE,
            )
            for key in shown
            for arm in (1, 2)
        ]
        yield Claim(
            main, f"{name}, an optimist, seldom plays the bad arm a₂ that informs, and a₃ for long",
            "a₂ less often and a₃ more often than LinMED-99 does", "ours", parts, figure,
        )  # fmt: skip
    parts = [
        Part(
            f"{name}, {_words(key)}{{}}",
            of(
                relative_to(float(key[0]) * found.horizon / 2), Sample(name, key, 1.0), Sample(name, key, 0.5)
            ),
            Between(high=FEW),
        )
        for name in LINMED
        for key in shown
    ]
    yield Claim(
        main, "LinMED ultimately converges on the best arm",
        f"in the second half of its rounds it loses below {100 * FEW:g} % of what the second-best arm would",
        "ours", parts, figure,
    )  # fmt: skip
    for name in ("OFUL", "LinTS-Bayes"):
        yield Claim(
            appendix, f"{name} becomes nearly linear when the noise is under-specified",
            f"share of stuck trials above {100 * FEW:g} % for every ε", "ours",
            [Part(f"{_words((eps,))}{{}}", Stuck(name, (eps, UNDER)), Between(low=FEW)) for eps in EPSILONS],
            figure,
        )  # fmt: skip
    yield Claim(
        appendix, "LinTS-Freq performs well when the noise is under-specified",
        f"share of stuck trials below {100 * FEW:g} % for every ε", "ours",
        [Part(f"{_words((eps,))}{{}}", Stuck("LinTS-Freq", (eps, UNDER)), Between(high=FEW))
         for eps in EPSILONS],
        figure,
    )  # fmt: skip
    for other in ("LinMED-90", "LinMED-50"):
        parts = [
            Part(
                f"{_words((eps,))}×{{}}",
                of(ratio_of_ratios, *(final(name, eps, noise) for noise in (UNDER, MATCHED)
                                      for name in ("LinMED-99", other))),
                ABOVE_ONE,
            )
            for eps in EPSILONS
        ]  # fmt: skip
        yield Claim(
            appendix, f"Under-specified noise makes LinMED-99 deteriorate more than {other}",
            f"regret with {UNDER} over {MATCHED}: LinMED-99's factor above the other's", "the paper's",
            parts, figure,
        )  # fmt: skip
    yield Claim(
        appendix, "LinIMED-3 maintains strong performance across all conditions",
        "final regret below the median of the others in all nine panels", "ours",
        _beside_median("LinIMED-3", OPTIMISM, every, BELOW_ONE), figure,
    )  # fmt: skip


def _deteriorates(
    name: str, found: Findings, place: str, shown: Sequence[Key], figure: str
) -> Iterator[Claim]:
    """Compared with the median of the others at the same moment."""
    names = (name, *_others(OPTIMISM, name))

    def since(key: Key) -> list[Sample]:
        return [Sample(other, key, round_) for other in names for round_ in (1.0, EARLY)]

    starts = [
        Part(
            f"{_words(key)}×{{}}", of(over_median, *(Sample(other, key, EARLY) for other in names)), BELOW_ONE
        )
        for key in shown
    ]
    yield Claim(
        place, f"{name} starts with good performance",
        f"after {100 * EARLY:g} % of the rounds its regret is below the median of the others", "ours",
        starts, figure,
    )  # fmt: skip
    grows = [Part(f"{_words(key)}×{{}}", of(change_over_median, *since(key)), ABOVE_ONE) for key in shown]
    if name == "LinIMED-1" and found.has(*LONG):
        n = found.setting(*LONG).horizon
        ends = (Sample(policy, LONG, 1.0) for policy in ("LinIMED-1", "LinMED-99"))
        grows += [
            Part(f"in runs of {n:,} rounds (ε=0.005) {{}} × LinMED-99's", of(ratio, *ends)),
            Part("with an exponent of {} in the last decade", Exponent(name, LONG, n / 10)),
        ]
    yield Claim(
        place, f"{name}'s effectiveness deteriorates over time",
        "from then on its regret grows by a larger factor than the median of the others'", "ours", grows,
        figure,
    )  # fmt: skip
    small = [
        Part(f"{noise}: ×{{}}",
             of(change_of_change_over_median, *since((0.005, noise)), *since((0.02, noise))), ABOVE_ONE)
        for noise in (MATCHED, OVER)
    ]  # fmt: skip
    yield Claim(
        place, f"… especially when ε is small ({name})", "that factor at ε = 0.005 over the one at ε = 0.02",
        "the paper's", small, figure,
    )  # fmt: skip
    amplified = [
        Part(f"{_words((eps,))}×{{}}",
             of(change_of_change_over_median, *since((eps, OVER)), *since((eps, MATCHED))), ABOVE_ONE)
        for eps in (0.005, 0.01)
    ]  # fmt: skip
    yield Claim(
        place, f"… amplified when σ² = 2σ*² ({name})", f"that factor with {OVER} over the one with {MATCHED}",
        "the paper's", amplified, figure,
    )  # fmt: skip


# ---- delayed rewards


def _delayed_rewards(found: Findings) -> Iterator[Claim]:
    place, figure = "Appendix, delayed rewards", "delayed-rewards"
    late: list[Key] = [(D,) for D in DELAYS if D]

    def rises(own: str, rule: Between | None) -> list[Part]:
        return [
            Part(f"{own}, D={key[0]}: ×{{}}", of(ratio, final(own, *key), final(own, 0)), rule)
            for key in late
        ]

    yield Claim(
        place, "OFUL deteriorates when rewards are delayed", "regret with a delay over that without above 1",
        "the paper's", rises("OFUL", ABOVE_ONE), figure,
    )  # fmt: skip
    for name in ("LinTS-Bayes", *LINMED):
        parts = [
            Part(
                f"D={key[0]}: ×{{}}",
                of(ratio_of_ratios, final("OFUL", *key), final("OFUL", 0), final(name, *key), final(name, 0)),
                ABOVE_ONE,
            )
            for key in late
        ]
        yield Claim(
            place, f"… in contrast to {name}, which is randomised",
            "OFUL's factor over the other's above 1", "the paper's", [*parts, *rises(name, None)], figure,
        )  # fmt: skip
    for name in LINMED:
        parts = [
            part._replace(label=f"D={key[0]}: {{}} × OFUL's")
            for key in late
            for part in _against(name, "OFUL", [key], BELOW_ONE)
        ]
        yield Claim(
            place, f"{name} performs strongly under delay", "lower final regret than OFUL", "ours", parts,
            figure,
        )  # fmt: skip
    if found.has(OMITTED, 0):
        parts = [
            Part(
                f"D={D}: ×{{}}",
                of(ratio, final("LinTS-Bayes", D), final("LinTS-Freq", OMITTED, D)),
                BELOW_ONE,
            )
            for D in DELAYS
        ]
        yield Claim(
            "Section 7", "Of the two LinTS the one that is left out is significantly worse",
            "LinTS-Bayes, the one shown, over LinTS-Freq below 1", "the paper's", parts, figure,
        )  # fmt: skip


# ---- the unit ball


def _unit_ball_dimension(found: Findings) -> Iterator[Claim]:
    place, figure = "Appendix, unit ball, different d", "unit-ball-dimension-1"
    low, middle, high = 2, 20, 50
    parts = [
        Part(f"{name} ×{{}}", of(ratio, final(name, MATCHED, high), final(name, MATCHED, low)), ABOVE_ONE)
        for name in BALL
    ]
    yield Claim(
        place, "Every algorithm deteriorates with the dimension",
        f"regret at d = {high} over d = {low} above 1",
        "the paper's", parts, figure,
    )  # fmt: skip
    parts = [
        Part(
            f"than {name} ×{{}}",
            of(ratio_of_ratios, final("LinTS-Freq", MATCHED, high), final("LinTS-Freq", MATCHED, low),
               final(name, MATCHED, high), final(name, MATCHED, low)),
            ABOVE_ONE,
        )
        for name in _others(BALL, "LinTS-Freq")
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
    yield from _misspecified(place, "d", sizes, "unit-ball-dimension")
    yield from _in_general(place, "d", sizes, "unit-ball-dimension")
    for noises, rule, words, text in (
        ((MATCHED, UNDER), BELOW_ONE, "below", "OFUL performs well where the noise is not over-specified"),
        ((OVER,), ABOVE_ONE, "above", "OFUL does not perform well where it is"),
    ):
        parts = _beside_median("OFUL", BALL, [(noise, d) for noise in noises for d in sizes], rule)
        yield Claim(
            place, text, f"final regret {words} the median of the others for every d", "ours", parts, figure
        )
    yield Claim(
        place, "LinMED-90 outperforms LinMED-99 in high dimension", f"lower final regret at d = {high}",
        "the paper's", _against("LinMED-90", "LinMED-99", [(noise, high) for noise in NOISES], BELOW_ONE),
        figure,
    )  # fmt: skip


def _unit_ball_arms(found: Findings) -> Iterator[Claim]:
    """K = 10, d = 2 is a setting of the other experiment and is judged there."""
    place, figure = "Appendix, unit ball, different K", "unit-ball-arms-1"
    sizes = (100, 500)
    yield from _misspecified(place, "K", sizes, "unit-ball-arms", linmed=False)
    yield from _in_general(place, "K", sizes, "unit-ball-arms")
    pairs = [final(name, MATCHED, K) for name in BALL for K in (500, 10)]
    each = [
        Part(f"{name} ×{{}}", of(ratio, final(name, MATCHED, 500), final(name, MATCHED, 10))) for name in BALL
    ]
    yield Claim(
        place, "Across most algorithms regret does not depend on K",
        f"between K = 10 and 500 at least half of them change by less than a factor {CLOSE:g}, up or down",
        "ours",
        [Part("the median factor {}", of(typical_factor, *pairs), Between(high=CLOSE)), *each], figure,
    )  # fmt: skip


def _misspecified(
    place: str, symbol: str, sizes: Sequence[int], figure: str, linmed: bool = True
) -> Iterator[Claim]:
    """What a wrong σ does to LinTS-Freq and to LinMED."""

    def changed(name: str, noise: str, rule: Between | None) -> list[Part]:
        return [
            Part(f"{noise}, {symbol}={size}: factor {{}}",
                 of(ratio, final(name, noise, size), final(name, MATCHED, size)), rule)
            for size in sizes
        ]  # fmt: skip

    def beside(name: str, noise: str, rule: Between) -> list[Part]:
        pairs: list[tuple[Key, Key]] = [((noise, size), (MATCHED, size)) for size in sizes]
        return _worse_than_others(name, BALL, pairs, rule)

    yield Claim(
        place, "LinTS-Freq deteriorates when the noise is over-specified",
        f"regret with {OVER} over {MATCHED} above 1, and above the median of the others' factors (×)",
        "the paper's",
        [*changed("LinTS-Freq", OVER, ABOVE_ONE), *beside("LinTS-Freq", OVER, ABOVE_ONE)], f"{figure}-2",
    )  # fmt: skip
    if not linmed:
        return
    yield Claim(
        place, "… and improves when it is under-specified", f"regret with {UNDER} over {MATCHED} below 1",
        "the paper's", changed("LinTS-Freq", UNDER, BELOW_ONE), f"{figure}-3",
    )  # fmt: skip
    rivals = BALL[: -len(LINMED)]
    for name in LINMED:
        parts = [
            Part(
                f"{symbol}={size}: ×{{}}",
                of(worst_change_over_median, *(final(other, noise, size) for other in (name, *rivals)
                                               for noise in (OVER, UNDER, MATCHED))),
                BELOW_ONE,
            )
            for size in sizes
        ]  # fmt: skip
        yield Claim(
            place, f"{name} is not significantly affected by a wrong σ",
            f"the larger of its factors with {OVER} and with {UNDER} is below the median of those of the "
            "policies that are not LinMED (×)", "ours", parts, f"{figure}-2",
        )  # fmt: skip


def _in_general(place: str, symbol: str, sizes: Sequence[int], figure: str) -> Iterator[Claim]:
    """LinIMED-3 is poor, LinMED competitive."""
    matched: list[Key] = [(MATCHED, size) for size in sizes]
    yield Claim(
        place, "LinIMED-3 performs notably poorly",
        f"more than {CLOSE:g} times the median final regret of the others for every {symbol}", "ours",
        _beside_median("LinIMED-3", BALL, matched, Between(low=CLOSE)), f"{figure}-1",
    )  # fmt: skip
    for name in LINMED:
        cells: list[Key] = [(noise, size) for noise in NOISES for size in sizes]
        rivals = (name, *_others(BALL[: -len(LINMED)], name))
        yield Claim(
            place, f"{name} performs competitively compared to the other algorithms",
            f"at most {CLOSE:g} times the median final regret of those that are not LinMED", "ours",
            _beside_median(name, rivals, cells, Between(high=CLOSE)), f"{figure}-1",
        )  # fmt: skip
