"""`run`: simulate the experiments, judge the claims, write the report."""

import contextlib
import difflib
import json
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from linmed import checks
from linmed.environments import MovieLens
from linmed.experiments.catalogue import EXPERIMENTS, Experiment, Key, Scale
from linmed.experiments.claims import Row, as_records, ledger
from linmed.experiments.findings import Findings
from linmed.experiments.lineup import Variant
from linmed.experiments.offline import OfflineSetting, columns, evaluate_offline, offline_setting
from linmed.experiments.output import Output
from linmed.experiments.pool import Watched, workers_of
from linmed.simulation import Results, Store, simulate
from linmed.simulation.batch import Task
from linmed.simulation.engine import default_workers

LOGS = 2
"""Logging policies of offline-evaluation."""


@dataclass(frozen=True)
class Report:
    """What `run` leaves behind."""

    path: Path
    """The page."""
    ledger: list[Row]
    findings: list[Findings]
    wall: dict[str, float]
    """Seconds of this run, by experiment: little where results were already there."""


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, in the report's order; all without names."""
    for name in names:
        if name not in EXPERIMENTS:
            near = difflib.get_close_matches(str(name), EXPERIMENTS, n=1, cutoff=0.4)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"no experiment is named {name!r}; there are {', '.join(EXPERIMENTS)}{hint}")
    return [experiment for name, experiment in EXPERIMENTS.items() if not names or name in names]


def run(
    names: Sequence[str] = (),
    scale: Scale = "quick",
    variant: Variant = "text",
    out: str | Path = "linmed-report",
    workers: int | None = None,
    cluster: str | None = None,
    *,
    trials: int | None = None,
    horizon: int | None = None,
    seed: int = 0,
    movielens: str | Path | None = None,
    progress: bool = True,
    command: str | None = None,
) -> Report:
    """Run the paper's experiments and write the report into `out`; what `out` already holds is not run again.

    names: experiments, all by default. trials, horizon: instead of the scale's own.
    workers: processes (default: one per processor; 1 stays in this one). With more than one, call this
        from a program whose main part is guarded by `if __name__ == "__main__":`.
    cluster: address of a dask scheduler to use instead. movielens: an ml-100k directory.
    command: how the report says it was made.
    """
    experiments = chosen([names] if isinstance(names, str) else names)
    checks.option("scale", scale, ("quick", "paper"))
    checks.option("variant", variant, ("text", "as-run"))
    seed = checks.whole("seed", seed, at_least=0)
    for name, value in (("trials", trials), ("horizon", horizon), ("workers", workers)):
        if value is not None:
            checks.whole(name, value)
    films = None if movielens is None else Path(movielens)
    plans = [_plan(experiment, scale, variant, horizon, trials, seed, films) for experiment in experiments]
    output = Output(out)
    store = Store(output.store)
    findings, wall = [], {}
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(workers_of(workers or default_workers(), cluster))
        bar = stack.enter_context(_Bar(progress, sum(plan.rounds for plan in plans)))
        for number, plan in enumerate(plans, start=1):
            began = time.perf_counter()
            bar.begin(plan.found.experiment.title)
            findings.append(plan.carry_out(output, store, Watched(pool, bar.finished)))
            bar.reach(sum(done.rounds for done in plans[:number]))
            wall[plan.found.experiment.name] = time.perf_counter() - began
    rows = ledger(findings)
    output.write(output.ledger.name, json.dumps(as_records(rows), indent=1, ensure_ascii=False))
    from linmed.experiments.page import write_page  # matplotlib takes a second to import

    write_page(
        output, findings, rows, wall, command or _command(names, scale, variant, trials, horizon, seed)
    )
    return Report(output.report, rows, findings, wall)


@dataclass(frozen=True)
class _Plan:
    """An experiment with its sizes, before it is run."""

    found: Findings
    offline: OfflineSetting | None

    @property
    def rounds(self) -> int:
        """Replica-rounds in all."""
        if self.offline is not None:
            return LOGS * self.found.horizon * self.found.trials
        return sum(s.horizon * len(s.policies) * self.found.trials for s in self.found.settings)

    def carry_out(self, output: Output, store: Store, executor: Executor) -> Findings:
        """The findings, with results."""
        found = self.found
        if self.offline is not None:
            table = evaluate_offline(self.offline, found.trials, output.offline, executor)
            return replace(found, scores=columns(table), seconds=float(table["seconds"].to_numpy().sum()))
        results: dict[Key, Results] = {}
        for setting in found.settings:
            results[setting.key] = simulate(
                setting.policies,
                setting.environment,
                setting.horizon,
                found.trials,
                found.seed,
                executor=executor,
                store=store,
                progress=False,
            )
        seconds = sum(r.seconds(name) for r in results.values() for name in r.names)
        return replace(found, results=results, seconds=seconds)


def _plan(
    experiment: Experiment,
    scale: Scale,
    variant: Variant,
    horizon: int | None,
    trials: int | None,
    seed: int,
    films: Path | None,
) -> _Plan:
    size = experiment.sizes[scale]
    n = size.horizon if horizon is None else horizon
    settings = tuple(experiment.settings(experiment, variant, n, films))
    notes = []
    if any(isinstance(getattr(s.environment, "env", s.environment), MovieLens) for s in settings):
        notes.append(
            "Features of the MovieLens 100K films and users."
            if films is not None
            else "Generated features of the shape of MovieLens 100K, not the real ones: `linmed data "
            "movielens` downloads those, and --movielens or LINMED_ML100K says where they are."
        )
    found = Findings(
        experiment,
        scale,
        variant,
        n,
        size.trials if trials is None else trials,
        seed,
        settings,
        notes=tuple(notes),
    )
    offline = offline_setting(variant, n, seed) if experiment.name == "offline-evaluation" else None
    return _Plan(found, offline)


def _command(
    names: Sequence[str], scale: str, variant: str, trials: int | None, horizon: int | None, seed: int
) -> str:
    words = ["linmed reproduce", *names, f"--scale {scale}", f"--variant {variant}"]
    words += [
        f"--{key} {value}" for key, value in (("trials", trials), ("horizon", horizon)) if value is not None
    ]
    return " ".join([*words, f"--seed {seed}"])


class _Bar:
    """A progress bar on standard error for the whole run, shown only where someone can see it."""

    def __init__(self, wanted: bool, total: int) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description:26}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not (wanted and console.is_terminal),
            transient=True,
        )
        self._task = self._progress.add_task("", total=total)

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def begin(self, title: str) -> None:
        """Say what is being done."""
        self._progress.update(self._task, description=title)

    def finished(self, *arguments: Any) -> None:
        """One batch is done: its replica-rounds, from the arguments it was started with."""
        if isinstance(arguments[0], Task):
            self._progress.advance(self._task, arguments[0].horizon * len(arguments[0].trials))
        else:
            self._progress.advance(self._task, LOGS * arguments[0].horizon * len(arguments[1]))

    def reach(self, rounds: int) -> None:
        """So much is done, some of it perhaps long ago."""
        self._progress.update(self._task, completed=rounds)
