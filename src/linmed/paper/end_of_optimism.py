"""Play Figure 4: only the bad arm tells the other two apart, and optimism stops playing it."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from linmed.environments import EndOfOptimism as Problem
from linmed.paper import drawing
from linmed.paper.experiment import Asked, Experiment, Findings, Key, Setting, Size, labelled
from linmed.paper.roster import (
    ARM_ZERO,
    DELTA,
    DESIGN,
    EVEN_START,
    FACTOR,
    LINMED,
    LINMED_START,
    MATCHED,
    NO_HALF_STEP,
    OVER,
    RIVALS,
    SCALES,
    SIGMA,
    UNDER,
    Variant,
)
from linmed.policies import LinTS
from linmed.report.figures import INK, POLICY

EPSILONS = (0.005, 0.01, 0.02)
UNDER_STAR: dict[Variant, float] = {"text": math.sqrt(10.0), "as-run": 10.0}
"""σ* of the under-specified case: σ*² = 10 in the text, σ* = 10 in the code."""
SCALE_ONE = "scale 1"
"""LinTS-Bayes as the public code has it, in settings of its own."""
LONG: Key = ("long", 0.005)
"""Ten times as long, where LinIMED-1 is said to deteriorate."""
SHOWN: tuple[Key, ...] = ((0.005, MATCHED), (0.005, OVER), (0.01, MATCHED), (0.01, OVER))
"""Figure 4, in the order of its panels."""
INFORMS, NEAR = 1, 2
"""The arms a₂, which costs 1 and informs, and a₃, which costs ε."""


class EndOfOptimism(Experiment):
    """Figure 4 and its appendix, with the main text's σ* = 0.1."""

    name = "end-of-optimism"
    title = "End of optimism"
    place = "Figure 4, Appendix"
    about = (
        "Arms (1, 0), (0, 1), (1 − ε, 2ε), θ* = (1, 0): only the bad arm (0, 1) tells the other two "
        "apart. σ* = 0.1 as in the main text (the appendix has σ*² = 0.1: end-of-optimism-appendix), and √10 "
        "where σ is under-specified. Ties go to the arm listed first, the best one."
    )
    star: ClassVar[float] = 0.1
    """σ* where σ is not under-specified."""
    paper, quick, decisive = Size(1_000_000, 20), Size(1_000_000, 4), Size(1_000_000, 10, 12)
    figure = "ε"
    differences = (
        SCALES,
        ARM_ZERO,
        SIGMA,
        "σ* = 10 where σ is under-specified.",
        NO_HALF_STEP,
        EVEN_START,
        LINMED_START,
        DESIGN,
    )

    def settings(self, asked: Asked) -> list[Setting]:
        """Return every ε with every noise level, LinTS with scale 1, and the decisive scale's longer run."""
        grid, variant = [], asked.variant
        for eps in EPSILONS:
            for noise, factor in FACTOR[variant].items():
                star = UNDER_STAR[variant] if noise == UNDER else self.star
                problem, names = Problem(eps=eps, sigma=star), (*RIVALS, *LINMED)
                grid.append(Setting.of((eps, noise), problem, names, factor * star, asked, gap=eps))
        scaled = [
            replace(s, key=(SCALE_ONE, *s.key), policies=(_scale_one(s.sigma),), drawn=False, gap=None)
            for s in grid
            if variant == "text" and s.key[1] != UNDER
        ]
        if asked.scale != "decisive":
            return [*grid, *scaled]
        problem, longer = Problem(eps=0.005, sigma=self.star), asked._replace(horizon=10 * asked.horizon)
        pair = ("LinIMED-1", "LinMED-99")  # does LinIMED-1 turn up later?
        return [*grid, *scaled, Setting.of(LONG, problem, pair, self.star, longer, False, most=5)]

    def drawings(self, found: Findings) -> Iterator[drawing.Drawing]:
        """Draw Figure 4 and why it is so; the appendix's panels, linear and logarithmic."""
        yield _square(found)
        yield _pulls(found)
        yield from drawing.grids(found)
        yield from drawing.grids(found, logarithmic=True)


