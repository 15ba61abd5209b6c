"""End of optimism: the paper's four panels, and the mechanism behind them: who plays which arm."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from linmed.paper.common import MATCHED, OVER
from linmed.paper.drawing import Drawing, legend
from linmed.paper.experiment import Findings, Key, labelled
from linmed.paper.panels import READING, panel
from linmed.report.figures import INK, POLICY

SHOWN: tuple[Key, ...] = ((0.005, MATCHED), (0.005, OVER), (0.01, MATCHED), (0.01, OVER))
"""Figure 4, in the order of its panels."""
INFORMS, NEAR = 1, 2
"""The arms a₂, which costs 1 and informs, and a₃, which costs ε."""


def square(found: Findings) -> Drawing:
    """Figure 4: a row for each ε, matched noise beside over-specified noise."""
    figure = Figure(figsize=(8.6, 6.9), layout="constrained")
    axes = figure.subplots(2, 2, gridspec_kw={"hspace": 0.06})
    for ax, key, letter in zip(axes.flat, SHOWN, "abcd", strict=True):
        panel(ax, found, found.setting(*key))
        ax.set_title(f"({letter}) {_words(found, key)}")
    for ax in axes[0]:
        ax.set_xlabel("")
    for ax in axes[:, 0]:
        ax.set_ylabel("cumulative regret")
    legend(figure, axes[0][0], 4)
    caption = f"{found.experiment.title} as in the paper's Figure 4. {READING}"
    return Drawing(found.experiment.name, caption, figure)


def pulls(found: Findings) -> Drawing:
    """How often a₂ and a₃ are played, in the panels of Figure 4."""
    names = found.names(*SHOWN[0])
    figure = Figure(figsize=(8.6, 5.6), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    for ax, key in zip(axes.flat, SHOWN, strict=True):
        for place, name in enumerate(names):
            _played(ax, found, key, name, place)
        ax.set_title(_words(found, key))
        ax.set_xscale("symlog", linthresh=1.0, linscale=0.4)
        ax.set_xlim(0.0, 1.5 * found.horizon)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_yticks(range(len(names)), names)
        ax.grid(axis="y", visible=False)
    for ax in axes[:, 1]:
        ax.set_yticklabels([""] * len(names))
    for ax in axes[1]:
        ax.set_xlabel(f"times played in {found.horizon:,} rounds, mean over trials")
    marks: list[Any] = [
        Line2D([], [], color=INK.light, marker="o", linestyle="", label="a₂: costs 1, and informs"),
        Line2D([], [], color=INK.light, marker="D", markerfacecolor="none", linestyle="",
               label="a₃: costs ε, and hardly informs"),
    ]  # fmt: skip
    figure.legend(handles=marks, loc="outside lower center", ncols=2)
    return Drawing(
        f"{found.experiment.name}-pulls",
        f"{found.experiment.title}: how often each policy plays the bad arm a₂, the only one that tells the "
        "best arm from a₃, and how often it plays a₃ instead.",
        figure,
    )


def _played(ax: Any, found: Findings, key: Key, name: str, place: int) -> None:
    line, played = POLICY[name], found.pulls(name, *key).mean(axis=0)
    informs, near = float(played[INFORMS]), float(played[NEAR])
    ax.plot([informs, near], [place, place], color=line.light, linewidth=1.0, alpha=0.5)
    ax.plot([informs], [place], color=line.light, marker="o", markersize=6, clip_on=False)
    ax.plot(
        [near], [place], color=line.light, marker="D", markersize=5.5, markerfacecolor="none", clip_on=False
    )


def _words(found: Findings, key: Key) -> str:
    return f"{labelled(found.experiment.figure, key[0])}, {key[1]}"
