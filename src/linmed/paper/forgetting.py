"""Play drift, an experiment of our own: forgetting without a rate, and rivals who must be given one."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from linmed.environments import (
    ChangeEvery,
    Environment,
    OneChange,
    Pricing,
    RandomWalk,
    Season,
    UnitBall,
)
from linmed.paper import drawing
from linmed.paper.experiment import Asked, Experiment, Findings, Numbers, Setting, Size, with_error
from linmed.paper.statistics import mean
from linmed.policies import DLinUCB, Forgetful, LinMED, Policy, SWLinUCB
from linmed.report.figures import POLICY
from linmed.report.tables import Table
from linmed.simulation.trials import TrialBatch
from linmed.validation import Floats, Ints

STILL, ONCE, OFTEN = "nothing changes", "one change", "a change every 500"
WALK, SEASON, PRICES = "random walk", "season", "prices, one change"
SIGMA = 0.3
"""σ* and σ of all but the prices: K = 10, d = 5, ‖θ*‖ = 1."""
OURS, NEVER = "Forgetful", "never forgets"
HALF_LIVES = (1000.0, 200.0, 50.0)
"""Each by itself is a rival; with ∞ they are what Forgetful chooses from."""
UNTOLD, MIXED = "Forgetful, σ unknown", "Forgetful, mixture"
FADED, WINDOWS = (200.0, 50.0), (500, 150)
"""Half-lives of D-LinUCB and windows of SW-LinUCB."""


def fixed(half_life: float) -> str:
    """Name LinMED with one half-life."""
    return f"H = {half_life:g}"


FIXED = (NEVER, *map(fixed, HALF_LIVES))
"""All half-lives that one could have chosen, ∞ among them."""
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


def worlds(horizon: int) -> dict[str, Environment]:
    """Make them by name; of fewer rounds than 3,000 the changes come as much earlier."""
    half, sixth = max(horizon // 2, 1), max(horizon // 6, 1)
    return {
        STILL: UnitBall(sigma=SIGMA),
        ONCE: OneChange(sigma=SIGMA, at=half),
        OFTEN: ChangeEvery(sigma=SIGMA, every=sixth),
        WALK: RandomWalk(sigma=SIGMA, step=0.01),
        SEASON: Season(sigma=SIGMA, period=max(horizon // 3, 2)),
        PRICES: Pricing(at=half),
    }


def line_up(sigma: float, norm_bound: float) -> tuple[Policy, ...]:
    """Make all policies, told σ and S."""
    told: dict[str, Any] = {"sigma": sigma, "norm_bound": norm_bound}
    own = LinMED(**told, confidence="mixture")
    untold = LinMED(sigma="unknown", norm_bound=norm_bound)
    return (
        Forgetful(own, label=OURS),
        Forgetful(own, combine="mixture", label=MIXED),
        Forgetful(untold, label=UNTOLD),
        LinMED(**told, confidence="mixture", label=NEVER),
        *(Forgetful(own, half_lives=(H,), label=fixed(H)) for H in HALF_LIVES),
        *(DLinUCB(**told, half_life=H, label=f"D-LinUCB, H = {H:g}") for H in FADED),
        *(SWLinUCB(**told, window=w, label=f"SW-LinUCB, w = {w}") for w in WINDOWS),
    )


class Drift(Experiment):
    """Ours alone, with a ledger apart from the paper's."""

    name = "drift"
    title = "What forgetting costs and gains"
    place = "our addition"
    about = (
        "LinMED-90 that forgets without being told how fast, beside one that never does, fixed half-lives, "
        "D-LinUCB and SW-LinUCB with their published radii. Regret is against the best arm of every round; "
        "K = 10 arms and θ* on the unit sphere of d = 5 dimensions, σ = σ* = 0.3 known; δ = 1/(t+1)."
    )
    paper, quick, decisive = Size(3_000, 100), Size(600, 8), Size(3_000, 400)
    ours = True

    def settings(self, asked: Asked) -> list[Setting]:
        """Return a setting for every world."""
        found = []
        for name, world in worlds(asked.horizon).items():
            sigma, norm = (world.sigma, 2.0) if isinstance(world, Pricing) else (SIGMA, 1.0)
            found.append(Setting((name,), world, line_up(sigma, norm), asked.horizon, sigma))
        return found

    def drawings(self, found: Findings) -> Iterator[drawing.Drawing]:
        """Draw regret by round, and which memory decides."""
        yield _curves(found)
        yield _memories(found)

    def numbers(self, found: Findings) -> Iterator[Numbers]:
        """Tabulate final regrets, and those before and after the change of worlds that change once."""
        names = found.names(STILL)
        yield Numbers(
            f"Final regret ± standard error: n = {found.horizon:,}, {found.trials} trials",
            Table(
                {"policy": name}
                | {str(s.key[0]): with_error(mean(found.final(name, *s.key))) for s in found.settings}
                for name in names
            ),
        )
        yield Numbers(
            "Regret before and after the change ± standard error",
            Table({"policy": name, **_parts(found, name)} for name in names),
        )


