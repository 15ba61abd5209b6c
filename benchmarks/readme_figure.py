"""Draw the figure that opens the README: why one would use LinMED.

    python benchmarks/readme_figure.py OUT --seed 20261118 --minutes 3

reruns two of the paper's experiments into the folder OUT, where that is not done yet, and writes hero.png
beside their report.

Left: mean regret on the large-gap problem, and who can say in closed form how probable each choice was.
Right: the uniform policy's value as estimated from logs, where probabilities are exact and where they are
sampled: means of the scores that were measured, not of their expectations.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linmed.paper import drawing, run
from linmed.paper.experiment import Findings, Setting
from linmed.paper.offline_evaluation import LINMED_EXACT, ORACLE, PUBLISHED, SAMPLES, floor_column
from linmed.paper.roster import LINMED, Variant
from linmed.paper.statistics import average, mean, resampled
from linmed.report.figures import INK, POLICY, STYLE

OWN, OTHER, WITHOUT = POLICY["LinMED-99"].light, POLICY["LinTS-Freq"].light, "#5f7a61"
CLOSED = "closed form"
NAMED: dict[Variant, str] = {"text": "as the paper's text has it", "as-run": "as the paper's code runs it"}


def readme_figure(findings: Sequence[Findings]) -> drawing.Drawing:
    gaps = [found for found in findings if found.experiment.name == "large-gap"]
    gap = next(found for found in gaps if found.variant == "text")
    offline = [found for found in findings if found.experiment.name == "offline-evaluation"]
    with drawing.matplotlib.rc_context(STYLE):
        figure, (left, right) = drawing.new(10.8, 4.6, 1, 2, width_ratios=[1.15, 1.0])
        _regret(left, gap, gap.setting("all"))
        _values(right, offline)
    caption = (
        "Among policies that have the probability of each choice in closed form LinMED has the least regret; "
        "from its log the value of another policy is estimated without sampling those probabilities first."
    )
    return drawing.Drawing("hero", caption, figure)


def exact(setting: Setting, name: str) -> bool:
    properties = next(policy.properties for policy in setting.policies if policy.name == name)
    return properties.randomised and properties.computable == CLOSED


def _regret(ax: Any, found: Findings, setting: Setting) -> None:
    """Means with the ledger's 95 % intervals."""
    finals = {name: found.final(name, *setting.key) for name in found.names(*setting.key)}
    names = sorted(finals, key=lambda name: float(finals[name].mean()))
    far = 0.0
    for place, name in enumerate(names):
        estimate = resampled(average, finals[name])
        low, high = drawing.finite_ends(estimate)
        colour, weight = _colour(setting, name), "bold" if name in LINMED else None
        ax.barh(place, estimate.value, 0.62, color=colour)
        ax.plot([low, high], [place, place], color=INK.light, linewidth=1.2)
        ax.annotate(
            f"{estimate.value:,.0f}", (max(high, estimate.value), place), (5, 0), textcoords="offset points",
            va="center", color=colour, fontweight=weight,
        )  # fmt: skip
        far = max(far, high, estimate.value)
    ax.set_yticks(range(len(names)), names)
    for label, name in zip(ax.get_yticklabels(), names, strict=True):
        label.set_color(_colour(setting, name))
        label.set_fontweight("bold" if name in LINMED else "normal")
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(0, 1.14 * far or 1.0)
    drawing.numbered(ax.xaxis, ",.0f")
    ax.grid(visible=False)
    counts = sorted({len(final) for final in finals.values()})
    trials = " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
    ax.set_xlabel(
        f"mean regret after {setting.horizon:,} rounds, large-gap problem {NAMED[found.variant]}\n"
        f"{trials} trials, 95 % intervals; less is better"
    )
    ax.set_title("Low regret, and every choice’s probability known", fontweight="bold", loc="left")
    keys = [
        (OWN, "LinMED: probabilities in closed form"),
        (INK.light, "others with probabilities in closed form"),
        (WITHOUT, "without: deterministic, or to be sampled"),
    ]
    for row, (colour, words) in enumerate(keys):
        ax.text(0.99, 0.86 - 0.075 * row, words, transform=ax.transAxes, ha="right", color=colour)


def _colour(setting: Setting, name: str) -> str:
    return OWN if name in LINMED else INK.light if exact(setting, name) else WITHOUT


def _values(ax: Any, ran: Sequence[Findings]) -> None:
    """Means of the measured scores, by how many samples a probability took; hollow: the text's settings."""
    kinds = [(LINMED_EXACT, OWN, "LinMED-50,\nexact: no samples")]
    kinds += [(floor_column(M), OTHER, f"LinTS-Freq,\n{M:,} samples") for M in reversed(SAMPLES)]
    ends = [ORACLE]
    for row, found in enumerate(ran):
        hollow, shift = found.variant == "text", 0.36 * (row - (len(ran) - 1) / 2)
        for place, (column, colour, _) in enumerate(kinds):
            estimate, height = mean(found.scores[column]), place + shift
            low, high = drawing.finite_ends(estimate)
            ax.plot([low, high], [height, height], color=colour, linewidth=1.6)
            ax.plot(
                [estimate.value], [height], color=colour, marker="o", markersize=7, markeredgewidth=1.6,
                markerfacecolor="white" if hollow else colour,
            )  # fmt: skip
            ax.annotate(
                f"{estimate.value:.3f}", (max(high, estimate.value), height), (6, 0),
                textcoords="offset points", va="center", color=colour, fontweight="bold",
            )  # fmt: skip
            ends += [low, high]
    margin = 0.02  # beside the largest published bias, 0.106, which every variant's axis has room for
    ax.axvline(ORACLE, color=INK.light, linewidth=1.2, linestyle=(0, (2, 2)), zorder=0)
    ax.annotate(
        f"truth: {ORACLE:.2f}", (ORACLE, 1.0), (5, -2), xycoords=("data", "axes fraction"),
        textcoords="offset points", va="top", color=INK.light,
    )  # fmt: skip
    ax.set_xlim(min(ends) - margin, max(*ends, PUBLISHED[min(SAMPLES)][0]) + margin)
    ax.set_ylim(len(kinds) - 0.5, -0.9)
    ax.set_yticks(range(len(kinds)), [words for _, _, words in kinds])
    for label, (_, colour, _) in zip(ax.get_yticklabels(), kinds, strict=True):
        label.set_color(colour)
    ax.grid(visible=False)
    marks = {"text": "hollow: the paper's text", "as-run": "filled: its code"}
    which = "; ".join(marks[found.variant] for found in ran)
    ax.set_xlabel(f"another policy's value: mean of {ran[0].trials:,} estimates\n95 % intervals; {which}")
    ax.set_title("Its log answers “what if?” with no sampling", fontweight="bold", loc="left")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float)
    args = parser.parse_args()
    asked = {"scale": "decisive", "variant": "both", "seed": args.seed, "minutes": args.minutes}
    report = run(("offline-evaluation", "large-gap"), out=args.out, **asked)
    (args.out / "hero.png").write_bytes(readme_figure(report.findings).png())
