"""Run experiments, judge their claims and write the report: `run`."""

import contextlib
import difflib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from linmed import validation
from linmed.paper import provenance
from linmed.paper.arm_count import ArmCount
from linmed.paper.claims import Row
from linmed.paper.delayed_rewards import DelayedRewards
from linmed.paper.end_of_optimism import EndOfOptimism, EndOfOptimismAppendix
from linmed.paper.experiment import Cell, Data, Experiment, Findings, Scale
from linmed.paper.forgetting import Drift
from linmed.paper.large_gap import LargeGap
from linmed.paper.ledger import finals, ledger, markdown, records
from linmed.paper.logistic_clicks import ClickExperiment
from linmed.paper.offline_evaluation import OfflineEvaluation
from linmed.paper.output import Output
from linmed.paper.page import write_page
from linmed.paper.robustness import Robustness
from linmed.paper.roster import Variant
from linmed.paper.sequential import look_again
from linmed.paper.unit_ball import UnitBallArms, UnitBallDimension
from linmed.report.progress import Bar
from linmed.simulation.executors import default_workers, workers_of

DECISIVE_MINUTES = 110.0
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        OfflineEvaluation(),
        ArmCount(),
        LargeGap(),
        EndOfOptimism(),
        EndOfOptimismAppendix(),
        DelayedRewards(),
        UnitBallDimension(),
        UnitBallArms(),
        Robustness(),
        ClickExperiment(),
        Drift(),
    )
}
"""The paper's in the order of the report, then our own, which are run by themselves."""


@dataclass(frozen=True)
class Report:
    """What `run` leaves behind.

    >>> report = run("large-gap", trials=20, out="report")  # doctest: +SKIP
    >>> report.path.name, list(report.wall)  # doctest: +SKIP
    ('report.html', ['large-gap'])
    """

    path: Path
    """The page."""
    ledger: list[Row]
    findings: list[Findings]
    wall: dict[str, float]
    """Seconds of this run, by experiment: little where results were already there."""


def chosen(names: Sequence[str], variant: str = "text") -> list[Experiment]:
    """Find the experiments of these names, in the report's order; all of the paper's without names."""
    for name in names:
        if name not in EXPERIMENTS:
            near = difflib.get_close_matches(str(name), EXPERIMENTS, n=1, cutoff=0.4)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"no experiment is named {name!r}; there are {', '.join(EXPERIMENTS)}{hint}")
    found = [e for name, e in EXPERIMENTS.items() if (name in names if names else not e.ours)]
    own = next((experiment.name for experiment in found if experiment.ours), None)
    if own is not None and len(found) > 1:
        raise ValueError(f"{own} has a ledger of its own: run it by itself")
    if own is not None and variant != "text":
        raise ValueError(f"{own} is not in the authors' public code: leave --variant out")
    return found


def run(
    names: Sequence[str] = (),
    scale: Scale = "quick",
    variant: Variant | Literal["both"] = "text",
    out: str | Path = "linmed-report",
    workers: int | None = None,
    cluster: str | None = None,
    *,
    trials: int | None = None,
    horizon: int | None = None,
    seed: int = 0,
    movielens: str | Path | None = None,
    open_bandit: str | Path | None = None,
    minutes: float | None = None,
    progress: bool = True,
) -> Report:
    """Run the paper's experiments and write the report into `out`; what `out` already holds is not run again.

    names: experiments, all of the paper's by default; or one of our own by itself: "robustness", "clicks" or
        "drift". trials, horizon: instead of the scale's own, looked at once.
    variant: "both" runs and judges each experiment as the text has it and as the public code runs it.
    workers: processes (default: one per processor; 1 stays in this one). With more than one, call this
        from a program whose main part is guarded by `if __name__ == "__main__":`.
    cluster: address of a dask scheduler to use instead. movielens: an ml-100k directory.
    open_bandit: the folder of the Open Bandit Dataset, for "clicks"; without it its items are not played.
    minutes: after so long no claim is given further trials; the same call with more of them goes on.
        Unless given, 110 at the decisive scale; the others end by themselves.

    >>> run("large-gapp")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: no experiment is named 'large-gapp'; there are ... did you mean 'large-gap'?
    >>> report = run("large-gap", trials=20, out="report")  # doctest: +SKIP
    >>> sorted({row.verdict for row in report.ledger})  # doctest: +SKIP
    ['fails', 'holds', 'undecided']
    """
    names = [names] if isinstance(names, str) else names
    experiments = chosen(names, variant)
    validation.option("scale", scale, ("quick", "paper", "decisive"))
    validation.option("variant", variant, ("text", "as-run", "both"))
    seed = validation.whole("seed", seed, at_least=0)
    for name, value in (("trials", trials), ("horizon", horizon), ("workers", workers)):
        if value is not None:
            validation.whole(name, value)
    if minutes is None and scale == "decisive":
        minutes = DECISIVE_MINUTES
    deadline = None if minutes is None else time.monotonic() + 60.0 * validation.positive("minutes", minutes)
    data = Data(movielens, open_bandit)
    variants: tuple[Variant, ...] = ("text", "as-run") if variant == "both" else (variant,)
    plans = [e.plan(scale, v, horizon, trials, seed, data) for e in experiments for v in variants]
    sizes = [plan.experiment.rounds(plan) for plan in plans]
    own = experiments[0].ours
    output = Output(out)
    runs = provenance.remember(output, provenance.now())
    findings = []
    wall = {experiment.name: 0.0 for experiment in experiments}
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(workers_of(workers or default_workers(), cluster))
        bar = stack.enter_context(Bar(progress, "rounds", total=sum(sizes)))
        for number, plan in enumerate(plans, start=1):
            began = time.perf_counter()
            bar.begin(plan.experiment.title)
            findings.append(plan.experiment.run(plan, output, pool, bar))
            bar.reach(sum(sizes[:number]))
            wall[plan.experiment.name] += time.perf_counter() - began

        def play(found: Findings, cells: frozenset[Cell]) -> Findings:
            began = time.perf_counter()
            bar.begin(f"{found.experiment.title}, where claims are open")
            found = found.experiment.look_again(found, cells, output, pool, bar)
            bar.reach(sum(sizes))
            wall[found.experiment.name] += time.perf_counter() - began
            return found

        def missing(found: Findings, cell: Cell) -> int:
            return found.experiment.missing(found, cell, output)

        findings = look_again(findings, play, missing, workers or default_workers(), deadline)
    rows = ledger(findings)
    given = {"variant": None if own else variant, "trials": trials, "horizon": horizon, "seed": seed}
    said = [f"--{key} {value}" for key, value in given.items() if value is not None]
    said += [f"--{key.replace('_', '-')} …" for key, value in data._asdict().items() if value and own]
    command = " ".join(["linmed reproduce", *names, f"--scale {scale}", *said])
    output.write(output.ledger.name, records(rows, runs, command))
    output.write("ledger.md", markdown(rows, runs, command, own))
    output.write("finals.npz", finals(findings))
    write_page(output, findings, rows, wall, command, runs)
    return Report(output.report, rows, findings, wall)
