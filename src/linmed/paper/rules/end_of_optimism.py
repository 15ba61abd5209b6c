"""The rules of Figure 4 and its appendix."""

from collections.abc import Iterator, Sequence

from linmed.paper.claims import (
    ABOVE_ONE,
    BELOW_ONE,
    OURS,
    Between,
    Claim,
    Exponent,
    Part,
    Sample,
    Stuck,
    final,
    of,
)
from linmed.paper.common import MATCHED, OVER, UNDER
from linmed.paper.end_of_optimism import EPSILONS, LONG, SCALE_ONE, EndOfOptimismAppendix
from linmed.paper.experiment import Findings, Key
from linmed.paper.lineup import LINMED
from linmed.paper.rules.shared import (
    CLEARLY_ABOVE,
    CLEARLY_BELOW,
    CLOSE,
    NOISES,
    OPTIMISM,
    SIGNIFICANT,
    against,
    beside_median,
    others,
    words,
    worse_than_others,
)
from linmed.paper.statistics import (
    change_of_change_over_median,
    change_over_median,
    over_median,
    ratio,
    ratio_of_ratios,
    relative_to,
)

EARLY = 0.01
"""Policies "start" within this share of the rounds."""
MOST = 0.5
"""What is more than this share of a policy's regret is most of it."""
FEW = 0.05
"""A policy whose trials are stuck more often than this "becomes linear": one of the paper's 20 makes its mean
curve so."""


def end_of_optimism(found: Findings) -> Iterator[Claim]:
    """What the paper says of it."""
    main, appendix = "Section 7, end of optimism, Figure 4", "Appendix, end of optimism"
    figure = found.experiment.name
    again = isinstance(found.experiment, EndOfOptimismAppendix)
    star = "σ*² = 0.1" if again else "σ* = 0.1"
    yield from _claims(found, f"{main} ({star})", f"{appendix} ({star})", figure, again)


def _claims(found: Findings, main: str, appendix: str, figure: str, again: bool) -> Iterator[Claim]:
    """With one reading of σ*; `again` without what is about σ*² = 10 alone."""
    shown: list[Key] = [(eps, noise) for noise in (MATCHED, OVER) for eps in (0.005, 0.01)]
    every: list[Key] = [(eps, noise) for noise in NOISES for eps in EPSILONS]
    for name in ("LinMED-99", "LinIMED-3"):
        for rival in ("LinTS-Freq", "LinTS-Bayes"):
            yield Claim(
                main, f"{name} significantly outperforms {rival}",
                f"final regret lower by a factor of {SIGNIFICANT} in all four panels", "ours",
                against(name, rival, shown, CLEARLY_BELOW), figure,
            )  # fmt: skip
    if found.has(SCALE_ONE, *shown[0]):
        parts = [
            Part(
                f"{words(key)}×{{}}",
                of(ratio, final("LinMED-99", *key), final("LinTS-Bayes", SCALE_ONE, *key)),
                CLEARLY_BELOW,
            )
            for key in shown
        ]
        yield Claim(
            OURS,
            "LinMED-99 significantly outperforms LinTS-Bayes, if that draws with the public code's scale 1",
            "the same, with scale 1 instead of σ", "ours", parts, figure,
        )  # fmt: skip
    for name in ("LinMED-90", "LinMED-50"):
        parts = [
            part._replace(label=f"{rival}, {part.label}")
            for rival in ("LinTS-Freq", "LinTS-Bayes")
            for part in against(name, rival, shown, Between(high=CLOSE))
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
            f"{words((eps,))}factor {{}}",
            of(ratio, final("LinTS-Freq", eps, OVER), final("LinTS-Freq", eps, MATCHED)),
            CLEARLY_ABOVE,
        )
        for eps in (0.005, 0.01)
    ]
    pairs: list[tuple[Key, Key]] = [((eps, OVER), (eps, MATCHED)) for eps in (0.005, 0.01)]
    beyond = worse_than_others("LinTS-Freq", OPTIMISM, pairs, ABOVE_ONE)
    yield Claim(
        main, "LinTS-Freq deteriorates significantly when the noise is over-specified",
        f"regret with {OVER} over {MATCHED} above {SIGNIFICANT}, and above the median of the others' "
        "factors (×)", "ours", [*parts, *beyond], figure,
    )  # fmt: skip
    for name in ("OFUL", "LinTS-Freq", "LinTS-Bayes"):
        parts = [
            Part(
                f"{words(key)}a{'₂₃'[arm - 1]} ×{{}}",
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
        Part(f"{name}, {words(key)}{what} {{}}", of(ratio, part, Sample(name, key, 1.0)), Between(low=MOST))
        for name in LINMED
        for key in shown
        for what, part in (
            ("early", Sample(name, key, EARLY)), ("by a₂", Sample(name, key, arm=1)),
        )
    ]  # fmt: skip
    yield Claim(
        main, "LinMED initially incurs significant regret by choosing the highly sub-optimal arm",
        f"more than half of its final regret falls in the first {100 * EARLY:g} % of the rounds, and more "
        "than half is a₂'s (which costs 1)", "ours", parts, figure,
    )  # fmt: skip
    parts = [
        Part(
            f"{name}, {words(key)}{{}}",
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
    for name in ("OFUL", "LinTS-Bayes") if not again else ():
        yield Claim(
            appendix, f"{name} becomes nearly linear when the noise is under-specified",
            f"share of stuck trials above {100 * FEW:g} % for every ε", "ours",
            [Part(f"{words((eps,))}{{}}", Stuck(name, (eps, UNDER)), Between(low=FEW)) for eps in EPSILONS],
            figure,
        )  # fmt: skip
    if not again:
        yield Claim(
            appendix, "LinTS-Freq performs well when the noise is under-specified",
            f"share of stuck trials below {100 * FEW:g} % for every ε", "ours",
            [Part(f"{words((eps,))}{{}}", Stuck("LinTS-Freq", (eps, UNDER)), Between(high=FEW))
             for eps in EPSILONS],
            figure,
        )  # fmt: skip
    for other in ("LinMED-90", "LinMED-50"):
        parts = [
            Part(
                f"{words((eps,))}×{{}}",
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
        beside_median("LinIMED-3", OPTIMISM, every, BELOW_ONE), figure,
    )  # fmt: skip


def _deteriorates(
    name: str, found: Findings, place: str, shown: Sequence[Key], figure: str
) -> Iterator[Claim]:
    """Compared with the median of the others at the same moment."""
    names = (name, *others(OPTIMISM, name))

    def since(key: Key) -> list[Sample]:
        return [Sample(other, key, round_) for other in names for round_ in (1.0, EARLY)]

    starts = [
        Part(
            f"{words(key)}×{{}}", of(over_median, *(Sample(other, key, EARLY) for other in names)), BELOW_ONE
        )
        for key in shown
    ]
    yield Claim(
        place, f"{name} starts with good performance",
        f"after {100 * EARLY:g} % of the rounds its regret is below the median of the others", "ours",
        starts, figure,
    )  # fmt: skip
    grows = [Part(f"{words(key)}×{{}}", of(change_over_median, *since(key)), ABOVE_ONE) for key in shown]
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
        Part(f"{words((eps,))}×{{}}",
             of(change_of_change_over_median, *since((eps, OVER)), *since((eps, MATCHED))), ABOVE_ONE)
        for eps in (0.005, 0.01)
    ]  # fmt: skip
    yield Claim(
        place, f"… amplified when σ² = 2σ*² ({name})", f"that factor with {OVER} over the one with {MATCHED}",
        "the paper's", amplified, figure,
    )  # fmt: skip
