"""The figure of what had to be assumed: a dot for every policy and value."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from linmed.paper.assumptions import SWEEPS, Sweep
from linmed.paper.drawing import Drawing, interval
from linmed.paper.experiment import Findings
from linmed.paper.statistics import mean
from linmed.report.figures import INK, POLICY

MARKERS = {
    "δ": ("v", "o", "^", "D"),
    "scale": ("P", "X", "*"),
    "Reg_Sq": (">", "p", "h"),
    "C_opt": ("<", "s"),
}
"""By symbol and place among its values."""


def dots(found: Findings) -> Drawing:
    """Final regret by policy, one panel for every problem; hollow: the value taken."""
    figure = Figure(figsize=(10.5, 5.4), layout="constrained")
    problems = list(dict.fromkeys(sweep.problem for sweep in SWEEPS))
    for ax, problem in zip(figure.subplots(1, len(problems)), problems, strict=True):
        here = [sweep for sweep in SWEEPS if sweep.problem == problem]
        rows = [(sweep, name) for sweep in here for name in sweep.names]
        for row, (sweep, name) in enumerate(rows):
            for place, (value, marker) in enumerate(_marked(sweep)):
                estimate = mean(found.final(name, *sweep.key(value)))
                centre = np.array([estimate.value])
                low, high = interval(centre, np.array([estimate.error]), True, estimate.trials)
                height = row + 0.18 * (place - (len(sweep.values) - 1) / 2)
                colour = POLICY[name].light
                ax.plot([*low, *high], [height, height], color=colour, linewidth=1.2)
                ax.plot(
                    centre, [height], color=colour, linestyle="none", marker=marker, markersize=5.5,
                    markerfacecolor="none" if value == sweep.default else colour,
                )  # fmt: skip
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda regret, _: f"{regret:,g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_yticks(range(len(rows)), [name for _, name in rows])
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_title(problem)
        ax.set_xlabel(f"regret after {found.setting(*here[0].key(here[0].default)).horizon:,} rounds")
    symbols = {sweep.symbol: sweep for sweep in SWEEPS}
    handles = [handle for sweep in symbols.values() for handle in _handles(sweep)]
    figure.legend(handles=handles, loc="outside lower center", ncols=(len(handles) + 1) // 2)
    return Drawing(
        found.experiment.name,
        "Final regret by the value of what the text leaves open, with 95 % intervals; hollow: the value "
        "taken everywhere else.",
        figure,
    )


def _marked(sweep: Sweep) -> list[tuple[str, str]]:
    return list(zip(sweep.values, MARKERS[sweep.symbol], strict=True))


def _handles(sweep: Sweep) -> list[Line2D]:
    return [
        Line2D(
            [], [], color=INK.light, linestyle="none", marker=marker, label=f"{sweep.symbol} = {value}",
            markerfacecolor="none" if value == sweep.default else INK.light,
        )
        for value, marker in _marked(sweep)
    ]  # fmt: skip
