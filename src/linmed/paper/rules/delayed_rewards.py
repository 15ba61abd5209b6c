"""The rules of delayed rewards."""

from collections.abc import Iterator

from linmed.paper.claims import BELOW_ONE, Between, Claim, Part, final, of
from linmed.paper.delayed_rewards import DELAYS, OMITTED
from linmed.paper.experiment import Findings, Key
from linmed.paper.lineup import LINMED
from linmed.paper.rules.shared import CLEARLY_ABOVE, CLEARLY_BELOW, SIGNIFICANT, against
from linmed.paper.statistics import ratio, ratio_of_ratios


def delayed_rewards(found: Findings) -> Iterator[Claim]:
    """What the paper says of it."""
    place, figure = "Appendix, delayed rewards", "delayed-rewards"
    late: list[Key] = [(D,) for D in DELAYS if D]

    def rises(own: str, rule: Between | None) -> list[Part]:
        return [
            Part(f"{own}, D={key[0]}: ×{{}}", of(ratio, final(own, *key), final(own, 0)), rule)
            for key in late
        ]

    yield Claim(
        place, "OFUL significantly deteriorates when rewards are delayed",
        f"regret with a delay over that without above {SIGNIFICANT}", "ours",
        rises("OFUL", CLEARLY_ABOVE), figure,
    )  # fmt: skip
    for name in ("LinTS-Bayes", *LINMED):
        parts = [
            Part(
                f"D={key[0]}: ×{{}}",
                of(ratio_of_ratios, final("OFUL", *key), final("OFUL", 0), final(name, *key), final(name, 0)),
                CLEARLY_ABOVE,
            )
            for key in late
        ]
        yield Claim(
            place, f"… in contrast to {name}, which is randomised",
            f"OFUL's factor over the other's above {SIGNIFICANT}", "ours",
            [*parts, *rises(name, None)], figure,
        )  # fmt: skip
    for name in LINMED:
        parts = [
            part._replace(label=f"D={key[0]}: {{}} × OFUL's")
            for key in late
            for part in against(name, "OFUL", [key], BELOW_ONE)
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
                CLEARLY_BELOW,
            )
            for D in DELAYS
        ]
        yield Claim(
            "Section 7", "Of the two LinTS the one that is left out is significantly worse",
            f"LinTS-Bayes, the one shown, has a final regret lower by a factor of {SIGNIFICANT}", "ours",
            parts, figure,
        )  # fmt: skip
