"""What is played: LinMED that forgets without a rate, and those who must be given one, where θ* moves."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from linmed.paper.experiment import Experiment, Findings, Numbers, Scale, Setting, Size, with_error
from linmed.paper.lineup import Variant
from linmed.paper.statistics import mean
from linmed.policies import DLinUCB, Forgetful, LinMED, Policy, SWLinUCB

if TYPE_CHECKING:
    from linmed.paper.drawing import Drawing

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
    """LinMED with one half-life."""
    return f"H = {half_life:g}"


FIXED = (NEVER, *map(fixed, HALF_LIVES))
"""All half-lives that one could have chosen, ∞ among them."""


def worlds(horizon: int) -> dict[str, Environment]:
    """By name; of fewer rounds than 3,000 the changes come as much earlier."""
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
    """Everybody, told σ and S."""
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
    """Ours alone: its rules are in this package, and its ledger is not the paper's."""

    name = "drift"
    title = "What forgetting costs and gains"
    place = "our addition"
    about = (
        "LinMED-90 that forgets without being told how fast, beside one that never does, fixed half-lives, "
        "D-LinUCB and SW-LinUCB with their published radii. Regret is against the best arm of every round; "
        "K = 10 arms and θ* on the unit sphere of d = 5 dimensions, σ = σ* = 0.3 known; δ = 1/(t+1)."
    )
    paper, quick, decisive = Size(3_000, 100), Size(600, 8), Size(3_000, 400)

    def settings(self, variant: Variant, horizon: int, movielens: Path | None = None) -> list[Setting]:
        """A setting for every world."""
        found = []
        for name, world in worlds(horizon).items():
            sigma, norm = (world.sigma, 2.0) if isinstance(world, Pricing) else (SIGMA, 1.0)
            found.append(Setting((name,), world, line_up(sigma, norm), horizon, sigma))
        return found

    def further(
        self, scale: Scale, variant: Variant, horizon: int, movielens: Path | None = None
    ) -> list[Setting]:
        """Nothing."""
        return []

    def drawings(self, found: Findings) -> "Iterator[Drawing]":
        """Regret by round, and which memory decides."""
        from linmed.paper.drift import figures  # matplotlib takes a second to import

        yield figures.curves(found)
        yield figures.memories(found)

    def numbers(self, found: Findings) -> Iterator[Numbers]:
        """Final regrets; the smallest of every world is marked."""
        names, keys = found.names(STILL), [setting.key for setting in found.settings]
        rows = [[name, *(with_error(mean(found.final(name, *key))) for key in keys)] for name in names]
        finals = np.array([[found.final(name, *key).mean() for key in keys] for name in names])
        best = {(int(row), column) for column, row in enumerate(finals.argmin(axis=0), start=1)}
        yield Numbers(
            f"Final regret ± standard error: n = {found.horizon:,}, {found.trials} trials",
            ["policy", *(str(key[0]) for key in keys)],
            rows,
            frozenset(best),
        )
        yield _after(found)


def _after(found: Findings) -> Numbers:
    """Of the worlds that change once: regret until then, and since."""
    keys = [key for key in ((ONCE,), (PRICES,)) if found.has(*key)]
    rows = []
    for name in found.names(STILL):
        row = [name]
        for key in keys:
            before = found.at(found.setting(*key).horizon / 2, name, *key)
            row += [with_error(mean(before)), with_error(mean(found.final(name, *key) - before))]
        rows.append(row)
    columns = [f"{key[0]}: {part}" for key in keys for part in ("before", "after")]
    return Numbers("Regret before and after the change ± standard error", ["policy", *columns], rows)


def memory(half_life: float) -> str:
    """A half-life in words."""
    return "never" if math.isinf(half_life) else f"half-life {half_life:g}"
