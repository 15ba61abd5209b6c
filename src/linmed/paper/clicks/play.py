"""The order of play: all cells, of the many a preview and then the few that are left; what is watched."""

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import fields, replace
from typing import Any

from linmed.paper.clicks.live import micros
from linmed.paper.clicks.measures import ClickFindings
from linmed.paper.clicks.problems import (
    FINALISTS,
    GRID,
    IDS,
    LOW,
    PREVIEW,
    RIVALS_TRIALS,
    SQUARECB,
)
from linmed.paper.clicks.replay import replayed
from linmed.paper.clicks.watching import WATCHED, Attainable, Watched
from linmed.paper.experiment import Cell, Findings, Setting
from linmed.paper.output import Output
from linmed.report.progress import Bar
from linmed.simulation import Store
from linmed.simulation.run import compute
from linmed.simulation.trials import Job, Outcome

WATCHED_TRIALS, WATCHED_ROUNDS = 20, 2_000
"""At most, of the calibration."""


def first_trials(found: Findings) -> dict[Cell, int]:
    """How often every policy is played in every setting before the finalists are known."""
    return {
        (s.key, policy.name): _first(s, policy.name, found.trials)
        for s in found.settings
        for policy in s.policies
    }


def _first(setting: Setting, name: str, trials: int) -> int:
    most = min(trials, setting.most or trials)
    if setting.key == (IDS,) and (name in GRID or name in SQUARECB):
        return min(most, PREVIEW)
    return min(most, RIVALS_TRIALS) if name in SQUARECB else most


def finalists(found: ClickFindings) -> dict[Cell, int]:
    """The guesses and the γ that did best in the preview, with the trials that all others have."""
    if not found.has(IDS):
        return {}
    most = min(found.trials, found.setting(IDS).most or found.trials)

    def best(names: Sequence[str], count: int) -> list[str]:
        there = [name for name in names if name in found.names(IDS)]
        return sorted(there, key=lambda name: float(found.final(name, IDS)[:PREVIEW].mean()))[:count]

    return {((IDS,), name): most for name in (*best(GRID, FINALISTS), *best(tuple(SQUARECB), 1))}


def played(
    plan: Findings, output: Output, executor: Executor | None, bar: Bar, simulated: Any, log: Any
) -> ClickFindings:
    """Everything; `simulated(found, wanted, …)` is how trials are played, `log` what is replayed, or None."""
    own = {f.name: getattr(plan, f.name) for f in fields(Findings) if f.init}
    found: ClickFindings = simulated(ClickFindings(**own), first_trials(plan), output, executor, bar)
    found = simulated(found, finalists(found), output, executor, bar)
    rounds, trials = min(found.horizon, WATCHED_ROUNDS), min(found.trials, WATCHED_TRIALS)
    low = found.setting(LOW[0])
    best: list[Job] = [
        Attainable(s.environment, s.horizon, found.seed, tuple(range(max(_counts(found, s)))))
        for s in found.settings
        if len(s.key) == 1
    ]
    watched: list[Job] = [
        Watched(low.environment, rounds, found.seed, tuple(range(trials)), policy)
        for policy in low.policies
        if policy.name in WATCHED
    ]
    beside = _computed([*best, *watched], output, executor, bar)
    keys = [s.key for s in found.settings if len(s.key) == 1]
    names = [policy.name for policy in low.policies if policy.name in WATCHED]
    return replace(
        found,
        best={key: beside[place]["attainable"] for place, key in enumerate(keys)},
        watched=dict(zip(names, beside[len(keys) :], strict=True)),
        watched_rounds=rounds,
        micros=micros(low.environment, rounds),
        replayed=() if log is None else replayed(log),
    )


def _counts(found: Findings, setting: Setting) -> list[int]:
    return [found.played((setting.key, policy.name)) for policy in setting.policies]


def _computed(jobs: list[Job], output: Output, executor: Executor | None, bar: Bar) -> list[Outcome]:
    workers = getattr(executor, "_max_workers", None) or 1
    batch = math.ceil(max(len(job.trials) for job in jobs) / workers)
    done = compute(jobs, batch, executor, 1, Store(output.store), bar)
    return [one.arrays for one in done]
