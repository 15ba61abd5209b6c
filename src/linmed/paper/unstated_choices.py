"""Vary what had to be assumed because the text is silent: how much depends on it?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from linmed.environments import EndOfOptimism, Environment, LargeGap, RepeatedArms
from linmed.paper import drawing
from linmed.paper.arm_count import ARM_COUNTS, SIGMAS
from linmed.paper.experiment import Experiment, Findings, Key, Numbers, Setting, Size, with_error
from linmed.paper.roster import (
    ARM_ZERO,
    DELTA,
    EVEN_START,
    LINMED,
    LINMED_START,
    NO_HALF_STEP,
    SCALES,
    SPANNERS,
    Variant,
    policies,
)
from linmed.paper.statistics import Estimate, growth, mean, resampled
from linmed.report.figures import INK, POLICY

LARGE_GAP, END_OF_OPTIMISM = "large gap", "end of optimism, ε = 0.01, σ² = σ*²"
DELTAS: dict[str, float | None] = {"0.001": 0.001, "0.01": DELTA, "0.1": 0.1, "1/t": None}
DESIGN_CONSTANTS = {"1": 1.0, "4": 4.0}
"""C_opt: 4 in the public code, 1 in the proof of SpannerIGW's lower bound."""
SCALES_OF_LINTS = {"√β": "frequentist", "Agrawal–Goyal": "agrawal-goyal", "β": "squared-radius"}
"""The text names LinTS-Freq's source, not its scale: OFUL's radius, the one of that source, and the public
code's."""
REGRESSION_REGRETS = {"1": 1.0, "d log n": None, "100": 100.0}
"""Reg_Sq of SpannerIGW, for which the text has no constant; d log n is 18.4 here."""
WITH_DELTA = ("OFUL", "LinTS-Freq", "LinIMED-1", "LinIMED-3", *LINMED)
FEW = 10
"""Trials that `arm-count` takes."""


@dataclass(frozen=True)
class Sweep:
    """One parameter, by the words for its values, for some policies on one problem."""

    symbol: str
    parameter: str
    values: dict[str, Any]
    default: str
    """What the other experiments have."""
    problem: str
    environment: Environment
    sigma: float
    names: tuple[str, ...]
    longest: int
    """The paper's horizon for this problem, or what is enough of it."""

    def key(self, value: str) -> Key:
        """Of the setting that has this value."""
        return (self.symbol, self.problem, value)

    def setting(self, value: str, horizon: int, variant: Variant) -> Setting:
        """The policies with this value."""
        n = min(horizon, self.longest)
        changed: dict[str, Any] = {self.parameter: self.values[value]}
        made = tuple(replace(policy, **changed) for policy in policies(self.names, self.sigma, n, variant))
        return Setting(self.key(value), self.environment, made, n, self.sigma)


_GAP: tuple[str, Environment, float] = LARGE_GAP, LargeGap(sigma=1.0), 1.0
_END: tuple[str, Environment, float] = END_OF_OPTIMISM, EndOfOptimism(eps=0.01, sigma=0.1), 0.1
SWEEPS = (
    Sweep("δ", "delta", DELTAS, "0.01", *_GAP, WITH_DELTA, 10_000),
    Sweep("δ", "delta", DELTAS, "0.01", *_END, WITH_DELTA, 100_000),
    Sweep("scale", "scale", SCALES_OF_LINTS, "√β", *_GAP, ("LinTS-Freq",), 10_000),
    Sweep("scale", "scale", SCALES_OF_LINTS, "√β", *_END, ("LinTS-Freq",), 100_000),
    Sweep("Reg_Sq", "regression_regret", REGRESSION_REGRETS, "d log n", *_GAP, SPANNERS, 10_000),
    Sweep("C_opt", "C_opt", DESIGN_CONSTANTS, "4", *_GAP, SPANNERS, 10_000),
)
MARKERS = {
    "δ": ("v", "o", "^", "D"),
    "scale": ("P", "X", "*"),
    "Reg_Sq": (">", "p", "h"),
    "C_opt": ("<", "s"),
}
"""By symbol and place among its values."""


