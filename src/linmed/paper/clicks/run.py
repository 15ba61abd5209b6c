"""`linmed reproduce clicks`: play, judge by our rules, write a report of its own."""

from pathlib import Path

from linmed.paper import own_report
from linmed.paper.clicks import rules
from linmed.paper.clicks.problems import ClickExperiment
from linmed.paper.experiment import Scale
from linmed.paper.run import Report


def run(
    scale: Scale = "quick",
    out: str | Path = "linmed-clicks",
    workers: int | None = None,
    cluster: str | None = None,
    *,
    trials: int | None = None,
    horizon: int | None = None,
    seed: int = 0,
    open_bandit: str | Path | None = None,
    vowpal_wabbit: str | None = None,
    progress: bool = True,
) -> Report:
    """Run the experiment and write its report into `out`; what `out` already holds is not run again.

    open_bandit: the folder of the Open Bandit Dataset; vowpal_wabbit: an interpreter that has it. Without
    them the report says what was not played.
    """
    given = {"open-bandit": open_bandit, "vowpal-wabbit": vowpal_wabbit}
    return own_report.reproduce(
        ClickExperiment(open_bandit, vowpal_wabbit), rules, scale, out, workers, cluster,
        trials=trials, horizon=horizon, seed=seed, progress=progress,
        given=[f"--{name} …" for name, value in given.items() if value],
    )  # fmt: skip
