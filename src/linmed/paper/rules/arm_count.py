"""The rules of Figure 2."""

from collections.abc import Iterator

from linmed.paper.arm_count import ARM_COUNTS
from linmed.paper.claims import Between, Claim, Part, exponent, final
from linmed.paper.experiment import Findings
from linmed.paper.lineup import LINMED


def arm_count(found: Findings) -> Iterator[Claim]:
    """What the paper says of it."""
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
