"""The figures: regret by round in every world, and which memory decides."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from linmed.paper.drawing import Drawing, interval, legend
from linmed.paper.drift.problems import NEVER, OFTEN, ONCE, OURS, UNTOLD, fixed, memory
from linmed.paper.experiment import Findings, Setting
from linmed.paper.statistics import mean
from linmed.policies import Forgetful
from linmed.report.figures import POLICY
from linmed.simulation.trials import TrialBatch
from linmed.validation import Floats, Ints

LINES = {
    OURS: POLICY["LinMED-99"],
    UNTOLD: POLICY["LinMED-50"],
    NEVER: POLICY["OFUL"],
    fixed(1000): POLICY["LinTS-Freq"],
    fixed(200): POLICY["LinTS-Bayes"],
    fixed(50): POLICY["LinMEDNOPT"],
    "D-LinUCB, H = 200": POLICY["LinIMED-1"],
    "D-LinUCB, H = 50": POLICY["LinIMED-3"],
    "SW-LinUCB, w = 500": POLICY["SpannerIGW"],
    "SW-LinUCB, w = 150": POLICY["SpannerIGW-AT"],
}
"""Who is drawn, and how."""
SHADES = ("LinMED-99", "LinMED-50", "LinTS-Bayes", "LinTS-Freq")
"""Of memories, the longest first."""
TRACED, STEPS = 20, 150
"""Trials whose weights are averaged, and how often they are looked at."""


def curves(found: Findings) -> Drawing:
    """Mean regret by round, with 95 % bands of our own."""
    figure, axes = _panels(found)
    for ax, setting in zip(axes, found.settings, strict=True):
        rounds, highest = found.rounds(*setting.key), 0.0
        for name, line in LINES.items():
            centre = found.curves(name, *setting.key).mean(axis=0)
            highest = max(highest, float(centre[-1]))
            ax.plot(
                rounds, centre, color=line.light, linestyle=line.dash, label=name,
                linewidth=2.3 if name == OURS else 1.3,
            )  # fmt: skip
        own = found.curves(OURS, *setting.key)
        errors = [mean(column) for column in own.T]
        low, high = interval(own.mean(axis=0), np.array([one.error for one in errors]), False, len(own))
        ax.fill_between(rounds, np.maximum(low, 0.0), high, color=LINES[OURS].light, alpha=0.14, linewidth=0)
        ax.set_ylim(0.0, 1.05 * highest or 1.0)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.10g}"))
    axes[0].set_ylabel("regret against the moving optimum")
    axes[3].set_ylabel("regret against the moving optimum")
    legend(figure, axes[0], 5)
    return Drawing(
        found.experiment.name,
        "Mean regret against the best arm of every round. Dotted: where θ* or demand changes. Band: 95 % of "
        "Forgetful (Student's t). A half-life H or a window w must be chosen; Forgetful is told none.",
        figure,
    )


def memories(found: Findings) -> Drawing:
    """The mean weight of every memory of Forgetful by round, one upon the other."""
    figure, axes = _panels(found)
    for ax, setting in zip(axes, found.settings, strict=True):
        policy: Any = next(policy for policy in setting.policies if policy.name == OURS)
        rounds, weights = trace(policy, setting, found.seed, min(TRACED, found.trials))
        shades = [POLICY[name].light for name in SHADES]
        labels = [memory(float(half_life)) for half_life in policy.half_lives]
        ax.stackplot(rounds, weights.T, colors=shades, labels=labels, alpha=0.85, linewidth=0)
        ax.set_ylim(0.0, 1.0)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:.0f} %"))
        ax.grid(visible=False)
    axes[0].set_ylabel("weight")
    axes[3].set_ylabel("weight")
    legend(figure, axes[0], 4)
    return Drawing(
        f"{found.experiment.name}-memories",
        f"What Forgetful believes in: the weights of its memories, averaged over {min(TRACED, found.trials)} "
        "trials. Dotted: where θ* or demand changes. After a change a long memory takes over what a short "
        "one knows, and its weight grows again.",
        figure,
    )


def trace(policy: Forgetful, setting: Setting, seed: int, trials: int) -> tuple[Ints, Floats]:
    """Rounds (m,) and the mean weights of memories after them (m, G), in the first trials of a setting."""
    batch: Any = TrialBatch(policy, setting.environment, setting.horizon, seed, tuple(range(trials)))
    every = max(setting.horizon // STEPS, 1)
    rounds, weights = [0], []
    for done, size, noise in batch.blocks():
        if done == 0:
            weights.append(batch.state.weight.mean(axis=0))
        played = np.empty((size, trials), dtype=np.int64)
        first = 0
        while first < size:
            last = min(size, first + every - (done + first) % every)
            arms, means, errors = batch.environments.between(first, last)
            paid = batch.environments.payments(means, errors)
            policy.play(batch.state, arms, paid, noise[first:last], played[first:last])
            first = last
            if (done + first) % every == 0:
                rounds.append(done + first)
                weights.append(batch.state.weight.mean(axis=0))
    return np.array(rounds), np.array(weights)


def _panels(found: Findings) -> tuple[Figure, list[Any]]:
    figure = Figure(figsize=(10.5, 6.6))
    figure.set_layout_engine("constrained", wspace=0.06)
    axes = list(figure.subplots(2, 3).ravel())
    for ax, setting in zip(axes, found.settings, strict=True):
        ax.set_title(str(setting.key[0]))
        ax.set_xlabel("round")
        ax.set_xlim(0, setting.horizon)
        ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        for moment in _changes(setting):
            ax.axvline(moment, color="#77787b", linewidth=0.9, linestyle=":", zorder=3)
    return figure, axes


def _changes(setting: Setting) -> list[int]:
    world: Any = setting.environment
    if setting.key == (OFTEN,):
        return list(range(world.every, setting.horizon, world.every))
    return [world.at] if setting.key == (ONCE,) or hasattr(world, "at") else []