class Assumptions(Experiment):
    """No figure of the paper's: what its figures depend on."""

    name = "assumptions"
    title = "Where the text is silent"
    place = "our addition"
    about = (
        "The text gives no δ for its experiments, no scale for LinTS-Freq, no C_opt and no Reg_Sq for "
        "SpannerIGW and no number of trials for Figure 2. How much would other values than those taken here "
        "have changed?"
    )
    paper, quick, decisive = Size(100_000, 100), Size(10_000, 10), Size(100_000, 100)
    differences = (SCALES, ARM_ZERO, "σ = 3 with σ* = 1 in Figure 2.", NO_HALF_STEP, EVEN_START, LINMED_START)

    def settings(self, variant: Variant, horizon: int, movielens: Path | None = None) -> list[Setting]:
        """Return a setting for every value of a parameter, and those of Figure 2."""
        swept = [sweep.setting(value, horizon, variant) for sweep in SWEEPS for value in sweep.values]
        sigma, sigma_star = SIGMAS[variant]
        n = min(horizon, 20_000)
        counts = [
            Setting.of(("K", K), RepeatedArms(K, sigma_star), ("LinMED-99",), sigma, n, variant)
            for K in ARM_COUNTS
        ]
        return [*swept, *counts]

    def notes(self, movielens: Path | None) -> tuple[str, ...]:
        """Say what is left out."""
        return (
            "Assumed too, and not varied here: the arms of delayed-rewards are scaled so that the largest "
            "has norm 1 (the text's ‖a‖ ≤ 1; the public code divides by the smallest norm). The two noises "
            "of end of optimism are experiments: end-of-optimism and end-of-optimism-appendix.",
        )

    def numbers(self, found: Findings) -> Iterator[Numbers]:
        """Tabulate final regret by value, with the factor to the value taken; and an exponent by trials."""
        for sweep in SWEEPS:
            yield _sweep_table(sweep, found)
        yield _trials_table(found)

    def drawings(self, found: Findings) -> Iterator[drawing.Drawing]:
        """Draw final regret by policy, one panel for every problem; hollow: the value taken."""
        problems = list(dict.fromkeys(sweep.problem for sweep in SWEEPS))
        figure, axes = drawing.new(10.5, 5.4, 1, len(problems))
        for ax, problem in zip(axes, problems, strict=True):
            _dots(ax, found, [sweep for sweep in SWEEPS if sweep.problem == problem])
            ax.set_title(problem)
        symbols = {sweep.symbol: sweep for sweep in SWEEPS}
        handles = [
            drawing.lines.Line2D(
                [], [], color=INK.light, linestyle="none", marker=marker, label=f"{sweep.symbol} = {value}",
                markerfacecolor="none" if value == sweep.default else INK.light,
            )
            for sweep in symbols.values() for value, marker in _marked(sweep)
        ]  # fmt: skip
        figure.legend(handles=handles, loc="outside lower center", ncols=(len(handles) + 1) // 2)
        caption = (
            "Final regret by the value of what the text leaves open, with 95 % intervals; hollow: the value "
            "taken everywhere else."
        )
        yield drawing.Drawing(self.name, caption, figure)


def _marked(sweep: Sweep) -> list[tuple[str, str]]:
    return list(zip(sweep.values, MARKERS[sweep.symbol], strict=True))


def _dots(ax: Any, found: Findings, sweeps: Sequence[Sweep]) -> None:
    rows = [(sweep, name) for sweep in sweeps for name in sweep.names]
    for row, (sweep, name) in enumerate(rows):
        colour = POLICY[name].light
        for place, (value, marker) in enumerate(_marked(sweep)):
            estimate = mean(found.final(name, *sweep.key(value)))
            centre = np.array([estimate.value])
            low, high = drawing.interval(centre, np.array([estimate.error]), True, estimate.trials)
            height = row + 0.18 * (place - (len(sweep.values) - 1) / 2)
            ax.plot([*low, *high], [height, height], color=colour, linewidth=1.2)
            ax.plot(
                centre, [height], color=colour, linestyle="none", marker=marker, markersize=5.5,
                markerfacecolor="none" if value == sweep.default else colour,
            )  # fmt: skip
    ax.set_xscale("log")
    drawing.log_ticks(ax.xaxis, ",g")
    drawing.rows_of(ax, [name for _, name in rows])
    horizon = found.setting(*sweeps[0].key(sweeps[0].default)).horizon
    ax.set_xlabel(f"regret after {horizon:,} rounds")


def exponents(found: Findings) -> tuple[Estimate, Estimate, list[float]]:
    """Fit exponents of LinMED-99's regret against K: to the first FEW trials, to all, to each FEW of them."""
    exponent = growth(ARM_COUNTS)
    finals = [found.final("LinMED-99", "K", K) for K in ARM_COUNTS]
    equal = np.full((1, FEW), 1.0 / FEW)
    groups = [
        float(exponent(equal, *(final[start : start + FEW] for final in finals))[0])
        for start in range(0, found.trials - FEW + 1, FEW)
    ]
    return resampled(exponent, *(final[:FEW] for final in finals)), resampled(exponent, *finals), groups


def _sweep_table(sweep: Sweep, found: Findings) -> Numbers:
    horizon = found.setting(*sweep.key(sweep.default)).horizon
    rows = []
    for name in sweep.names:
        usual = found.final(name, *sweep.key(sweep.default))
        cells = []
        for value in sweep.values:
            final = found.final(name, *sweep.key(value))
            factor = "" if value == sweep.default else f" (×{final.mean() / usual.mean():.2f})"
            cells.append(f"{with_error(mean(final))}{factor}")
        rows.append([name, *cells])
    return Numbers(
        f"Final regret ± standard error by {sweep.symbol}: {sweep.problem}, n = {horizon:,}",
        [
            "policy",
            *(f"{sweep.symbol} = {v}{' (taken)' if v == sweep.default else ''}" for v in sweep.values),
        ],
        rows,
        note="In brackets the factor to the value taken everywhere else, over the same random numbers.",
    )


def _trials_table(found: Findings) -> Numbers:
    few, every, groups = exponents(found)
    rows = [[f"the first {min(FEW, found.trials)}", str(few)], [f"all {found.trials}", str(every)]]
    if len(groups) > 1:
        low, high = np.min(groups), np.max(groups)
        rows.append([f"each {FEW} of them, {len(groups)} times", f"from {low:.2f} to {high:.2f}"])
    horizon = found.setting("K", ARM_COUNTS[0]).horizon
    return Numbers(
        f"Exponent of LinMED-99's regret against K, by the number of trials (Figure 2), n = {horizon:,}",
        ["trials", "exponent (95 % interval)"],
        rows,
        note="The text names no number of trials; arm-count takes 10.",
    )
