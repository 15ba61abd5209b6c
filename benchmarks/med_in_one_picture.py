"""The figure of docs/med-in-one-picture.md: gaps, how sure they are, and the probabilities that follow.

    python benchmarks/med_in_one_picture.py docs/figures/med-in-one-picture.png

One agent among arms on a half circle, looked at after few rewards and after many. Everything that is drawn is
read off the agent: ⟨θ̂, a⟩, √β‖â − a‖ in V⁻¹, and the probabilities that it would draw from.
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from linmed import Agent, LinMED
from linmed.paper.drawing import STYLE, Drawing
from linmed.report.figures import BOUND, INK, POLICY

ANGLES = np.linspace(-80.0, 80.0, 17)
"""Of the arms, in degrees."""
TRUTH, SIGMA = np.array([0.75, 0.27]), 0.5  # the best arm is near 20°
LOOKS = (30, 3000)
"""Rewards after which the agent is looked at."""
OWN, DOUBT = POLICY["LinMED-90"].light, BOUND.light


class Look(NamedTuple):
    """What the agent believes of every arm (K,)."""

    count: int
    estimates: NDArray[np.float64]
    doubts: NDArray[np.float64]
    """√β‖â − a‖: by how much the gap to â may be wrong."""
    probabilities: NDArray[np.float64]

    @property
    def gaps(self) -> NDArray[np.float64]:
        """Δ̂."""
        return self.estimates.max() - self.estimates


def looks() -> list[Look]:
    """One agent, after each of `LOOKS`."""
    turn = np.radians(ANGLES)
    arms = np.column_stack([np.cos(turn), np.sin(turn)])
    rng = np.random.default_rng(5)
    agent = Agent(LinMED(sigma=SIGMA), dim=2, seed=5)
    found = []
    for _ in range(max(LOOKS)):
        decision = agent.decide(arms)
        agent.learn(decision, arms[decision.arm] @ TRUTH + SIGMA * rng.standard_normal())
        if agent.count in LOOKS:
            estimates = arms @ agent.theta
            apart = arms[estimates.argmax()] - arms
            inverse = agent.covariance / SIGMA**2
            width = np.sqrt(np.einsum("ki,ij,kj->k", apart, inverse, apart))
            radius = float(agent.policy.radius(agent.state)[0])  # type: ignore[attr-defined]
            found.append(Look(agent.count, estimates, radius * width, agent.probabilities(arms)))
    return found


def picture() -> Drawing:
    """Above: estimates and doubts; below: probabilities. On the left few rewards, on the right many."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 5.6), layout="constrained")
        panels = figure.subplots(2, len(LOOKS), sharex=True, sharey="row", height_ratios=[1.25, 1.0])
        for (above, below), look in zip(panels.T, looks(), strict=True):
            _beliefs(above, look)
            _probabilities(below, look)
        panels[0, 0].set_ylabel("reward")
        panels[1, 0].set_ylabel("probability of being played")
    caption = "LinMED plays an arm the less, the further its gap exceeds the doubt about that gap."
    return Drawing("med-in-one-picture", caption, figure)


def _beliefs(ax: Any, look: Look) -> None:
    best = int(look.estimates.argmax())
    smooth = np.radians(np.linspace(ANGLES[0], ANGLES[-1], 200))
    truth = np.cos(smooth) * TRUTH[0] + np.sin(smooth) * TRUTH[1]
    ax.plot(
        np.degrees(smooth), truth, color=INK.light, linewidth=1.0, linestyle=(0, (2, 2)), label="the truth"
    )
    ax.axhline(look.estimates[best], color=OWN, linewidth=0.9)
    ax.vlines(
        ANGLES, look.estimates, look.estimates + look.doubts, color=DOUBT, linewidth=2.2, alpha=0.55,
        label="doubt √β‖â − a‖ about the gap to â",
    )  # fmt: skip
    ax.plot(ANGLES, look.estimates, "o", color=OWN, markersize=5, label="estimate ⟨θ̂, a⟩")
    ax.plot(ANGLES[best], look.estimates[best], "o", color=OWN, markersize=11, fillstyle="none")
    ax.annotate(
        "â", (ANGLES[best], look.estimates[best]), (0, 9), textcoords="offset points", color=OWN, ha="center"
    )
    ax.set_title(f"after {look.count:,} rewards", fontweight="bold", loc="left")
    if look.count == LOOKS[0]:
        ax.legend(loc="lower right", fontsize=8.5)


def _probabilities(ax: Any, look: Look) -> None:
    evidence = np.divide(look.gaps, look.doubts, out=np.zeros_like(look.gaps), where=look.doubts > 0.0)
    possible = evidence <= 1.0
    for chosen, colour in ((possible, OWN), (~possible, "#9aa1a9")):
        ax.bar(ANGLES[chosen], look.probabilities[chosen], 7.0, color=colour)
    for angle, share in zip(ANGLES, look.probabilities, strict=True):
        if share > 0.2:
            ax.annotate(
                f"{share:.0%}", (angle, share), (0, 2), textcoords="offset points", ha="center", fontsize=8.5
            )
    ax.set_yscale("log")
    ax.set_ylim(1e-5, 8.0)
    ax.set_yticks([1e-4, 1e-2, 1.0], ["0.0001", "0.01", "1"])
    ax.set_xlabel("arm (its angle in degrees)")
    ax.set_title(
        f"{possible.sum()} of {len(possible)} arms can still be the best: gap ≤ doubt", loc="left", color=OWN
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(picture().png())
