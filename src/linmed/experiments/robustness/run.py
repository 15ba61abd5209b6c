"""`linmed reproduce robustness`: play, judge by our rules, write a report of its own."""

from pathlib import Path

from linmed.experiments import own_report
from linmed.experiments.experiment import Scale
from linmed.experiments.robustness import rules
from linmed.experiments.robustness.problems import Robustness
from linmed.experiments.run import Report


def run(
    scale: Scale = "quick",
    out: str | Path = "linmed-robustness",
    workers: int | None = None,
    cluster: str | None = None,
    *,
    trials: int | None = None,
    horizon: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Report:
    """Run the experiment and write its report into `out`; what `out` already holds is not run again."""
    return own_report.reproduce(
        Robustness(), rules, scale, out, workers, cluster,
        trials=trials, horizon=horizon, seed=seed, progress=progress,
    )  # fmt: skip
