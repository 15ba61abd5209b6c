"""Lay Theorems 3 and 4 beside what the policies they are about lose on the instance of their proofs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from linmed.environments import LargeGap as Problem
from linmed.paper import drawing
from linmed.paper.experiment import Experiment, Findings, Numbers, Setting, Size, with_error
from linmed.paper.roster import DELTA, LINMED_START, NO_HALF_STEP, TUNED, Variant
from linmed.paper.statistics import Normal, mean
from linmed.report.figures import BOUND, DOTS, POLICY
from linmed.theory import exp2_exploration_bound, exp2_lower_bound, spanner_igw_lower_bound
from linmed.validation import Floats

TOLD, ANYTIME = "told the horizon", "anytime"
"""Kinds of policies: the first need a run for every horizon, of the others one run shows all."""
SHORTEST = 100
PER_DECADE = 2
OTHERS = ("SpannerIGW-AT", "LinMED-90")


@dataclass(frozen=True)
class Comparison:
    """Regret and lower bounds at `horizons`."""

    horizons: Floats
    measured: dict[str, list[Normal]]
    """By policy."""
    bounds: dict[str, Floats]
    """What EXP2 and SpannerIGW lose at least without noise, by policy."""
    theorem: Floats
    """What Theorem 3 says of EXP2, with the right constant: its share of exploration alone."""

    def exponent(self, name: str) -> float:
        """Fit p of regret ∝ nᵖ over the last decade of horizons."""
        late = self.horizons >= self.horizons[-1] / 10.5
        values = np.array([estimate.value for estimate in self.measured[name]])
        if late.sum() < 2 or (values[late] <= 0.0).any():
            return math.nan
        return float(np.polyfit(np.log(self.horizons[late]), np.log(values[late]), 1)[0])

    @property
    def text(self) -> str:
        """The longest runs in words."""
        told = ", ".join(
            f"{name} loses {self.measured[name][-1]} on average over trials and can never expect less than "
            f"{values[-1]:,.1f}"
            for name, values in self.bounds.items()
        )
        exponents = {name: self.exponent(name) for name in self.measured}
        growth = ", ".join(f"{name} {p:.2f}" for name, p in exponents.items() if math.isfinite(p))
        grows = f" Over the last decade of n regret grows like n to the power: {growth}." if growth else ""
        return (
            f"In runs of {self.horizons[-1]:,.0f} rounds {told}. Theorem 3 counts EXP2's exploration only, "
            f"{self.theorem[-1]:,.1f}; its exponential weights lose more while they learn.{grows} The bound "
            "of SpannerIGW is of order n while ηΔ < 1 and of order √(n log n) where that is large, so that "
            "its exponent comes down to ½ from above. SpannerIGW-AT, of which the theorem says nothing, and "
            "LinMED-90 are there for comparison."
        )


class LowerBounds(Experiment):
    """Theorems 3 and 4."""

    name = "lower-bounds"
    title = "Lower bounds"
    place = "Theorems 3 and 4"
    about = (
        "Arms e₁ and e₂, θ* = e₁ and no noise, which nobody is told (σ = 1): the instance on which the paper "
        "proves that EXP2 and SpannerIGW lose at least of order √n. Both are told n, so every n is a run of "
        "its own."
    )
    paper, quick, decisive = Size(1_000_000, 10), Size(10_000, 10), Size(1_000_000, 10)
    differences = (
        "The theorems say nothing of the public code's SpannerIGW and EXP2: both are the text's here, too.",
        NO_HALF_STEP,
        LINMED_START,
    )

    def settings(self, variant: Variant, horizon: int, movielens: Path | None = None) -> list[Setting]:
        """Return those told the horizon at each of a geometric grid, the others at the longest."""
        problem = Problem(sigma=0.0)
        return [
            *(Setting.of((TOLD, n), problem, TUNED, 1.0, n, "text", False) for n in horizons_up_to(horizon)),
            Setting.of((ANYTIME, horizon), problem, OTHERS, 1.0, horizon, variant, False),
        ]

    def comparison(self, found: Findings) -> Comparison:
        """Compare regret of every policy at every horizon, and the bounds there."""
        horizons = [int(setting.key[1]) for setting in found.settings if setting.key[0] == TOLD]
        n = np.array(horizons, dtype=np.float64)
        measured = {name: [mean(found.final(name, TOLD, size)) for size in horizons] for name in TUNED}
        for name in OTHERS:
            rounds, curves = found.rounds(ANYTIME, found.horizon), found.curves(name, ANYTIME, found.horizon)
            between = np.array([np.interp(n, rounds, curve) for curve in curves])
            measured[name] = [mean(regret) for regret in between.T]
        bounds = {"SpannerIGW": spanner_igw_lower_bound(n, delta=DELTA), "EXP2": exp2_lower_bound(n)}
        return Comparison(n, measured, bounds, exp2_exploration_bound(n, np.eye(2), [1.0, 0.0]))

    def drawings(self, found: Findings) -> Iterator[drawing.Drawing]:
        """Draw points for what was measured, curves for the bounds; above them everything is allowed."""
        compared = self.comparison(found)
        n = compared.horizons
        figure, ax = drawing.new(6.6, 5.0)
        for name, estimates in compared.measured.items():
            line, told = POLICY[name], name in compared.bounds
            drawing.whiskers(
                ax, n, estimates, line._replace(dash="none") if told else line, markersize=6, linewidth=1.4,
                label=f"{name}, told n" if told else name,
            )  # fmt: skip
            if told:
                label = f"{name}: loses at least this"
                ax.plot(n, compared.bounds[name], color=line.light, linewidth=2.2, alpha=0.6, label=label)
        label = "EXP2: Theorem 3, exploration only"
        ax.plot(n, compared.theorem, color=BOUND.light, linestyle=DOTS, linewidth=1.8, label=label)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title("arms e₁ and e₂, θ* = e₁, a gap of 1, no noise (σ = 1 is told)")
        ax.set_xlabel("rounds n")
        ax.set_ylabel("regret after n rounds")
        drawing.legend(figure, ax, 2)
        caption = (
            "Lower bounds (arms e₁ and e₂, θ* = e₁, no noise): regret of the policies after n rounds, and "
            "what EXP2 and SpannerIGW lose at least."
        )
        yield drawing.Drawing(self.name, caption, figure, compared.text)

    def numbers(self, found: Findings) -> Iterator[Numbers]:
        """Tabulate regret ± standard error: a row per policy and per bound, a column per horizon."""
        compared = self.comparison(found)
        rows: list[Sequence[str]] = []
        for name, estimates in compared.measured.items():
            rows.append([name, *(with_error(estimate) for estimate in estimates)])
            if name in compared.bounds:
                rows.append([f"{name}: at least", *(f"{value:,.1f}" for value in compared.bounds[name])])
        rows.append(["EXP2: Theorem 3", *(f"{value:,.1f}" for value in compared.theorem)])
        columns = ["policy", *(f"n = {n:,.0f}" for n in compared.horizons)]
        yield Numbers("Regret ± standard error after n rounds", columns, rows)


def horizons_up_to(last: int) -> list[int]:
    """Choose two a decade down from the last, none below SHORTEST but the last itself.

    >>> horizons_up_to(10_000)
    [100, 316, 1000, 3162, 10000]
    """
    steps = max(math.floor(PER_DECADE * math.log10(last / SHORTEST) + 1e-9), 0)
    return [round(last / 10.0 ** (step / PER_DECADE)) for step in range(steps, -1, -1)]
