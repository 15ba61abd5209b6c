"""The rules of Figure 3."""

from collections.abc import Iterator

from linmed.paper.claims import BELOW_ONE, Between, Claim, Exponent, Part, exponent, final, of
from linmed.paper.experiment import Findings, Key
from linmed.paper.large_gap import LONG_RUN
from linmed.paper.lineup import LINMED, TUNED
from linmed.paper.rules.shared import CLOSE
from linmed.paper.statistics import over_lowest, ratio

ROOT = 0.45
"""Exponents above this count as at least √n."""


def large_gap(found: Findings) -> Iterator[Claim]:
    """What the paper says of it."""
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
