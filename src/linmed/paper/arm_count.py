"""Play Figure 2: does regret grow with copies of an arm, which carry no information?"""

import math
from collections.abc import Iterator

from linmed.environments import RepeatedArms
from linmed.paper import drawing
from linmed.paper.experiment import Asked, Experiment, Findings, Setting, Size
from linmed.paper.roster import DESIGN, LINMED, LINMED_START, NO_HALF_STEP, Variant

ARM_COUNTS = (4, 8, 16, 32, 64)
SIGMAS: dict[Variant, tuple[float, float]] = {"text": (math.sqrt(3.0), math.sqrt(3.0)), "as-run": (3.0, 1.0)}
"""(σ, σ*)."""


class ArmCount(Experiment):
    """Figure 2."""

    name = "arm-count"
    title = "Number of arms"
    place = "Figure 2"
    about = (
        "The best arm (1, 0) = θ* and K − 1 copies of (0, 1). Copies carry no information; does regret "
        "grow with them? Ties go to the arm listed first, the best one."
    )
    paper, quick, decisive = Size(20_000, 10), Size(20_000, 10), Size(20_000, 100, 12)
    panel = "K"
    differences = "σ = 3 with σ* = 1, where the text has σ² = σ*² = 3.", NO_HALF_STEP, LINMED_START, DESIGN

    def settings(self, asked: Asked) -> list[Setting]:
        """Return one for every K."""
        sigma, sigma_star = SIGMAS[asked.variant]
        return [
            Setting.of((K,), RepeatedArms(K, sigma_star), ("LinMEDNOPT", *LINMED), sigma, asked)
            for K in ARM_COUNTS
        ]

    def drawings(self, found: Findings) -> Iterator[drawing.Drawing]:
        """Draw final regret against K."""
        figure, ax = drawing.new(6.6, 4.2)
        drawing.against(ax, found, {K: (K,) for K in ARM_COUNTS})
        ax.set_xscale("log", base=2)
        ax.set_xticks(ARM_COUNTS, [str(K) for K in ARM_COUNTS])
        ax.set_xlabel("number of arms K")
        ax.set_ylabel(f"regret after {found.horizon:,} rounds")
        drawing.legend(figure, ax, 4)
        caption = "Regret against the number of arms, K − 1 of which are copies."
        yield drawing.Drawing(self.name, caption, figure)
