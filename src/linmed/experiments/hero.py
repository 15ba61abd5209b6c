"""The figure that opens the README: why one would use LinMED, from stored results.

Left: regret on the large-gap problem, and who can say in closed form how probable each choice was. Right: the
uniform policy's value as estimated from a log, where probabilities are exact and where they are sampled.
"""

import math
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from linmed.drawing import STYLE
from linmed.experiments.drawing import Drawing
from linmed.experiments.experiment import Findings, Setting
from linmed.experiments.lineup import LINMED
from linmed.experiments.offline import LINMED_EXACT, ORACLE, PUBLISHED, SAMPLES, expected, floor_column
from linmed.experiments.statistics import mean
from linmed.palette import INK, POLICY

OWN, OTHER, WITHOUT = POLICY["LinMED-99"].light, POLICY["LinTS-Freq"].light, "#9aa1a9"
CLOSED = "closed form"


def hero(findings: Sequence[Findings]) -> Drawing | None:
    """Of a run that has both experiments; the offline one as the public code runs it, where it was run so."""
    ran = {(found.experiment.name, found.variant): found for found in findings}
    gap = ran.get(("large-gap", "text"))
    offline = ran.get(("offline-evaluation", "as-run")) or ran.get(("offline-evaluation", "text"))
    if gap is None or offline is None:
        return None
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.2, 4.3), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[1.15, 1.0])
        _regret(left, gap, gap.setting("all"))
        _values(right, offline)
    caption = (
        "Among policies that have the probability of each choice in closed form LinMED has the least regret; "
        "from its log the value of another policy is estimated without sampling those probabilities first."
    )
    return Drawing("hero", caption, figure)


def exact(setting: Setting, name: str) -> bool:
    """Whether a policy is randomised and its probabilities have a closed form."""
    properties = next(policy.properties for policy in setting.policies if policy.name == name)
    return properties.randomised and properties.computable == CLOSED


def _regret(ax: Any, found: Findings, setting: Setting) -> None:
    estimates = {name: mean(found.final(name, *setting.key)) for name in found.names(*setting.key)}
    names = sorted(estimates, key=lambda name: estimates[name].value)
    for place, name in enumerate(names):
        estimate, known = estimates[name], exact(setting, name)
        colour = OWN if name in LINMED else INK.light if known else WITHOUT
        ax.barh(
            place, estimate.value, 0.62, facecolor=colour if known else "none", edgecolor=colour,
            linewidth=1.2, linestyle="-" if known else (0, (2, 1.5)),
        )  # fmt: skip
        ax.annotate(
            f"{estimate.value:,.0f}", (estimate.value, place), (5, 0), textcoords="offset points",
            va="center", color=colour, fontweight="bold" if name in LINMED else None,
        )  # fmt: skip
    ax.set_yticks(range(len(names)), names)
    for label, name in zip(ax.get_yticklabels(), names, strict=True):
        label.set_color(OWN if name in LINMED else INK.light if exact(setting, name) else WITHOUT)
        label.set_fontweight("bold" if name in LINMED else "normal")
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(0, 1.12 * max(estimate.value for estimate in estimates.values()) or 1.0)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    ax.grid(visible=False)
    ax.set_xlabel(f"mean regret after {setting.horizon:,} rounds, large-gap problem: less is better")
    ax.set_title("Low regret, and every choice’s probability known", fontweight="bold", loc="left")
    keys = [
        (OWN, "LinMED: probabilities in closed form"),
        (INK.light, "others with probabilities in closed form"),
        (WITHOUT, "without: deterministic, or to be sampled"),
    ]
    for row, (colour, words) in enumerate(keys):
        ax.text(0.99, 0.86 - 0.075 * row, words, transform=ax.transAxes, ha="right", color=colour)


def _values(ax: Any, found: Findings) -> None:
    """The mean estimate, with every term's expectation, by how many samples a probability took."""
    kinds = [(LINMED_EXACT, OWN, "LinMED,\nexact: no samples")]
    kinds += [(floor_column(M), OTHER, f"LinTS-Freq,\n{M:,} samples") for M in reversed(SAMPLES)]
    ends = [ORACLE]
    for place, (column, colour, _) in enumerate(kinds):
        scores = found.scores[expected(column)]
        estimate = mean(scores)
        low, high = (end if math.isfinite(end) else estimate.value for end in estimate.interval())
        ax.plot([low, high], [place, place], color=colour, linewidth=3.5, alpha=0.45, solid_capstyle="butt")
        ax.plot([estimate.value], [place], color=colour, marker="o", markersize=9)
        ax.annotate(
            f"{estimate.value:.2f}", (estimate.value, place), (9, 0), textcoords="offset points",
            va="center", color=colour, fontweight="bold",
        )  # fmt: skip
        ends += [low, high]
    margin = 0.02  # beside the largest published bias, 0.106, which every variant's axis has room for
    ax.axvline(ORACLE, color=INK.light, linewidth=1.2, linestyle=(0, (2, 2)))
    ax.annotate(
        f"truth: {ORACLE:.2f}", (ORACLE, 1.0), (5, -2), xycoords=("data", "axes fraction"),
        textcoords="offset points", va="top", color=INK.light,
    )  # fmt: skip
    ax.set_xlim(min(ends) - margin, max(*ends, PUBLISHED[min(SAMPLES)][0]) + margin)
    ax.set_ylim(len(kinds) - 0.5, -0.75)
    ax.set_yticks(range(len(kinds)), [words for _, _, words in kinds])
    for label, (_, colour, _) in zip(ax.get_yticklabels(), kinds, strict=True):
        label.set_color(colour)
    ax.grid(visible=False)
    settings = "\n(noise and LinTS's scale as in the paper's code)" if found.variant == "as-run" else ""
    ax.set_xlabel(f"another policy's value, estimated from the log{settings}")
    ax.set_title("Its log answers “what if?” with no sampling", fontweight="bold", loc="left")
