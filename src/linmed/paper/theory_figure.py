"""The figure of LinMED's regret among the paper's bounds."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from linmed.paper.bounds import FAR, FIRST, overlay
from linmed.paper.drawing import Drawing, interval, legend
from linmed.paper.experiment import Findings
from linmed.report.figures import BOUND, DASH_DOT, DASHED, DASHES, DOTS, INK, POLICY


def theory(found: Findings) -> Drawing:
    """Measured regret, the bounds and the fitted growth; the bounds go on to where they say something."""
    curves = overlay(found)
    figure = Figure(figsize=(7.6, 5.4), layout="constrained")
    ax = figure.add_subplot()
    rounds, p, far = curves.rounds, curves.exponent, curves.far
    own, other = POLICY["LinMED-90"].light, POLICY["LinTS-Freq"].light
    low, high = interval(curves.measured, curves.error, True, curves.trials)

    def draw(x: Any, y: Any, label: str, colour: str, width: float, **style: Any) -> None:
        ax.plot(x, y, color=colour, linewidth=width, label=label, **style)

    draw(far.rounds, far.trivial, "largest gap × rounds", INK.light, 1.2, linestyle=DOTS)
    draw(far.rounds, far.minimax, "minimax theorem", BOUND.light, 1.5, linestyle=DASH_DOT)
    draw(far.rounds, far.lemma, "regret lemma, best L", BOUND.light, 4.5, alpha=0.35)
    draw(far.rounds, far.instance, "instance-dependent theorem", BOUND.light, 1.5, linestyle=DASHED)
    draw(rounds, curves.measured, "LinMED-90, δ = 1/(t+1), measured", own, 2.4)
    ax.fill_between(rounds, low, high, color=own, alpha=0.18, linewidth=0)
    draw(curves.limit.rounds, curves.limit.regret, "the same without chance", own, 1.3, linestyle=DASHES)
    fit = f"fit of the last decade: $t^{{{p.value:.2f}}}$"
    draw(curves.late, curves.fitted, fit, other, 1.8, linestyle=DASHES)
    lost = "told n: loses at least this"
    draw(far.rounds, curves.exp2, f"EXP2, {lost}", POLICY["EXP2"].light, 1.6, linestyle=DOTS)
    if curves.spanner_igw is not None:
        green = POLICY["SpannerIGW"].light
        draw(far.rounds, curves.spanner_igw, f"SpannerIGW, {lost} (no noise)", green, 1.6, linestyle=DOTS)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(FIRST, FAR)
    ax.set_ylim(float(curves.limit.regret[FIRST - 1]) / 2, float(far.minimax.max()) * 3)
    ax.xaxis.set_major_locator(LogLocator(numticks=14))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_title(f"{found.experiment.title}: {curves.name}")
    ax.set_xlabel("round")
    ax.set_ylabel("cumulative regret")
    legend(figure, ax, 2)
    return Drawing(
        f"{found.experiment.name}-theory",
        f"{found.experiment.title} ({curves.name}): measured regret, the paper's bounds with the constants "
        "of their proofs, and the fitted growth.",
        figure,
        curves.text,
    )