def _parts(found: Findings, name: str) -> dict[str, str]:
    """Of the worlds that change once: regret until then, and since."""
    parts = {}
    for key in ((ONCE,), (PRICES,)):
        before = found.at(found.setting(*key).horizon / 2, name, *key)
        parts[f"{key[0]}: before"] = with_error(mean(before))
        parts[f"{key[0]}: after"] = with_error(mean(found.final(name, *key) - before))
    return parts


def memory(half_life: float) -> str:
    """Put a half-life in words."""
    return "never" if math.isinf(half_life) else f"half-life {half_life:g}"


def _curves(found: Findings) -> drawing.Drawing:
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
        low, high = drawing.interval(
            own.mean(axis=0), np.array([one.error for one in errors]), False, len(own)
        )
        ax.fill_between(rounds, np.maximum(low, 0.0), high, color=LINES[OURS].light, alpha=0.14, linewidth=0)
        ax.set_ylim(0.0, 1.05 * highest or 1.0)
        drawing.numbered(ax.yaxis)
    axes[0].set_ylabel("regret against the moving optimum")
    axes[3].set_ylabel("regret against the moving optimum")
    drawing.legend(figure, axes[0], 5)
    return drawing.Drawing(
        found.experiment.name,
        "Mean regret against the best arm of every round. Dotted: where θ* or demand changes. Band: 95 % of "
        "Forgetful (Student's t). A half-life H or a window w must be chosen; Forgetful is told none.",
        figure,
    )


def _memories(found: Findings) -> drawing.Drawing:
    """The mean weight of every memory of Forgetful by round, one upon the other."""
    figure, axes = _panels(found)
    for ax, setting in zip(axes, found.settings, strict=True):
        policy: Any = next(policy for policy in setting.policies if policy.name == OURS)
        rounds, weights = trace(policy, setting, found.seed, min(TRACED, found.trials))
        shades = [POLICY[name].light for name in SHADES]
        labels = [memory(float(half_life)) for half_life in policy.half_lives]
        ax.stackplot(rounds, weights.T, colors=shades, labels=labels, alpha=0.85, linewidth=0)
        ax.set_ylim(0.0, 1.0)
        ax.yaxis.set_major_formatter(drawing.ticker.FuncFormatter(lambda y, _: f"{100 * y:.0f} %"))
        ax.grid(visible=False)
    axes[0].set_ylabel("weight")
    axes[3].set_ylabel("weight")
    drawing.legend(figure, axes[0], 4)
    return drawing.Drawing(
        f"{found.experiment.name}-memories",
        f"What Forgetful believes in: the weights of its memories, averaged over {min(TRACED, found.trials)} "
        "trials. Dotted: where θ* or demand changes. After a change a long memory takes over what a short "
        "one knows, and its weight grows again.",
        figure,
    )


def trace(policy: Forgetful, setting: Setting, seed: int, trials: int) -> tuple[Ints, Floats]:
    """Trace rounds (m,) and the mean weights of memories after them (m, G), in a setting's first trials."""
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


def _panels(found: Findings) -> tuple[Any, list[Any]]:
    figure = drawing.figures.Figure(figsize=(10.5, 6.6))
    figure.set_layout_engine("constrained", wspace=0.06)
    axes = list(figure.subplots(2, 3).ravel())
    for ax, setting in zip(axes, found.settings, strict=True):
        ax.set_title(str(setting.key[0]))
        drawing.rounds_axis(ax, setting.horizon)
        for moment in _changes(setting):
            ax.axvline(moment, color="#77787b", linewidth=0.9, linestyle=":", zorder=3)
    return figure, axes


def _changes(setting: Setting) -> list[int]:
    world: Any = setting.environment
    if setting.key == (OFTEN,):
        return list(range(world.every, setting.horizon, world.every))
    return [world.at] if setting.key == (ONCE,) or hasattr(world, "at") else []
