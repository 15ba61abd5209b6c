"""Figures of offline evaluation: how the scores are spread, and where their means lie."""

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from linmed.paper.drawing import Drawing, interval, legend
from linmed.paper.experiment import Findings
from linmed.paper.lineup import Variant
from linmed.paper.offline import (
    LINMED_EXACT,
    LINTS_EXACT,
    ORACLE,
    PUBLISHED,
    SAMPLES,
    expected,
    floor_column,
    plus_one_column,
)
from linmed.paper.statistics import mean
from linmed.report.figures import INK, POLICY
from linmed.validation import Floats

AXIS = (0.78, 0.92)
"""Of mean scores: 0.8 and the largest published bias, 0.106, side by side."""
KEPT = 2.0
"""As run, scores beyond ±2 are dropped from the histograms."""


def histograms(found: Findings) -> Drawing:
    """Scores with M Monte-Carlo samples, beside those of exact probabilities."""
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    axes = figure.subplots(1, len(SAMPLES), sharey=True)
    every = np.concatenate([found.scores[c] for c in (LINMED_EXACT, *map(floor_column, SAMPLES))])
    low, high = np.quantile(every, [0.001, 0.999])
    edges = np.linspace(max(math.floor(10 * low) / 10, 0.0), min(math.ceil(10 * high) / 10, 2.0), 61)
    own, other = POLICY["LinMED-50"], POLICY["LinTS-Freq"]
    for ax, M in zip(axes, SAMPLES, strict=True):
        for scores, line, label in (
            (found.scores[LINMED_EXACT], own, "LinMED-50, exact probability"),
            (found.scores[floor_column(M)], other, "LinTS-Freq, M Monte-Carlo samples, floor 0.5/M"),
        ):
            shown = kept(scores, found.variant)
            weights = np.full(len(shown), 1.0 / len(shown))
            ax.hist(shown, edges, weights=weights, color=line.light, alpha=0.45, label=label)
            ax.hist(shown, edges, weights=weights, color=line.light, histtype="step", linewidth=1.2)
            ax.axvline(float(scores.mean()), color=line.light, linestyle=line.dash, linewidth=1.6)
        ax.axvline(ORACLE, color=INK.light, linestyle=(0, (2, 2)), linewidth=1.2, label="true value 0.8")
        beyond = float((kept(found.scores[floor_column(M)], found.variant) > edges[-1]).mean())
        ax.set_title(
            f"M = {M:,}" + (f"  ({100 * beyond:.1f} % beyond {edges[-1]:g})" if beyond >= 0.001 else "")
        )
        ax.set_xlabel("IPW score of the uniform policy")
        ax.set_xlim(edges[0], edges[-1])
        ax.xaxis.set_major_locator(MaxNLocator(5, prune="both"))
    axes[0].set_ylabel("share of trials")
    legend(figure, axes[0], 3)
    return Drawing(found.experiment.name, "IPW scores of the uniform policy; lines mark the means.", figure)


def kept(scores: Floats, variant: Variant) -> Floats:
    """The scores that a histogram shows."""
    return scores[np.abs(scores) < KEPT] if variant == "as-run" else scores


def propensities(found: Findings) -> Drawing:
    """Mean scores by how the propensity was found, on an axis that has room for the published bias."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.add_subplot()
    x = np.log10(SAMPLES)
    floored, plus_one = [floor_column(M) for M in SAMPLES], [plus_one_column(M) for M in SAMPLES]
    kinds = (
        ("LinTS-Freq, floor 0.5/M", floored, POLICY["LinTS-Freq"], "-", "o", -0.03),
        ("LinTS-Freq, (X+1)/(M+1)", plus_one, POLICY["LinTS-Bayes"], "--", "s", 0.03),
        ("LinTS-Freq, exact", [LINTS_EXACT] * len(SAMPLES), POLICY["LinIMED-1"], "-", "D", 0.0),
        ("LinMED-50, exact", [LINMED_EXACT] * len(SAMPLES), POLICY["LinMED-50"], "-", "^", 0.06),
    )
    lowest, highest = AXIS
    for label, columns, line, dash, marker, shift in kinds:
        estimates = [mean(found.scores[expected(column)]) for column in columns]
        centre, error = (np.array([getattr(e, part) for e in estimates]) for part in ("value", "error"))
        low, high = interval(centre, error, False, estimates[0].trials)
        ax.errorbar(
            x + shift, centre, yerr=[centre - low, high - centre], color=line.light, linestyle=dash,
            marker=marker, markersize=5, capsize=3, label=label,
        )  # fmt: skip
        lowest = min(lowest, *(e.value - 0.01 for e in estimates))
        highest = max(highest, *(e.value + 0.01 for e in estimates))
    ax.plot(
        x, [PUBLISHED[M][0] for M in SAMPLES], color=POLICY["LinTS-Freq"].light, linestyle="none",
        marker="o", markersize=9, markerfacecolor="none", markeredgewidth=1.5, label="published, LinTS-Freq",
    )  # fmt: skip
    ax.axhline(ORACLE, color=INK.light, linestyle=(0, (2, 2)), linewidth=1.2, label="true value 0.8")
    ax.set_ylim(lowest, highest)
    ax.set_xticks(x, [f"{M:,}" for M in SAMPLES])
    ax.set_xlabel("Monte-Carlo samples M")
    ax.set_ylabel("mean IPW score")
    legend(figure, ax, 2)
    return Drawing(
        f"{found.experiment.name}-propensities",
        "Mean IPW score by how the propensity was found, by expectations, with 95 % intervals; hollow: the "
        "paper's table.",
        figure,
    )