class EndOfOptimismAppendix(EndOfOptimism):
    """The same with the appendix's σ*² = 0.1, which contradicts the main text."""

    name = "end-of-optimism-appendix"
    title = "End of optimism, σ*² = 0.1"
    about = (
        "End of optimism with σ*² = 0.1, as the appendix has it, where the main text has σ* = 0.1. The "
        "under-specified case has σ*² = 10 in both, and its trials are the same."
    )
    quick = Size(100_000, 4)
    star = math.sqrt(0.1)


def _scale_one(sigma: float) -> LinTS:
    return LinTS(sigma=sigma, delta=DELTA, scale=1.0, label="LinTS-Bayes")


def _words(found: Findings, key: Key) -> str:
    return f"{labelled(found.experiment.figure, key[0])}, {key[1]}"


def _square(found: Findings) -> drawing.Drawing:
    """Figure 4: a row for each ε, matched noise beside over-specified noise."""
    figure, axes = drawing.new(8.6, 6.9, 2, 2, gridspec_kw={"hspace": 0.06})
    for ax, key, letter in zip(axes.flat, SHOWN, "abcd", strict=True):
        drawing.panel(ax, found, found.setting(*key))
        ax.set_title(f"({letter}) {_words(found, key)}")
    for ax in axes[0]:
        ax.set_xlabel("")
    for ax in axes[:, 0]:
        ax.set_ylabel("cumulative regret")
    drawing.legend(figure, axes[0][0], 4)
    caption = f"{found.experiment.title} as in the paper's Figure 4. {drawing.READING}"
    return drawing.Drawing(found.experiment.name, caption, figure)


def _pulls(found: Findings) -> drawing.Drawing:
    """How often a₂ and a₃ are played, in the panels of Figure 4."""
    names = found.names(*SHOWN[0])
    figure, axes = drawing.new(8.6, 5.6, 2, 2, sharex=True)
    for ax, key in zip(axes.flat, SHOWN, strict=True):
        for place, name in enumerate(names):
            _played(ax, found.pulls(name, *key).mean(axis=0), POLICY[name].light, place)
        ax.set_title(_words(found, key))
        ax.set_xscale("symlog", linthresh=1.0, linscale=0.4)
        ax.set_xlim(0.0, 1.5 * found.horizon)
        drawing.rows_of(ax, names)
        ax.grid(axis="y", visible=False)
    for ax in axes[:, 1]:
        ax.set_yticklabels([""] * len(names))
    for ax in axes[1]:
        ax.set_xlabel(f"times played in {found.horizon:,} rounds, mean over trials")
    look: dict[str, Any] = {"color": INK.light, "linestyle": ""}
    informs, near = "a₂: costs 1, and informs", "a₃: costs ε, and hardly informs"
    marks = [
        drawing.lines.Line2D([], [], marker="o", label=informs, **look),
        drawing.lines.Line2D([], [], marker="D", markerfacecolor="none", label=near, **look),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=2)
    caption = (
        f"{found.experiment.title}: how often each policy plays the bad arm a₂, the only one that tells the "
        "best arm from a₃, and how often it plays a₃ instead."
    )
    return drawing.Drawing(f"{found.experiment.name}-pulls", caption, figure)


def _played(ax: Any, played: Any, colour: str, place: int) -> None:
    informs, near = float(played[INFORMS]), float(played[NEAR])
    ax.plot([informs, near], [place, place], color=colour, linewidth=1.0, alpha=0.5)
    ax.plot([informs], [place], color=colour, marker="o", markersize=6, clip_on=False)
    ax.plot([near], [place], color=colour, marker="D", markersize=5.5, markerfacecolor="none", clip_on=False)
